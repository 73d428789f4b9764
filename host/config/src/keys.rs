//! The one table of settings: path, type, range, default, meaning, and where the default comes from.
//!
//! Reading, checking, `get`, `set`, the JSON schema, the reference page and the example file all follow this table,
//! so a setting is added or changed here and nowhere else (besides its field in `types`).

use serde_json::{Map, Value, json};

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted path in the file.
    pub path: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    /// What it does, in a sentence or two.
    pub meaning: &'static str,
    pub source: Source,
}

/// What a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Bool,
    /// A number from `min` to `max`; `60%` is read as 0.60.
    Fraction {
        min: f64,
        max: f64,
        out_of_range: OutOfRange,
    },
    Integer {
        min: u64,
        max: u64,
        out_of_range: OutOfRange,
    },
    /// A whole number, or `null` for none.
    OptionalInteger {
        min: u64,
        max: u64,
    },
    /// One of a few words, in any case.
    Choice(&'static [&'static str]),
    /// The name of an engine: letters, digits, `-`, `_`, `.`.
    Name,
    Text,
    /// A credential, best written as `${NAME}`.
    Secret,
    /// A list of texts; one text alone is read as a list of one.
    TextList,
    /// A mapping from text to numbers from `min` to `max`.
    FractionMap {
        min: f64,
        max: f64,
    },
    /// A mapping whose content is not ours to check.
    Object,
    /// A list of mappings whose content is not ours to check.
    ObjectList,
}

/// What is used when a number leaves its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfRange {
    /// The default: the number says too little about what was meant.
    UseDefault,
    /// The nearest end, as Hermes does for this key.
    UseNearest,
}

/// A default that can stand in a table.
#[derive(Clone, Copy, Debug)]
pub enum Fallback {
    Bool(bool),
    Number(f64),
    Integer(u64),
    Text(&'static str),
    Null,
    EmptyList,
    EmptyMap,
}

/// Where the name and the default come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Same name and default as Hermes 0.19.0.
    Hermes,
    /// Hermes 0.19.0 reads the key but gives it no default.
    HermesOptional,
    /// Same name and default as the Hermes documentation after 0.19.0.
    HermesDocs,
    /// Not a Hermes key.
    Ours,
}

impl Source {
    /// Says which Hermes default the key equals.
    pub fn describe(self) -> &'static str {
        match self {
            Source::Hermes => "Hermes 0.19.0",
            Source::HermesOptional => "Hermes 0.19.0 (optional)",
            Source::HermesDocs => "Hermes documentation",
            Source::Ours => "Palimpsest only",
        }
    }
}

impl Fallback {
    pub fn to_value(self) -> Value {
        match self {
            Fallback::Bool(b) => json!(b),
            Fallback::Number(n) => json!(n),
            Fallback::Integer(n) => json!(n),
            Fallback::Text(t) => json!(t),
            Fallback::Null => Value::Null,
            Fallback::EmptyList => json!([]),
            Fallback::EmptyMap => json!({}),
        }
    }
}

/// A section and what it is about, in the order of the reference page.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub path: &'static str,
    pub about: &'static str,
}

/// The sections of the file.
pub const SECTIONS: &[Section] = &[
    Section { path: "context", about: "Which engine compacts the conversation, and what decides when." },
    Section { path: "compression", about: "When a compaction happens and what it keeps." },
    Section { path: "auxiliary.compression", about: "The model that writes summaries." },
    Section { path: "prompt_caching", about: "Cache breakpoints for providers that take them." },
    Section {
        path: "model",
        about: "The conversation's own model. `model: \"name\"` is short for `model: {default: \"name\"}`.",
    },
    Section { path: "plugins", about: "General plugins. None is loaded unless it is named here." },
    Section { path: "store", about: "Where conversations are kept." },
    Section { path: "pins", about: "What must stay word for word in every context, whatever the engine." },
    Section { path: "hooks", about: "Who is told when something happened to a session." },
    Section { path: "gateway", about: "The proxy that `palimpsest gateway` runs in front of a provider." },
    Section { path: "providers", about: "Where the gateway sends requests." },
    Section {
        path: ENGINES,
        about: "Each engine's own settings, as `engines.<name>.<setting>`. They are handed to the engine unchecked.",
    },
];

/// The engine that is always there.
pub const BUILT_IN_ENGINE: &str = "compressor";

/// The section that belongs to the engines.
pub const ENGINES: &str = "engines";

/// Window sizes that make sense; larger numbers are typing errors.
const TOKENS_MAX: u64 = 100_000_000;
/// Counts of messages beyond this mean "all of them" on any real conversation.
const MESSAGES_MAX: u64 = 10_000_000;
/// One year, the longest idle time worth distinguishing from never.
const IDLE_SECONDS_MAX: u64 = 31_536_000;
/// More views than that are not gone through by hand.
const KEEP_VIEWS_MAX: u64 = 100_000;
/// A summary call that takes longer than an hour is not coming back.
const TIMEOUT_SECONDS_MAX: u64 = 3_600;
/// Recall calls in a row beyond this are a loop.
const TOOL_ROUNDS_MAX: u64 = 64;
/// Below this no agent's request fits.
const BODY_BYTES_MIN: u64 = 64 * 1024;
/// Bodies are held in memory.
const BODY_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// More than a process may have files open.
const CONNECTIONS_MAX: u64 = 65_536;
/// Each costs some kilobytes.
const SESSIONS_MAX: u64 = 1_000_000;
/// More than a machine of today has.
const RESIDENT_BYTES_MAX: u64 = 1 << 40;
/// A provider that fails this often in a row is down.
const RETRIES_MAX: u64 = 5;

const fn key(path: &'static str, kind: Kind, default: Fallback, source: Source, meaning: &'static str) -> Key {
    Key { path, kind, default, meaning, source }
}

const fn nearest(min: u64, max: u64) -> Kind {
    Kind::Integer { min, max, out_of_range: OutOfRange::UseNearest }
}

/// Every setting, in the order of the reference page.
pub const KEYS: &[Key] = &[
    key(
        "context.engine",
        Kind::Name,
        Fallback::Text(BUILT_IN_ENGINE),
        Source::Hermes,
        "The engine that compacts. `compressor` is the built-in one; a name that is not installed falls back to it.",
    ),
    key(
        "context.mode",
        Kind::Choice(&["fraction", "economic"]),
        Fallback::Text("fraction"),
        Source::Ours,
        "`fraction` compacts at `compression.threshold`; `economic` also waits for the turn at which a compaction pays \
         for itself.",
    ),
    key(
        "context.carry_over_depth",
        Kind::OptionalInteger { min: 0, max: 64 },
        Fallback::Integer(2),
        Source::Ours,
        "Summaries of at least this depth are seen in the session that follows a `/new`; `null` carries nothing over.",
    ),
    key(
        "compression.enabled",
        Kind::Bool,
        Fallback::Bool(true),
        Source::Hermes,
        "Whether conversations are compacted without being asked.",
    ),
    key(
        "compression.threshold",
        Kind::Fraction { min: 0.05, max: 0.95, out_of_range: OutOfRange::UseDefault },
        Fallback::Number(0.50),
        Source::Hermes,
        "Fraction of the context window at which a compaction is due. Windows below 512,000 tokens use at least \
         `small_context_floor`.",
    ),
    key(
        "compression.model_thresholds",
        Kind::FractionMap { min: 0.05, max: 0.95 },
        Fallback::EmptyMap,
        Source::HermesDocs,
        "Thresholds per model. A name matches as a substring of the model, and the longest match wins.",
    ),
    key(
        "compression.small_context_floor",
        Kind::Fraction { min: 0.0, max: 0.95, out_of_range: OutOfRange::UseDefault },
        Fallback::Number(0.75),
        Source::Ours,
        "Lowest threshold for windows below 512,000 tokens; Hermes 0.19.0 always uses 0.75. 0 turns it off, which \
         gives the table of its documentation (200,000 × 0.50 = 100,000).",
    ),
    key(
        "compression.target_ratio",
        Kind::Fraction { min: 0.10, max: 0.80, out_of_range: OutOfRange::UseNearest },
        Fallback::Number(0.20),
        Source::Hermes,
        "Share of the threshold kept word for word at the end of the conversation, with `tail_mode: legacy`. In both \
         modes an idle compaction is skipped below this share.",
    ),
    key(
        "compression.tail_mode",
        Kind::Choice(&["lean", "legacy"]),
        Fallback::Text("lean"),
        Source::HermesDocs,
        "`lean` keeps 2.5 % of the window (10,000 to 25,000 tokens) and lets the summary carry the rest; `legacy` keeps \
         `target_ratio` of the threshold, the only behaviour of Hermes 0.19.0.",
    ),
    key(
        "compression.protect_last_n",
        nearest(0, MESSAGES_MAX),
        Fallback::Integer(20),
        Source::Hermes,
        "How many of the newest messages pruning leaves alone.",
    ),
    key(
        "compression.protect_first_n",
        nearest(0, MESSAGES_MAX),
        Fallback::Integer(3),
        Source::Hermes,
        "How many messages after the system prompt the first compaction keeps.",
    ),
    key(
        "compression.min_tail_user_messages",
        nearest(1, MESSAGES_MAX),
        Fallback::Integer(1),
        Source::HermesDocs,
        "How many of the newest real user messages stay word for word, even over the tail budget.",
    ),
    key(
        "compression.hygiene_hard_message_limit",
        Kind::Integer { min: 4, max: MESSAGES_MAX, out_of_range: OutOfRange::UseDefault },
        Fallback::Integer(5000),
        Source::Hermes,
        "Number of messages at which the gateway compacts whatever the token count is.",
    ),
    key(
        "compression.idle_compact_after_seconds",
        nearest(0, IDLE_SECONDS_MAX),
        Fallback::Integer(0),
        Source::HermesDocs,
        "Compacts first when a conversation resumes after this many seconds. 0 turns it off.",
    ),
    key(
        "compression.abort_on_summary_failure",
        Kind::Bool,
        Fallback::Bool(false),
        Source::Hermes,
        "Leaves the conversation as it is when no summary can be written, instead of using one made without a model.",
    ),
    key(
        "compression.in_place",
        Kind::Bool,
        Fallback::Bool(true),
        Source::Hermes,
        "Compacts within the same session; `false` starts a child session with each compaction.",
    ),
    key(
        "compression.prepare_at",
        Kind::Fraction { min: 0.0, max: 1.0, out_of_range: OutOfRange::UseDefault },
        Fallback::Number(0.85),
        Source::Ours,
        "Fraction of the threshold at which a long-lived session prepares its next compaction in the background, so that \
         no turn waits for it; `0` never does.",
    ),
    key(
        "compression.codex_gpt55_autoraise",
        Kind::Bool,
        Fallback::Bool(true),
        Source::Hermes,
        "Raises the threshold to 0.85 for gpt-5.4, gpt-5.5 and gpt-5.6 on the provider `openai-codex`, whose window is \
         272,000 tokens. The `-900k` models keep the configured threshold.",
    ),
    key(
        "compression.codex_gpt55_autoraise_notice",
        Kind::Bool,
        Fallback::Bool(true),
        Source::Hermes,
        "Shows once that the threshold was raised.",
    ),
    key(
        "compression.codex_app_server_auto",
        Kind::Choice(&["native", "hermes", "off"]),
        Fallback::Text("native"),
        Source::Hermes,
        "Who starts compactions of Codex app-server threads: Codex itself, this threshold, or nobody.",
    ),
    key(
        "compression.codex_responses_native",
        Kind::Bool,
        Fallback::Bool(false),
        Source::HermesDocs,
        "Lets OpenAI compact on its side for gpt-5.6 on its own API or the Codex backend.",
    ),
    key(
        "compression.codex_responses_compact_threshold",
        Kind::OptionalInteger { min: 1, max: TOKENS_MAX },
        Fallback::Integer(200_000),
        Source::HermesDocs,
        "Tokens at which OpenAI compacts, lowered to stay 8,192 below the local threshold. `null` follows the local \
         threshold.",
    ),
    key(
        "auxiliary.compression.provider",
        Kind::Choice(&["auto", "openrouter", "anthropic", "openai", "nous", "main", "custom"]),
        Fallback::Text("auto"),
        Source::Hermes,
        "Where summaries are written. `main` is the conversation's own provider, `custom` the one at `base_url`.",
    ),
    key(
        "auxiliary.compression.model",
        Kind::Text,
        Fallback::Text(""),
        Source::Hermes,
        "Model that writes summaries; empty takes the conversation's own. Its window should hold what is summarised.",
    ),
    key(
        "auxiliary.compression.base_url",
        Kind::Text,
        Fallback::Text(""),
        Source::Hermes,
        "Address of an OpenAI-compatible API for summaries; empty takes the provider's.",
    ),
    key(
        "auxiliary.compression.api_key",
        Kind::Secret,
        Fallback::Text(""),
        Source::Hermes,
        "Key for that API, best written as `${NAME}` so that the file holds no credential.",
    ),
    key(
        "auxiliary.compression.timeout",
        Kind::Integer { min: 1, max: TIMEOUT_SECONDS_MAX, out_of_range: OutOfRange::UseDefault },
        Fallback::Integer(120),
        Source::Hermes,
        "Seconds one summary call may take.",
    ),
    key(
        "auxiliary.compression.extra_body",
        Kind::Object,
        Fallback::EmptyMap,
        Source::Hermes,
        "Fields added to the body of summary calls.",
    ),
    key(
        "auxiliary.compression.reasoning_effort",
        Kind::Text,
        Fallback::Text(""),
        Source::Hermes,
        "Reasoning effort asked for in summary calls; empty leaves it to the provider.",
    ),
    key(
        "auxiliary.compression.context_length",
        Kind::OptionalInteger { min: 1, max: TOKENS_MAX },
        Fallback::Null,
        Source::HermesOptional,
        "Window of the summary model where it is not known.",
    ),
    key(
        "auxiliary.compression.fallback_chain",
        Kind::ObjectList,
        Fallback::EmptyList,
        Source::HermesOptional,
        "Providers tried in turn when the first one fails, each with `provider`, `model`, `base_url`, `api_key`.",
    ),
    key(
        "prompt_caching.enabled",
        Kind::Bool,
        Fallback::Bool(true),
        Source::Ours,
        "Whether cache breakpoints are placed for providers that take them.",
    ),
    key(
        "prompt_caching.cache_ttl",
        Kind::Choice(&["5m", "1h"]),
        Fallback::Text("5m"),
        Source::Hermes,
        "How long a cached prefix lives. `1h` costs more to write and pays off with pauses over five minutes.",
    ),
    key(
        "model.default",
        Kind::Text,
        Fallback::Text(""),
        Source::HermesOptional,
        "Model assumed where a request names none.",
    ),
    key(
        "model.provider",
        Kind::Text,
        Fallback::Text(""),
        Source::HermesOptional,
        "Provider of the model. `openai-codex` turns on the Codex threshold rules.",
    ),
    key(
        "model.context_length",
        Kind::OptionalInteger { min: 1, max: TOKENS_MAX },
        Fallback::Null,
        Source::HermesOptional,
        "Context window in tokens, where the known one is wrong.",
    ),
    key(
        "model.max_tokens",
        Kind::OptionalInteger { min: 1, max: TOKENS_MAX },
        Fallback::Null,
        Source::HermesOptional,
        "Longest reply in tokens; it is taken off the window before the threshold is computed.",
    ),
    key("plugins.enabled", Kind::TextList, Fallback::EmptyList, Source::HermesOptional, "General plugins to load."),
    key(
        "plugins.disabled",
        Kind::TextList,
        Fallback::EmptyList,
        Source::HermesOptional,
        "General plugins never to load, even when enabled.",
    ),
    key(
        "store.path",
        Kind::Text,
        Fallback::Text(""),
        Source::Ours,
        "The file that keeps conversations; empty for `sessions.db` in the home folder. Not on a network drive, where \
         locks do not hold.",
    ),
    key(
        "store.keep_views",
        nearest(1, KEEP_VIEWS_MAX),
        Fallback::Integer(50),
        Source::Ours,
        "Compactions that can be undone, for each branch; `sessions gc` sweeps older views. Messages are never swept.",
    ),
    key(
        "pins.rules",
        Kind::ObjectList,
        Fallback::EmptyList,
        Source::Ours,
        "Messages that every engine must keep: mappings with `regex`, `role`, `tool` or `file` (a glob); all of a \
         mapping must fit.",
    ),
    key(
        "pins.files",
        Kind::TextList,
        Fallback::EmptyList,
        Source::Ours,
        "Files whose text is put word for word into every compacted context that does not have it already.",
    ),
    key(
        "hooks.session:compress",
        Kind::ObjectList,
        Fallback::EmptyList,
        Source::Ours,
        "Who is told of each compaction: mappings with `command` (a list; the event is JSON on its standard input) or \
         `url` (it is posted), and `timeout` in seconds.",
    ),
    key(
        "gateway.listen",
        Kind::Text,
        Fallback::Text("127.0.0.1:8484"),
        Source::Ours,
        "Address and port. Any address but a loopback one needs `gateway.key`.",
    ),
    key(
        "gateway.key",
        Kind::Secret,
        Fallback::Text(""),
        Source::Ours,
        "Key of at least 32 bytes that clients must send in `x-palimpsest-key`, or as their own API key where the \
         provider's key is set here.",
    ),
    key(
        "gateway.upstream",
        Kind::Text,
        Fallback::Text(""),
        Source::Ours,
        "One address for all requests, in place of the vendors' own; `providers` are more specific.",
    ),
    key(
        "gateway.mode",
        Kind::Choice(&["transparent", "native"]),
        Fallback::Text("transparent"),
        Source::Ours,
        "`transparent` compacts on the way to the provider, so that the client never has to; `native` answers the \
         client's own compaction with the engine's.",
    ),
    key(
        "gateway.client_modes",
        Kind::Object,
        Fallback::EmptyMap,
        Source::Ours,
        "The mode of single clients: `codex`, `claude`, `opencode`, `hermes`.",
    ),
    key(
        "gateway.engine_tools",
        Kind::Bool,
        Fallback::Bool(true),
        Source::Ours,
        "Whether the model is offered the engine's recall tools once something has been compacted.",
    ),
    key(
        "gateway.tool_rounds_max",
        nearest(1, TOOL_ROUNDS_MAX),
        Fallback::Integer(8),
        Source::Ours,
        "Times in a row that the gateway answers recall calls before the client gets its reply.",
    ),
    key(
        "gateway.body_bytes_max",
        nearest(BODY_BYTES_MIN, BODY_BYTES_MAX),
        Fallback::Integer(64 * 1024 * 1024),
        Source::Ours,
        "Largest request body; a larger one is refused with 413.",
    ),
    key(
        "gateway.body_seconds",
        nearest(1, TIMEOUT_SECONDS_MAX),
        Fallback::Integer(60),
        Source::Ours,
        "Seconds in which a client must have sent its headers, and then its body.",
    ),
    key(
        "gateway.connections_max",
        nearest(1, CONNECTIONS_MAX),
        Fallback::Integer(1_024),
        Source::Ours,
        "Connections of clients at the same time; further ones wait to be accepted.",
    ),
    key(
        "gateway.requests_max",
        nearest(1, CONNECTIONS_MAX),
        Fallback::Integer(256),
        Source::Ours,
        "Requests under way at the same time; further ones are refused with 503 and `retry-after`.",
    ),
    key(
        "gateway.sessions_max",
        nearest(1, SESSIONS_MAX),
        Fallback::Integer(4_096),
        Source::Ours,
        "Sessions that are kept track of in memory; older ones are found again in the store.",
    ),
    key(
        "gateway.resident_bytes_max",
        nearest(0, RESIDENT_BYTES_MAX),
        Fallback::Integer(32 * 1024 * 1024),
        Source::Ours,
        "Text of conversations near a compaction that is kept in memory between requests.",
    ),
    key(
        "gateway.first_byte_seconds",
        nearest(1, TIMEOUT_SECONDS_MAX),
        Fallback::Integer(600),
        Source::Ours,
        "Seconds that a provider may take until its answer begins.",
    ),
    key(
        "gateway.stall_seconds",
        nearest(1, TIMEOUT_SECONDS_MAX),
        Fallback::Integer(300),
        Source::Ours,
        "Seconds without a byte of an answer that has begun, after which it is given up.",
    ),
    key(
        "gateway.retries",
        nearest(0, RETRIES_MAX),
        Fallback::Integer(2),
        Source::Ours,
        "Times that a request is sent again when the connection fails or the provider answers 502, 503, 504 or 529 \
         before the first byte of an answer.",
    ),
    key(
        "gateway.drain_seconds",
        nearest(0, TIMEOUT_SECONDS_MAX),
        Fallback::Integer(30),
        Source::Ours,
        "Seconds that running answers get to end when the gateway is told to stop.",
    ),
    key(
        "gateway.response_header",
        Kind::Bool,
        Fallback::Bool(true),
        Source::Ours,
        "Whether answers carry `x-palimpsest` with engine, action and tokens saved.",
    ),
    key(
        "gateway.access_log",
        Kind::Text,
        Fallback::Text("stderr"),
        Source::Ours,
        "Where one line for each request goes: `stderr`, `off` or a file. No text of a conversation and no key is in it.",
    ),
    key(
        "providers",
        Kind::Object,
        Fallback::EmptyMap,
        Source::Ours,
        "Providers by name, each with `base_url`, and if wanted `api` (`openai` or `anthropic`), `api_key` (in place of \
         the client's), `headers`, `models` (a list of names with `*`, or a mapping from name to `context_length`). A \
         request goes to the provider that its path names (`/p/NAME/…`), else to the first that lists its model, else \
         to the first of its API.",
    ),
];

/// Returns the setting at a path.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Returns the setting whose value contains the path, with the rest of the path: `model_thresholds.<name>` and the like.
pub(crate) fn containing(path: &str) -> Option<(&'static Key, &str)> {
    KEYS.iter().filter(|key| matches!(key.kind, Kind::FractionMap { .. } | Kind::Object)).find_map(|key| {
        Some((key, path.strip_prefix(key.path)?.strip_prefix('.')?)).filter(|(_, rest)| !rest.is_empty())
    })
}

/// Returns what one entry of a `FractionMap` accepts.
pub(crate) fn entry_kind(min: f64, max: f64) -> Kind {
    Kind::Fraction { min, max, out_of_range: OutOfRange::UseDefault }
}

/// Tells whether a path leads to settings but is none itself.
pub(crate) fn is_section(path: &str) -> bool {
    path == ENGINES || KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the defaults as one tree.
pub fn default_tree() -> Value {
    let mut tree = Value::Object(Map::new());
    for key in KEYS {
        let segments: Vec<&str> = key.path.split('.').collect();
        insert(&mut tree, &segments, key.default.to_value());
    }
    insert(&mut tree, &[ENGINES], json!({}));
    tree
}

/// Puts a value into a tree, making the mappings on the way.
pub(crate) fn insert<S: AsRef<str>>(tree: &mut Value, path: &[S], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = tree;
    for segment in parents {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(map) = at else { return };
        at = map.entry(segment.as_ref()).or_insert_with(|| Value::Object(Map::new()));
    }
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    if let Value::Object(map) = at {
        map.insert(last.as_ref().to_owned(), value);
    }
}

/// A key of older files, and the key that replaced it.
pub(crate) const MOVED: &[(&str, &str)] = &[
    ("compression.summary_model", "auxiliary.compression.model"),
    ("compression.summary_provider", "auxiliary.compression.provider"),
    ("compression.summary_base_url", "auxiliary.compression.base_url"),
];

/// Settings of Hermes that mean something there and nothing here. A Hermes file can be used as it is, so they are
/// named once in a notice and not taken for mistakes. A path ending in `*` stands for everything that starts so.
const HERMES_ONLY: &[&str] = &[
    "auxiliary.approval",
    "auxiliary.curator",
    "auxiliary.flush_memories",
    "auxiliary.mcp",
    "auxiliary.session_search",
    "auxiliary.skills_hub",
    "auxiliary.title_generation",
    "auxiliary.transient_retries",
    "auxiliary.vision",
    "auxiliary.web_extract",
    "compression.checkpoint_required",
    "compression.hygiene_max_turn_hold_seconds",
    "compression.max_attempts",
    "compression.micro_compact*",
    "compression.proactive_prune*",
    "compression.progress_notices",
    "compression.threshold_tokens",
    "model.api_key",
    "model.api_mode",
    "model.base_url",
    "model.codex_context_policy",
    "model.name",
    "model.streaming",
    "_config_version",
    "agent",
    "approvals",
    "bedrock",
    "browser",
    "checkpoints",
    "code_execution",
    "command_allowlist",
    "credential_pool_strategies",
    "cron",
    "curator",
    "custom_providers",
    "dashboard",
    "delegation",
    "discord",
    "display",
    "fallback_model",
    "fallback_providers",
    "file_read_max_chars",
    "goals",
    "honcho",
    "hooks",
    "human_delay",
    "image_gen",
    "kanban",
    "logging",
    "mcp",
    "mcp_servers",
    "memory",
    "model_catalog",
    "network",
    "onboarding",
    "openrouter",
    "personalities",
    "platform_toolsets",
    "platforms",
    "prefill_messages_file",
    "privacy",
    "provider_routing",
    "quick_commands",
    "secrets",
    "security",
    "session_reset",
    "sessions",
    "skills",
    "slack",
    "smart_model_routing",
    "stt",
    "telegram",
    "telemetry",
    "terminal",
    "timezone",
    "tool_loop_guardrails",
    "tool_output",
    "tools",
    "toolsets",
    "tts",
    "updates",
    "voice",
    "web",
    "whatsapp",
];

/// Tells whether a path is a setting of Hermes that has no effect here.
pub(crate) fn is_hermes_only(path: &str) -> bool {
    HERMES_ONLY.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == *known,
    })
}
