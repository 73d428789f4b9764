//! The sessions that there are: making, finding, listing and ending them.

use crate::error::{StoreError, while_doing};
use crate::store::{Store, now_ms};
use engine_api::Dialect;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

/// Letters of a session's name at most.
const NAME_CHARS_MAX: usize = 512;
/// Sessions of one listing at most.
const LISTED_MAX: u64 = 10_000;

/// What a new session is made from.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// Its id; it must not be empty nor in use.
    pub name: String,
    /// The wire dialect of its messages.
    pub dialect: Option<Dialect>,
    /// The client's platform, where it is known.
    pub platform: String,
    /// The model's name.
    pub model: String,
    /// A title for lists.
    pub title: String,
    /// The request body around the messages.
    pub shell: Option<String>,
    /// When it began, in milliseconds since 1970; none for now.
    pub created_ms: Option<i64>,
}

/// A session, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionRow {
    /// The row's key, for the store's own methods.
    #[serde(skip)]
    pub key: i64,
    /// Its id.
    pub name: String,
    /// The session it comes from.
    pub parent: Option<String>,
    /// How it comes from it: `rotation`, `new`, `fork`; empty without a parent.
    pub kinship: String,
    /// The wire dialect of its messages.
    pub dialect: Dialect,
    /// The client's platform.
    pub platform: String,
    /// The model's name.
    pub model: String,
    /// Its title.
    pub title: String,
    /// When it began, in milliseconds since 1970.
    pub created_ms: i64,
    /// When something was last stored for it.
    pub updated_ms: i64,
    /// When it ended; none while it goes on.
    pub ended_ms: Option<i64>,
    /// Why it ended.
    pub end_reason: String,
    /// Messages stored under it, whatever branch they are on.
    pub messages: u64,
    /// The live branch.
    #[serde(skip)]
    pub branch: i64,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only those whose id or title contains this.
    pub text: String,
    /// Sessions to pass over.
    pub offset: u64,
    /// Sessions to return at most; 0 for as many as one listing holds.
    pub limit: u64,
}

const COLUMNS: &str = "s.id, s.name, (SELECT name FROM sessions p WHERE p.id = s.parent), s.kinship, s.dialect, s.platform, s.model,
  s.title, s.created_ms, s.updated_ms, s.ended_ms, s.end_reason, (SELECT count(*) FROM messages m WHERE m.session = s.id), s.branch";

fn read_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        key: row.get(0)?,
        name: row.get(1)?,
        parent: row.get(2)?,
        kinship: row.get(3)?,
        dialect: Dialect::from_code(row.get(4)?),
        platform: row.get(5)?,
        model: row.get(6)?,
        title: row.get(7)?,
        created_ms: row.get(8)?,
        updated_ms: row.get(9)?,
        ended_ms: row.get(10)?,
        end_reason: row.get(11)?,
        messages: row.get::<_, i64>(12)?.max(0).unsigned_abs(),
        branch: row.get(13)?,
    })
}

impl Store {
    /// Makes a session.
    ///
    /// # Errors
    /// [`StoreError::SessionExists`], and [`StoreError::Invalid`] for a name that is empty, too long or has control letters.
    pub fn create_session(&self, new: NewSession) -> Result<SessionRow, StoreError> {
        check_name(&new.name)?;
        let bodies = self.inner.bodies.clone();
        self.write("making a session", move |conn| {
            let key = insert(conn, &bodies, &new, None)?;
            by_key(conn, key)
        })
    }

    /// Finds a session by its id.
    ///
    /// # Errors
    /// [`StoreError::NoSession`].
    pub fn session(&self, name: &str) -> Result<SessionRow, StoreError> {
        self.find_session(name)?.ok_or_else(|| StoreError::NoSession(name.to_owned()))
    }

    /// Finds a session by its id, if there is one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn find_session(&self, name: &str) -> Result<Option<SessionRow>, StoreError> {
        let doing = "finding a session";
        self.read(doing, |conn| {
            let sql = format!("SELECT {COLUMNS} FROM sessions s WHERE s.name = ?1");
            conn.query_row(&sql, [name], read_row).optional().map_err(while_doing(doing))
        })
    }

    /// Lists sessions, the ones used last first, and says how many there are.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sessions(&self, filter: &SessionFilter) -> Result<(Vec<SessionRow>, u64), StoreError> {
        let doing = while_doing("listing sessions");
        let limit = if filter.limit == 0 { LISTED_MAX } else { filter.limit.min(LISTED_MAX) };
        self.read("listing sessions", |conn| {
            let condition = "(?1 = '' OR instr(lower(s.name), lower(?1)) OR instr(lower(s.title), lower(?1)))";
            let sql = format!("SELECT {COLUMNS} FROM sessions s WHERE {condition} ORDER BY s.updated_ms DESC, s.id DESC LIMIT ?2 OFFSET ?3");
            let mut select = conn.prepare_cached(&sql).map_err(&doing)?;
            let rows = select
                .query_map(params![filter.text, count(limit), count(filter.offset)], read_row)
                .map_err(&doing)?;
            let rows = rows.collect::<Result<Vec<_>, _>>().map_err(&doing)?;
            let sql = format!("SELECT count(*) FROM sessions s WHERE {condition}");
            let total: i64 = conn.query_row(&sql, [&filter.text], |row| row.get(0)).map_err(&doing)?;
            Ok((rows, total.max(0).unsigned_abs()))
        })
    }

    /// Returns a session's key and those of the sessions it comes from, the nearest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn lineage(&self, key: i64) -> Result<Vec<i64>, StoreError> {
        self.read("finding the sessions before", |conn| lineage(conn, key))
    }

    /// Keeps the request body around a session's messages, the model and the title; what is none stays as it is.
    ///
    /// # Errors
    /// Those of writing.
    pub fn describe_session(
        &self,
        key: i64,
        shell: Option<String>,
        model: Option<String>,
        title: Option<String>,
    ) -> Result<(), StoreError> {
        let bodies = self.inner.bodies.clone();
        self.write("keeping a session's particulars", move |conn| {
            let shell = shell.map(|shell| bodies.put(conn, shell.as_bytes())).transpose()?;
            conn.execute(
                "UPDATE sessions SET shell = coalesce(?2, shell), model = coalesce(?3, model), title = coalesce(?4, title) WHERE id = ?1",
                params![key, shell, model, title],
            )
            .map_err(while_doing("keeping a session's particulars"))?;
            Ok(())
        })
    }

    /// Ends a session; what it holds stays.
    ///
    /// # Errors
    /// Those of writing.
    pub fn end_session(&self, key: i64, reason: &str) -> Result<(), StoreError> {
        let reason = reason.to_owned();
        self.write("ending a session", move |conn| {
            let sql = "UPDATE sessions SET ended_ms = ?2, end_reason = ?3 WHERE id = ?1 AND ended_ms IS NULL";
            conn.execute(sql, params![key, now_ms(), reason]).map_err(while_doing("ending a session"))?;
            Ok(())
        })
    }
}

/// Returns a session's key and those of the sessions it comes from, the nearest first.
pub(crate) fn lineage(conn: &Connection, key: i64) -> Result<Vec<i64>, StoreError> {
    let doing = while_doing("finding the sessions before");
    let sql = "WITH RECURSIVE line(id, n) AS (SELECT ?1, 0 UNION SELECT s.parent, n + 1 FROM sessions s JOIN line ON s.id = line.id
               WHERE s.parent IS NOT NULL AND n < 10000) SELECT id FROM line ORDER BY n";
    let mut select = conn.prepare_cached(sql).map_err(&doing)?;
    let rows = select.query_map([key], |row| row.get(0)).map_err(&doing)?;
    rows.collect::<Result<_, _>>().map_err(doing)
}

pub(crate) fn check_name(name: &str) -> Result<(), StoreError> {
    let is_bad = name.trim().is_empty() || name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control);
    if is_bad {
        let why = format!("a session's id has 1 to {NAME_CHARS_MAX} letters and no control letters");
        return Err(StoreError::Invalid(why));
    }
    Ok(())
}

/// Inserts a session with its first branch; a parent is given with the kinship to it.
pub(crate) fn insert(
    conn: &Connection,
    bodies: &crate::bodies::Bodies,
    new: &NewSession,
    parent: Option<(i64, &str)>,
) -> Result<i64, StoreError> {
    let doing = while_doing("making a session");
    let taken: Option<i64> = conn
        .query_row("SELECT 1 FROM sessions WHERE name = ?1", [&new.name], |row| row.get(0))
        .optional()
        .map_err(&doing)?;
    if taken.is_some() {
        return Err(StoreError::SessionExists(new.name.clone()));
    }
    let shell = new.shell.as_ref().map(|shell| bodies.put(conn, shell.as_bytes())).transpose()?;
    let (now, dialect) = (now_ms(), new.dialect.unwrap_or(Dialect::OpenAiChat).code());
    let created = new.created_ms.unwrap_or(now);
    conn.execute(
        "INSERT INTO sessions (name, parent, kinship, dialect, platform, model, title, shell, created_ms, updated_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            new.name,
            parent.map(|(key, _)| key),
            parent.map_or("", |(_, kinship)| kinship),
            dialect,
            new.platform,
            new.model,
            new.title,
            shell,
            created,
            now,
        ],
    )
    .map_err(&doing)?;
    let key = conn.last_insert_rowid();
    let sql = "INSERT INTO branches (session, branch, path, upto, made_ms) VALUES (?1, 0, x'', 0, ?2)";
    conn.execute(sql, params![key, now]).map_err(&doing)?;
    Ok(key)
}

pub(crate) fn by_key(conn: &Connection, key: i64) -> Result<SessionRow, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM sessions s WHERE s.id = ?1");
    conn.query_row(&sql, [key], read_row).map_err(while_doing("reading a session"))
}

/// Turns a count into what SQLite takes.
pub(crate) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
