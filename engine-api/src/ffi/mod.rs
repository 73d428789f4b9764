//! The binary boundary: the only home of abi_stable types.
//!
//! Rules that keep every 1.x loadable, each checked by the layout golden under `tests/`:
//! - new methods go after the last one and have a default body; new module fields go last and are optional;
//! - nothing is renamed (names are part of the layout check), reserved fields (`r0`, ...) included;
//! - the `repr(C)` structs never change, and `last_prefix_field` never moves;
//! - no enum crosses: numbers do, and a reader maps those it does not know to a catch-all value;
//! - whatever may grow crosses as JSON text.
#![allow(unsafe_code)]
// `#[sabi_trait]` expands to impls inside function bodies.
#![allow(unknown_lints, non_local_definitions)]
#![allow(missing_docs, clippy::missing_safety_doc)]

mod adapter;
mod export;
mod foreign;
mod guard;
mod lent;
mod note;
mod plan;

pub use adapter::{create_engine, engine_names, library_info, module, EngineMaker, Registrar};
pub use foreign::{foreign_engine, module_info, ModuleInfo};
pub use guard::{catch, panic_message};
pub use note::{note, NOTE_LEN};

use abi_stable::{
    declare_root_module_statics,
    library::RootModule,
    package_version_strings, sabi_trait,
    sabi_types::{RRef, VersionStrings},
    std_types::{RBox, ROption, RResult, RSlice, RStr, RString, RVec},
    StableAbi,
};

/// One message, borrowed.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct RawMessage<'a> {
    pub id: u64,
    pub node: u64,
    pub role: u32,
    pub flags: u32,
    pub tokens: u32,
    pub part_count: u32,
    pub first_part: u64,
    pub raw: RStr<'a>,
}

/// One part of a message, borrowed.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct RawPart<'a> {
    pub kind: u32,
    pub flags: u32,
    pub tokens: u32,
    pub r0: u32,
    pub text: RStr<'a>,
    pub call_id: RStr<'a>,
    pub tool_name: RStr<'a>,
}

/// A conversation: two flat tables, so that it can be lent as it is, also through shared memory.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct RawConversation<'a> {
    pub revision: u64,
    pub messages: RSlice<'a, RawMessage<'a>>,
    pub parts: RSlice<'a, RawPart<'a>>,
    pub extra: RStr<'a>,
}

/// A run of positions, both ends included.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct RawSpan {
    pub first: u64,
    pub last: u64,
}

/// One step of a plan.
#[repr(C)]
#[derive(StableAbi, Clone)]
pub struct RawStep {
    pub op: u32,
    pub kind: u32,
    pub role: u32,
    pub part: u32,
    pub depth: u32,
    pub r0: u32,
    pub first: u64,
    pub last: u64,
    pub text: RString,
    pub reason: RString,
    pub covers: RVec<RawSpan>,
    pub nodes: RVec<u64>,
}

/// A plan.
#[repr(C)]
#[derive(StableAbi, Clone)]
pub struct RawPlan {
    pub base_revision: u64,
    pub steps: RVec<RawStep>,
    pub report: RString,
}

/// An error: [`EngineError`](crate::EngineError) with its kind as a number.
#[repr(C)]
#[derive(StableAbi, Clone)]
pub struct RawError {
    pub code: u32,
    pub r0: u32,
    pub retry_after_ms: u64,
    pub message: RString,
    pub hint: RString,
}

pub type RawResult<T> = RResult<T, RawError>;

/// What a host lends for one call. Names ending in `_json` carry JSON text.
#[sabi_trait]
pub trait RawServices: Sync {
    fn complete(&self, request_json: RStr<'_>) -> RawResult<RString>;
    fn complete_many(&self, requests_json: RStr<'_>) -> RawResult<RString>;
    fn count_tokens(&self, text: RStr<'_>) -> u64;
    fn count_tokens_batch(&self, texts: RSlice<'_, RStr<'_>>) -> RVec<u64>;
    fn recall(&self, request_json: RStr<'_>) -> RawResult<RString>;
    fn state_get(&self, key: RStr<'_>) -> RawResult<ROption<RVec<u8>>>;
    fn state_put(&self, key: RStr<'_>, value: RSlice<'_, u8>) -> RawResult<()>;
    fn data_dir(&self) -> RawResult<RString>;
    fn settings(&self) -> RString;
    fn redact(&self, text: RStr<'_>) -> RString;
    fn log(&self, level: u32, message: RStr<'_>, fields_json: RStr<'_>);
    fn progress(&self, done: u64, total: u64, note: RStr<'_>);
    fn now_unix_ms(&self) -> u64;
    fn monotonic_ms(&self) -> u64;
    fn cancelled(&self) -> bool;
    fn remaining_ms(&self) -> u64;
    #[sabi(last_prefix_field)]
    fn host_info(&self) -> RString;
    /// Since 1.1. Returns whether the host has a place for it.
    fn metric(&self, name: RStr<'_>, value: f64) -> bool {
        let _ = (name, value);
        false
    }
}
pub type ServicesRef<'a> = RawServices_TO<'a, RRef<'a, ()>>;

/// An engine's session of one conversation.
#[sabi_trait]
pub trait RawSession: Send + Sync + 'static {
    fn compress(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        request_json: RStr<'_>,
    ) -> RawResult<RawPlan>;
    fn prune_tool_results(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        request_json: RStr<'_>,
    ) -> RawResult<RawPlan>;
    fn select_context(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        request_json: RStr<'_>,
    ) -> RawResult<RawPlan>;
    fn should_compress(&self, prompt_tokens_json: RStr<'_>) -> RawResult<RString>;
    fn should_compress_preflight(&self, conversation: RawConversation<'_>, rough_json: RStr<'_>) -> RawResult<RString>;
    fn should_defer_preflight(&self, rough_json: RStr<'_>) -> RawResult<bool>;
    fn has_content_to_compress(&self, conversation: RawConversation<'_>) -> RawResult<bool>;
    fn ingest(&self, services: ServicesRef<'_>, conversation: RawConversation<'_>, first_new: u64) -> RawResult<()>;
    fn update_from_response(&self, usage_json: RStr<'_>) -> RawResult<()>;
    fn update_model(&self, model_json: RStr<'_>) -> RawResult<()>;
    fn on_session_start(&self, services: ServicesRef<'_>, start_json: RStr<'_>) -> RawResult<()>;
    fn on_lifecycle(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        event_json: RStr<'_>,
    ) -> RawResult<()>;
    fn carry_over(&self, services: ServicesRef<'_>, from_session_id: RStr<'_>) -> RawResult<()>;
    fn on_turn_complete(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        end_json: RStr<'_>,
    ) -> RawResult<()>;
    fn plan_result(&self, result_json: RStr<'_>) -> RawResult<()>;
    fn pending(&self) -> RawResult<RString>;
    fn maintain(&self, services: ServicesRef<'_>, conversation: RawConversation<'_>, budget_ms: u64)
        -> RawResult<bool>;
    fn handle_tool_call(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        name: RStr<'_>,
        arguments_json: RStr<'_>,
    ) -> RawResult<RString>;
    fn status(&self) -> RawResult<RString>;
    fn export_state(&self) -> RawResult<RVec<u8>>;
    #[sabi(last_prefix_field)]
    fn import_state(&self, state: RSlice<'_, u8>) -> RawResult<()>;
    /// Since 1.1.
    fn subagent(&self, event_json: RStr<'_>) -> RawResult<()> {
        let _ = event_json;
        RResult::ROk(())
    }
    /// Since 1.1.
    fn control(&self, services: ServicesRef<'_>, name: RStr<'_>, arguments_json: RStr<'_>) -> RawResult<RString> {
        let _ = (services, arguments_json);
        RResult::RErr(unsupported(&format!("the command \"{}\" (the engine was built for engine API 1.0)", name)))
    }
}
pub type SessionBox = RawSession_TO<RBox<()>>;

/// An engine, one per process.
#[sabi_trait]
pub trait RawEngine: Send + Sync + 'static {
    fn info(&self) -> RString;
    fn open_session(&self, services: ServicesRef<'_>, start_json: RStr<'_>) -> RawResult<SessionBox>;
    fn tool_schemas(&self) -> RawResult<RString>;
    fn check_config(&self, settings_json: RStr<'_>) -> RawResult<RString>;
    fn status(&self) -> RawResult<RString>;
    #[sabi(last_prefix_field)]
    fn shutdown(&self) -> RawResult<()>;
    /// Since 1.1.
    fn self_test(&self, services: ServicesRef<'_>) -> RawResult<RString> {
        let _ = services;
        RResult::ROk(RString::new())
    }
}
pub type EngineBox = RawEngine_TO<RBox<()>>;

/// The root module of a plugin library.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = EngineModRef, prefix_fields = EngineModPrefix)))]
#[sabi(missing_field(option))]
pub struct EngineMod {
    /// JSON: `name`, `version`, `engine_api`, `panic`, `rustc`.
    pub info: extern "C" fn() -> RString,
    /// Makes the engine of this name; the empty name stands for the library's only one.
    #[sabi(last_prefix_field)]
    pub create: extern "C" fn(name: RStr<'_>, settings_json: RStr<'_>) -> RawResult<EngineBox>,
    /// Since 1.1: a JSON list of the names registered. A library of 1.0 has exactly one engine.
    pub engines: extern "C" fn() -> RString,
}

impl RootModule for EngineModRef {
    declare_root_module_statics! {EngineModRef}
    const BASE_NAME: &'static str = "context_engine";
    const NAME: &'static str = "context_engine";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

pub(crate) fn unsupported(what: &str) -> RawError {
    crate::EngineError::unsupported(what).into()
}

impl From<crate::EngineError> for RawError {
    fn from(error: crate::EngineError) -> Self {
        RawError {
            code: error.kind.code(),
            r0: 0,
            retry_after_ms: error.retry_after_ms,
            message: error.message.into(),
            hint: error.hint.into(),
        }
    }
}

impl From<RawError> for crate::EngineError {
    fn from(raw: RawError) -> Self {
        crate::EngineError::new(crate::ErrorKind::from_code(raw.code), raw.message.into_string())
            .with_hint(raw.hint.into_string())
            .retry_after_ms(raw.retry_after_ms)
    }
}
