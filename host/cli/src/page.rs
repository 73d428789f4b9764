//! Renders the reference page of the command line from its definitions, and holds the page equal to them.

use crate::args::Cli;
use clap::{Arg, Command, CommandFactory as _};
use std::fmt::Write as _;
use std::path::Path;

/// The page, from the folder of this crate.
const PAGE: &str = "../../docs/cli.md";

#[test]
fn the_reference_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let rendered = render();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &rendered).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(found == rendered, "docs/cli.md differs from its rendering; UPDATE_EXPECT=1 rewrites it");
}

#[test]
fn the_page_names_every_command_and_no_hidden_one() {
    let page = render();
    for heading in
        ["## palimpsest compact", "### palimpsest engines use", "### palimpsest config explain", "## palimpsest doctor"]
    {
        assert!(page.contains(&format!("\n{heading}\n")), "{heading}");
    }
    assert!(!page.contains("engine-runner"));
}

fn render() -> String {
    let mut root = Cli::command();
    root.build();
    let mut out = String::from(
        "<!-- Rendered from the definitions in host/cli/src/args.rs; change it there. -->\n\n# Command line\n\n",
    );
    if let Some(about) = root.get_long_about() {
        let _ = writeln!(out, "{about}\n");
    }
    out.push_str(
        "Results go to standard output; receipts, notes, warnings and errors to standard error. With `--json` the result, or \
         the error, is one JSON document on standard output.\n\n\
         | Exit code | Meaning |\n|---|---|\n| 0 | done; also when something simpler was used in place of what was asked for |\n\
         | 1 | an error in what was asked for or in its data, or a check that does not hold |\n| 2 | an error in the command line |\n\
         | 255 | a fault of the program |\n\n## Options of every command\n\n",
    );
    options(&mut out, root.get_arguments().filter(|arg| arg.is_global_set()));
    for command in root.get_subcommands_mut() {
        section(&mut out, command, 2);
    }
    let _ = write!(out, "{}", formats());
    out
}

fn section(out: &mut String, command: &mut Command, level: usize) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let _ = writeln!(out, "{} {name}\n", "#".repeat(level));
    if let Some(about) = command.get_about() {
        let _ = writeln!(out, "{about}.\n");
    }
    if !command.has_subcommands() {
        let usage = command.render_usage().to_string();
        let _ = writeln!(out, "```\n{}\n```\n", usage.trim_start_matches("Usage: ").trim());
        options(out, command.get_arguments().filter(|arg| !arg.is_global_set()));
    }
    for inner in command.get_subcommands_mut() {
        section(out, inner, level + 1);
    }
}

fn options<'a>(out: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let rows: Vec<String> = arguments
        .filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"))
        .map(row)
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(out, "| Option | Meaning |\n|---|---|\n{}\n", rows.join("\n"));
    }
}

fn row(arg: &Arg) -> String {
    let values: Vec<&str> = arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let takes_values = arg.get_num_args().is_some_and(|count| count.takes_values());
    let value = if takes_values { values.join(" ") } else { String::new() };
    let names = [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))];
    let names: Vec<String> = names.into_iter().flatten().collect();
    let shown = if names.is_empty() { value } else { format!("{} {value}", names.join(", ")) };
    let mut meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let possible: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|_| takes_values && !arg.is_hide_possible_values_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !possible.is_empty() {
        let _ = write!(meaning, ": {}", possible.join(", "));
    }
    let default: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_values && !default.is_empty() {
        let _ = write!(meaning, " [default: {}]", default.join(", "));
    }
    format!("| `{}` | {} |", shown.trim().replace('|', "\\|"), meaning.replace('|', "\\|"))
}

fn formats() -> String {
    let mut out = String::from(
        "## Formats\n\nA file is recognised by its content; `--from` names its format.\n\n| Format | Known by |\n|---|---|\n",
    );
    for format in host_import::Format::ALL {
        let _ = writeln!(out, "| `{format}` | {} |", format.known_by().replace('|', "\\|"));
    }
    out
}
