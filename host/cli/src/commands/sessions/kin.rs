//! `sessions fork` and `new`: sessions that come from another.

use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::ui::Ui;
use crate::words::counted;
use host_store::Child;
use serde_json::json;

pub(crate) fn fork(session: &str, name: &str, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_existing(place)?;
    let from = shelf::find(&store, session)?;
    let row = store.fork(from.key, Child { name: name.to_owned(), title: None }).map_err(shelf::failed)?;
    let shared = store.branch_messages(row.key).map_err(shelf::failed)?.len() as u64;
    if ui.is_json() {
        ui.json(&json!({ "session": row, "shared_messages": shared }))?;
        return Ok(Status::Done);
    }
    let line = format!("{} goes on from {}, with whom it shares {}", row.name, from.name, counted(shared, "message"));
    ui.out(&format!("{}\n", safe::line(&line)))?;
    Ok(Status::Done)
}

pub(crate) fn begin(session: &str, name: &str, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_existing(place)?;
    let from = shelf::find(&store, session)?;
    let depth = place.config.context.carry_over_depth.map(|depth| u32::try_from(depth).unwrap_or(u32::MAX));
    let child = Child { name: name.to_owned(), title: None };
    let (row, carried) = store.begin_next(from.key, child, depth).map_err(shelf::failed)?;
    if ui.is_json() {
        ui.json(&json!({ "session": row, "summaries_carried_over": carried }))?;
        return Ok(Status::Done);
    }
    let line = format!(
        "{} is begun with {}; {} has ended, and is still searched from it",
        row.name,
        if carried == 1 { "1 summary carried over".to_owned() } else { format!("{carried} summaries carried over") },
        from.name
    );
    ui.out(&format!("{}\n", safe::line(&line)))?;
    Ok(Status::Done)
}
