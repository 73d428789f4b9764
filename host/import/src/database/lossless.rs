//! Stores of lossless-claw: conversations, message rows with their blocks in `message_parts`, a graph of summaries, and
//! the list of items that the model is sent. Read as of version 0.15; older ones lack columns.
//!
//! The live history is that list; the full one is every message in the order of its sequence numbers.

mod blocks;

use super::nodes::{RawNode, resolve};
use super::table::{Cell, Keys, RowReader, Table};
use super::{Found, Store, notes};
use crate::build::{Mark, parse};
use crate::json::quote;
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, ImportedRow, ImportedSession, Kind, Stored};
use blocks::{Blocks, Written};
use engine_api::{Dialect, Message};
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

const CONVERSATION_COLUMNS: [&str; 5] = ["conversation_id", "session_id", "session_key", "title", "created_at"];
const MESSAGE_COLUMNS: [&str; 4] = ["seq", "role", "content", "created_at"];
/// Columns that say nothing of what was said.
const OTHER_COLUMNS: [&str; 6] =
    ["message_id", "conversation_id", "token_count", "identity_hash", "large_content", "transcript_entry_id"];
const SUMMARY_COLUMNS: [&str; 5] = ["summary_id", "kind", "depth", "content", "created_at"];

struct Described {
    /// Number of the conversation, as text.
    number: String,
    id: String,
    session: ImportedSession,
    rows: Vec<i64>,
}

pub(super) struct LosslessStore<'c> {
    connection: &'c Connection,
    messages: Table<'c>,
    conversations: Vec<Described>,
    summaries: Option<Table<'c>>,
    summary_keys: Keys,
}

/// What the model is sent, in order.
enum Item {
    Message(i64),
    Summary(String),
}

impl<'c> LosslessStore<'c> {
    pub(super) fn open(connection: &'c Connection, problems: &mut Problems) -> Result<Self, ImportError> {
        let needed = ["message_id", "conversation_id", "role", "content"];
        let messages = Table::need(connection, "messages", &needed)?;
        let known: Vec<&str> = MESSAGE_COLUMNS.iter().chain(&OTHER_COLUMNS).copied().collect();
        messages.note_unknown(&known, problems);
        let keys = messages.keys("message_id", "conversation_id", problems);
        messages.note_missing("message_id", "conversation_id", &keys, problems);
        let summaries = Table::find(connection, "summaries")?;
        let summaries = summaries
            .filter(|table| ["summary_id", "conversation_id", "content"].iter().all(|column| table.has(column)));
        let summary_keys = match &summaries {
            Some(table) => table.keys("rowid", "conversation_id", problems),
            None => {
                problems
                    .lost(None, || "the database has no readable table summaries; no summaries are read".to_owned());
                Keys::new()
            }
        };
        let conversations = described(connection, keys, problems)?;
        Ok(LosslessStore { connection, messages, conversations, summaries, summary_keys })
    }

    fn raw_nodes(
        &self,
        conversation: &Described,
        limit: usize,
        bytes: &mut u64,
        problems: &mut Problems,
    ) -> Result<Vec<RawNode>, ImportError> {
        let keys = self.summary_keys.get(&conversation.number);
        let (Some(table), Some(keys)) = (&self.summaries, keys) else { return Ok(Vec::new()) };
        let mut reader = table.reader("rowid", &SUMMARY_COLUMNS, limit)?;
        let mut of_messages = self.edges("summary_messages", "message_id", limit, problems)?;
        let mut of_nodes = self.edges("summary_parents", "parent_summary_id", limit, problems)?;
        let mut nodes = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(mut cells) = reader.row(*key, bytes, problems) else { continue };
            let Some(id) = cells.text("summary_id") else {
                problems.lost(None, || format!("row {key} of table summaries has no id; left out"));
                continue;
            };
            let messages = of_messages.as_mut().map(|edges| edges.rows(&id, bytes, problems)).unwrap_or_default();
            let below = of_nodes.as_mut().map(|edges| edges.rows(&id, bytes, problems)).unwrap_or_default();
            nodes.push(RawNode {
                depth: cells.integer("depth").unwrap_or(0),
                text: cells.text("content").unwrap_or_default(),
                created_ms: cells.time("created_at"),
                messages: messages.iter().filter_map(|edge| edge.integer("message_id")).collect(),
                nodes: below.into_iter().filter_map(|mut edge| edge.text("parent_summary_id")).collect(),
                id,
            });
        }
        Ok(nodes)
    }

    fn edges(
        &self,
        name: &'static str,
        column: &'static str,
        limit: usize,
        problems: &mut Problems,
    ) -> Result<Option<RowReader<'c>>, ImportError> {
        let table = Table::find(self.connection, name)?.filter(|table| table.has("summary_id") && table.has(column));
        let Some(table) = table else {
            problems.lost(None, || format!("the database has no readable table {name}; summaries are kept without it"));
            return Ok(None);
        };
        let order = if table.has("ordinal") { "ORDER BY ordinal" } else { "" };
        table.selection(&format!("WHERE summary_id = ?1 {order}"), &[column], limit).map(Some)
    }

    fn parts(&self, limit: usize, problems: &mut Problems) -> Result<Option<RowReader<'c>>, ImportError> {
        let table = Table::find(self.connection, "message_parts")?.filter(|table| table.has("message_id"));
        let Some(table) = table else {
            problems.lost(None, || {
                "the database has no readable table message_parts; messages have their text only".to_owned()
            });
            return Ok(None);
        };
        let order = if table.has("ordinal") { "ORDER BY ordinal" } else { "" };
        table.selection(&format!("WHERE message_id = ?1 {order}"), &blocks::COLUMNS, limit).map(Some)
    }

    fn items(
        &self,
        conversation: &Described,
        limit: usize,
        bytes: &mut u64,
        problems: &mut Problems,
    ) -> Result<Vec<Item>, ImportError> {
        let columns = ["message_id", "summary_id"];
        let table = Table::find(self.connection, "context_items")?
            .filter(|table| table.has("conversation_id") && columns.iter().all(|column| table.has(column)));
        let Some(table) = table else { return Ok(Vec::new()) };
        let mut reader = table.selection("WHERE conversation_id = ?1 ORDER BY ordinal", &columns, limit)?;
        // Conversations are numbered; a number kept as text is compared as the column's type.
        let rows = reader.rows(&conversation.number, bytes, problems);
        let items =
            rows.into_iter().filter_map(|mut cells| match (cells.integer("message_id"), cells.text("summary_id")) {
                (_, Some(id)) => Some(Item::Summary(id)),
                (Some(row), None) => Some(Item::Message(row)),
                (None, None) => None,
            });
        Ok(items.collect())
    }
}

fn described(connection: &Connection, mut keys: Keys, problems: &mut Problems) -> Result<Vec<Described>, ImportError> {
    let mut all: Vec<Described> = Vec::new();
    match Table::find(connection, "conversations")?.filter(|table| table.has("conversation_id")) {
        None => problems.warn(None, || {
            "the database has no readable table conversations; they are known by their numbers".to_owned()
        }),
        Some(table) => {
            let mut reader = table.reader("rowid", &CONVERSATION_COLUMNS, crate::LINE_BYTES_MAX)?;
            let mut numbers: Vec<i64> = table.keys("rowid", "''", problems).into_values().flatten().collect();
            numbers.sort_unstable();
            for row in numbers {
                let Some(mut cells) = reader.row(row, &mut 0, problems) else { continue };
                let Some(number) = cells.take("conversation_id").into_text() else { continue };
                let Some(rows) = keys.remove(&number) else { continue };
                let session = ImportedSession {
                    id: cells.text("session_id").unwrap_or_default(),
                    title: cells.text("title").unwrap_or_default(),
                    parent: None,
                    started_ms: cells.time("created_at"),
                    platform: cells.text("session_key").unwrap_or_default(),
                };
                all.push(Described { number, id: String::new(), session, rows });
            }
        }
    }
    let mut orphans: Vec<(String, Vec<i64>)> = keys.into_iter().collect();
    orphans.sort_by_key(|(_, rows)| rows.first().copied());
    for (number, rows) in orphans {
        problems.note(None, || format!("conversation {number} has messages and no row in table conversations"));
        all.push(Described { number, id: String::new(), session: ImportedSession::default(), rows });
    }
    // A session that began anew has several conversations.
    let mut counts: HashMap<String, usize> = HashMap::new();
    for one in &all {
        *counts.entry(one.session.id.clone()).or_default() += 1;
    }
    for one in &mut all {
        one.id = match counts.get(&one.session.id) {
            Some(1) if !one.session.id.is_empty() => one.session.id.clone(),
            _ if one.session.id.is_empty() => one.number.clone(),
            _ => format!("{}/{}", one.session.id, one.number),
        };
    }
    Ok(all)
}

impl Store for LosslessStore<'_> {
    fn sessions(&self) -> Vec<Found> {
        let found = self.conversations.iter().enumerate().map(|(place, one)| Found {
            id: one.id.clone(),
            other_id: one.session.id.clone(),
            newest: one.rows.last().copied().unwrap_or(0),
            is_side: kind(one) != Kind::Main,
            place,
        });
        found.collect()
    }

    fn read(&self, place: usize, context: &mut Context<'_>, bytes: &mut u64) -> Result<Conversation, ImportError> {
        let Some(conversation) = self.conversations.get(place) else {
            return Ok(super::conversation("", Kind::Main, None, Vec::new(), Stored::default()));
        };
        let is_live = context.is_live();
        let limit = context.options.line_bytes_max;
        let problems = &mut context.problems;
        let raw_nodes = self.raw_nodes(conversation, limit, bytes, problems)?;
        let mut items = if is_live { self.items(conversation, limit, bytes, problems)? } else { Vec::new() };
        if is_live && items.is_empty() {
            problems.note(None, || {
                format!(
                    "session {:?} has no list of what the model is sent; all its messages are taken",
                    conversation.id
                )
            });
        }
        let is_listed = !items.is_empty();
        let wanted: HashSet<i64> =
            items.iter().filter_map(|item| if let Item::Message(row) = item { Some(*row) } else { None }).collect();
        let mut reader = self.messages.reader("message_id", &MESSAGE_COLUMNS, limit)?;
        let mut parts = self.parts(limit, problems)?;
        let mut read: HashMap<i64, (Written, Option<i64>)> = HashMap::new();
        let mut order: Vec<(i64, i64)> = Vec::with_capacity(conversation.rows.len());
        for row in conversation.rows.iter().filter(|row| !is_listed || wanted.contains(row)) {
            let Some(mut cells) = reader.row(*row, bytes, problems) else { continue };
            let created_ms = cells.time("created_at");
            let role = cells.text("role").unwrap_or_default();
            let content = match cells.take("content") {
                Cell::Over(_) => String::new(),
                content => content.into_text().unwrap_or_default(),
            };
            let parts = parts.as_mut().map(|parts| parts.rows(*row, bytes, problems)).unwrap_or_default();
            order.push((cells.integer("seq").unwrap_or(*row), *row));
            read.insert(*row, (Blocks::of(*row, &role, content, parts, problems).write(), created_ms));
        }
        if !is_listed {
            order.sort_unstable();
            items = order.iter().map(|(_, row)| Item::Message(*row)).collect();
        }
        let texts: HashMap<&str, &RawNode> = raw_nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let mut list = List::default();
        let mut missing = 0usize;
        for item in &items {
            match item {
                Item::Message(row) => match read.remove(row) {
                    Some((written, created_ms)) => list.add(*row, created_ms, written, problems),
                    None => missing += 1,
                },
                Item::Summary(id) => match texts.get(id.as_str()) {
                    Some(node) => list.summary(node, problems),
                    None => missing += 1,
                },
            }
        }
        list.flush(problems);
        if missing > 0 {
            problems.lost(None, || {
                format!("{missing} items of what the model is sent in session {:?} are not there", conversation.id)
            });
        }
        let List { messages, rows, places, .. } = list;
        notes::session(&conversation.id, &messages, &rows, problems);
        let nodes = if is_live { Vec::new() } else { resolve(raw_nodes, &places, "summaries", problems) };
        let mut session = conversation.session.clone();
        if session.id.is_empty() {
            session.id.clone_from(&conversation.id);
        }
        session.started_ms = session.started_ms.or_else(|| rows.iter().find_map(|row| row.created_ms));
        let stored = Stored { session, rows, nodes };
        Ok(super::conversation(&conversation.id, kind(conversation), None, messages, stored))
    }
}

// OpenClaw names the sessions of subagents by their key.
fn kind(conversation: &Described) -> Kind {
    if conversation.session.platform.contains(":subagent:") { Kind::Sidechain } else { Kind::Main }
}

/// The messages as they come.
#[derive(Default)]
struct List {
    messages: Vec<Message>,
    rows: Vec<ImportedRow>,
    places: HashMap<i64, Range<usize>>,
    /// Pictures of tool results. Results of one message stand together, so these follow behind the last.
    pictures: Vec<(ImportedRow, String)>,
}

impl List {
    fn add(&mut self, row: i64, created_ms: Option<i64>, written: Written, problems: &mut Problems) {
        let place = ImportedRow { row: Some(row), created_ms, ..ImportedRow::default() };
        if !written.is_result {
            self.flush(problems);
        }
        let start = self.messages.len();
        for raw in written.messages {
            self.push(&raw, Mark::AsRead, place.clone(), problems);
        }
        self.places.insert(row, start..self.messages.len());
        self.pictures.extend(written.pictures.into_iter().map(|raw| (place.clone(), raw)));
    }

    fn summary(&mut self, node: &RawNode, problems: &mut Problems) {
        self.flush(problems);
        let text = format!("<summary id=\"{}\" depth=\"{}\">\n{}\n</summary>", node.id, node.depth, node.text);
        let raw = format!("{{\"role\":\"user\",\"content\":{}}}", quote(&text));
        let place = ImportedRow { created_ms: node.created_ms, ..ImportedRow::default() };
        self.push(&raw, Mark::Summary, place, problems);
    }

    fn flush(&mut self, problems: &mut Problems) {
        for (place, raw) in std::mem::take(&mut self.pictures) {
            self.push(&raw, Mark::Injected, place, problems);
        }
    }

    fn push(&mut self, raw: &str, mark: Mark, place: ImportedRow, problems: &mut Problems) {
        if let Some(message) = parse(Dialect::OpenAiChat, raw, mark, None, problems) {
            self.messages.push(message);
            self.rows.push(place);
        }
    }
}
