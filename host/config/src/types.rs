//! The typed configuration. Defaults are not written here: they come from the table in `keys`.

use crate::keys;
use crate::secret::{self, Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

/// All settings, each one valid: a bad value in the file was replaced and reported.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    pub context: ContextSection,
    pub compression: Compression,
    pub auxiliary: Auxiliary,
    pub prompt_caching: PromptCaching,
    pub model: ModelSection,
    pub plugins: PluginsSection,
    pub store: StoreSection,
    pub pins: PinsSection,
    pub hooks: HooksSection,
    pub gateway: GatewaySection,
    /// Where requests go, by name; the gateway reads the entries. Shown and serialised with credentials masked.
    #[serde(serialize_with = "secret::serialize_masked_map")]
    pub providers: serde_json::Map<String, Value>,
    /// Each engine's own settings, by engine name. Shown and serialised with credentials masked.
    #[serde(serialize_with = "secret::serialize_masked_engines")]
    pub engines: BTreeMap<String, Value>,
}

/// Which engine compacts, and what decides when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextSection {
    pub engine: String,
    pub mode: Mode,
    /// Depth from which summaries are carried over to the session that follows; none for no carrying over.
    pub carry_over_depth: Option<u64>,
}

/// What decides that a compaction is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A fraction of the context window, as Hermes does.
    Fraction,
    /// The turn at which a compaction pays for itself.
    Economic,
}

/// The `compression` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    pub enabled: bool,
    pub threshold: f64,
    /// Thresholds per model; a key matches as a substring and the longest match wins.
    pub model_thresholds: BTreeMap<String, f64>,
    pub small_context_floor: f64,
    pub target_ratio: f64,
    pub tail_mode: TailMode,
    pub protect_last_n: usize,
    pub protect_first_n: usize,
    pub min_tail_user_messages: usize,
    pub hygiene_hard_message_limit: usize,
    pub idle_compact_after_seconds: u64,
    pub abort_on_summary_failure: bool,
    pub in_place: bool,
    /// Share of the threshold at which a compaction is prepared in the background; 0 for never.
    pub prepare_at: f64,
    pub codex_gpt55_autoraise: bool,
    pub codex_gpt55_autoraise_notice: bool,
    pub codex_app_server_auto: CodexAppServerAuto,
    pub codex_responses_native: bool,
    /// `None` follows the local threshold.
    pub codex_responses_compact_threshold: Option<u64>,
}

/// How much of the newest conversation stays word for word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TailMode {
    /// A small tail sized from the window; continuity rides on the summary.
    Lean,
    /// `target_ratio` of the threshold.
    Legacy,
}

/// Who starts a compaction of a Codex app-server thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodexAppServerAuto {
    Native,
    Hermes,
    Off,
}

/// Models for side tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Auxiliary {
    pub compression: AuxCompression,
}

/// The model that writes summaries.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct AuxCompression {
    pub provider: Provider,
    /// Empty means the conversation's own model.
    pub model: String,
    pub base_url: String,
    pub api_key: Secret,
    /// Seconds one summary call may take.
    pub timeout: u64,
    #[serde(serialize_with = "secret::serialize_masked_map")]
    pub extra_body: serde_json::Map<String, Value>,
    pub reasoning_effort: String,
    pub context_length: Option<u64>,
    #[serde(serialize_with = "secret::serialize_masked_list")]
    pub fallback_chain: Vec<Value>,
}

/// Where summaries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    Auto,
    OpenRouter,
    Anthropic,
    OpenAi,
    Nous,
    Main,
    Custom,
}

/// Cache breakpoints for providers that take them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptCaching {
    pub enabled: bool,
    pub cache_ttl: CacheTtl,
}

/// How long the provider keeps a cached prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheTtl {
    #[serde(rename = "5m")]
    FiveMinutes,
    #[serde(rename = "1h")]
    OneHour,
}

/// The conversation's own model. `model: "name"` in the file fills `default`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSection {
    /// Model name used where a request names none; may be empty.
    pub default: String,
    /// Provider of that model; `openai-codex` turns on the Codex threshold rules.
    pub provider: String,
    pub context_length: Option<u64>,
    pub max_tokens: Option<u64>,
}

/// General plugins; one runs only when it is named in `enabled` and not in `disabled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginsSection {
    pub enabled: Vec<String>,
    pub disabled: Vec<String>,
}

/// Where conversations are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSection {
    /// The file; empty for `sessions.db` in the home folder.
    pub path: String,
    /// Views that can be gone back to, for each branch; older ones are swept by `sessions gc`.
    pub keep_views: u64,
}

/// What must stay word for word in every context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PinsSection {
    /// Rules: mappings with `regex`, `role`, `tool`, `file`.
    pub rules: Vec<Value>,
    /// Files whose text is in every compacted context.
    pub files: Vec<String>,
}

/// Who is told of events: a list of mappings for each event, with `command` or `url`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct HooksSection {
    #[serde(rename = "session:compress", serialize_with = "secret::serialize_masked_list")]
    pub session_compress: Vec<Value>,
}

/// The proxy in front of a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewaySection {
    pub listen: String,
    pub key: Secret,
    pub upstream: String,
    pub mode: GatewayMode,
    pub client_modes: serde_json::Map<String, Value>,
    pub engine_tools: bool,
    pub tool_rounds_max: u64,
    pub body_bytes_max: u64,
    pub body_seconds: u64,
    pub connections_max: u64,
    pub requests_max: u64,
    pub sessions_max: u64,
    pub resident_bytes_max: u64,
    pub first_byte_seconds: u64,
    pub stall_seconds: u64,
    pub retries: u64,
    pub drain_seconds: u64,
    pub response_header: bool,
    pub access_log: String,
}

/// Who compacts a client's conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GatewayMode {
    /// The gateway, on the way to the provider.
    Transparent,
    /// The client asks for it, and the engine answers.
    Native,
}

impl PluginsSection {
    /// Tells whether a general plugin may be loaded.
    pub fn allows(&self, name: &str) -> bool {
        self.enabled.iter().any(|n| n == name) && !self.disabled.iter().any(|n| n == name)
    }
}

impl Default for Config {
    fn default() -> Self {
        static DEFAULT: OnceLock<Config> = OnceLock::new();
        DEFAULT
            .get_or_init(|| {
                serde_json::from_value(keys::default_tree()).expect("the key table gives every field a valid default")
            })
            .clone()
    }
}

macro_rules! default_from_config {
    ($($section:ty => $($field:ident).+;)*) => {$(
        impl Default for $section {
            fn default() -> Self {
                Config::default().$($field).+
            }
        }
    )*};
}

default_from_config! {
    ContextSection => context;
    Compression => compression;
    Auxiliary => auxiliary;
    AuxCompression => auxiliary.compression;
    PromptCaching => prompt_caching;
    ModelSection => model;
    PluginsSection => plugins;
    StoreSection => store;
    PinsSection => pins;
    HooksSection => hooks;
    GatewaySection => gateway;
}

/// Writes the masked form, so that a logged configuration holds no credential.
fn debug_masked<T: Serialize>(name: &str, value: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{name} {}", serde_json::to_string(value).map_err(|_| fmt::Error)?)
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_masked("Config", self, f)
    }
}

impl fmt::Debug for HooksSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_masked("HooksSection", self, f)
    }
}

impl fmt::Debug for AuxCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_masked("AuxCompression", self, f)
    }
}
