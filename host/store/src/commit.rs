//! Storing a compaction: view, summaries, engine state and receipt in one transaction, or nothing.

use crate::bodies::Bodies;
use crate::error::{StoreError, while_doing};
use crate::lease::{self, Lease};
use crate::sessions::count;
use crate::store::{SUMMARIES, Store, now_ms, searching};
use crate::views::NewView;
use crate::{append, branches, runs, views};
use engine_api::{Flags, MessageId, NodeId, Role, SummaryKind};
use host_search::Doc;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;

/// One place of a new view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A message, or a row that an earlier compaction wrote, as it is.
    Kept(MessageId),
    /// Something the host wrote.
    Written {
        /// Its JSON.
        raw: String,
        /// In whose name.
        role: Role,
        /// Marks.
        flags: Flags,
        /// The summary behind it; 0 for none.
        node: NodeId,
        /// The message that it was made from.
        stands_for: Option<MessageId>,
        /// Parts that are shortened.
        demoted: Vec<u64>,
    },
}

/// A summary on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNode {
    /// Its id in the session.
    pub id: NodeId,
    /// 0 for a summary of messages, more for a summary of summaries.
    pub depth: u32,
    /// What it is.
    pub kind: SummaryKind,
    /// The summary as the engine wrote it.
    pub text: String,
    /// The messages, or rows of the view before, that it was made from.
    pub messages: Vec<MessageId>,
    /// The summaries it was made from.
    pub nodes: Vec<NodeId>,
    /// Its tokens.
    pub tokens: u64,
    /// Tokens of what it was made from.
    pub source_tokens: u64,
    /// Who wrote it.
    pub model: String,
}

/// A compaction on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commit {
    /// The live branch and view that it started from.
    pub branch: i64,
    /// See `branch`.
    pub view: Option<i64>,
    /// The newest message that it speaks of; what was added meanwhile follows as it is.
    pub upto: MessageId,
    /// The new view, oldest first.
    pub items: Vec<Item>,
    /// The summaries it adds.
    pub nodes: Vec<NewNode>,
    /// Messages that are neither in the view nor summarised.
    pub dropped: Vec<MessageId>,
    /// The engine whose state is written.
    pub engine: String,
    /// Keys and values of the engine's state.
    pub state: Vec<(String, Vec<u8>)>,
    /// The receipt, as JSON.
    pub receipt: String,
}

/// A compaction that is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The view, which is live now.
    pub view: i64,
    /// The ids of what was written, in the order of the items.
    pub written: Vec<MessageId>,
    /// The receipt's id.
    pub receipt: i64,
}

impl Store {
    /// Stores a compaction and makes its view live.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], [`StoreError::Moved`] if another view or branch has become live, [`StoreError::Invalid`]
    /// for items that are not there; and those of writing. Then nothing has changed.
    pub fn commit(&self, lease: &Lease, commit: Commit) -> Result<Committed, StoreError> {
        let (session, token, bodies) = (lease.session, lease.token, self.inner.bodies.clone());
        self.write("storing a compaction", move |conn| {
            lease::check(conn, session, token)?;
            let written = write(conn, &bodies, session, session, &commit, "compaction")?;
            branches::go_to(conn, session, commit.branch, Some(written.view), "compaction")?;
            Ok(written)
        })
    }
}

/// Writes the rows of a compaction of `from` under session `to`, which is another one for a rotation.
pub(crate) fn write(
    conn: &Connection,
    bodies: &Bodies,
    from: i64,
    to: i64,
    commit: &Commit,
    cause: &str,
) -> Result<Committed, StoreError> {
    let doing = while_doing("storing a compaction");
    let now = views::live(conn, from)?;
    if now.branch != commit.branch || now.view != commit.view {
        return Err(StoreError::Moved(crate::sessions::by_key(conn, from)?.name));
    }
    check_all_accounted(conn, from, &now, commit)?;
    let branch = if from == to { commit.branch } else { branches::live(conn, to)? };

    // Items of the view before, so that nothing foreign gets in and every id can be followed to what was said.
    let known: HashSet<u64> = now.items.iter().copied().collect();
    let fresh = commit.items.iter().filter(|item| matches!(item, Item::Written { .. })).count();
    let mut next = append::reserve(conn, fresh as u64)?;
    let mut items = Vec::with_capacity(commit.items.len());
    let mut written = Vec::with_capacity(fresh);
    let mut insert = conn
        .prepare_cached(
            "INSERT INTO written (id, session, body, role, flags, node, stands_for, demoted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )
        .map_err(&doing)?;
    for item in &commit.items {
        match item {
            Item::Kept(id) if known.contains(&id.0) => items.push(id.0),
            Item::Kept(id) => {
                return Err(StoreError::Invalid(format!("message {} is not in the view that was compacted", id.0)));
            }
            Item::Written { raw, role, flags, node, stands_for, demoted } => {
                let body = bodies.put(conn, raw.as_bytes())?;
                let source = match stands_for {
                    Some(id) => said(conn, id.0)?,
                    None => None,
                };
                let demoted = (!demoted.is_empty()).then(|| runs::encode(demoted));
                insert
                    .execute(params![
                        count(next),
                        to,
                        body,
                        role.code(),
                        flags.0,
                        count(node.0),
                        source.map(count),
                        demoted
                    ])
                    .map_err(&doing)?;
                items.push(next);
                written.push(MessageId(next));
                next += 1;
            }
        }
    }
    for node in &commit.nodes {
        insert_node(conn, bodies, to, node)?;
    }
    let mut dropped = match now.view {
        Some(view) => views::read(conn, view)?.dropped,
        None => Vec::new(),
    };
    for id in &commit.dropped {
        dropped.extend(said(conn, id.0)?);
    }
    let previous = if from == to { now.view } else { None };
    let new = NewView { session: to, branch, previous, items: &items, dropped: &dropped, upto: commit.upto.0, cause };
    let view = views::insert(conn, &new)?;
    for (key, value) in &commit.state {
        crate::state::put(conn, to, &commit.engine, key, value)?;
    }
    let receipt = crate::state::insert_receipt(conn, bodies, to, Some(view), "compacted", &commit.receipt)?;
    Ok(Committed { view, written, receipt })
}

/// Refuses a compaction that does not know of a message which it would put behind its view: another process added it, and
/// with a view that speaks of what came later it would be seen nowhere.
fn check_all_accounted(
    conn: &Connection,
    session: i64,
    now: &views::LiveView,
    commit: &Commit,
) -> Result<(), StoreError> {
    let mut known: HashSet<u64> = commit.dropped.iter().map(|id| id.0).collect();
    for item in &commit.items {
        match item {
            Item::Kept(id) => known.insert(id.0),
            Item::Written { stands_for, .. } => stands_for.is_some_and(|id| known.insert(id.0)),
        };
    }
    known.extend(commit.nodes.iter().flat_map(|node| &node.messages).map(|id| id.0));
    let unknown = now.items.iter().filter(|id| **id <= commit.upto.0 && !known.contains(id));
    let mut is_said = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM messages WHERE id = ?1)")
        .map_err(while_doing("storing a compaction"))?;
    for id in unknown {
        if is_said.query_row([count(*id)], |row| row.get(0)).map_err(while_doing("storing a compaction"))? {
            return Err(StoreError::Moved(crate::sessions::by_key(conn, session)?.name));
        }
    }
    Ok(())
}

/// Follows a row that was written to the message that it was made from; none for one that was made from nothing.
fn said(conn: &Connection, id: u64) -> Result<Option<u64>, StoreError> {
    let doing = while_doing("storing a compaction");
    let found: Option<Option<i64>> = conn
        .prepare_cached("SELECT stands_for FROM written WHERE id = ?1")
        .and_then(|mut select| select.query_row([count(id)], |row| row.get(0)).optional())
        .map_err(doing)?;
    // A written row stands for a message directly, never for another written row.
    Ok(match found {
        None => Some(id),
        Some(source) => source.map(|source| source.max(0).unsigned_abs()),
    })
}

fn insert_node(conn: &Connection, bodies: &Bodies, session: i64, node: &NewNode) -> Result<(), StoreError> {
    let doing = while_doing("storing a summary");
    let mut messages = Vec::with_capacity(node.messages.len());
    for id in &node.messages {
        messages.extend(said(conn, id.0)?);
    }
    let children: Vec<u64> = node.nodes.iter().map(|child| child.0).collect();
    let (mut first, mut last) = (i64::MAX, 0);
    let mut span = |(from, to): (Option<i64>, Option<i64>)| {
        first = first.min(from.unwrap_or(i64::MAX));
        last = last.max(to.unwrap_or(0));
    };
    let mut when = conn.prepare_cached("SELECT at_ms, at_ms FROM messages WHERE id = ?1").map_err(&doing)?;
    for id in messages.first().into_iter().chain(messages.last()) {
        let found = when.query_row([count(*id)], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(&doing)?;
        span(
            found
                .ok_or_else(|| StoreError::Invalid(format!("a summary stands for message {id}, which is not there")))?,
        );
    }
    let mut when =
        conn.prepare_cached("SELECT first_ms, last_ms FROM nodes WHERE session = ?1 AND node = ?2").map_err(&doing)?;
    for child in &children {
        let found = when.query_row(params![session, count(*child)], |row| Ok((row.get(0)?, row.get(1)?)));
        let found = found.optional().map_err(&doing)?;
        span(
            found.ok_or_else(|| {
                StoreError::Invalid(format!("a summary stands for summary {child}, which is not there"))
            })?,
        );
    }
    let first = if first == i64::MAX { 0 } else { first };
    let sql = "UPDATE sessions SET next_node = max(next_node, ?2 + 1) WHERE id = ?1";
    conn.execute(sql, params![session, count(node.id.0)]).map_err(&doing)?;
    put_node(
        conn,
        bodies,
        session,
        &StoredNode { node, messages: &messages, children: &children, first, last, made_ms: now_ms() },
    )
}

/// A node with what it stands for in the store's own ids.
pub(crate) struct StoredNode<'a> {
    pub(crate) node: &'a NewNode,
    pub(crate) messages: &'a [u64],
    pub(crate) children: &'a [u64],
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) made_ms: i64,
}

pub(crate) fn put_node(
    conn: &Connection,
    bodies: &Bodies,
    session: i64,
    stored: &StoredNode<'_>,
) -> Result<(), StoreError> {
    let doing = while_doing("storing a summary");
    let node = stored.node;
    let body = bodies.put(conn, node.text.as_bytes())?;
    let doc: i64 =
        conn.query_row("SELECT coalesce(max(doc), 0) + 1 FROM nodes", [], |row| row.get(0)).map_err(&doing)?;
    conn.prepare_cached(
        "INSERT INTO nodes (session, node, doc, depth, kind, body, tokens, source_tokens, messages, children, first_ms, last_ms, model, made_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )
    .and_then(|mut insert| {
        insert.execute(params![
            session,
            count(node.id.0),
            doc,
            node.depth,
            node.kind.code(),
            body,
            count(node.tokens),
            count(node.source_tokens),
            runs::encode(stored.messages),
            runs::encode(stored.children),
            stored.first,
            stored.last,
            node.model,
            stored.made_ms
        ])
    })
    .map_err(&doing)?;
    let docs = [Doc {
        id: doc,
        session,
        role: Role::Other,
        tools: &[],
        depth: node.depth,
        at_ms: stored.last,
        text: &node.text,
    }];
    SUMMARIES.add(conn, &docs).map_err(searching)
}

/// Copies the summaries of a session to another that goes on from it. Texts are shared, and found under the first session.
pub(crate) fn copy_nodes(conn: &Connection, from: i64, to: i64) -> Result<(), StoreError> {
    let doing = while_doing("storing a summary");
    conn.execute(
        "INSERT INTO nodes (session, node, doc, depth, kind, body, tokens, source_tokens, messages, children, first_ms, last_ms, model, made_ms)
         SELECT ?2, node, NULL, depth, kind, body, tokens, source_tokens, messages, children, first_ms, last_ms, model, made_ms
         FROM nodes WHERE session = ?1",
        params![from, to],
    )
    .map_err(&doing)?;
    let sql = "UPDATE sessions SET next_node = (SELECT next_node FROM sessions WHERE id = ?1) WHERE id = ?2";
    conn.execute(sql, params![from, to]).map_err(doing)?;
    Ok(())
}
