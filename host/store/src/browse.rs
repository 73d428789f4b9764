//! Looking at a store: what was said on a branch, what a model saw before and after a compaction, facts of the file.

use crate::error::{StoreError, while_doing};
use crate::load::{Row, RowState};
use crate::store::Store;
use crate::{branches, views};
use engine_api::MessageId;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::collections::BTreeSet;

/// The two sides of a compaction, as lists of ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sides {
    /// What the model saw before.
    pub before: Vec<MessageId>,
    /// What it saw after.
    pub after: Vec<MessageId>,
}

/// Facts of the store's file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FileFacts {
    /// The schema.
    pub schema: i64,
    /// Bytes of the pages in use and free.
    pub bytes: u64,
    /// Bytes of pages that are free.
    pub free_bytes: u64,
}

impl Store {
    /// Reads a page of all that was said in a session, oldest first, also by the sessions that it goes on from and on
    /// branches that were left, with what became of each message; and says how many there are in all.
    ///
    /// # Errors
    /// Those of reading.
    pub fn transcript(
        &self,
        session: i64,
        after: MessageId,
        limit: u64,
    ) -> Result<(Vec<(Row, RowState)>, u64), StoreError> {
        self.read("reading messages", |conn| {
            let states = self.states(conn, session)?;
            let mut ids: BTreeSet<u64> = states.path.iter().copied().collect();
            ids.extend(own(conn, session)?);
            let total = ids.len() as u64;
            let page = ids.range(after.0.saturating_add(1)..).take(usize::try_from(limit).unwrap_or(usize::MAX));
            let mut out = Vec::new();
            for &id in page {
                let row = self.row(conn, id)?;
                let row = row.ok_or_else(|| StoreError::Invalid(format!("the store has no message {id}")))?;
                out.push((row, states.of(id)));
            }
            Ok((out, total))
        })
    }

    /// Returns the ids of all that was said on the live branch, oldest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn branch_messages(&self, session: i64) -> Result<Vec<MessageId>, StoreError> {
        self.read("reading a branch", |conn| {
            let path = branches::path(conn, session, branches::live(conn, session)?)?;
            Ok(path.into_iter().map(MessageId).collect())
        })
    }

    /// Returns what a view took the place of, and what it shows. What was said after it is on neither side.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a view that is not there, and those of reading.
    pub fn sides(&self, view: i64) -> Result<Sides, StoreError> {
        let doing = while_doing("reading a view");
        self.read("reading a view", |conn| {
            let owner: Option<(i64, String)> = conn
                .query_row("SELECT session, cause FROM views WHERE id = ?1", [view], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()
                .map_err(&doing)?;
            let Some((session, cause)) = owner else {
                return Err(StoreError::Invalid(format!("the store has no view {view}; it may have been swept")));
            };
            let row = views::read(conn, view)?;
            // What was said later is on neither side. Rows that the host wrote may have greater numbers than what they show.
            let said = |ids: Vec<u64>| ids.into_iter().filter(|id| *id <= row.upto);
            let before: Vec<u64> = match row.previous {
                Some(previous) => {
                    let previous = views::read(conn, previous)?;
                    let beyond = branches::beyond(conn, session, row.branch, previous.upto)?;
                    previous.items.into_iter().chain(said(beyond)).collect()
                }
                // A rotation's view is the first of its session; what was before is what its parent shows.
                None if cause == "rotation" => match parent(conn, session)? {
                    Some(parent) => views::live(conn, parent)?.items,
                    None => said(branches::path(conn, session, row.branch)?).collect(),
                },
                None => said(branches::path(conn, session, row.branch)?).collect(),
            };
            let before = before.into_iter().map(MessageId).collect();
            Ok(Sides { before, after: row.items.into_iter().map(MessageId).collect() })
        })
    }

    /// Returns the view that an undo of the live branch left, if there is one to go forward to.
    ///
    /// # Errors
    /// Those of reading.
    pub fn next_view(&self, session: i64) -> Result<Option<i64>, StoreError> {
        let doing = while_doing("reading a view");
        self.read("reading a view", |conn| {
            let branch = branches::live(conn, session)?;
            let live = branches::read(conn, session, branch)?.view;
            let sql = "SELECT max(id) FROM views WHERE session = ?1 AND branch = ?2 AND previous IS ?3 AND id > coalesce(?3, 0)";
            conn.query_row(sql, params![session, branch, live], |row| row.get(0)).map_err(&doing)
        })
    }

    /// Returns facts of the file.
    ///
    /// # Errors
    /// Those of reading.
    pub fn file_facts(&self) -> Result<FileFacts, StoreError> {
        let doing = while_doing("looking at the file");
        self.read("looking at the file", |conn| {
            let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(&doing);
            let page = pragma("page_size")?.max(0).unsigned_abs();
            let pages = |name: &str| Ok::<u64, StoreError>(pragma(name)?.max(0).unsigned_abs().saturating_mul(page));
            Ok(FileFacts {
                schema: pragma("user_version")?,
                bytes: pages("page_count")?,
                free_bytes: pages("freelist_count")?,
            })
        })
    }
}

fn own(conn: &Connection, session: i64) -> Result<Vec<u64>, StoreError> {
    let doing = while_doing("reading messages");
    let mut select = conn.prepare_cached("SELECT id FROM messages WHERE session = ?1").map_err(&doing)?;
    let rows = select.query_map([session], |row| row.get::<_, i64>(0)).map_err(&doing)?;
    rows.map(|row| row.map(|id| id.max(0).unsigned_abs())).collect::<Result<_, _>>().map_err(doing)
}

fn parent(conn: &Connection, session: i64) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT parent FROM sessions WHERE id = ?1";
    conn.query_row(sql, [session], |row| row.get(0)).map_err(while_doing("reading a session"))
}
