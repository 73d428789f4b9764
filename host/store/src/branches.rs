//! Branches: each is a list of messages, most of them shared with the branch it left.

use crate::error::{StoreError, while_doing};
use crate::runs;
use crate::store::now_ms;
use rusqlite::{Connection, OptionalExtension, params};

/// A branch as its row says.
pub(crate) struct BranchRow {
    /// Messages that are listed, oldest first.
    pub(crate) path: Vec<u64>,
    /// Rows of the branch beyond this id follow the path.
    pub(crate) upto: u64,
    /// The live view, if anything was compacted.
    pub(crate) view: Option<i64>,
}

pub(crate) fn read(conn: &Connection, session: i64, branch: i64) -> Result<BranchRow, StoreError> {
    let doing = while_doing("reading a branch");
    let sql = "SELECT path, upto, view FROM branches WHERE session = ?1 AND branch = ?2";
    let found = conn
        .prepare_cached(sql)
        .and_then(|mut select| {
            select
                .query_row(params![session, branch], |row| {
                    Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?))
                })
                .optional()
        })
        .map_err(doing)?;
    let Some((path, upto, view)) = found else {
        let why = format!("session row {session} has no branch {branch}");
        return Err(StoreError::Damaged { doing: "reading a branch", why });
    };
    Ok(BranchRow { path: runs::decode(&path)?, upto: upto.max(0).unsigned_abs(), view })
}

/// Returns the branch's own messages beyond an id, oldest first.
pub(crate) fn beyond(conn: &Connection, session: i64, branch: i64, upto: u64) -> Result<Vec<u64>, StoreError> {
    let doing = while_doing("reading a branch");
    let sql = "SELECT id FROM messages WHERE session = ?1 AND branch = ?2 AND id > ?3 ORDER BY id";
    let mut select = conn.prepare_cached(sql).map_err(&doing)?;
    let rows = select
        .query_map(params![session, branch, crate::sessions::count(upto)], |row| row.get::<_, i64>(0))
        .map_err(&doing)?;
    rows.map(|row| row.map(|id| id.max(0).unsigned_abs())).collect::<Result<_, _>>().map_err(doing)
}

/// Returns all messages of a branch, oldest first.
pub(crate) fn path(conn: &Connection, session: i64, branch: i64) -> Result<Vec<u64>, StoreError> {
    let BranchRow { mut path, upto, .. } = read(conn, session, branch)?;
    path.extend(beyond(conn, session, branch, upto)?);
    Ok(path)
}

/// Returns the live branch of a session.
pub(crate) fn live(conn: &Connection, session: i64) -> Result<i64, StoreError> {
    let mut select =
        conn.prepare_cached("SELECT branch FROM sessions WHERE id = ?1").map_err(while_doing("reading a session"))?;
    select.query_row([session], |row| row.get(0)).map_err(while_doing("reading a session"))
}

/// Makes a branch over these messages and returns its number.
pub(crate) fn insert(
    conn: &Connection,
    session: i64,
    path: &[u64],
    view: Option<i64>,
    forked_from: Option<i64>,
) -> Result<i64, StoreError> {
    let doing = while_doing("making a branch");
    let sql = "SELECT coalesce(max(branch) + 1, 0) FROM branches WHERE session = ?1";
    let branch: i64 = conn.query_row(sql, [session], |row| row.get(0)).map_err(&doing)?;
    let upto = path.iter().copied().max().unwrap_or(0);
    conn.execute(
        "INSERT INTO branches (session, branch, path, upto, view, forked_from, made_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![session, branch, runs::encode(path), crate::sessions::count(upto), view, forked_from, now_ms()],
    )
    .map_err(&doing)?;
    Ok(branch)
}

/// Makes a view of a branch live, or the branch itself, and notes the move.
pub(crate) fn go_to(
    conn: &Connection,
    session: i64,
    branch: i64,
    view: Option<i64>,
    why: &str,
) -> Result<(), StoreError> {
    let doing = while_doing("making a view live");
    let from = live(conn, session)?;
    let from_view = read(conn, session, from)?.view;
    conn.execute("UPDATE branches SET view = ?3 WHERE session = ?1 AND branch = ?2", params![session, branch, view])
        .map_err(&doing)?;
    conn.execute(
        "UPDATE sessions SET branch = ?2, updated_ms = max(updated_ms, ?3) WHERE id = ?1",
        params![session, branch, now_ms()],
    )
    .map_err(&doing)?;
    conn.execute(
        "INSERT INTO moves (session, from_branch, from_view, to_branch, to_view, why, at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![session, from, from_view, branch, view, why, now_ms()],
    )
    .map_err(doing)?;
    Ok(())
}
