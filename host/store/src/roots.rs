//! Finds conversations that come without an id, by how they begin.

use crate::error::{StoreError, while_doing};
use crate::sessions::{self, SessionRow};
use crate::store::Store;
use crate::{align, branches};
use rusqlite::OptionalExtension;

/// Sessions that begin alike and are looked at, the newest first.
const ALIKE_MAX: i64 = 16;

/// How far a resent history is one that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownPrefix {
    /// Messages from the first on that a branch of the session has in the same order.
    pub messages: usize,
    /// Messages of that branch in all.
    pub of: usize,
}

impl Store {
    /// Notes how a session begins: the identity of its first message that is no instruction.
    ///
    /// # Errors
    /// Those of writing.
    pub fn put_root(&self, session: i64, root: u64) -> Result<(), StoreError> {
        self.write("noting how a session begins", move |conn| {
            let sql = "INSERT OR IGNORE INTO roots (root, session) VALUES (?1, ?2)";
            conn.execute(sql, [root.cast_signed(), session]).map_err(while_doing("noting how a session begins"))?;
            Ok(())
        })
    }

    /// Returns the sessions that begin so, the newest first; at most 16.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sessions_with_root(&self, root: u64) -> Result<Vec<SessionRow>, StoreError> {
        let doing = "finding sessions by how they begin";
        self.read(doing, |conn| {
            let sql = "SELECT session FROM roots WHERE root = ?1 ORDER BY session DESC LIMIT ?2";
            let mut select = conn.prepare_cached(sql).map_err(while_doing(doing))?;
            let keys =
                select.query_map([root.cast_signed(), ALIKE_MAX], |row| row.get(0)).map_err(while_doing(doing))?;
            keys.map(|key| sessions::by_key(conn, key.map_err(while_doing(doing))?)).collect()
        })
    }

    /// Returns the session in which one goes on that was rotated, at the end of the chain; else the session itself.
    ///
    /// # Errors
    /// Those of reading.
    pub fn newest_rotation(&self, row: SessionRow) -> Result<SessionRow, StoreError> {
        let doing = "following rotations";
        self.read(doing, |conn| {
            let sql = "SELECT id FROM sessions WHERE parent = ?1 AND kinship = 'rotation' ORDER BY id DESC LIMIT 1";
            let mut select = conn.prepare_cached(sql).map_err(while_doing(doing))?;
            let mut newest = row.key;
            // A child has a greater key than its parent, so the chain ends.
            while let Some(child) =
                select.query_row([newest], |row| row.get::<_, i64>(0)).optional().map_err(while_doing(doing))?
                && child > newest
            {
                newest = child;
            }
            if newest == row.key { Ok(row) } else { sessions::by_key(conn, newest) }
        })
    }

    /// Tells how far a history, given by the identities of its messages, is on the branch that has most of it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn known_prefix(&self, session: i64, identities: &[u64]) -> Result<KnownPrefix, StoreError> {
        self.read("comparing a history", |conn| {
            let mut best = KnownPrefix::default();
            for branch in align::candidates(conn, session, branches::live(conn, session)?)? {
                let path = align::identities(conn, &branches::path(conn, session, branch)?)?;
                let messages = path.iter().zip(identities).take_while(|((_, ours), theirs)| ours == *theirs).count();
                if messages > best.messages {
                    best = KnownPrefix { messages, of: path.len() };
                }
            }
            Ok(best)
        })
    }
}
