//! `sessions export`: a session as a request body in its dialect, or sessions as lines that hold everything.

use crate::args::ExportArgs;
use crate::commands::Status;
use crate::error::CliError;
use crate::output;
use crate::place::Place;
use crate::shelf;
use crate::ui::Ui;
use crate::words::counted;
use engine_api::Dialect;
use host_runtime::{LiveSession, Options};
use host_store::{Carried, SessionRow, Store};
use host_wire::Document;
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Bytes gathered before they are handed to the system.
const BUFFER_BYTES: usize = 256 * 1024;

pub(crate) fn run(args: &ExportArgs, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let out = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    if let Some(path) = out {
        output::check(path)?;
    }
    if args.all && args.full {
        return Err(CliError::usage("--full is for one session").hint("--all writes everything of every session"));
    }
    if args.all || args.jsonl {
        return lines(args, out, place, ui);
    }
    let Some(name) = &args.session else { return Err(CliError::usage("name a session, or say --all")) };
    let (session, text) = if args.full {
        let store = shelf::open_to_read(place)?;
        let session = shelf::find(&store, name)?;
        let text = whole(&store, &session)?;
        (session, text)
    } else {
        let store = shelf::open_existing(place)?;
        let session = shelf::find(&store, name)?;
        let text = in_sight(&store, &session, place)?;
        (session, text)
    };
    match out {
        Some(path) => output::write(path, &text)?,
        None if ui.is_json() => {}
        None => ui.document(&text)?,
    }
    if ui.is_json() {
        let body =
            if out.is_none() { serde_json::from_str(&text).unwrap_or_default() } else { serde_json::Value::Null };
        ui.json(&json!({
            "session": session.name, "dialect": session.dialect, "bytes": text.len(), "written_to": out, "conversation": body,
        }))?;
    } else if let Some(path) = out {
        ui.note(&format!("written to {}", path.display()));
    }
    Ok(Status::Done)
}

/// Returns the request body that the model would be sent next.
fn in_sight(store: &Store, session: &SessionRow, place: &Place) -> Result<String, CliError> {
    let options = Options { session_id: session.name.clone(), ..Options::default() };
    // The built-in compressor is always there; nothing is asked of it.
    let options = Options { engine: Some(host_registry::BUILTIN_NAME.to_owned()), estimate: true, ..options };
    let live = LiveSession::resume(store, place.config.clone(), &place.registry(), &place.home, options)
        .and_then(|live| live.write());
    live.map_err(|error| {
        CliError::user(format!("session {:?} could not be written", session.name))
            .because(&error)
            .hint("`palimpsest sessions export S --jsonl` writes what is stored, as it is stored")
    })
}

/// Returns a request body with all that was said on the live branch.
fn whole(store: &Store, session: &SessionRow) -> Result<String, CliError> {
    let shell = store.load(session.key, 0).map_err(shelf::failed)?.shell;
    let shell = shell.unwrap_or_else(|| match session.dialect {
        Dialect::Responses => "{\"input\":[]}".to_owned(),
        _ => "{\"messages\":[]}".to_owned(),
    });
    let document = Document::read(&shell, Some(session.dialect)).map_err(|error| {
        CliError::user(format!("the request body of session {:?} is not readable", session.name)).because(&error)
    })?;
    let ids = store.branch_messages(session.key).map_err(shelf::failed)?;
    let rows = store.messages(&ids).map_err(shelf::failed)?;
    Ok(document.write(rows.iter().map(|row| row.raw.as_str())))
}

fn lines(args: &ExportArgs, out: Option<&Path>, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    if out.is_none() && ui.is_json() {
        return Err(
            CliError::usage("lines and a JSON document do not go to the same place").hint("name a file with -o")
        );
    }
    let store = shelf::open_to_read(place)?;
    let session = match &args.session {
        Some(name) if !args.all => Some(shelf::find(&store, name)?),
        _ => None,
    };
    let key = session.as_ref().map(|session| session.key);
    let carried: Carried = match out {
        Some(path) => {
            let mut carried = Err(CliError::internal("nothing was exported"));
            output::write_with(path, &mut |file| {
                let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
                carried = store.export(key, &mut file).map_err(shelf::failed);
                // An export that failed leaves no file behind.
                match &carried {
                    Ok(_) => file.flush(),
                    Err(error) => Err(io::Error::other(error.message.clone())),
                }
            })?;
            carried?
        }
        None => {
            let mut stdout = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
            let carried = store.export(key, &mut stdout).map_err(shelf::failed)?;
            stdout.flush().map_err(|error| CliError::user("could not write to standard output").because(&error))?;
            carried
        }
    };
    if ui.is_json() {
        ui.json(&json!({ "written_to": out, "carried": carried }))?;
        return Ok(Status::Done);
    }
    let what = format!(
        "{}, {}, {}",
        counted(carried.sessions, "session"),
        counted(carried.messages, "message"),
        counted(carried.nodes, "summary node")
    );
    match carried.unreadable {
        0 => ui.note(&format!("{what} written")),
        count => ui.warn(&format!("{what} written; {} of the damaged store could not be read", counted(count, "row"))),
    }
    Ok(Status::Done)
}
