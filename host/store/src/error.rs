//! What can go wrong with a store, told so that a person knows what to do.

use rusqlite::ErrorCode;
use std::path::PathBuf;

/// Why the store could not do something. Whatever is stored already stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file could not be opened or made.
    #[error("the store {path} could not be opened: {why}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// SQLite's or the system's words.
        why: String,
    },
    /// The file is a database of something else.
    #[error("{path} is a database, but no store of palimpsest; give another file", path = .0.display())]
    Foreign(PathBuf),
    /// A newer version made the file.
    #[error(
        "the store {path} has schema {found}, this version knows {known}; nothing was changed: use a newer version",
        path = path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that this version knows.
        known: i64,
    },
    /// Another process has held the file for too long.
    #[error("the store was busy for longer than {seconds} s while {doing}; try again")]
    Busy {
        /// What was tried.
        doing: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// No space is left.
    #[error("no space is left on the store's disk while {0}; nothing was changed: free some and try again")]
    Full(&'static str),
    /// The file or its folder cannot be written.
    #[error("the store cannot be written while {0}: the file or its folder is read-only")]
    ReadOnly(&'static str),
    /// Pages of the file are damaged.
    #[error(
        "the store is damaged, seen while {doing}: {why}; `palimpsest sessions export --all` saves what can be read"
    )]
    Damaged {
        /// What was tried.
        doing: &'static str,
        /// What was found.
        why: String,
    },
    /// Anything else that SQLite says.
    #[error("the store failed while {doing}: {why}")]
    Sql {
        /// What was tried.
        doing: &'static str,
        /// SQLite's words.
        why: String,
    },
    /// There is no such session.
    #[error("the store has no session \"{0}\"; `palimpsest sessions list` shows those it has")]
    NoSession(String),
    /// A session of that name is there already.
    #[error("the store has a session \"{0}\" already")]
    SessionExists(String),
    /// Someone else compacts the session.
    #[error("session \"{session}\" is being compacted by {holder} for another {seconds} s at most")]
    Leased {
        /// The session.
        session: String,
        /// Who holds the lease.
        holder: String,
        /// When it runs out at the latest.
        seconds: u64,
    },
    /// The lease ran out, and someone else may have compacted since.
    #[error("the lease on session \"{0}\" was lost, so its compaction was not stored; the conversation is as before")]
    LeaseLost(String),
    /// The view that a compaction started from is not the live one any more.
    #[error(
        "session \"{0}\" has changed since the compaction began, so it was not stored; the conversation is as it now is"
    )]
    Moved(String),
    /// There is nothing to go back to.
    #[error("session \"{0}\" has no earlier view to go back to")]
    NothingToUndo(String),
    /// Something names a row that is not there, or an order that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The writing thread is gone.
    #[error("the store is closed")]
    Closed,
}

/// How long a connection waits for another process, in seconds.
pub(crate) const BUSY_SECONDS: u64 = 10;

/// Gives an error of SQLite's the name of what was being done.
pub(crate) fn while_doing(doing: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| {
        let why = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Busy { doing, seconds: BUSY_SECONDS }
            }
            Some(ErrorCode::DiskFull) => StoreError::Full(doing),
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(doing),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged { doing, why },
            // A read or write that the system refused: a bad disk, or a file that was cut under our feet.
            Some(ErrorCode::SystemIoFailure) => StoreError::Damaged { doing, why },
            _ => match error {
                // Values that the store never writes: someone or something else did.
                rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..) => StoreError::Damaged { doing, why },
                _ => StoreError::Sql { doing, why },
            },
        }
    }
}
