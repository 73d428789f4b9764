//! Reads the session files of agent programs, and recorded requests, into conversations.
//!
//! A file is recognised by its content, never by its name; gzip is unpacked. Bad records do not stop the reading: they become
//! [`Problem`]s, and what is whole is kept. Files that hold wire messages keep their exact bytes; others are written as wire
//! JSON of the dialect nearest to the program. Lines are streamed, and single JSON documents walked element by element, so
//! that only what becomes part of a conversation is held. Databases are read through SQLite, see [`import_path`].

mod build;
mod database;
mod detect;
mod error;
mod formats;
mod input;
mod json;
mod lines;
mod problems;
mod scan;
mod stored;

pub use detect::{Format, UnknownFormat};
pub use error::ImportError;
pub use problems::{PROBLEMS_MAX, Problem, Severity};
pub use stored::{ImportedNode, ImportedRow, ImportedSession, RowState, Stored};

use engine_api::{Dialect, Message};
use input::Input;
use problems::Problems;
use std::io::BufRead;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Longest line, and longest single value of a document, that is read by default.
pub const LINE_BYTES_MAX: usize = 256 << 20;
/// Largest document that is held whole by default; only request bodies are.
pub const DOCUMENT_BYTES_MAX: u64 = 2 << 30;
/// Most conversations one file may give.
pub const CONVERSATIONS_MAX: usize = 1_000;
/// Longest title taken from a message, in characters.
const TITLE_CHARS_MAX: usize = 80;

/// Which part of a file's history is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum History {
    /// What the model would be sent next: what follows the last compaction, with its summary.
    #[default]
    Live,
    /// Everything that was ever said; summaries left out. Of a database it is every row it holds, with the state of each
    /// in [`Stored`].
    Full,
}

/// How to read.
#[derive(Debug, Clone)]
pub struct Options {
    /// The format, if it is known; otherwise it is recognised.
    pub format: Option<Format>,
    /// Which part of the history.
    pub history: History,
    /// Longest line, single value, or value of a database's row; a longer one is skipped with a problem.
    pub line_bytes_max: usize,
    /// Largest document that may be held whole, and most bytes of a database's sessions held at once.
    pub document_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            format: None,
            history: History::default(),
            line_bytes_max: LINE_BYTES_MAX,
            document_bytes_max: DOCUMENT_BYTES_MAX,
        }
    }
}

/// What a conversation is within its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The conversation itself; a file may hold several.
    Main,
    /// Another way the conversation went, left by an edit or a rewind.
    Branch,
    /// A subagent's conversation.
    Sidechain,
}

/// One conversation of a file.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The session's id in the file; unique within the file, empty where the format has none.
    pub id: String,
    /// A title the file states, else the beginning of the first request.
    pub title: String,
    /// What it is within the file.
    pub kind: Kind,
    /// Its messages as a request body.
    pub document: host_wire::Document,
    /// Prompt tokens of the last model call, if the file states them.
    pub reported_tokens: Option<u64>,
    /// What a database says of it beside the messages; none if it came from a file of another kind.
    pub stored: Option<Box<Stored>>,
}

/// What a file held.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The format it was read as.
    pub format: Format,
    /// At least one, the main one first.
    pub conversations: Vec<Conversation>,
    /// What was wrong with the file, up to [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// Problems beyond those.
    pub problems_suppressed: u64,
    /// Unpacked bytes read.
    pub bytes_read: u64,
}

/// What the readers share.
pub(crate) struct Context<'o> {
    pub(crate) options: &'o Options,
    pub(crate) problems: Problems,
}

impl Context<'_> {
    pub(crate) fn is_live(&self) -> bool {
        self.options.history == History::Live
    }
}

/// Reads a file's conversations.
///
/// `progress` gets the bytes taken from `reader` (packed bytes, if it is packed) about once a mebibyte.
pub fn import(
    reader: &mut dyn BufRead,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, ImportError> {
    let read_error = |source| ImportError::Read { bytes_read: 0, source };
    let mut input = Input::new(reader, progress).map_err(read_error)?;
    let prefix = input.peek().map_err(read_error)?;
    let recognised = detect::recognise(prefix, options.format);
    let mut context = Context { options, problems: Problems::default() };
    let (format, mut conversations) = match recognised {
        Ok(recognised) => formats::read(recognised, &mut input, &mut context)?,
        Err(error) => match input.fault() {
            Some(_) => return Err(ImportError::Binary { hint: "its gzip stream is damaged at the very start" }),
            None => return Err(error),
        },
    };
    let bytes_read = input.bytes();
    if let Some(fault) = input.fault() {
        context
            .problems
            .lost(None, || format!("the packed file ends early after {bytes_read} unpacked bytes: {fault}"));
    }
    conversations.retain(|conversation| !conversation.document.messages.is_empty());
    if conversations.len() > CONVERSATIONS_MAX {
        let dropped = conversations.len() - CONVERSATIONS_MAX;
        conversations.truncate(CONVERSATIONS_MAX);
        context
            .problems
            .lost(None, || format!("{dropped} further conversations left out, over the limit of {CONVERSATIONS_MAX}"));
    }
    let Problems { list: problems, suppressed: problems_suppressed } = context.problems;
    if conversations.is_empty() {
        return Err(ImportError::NoMessages { format, problems });
    }
    Ok(Imported { format, conversations, problems, problems_suppressed, bytes_read })
}

/// Reads the conversations of the file at `path`.
///
/// A SQLite database of a known store gives its sessions, the newest first. It may be in use: it is read under SQLite's
/// locks and never written. `FILE#SESSION` names one session of it by its id or title.
pub fn import_path(path: &Path, options: &Options, progress: &mut dyn FnMut(u64)) -> Result<Imported, ImportError> {
    let mut conversations: Vec<Conversation> = Vec::new();
    let bytes_max = options.document_bytes_max;
    let read = read_database(path, options, progress, &mut |conversation, bytes| {
        conversations.push(conversation);
        let is_full = conversations.len() >= CONVERSATIONS_MAX || bytes > bytes_max;
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let file = match read {
        Source::File(path) => path,
        Source::Database(read) => {
            let database::Read { format, mut problems, bytes: bytes_read, left_out } = read;
            if left_out > 0 {
                problems.lost(None, || {
                    format!(
                        "{left_out} older sessions left out, over the limit of {CONVERSATIONS_MAX} sessions or {bytes_max} bytes; \
                         name one with FILE#SESSION"
                    )
                });
            }
            let Problems { list: problems, suppressed: problems_suppressed } = problems;
            if conversations.is_empty() {
                return Err(ImportError::NoMessages { format, problems });
            }
            return Ok(Imported { format, conversations, problems, problems_suppressed, bytes_read });
        }
    };
    let file = std::fs::File::open(&file).map_err(|source| ImportError::Open { path: path.to_owned(), source })?;
    import(&mut std::io::BufReader::with_capacity(1 << 16, file), options, progress)
}

/// What a reading of a database one session at a time gave beside the sessions.
#[derive(Debug, Clone)]
pub struct ImportedSessions {
    /// The store it was read as.
    pub format: Format,
    /// What was wrong with it, up to [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// Problems beyond those.
    pub problems_suppressed: u64,
    /// Bytes of the rows that were read.
    pub bytes_read: u64,
    /// Sessions that were not read, because the caller had enough.
    pub left_out: usize,
}

/// Reads a database's sessions one at a time, the newest first, so that a store of any size can be taken over; `each` may
/// end the reading. Other files are an error.
pub fn import_sessions(
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64),
    each: &mut dyn FnMut(Conversation) -> ControlFlow<()>,
) -> Result<ImportedSessions, ImportError> {
    match read_database(path, options, progress, &mut |conversation, _| each(conversation))? {
        Source::File(_) => Err(ImportError::Database { what: "the file is no SQLite database".to_owned() }),
        Source::Database(read) => {
            let database::Read { format, problems, bytes: bytes_read, left_out } = read;
            let Problems { list: problems, suppressed: problems_suppressed } = problems;
            Ok(ImportedSessions { format, problems, problems_suppressed, bytes_read, left_out })
        }
    }
}

enum Source {
    /// Another kind of file.
    File(PathBuf),
    Database(database::Read),
}

fn read_database(
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64),
    each: &mut dyn FnMut(Conversation, u64) -> ControlFlow<()>,
) -> Result<Source, ImportError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => ImportError::NotFound { path: path.to_owned() },
        std::io::ErrorKind::IsADirectory => ImportError::Directory { path: path.to_owned() },
        _ => ImportError::Open { path: path.to_owned(), source },
    };
    let (file, session, about) = match std::fs::metadata(path) {
        Ok(about) => (path.to_owned(), None, about),
        Err(error) => {
            let named = session_of(path).and_then(|(file, session)| {
                let about = std::fs::metadata(&file).ok().filter(std::fs::Metadata::is_file)?;
                Some((file, Some(session), about))
            });
            named.ok_or_else(|| failed(error))?
        }
    };
    // A directory opens on some systems and only fails when it is read.
    if about.is_dir() {
        return Err(ImportError::Directory { path: file });
    }
    // Whether it is a database is asked of SQLite: a descriptor of our own, closed while a connection of this process has
    // the same file open, would drop that connection's locks. A pipe must not be read before its turn.
    let opened = if about.is_file() { database::open(&file)? } else { None };
    match (opened, session) {
        (Some(opened), session) => {
            database::read(opened, session.as_deref(), options, progress, each).map(Source::Database)
        }
        (None, None) => Ok(Source::File(file)),
        (None, Some(_)) => Err(ImportError::NotFound { path: path.to_owned() }),
    }
}

// Splits `FILE#SESSION` where the file ends.
fn session_of(path: &Path) -> Option<(PathBuf, String)> {
    let text = path.to_str()?;
    text.match_indices('#').find_map(|(at, _)| {
        let (file, session) = (text.get(..at)?, text.get(at + 1..)?);
        let is_file = !session.is_empty() && Path::new(file).is_file();
        is_file.then(|| (PathBuf::from(file), session.to_owned()))
    })
}

/// Makes a conversation; without a title of its own it gets the beginning of the first request.
pub(crate) fn conversation(
    id: impl Into<String>,
    title: impl Into<String>,
    kind: Kind,
    dialect: Dialect,
    members: Vec<(String, String)>,
    messages: Vec<Message>,
) -> Conversation {
    let title = Some(title.into()).filter(|title| !title.is_empty()).unwrap_or_else(|| title_of(&messages));
    let document = host_wire::Document::from_parts(dialect, members, messages);
    Conversation { id: id.into(), title, kind, document, reported_tokens: None, stored: None }
}

/// The beginning of the first request, as a title.
pub(crate) fn title_of(messages: &[Message]) -> String {
    let asked = messages.iter().find(|message| message.is_real_user());
    let asked = asked.or_else(|| messages.iter().find(|message| message.role == engine_api::Role::User));
    let first_text =
        asked.and_then(|message| message.parts.iter().find(|part| part.kind == engine_api::PartKind::Text));
    let line =
        first_text.and_then(|part| part.text.lines().map(str::trim).find(|line| !line.is_empty())).unwrap_or_default();
    line.chars().take(TITLE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
