//! The engine's session: counters, the program's own threshold, and the calls handed on.

use crate::budget::usable;
use crate::plan::{propose, propose_hiding};
use crate::settings::Settings;
use engine_api::{
    CompactionPlan, CompressRequest, Conversation, Decision, EngineError, EngineSession, HostServices, Lifecycle,
    LifecycleEvent, ModelInfo, PlanResult, PromptTokens, Status, Usage, ViewTable, json, testing,
};
use engine_kit::regions::{leading, newest_user};

/// One conversation.
#[derive(Debug)]
pub(crate) struct OpenCodeSession {
    settings: Settings,
    model: ModelInfo,
    status: Status,
    /// Compactions whose summary no model wrote.
    outlines: u64,
    /// Whether the plan that awaits its result has such a summary.
    is_outline: bool,
}

impl OpenCodeSession {
    pub(crate) fn new(settings: Settings, model: &ModelInfo) -> Self {
        let mut session = OpenCodeSession {
            settings,
            model: ModelInfo::default(),
            status: Status::default(),
            outlines: 0,
            is_outline: false,
        };
        session.update_model(model);
        session
    }
}

impl EngineSession for OpenCodeSession {
    fn compress(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let plan = propose(services, conversation, request, &self.settings)?;
        self.is_outline = !plan.report.fallback.is_empty();
        Ok(plan)
    }
    fn should_compress(&mut self, prompt_tokens: PromptTokens) -> Decision {
        let threshold = usable(&self.model);
        // The program never compacts an unknown window; the host knows better what to do then.
        if !self.settings.as_original || threshold == 0 {
            return Decision::host_decides();
        }
        let reason = format!("{} prompt tokens of {threshold} usable ones", prompt_tokens.count);
        if prompt_tokens.count >= threshold {
            return Decision::compress(threshold, reason);
        }
        Decision::keep(threshold, reason)
    }
    fn has_content_to_compress(&mut self, conversation: &Conversation<'_>) -> bool {
        let newest = newest_user(conversation);
        conversation.iter().enumerate().skip(leading(conversation)).any(|(position, message)| {
            Some(position) != newest && !message.is_pinned() && !message.is_summary() && message.tokens() > 0
        })
    }
    fn prune_tool_results(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        self.is_outline = false;
        propose_hiding(services, conversation, request, &self.settings)
    }
    fn update_from_response(&mut self, usage: &Usage) {
        self.status.last_prompt_tokens = usage.prompt_tokens;
    }
    fn update_model(&mut self, model: &ModelInfo) {
        self.status.context_length = model.context_length;
        self.status.threshold_tokens = if self.settings.as_original { usable(model) } else { model.threshold_tokens };
        self.model = model.clone();
    }
    fn on_lifecycle(
        &mut self,
        _services: &dyn HostServices,
        _conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        if event.kind == Lifecycle::Reset {
            *self = OpenCodeSession::new(self.settings.clone(), &self.model);
        }
        Ok(())
    }
    fn plan_result(&mut self, result: &PlanResult) {
        if result.applied {
            self.status.compression_count += 1;
            self.outlines += u64::from(self.is_outline);
        }
        self.is_outline = false;
    }
    fn status(&self) -> Status {
        let mut status = self.status.clone();
        status.extra = json::json!({ "outlines": self.outlines });
        status
    }
    fn export_state(&self) -> Result<Vec<u8>, EngineError> {
        Ok(json::to_vec(&json::json!({ "status": self.status, "outlines": self.outlines }))?)
    }
    fn import_state(&mut self, state: &[u8]) -> Result<(), EngineError> {
        let state: json::Value = json::from_slice(state)?;
        if let Some(status) = state.get("status") {
            self.status = json::from_value(status.clone())?;
        }
        self.outlines = state.get("outlines").and_then(json::Value::as_u64).unwrap_or(0);
        Ok(())
    }
}

/// Compacts a small conversation that it brings along, without a model.
pub(crate) fn self_test(settings: &Settings, services: &dyn HostServices) -> Result<String, EngineError> {
    let text = "a line of a log that nobody will read again\n".repeat(100);
    let mut messages = vec![testing::system(1, "system"), testing::user(2, "please look at the log")];
    for at in 0..40 {
        let call = format!("call{at}");
        messages.push(testing::calls(messages.len() as u64 + 1, &[(&call, "read", "{\"filePath\":\"a.log\"}")]));
        messages.push(testing::result(messages.len() as u64 + 1, &call, "read", &format!("{at}\n{text}")));
    }
    let table = ViewTable::new(1, &messages);
    let conversation = table.conversation();
    let mut request = CompressRequest::default();
    request.target_tokens = conversation.tokens() / 2;
    let plan = propose(services, &conversation, &request, settings)?;
    let verdict = engine_kit::testing::judge(&conversation, &plan, &|text| services.count_tokens(text))?;
    if verdict.tokens_after >= request.target_tokens {
        return Err(EngineError::internal(format!(
            "a conversation of {} tokens came to {}, over its target of {}",
            verdict.tokens_before, verdict.tokens_after, request.target_tokens
        )));
    }
    Ok(format!("compacted a conversation of {} tokens to {}", verdict.tokens_before, verdict.tokens_after))
}
