//! Stores of hermes-lcm and its fork LCM-X: message rows and summary nodes with their sources as a list. Read as of
//! schema 5; older ones lack columns.
//!
//! The store keeps messages and summaries apart and derives what the model is sent. The live history does the same: the
//! nodes that no other node was made of, and the messages that no node was made of.

use super::nodes::{RawNode, numbers, resolve};
use super::row::{At, message};
use super::table::{Keys, Table};
use super::{Found, Store, notes};
use crate::build::{Mark, parse};
use crate::json::quote;
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, ImportedNode, ImportedRow, ImportedSession, Kind, Stored};
use engine_api::{Dialect, Message, PartKind, Role};
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Newest schema whose columns are known.
const SCHEMA_KNOWN: i64 = 5;
const MESSAGE_COLUMNS: [&str; 8] =
    ["role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp", "observed_at", "source"];
/// Columns that say nothing of what was said.
const OTHER_COLUMNS: [&str; 7] =
    ["store_id", "session_id", "token_estimate", "pinned", "conversation_id", "ingested_at", "observed_at_source"];
const NODE_COLUMNS: [&str; 6] = ["depth", "summary", "source_ids", "source_type", "created_at", "expand_hint"];

pub(super) struct LcmStore<'c> {
    messages: Table<'c>,
    nodes: Option<Table<'c>>,
    /// Sessions in the order of their first row, with their rows.
    sessions: Vec<(String, Vec<i64>)>,
    node_keys: Keys,
    parents: HashMap<String, String>,
}

impl<'c> LcmStore<'c> {
    pub(super) fn open(connection: &'c Connection, problems: &mut Problems) -> Result<Self, ImportError> {
        let messages = Table::need(connection, "messages", &["store_id", "session_id", "role", "content"])?;
        let known: Vec<&str> = MESSAGE_COLUMNS.iter().chain(&OTHER_COLUMNS).copied().collect();
        messages.note_unknown(&known, problems);
        if Table::find(connection, "metadata")?.is_some() {
            let sql = "SELECT CAST(value AS INTEGER) FROM metadata WHERE key = 'schema_version'";
            if let Some(version) = super::table::first_number(connection, sql).filter(|version| *version > SCHEMA_KNOWN)
            {
                problems.warn(None, || {
                    format!("schema {version} of the database is newer than {SCHEMA_KNOWN}, which is known here; what it added is not read")
                });
            }
        }
        let nodes = Table::find(connection, "summary_nodes")?;
        let nodes = nodes.filter(|table| {
            let is_whole = ["node_id", "session_id", "summary"].iter().all(|column| table.has(column));
            if !is_whole {
                problems.lost(None, || "table summary_nodes lacks columns; no summaries are read".to_owned());
            }
            is_whole
        });
        if nodes.is_none() {
            problems
                .warn(None, || "the database has no readable table summary_nodes; no summaries are read".to_owned());
        }
        let keys = messages.keys("store_id", "session_id", problems);
        messages.note_missing("store_id", "session_id", &keys, problems);
        let mut sessions: Vec<(String, Vec<i64>)> = keys.into_iter().collect();
        sessions.sort_by_key(|(_, rows)| rows.first().copied());
        let node_keys = match &nodes {
            Some(table) => table.keys("node_id", "session_id", problems),
            None => Keys::new(),
        };
        let with_messages: HashSet<&str> = sessions.iter().map(|(id, _)| id.as_str()).collect();
        let alone = node_keys.iter().filter(|(id, _)| !with_messages.contains(id.as_str()));
        let (alone_sessions, alone_nodes) =
            alone.fold((0usize, 0usize), |(sessions, nodes), (_, keys)| (sessions + 1, nodes + keys.len()));
        if alone_sessions > 0 {
            problems
                .lost(None, || format!("{alone_nodes} nodes of {alone_sessions} sessions without messages left out"));
        }
        let parents = parents(connection, problems)?;
        Ok(LcmStore { messages, nodes, sessions, node_keys, parents })
    }

    fn raw_nodes(
        &self,
        session: &str,
        limit: usize,
        bytes: &mut u64,
        problems: &mut Problems,
    ) -> Result<Vec<RawNode>, ImportError> {
        let (Some(table), Some(keys)) = (&self.nodes, self.node_keys.get(session)) else { return Ok(Vec::new()) };
        let mut reader = table.reader("node_id", &NODE_COLUMNS, limit)?;
        let mut nodes = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(mut cells) = reader.row(*key, bytes, problems) else { continue };
            let at = At { table: "summary_nodes", row: *key };
            let sources = cells.text("source_ids").map(|list| numbers(at, &list, problems)).unwrap_or_default();
            let mut node = RawNode {
                id: key.to_string(),
                depth: cells.integer("depth").unwrap_or(0),
                text: cells.text("summary").unwrap_or_default(),
                created_ms: cells.time("created_at"),
                ..RawNode::default()
            };
            match cells.text("source_type").as_deref() {
                Some("nodes") => node.nodes = sources.iter().map(i64::to_string).collect(),
                None | Some("messages") => node.messages = sources,
                Some(other) => problems
                    .warn(None, || format!("{at} has sources of the kind {other:?}; the node is kept without them")),
            }
            nodes.push(node);
        }
        Ok(nodes)
    }
}

// Which session each went on from: the store remembers the one before the current one.
fn parents(connection: &Connection, problems: &mut Problems) -> Result<HashMap<String, String>, ImportError> {
    let mut parents = HashMap::new();
    let Some(table) = Table::find(connection, "lcm_lifecycle_state")? else { return Ok(parents) };
    let columns = ["current_session_id", "last_finalized_session_id"];
    let mut reader = table.reader("rowid", &columns, crate::LINE_BYTES_MAX)?;
    for number in table.keys("rowid", "''", problems).into_values().flatten() {
        let Some(mut cells) = reader.row(number, &mut 0, problems) else { continue };
        let [current, before] = columns.map(|column| cells.text(column));
        if let (Some(current), Some(before)) = (current, before)
            && current != before
        {
            parents.insert(current, before);
        }
    }
    Ok(parents)
}

impl Store for LcmStore<'_> {
    fn sessions(&self) -> Vec<Found> {
        let found = self.sessions.iter().enumerate().map(|(place, (id, rows))| Found {
            id: id.clone(),
            newest: rows.last().copied().unwrap_or(0),
            place,
            ..Found::default()
        });
        found.collect()
    }

    fn read(&self, place: usize, context: &mut Context<'_>, bytes: &mut u64) -> Result<Conversation, ImportError> {
        let nothing = (String::new(), Vec::new());
        let (id, keys) = self.sessions.get(place).unwrap_or(&nothing);
        let is_live = context.is_live();
        let limit = context.options.line_bytes_max;
        let problems = &mut context.problems;
        let mut reader = self.messages.reader("store_id", &MESSAGE_COLUMNS, limit)?;
        let mut messages: Vec<Message> = Vec::with_capacity(keys.len());
        let mut rows: Vec<ImportedRow> = Vec::with_capacity(keys.len());
        let mut places: HashMap<i64, Range<usize>> = HashMap::with_capacity(keys.len());
        let mut platform = String::new();
        for key in keys {
            let Some(mut cells) = reader.row(*key, bytes, problems) else { continue };
            if platform.is_empty() {
                platform = cells.text("source").filter(|source| source != "unknown").unwrap_or_default();
            }
            let written = cells.time("timestamp");
            let created_ms = cells.time("observed_at").or(written);
            let at = At { table: "messages", row: *key };
            if let Some(message) = message(at, &mut cells, None, problems) {
                places.insert(*key, messages.len()..messages.len() + 1);
                messages.push(message);
                rows.push(ImportedRow { row: Some(*key), created_ms, ..ImportedRow::default() });
            }
        }
        notes::session(id, &messages, &rows, problems);
        let raw_nodes = self.raw_nodes(id, limit, bytes, problems)?;
        let mut nodes = resolve(raw_nodes, &places, "summary_nodes", problems);
        let started_ms = rows.iter().find_map(|row| row.created_ms);
        if is_live {
            (messages, rows) = live(messages, rows, &nodes, problems);
            nodes = Vec::new();
        }
        let session = ImportedSession {
            id: id.clone(),
            title: String::new(),
            parent: self.parents.get(id).cloned(),
            started_ms,
            platform,
        };
        let stored = Stored { session, rows, nodes };
        Ok(super::conversation(id, Kind::Main, None, messages, stored))
    }
}

// What stands for the messages that were summarised goes behind the system messages at the head, deepest first.
fn live(
    messages: Vec<Message>,
    rows: Vec<ImportedRow>,
    nodes: &[ImportedNode],
    problems: &mut Problems,
) -> (Vec<Message>, Vec<ImportedRow>) {
    let within: HashSet<usize> = nodes.iter().flat_map(|node| node.nodes.iter().copied()).collect();
    let covered: HashSet<usize> = nodes.iter().flat_map(|node| node.messages.iter().copied()).collect();
    let mut frontier: Vec<&ImportedNode> =
        nodes.iter().enumerate().filter(|(at, _)| !within.contains(at)).map(|(_, node)| node).collect();
    if frontier.is_empty() {
        return (messages, rows);
    }
    frontier.sort_by_key(|node| std::cmp::Reverse(node.depth));
    let texts: Vec<String> = frontier
        .iter()
        .map(|node| format!("[Summary, depth {}, node {}]\n{}", node.depth, node.id, node.text))
        .collect();
    let raw = format!("{{\"role\":\"user\",\"content\":{}}}", quote(&texts.join("\n\n")));
    let head = messages.iter().take_while(|message| matches!(message.role, Role::System | Role::Developer)).count();
    let mut summary = parse(Dialect::OpenAiChat, &raw, Mark::Summary, None, problems);
    let mut kept_messages = Vec::new();
    let mut kept_rows = Vec::new();
    let mut called: HashSet<String> = HashSet::new();
    let mut orphans = 0usize;
    for (at, (message, row)) in messages.into_iter().zip(rows).enumerate() {
        if at >= head
            && let Some(summary) = summary.take()
        {
            kept_messages.push(summary);
            kept_rows.push(ImportedRow::default());
        }
        if at >= head && covered.contains(&at) {
            continue;
        }
        called.extend(
            message.parts.iter().filter(|part| part.kind == PartKind::ToolCall).map(|part| part.call_id.clone()),
        );
        // Its call is in the summary, and a result alone would be refused.
        let is_orphan = message.role == Role::Tool
            && message.parts.iter().any(|part| part.kind == PartKind::ToolResult && !called.contains(&part.call_id));
        if is_orphan {
            orphans += 1;
            continue;
        }
        kept_messages.push(message);
        kept_rows.push(row);
    }
    if let Some(summary) = summary {
        kept_messages.push(summary);
        kept_rows.push(ImportedRow::default());
    }
    if orphans > 0 {
        problems
            .note(None, || format!("{orphans} results whose calls were summarised are not part of the live history"));
    }
    (kept_messages, kept_rows)
}
