//! The host's side of the boundary: a loaded library's engine as a plain [`ContextEngine`].

use super::lent::{from_json, safe, to_json, Lent};
use super::{EngineBox, EngineModRef, SessionBox};
use crate::engine::{ContextEngine, EngineSession};
use crate::error::EngineError;
use crate::params::{
    CompressRequest, Decision, EngineInfo, LifecycleEvent, ModelInfo, PlanResult, PromptTokens, SessionStart,
    SettingDiagnostic, Status, SubagentEvent, ToolSchema, TurnEnd, Usage,
};
use crate::plan::CompactionPlan;
use crate::services::HostServices;
use crate::view::Conversation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a library says of itself when it is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleInfo {
    /// The library's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The contract it was built for.
    pub engine_api: String,
    /// `unwind` or `abort`: a panic in an `abort` build ends the process it runs in.
    pub panic: String,
    /// The engines it has.
    pub engines: Vec<String>,
}

/// Asks a loaded library who it is.
pub fn module_info(module: EngineModRef) -> Result<ModuleInfo, EngineError> {
    let mut info: ModuleInfo = from_json((module.info())().as_str(), "the library's info")?;
    info.engines = match module.engines() {
        Some(engines) => from_json(engines().as_str(), "the list of engines")?,
        None => vec![info.name.clone()],
    };
    Ok(info)
}

/// Makes an engine of a loaded library.
pub fn foreign_engine(
    module: EngineModRef,
    name: &str,
    settings: &Value,
) -> Result<Box<dyn ContextEngine>, EngineError> {
    let settings = to_json(settings, "the engine's settings")?;
    let engine = safe((module.create())(name.into(), settings.as_str().into()))?;
    let info = from_json(engine.info().as_str(), "the engine's info")?;
    Ok(Box::new(ForeignEngine { engine, info }))
}

struct ForeignEngine {
    engine: EngineBox,
    info: EngineInfo,
}

impl ContextEngine for ForeignEngine {
    fn info(&self) -> EngineInfo {
        self.info.clone()
    }
    fn open_session(
        &self,
        services: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError> {
        let start = to_json(start, "the session's start")?;
        let session = safe(self.engine.open_session(Lent(services).lend(), start.as_str().into()))?;
        Ok(Box::new(ForeignSession(session)))
    }
    fn tool_schemas(&self) -> Vec<ToolSchema> {
        let schemas = safe(self.engine.tool_schemas()).and_then(|text| from_json(text.as_str(), "the tool schemas"));
        schemas.unwrap_or_default()
    }
    fn check_config(&self, settings: &Value) -> Vec<SettingDiagnostic> {
        let text = settings.to_string();
        let remarks = safe(self.engine.check_config(text.as_str().into()))
            .and_then(|text| from_json(text.as_str(), "the remarks"));
        remarks.unwrap_or_else(|error| vec![SettingDiagnostic::new("", error.message)])
    }
    fn status(&self) -> Value {
        safe(self.engine.status()).and_then(|text| from_json(text.as_str(), "the status")).unwrap_or(Value::Null)
    }
    fn shutdown(&self) {
        let _ = safe(self.engine.shutdown());
    }
    fn self_test(&self, services: &dyn HostServices) -> Result<String, EngineError> {
        Ok(safe(self.engine.self_test(Lent(services).lend()))?.into_string())
    }
}

struct ForeignSession(SessionBox);

impl EngineSession for ForeignSession {
    fn compress(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let request = to_json(request, "the request")?;
        safe(self.0.compress(Lent(services).lend(), conversation.raw(), request.as_str().into()))?.into_plan()
    }
    fn should_compress(&mut self, prompt_tokens: PromptTokens) -> Decision {
        let decision = to_json(&prompt_tokens, "the prompt tokens")
            .and_then(|text| safe(self.0.should_compress(text.as_str().into())))
            .and_then(|text| from_json(text.as_str(), "the decision"));
        decision.unwrap_or_else(|error| Decision { reason: error.message, ..Decision::host_decides() })
    }
    fn should_compress_preflight(&mut self, conversation: &Conversation<'_>, rough: PromptTokens) -> Decision {
        let decision = to_json(&rough, "the prompt tokens")
            .and_then(|text| safe(self.0.should_compress_preflight(conversation.raw(), text.as_str().into())))
            .and_then(|text| from_json(text.as_str(), "the decision"));
        decision.unwrap_or_else(|error| Decision { reason: error.message, ..Decision::host_decides() })
    }
    fn should_defer_preflight(&mut self, rough: PromptTokens) -> bool {
        let answer = to_json(&rough, "the prompt tokens")
            .and_then(|text| safe(self.0.should_defer_preflight(text.as_str().into())));
        answer.unwrap_or(false)
    }
    fn has_content_to_compress(&mut self, conversation: &Conversation<'_>) -> bool {
        safe(self.0.has_content_to_compress(conversation.raw())).unwrap_or(true)
    }
    fn prune_tool_results(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let request = to_json(request, "the request")?;
        safe(self.0.prune_tool_results(Lent(services).lend(), conversation.raw(), request.as_str().into()))?.into_plan()
    }
    fn select_context(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let request = to_json(request, "the request")?;
        safe(self.0.select_context(Lent(services).lend(), conversation.raw(), request.as_str().into()))?.into_plan()
    }
    fn ingest(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        first_new: usize,
    ) -> Result<(), EngineError> {
        safe(self.0.ingest(Lent(services).lend(), conversation.raw(), first_new as u64))
    }
    fn update_from_response(&mut self, usage: &Usage) {
        let _ = to_json(usage, "the usage").and_then(|text| safe(self.0.update_from_response(text.as_str().into())));
    }
    fn update_model(&mut self, model: &ModelInfo) {
        let _ = to_json(model, "the model").and_then(|text| safe(self.0.update_model(text.as_str().into())));
    }
    fn on_session_start(&mut self, services: &dyn HostServices, start: &SessionStart) -> Result<(), EngineError> {
        let start = to_json(start, "the session's start")?;
        safe(self.0.on_session_start(Lent(services).lend(), start.as_str().into()))
    }
    fn on_lifecycle(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        let event = to_json(event, "the event")?;
        safe(self.0.on_lifecycle(Lent(services).lend(), conversation.raw(), event.as_str().into()))
    }
    fn carry_over(&mut self, services: &dyn HostServices, from_session_id: &str) -> Result<(), EngineError> {
        safe(self.0.carry_over(Lent(services).lend(), from_session_id.into()))
    }
    fn on_turn_complete(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        end: &TurnEnd,
    ) -> Result<(), EngineError> {
        let end = to_json(end, "the turn's end")?;
        safe(self.0.on_turn_complete(Lent(services).lend(), conversation.raw(), end.as_str().into()))
    }
    fn plan_result(&mut self, result: &PlanResult) {
        let _ = to_json(result, "the plan's result").and_then(|text| safe(self.0.plan_result(text.as_str().into())));
    }
    fn pending(&self) -> Value {
        safe(self.0.pending()).and_then(|text| from_json(text.as_str(), "what is pending")).unwrap_or(Value::Null)
    }
    fn maintain(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        budget_ms: u64,
    ) -> Result<bool, EngineError> {
        safe(self.0.maintain(Lent(services).lend(), conversation.raw(), budget_ms))
    }
    fn handle_tool_call(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        name: &str,
        arguments: &Value,
    ) -> Result<String, EngineError> {
        let arguments = to_json(arguments, "the tool's arguments")?;
        let lent = Lent(services);
        let answer = self.0.handle_tool_call(lent.lend(), conversation.raw(), name.into(), arguments.as_str().into());
        Ok(safe(answer)?.into_string())
    }
    fn status(&self) -> Status {
        safe(self.0.status()).and_then(|text| from_json(text.as_str(), "the status")).unwrap_or_default()
    }
    fn export_state(&self) -> Result<Vec<u8>, EngineError> {
        Ok(safe(self.0.export_state())?.into_vec())
    }
    fn import_state(&mut self, state: &[u8]) -> Result<(), EngineError> {
        safe(self.0.import_state(state.into()))
    }
    fn subagent(&mut self, event: &SubagentEvent) {
        let _ = to_json(event, "the subagent's news").and_then(|text| safe(self.0.subagent(text.as_str().into())));
    }
    fn control(&mut self, services: &dyn HostServices, name: &str, arguments: &Value) -> Result<String, EngineError> {
        let arguments = to_json(arguments, "the command's arguments")?;
        Ok(safe(self.0.control(Lent(services).lend(), name.into(), arguments.as_str().into()))?.into_string())
    }
}
