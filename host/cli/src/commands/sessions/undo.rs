//! `sessions undo` and `redo`: the view before a compaction becomes live again, and the other way round.

use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::ui::Ui;
use crate::words::counted;
use host_store::{SessionRow, Store};
use serde_json::json;

pub(crate) fn undo(name: &str, to: Option<i64>, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_existing(place)?;
    let session = shelf::find(&store, name)?;
    // While it is held, no compaction of another process begins or ends.
    let lease = store.lease(session.key, &holder()).map_err(shelf::failed)?;
    let view = match to {
        Some(view) => store.go_to_view(session.key, view).map(|()| Some(view)),
        None => store.undo(session.key),
    };
    let view = view.map_err(|error| {
        let error = shelf::failed(error);
        match session.kinship.as_str() {
            "rotation" | "fork" => {
                let parent = session.parent.clone().unwrap_or_default();
                error.cause(format!("it comes from session {parent} by {}, which has what was before", session.kinship))
            }
            _ => error,
        }
    })?;
    lease.release();
    told(&store, &session, "undone", view, ui)
}

pub(crate) fn redo(name: &str, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_existing(place)?;
    let session = shelf::find(&store, name)?;
    let lease = store.lease(session.key, &holder()).map_err(shelf::failed)?;
    let Some(view) = store.next_view(session.key).map_err(shelf::failed)? else {
        return Err(CliError::user(format!("session {:?} has no undone compaction to take back", session.name))
            .hint("`palimpsest sessions receipts` shows the session's compactions"));
    };
    store.go_to_view(session.key, view).map_err(shelf::failed)?;
    lease.release();
    told(&store, &session, "redone", Some(view), ui)
}

/// Says who holds a session's lease.
pub(crate) fn holder() -> String {
    format!("process {}", std::process::id())
}

fn told(store: &Store, session: &SessionRow, what: &str, view: Option<i64>, ui: &Ui) -> Result<Status, CliError> {
    let count = store.load(session.key, 0).map_err(shelf::failed)?.messages.len() as u64;
    if ui.is_json() {
        ui.json(&json!({ "session": session.name, "done": what, "view": view, "messages": count }))?;
        return Ok(Status::Done);
    }
    let now = match view {
        Some(view) => format!("view {view}"),
        None => "everything as it was said".to_owned(),
    };
    let line = format!("{}: {what}; the model sees {now}, {}", session.name, counted(count, "message"));
    ui.out(&format!("{}\n", safe::line(&line)))?;
    Ok(Status::Done)
}
