//! Reads the SQLite stores of agent programs: all their sessions, newest first, through SQLite's own API.
//!
//! The database may be open in the program that owns it. It is opened read-only under SQLite's locks and never touched as
//! a file; each session is read in a transaction of its own, so that a writer of a database without WAL waits for one
//! session at most. Rows are fetched one by one, so that a damaged page costs the rows on it and no others.

mod hermes;
mod lcm;
mod lossless;
mod nodes;
mod notes;
mod open;
mod row;
mod table;

use crate::problems::Problems;
use crate::{Context, Conversation, Format, ImportError, Options};
use engine_api::{Dialect, Message};
use rusqlite::Connection;
use std::ops::ControlFlow;

pub(crate) use open::{Opened, open};

/// Names that an error lists.
const LISTED_MAX: usize = 20;

/// A session that can be read.
#[derive(Debug, Default)]
struct Found {
    /// Unique within the database.
    id: String,
    /// Another id it may be asked for by.
    other_id: String,
    /// Its highest row number: rows are numbered as they are written, while clocks go backwards.
    newest: i64,
    /// Whether a subagent held it; such a session is not what a person means by the newest one.
    is_side: bool,
    /// Its place in the store's own list.
    place: usize,
}

/// One of the stores.
trait Store {
    /// Lists the sessions that have messages.
    fn sessions(&self) -> Vec<Found>;
    /// Reads one of them; adds the bytes it held to `bytes`.
    fn read(&self, place: usize, context: &mut Context<'_>, bytes: &mut u64) -> Result<Conversation, ImportError>;
}

/// What was read beside the conversations.
pub(crate) struct Read {
    pub(crate) format: Format,
    pub(crate) problems: Problems,
    pub(crate) bytes: u64,
    /// Sessions that were not read, because `each` had enough.
    pub(crate) left_out: usize,
}

/// Reads the sessions of a database, or the one that is wanted, and hands each to `each` with the bytes read so far.
pub(crate) fn read(
    opened: Opened,
    wanted: Option<&str>,
    options: &Options,
    progress: &mut dyn FnMut(u64),
    each: &mut dyn FnMut(Conversation, u64) -> ControlFlow<()>,
) -> Result<Read, ImportError> {
    let Opened { connection, note } = opened;
    let format = recognise(&connection, options.format)?;
    let mut context = Context { options, problems: Problems::default() };
    if let Some(note) = note {
        context.problems.warn(None, || note.to_owned());
    }
    let store: Box<dyn Store + '_> = match format {
        Format::LosslessClaw => Box::new(lossless::LosslessStore::open(&connection, &mut context.problems)?),
        Format::HermesState => Box::new(hermes::HermesStore::open(&connection, &mut context.problems)?),
        _ => Box::new(lcm::LcmStore::open(&connection, &mut context.problems)?),
    };
    let mut sessions = store.sessions();
    sessions.sort_by(|a, b| (a.is_side, b.newest, &a.id).cmp(&(b.is_side, a.newest, &b.id)));
    if let Some(wanted) = wanted {
        let known: Vec<String> = sessions.iter().take(LISTED_MAX).map(|session| session.id.clone()).collect();
        let count = sessions.len();
        sessions.sort_by_key(|session| session.id != wanted);
        sessions.retain(|session| session.id == wanted || session.other_id == wanted);
        sessions.truncate(1);
        if sessions.is_empty() {
            return Err(ImportError::NoSession { wanted: wanted.to_owned(), count, known: known.join(", ") });
        }
    }
    let mut bytes = 0u64;
    let mut left_out = 0usize;
    let mut rest = sessions.iter();
    for session in rest.by_ref() {
        let transaction = connection.unchecked_transaction().map_err(|error| open::failed(&error))?;
        let conversation = store.read(session.place, &mut context, &mut bytes)?;
        // Nothing was written; ending the transaction gives the lock back.
        let _ended = transaction.finish();
        progress(bytes);
        if conversation.document.messages.is_empty() {
            let count = conversation.stored.as_ref().map_or(0, |stored| stored.nodes.len());
            context.problems.lost(None, || {
                format!("session {:?} has no readable message; it and its {count} summaries are left out", session.id)
            });
            continue;
        }
        if each(conversation, bytes).is_break() {
            break;
        }
    }
    left_out += rest.count();
    Ok(Read { format, problems: context.problems, bytes, left_out })
}

/// Tells which store a database is.
fn recognise(connection: &Connection, given: Option<Format>) -> Result<Format, ImportError> {
    let names = table::names(connection)?;
    let has = |name: &str, columns: &[&str]| -> Result<bool, ImportError> {
        if !names.iter().any(|one| one == name) {
            return Ok(false);
        }
        let known = table::columns(connection, name)?;
        Ok(columns.iter().all(|column| known.iter().any(|one| one == column)))
    };
    let found = if has("messages", &["store_id", "session_id"])? {
        Some(Format::HermesLcm)
    } else if has("messages", &["message_id", "conversation_id"])? {
        Some(Format::LosslessClaw)
    } else if has("messages", &["id", "session_id", "role"])? && has("sessions", &["id", "source"])? {
        Some(Format::HermesState)
    } else {
        None
    };
    let what = match (found, given) {
        (Some(found), None) => return Ok(found),
        (Some(found), Some(given)) if found == given => return Ok(found),
        (Some(found), Some(given)) => format!("it is a store of {found}, not of {given}"),
        (None, _) if names.is_empty() => "it has no tables".to_owned(),
        (None, _) => {
            let more = names.len().saturating_sub(LISTED_MAX);
            let listed = names.iter().take(LISTED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "its tables are those of no known store ({listed}{more}); read are {}, {} and {}",
                Format::HermesState,
                Format::HermesLcm,
                Format::LosslessClaw
            )
        }
    };
    Err(ImportError::Database { what })
}

/// Makes a conversation of messages that keep the order of their rows.
fn conversation(
    id: &str,
    kind: crate::Kind,
    model: Option<String>,
    mut messages: Vec<Message>,
    stored: crate::Stored,
) -> Conversation {
    host_wire::number(&mut messages);
    let members = model.map(|model| ("model".to_owned(), crate::json::quote(&model))).into_iter().collect();
    let title = stored.session.title.clone();
    let made = crate::conversation(id, title, kind, Dialect::OpenAiChat, members, messages);
    Conversation { stored: Some(Box::new(stored)), ..made }
}
