//! `engine-runner`: the process in which a library is tried, so that a crash of it ends nothing else.
//!
//! It runs without an environment, and must not read settings or look for anything else.

use crate::args::RunnerCommand;
use crate::commands::Status;
use crate::error::CliError;
use crate::ui::Ui;

pub(crate) fn run(command: &RunnerCommand, ui: &Ui) -> Result<Status, CliError> {
    match command {
        RunnerCommand::Probe { path } => ui.json(&host_registry::probe_here(path))?,
    }
    Ok(Status::Done)
}
