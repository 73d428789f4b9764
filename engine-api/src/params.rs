//! What the host tells an engine, and what an engine answers, apart from conversations and plans.
//!
//! Each of these crosses the boundary as JSON, so fields can be added in a minor version: a reader of either age
//! fills what it does not find with the default and passes over what it does not know.

use crate::message::{coded_enum, Dialect};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The contract's version: an engine and a host of the same major understand each other, whichever minor each has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ApiVersion {
    /// Changes when old engines can no longer be loaded.
    pub major: u32,
    /// Changes when methods or fields are added.
    pub minor: u32,
    /// Changes when neither does.
    pub patch: u32,
}

/// The version of this crate, which is the contract's.
pub const API_VERSION: &str = env!("CARGO_PKG_VERSION");

impl ApiVersion {
    /// Returns the version of the contract that this crate was built as.
    pub fn current() -> Self {
        ApiVersion::parse(API_VERSION).unwrap_or(ApiVersion { major: 1, minor: 0, patch: 0 })
    }
    /// Reads `1`, `1.2` or `1.2.3`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().splitn(3, '.').map(|part| part.parse::<u32>().ok());
        let major = numbers.next()??;
        let minor = numbers.next().unwrap_or(Some(0))?;
        let patch = numbers.next().unwrap_or(Some(0))?;
        Some(ApiVersion { major, minor, patch })
    }
}

impl std::fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What an engine says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EngineInfo {
    /// The name that `context.engine` selects: `[a-z][a-z0-9_-]*`, the same as the plugin's folder.
    pub name: String,
    /// The engine's own version.
    pub version: String,
    /// One line for a list.
    #[serde(default)]
    pub description: String,
    /// What it makes use of, see [`capability`]. Words that a host does not know are passed over.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Other names it answers to.
    #[serde(default)]
    pub aliases: Vec<String>,
}

/// Words for [`EngineInfo::capabilities`].
pub mod capability {
    /// Asks the host's summariser for completions.
    pub const COMPLETES: &str = "completes";
    /// Offers tools to the model.
    pub const TOOLS: &str = "tools";
    /// Keeps state with the host between calls.
    pub const STATE: &str = "state";
    /// Covers summaries by summaries (a summary DAG).
    pub const SUMMARY_DAG: &str = "summary_dag";
    /// Prunes tool results without a completion.
    pub const PRUNES: &str = "prunes";
    /// Chooses a view for each request.
    pub const SELECTS: &str = "selects";
}

impl EngineInfo {
    /// Makes the info of an engine with no capabilities.
    pub fn new(name: impl Into<String>, version: impl Into<String>, description: impl Into<String>) -> Self {
        EngineInfo {
            name: name.into(),
            version: version.into(),
            description: description.into(),
            capabilities: Vec::new(),
            aliases: Vec::new(),
        }
    }
    /// Adds a capability.
    #[must_use]
    pub fn with(mut self, capability: &str) -> Self {
        self.capabilities.push(capability.to_string());
        self
    }
}

/// The model that the conversation is sent to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The model's name as the client wrote it.
    pub model: String,
    /// The provider, where it is known.
    pub provider: String,
    /// Context window in tokens; 0 where it is not known.
    pub context_length: u64,
    /// Tokens that the client reserves for the answer; 0 where it reserves none.
    pub max_tokens: u64,
    /// Prompt tokens at which the host's settings ask for a compaction.
    pub threshold_tokens: u64,
    /// Tokens that the host's settings leave to the tail.
    pub tail_budget_tokens: u64,
    /// The largest summary that the host's settings allow, in tokens.
    pub summary_tokens_max: u64,
    /// The wire dialect.
    pub dialect: Option<Dialect>,
}

coded_enum! {
    /// Why a session object is opened.
    StartReason, unknown = New {
        /// A conversation begins.
        New = 0 / "new",
        /// A stored conversation goes on (also after a restart of the engine).
        Resume = 1 / "resume",
        /// A branch of another conversation.
        Fork = 2 / "fork",
        /// A new session id that continues another session after a compaction (rotation).
        Rotation = 3 / "rotation",
    }
}

/// Opens an engine's session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SessionStart {
    /// The session's id.
    pub session_id: String,
    /// The session this one comes from, if any.
    pub parent_session_id: Option<String>,
    /// Why it is opened.
    pub reason: Option<StartReason>,
    /// The client's platform, where it is known.
    pub platform: String,
    /// The model.
    pub model: ModelInfo,
    /// The engine's own settings, as the user wrote them.
    pub settings: Value,
}

/// Token usage that a provider reported for one answered request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// All prompt tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
    /// Prompt and completion.
    pub total_tokens: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens of hidden reasoning.
    pub reasoning_tokens: u64,
}

coded_enum! {
    /// Where a token count comes from.
    Basis, unknown = Estimated {
        /// The provider reported it.
        Reported = 0 / "reported",
        /// Counted with the model's own vocabulary.
        Counted = 1 / "counted",
        /// Counted with another vocabulary, or estimated from the text.
        Estimated = 2 / "estimated",
    }
}

/// How large the next request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptTokens {
    /// Tokens of the whole request: messages, system text and tools.
    pub count: u64,
    /// Where the count comes from.
    pub basis: Basis,
}

/// An engine's answer to "compact now?".
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Decision {
    /// Whether it wants to compact.
    pub compress: bool,
    /// The prompt tokens it compared with; 0 where it compared with none.
    pub threshold_tokens: u64,
    /// Why, in one line with numbers.
    pub reason: String,
    /// Tells the host that its own threshold is to decide (the default of an engine that does not care).
    pub host_decides: bool,
    /// Asks for a plan to be prepared in the background, so that the compaction to come does not stop a turn.
    pub prepare: bool,
}

impl Decision {
    /// Leaves the decision to the host's settings.
    pub fn host_decides() -> Self {
        Decision { host_decides: true, reason: "left to the host's threshold".to_string(), ..Decision::default() }
    }
    /// Asks for a compaction.
    pub fn compress(threshold_tokens: u64, reason: impl Into<String>) -> Self {
        Decision { compress: true, threshold_tokens, reason: reason.into(), ..Decision::default() }
    }
    /// Asks for none.
    pub fn keep(threshold_tokens: u64, reason: impl Into<String>) -> Self {
        Decision { threshold_tokens, reason: reason.into(), ..Decision::default() }
    }
    /// Asks for none yet, but for a plan to be prepared.
    pub fn prepare(threshold_tokens: u64, reason: impl Into<String>) -> Self {
        Decision { threshold_tokens, reason: reason.into(), prepare: true, ..Decision::default() }
    }
}

coded_enum! {
    /// What brought a compaction about.
    Trigger, unknown = Threshold {
        /// The configured share of the window was reached.
        Threshold = 0 / "threshold",
        /// The gateway's safety valve at 85 % of the window.
        Hygiene = 1 / "hygiene",
        /// The provider refused the request as too long.
        Overflow = 2 / "overflow",
        /// The session was idle long enough.
        Idle = 3 / "idle",
        /// The provider's cache is cold, so that rewriting the prefix costs nothing.
        ColdCache = 4 / "cold_cache",
        /// A person asked for it.
        Manual = 5 / "manual",
        /// Prepared ahead of need.
        Background = 6 / "background",
    }
}

/// What the host asks of `compress`, `prune_tool_results` and `select_context`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CompressRequest {
    /// Tokens of the whole request now: messages and overhead.
    pub current_tokens: u64,
    /// Tokens of the request that are no messages (system text, tools); no plan can change them.
    pub overhead_tokens: u64,
    /// The whole request must end below this, overhead included.
    pub target_tokens: u64,
    /// What brought it about.
    pub trigger: Option<Trigger>,
    /// What the summary should dwell on; empty for nothing in particular.
    pub focus_topic: String,
    /// A person asked for it: cooldowns and breakers do not hold.
    pub force: bool,
    /// Text of the client's memory provider, cleaned and cut by the host; empty for none.
    pub memory_context: String,
    /// The newest exchanges that a person asked to keep whole; 0 for no such wish.
    pub keep_exchanges: u32,
    /// Completions that this call may ask for; 0 means none at all.
    pub completions_max: u32,
    /// Where the host would ask: the cheapest model that fits. An engine may ask another.
    pub completion_model: Option<crate::services::CompletionModel>,
    /// The window of that model in tokens; 0 where it is not known.
    pub completion_window: u64,
    /// Model and budgets.
    pub model: ModelInfo,
}

/// What became of a plan. Without it an engine's notion of the conversation would drift from the host's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PlanResult {
    /// Whether this plan (perhaps repaired) is now the context.
    pub applied: bool,
    /// Why not; empty if it was applied.
    pub rejection: String,
    /// The conversation's revision from now on.
    pub revision: u64,
    /// Ids of the summary nodes made from the plan's summaries, in the plan's order.
    pub nodes: Vec<u64>,
    /// Tokens of the request before and after.
    pub tokens_before: u64,
    /// See `tokens_before`.
    pub tokens_after: u64,
}

coded_enum! {
    /// Something that happened to the session.
    Lifecycle, unknown = Other {
        /// A compaction was applied; the session goes on. This is not an end.
        CompactionBoundary = 0 / "compaction_boundary",
        /// The session is over: flush.
        SessionEnd = 1 / "session_end",
        /// The user cleared the conversation: counters to zero.
        Reset = 2 / "reset",
        /// Something this version does not know.
        Other = 255 / "other",
    }
}

/// A lifecycle event with its particulars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LifecycleEvent {
    /// What happened.
    pub kind: Lifecycle,
    /// The session it happened to.
    #[serde(default)]
    pub session_id: String,
    /// For a rotation: the session before.
    #[serde(default)]
    pub old_session_id: Option<String>,
}

impl LifecycleEvent {
    /// Makes an event of a session.
    pub fn new(kind: Lifecycle, session_id: impl Into<String>) -> Self {
        LifecycleEvent { kind, session_id: session_id.into(), old_session_id: None }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TurnEnd {
    /// Whether the user interrupted it.
    pub interrupted: bool,
    /// Model calls in the turn.
    pub model_calls: u32,
}

/// The counters that every engine can show.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Status {
    /// Prompt tokens of the last answered request; 0 before the first.
    pub last_prompt_tokens: u64,
    /// The prompt tokens at which it compacts; 0 where the host decides.
    pub threshold_tokens: u64,
    /// The window it knows of.
    pub context_length: u64,
    /// Compactions applied in this session.
    pub compression_count: u64,
    /// Anything else worth showing.
    pub extra: Value,
}

/// A tool that an engine offers to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolSchema {
    /// Its name; give it the engine's name as a prefix.
    pub name: String,
    /// What the model reads.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

impl ToolSchema {
    /// Makes a tool schema.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        ToolSchema { name: name.into(), description: description.into(), parameters }
    }
}

/// A remark on an engine's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SettingDiagnostic {
    /// The setting, as a dotted path within the engine's own section.
    pub key: String,
    /// What is wrong and what is used instead.
    pub message: String,
}

impl SettingDiagnostic {
    /// Makes a remark.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        SettingDiagnostic { key: key.into(), message: message.into() }
    }
}

/// News of a subagent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SubagentEvent {
    /// The subagent's session.
    pub session_id: String,
    /// True when it starts, false when it has ended.
    pub started: bool,
}
