//! Opens a database read-only, under the locks of the program that may be writing it.

use crate::ImportError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// How long a lock of another process is waited for; Hermes gives its own readers the same.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// An open database.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    /// What a reader should know of how it was opened.
    pub(crate) note: Option<&'static str>,
}

/// Opens the file if it is a database; nothing if it is another kind of file, or one that cannot be opened at all.
pub(crate) fn open(path: &Path) -> Result<Option<Opened>, ImportError> {
    // No URI, so that a path with a question mark stays a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match Connection::open_with_flags(path, flags).and_then(check) {
        Ok((connection, true)) => Ok(Some(Opened { connection, note: None })),
        Ok((_, false)) => Ok(None),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Ok(None),
            Some(ErrorCode::CannotOpen) => Ok(unchanging(path)),
            _ => Err(failed(&error)),
        },
    }
}

// A database in WAL mode needs its two side files to be read. Where the folder cannot be written and neither exists, no
// process can be writing the database, and its one file is all there is.
fn unchanging(path: &Path) -> Option<Opened> {
    let side = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        std::fs::symlink_metadata(Path::new(&name)).is_ok()
    };
    if side("-wal") || side("-shm") || side("-journal") {
        return None;
    }
    let mut uri = String::from("file:");
    for byte in std::path::absolute(path).ok()?.to_str()?.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(byte)),
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let (connection, is_database) = Connection::open_with_flags(uri, flags).and_then(check).ok()?;
    let note =
        "the folder of the database cannot be written, so it was read without locks, as a file that does not change";
    is_database.then_some(Opened { connection, note: Some(note) })
}

// Sets the connection up and reads the header; false for an empty file, which SQLite takes for an empty database.
fn check(connection: Connection) -> rusqlite::Result<(Connection, bool)> {
    connection.busy_timeout(BUSY_WAIT)?;
    // What a schema says may not call functions with side effects.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    Ok((connection, pages > 0))
}

/// Words SQLite's fault.
pub(super) fn failed(error: &rusqlite::Error) -> ImportError {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another process holds its lock, try again when that has finished"
        }
        Some(ErrorCode::DatabaseCorrupt) => "; it is damaged, `sqlite3 FILE .recover` may save its rows",
        _ => "",
    };
    ImportError::Database { what: format!("{error}{hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_without_side_files_opens_as_unchanging_whatever_its_name_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("50% of it?mode=rwc#é.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (7);").unwrap();
        assert!(unchanging(&path).is_none(), "the writer's log is there");
        drop(writer);
        let opened = unchanging(&path).unwrap();
        let read: i64 = opened.connection.query_row("SELECT a FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!((read, opened.note.is_some()), (7, true));
        assert!(opened.connection.execute("INSERT INTO t VALUES (8)", []).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(unchanging(&folder.path().join("gone.db")).is_none());
    }

    #[test]
    fn a_connection_takes_no_writes_and_other_files_are_no_databases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a);").unwrap();
        let opened = open(&path).unwrap().unwrap();
        for sql in ["INSERT INTO t VALUES (1)", "PRAGMA user_version = 3", "DROP TABLE t"] {
            assert!(opened.connection.execute_batch(sql).is_err(), "{sql}");
        }
        let other = folder.path().join("b.jsonl");
        for text in ["", "{}", &"{\"role\":\"user\"}\n".repeat(1_000)] {
            std::fs::write(&other, text).unwrap();
            assert!(open(&other).unwrap().is_none());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }
}
