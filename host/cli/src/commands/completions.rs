//! `completions`: the completion script of a shell.

use crate::args::Cli;
use crate::commands::Status;
use crate::error::CliError;
use crate::ui::Ui;
use clap::CommandFactory as _;
use clap_complete::Shell;
use serde_json::json;

pub(crate) fn run(shell: Shell, ui: &Ui) -> Result<Status, CliError> {
    let script = script(shell);
    if ui.is_json() {
        ui.json(&json!({ "shell": shell.to_string(), "script": script }))?;
    } else {
        ui.out(&script)?;
    }
    Ok(Status::Done)
}

fn script(shell: Shell) -> String {
    let mut command = Cli::command();
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut command, "palimpsest", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn every_shell_has_a_script_that_names_the_commands() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for word in ["compact", "engines", "doctor", "context-length"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            assert_eq!(crate::safe::styled(&script), script, "{shell}: the way out must not change a script");
        }
    }
}
