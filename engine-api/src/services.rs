//! What the host lends an engine for the length of one call: completions, token counts, recall, state, time.

use crate::error::{EngineError, ErrorKind};
use crate::message::{coded_enum, MessageId, NodeId, Role};
use serde::{Deserialize, Serialize};
use serde_json::Value;

coded_enum! {
    /// Which model a completion is asked of.
    CompletionModel, unknown = Auxiliary {
        /// The model that `auxiliary.compression` names.
        Auxiliary = 0 / "auxiliary",
        /// The model of the conversation.
        Main = 1 / "main",
        /// The model of the conversation, on the live prefix, so that its cache is used.
        MainOnPrefix = 2 / "main_on_prefix",
    }
}

/// A completion that an engine asks for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// What it is for: `summary`, `digest`, `map`, ...
    pub task: String,
    /// System text; empty for none.
    pub system: String,
    /// The prompt.
    pub prompt: String,
    /// Which model.
    pub model: Option<CompletionModel>,
    /// Tokens of the answer that the engine hopes for; the host states it in no hard limit, since reasoning counts too.
    pub tokens_hint: u64,
    /// JSON Schema of the answer, for a structured one.
    pub schema: Option<Value>,
}

impl CompletionRequest {
    /// Makes a request to the auxiliary model.
    pub fn new(task: impl Into<String>, prompt: impl Into<String>) -> Self {
        CompletionRequest { task: task.into(), prompt: prompt.into(), ..CompletionRequest::default() }
    }
}

/// The answer to a completion.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Completion {
    /// The text.
    pub text: String,
    /// The model that answered; `offline` if no model was asked.
    pub model: String,
    /// Why it ended: `stop`, `length`, ...
    pub finish_reason: String,
    /// Tokens used.
    pub usage: crate::params::Usage,
}

coded_enum! {
    /// How the pattern of a search is read.
    SearchMode, unknown = Auto {
        /// Words in any order, ranked; text in double quotes is a phrase; what plainly is a regular expression is one.
        Auto = 0 / "auto",
        /// Words in any order: messages with more and rarer ones come first.
        Words = 1 / "words",
        /// The words in this order, with nothing between.
        Phrase = 2 / "phrase",
        /// A regular expression (linear-time syntax: no look-around, no back-references).
        Regex = 3 / "regex",
        /// These characters anywhere, whatever stands around them; letter case does not matter.
        Substring = 4 / "substring",
    }
}

coded_enum! {
    /// What a search looks through.
    SearchKind, unknown = Both {
        /// Messages, and after them summaries.
        Both = 0 / "both",
        /// Messages only.
        Messages = 1 / "messages",
        /// Summaries only.
        Summaries = 2 / "summaries",
    }
}

coded_enum! {
    /// The order of what a search finds.
    SearchSort, unknown = Relevance {
        /// Best match first, with a mild preference for what is recent.
        Relevance = 0 / "relevance",
        /// Newest first.
        Newest = 1 / "newest",
        /// Oldest first.
        Oldest = 2 / "oldest",
    }
}

/// A question about messages and summaries, compacted or not.
///
/// Where a `session` can be named, an empty one stands for the session of the call. A host without a store knows that one only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "op")]
#[non_exhaustive]
pub enum RecallRequest {
    /// Finds messages and summaries by text.
    Search(Box<RecallSearch>),
    /// Returns a message: its text, or the bytes it came in.
    Get {
        /// Which.
        message: MessageId,
        /// Whose.
        #[serde(default)]
        session: String,
        /// Return the bytes that the client sent (the JSON of the message) in place of its text.
        #[serde(default)]
        raw: bool,
        /// Bytes of the text to pass over; moved back to the start of a character.
        #[serde(default)]
        offset: u64,
        /// Bytes of the text to return at most; 0 for all.
        #[serde(default)]
        limit: u64,
    },
    /// Returns what a summary stands for, oldest first: messages whole.
    Expand {
        /// Which.
        node: NodeId,
        /// Whose.
        #[serde(default)]
        session: String,
        /// Return what the summary was made from (messages, and summaries as hits with a `node` and no `message`) in
        /// place of all messages below it.
        #[serde(default)]
        direct: bool,
        /// Messages to pass over.
        #[serde(default)]
        offset: u64,
        /// Messages to return at most; 0 for the host's default.
        #[serde(default)]
        limit: u64,
    },
    /// Returns the particulars of a summary in [`RecallReply::node`].
    Describe {
        /// Which.
        node: NodeId,
        /// Whose.
        #[serde(default)]
        session: String,
    },
    /// Returns the particulars of a session in [`RecallReply::node`]: counts of messages, and its summaries by depth.
    Overview {
        /// Which.
        #[serde(default)]
        session: String,
    },
    /// Returns a session's messages in their order, from after `after` on.
    Load {
        /// Which.
        session: String,
        /// The last message already seen; 0 for none.
        #[serde(default)]
        after: MessageId,
        /// Messages to return at most; 0 for the host's default.
        #[serde(default)]
        limit: u64,
        /// Only messages of these roles; empty for all.
        #[serde(default)]
        roles: Vec<Role>,
    },
    /// Returns the sessions that there are, newest first, as a list in [`RecallReply::node`].
    Sessions {
        /// Sessions to pass over.
        #[serde(default)]
        offset: u64,
        /// Sessions to return at most; 0 for the host's default.
        #[serde(default)]
        limit: u64,
    },
}

impl RecallRequest {
    /// Asks for what a search finds.
    pub fn search(search: RecallSearch) -> Self {
        RecallRequest::Search(Box::new(search))
    }
    /// Asks for a message of this session, whole.
    pub fn get(message: MessageId) -> Self {
        RecallRequest::Get { message, session: String::new(), raw: false, offset: 0, limit: 0 }
    }
    /// Asks for a page of what a summary of this session stands for.
    pub fn expand(node: NodeId, offset: u64, limit: u64) -> Self {
        RecallRequest::Expand { node, session: String::new(), direct: false, offset, limit }
    }
    /// Asks for the particulars of a summary of this session.
    pub fn describe(node: NodeId) -> Self {
        RecallRequest::Describe { node, session: String::new() }
    }
}

/// A search; see [`RecallRequest::Search`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecallSearch {
    /// What to look for.
    pub pattern: String,
    /// Whether `pattern` is a regular expression; the same as [`SearchMode::Regex`].
    pub regex: bool,
    /// How `pattern` is read.
    pub mode: Option<SearchMode>,
    /// Messages, summaries or both.
    pub kind: Option<SearchKind>,
    /// The order.
    pub sort: Option<SearchSort>,
    /// Only this session; empty for that of the call.
    pub session: String,
    /// All sessions of the store.
    pub all_sessions: bool,
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only calls and results of this tool.
    pub tool: Option<String>,
    /// Only from this time on, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Only before this time, in milliseconds since 1970.
    pub before_ms: Option<u64>,
    /// Only summaries of this depth.
    pub depth: Option<u32>,
    /// Only messages that a summary stands for (directly or through other summaries).
    pub compacted_only: bool,
    /// Only what this node stands for.
    pub node: Option<NodeId>,
    /// Hits to pass over.
    pub offset: u64,
    /// Hits to return at most; 0 for the host's default.
    pub limit: u64,
}

impl RecallSearch {
    /// Searches for words.
    pub fn new(pattern: impl Into<String>) -> Self {
        RecallSearch { pattern: pattern.into(), ..RecallSearch::default() }
    }
}

/// A message found or returned by recall.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecallHit {
    /// The message; 0 for a hit in a summary.
    pub message: MessageId,
    /// The summary that stands for it, or that was hit; 0 for none.
    pub node: NodeId,
    /// The session, where it is not that of the call.
    pub session: String,
    /// Who spoke.
    pub role: Option<Role>,
    /// The tool, for a call or a result.
    pub tool: String,
    /// The place found, or the text for `Get`, `Expand` and `Load`.
    pub text: String,
    /// Where `text` begins in the whole text, in bytes.
    pub offset: u64,
    /// Bytes of the whole text.
    pub text_bytes: u64,
    /// Tokens of the whole message.
    pub tokens: u64,
    /// When it was said, in milliseconds since 1970; 0 where that is not known.
    pub at_ms: u64,
    /// Depth of the summary that was hit.
    pub depth: u32,
    /// Whether the model sees it in the present context.
    pub live: bool,
    /// How good the match is; greater is better; 0 where matches were not ranked.
    pub score: f64,
    /// What the score is made of, in one line.
    pub why: String,
}

impl RecallHit {
    /// Makes a hit.
    pub fn new(message: MessageId, node: NodeId, role: Role, text: impl Into<String>) -> Self {
        RecallHit { message, node, role: Some(role), text: text.into(), ..RecallHit::default() }
    }
}

/// The answer to a [`RecallRequest`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecallReply {
    /// What was found, best or oldest first.
    pub hits: Vec<RecallHit>,
    /// How much there is in all.
    pub total: u64,
    /// Whether there may be more than `total`: counting ended at a bound.
    pub total_is_least: bool,
    /// Messages that were looked at, where an index could not answer alone.
    pub scanned: u64,
    /// Why not everything in scope was looked at; empty if it was.
    pub not_covered: String,
    /// Whether more hits follow the returned ones.
    pub has_more: bool,
    /// For a search that found nothing: words of the conversations that come nearest to those asked for.
    pub nearest: Vec<String>,
    /// For `Describe`, an object: `node`, `depth`, `kind`, `text`, `tokens`, `source_tokens`, `messages` (how many it stands
    /// for), `first_message`, `last_message`, `direct_messages`, `nodes`, `parents`, `live`, `first_ms`, `last_ms`, `made_ms`,
    /// `model`. For `Overview`, an object: `session`, `title`, `messages`, `live_messages`, `compacted_messages`,
    /// `first_message`, `last_message`, and `depths`, a list of `depth`, `count`, `tokens`, `source_tokens` and the newest
    /// `nodes` of that depth. For `Sessions`, a list of `name`, `title`, `parent`, `messages`, `created_ms`, `updated_ms`,
    /// `ended_ms`. A host without a store leaves out what it does not know.
    pub node: Value,
}

coded_enum! {
    /// How much a log line matters.
    LogLevel, unknown = Info {
        /// Someone must act.
        Error = 0 / "error",
        /// Odd but handled.
        Warn = 1 / "warn",
        /// Life events.
        Info = 2 / "info",
        /// For the engine's author.
        Debug = 3 / "debug",
        /// For the engine's author, in bulk.
        Trace = 4 / "trace",
    }
}

/// The services of a host, bound to one call: they end with it.
///
/// Message text and keys never belong in a log line. Every method may be called from any thread during the call.
pub trait HostServices: Sync {
    /// Asks a model, with the call's deadline and budget. Blocks.
    fn complete(&self, request: &CompletionRequest) -> Result<Completion, EngineError>;
    /// Asks a model several things at once. Blocks until all are answered or failed; answers stand in the order of the requests.
    fn complete_many(&self, requests: &[CompletionRequest]) -> Vec<Result<Completion, EngineError>> {
        requests.iter().map(|request| self.complete(request)).collect()
    }
    /// Counts the tokens of a text.
    fn count_tokens(&self, text: &str) -> u64;
    /// Counts several texts in one crossing.
    fn count_tokens_batch(&self, texts: &[&str]) -> Vec<u64> {
        texts.iter().map(|text| self.count_tokens(text)).collect()
    }
    /// Looks things up in this session.
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError>;
    /// Reads the engine's state of this session.
    fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError>;
    /// Writes the engine's state of this session. It is committed together with the plan of this call, or not at all.
    fn state_put(&self, key: &str, value: &[u8]) -> Result<(), EngineError>;
    /// Returns a folder of the engine's own, the only place it may write to.
    fn data_dir(&self) -> Result<String, EngineError> {
        Err(EngineError::unsupported("a data folder"))
    }
    /// Returns the engine's own settings.
    fn settings(&self) -> Value {
        Value::Null
    }
    /// Takes secrets out of a text.
    fn redact(&self, text: &str) -> String;
    /// Writes a log line.
    fn log(&self, level: LogLevel, message: &str, fields: &Value);
    /// Tells how far a long call has come.
    fn progress(&self, done: u64, total: u64, note: &str) {
        let _ = (done, total, note);
    }
    /// Returns the wall clock, in milliseconds since 1970.
    fn now_unix_ms(&self) -> u64;
    /// Returns a clock that never goes back, in milliseconds.
    fn monotonic_ms(&self) -> u64;
    /// Tells whether the call should end at once.
    fn cancelled(&self) -> bool {
        false
    }
    /// Returns how long the call may still take, in milliseconds.
    fn remaining_ms(&self) -> u64 {
        u64::MAX
    }
    /// Returns what the host is: name, version, API version.
    fn host_info(&self) -> Value {
        Value::Null
    }
    /// Records a measurement; returns false from a host that has no place for it (any host of API 1.0).
    fn metric(&self, name: &str, value: f64) -> bool {
        let _ = (name, value);
        false
    }
}

/// Returns the error of a call that was cancelled or has run out of time, if it has: for long loops in an engine.
pub fn check_cancelled(services: &dyn HostServices) -> Result<(), EngineError> {
    if services.cancelled() {
        return Err(EngineError::new(ErrorKind::Cancelled, "the call was cancelled"));
    }
    if services.remaining_ms() == 0 {
        return Err(EngineError::new(ErrorKind::TimedOut, "the call ran out of time"));
    }
    Ok(())
}
