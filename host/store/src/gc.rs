//! Sweeps what nothing needs any more: old views and what only they show. Messages and summaries stay for ever.

use crate::error::{StoreError, while_doing};
use crate::store::Store;
use crate::{branches, views};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// What a sweep took away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Views that can no longer be gone back to.
    pub views: u64,
    /// Rows that only those showed.
    pub written: u64,
    /// Sessions without a message.
    pub sessions: u64,
    /// Payloads that nothing names.
    pub payloads: u64,
    /// Bytes of those payloads as they were stored.
    pub bytes: u64,
}

impl Store {
    /// Keeps the newest `keep_views` views of each branch, beside the live one, and sweeps the rest. With `dry_run`
    /// nothing is taken away.
    ///
    /// # Errors
    /// Those of writing; then nothing was taken away.
    pub fn sweep(&self, keep_views: u32, dry_run: bool) -> Result<Swept, StoreError> {
        self.write("sweeping the store", move |conn| {
            let swept = sweep(conn, keep_views)?;
            if dry_run {
                // Counted in the transaction, and taken back with it.
                return Err(StoreError::Invalid(serde_json::to_string(&swept).unwrap_or_default()));
            }
            Ok(swept)
        })
        .or_else(|error| match error {
            StoreError::Invalid(counted) if dry_run => {
                serde_json::from_str(&counted).map_err(|_| StoreError::Invalid(counted))
            }
            other => Err(other),
        })
    }

    /// Gives the space of what was swept back to the disk, which rewrites the file.
    ///
    /// # Errors
    /// Those of writing, and [`StoreError::Busy`] while others read or write.
    pub fn compact_file(&self) -> Result<(), StoreError> {
        let doing = while_doing("making the file smaller");
        // Not within the writer's transaction, where SQLite refuses it.
        let conn = crate::store::connect_to_write(&self.inner.path)?;
        conn.execute_batch("VACUUM; PRAGMA wal_checkpoint(PASSIVE);").map_err(doing)
    }
}

fn sweep(conn: &Connection, keep_views: u32) -> Result<Swept, StoreError> {
    let doing = while_doing("sweeping the store");
    let mut swept = Swept::default();
    let branches: Vec<(i64, i64)> = {
        let mut select = conn.prepare("SELECT session, branch FROM branches WHERE view IS NOT NULL").map_err(&doing)?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&doing)?;
        rows.collect::<Result<_, _>>().map_err(&doing)?
    };
    let mut kept: HashSet<i64> = HashSet::new();
    let mut shown: HashSet<u64> = HashSet::new();
    for (session, branch) in branches {
        let mut next = branches::read(conn, session, branch)?.view;
        for place in 0..=keep_views {
            let Some(view) = next else { break };
            let row = views::read(conn, view)?;
            kept.insert(view);
            shown.extend(row.items);
            next = row.previous;
            if place == keep_views && next.is_some() {
                conn.execute("UPDATE views SET previous = NULL WHERE id = ?1", [view]).map_err(&doing)?;
            }
        }
        // The way forward after an undo is kept as long as the views are among the newest.
        let mut select = conn
            .prepare_cached("SELECT id FROM views WHERE session = ?1 AND branch = ?2 ORDER BY id DESC LIMIT ?3")
            .map_err(&doing)?;
        let newest = select
            .query_map(params![session, branch, keep_views], |row| row.get::<_, i64>(0))
            .map_err(&doing)?
            .collect::<Result<Vec<_>, _>>()
            .map_err(&doing)?;
        for view in newest {
            if kept.insert(view) {
                shown.extend(views::read(conn, view)?.items);
            }
        }
    }
    let all: Vec<i64> = column(conn, "SELECT id FROM views")?;
    for view in all.into_iter().filter(|view| !kept.contains(view)) {
        conn.execute("UPDATE receipts SET view = NULL WHERE view = ?1", [view]).map_err(&doing)?;
        conn.execute("UPDATE views SET previous = NULL WHERE previous = ?1", [view]).map_err(&doing)?;
        swept.views += conn.execute("DELETE FROM views WHERE id = ?1", [view]).map_err(&doing)? as u64;
    }
    let written: Vec<i64> = column(conn, "SELECT id FROM written")?;
    for id in written.into_iter().filter(|id| !shown.contains(&id.max(&0).unsigned_abs())) {
        swept.written += conn.execute("DELETE FROM written WHERE id = ?1", [id]).map_err(&doing)? as u64;
    }
    let empty: Vec<i64> = column(
        conn,
        "SELECT id FROM sessions s WHERE ended_ms IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages WHERE session = s.id)
           AND NOT EXISTS (SELECT 1 FROM nodes WHERE session = s.id) AND NOT EXISTS (SELECT 1 FROM branches WHERE session = s.id AND length(path) > 0)
           AND NOT EXISTS (SELECT 1 FROM sessions child WHERE child.parent = s.id)",
    )?;
    for session in empty {
        for table in ["moves", "engine_state", "usage", "pins", "leases", "receipts", "written", "views", "branches"] {
            conn.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [session]).map_err(&doing)?;
        }
        swept.sessions += conn.execute("DELETE FROM sessions WHERE id = ?1", [session]).map_err(&doing)? as u64;
    }
    let used = "SELECT body FROM messages UNION SELECT body FROM written UNION SELECT body FROM nodes UNION SELECT body FROM receipts
        UNION SELECT shell FROM sessions WHERE shell IS NOT NULL";
    let sql = format!("SELECT count(*), coalesce(sum(length(data)), 0) FROM bodies WHERE id NOT IN ({used})");
    let (payloads, bytes): (i64, i64) =
        conn.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&doing)?;
    if payloads > 0 {
        conn.execute(&format!("DELETE FROM bodies WHERE id NOT IN ({used})"), []).map_err(&doing)?;
    }
    (swept.payloads, swept.bytes) = (payloads.max(0).unsigned_abs(), bytes.max(0).unsigned_abs());
    Ok(swept)
}

fn column(conn: &Connection, sql: &str) -> Result<Vec<i64>, StoreError> {
    let doing = while_doing("sweeping the store");
    let mut select = conn.prepare(sql).map_err(&doing)?;
    let rows = select.query_map([], |row| row.get(0)).map_err(&doing)?;
    rows.collect::<Result<_, _>>().map_err(&doing)
}
