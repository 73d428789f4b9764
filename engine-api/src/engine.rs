//! The two traits an engine implements: one object per process, one per conversation.
//!
//! Method names are those of Hermes' `ContextEngine`, so that a plugin author from there is at home. The host
//! serialises the calls of a session; different sessions are called from different threads at the same time.

use crate::error::EngineError;
use crate::params::{
    CompressRequest, Decision, EngineInfo, LifecycleEvent, ModelInfo, PlanResult, PromptTokens, SessionStart,
    SettingDiagnostic, Status, SubagentEvent, ToolSchema, TurnEnd, Usage,
};
use crate::plan::CompactionPlan;
use crate::services::HostServices;
use crate::view::Conversation;
use serde_json::Value;

/// An engine: what it is, its tools, and the sessions it opens. One object per process.
pub trait ContextEngine: Send + Sync + 'static {
    /// Says what the engine is. Cheap, and always the same answer.
    fn info(&self) -> EngineInfo;

    /// Opens the engine's session of one conversation. State comes from the services, never from globals.
    fn open_session(
        &self,
        services: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError>;

    /// Returns the tools offered to the model once something has been compacted.
    fn tool_schemas(&self) -> Vec<ToolSchema> {
        Vec::new()
    }
    /// Remarks on the user's settings of this engine; an engine runs with defaults in place of wrong settings.
    fn check_config(&self, settings: &Value) -> Vec<SettingDiagnostic> {
        let _ = settings;
        Vec::new()
    }
    /// Returns counters of the whole engine.
    fn status(&self) -> Value {
        Value::Null
    }
    /// Ends threads and flushes. No call follows.
    fn shutdown(&self) {}
    /// Checks the engine itself, for `engines verify`; returns one line. Since API 1.1.
    fn self_test(&self, services: &dyn HostServices) -> Result<String, EngineError> {
        let _ = services;
        Ok(String::new())
    }
}

/// An engine's session of one conversation. Only [`compress`](EngineSession::compress) has no default.
pub trait EngineSession: Send + 'static {
    /// Proposes a smaller conversation. The only essential method.
    ///
    /// # Errors
    /// Any error means that the conversation stays as it is, or that the host's own compressor takes over,
    /// as the error's kind says; nothing is ever lost by it.
    fn compress(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError>;

    /// Decides whether to compact, after each response. The default leaves it to the host's threshold.
    fn should_compress(&mut self, prompt_tokens: PromptTokens) -> Decision {
        let _ = prompt_tokens;
        Decision::host_decides()
    }
    /// Decides before a model call, on a rough count.
    fn should_compress_preflight(&mut self, conversation: &Conversation<'_>, rough: PromptTokens) -> Decision {
        let _ = conversation;
        self.should_compress(rough)
    }
    /// Tells whether a rough count should wait for the provider's real usage.
    fn should_defer_preflight(&mut self, rough: PromptTokens) -> bool {
        let _ = rough;
        false
    }
    /// Tells whether a compaction by hand would find anything to do.
    fn has_content_to_compress(&mut self, conversation: &Conversation<'_>) -> bool {
        let _ = conversation;
        true
    }
    /// Proposes to shorten old tool results only. No completion may be asked for.
    fn prune_tool_results(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let _ = (services, conversation, request);
        Err(EngineError::unsupported("prune_tool_results"))
    }
    /// Proposes a view for one outgoing request; it is applied to that request and stored nowhere.
    fn select_context(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let _ = (services, conversation, request);
        Err(EngineError::unsupported("select_context"))
    }
    /// Shows what is new since the last call: messages from `first_new` on. Repeats are possible; message ids tell.
    fn ingest(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        first_new: usize,
    ) -> Result<(), EngineError> {
        let _ = (services, conversation, first_new);
        Ok(())
    }
    /// Hears the usage of an answered request.
    fn update_from_response(&mut self, usage: &Usage) {
        let _ = usage;
    }
    /// Hears that the model, its window or the host's budgets have changed. No keys are passed.
    fn update_model(&mut self, model: &ModelInfo) {
        let _ = model;
    }
    /// Hears that a stored session goes on under this object, or under a new id.
    fn on_session_start(&mut self, services: &dyn HostServices, start: &SessionStart) -> Result<(), EngineError> {
        let _ = (services, start);
        Ok(())
    }
    /// Hears of the session's life. A compaction boundary is not an end.
    fn on_lifecycle(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        let _ = (services, conversation, event);
        Ok(())
    }
    /// Takes over what an earlier session retained, at `/new`.
    fn carry_over(&mut self, services: &dyn HostServices, from_session_id: &str) -> Result<(), EngineError> {
        let _ = (services, from_session_id);
        Ok(())
    }
    /// Hears that a turn has ended.
    fn on_turn_complete(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        end: &TurnEnd,
    ) -> Result<(), EngineError> {
        let _ = (services, conversation, end);
        Ok(())
    }
    /// Hears what became of its plan.
    fn plan_result(&mut self, result: &PlanResult) {
        let _ = result;
    }
    /// Returns deferred work, a running cooldown and the like; `Null` for none.
    fn pending(&self) -> Value {
        Value::Null
    }
    /// Does idle work for up to `budget_ms`; returns whether there is more.
    fn maintain(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        budget_ms: u64,
    ) -> Result<bool, EngineError> {
        let _ = (services, conversation, budget_ms);
        Ok(false)
    }
    /// Answers a call of one of the engine's tools; the answer is text for the model, by custom JSON.
    fn handle_tool_call(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        name: &str,
        arguments: &Value,
    ) -> Result<String, EngineError> {
        let _ = (services, conversation, arguments);
        Err(EngineError::unsupported(format!("the tool \"{}\"", name)))
    }
    /// Returns the session's counters.
    fn status(&self) -> Status {
        Status::default()
    }
    /// Returns the session's whole state, for a reload.
    fn export_state(&self) -> Result<Vec<u8>, EngineError> {
        Err(EngineError::unsupported("export_state"))
    }
    /// Takes over a state that `export_state` gave, perhaps of an older version of the engine.
    fn import_state(&mut self, state: &[u8]) -> Result<(), EngineError> {
        let _ = state;
        Err(EngineError::unsupported("import_state"))
    }
    /// Hears of a subagent. Since API 1.1.
    fn subagent(&mut self, event: &SubagentEvent) {
        let _ = event;
    }
    /// Runs a command of the engine's own (`doctor`, `rotate`, ...). Since API 1.1.
    fn control(&mut self, services: &dyn HostServices, name: &str, arguments: &Value) -> Result<String, EngineError> {
        let _ = (services, arguments);
        Err(EngineError::unsupported(format!("the command \"{}\"", name)))
    }
}
