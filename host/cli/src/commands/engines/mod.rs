//! `engines`: which engines there are, whether they may run, and which one is chosen.

mod change;
mod info;
mod list;
mod verify;

use crate::args::{EnginesCommand, Global};
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::ui::Ui;
use crate::words::meant;
use engine_api::ToolSchema;
use host_registry::{BUILTIN_NAME, Listing, State};
use host_tokens::Counter;

pub(crate) fn run(command: &EnginesCommand, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::open(global, ui);
    match command {
        EnginesCommand::List { strict } => list::run(*strict, &place, ui),
        EnginesCommand::Info { name } => info::run(name, &place, ui),
        EnginesCommand::Verify { path, run } => verify::run(path, *run, &place, ui),
        EnginesCommand::Install { path, trust } => change::install(path, *trust, &place, ui),
        EnginesCommand::Remove { name } => change::remove(name, &place, ui),
        EnginesCommand::Use { name, force } => change::choose(name, *force, &place, ui),
    }
}

/// Tells whether an engine's state is one that somebody should do something about.
fn is_problem(state: State) -> bool {
    !matches!(state, State::Ready | State::Selected | State::Disabled | State::Shadowed)
}

/// Returns the tokens that a tool's schema takes in every request.
fn tool_tokens(counter: &Counter, tool: &ToolSchema) -> u64 {
    serde_json::to_string(tool).map_or(0, |text| u64::from(counter.count(&text)))
}

/// Returns the engine that runs, and why it is not the chosen one, if it is not.
fn effective<'a>(chosen: &str, listings: &'a [Listing]) -> (&'a str, Option<&'a Listing>) {
    match listings.iter().find(|one| one.state == State::Selected) {
        Some(one) => (&one.name, None),
        None => (BUILTIN_NAME, listings.iter().find(|one| one.name == chosen)),
    }
}

/// Makes the error of a name that no engine has.
fn unknown(name: &str, listings: &[Listing]) -> CliError {
    let others = listings.iter().map(|one| one.name.as_str()).filter(|other| *other != name);
    let hint = match meant(name, others) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "`palimpsest engines list` shows the engines".to_owned(),
    };
    CliError::user(format!("there is no engine {name:?}")).hint(hint)
}
