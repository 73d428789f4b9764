//! The tables, and how an older file becomes a newer one.

use crate::error::{StoreError, while_doing};
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// Marks the file as ours: "PALI".
const APPLICATION_ID: i64 = 0x5041_4C49;
/// The newest schema that this version knows; `PRAGMA user_version` of the file.
pub(crate) const SCHEMA: i64 = 2;
/// Bytes of a page; agent messages are some hundred bytes to some kilobytes.
const PAGE_BYTES: u32 = 8_192;

/// The tables of schema 1. Rows of messages are for ever: the database itself refuses to change or remove one.
const TABLES: &str = "
CREATE TABLE counters (name TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('message', 1);

CREATE TABLE dictionaries (id INTEGER PRIMARY KEY, data BLOB NOT NULL);

-- Payloads by content: `head` is the start of the hash, so that an index of eight bytes finds it.
CREATE TABLE bodies (
  id INTEGER PRIMARY KEY,
  head INTEGER NOT NULL,
  hash BLOB NOT NULL,
  bytes INTEGER NOT NULL,
  codec INTEGER NOT NULL,
  data BLOB NOT NULL
);
CREATE INDEX bodies_by_head ON bodies(head);

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  parent INTEGER REFERENCES sessions(id),
  kinship TEXT NOT NULL DEFAULT '',
  dialect INTEGER NOT NULL,
  platform TEXT NOT NULL DEFAULT '',
  model TEXT NOT NULL DEFAULT '',
  title TEXT NOT NULL DEFAULT '',
  shell INTEGER,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  end_reason TEXT NOT NULL DEFAULT '',
  branch INTEGER NOT NULL DEFAULT 0,
  next_node INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX sessions_by_parent ON sessions(parent) WHERE parent IS NOT NULL;

-- A branch is a list of messages: those in `path`, and after them its own rows beyond `upto`.
CREATE TABLE branches (
  session INTEGER NOT NULL REFERENCES sessions(id),
  branch INTEGER NOT NULL,
  path BLOB NOT NULL,
  upto INTEGER NOT NULL,
  view INTEGER REFERENCES views(id),
  forked_from INTEGER,
  made_ms INTEGER NOT NULL,
  PRIMARY KEY (session, branch)
) WITHOUT ROWID;

CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions(id),
  branch INTEGER NOT NULL,
  body INTEGER NOT NULL,
  identity INTEGER NOT NULL,
  role INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  tools TEXT
);
CREATE INDEX messages_by_session ON messages(session, branch);
CREATE TRIGGER messages_stay BEFORE DELETE ON messages BEGIN SELECT RAISE(ABORT, 'messages are never removed'); END;
CREATE TRIGGER messages_same BEFORE UPDATE ON messages BEGIN SELECT RAISE(ABORT, 'messages are never changed'); END;

-- What the host wrote into a view: summaries, notes, shortened messages. `stands_for` is the message it was made from.
CREATE TABLE written (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions(id),
  body INTEGER NOT NULL,
  role INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  node INTEGER NOT NULL,
  stands_for INTEGER,
  demoted BLOB
);
CREATE INDEX written_by_session ON written(session);

-- A view lists ids of messages and of written rows; what its branch has beyond `upto` follows as it is.
CREATE TABLE views (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions(id),
  branch INTEGER NOT NULL,
  previous INTEGER REFERENCES views(id),
  items BLOB NOT NULL,
  dropped BLOB NOT NULL,
  upto INTEGER NOT NULL,
  cause TEXT NOT NULL,
  made_ms INTEGER NOT NULL
);
CREATE INDEX views_by_session ON views(session);

-- Which view became live when, and why: the way back and forth.
CREATE TABLE moves (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions(id),
  from_branch INTEGER NOT NULL,
  from_view INTEGER,
  to_branch INTEGER NOT NULL,
  to_view INTEGER,
  why TEXT NOT NULL,
  at_ms INTEGER NOT NULL
);
CREATE INDEX moves_by_session ON moves(session);

CREATE TABLE nodes (
  session INTEGER NOT NULL REFERENCES sessions(id),
  node INTEGER NOT NULL,
  -- Its number in the search index; none for one that was taken along from another session, where it is found.
  doc INTEGER UNIQUE,
  depth INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  body INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  source_tokens INTEGER NOT NULL,
  messages BLOB NOT NULL,
  children BLOB NOT NULL,
  first_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  model TEXT NOT NULL,
  made_ms INTEGER NOT NULL,
  PRIMARY KEY (session, node)
) WITHOUT ROWID;

CREATE TABLE receipts (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions(id),
  view INTEGER REFERENCES views(id),
  action TEXT NOT NULL,
  body INTEGER NOT NULL,
  at_ms INTEGER NOT NULL
);
CREATE INDEX receipts_by_session ON receipts(session);

CREATE TABLE engine_state (
  session INTEGER NOT NULL REFERENCES sessions(id),
  engine TEXT NOT NULL,
  key TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (session, engine, key)
) WITHOUT ROWID;

CREATE TABLE usage (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions(id),
  at_ms INTEGER NOT NULL,
  prompt INTEGER NOT NULL,
  completion INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  reasoning INTEGER NOT NULL
);
CREATE INDEX usage_by_session ON usage(session);

CREATE TABLE pins (
  session INTEGER NOT NULL REFERENCES sessions(id),
  pin INTEGER NOT NULL,
  rule TEXT NOT NULL,
  made_ms INTEGER NOT NULL,
  PRIMARY KEY (session, pin)
) WITHOUT ROWID;

CREATE TABLE leases (
  session INTEGER PRIMARY KEY REFERENCES sessions(id),
  holder TEXT NOT NULL,
  token INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL
);
";

/// Steps from each schema to the next: entry 0 leads from 1 to 2. None is ever changed once a version with it is out.
const STEPS: [&str; 1] = [ROOTS];

/// By what a conversation without an id is found again: the identity of its first message that is no instruction.
const ROOTS: &str = "
CREATE TABLE roots (
  root INTEGER NOT NULL,
  session INTEGER NOT NULL REFERENCES sessions(id),
  PRIMARY KEY (root, session)
) WITHOUT ROWID;
";

/// Makes the tables in a new file, or brings an older one up; a file of a newer version is left alone.
pub(crate) fn prepare(
    conn: &mut Connection,
    path: &Path,
    search: &dyn Fn(&Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let doing = while_doing("opening the store");
    match check(conn, path)? {
        Some(SCHEMA) => return Ok(()),
        Some(_) => {}
        None => {
            // Only an empty file takes these.
            conn.pragma_update(None, "page_size", PAGE_BYTES).map_err(&doing)?;
            conn.pragma_update(None, "journal_mode", "wal").map_err(&doing)?;
        }
    }
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&doing)?;
    // Another process may have done it while this one waited.
    match check(&tx, path)? {
        None => {
            tx.execute_batch(TABLES).map_err(&doing)?;
            for step in STEPS {
                tx.execute_batch(step).map_err(&doing)?;
            }
            search(&tx)?;
            tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(&doing)?;
        }
        Some(found) => {
            let done = usize::try_from(found - 1).unwrap_or(0);
            for step in STEPS.iter().skip(done) {
                tx.execute_batch(step).map_err(&doing)?;
            }
        }
    }
    tx.pragma_update(None, "user_version", SCHEMA).map_err(&doing)?;
    tx.commit().map_err(&doing)
}

/// Returns the file's schema; none if it is empty.
pub(crate) fn check(conn: &Connection, path: &Path) -> Result<Option<i64>, StoreError> {
    let doing = while_doing("opening the store");
    let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (pragma("application_id").map_err(&doing)?, pragma("user_version").map_err(&doing)?);
    if application == 0 {
        let any: Option<i64> =
            conn.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |row| row.get(0)).optional().map_err(&doing)?;
        return if any.is_some() { Err(StoreError::Foreign(path.to_owned())) } else { Ok(None) };
    }
    if application != APPLICATION_ID {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    if found > SCHEMA {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: SCHEMA });
    }
    Ok(Some(found))
}
