//! Summary nodes: what each says, and what it stands for.

use crate::bodies::Bodies;
use crate::error::{StoreError, while_doing};
use crate::runs;
use crate::sessions::count;
use engine_api::{MessageId, NodeId, SummaryKind};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, HashSet};

/// A summary in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Its id in the session.
    pub id: NodeId,
    /// 0 for a summary of messages, more for a summary of summaries.
    pub depth: u32,
    /// What it is.
    pub kind: SummaryKind,
    /// The summary as the engine wrote it.
    pub text: String,
    /// The messages it was made from, oldest first.
    pub messages: Vec<MessageId>,
    /// The summaries it was made from, oldest first.
    pub nodes: Vec<NodeId>,
    /// Its tokens.
    pub tokens: u64,
    /// Tokens of what it was made from.
    pub source_tokens: u64,
    /// When the first thing that it stands for was said, in milliseconds since 1970.
    pub first_ms: i64,
    /// When the last was.
    pub last_ms: i64,
    /// Who wrote it: a model, `offline`, or an engine.
    pub model: String,
    /// When it was made.
    pub made_ms: i64,
}

const COLUMNS: &str =
    "node, depth, kind, body, messages, children, tokens, source_tokens, first_ms, last_ms, model, made_ms";

type RawNode = (i64, u32, u32, i64, Vec<u8>, Vec<u8>, i64, i64, i64, i64, String, i64);

fn raw(row: &rusqlite::Row<'_>) -> rusqlite::Result<RawNode> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
        row.get(7)?,
        row.get(8)?,
        row.get(9)?,
        row.get(10)?,
        row.get(11)?,
    ))
}

fn finish(conn: &Connection, bodies: &Bodies, raw: RawNode) -> Result<NodeRow, StoreError> {
    let (id, depth, kind, body, messages, children, tokens, source_tokens, first_ms, last_ms, model, made_ms) = raw;
    Ok(NodeRow {
        id: NodeId(id.max(0).unsigned_abs()),
        depth,
        kind: SummaryKind::from_code(kind),
        text: String::from_utf8_lossy(&bodies.get(conn, body)?).into_owned(),
        messages: runs::decode(&messages)?.into_iter().map(MessageId).collect(),
        nodes: runs::decode(&children)?.into_iter().map(NodeId).collect(),
        tokens: tokens.max(0).unsigned_abs(),
        source_tokens: source_tokens.max(0).unsigned_abs(),
        first_ms,
        last_ms,
        model,
        made_ms,
    })
}

/// Reads all nodes of a session, in the order they were made.
pub(crate) fn all(conn: &Connection, bodies: &Bodies, session: i64) -> Result<Vec<NodeRow>, StoreError> {
    let doing = while_doing("reading summaries");
    let sql = format!("SELECT {COLUMNS} FROM nodes WHERE session = ?1 ORDER BY node");
    let mut select = conn.prepare_cached(&sql).map_err(&doing)?;
    let rows = select.query_map([session], raw).map_err(&doing)?.collect::<Result<Vec<_>, _>>().map_err(&doing)?;
    rows.into_iter().map(|row| finish(conn, bodies, row)).collect()
}

/// Reads one node.
pub(crate) fn one(
    conn: &Connection,
    bodies: &Bodies,
    session: i64,
    node: NodeId,
) -> Result<Option<NodeRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM nodes WHERE session = ?1 AND node = ?2");
    let mut select = conn.prepare_cached(&sql).map_err(while_doing("reading a summary"))?;
    let found = select.query_row(params![session, count(node.0)], raw).optional();
    found.map_err(while_doing("reading a summary"))?.map(|row| finish(conn, bodies, row)).transpose()
}

/// What nodes stand for, without their texts.
pub(crate) struct Coverage {
    edges: BTreeMap<u64, (Vec<u64>, Vec<u64>)>,
}

impl Coverage {
    pub(crate) fn read(conn: &Connection, session: i64) -> Result<Coverage, StoreError> {
        let doing = while_doing("reading summaries");
        let mut select =
            conn.prepare_cached("SELECT node, messages, children FROM nodes WHERE session = ?1").map_err(&doing)?;
        let mut rows = select.query([session]).map_err(&doing)?;
        let mut edges = BTreeMap::new();
        while let Some(row) = rows.next().map_err(&doing)? {
            let node: i64 = row.get(0).map_err(&doing)?;
            let (messages, children): (Vec<u8>, Vec<u8>) = (row.get(1).map_err(&doing)?, row.get(2).map_err(&doing)?);
            edges.insert(node.max(0).unsigned_abs(), (runs::decode(&messages)?, runs::decode(&children)?));
        }
        Ok(Coverage { edges })
    }

    pub(crate) fn has(&self, node: u64) -> bool {
        self.edges.contains_key(&node)
    }

    /// Returns every node's direct messages and children.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (u64, &[u64], &[u64])> {
        self.edges.iter().map(|(node, (messages, children))| (*node, messages.as_slice(), children.as_slice()))
    }

    /// Returns the ids that a node stands for, directly or through others, in rising order. They are messages, or written
    /// rows that stand for messages.
    pub(crate) fn below(&self, node: u64) -> Vec<u64> {
        let (mut open, mut seen, mut found) = (vec![node], HashSet::new(), Vec::new());
        while let Some(node) = open.pop() {
            if let (true, Some((messages, children))) = (seen.insert(node), self.edges.get(&node)) {
                found.extend_from_slice(messages);
                open.extend_from_slice(children);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
