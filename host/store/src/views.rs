//! Views: what a model saw of a branch, and how a view goes over to another branch.

use crate::error::{StoreError, while_doing};
use crate::nodes::Coverage;
use crate::sessions::count;
use crate::store::{Store, now_ms};
use crate::{branches, runs};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// A view, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ViewRow {
    /// Its id.
    pub id: i64,
    /// The view before; none if everything was as it was said.
    pub previous: Option<i64>,
    /// What made it: `compaction`, `rotation`, `branch`, `import`.
    pub cause: String,
    /// When, in milliseconds since 1970.
    pub made_ms: i64,
    /// Whether it is the live one.
    pub is_live: bool,
    /// Whether it is on the live branch.
    pub is_on_live_branch: bool,
}

/// A stored view.
pub(crate) struct View {
    pub(crate) items: Vec<u64>,
    pub(crate) dropped: Vec<u64>,
    pub(crate) upto: u64,
    pub(crate) previous: Option<i64>,
    pub(crate) branch: i64,
}

pub(crate) fn read(conn: &Connection, view: i64) -> Result<View, StoreError> {
    let doing = while_doing("reading a view");
    let sql = "SELECT items, dropped, upto, previous, branch FROM views WHERE id = ?1";
    let found = conn
        .query_row(sql, [view], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, i64>(2)?, row.get(3)?, row.get(4)?))
        })
        .optional()
        .map_err(doing)?;
    let Some((items, dropped, upto, previous, branch)) = found else {
        return Err(StoreError::Damaged { doing: "reading a view", why: format!("view {view} is missing") });
    };
    let (items, dropped) = (runs::decode(&items)?, runs::decode(&dropped)?);
    Ok(View { items, dropped, upto: upto.max(0).unsigned_abs(), previous, branch })
}

/// What a new view is made of.
pub(crate) struct NewView<'a> {
    pub(crate) session: i64,
    pub(crate) branch: i64,
    pub(crate) previous: Option<i64>,
    pub(crate) items: &'a [u64],
    pub(crate) dropped: &'a [u64],
    pub(crate) upto: u64,
    pub(crate) cause: &'a str,
}

pub(crate) fn insert(conn: &Connection, new: &NewView<'_>) -> Result<i64, StoreError> {
    conn.execute(
        "INSERT INTO views (session, branch, previous, items, dropped, upto, cause, made_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            new.session,
            new.branch,
            new.previous,
            runs::encode(new.items),
            runs::encode(new.dropped),
            count(new.upto),
            new.cause,
            now_ms()
        ],
    )
    .map_err(while_doing("storing a view"))?;
    Ok(conn.last_insert_rowid())
}

/// What a branch's live view shows: its items and what follows.
pub(crate) struct LiveView {
    pub(crate) branch: i64,
    pub(crate) view: Option<i64>,
    pub(crate) items: Vec<u64>,
    /// The newest id that the items speak of.
    pub(crate) upto: u64,
}

pub(crate) fn live(conn: &Connection, session: i64) -> Result<LiveView, StoreError> {
    let branch = branches::live(conn, session)?;
    of_branch(conn, session, branch)
}

fn of_branch(conn: &Connection, session: i64, branch: i64) -> Result<LiveView, StoreError> {
    let row = branches::read(conn, session, branch)?;
    let (mut items, from) = match row.view {
        Some(view) => {
            let view = read(conn, view)?;
            (view.items, view.upto)
        }
        None => (row.path, row.upto),
    };
    let beyond = branches::beyond(conn, session, branch, from)?;
    let upto = beyond.last().copied().unwrap_or(from);
    items.extend(beyond);
    Ok(LiveView { branch, view: row.view, items, upto })
}

/// Makes `path` the list of branch `to` and that branch the live one, with the view of branch `from` as far as it holds.
pub(crate) fn rebase(conn: &Connection, session: i64, from: i64, to: i64, path: &[u64]) -> Result<(), StoreError> {
    let doing = while_doing("making a branch");
    let upto = path.iter().copied().max().unwrap_or(0);
    conn.execute(
        "UPDATE branches SET path = ?3, upto = ?4 WHERE session = ?1 AND branch = ?2",
        params![session, to, runs::encode(path), count(upto)],
    )
    .map_err(&doing)?;
    let old = of_branch(conn, session, from)?;
    let mut view = None;
    if old.view.is_some() {
        let covered = standing_for(conn, session, &old.items)?;
        if let Some(items) = project(&old.items, &covered, path) {
            let previous = branches::read(conn, session, to)?.view;
            let new = NewView { session, branch: to, previous, items: &items, dropped: &[], upto, cause: "branch" };
            view = Some(insert(conn, &new)?);
        }
    }
    branches::go_to(conn, session, to, view, "the client changed its history")
}

/// Returns what each written row among the items stands for; nothing for a note.
pub(crate) fn standing_for(
    conn: &Connection,
    session: i64,
    items: &[u64],
) -> Result<HashMap<u64, Vec<u64>>, StoreError> {
    let doing = while_doing("reading a view");
    let coverage = Coverage::read(conn, session)?;
    let mut select = conn.prepare_cached("SELECT node, stands_for FROM written WHERE id = ?1").map_err(&doing)?;
    let mut out = HashMap::new();
    for &id in items {
        let found: Option<(i64, Option<i64>)> =
            select.query_row([count(id)], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(&doing)?;
        let Some((node, stands_for)) = found else { continue };
        let covered = match (node, stands_for) {
            (0, Some(message)) => vec![message.max(0).unsigned_abs()],
            (0, None) => Vec::new(),
            (node, _) => coverage.below(node.max(0).unsigned_abs()),
        };
        out.insert(id, covered);
    }
    Ok(out)
}

/// Carries a view over to another list of messages: what a written row stands for must all be there, or its messages are
/// shown in its place. None if nothing written is left: then the list itself is the view.
pub(crate) fn project(items: &[u64], covered: &HashMap<u64, Vec<u64>>, path: &[u64]) -> Option<Vec<u64>> {
    let there: HashSet<u64> = path.iter().copied().collect();
    let mut by_message: HashMap<u64, u64> = HashMap::new();
    let mut all_hold = true;
    for (row, messages) in covered {
        if messages.is_empty() {
            continue;
        }
        if messages.iter().all(|message| there.contains(message)) {
            by_message.extend(messages.iter().map(|message| (*message, *row)));
        } else {
            all_hold = false;
        }
    }
    if by_message.is_empty() {
        return None;
    }
    // Notes speak of the compaction that was; they come along only if all of it holds.
    let place: HashMap<u64, usize> = items.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let is_note = |id: u64| covered.get(&id).is_some_and(Vec::is_empty);
    let mut out = Vec::new();
    let mut shown: HashSet<u64> = HashSet::new();
    for &message in path {
        let item = by_message.get(&message).copied().unwrap_or(message);
        if !shown.insert(item) {
            continue;
        }
        if let Some(&at) = place.get(&item).filter(|_| all_hold) {
            let notes: Vec<u64> = items.iter().take(at).rev().take_while(|id| is_note(**id)).copied().collect();
            out.extend(notes.into_iter().rev().filter(|note| shown.insert(*note)));
        }
        out.push(item);
    }
    Some(out)
}

impl Store {
    /// Returns the live branch of a session and its view; no view if nothing was compacted on it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn live_view(&self, session: i64) -> Result<(i64, Option<i64>), StoreError> {
        self.read("finding the live view", |conn| {
            let branch = branches::live(conn, session)?;
            Ok((branch, branches::read(conn, session, branch)?.view))
        })
    }

    /// Lists a session's views, the newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn views(&self, session: i64) -> Result<Vec<ViewRow>, StoreError> {
        let doing = while_doing("listing views");
        self.read("listing views", |conn| {
            let branch = branches::live(conn, session)?;
            let live = branches::read(conn, session, branch)?.view;
            let sql = "SELECT id, previous, cause, made_ms, branch FROM views WHERE session = ?1 ORDER BY id DESC";
            let mut select = conn.prepare_cached(sql).map_err(&doing)?;
            let rows = select
                .query_map([session], |row| {
                    let id = row.get(0)?;
                    Ok(ViewRow {
                        id,
                        previous: row.get(1)?,
                        cause: row.get(2)?,
                        made_ms: row.get(3)?,
                        is_live: live == Some(id),
                        is_on_live_branch: row.get::<_, i64>(4)? == branch,
                    })
                })
                .map_err(&doing)?;
            rows.collect::<Result<_, _>>().map_err(&doing)
        })
    }
}
