//! Hermes' `state.db`: sessions with the state of each message. Read as of schema 22; older ones lack columns.
//!
//! The live history is the rows that are active, with the text that was really sent where the store kept it apart. The
//! full one is every row in the order in which it was written: what a compaction replaced, what the person took back, the
//! summaries, and the copies that a compaction in place makes of the messages it keeps.

use super::row::{At, message};
use super::table::{Keys, RowReader, Table};
use super::{Found, Store, notes};
use crate::build::{Mark, parse};
use crate::json::quote;
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, ImportedRow, ImportedSession, Kind, RowState, Stored};
use engine_api::Dialect;
use rusqlite::Connection;
use std::collections::HashMap;

/// Newest schema whose columns are known.
const SCHEMA_KNOWN: i64 = 22;
const MESSAGE_COLUMNS: [&str; 15] = [
    "role",
    "content",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "timestamp",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
    "active",
    "compacted",
    "api_content",
    "_compressed_summary",
];
/// Columns that say nothing of what was said.
const OTHER_COLUMNS: [&str; 10] = [
    "id",
    "session_id",
    "effect_disposition",
    "token_count",
    "finish_reason",
    "platform_message_id",
    "observed",
    "display_kind",
    "display_metadata",
    "display_order",
];
const SESSION_COLUMNS: [&str; 9] =
    ["id", "source", "model", "system_prompt", "parent_session_id", "started_at", "ended_at", "end_reason", "title"];

#[derive(Default)]
struct Session {
    id: String,
    /// Whether the table of sessions holds it.
    is_known: bool,
    source: String,
    model: Option<String>,
    system: String,
    parent: Option<String>,
    end_reason: String,
    ended_ms: Option<i64>,
    title: String,
    started_ms: Option<i64>,
    rows: Vec<i64>,
}

pub(super) struct HermesStore<'c> {
    messages: Table<'c>,
    sessions: Vec<Session>,
    by_id: HashMap<String, usize>,
}

impl<'c> HermesStore<'c> {
    pub(super) fn open(connection: &'c Connection, problems: &mut Problems) -> Result<Self, ImportError> {
        let messages = Table::need(connection, "messages", &["id", "session_id", "role", "content"])?;
        let known: Vec<&str> = MESSAGE_COLUMNS.iter().chain(&OTHER_COLUMNS).copied().collect();
        messages.note_unknown(&known, problems);
        if let Some(table) = Table::find(connection, "schema_version")? {
            let version = super::table::first_number(connection, "SELECT max(version) FROM schema_version");
            let _read = table;
            if let Some(version) = version.filter(|version| *version > SCHEMA_KNOWN) {
                problems.warn(None, || {
                    format!("schema {version} of the database is newer than {SCHEMA_KNOWN}, which is known here; what it added is not read")
                });
            }
        }
        let mut keys = messages.keys("id", "session_id", problems);
        messages.note_missing("id", "session_id", &keys, problems);
        let mut sessions = described(connection, &mut keys, problems)?;
        let mut orphans: Vec<(String, Vec<i64>)> = keys.into_iter().collect();
        orphans.sort_by_key(|(_, rows)| rows.first().copied());
        for (id, rows) in orphans {
            problems.note(None, || format!("session {id:?} has messages and no row in table sessions"));
            sessions.push(Session { id, rows, ..Session::default() });
        }
        let empty = sessions.iter().filter(|session| session.rows.is_empty()).count();
        if empty > 0 {
            problems.note(None, || format!("{empty} sessions without messages left out"));
        }
        let by_id = sessions.iter().enumerate().map(|(place, session)| (session.id.clone(), place)).collect();
        Ok(HermesStore { messages, sessions, by_id })
    }

    // A child of a compaction goes on with its parent's conversation, and so does one that began when its parent had
    // ended. One that began while its parent was at work is a subagent's; newer schemas say so in its source.
    fn kind(&self, session: &Session) -> Kind {
        let parent = session.parent.as_ref().and_then(|parent| self.by_id.get(parent));
        let parent = parent.and_then(|parent| self.sessions.get(*parent));
        match (session.source.as_str(), parent) {
            ("subagent" | "tool", _) => Kind::Sidechain,
            (_, None) => Kind::Main,
            (_, Some(parent)) => match parent.end_reason.as_str() {
                "compression" => Kind::Main,
                "branched" => Kind::Branch,
                _ if parent.ended_ms.is_some_and(|ended| session.started_ms.is_some_and(|began| began >= ended)) => {
                    Kind::Main
                }
                _ => Kind::Sidechain,
            },
        }
    }
}

fn described(connection: &Connection, keys: &mut Keys, problems: &mut Problems) -> Result<Vec<Session>, ImportError> {
    let table = Table::need(connection, "sessions", &["id"])?;
    let mut reader = table.reader("rowid", &SESSION_COLUMNS, crate::LINE_BYTES_MAX)?;
    let mut bytes = 0;
    let mut sessions = Vec::new();
    let mut numbers: Vec<i64> = table.keys("rowid", "''", problems).into_values().flatten().collect();
    numbers.sort_unstable();
    for number in numbers {
        let Some(mut cells) = reader.row(number, &mut bytes, problems) else { continue };
        let Some(id) = cells.text("id") else {
            problems.lost(None, || format!("row {number} of table sessions has no id; left out"));
            continue;
        };
        sessions.push(Session {
            is_known: true,
            source: cells.text("source").unwrap_or_default(),
            model: cells.text("model"),
            system: cells.text("system_prompt").unwrap_or_default(),
            parent: cells.text("parent_session_id"),
            end_reason: cells.text("end_reason").unwrap_or_default(),
            ended_ms: cells.time("ended_at"),
            title: cells.text("title").unwrap_or_default(),
            started_ms: cells.time("started_at"),
            rows: keys.remove(&id).unwrap_or_default(),
            id,
        });
    }
    Ok(sessions)
}

impl Store for HermesStore<'_> {
    fn sessions(&self) -> Vec<Found> {
        let with_rows = self.sessions.iter().enumerate().filter(|(_, session)| !session.rows.is_empty());
        let found = with_rows.map(|(place, session)| Found {
            id: session.id.clone(),
            other_id: session.title.clone(),
            newest: session.rows.last().copied().unwrap_or(0),
            is_side: self.kind(session) == Kind::Sidechain,
            place,
        });
        found.collect()
    }

    fn read(&self, place: usize, context: &mut Context<'_>, bytes: &mut u64) -> Result<Conversation, ImportError> {
        let nothing = Session::default();
        let session = self.sessions.get(place).unwrap_or(&nothing);
        let is_live = context.is_live();
        let limit = context.options.line_bytes_max;
        let problems = &mut context.problems;
        let mut reader: RowReader<'_> = self.messages.reader("id", &MESSAGE_COLUMNS, limit)?;
        let mut messages = Vec::with_capacity(session.rows.len());
        let mut rows: Vec<ImportedRow> = Vec::with_capacity(session.rows.len());
        for row in &session.rows {
            let Some(mut cells) = reader.row(*row, bytes, problems) else { continue };
            let state = match (cells.integer("active"), cells.integer("compacted")) {
                (Some(0), Some(compacted)) if compacted != 0 => RowState::Compacted,
                (Some(0), _) => RowState::Rewound,
                _ => RowState::Live,
            };
            if is_live && state != RowState::Live {
                continue;
            }
            let sent = cells.text("api_content");
            let in_place = sent.as_deref().filter(|_| is_live);
            let created_ms = cells.time("timestamp");
            let at = At { table: "messages", row: *row };
            if let Some(message) = message(at, &mut cells, in_place, problems) {
                messages.push(message);
                rows.push(ImportedRow { row: Some(*row), created_ms, state, sent });
            }
        }
        // The prompt is the session's; a transcript may hold one of its own.
        let has_own = messages.first().is_some_and(|message| message.role == engine_api::Role::System);
        if !session.system.is_empty() && !has_own && !messages.is_empty() {
            let raw = format!("{{\"role\":\"system\",\"content\":{}}}", quote(&session.system));
            if let Some(message) = parse(Dialect::OpenAiChat, &raw, Mark::AsRead, None, problems) {
                messages.insert(0, message);
                rows.insert(0, ImportedRow { created_ms: session.started_ms, ..ImportedRow::default() });
            }
        }
        notes::session(&session.id, &messages, &rows, problems);
        if let Some(parent) = session.parent.as_ref().filter(|parent| !self.by_id.contains_key(*parent)) {
            problems.note(None, || format!("session {:?} names the parent {parent:?}, which is not there", session.id));
        }
        let first_ms = rows.iter().find_map(|row| row.created_ms);
        let described = ImportedSession {
            id: session.id.clone(),
            title: session.title.clone(),
            parent: session.parent.clone(),
            started_ms: session.started_ms.or(first_ms.filter(|_| !session.is_known)),
            platform: session.source.clone(),
        };
        let stored = Stored { session: described, rows, nodes: Vec::new() };
        Ok(super::conversation(&session.id, self.kind(session), session.model.clone(), messages, stored))
    }
}
