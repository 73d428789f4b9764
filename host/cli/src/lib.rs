//! The command line: reads what is asked for, runs it, and turns whatever happens into output and an exit code.
//!
//! `args` holds the whole command line; `commands` has one file a command; every byte that is printed goes through `ui`.

mod args;
mod check;
mod commands;
mod error;
mod input;
mod output;
mod place;
mod receipt;
mod safe;
mod shelf;
mod time;
mod told;
mod ui;
mod words;

#[cfg(test)]
mod page;

use args::{Cli, Global};
use clap::Parser as _;
use clap::error::ErrorKind;
use commands::Status;
use error::CliError;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use ui::Ui;

/// The last panic of the program's own thread. Those of engines are caught where engines are called, and are no
/// faults of the program.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let main_thread = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == main_thread {
            remember(info);
        }
    }));
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, arguments.iter().any(|one| one == "--json")),
    };
    let ui = Ui::new(&cli.global);
    let outcome = catch_unwind(AssertUnwindSafe(|| commands::run(cli, &ui)));
    let failure = match outcome {
        Ok(Ok(Status::Done)) => return ExitCode::SUCCESS,
        Ok(Ok(Status::Failed)) => return ExitCode::from(1),
        Ok(Err(error)) => error,
        Err(_) => {
            let what = LAST_PANIC.lock().ok().and_then(|mut last| last.take());
            CliError::internal("internal error").cause(what.unwrap_or_default())
        }
    };
    ui.error(&failure);
    ExitCode::from(failure.code())
}

fn remember(info: &PanicHookInfo<'_>) {
    if let Ok(mut last) = LAST_PANIC.lock() {
        *last = Some(match info.location() {
            Some(place) => format!("{} at {place}", info.payload_as_str().unwrap_or("a panic")),
            None => info.payload_as_str().unwrap_or("a panic").to_owned(),
        });
    }
}

/// Prints help or what is wrong with the command line.
fn usage(error: &clap::Error, is_json: bool) -> ExitCode {
    let is_failure = error.use_stderr();
    if is_json && is_failure && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let text = error.to_string();
        let mut paragraphs = text.trim().split("\n\n");
        let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
        let failure = CliError::usage(message.split_whitespace().collect::<Vec<_>>().join(" "))
            .hint("`palimpsest --help` and `palimpsest COMMAND --help` show what is understood");
        Ui::new(&Global { json: true, ..Global::default() }).error(&failure);
    } else {
        // Nobody may be there to read the help.
        let _ = error.print();
    }
    ExitCode::from(if is_failure { 2 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn settled_forms_are_understood() {
        for line in [
            "palimpsest compact - --engine lcm --model m --context-length 200000 --focus t --force --dry-run --json",
            "palimpsest compact f --from codex --to anthropic -o out.json --history full --session 2 --estimate",
            "palimpsest compact f --call lcm_grep={\"query\":\"x\"} --call lcm_status",
            "palimpsest engines list --strict --json",
            "palimpsest --home h --plugins a --plugins b --config c.yaml engines install p --trust",
            "palimpsest engines use lcm --force",
            "palimpsest config set compression.threshold 60%",
            "palimpsest config explain --model m --context-length 200000",
            "palimpsest tokens f --model gpt-5",
            "palimpsest sessions import a.jsonl b.json --from codex",
            "palimpsest sessions list text --limit 3 --offset 2 --json",
            "palimpsest sessions show s --all --raw --after 3 --limit 2",
            "palimpsest sessions export s --jsonl -o out",
            "palimpsest sessions export --all",
            "palimpsest sessions verify --deep",
            "palimpsest sessions compact s --force --offline --keep 3 -- here 2",
            "palimpsest sessions diff s 2",
            "palimpsest sessions undo s --to 4",
            "palimpsest sessions gc --dry-run --keep 3",
            "palimpsest sessions pin s --regex never --role user",
            "palimpsest recall s words --role tool --tool bash --since 3d --sort newest --kind messages",
            "palimpsest recall s --message 3 --raw",
            "palimpsest engine-runner probe lib.so",
            "palimpsest completions bash",
        ] {
            let parsed = Cli::try_parse_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn wrong_forms_are_refused() {
        for line in [
            "palimpsest",
            "palimpsest compact",
            "palimpsest compact f --to xml",
            "palimpsest compact f --from nothing",
            "palimpsest compact f -o out --dry-run",
            "palimpsest compact f --context-length 0",
            "palimpsest compact f --call x={",
            "palimpsest compact f --call ={}",
            "palimpsest engines use",
            "palimpsest sessions import",
            "palimpsest sessions export",
            "palimpsest sessions export s --all",
            "palimpsest sessions pin s",
            "palimpsest sessions diff s 0",
            "palimpsest recall s",
            "palimpsest recall s words --message 3",
            "palimpsest recall s words --since yesterday",
            "palimpsest recall s words --regex --phrase",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
