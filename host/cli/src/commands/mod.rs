//! One file a command; each reads its arguments, does its work and prints through the one way out.

mod compact;
mod completions;
mod config;
mod doctor;
mod engines;
mod gateway;
mod plugins;
mod recall;
mod runner;
mod sessions;
mod tokens;
mod wrap;

pub(crate) use wrap::Client;

use crate::args::{Cli, Command};
use crate::error::CliError;
use crate::ui::Ui;

/// How a command ended that could do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// All is well.
    Done,
    /// It did its work, and what it found is a failure: a check that does not hold.
    Failed,
}

impl Status {
    /// Fails where something is wrong.
    pub(crate) fn failed_if(is_wrong: bool) -> Status {
        if is_wrong { Status::Failed } else { Status::Done }
    }
}

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli, ui: &Ui) -> Result<Status, CliError> {
    let global = &cli.global;
    match cli.command {
        Command::Compact(args) => compact::run(&args, global, ui),
        Command::Sessions(command) => sessions::run(&command, global, ui),
        Command::Recall(args) => recall::run(&args, global, ui),
        Command::Engines(command) => engines::run(&command, global, ui),
        Command::Config(command) => config::run(&command, global, ui),
        Command::Tokens(args) => tokens::run(&args, global, ui),
        Command::Gateway(args) => gateway::run(&args, global, ui),
        Command::Wrap(args) => wrap::wrap(&args, global, ui),
        Command::Unwrap(args) => wrap::unwrap(&args, global, ui),
        Command::Doctor => doctor::run(global, ui),
        Command::Plugins => plugins::run(global, ui),
        Command::Completions { shell } => completions::run(shell, ui),
        Command::EngineRunner(command) => runner::run(&command, ui),
    }
}
