//! The engine's session: counters, and the calls handed on to the phases.

use crate::assemble::{propose, propose_pruning};
use crate::settings::Settings;
use engine_api::{
    CompactionPlan, CompressRequest, Conversation, EngineError, EngineSession, HostServices, Lifecycle, LifecycleEvent,
    ModelInfo, PlanResult, Status, Usage, ViewTable, json, testing,
};
use engine_kit::regions::leading;

/// One conversation.
#[derive(Debug)]
pub(crate) struct CompressorSession {
    settings: Settings,
    status: Status,
    /// Compactions whose summary no model wrote.
    fallbacks: u64,
    /// Whether the plan that awaits its result has such a summary.
    is_fallback: bool,
}

impl CompressorSession {
    pub(crate) fn new(settings: Settings) -> Self {
        CompressorSession { settings, status: Status::default(), fallbacks: 0, is_fallback: false }
    }
}

impl EngineSession for CompressorSession {
    fn compress(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let plan = propose(services, conversation, request, &self.settings)?;
        self.is_fallback = !plan.report.fallback.is_empty();
        Ok(plan)
    }
    fn has_content_to_compress(&mut self, conversation: &Conversation<'_>) -> bool {
        let first = leading(conversation);
        let newest = engine_kit::regions::newest_user(conversation);
        conversation.iter().enumerate().skip(first).any(|(position, message)| {
            Some(position) != newest && !message.is_pinned() && !message.is_summary() && message.tokens() > 0
        })
    }
    fn prune_tool_results(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        propose_pruning(services, conversation, request, &self.settings)
    }
    fn update_from_response(&mut self, usage: &Usage) {
        self.status.last_prompt_tokens = usage.prompt_tokens;
    }
    fn update_model(&mut self, model: &ModelInfo) {
        self.status.context_length = model.context_length;
        self.status.threshold_tokens = model.threshold_tokens;
    }
    fn on_lifecycle(
        &mut self,
        _services: &dyn HostServices,
        _conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        if event.kind == Lifecycle::Reset {
            *self = CompressorSession::new(self.settings);
        }
        Ok(())
    }
    fn plan_result(&mut self, result: &PlanResult) {
        if result.applied {
            self.status.compression_count += 1;
            self.fallbacks += u64::from(self.is_fallback);
        }
    }
    fn status(&self) -> Status {
        let mut status = self.status.clone();
        status.extra = json::json!({ "outlines": self.fallbacks });
        status
    }
    fn export_state(&self) -> Result<Vec<u8>, EngineError> {
        let state = json::json!({ "status": self.status, "fallbacks": self.fallbacks });
        Ok(json::to_vec(&state)?)
    }
    fn import_state(&mut self, state: &[u8]) -> Result<(), EngineError> {
        let state: json::Value = json::from_slice(state)?;
        if let Some(status) = state.get("status") {
            self.status = json::from_value(status.clone())?;
        }
        self.fallbacks = state.get("fallbacks").and_then(json::Value::as_u64).unwrap_or(0);
        Ok(())
    }
}

/// Compacts a small conversation that it brings along, without a model.
pub(crate) fn self_test(settings: Settings, services: &dyn HostServices) -> Result<String, EngineError> {
    let text = "a line of a log that nobody will read again\n".repeat(100);
    let mut messages = vec![testing::system(1, "system"), testing::user(2, "please look at the log")];
    for at in 0..40 {
        let call = format!("call{at}");
        messages.push(testing::calls(messages.len() as u64 + 1, &[(&call, "read_file", "{\"path\":\"a.log\"}")]));
        messages.push(testing::result(messages.len() as u64 + 1, &call, "read_file", &format!("{at}\n{text}")));
    }
    let table = ViewTable::new(1, &messages);
    let conversation = table.conversation();
    let mut request = CompressRequest::default();
    request.target_tokens = conversation.tokens() / 2;
    let plan = propose(services, &conversation, &request, &settings)?;
    let count = |text: &str| services.count_tokens(text);
    let verdict = engine_kit::testing::judge(&conversation, &plan, &count)?;
    if verdict.tokens_after >= request.target_tokens {
        return Err(EngineError::internal(format!(
            "a conversation of {} tokens came to {}, over its target of {}",
            verdict.tokens_before, verdict.tokens_after, request.target_tokens
        )));
    }
    Ok(format!("compacted a conversation of {} tokens to {}", verdict.tokens_before, verdict.tokens_after))
}
