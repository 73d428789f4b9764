//! The words between a search and its caller: documents in, questions in, pages out.

use engine_api::{Role, SearchMode, SearchSort};
use std::ops::{ControlFlow, RangeInclusive};
use std::time::Instant;

/// Why a search, or a change of the index, could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The pattern asks for something that linear-time matching does not have, or is too large.
    #[error("could not read the pattern {pattern:?}: {reason}")]
    Pattern {
        /// The pattern, shortened.
        pattern: String,
        /// What is wrong, and what to write in its place.
        reason: String,
    },
    /// A document came out of order.
    #[error(
        "could not index document {id}: documents are added in rising order and {last} is already indexed; rebuild the index"
    )]
    Order {
        /// The document.
        id: i64,
        /// The greatest id in the index.
        last: i64,
    },
    /// The tables of the index do not hold what they should.
    #[error("the search index is damaged ({0}); rebuild it from the messages")]
    Damaged(String),
    /// The caller's texts could not be read.
    #[error("could not read the text of a message for a search: {0}")]
    Source(String),
    /// The database failed.
    #[error("the database failed during a search: {0}")]
    Sql(#[from] rusqlite::Error),
}

/// A document to index: a message or a summary.
#[derive(Debug, Clone, Copy)]
pub struct Doc<'a> {
    /// Its id; greater ids are newer.
    pub id: i64,
    /// Its session.
    pub session: i64,
    /// Who spoke.
    pub role: Role,
    /// The tools that it calls or answers.
    pub tools: &'a [&'a str],
    /// Depth of a summary; 0 for a message.
    pub depth: u32,
    /// When it was said, in milliseconds since 1970; 0 where that is not known.
    pub at_ms: i64,
    /// Its text, tool arguments and results included.
    pub text: &'a str,
}

/// What a [`Source`] knows of a document besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its session.
    pub session: i64,
    /// Who spoke.
    pub role: Role,
    /// The tools that it calls or answers.
    pub tools: Vec<String>,
    /// Depth of a summary; 0 for a message.
    pub depth: u32,
    /// When it was said, in milliseconds since 1970; 0 where that is not known.
    pub at_ms: i64,
}

/// The caller's documents.
pub trait Source {
    /// Returns a text; none if the document is gone.
    fn text(&self, id: i64) -> Result<Option<String>, SearchError>;
    /// Returns what [`Index::rebuild`](crate::Index::rebuild) needs besides the text; none if the document is gone.
    fn facts(&self, id: i64) -> Result<Option<Facts>, SearchError>;
    /// Returns the documents around one in its session, without itself: at most `each_side` before and after, in any order.
    fn neighbours(&self, id: i64, each_side: u32) -> Result<Vec<i64>, SearchError>;
    /// Reads texts of a range of ids in bulk, newest or oldest first, until `each` breaks.
    fn scan(
        &self,
        range: RangeInclusive<i64>,
        newest_first: bool,
        each: &mut dyn FnMut(i64, &str) -> ControlFlow<()>,
    ) -> Result<(), SearchError>;
    /// Returns the least and the greatest id; none if there are no documents.
    fn id_range(&self) -> Result<Option<RangeInclusive<i64>>, SearchError>;
}

/// A question.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// What to look for.
    pub pattern: &'a str,
    /// How `pattern` is read.
    pub mode: SearchMode,
    /// The order.
    pub sort: SearchSort,
    /// Only these sessions; none for all.
    pub sessions: Option<&'a [i64]>,
    /// Only this role.
    pub role: Option<Role>,
    /// Only calls and results of this tool.
    pub tool: Option<&'a str>,
    /// Only from this time on, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Only before this time, in milliseconds since 1970.
    pub before_ms: Option<i64>,
    /// Only this depth.
    pub depth: Option<u32>,
    /// Only ids for which this holds. It is asked about every match, so it should be quick.
    pub within: Option<&'a dyn Fn(i64) -> bool>,
    /// Hits to pass over.
    pub offset: u64,
    /// Hits to return at most; 0 for [`LIMIT_DEFAULT`].
    pub limit: u64,
    /// The present, for the preference of what is recent; 0 for none.
    pub now_ms: i64,
    /// When to stop reading texts; none for a second from the start.
    pub deadline: Option<Instant>,
}

/// Hits of a page whose query names no limit.
pub const LIMIT_DEFAULT: u64 = 20;
/// Hits of a page at most, so that a page of snippets stays below about 300 KB.
pub const LIMIT_MAX: u64 = 1_000;

impl<'a> Query<'a> {
    /// Asks for a pattern in all documents, best first.
    pub fn new(pattern: &'a str) -> Query<'a> {
        Query {
            pattern,
            mode: SearchMode::Auto,
            sort: SearchSort::Relevance,
            sessions: None,
            role: None,
            tool: None,
            since_ms: None,
            before_ms: None,
            depth: None,
            within: None,
            offset: 0,
            limit: 0,
            now_ms: 0,
            deadline: None,
        }
    }

    /// Returns the hits of the page asked for.
    pub(crate) fn page_len(&self) -> usize {
        let limit = if self.limit == 0 { LIMIT_DEFAULT } else { self.limit.min(LIMIT_MAX) };
        usize::try_from(limit).unwrap_or(usize::MAX)
    }

    /// Returns the hits to pass over.
    pub(crate) fn skipped(&self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX)
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The hits of this page.
    pub hits: Vec<Hit>,
    /// Documents found in all.
    pub total: u64,
    /// Whether there may be more than `total`.
    pub total_is_least: bool,
    /// Texts that were read because no index could answer alone.
    pub scanned: u64,
    /// Why not everything in scope was looked at; empty if it was.
    pub not_covered: String,
    /// Whether more hits follow.
    pub has_more: bool,
    /// For a search that found nothing: indexed words near those asked for.
    pub nearest: Vec<String>,
}

/// A document that was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hit {
    /// Which.
    pub id: i64,
    /// The place found.
    pub snippet: String,
    /// Where the snippet begins in the text, in bytes.
    pub snippet_offset: u64,
    /// How good the match is; greater is better; 0 where matches were not ranked.
    pub score: f64,
    /// What the score is made of, in one line.
    pub why: String,
}
