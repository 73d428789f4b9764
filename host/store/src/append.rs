//! Adding messages: the same bytes are stored once, and every message can be found by its words at once.

use crate::bodies::Bodies;
use crate::branches;
use crate::error::{StoreError, while_doing};
use crate::sessions::count;
use crate::store::{MESSAGES, Store, now_ms, searching};
use engine_api::{Flags, Message, MessageId, PartKind, Role};
use host_search::Doc;
use rusqlite::{Connection, params};

/// A message on its way into the store.
pub(crate) struct Incoming {
    raw: String,
    pub(crate) identity: u64,
    /// Summaries that the host wrote into it.
    pub(crate) summaries: Vec<u64>,
    role: Role,
    flags: Flags,
    at_ms: i64,
    tools: Vec<String>,
    text: String,
}

impl Store {
    pub(crate) fn incoming(&self, message: &Message, at_ms: i64) -> Incoming {
        let mut tools: Vec<String> = Vec::new();
        for part in message.parts.iter().filter(|part| !part.tool_name.is_empty()) {
            if !tools.contains(&part.tool_name) {
                tools.push(part.tool_name.clone());
            }
        }
        Incoming {
            raw: message.raw.clone(),
            identity: self.inner.reader.identity(&message.raw),
            summaries: self.inner.reader.summaries(message),
            role: message.role,
            flags: message.flags,
            at_ms,
            tools,
            text: searchable(message),
        }
    }

    /// Adds messages to the end of a session's live branch and returns their ids; they are on disk when this returns.
    ///
    /// `at_ms` says when they were said, in milliseconds since 1970; none for now.
    ///
    /// # Errors
    /// Those of writing; then none of them was added.
    pub fn append<'m>(
        &self,
        session: i64,
        messages: impl IntoIterator<Item = (&'m Message, Option<i64>)>,
    ) -> Result<Vec<MessageId>, StoreError> {
        let now = now_ms();
        let incoming: Vec<Incoming> =
            messages.into_iter().map(|(message, at_ms)| self.incoming(message, at_ms.unwrap_or(now))).collect();
        if incoming.is_empty() {
            return Ok(Vec::new());
        }
        let bodies = self.inner.bodies.clone();
        self.write("storing messages", move |conn| {
            let branch = branches::live(conn, session)?;
            insert(conn, &bodies, session, branch, &incoming)
        })
    }
}

/// Inserts messages on a branch.
pub(crate) fn insert(
    conn: &Connection,
    bodies: &Bodies,
    session: i64,
    branch: i64,
    messages: &[Incoming],
) -> Result<Vec<MessageId>, StoreError> {
    let first = reserve(conn, messages.len() as u64)?;
    insert_at(conn, bodies, session, branch, first, messages)
}

/// Inserts messages under ids from `first` on, which were reserved.
pub(crate) fn insert_at(
    conn: &Connection,
    bodies: &Bodies,
    session: i64,
    branch: i64,
    first: u64,
    messages: &[Incoming],
) -> Result<Vec<MessageId>, StoreError> {
    let doing = while_doing("storing messages");
    let mut insert = conn
        .prepare_cached(
            "INSERT INTO messages (id, session, branch, body, identity, role, flags, at_ms, tools)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
        .map_err(&doing)?;
    let mut ids = Vec::with_capacity(messages.len());
    for (id, message) in (first..).zip(messages) {
        let body = bodies.put(conn, message.raw.as_bytes())?;
        let tools = (!message.tools.is_empty()).then(|| message.tools.join("\n"));
        insert
            .execute(params![
                count(id),
                session,
                branch,
                body,
                message.identity.cast_signed(),
                message.role.code(),
                message.flags.0,
                message.at_ms,
                tools
            ])
            .map_err(&doing)?;
        ids.push(MessageId(id));
    }
    let tools: Vec<Vec<&str>> =
        messages.iter().map(|message| message.tools.iter().map(String::as_str).collect()).collect();
    let docs: Vec<Doc<'_>> = (first..)
        .zip(messages)
        .zip(&tools)
        // What the host wrote is found among the summaries.
        .filter(|((_, message), _)| !message.flags.has(Flags::SYNTHETIC))
        .map(|((id, message), tools)| Doc {
            id: count(id),
            session,
            role: message.role,
            tools,
            depth: 0,
            at_ms: message.at_ms,
            text: &message.text,
        })
        .collect();
    MESSAGES.add(conn, &docs).map_err(searching)?;
    let newest = messages.iter().map(|message| message.at_ms).max().unwrap_or(0);
    conn.prepare_cached("UPDATE sessions SET updated_ms = max(updated_ms, ?2) WHERE id = ?1")
        .and_then(|mut update| update.execute(params![session, newest]))
        .map_err(&doing)?;
    Ok(ids)
}

/// Takes ids for messages and written rows, which share one row of numbers.
pub(crate) fn reserve(conn: &Connection, how_many: u64) -> Result<u64, StoreError> {
    let sql = "UPDATE counters SET next = next + ?1 WHERE name = 'message' RETURNING next - ?1";
    let mut update = conn.prepare_cached(sql).map_err(while_doing("numbering messages"))?;
    let first: i64 =
        update.query_row([count(how_many)], |row| row.get(0)).map_err(while_doing("numbering messages"))?;
    Ok(first.max(1).unsigned_abs())
}

/// Returns everything in a message that can be searched: text, tool names, arguments, results.
pub fn searchable(message: &Message) -> String {
    let mut out = String::new();
    for part in message.parts.iter().filter(|part| part.kind != PartKind::Opaque && !part.text.is_empty()) {
        if !out.is_empty() {
            out.push('\n');
        }
        if part.kind == PartKind::ToolCall {
            out.push_str(&part.tool_name);
            out.push(' ');
        }
        out.push_str(&part.text);
    }
    out
}
