//! Why a file could not be imported at all. Bad records inside a file are [`Problem`]s, not errors.

use crate::{Format, Problem};
use std::path::PathBuf;

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No such file.
    #[error("could not find {path}: no such file")]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// The path is a folder.
    #[error("could not import {path}: it is a directory, name a session file inside it")]
    Directory {
        /// The path as given.
        path: PathBuf,
    },
    /// The file could not be opened.
    #[error("could not open {path}: {source}")]
    Open {
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Reading failed midway.
    #[error("could not read the file beyond byte {bytes_read}: {source}")]
    Read {
        /// Unpacked bytes read until then.
        bytes_read: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// No text.
    #[error("the file is binary, not a transcript: {hint}")]
    Binary {
        /// What it looks like or what to do.
        hint: &'static str,
    },
    /// A database that cannot be read, or is of no known store.
    #[error("the SQLite database could not be imported: {what}")]
    Database {
        /// What was wrong, with what to do.
        what: String,
    },
    /// The named session is not in the database.
    #[error("the database has no session {wanted:?}; it has {count}, the newest are {known}")]
    NoSession {
        /// The session that was named.
        wanted: String,
        /// How many sessions there are.
        count: usize,
        /// Ids of the newest.
        known: String,
    },
    /// Text, but no known format.
    #[error("no conversation was recognised in the file; looked for {looked_for}")]
    NothingRecognised {
        /// The formats that were tried.
        looked_for: String,
    },
    /// A known format without a message that a model would be sent.
    #[error("the file was read as {format} and holds no message{}", first_problem(problems))]
    NoMessages {
        /// The format it was read as.
        format: Format,
        /// What was wrong with its records.
        problems: Vec<Problem>,
    },
    /// A single document over the limit.
    #[error("the document is larger than {bytes_max} bytes; raise document_bytes_max to read it")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
}

fn first_problem(problems: &[Problem]) -> String {
    let Some(first) = problems.first() else { return String::new() };
    let place = first.line.map(|line| format!(", line {line}")).unwrap_or_default();
    format!(" ({} problems; the first{place}: {})", problems.len(), first.what)
}
