//! The contract between a context engine and the host that runs it.
//!
//! A context engine decides when and how the conversation of an AI agent is compacted. It is shown the conversation
//! without a copy ([`Conversation`]), and answers with a short plan ([`CompactionPlan`]): keep these messages, put this
//! summary in place of those, shorten that tool result. The host applies the plan, checks it against its promises
//! (valid for the provider, the user's words kept, smaller than before, nothing lost) and falls back to its own
//! compressor where a plan breaks one. So an engine can be short, and it can be wrong without harm.
//!
//! A whole engine, which keeps the newest messages and lists what it took away:
//!
//! ```
//! #![forbid(unsafe_code)]
//! use engine_api::*;
//!
//! struct Recent { keep: usize }
//!
//! impl ContextEngine for Recent {
//!     fn info(&self) -> EngineInfo {
//!         EngineInfo::new("recent", "0.1.0", "keeps the newest messages and lists the rest")
//!     }
//!     fn open_session(&self, _: &dyn HostServices, _: &SessionStart) -> Result<Box<dyn EngineSession>, EngineError> {
//!         Ok(Box::new(RecentSession { keep: self.keep }))
//!     }
//! }
//!
//! struct RecentSession { keep: usize }
//!
//! impl EngineSession for RecentSession {
//!     fn compress(
//!         &mut self,
//!         _services: &dyn HostServices,
//!         conversation: &Conversation<'_>,
//!         _request: &CompressRequest,
//!     ) -> Result<CompactionPlan, EngineError> {
//!         let head = conversation.iter().take_while(|message| message.role() == Role::System).count();
//!         let tail = conversation.len().saturating_sub(self.keep).max(head);
//!         if head == tail {
//!             return Err(EngineError::nothing_to_compact("everything is recent"));
//!         }
//!         let list: Vec<String> = (head..tail)
//!             .filter_map(|at| conversation.get(at))
//!             .map(|message| format!("- {}: {:.60}", message.role(), message.text()))
//!             .collect();
//!         let mut plan = CompactionPlan::new(conversation.revision());
//!         plan.keep(0..head).summarise(head..tail, list.join("\n")).keep(tail..conversation.len());
//!         Ok(plan)
//!     }
//! }
//!
//! fn new(settings: &json::Value) -> Result<Recent, EngineError> {
//!     Ok(Recent { keep: settings["keep"].as_u64().unwrap_or(20) as usize })
//! }
//! export_engine!(name = "recent", new = crate::new);
//! # fn main() {
//! #     let messages: Vec<Message> = (1..=30).map(|id| testing::user(id, "hello")).collect();
//! #     let table = ViewTable::new(1, &messages);
//! #     let engine = new(&json::json!({ "keep": 10 })).unwrap();
//! #     let host = testing::FakeHost::default();
//! #     let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
//! #     let plan = session.compress(&host, &table.conversation(), &CompressRequest::default()).unwrap();
//! #     assert_eq!(plan.steps.len(), 2);
//! # }
//! ```
//!
//! Built as a cdylib and put into `plugins/context_engine/recent/` beside a `plugin.yaml`, it can be selected by
//! `context.engine: recent`. No method but [`EngineSession::compress`] has to be written; [`HostServices`] offers
//! completions, token counts, recall and state.
//!
//! **Versions.** [`API_VERSION`] is checked at load, and so is the layout of every type that crosses. An engine built
//! for an older or a newer minor of the same major loads; methods that one side lacks take their defaults.
//!
//! **Threads.** Calls of one session come one after another, from a thread of the session's own, with a deadline.
//! Different sessions are called at the same time. A panic ends the session, not the host.
#![warn(missing_docs)]

mod engine;
mod error;
pub mod ffi;
mod message;
mod params;
mod plan;
mod services;
pub mod testing;
mod view;

pub use engine::{ContextEngine, EngineSession};
pub use error::{EngineError, ErrorKind};
pub use ffi::{EngineMaker, Registrar};
pub use message::{Dialect, Flags, Message, MessageId, NodeId, Part, PartKind, Role};
pub use params::{
    capability, ApiVersion, Basis, CompressRequest, Decision, EngineInfo, Lifecycle, LifecycleEvent, ModelInfo,
    PlanResult, PromptTokens, SessionStart, SettingDiagnostic, StartReason, Status, SubagentEvent, ToolSchema, Trigger,
    TurnEnd, Usage, API_VERSION,
};
pub use plan::{CompactionPlan, InsertKind, PlanReport, Span, Step, SummaryKind, SummaryStep};
/// JSON values, for settings and tool arguments.
pub use serde_json as json;
pub use services::{
    check_cancelled, Completion, CompletionModel, CompletionRequest, HostServices, LogLevel, RecallHit, RecallReply,
    RecallRequest, RecallSearch, SearchKind, SearchMode, SearchSort,
};
pub use view::{Conversation, MessageView, PartView, ViewTable};

/// What the export macros expand to. Not part of the contract.
#[doc(hidden)]
pub mod __private {
    pub use crate::ffi::{
        create_engine, engine_names, library_info, module, note, EngineBox, EngineModRef, RawResult, NOTE_LEN,
    };
    pub use abi_stable::library::__call_root_module_loader as call_root_module_loader;
    pub use abi_stable::library::{CheckTypeLayout, LibHeader, RootModuleResult};
    pub use abi_stable::std_types::{RStr, RString};
}
