//! `sessions`: what is done with the conversations of the store, one file a command.

mod compact;
mod diff;
mod export;
mod import;
mod kin;
mod pins;
mod receipts;
mod show;
mod undo;
mod upkeep;

use crate::args::{Global, ListArgs, SessionsCommand};
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::time;
use crate::ui::{Ui, dim};
use crate::words::{counted, grouped, table};
use host_store::{SessionFilter, SessionRow};
use serde_json::json;

pub(crate) fn run(command: &SessionsCommand, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::open(global, ui);
    match command {
        SessionsCommand::Import(args) => import::run(args, &place, ui),
        SessionsCommand::List(args) => list(args, &place, ui),
        SessionsCommand::Show(args) => show::run(args, &place, ui),
        SessionsCommand::Export(args) => export::run(args, &place, ui),
        SessionsCommand::Verify { session, deep } => upkeep::verify(session.as_deref(), *deep, &place, ui),
        SessionsCommand::Compact(args) => compact::run(args, &place, ui),
        SessionsCommand::Diff { session, compaction } => diff::run(session, *compaction, &place, ui),
        SessionsCommand::Undo { session, to } => undo::undo(session, *to, &place, ui),
        SessionsCommand::Redo { session } => undo::redo(session, &place, ui),
        SessionsCommand::Receipts { session, compaction } => receipts::run(session, *compaction, &place, ui),
        SessionsCommand::Gc { dry_run, keep, shrink } => upkeep::gc(*dry_run, *keep, *shrink, &place, ui),
        SessionsCommand::Backup { file } => upkeep::backup(file, &place, ui),
        SessionsCommand::Fork { session, name } => kin::fork(session, name, &place, ui),
        SessionsCommand::New { session, name } => kin::begin(session, name, &place, ui),
        SessionsCommand::Pin(args) => pins::pin(args, &place, ui),
        SessionsCommand::Unpin { session, pin } => pins::unpin(session, *pin, &place, ui),
        SessionsCommand::Pins { session } => pins::list(session, &place, ui),
    }
}

fn list(args: &ListArgs, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let filter = SessionFilter { text: args.text.clone().unwrap_or_default(), offset: args.offset, limit: args.limit };
    let (rows, total) = match shelf::is_there(place) {
        true => shelf::open_to_read(place)?.sessions(&filter).map_err(shelf::failed)?,
        false => (Vec::new(), 0),
    };
    if ui.is_json() {
        ui.json(&json!({ "store": shelf::path(place), "total": total, "offset": args.offset, "sessions": rows }))?;
        return Ok(Status::Done);
    }
    if rows.is_empty() {
        ui.note(&match &args.text {
            _ if total > 0 => format!("there are only {}", counted(total, "session")),
            Some(text) => format!("no session has {} in its id or title", safe::line(text)),
            None => "no sessions yet; `palimpsest sessions import FILE` takes one in".to_owned(),
        });
        return Ok(Status::Done);
    }
    let count = rows.len() as u64;
    let lines = rows.iter().map(|row| {
        vec![
            safe::line(&row.name),
            grouped(row.messages),
            time::shown(row.updated_ms),
            row.dialect.to_string(),
            safe::line(&row.model),
            safe::line(&about(row)),
        ]
    });
    ui.out(&table(&["SESSION", "MESSAGES", "LAST USED", "DIALECT", "MODEL", "TITLE"], lines.collect(), &[1], 0))?;
    let rest = total.saturating_sub(args.offset.saturating_add(count));
    if rest > 0 {
        let next = args.offset.saturating_add(count);
        ui.note(&dim(&format!("… and {}; --offset {next} goes on", counted(rest, "more session"))));
    }
    Ok(Status::Done)
}

/// Letters of a title in a list.
const TITLE_CHARS_MAX: usize = 60;

/// Returns a session's title, and what it comes from.
fn about(row: &SessionRow) -> String {
    let mut out: String = row.title.chars().take(TITLE_CHARS_MAX).collect();
    if row.title.chars().nth(TITLE_CHARS_MAX).is_some() {
        out.push('…');
    }
    if let Some(parent) = &row.parent {
        out.push_str(&format!(" ({} of {parent})", row.kinship));
    }
    if row.ended_ms.is_some() {
        out.push_str(" [ended]");
    }
    out.trim_start().to_owned()
}
