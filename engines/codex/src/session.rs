//! The engine's session: counters, and the calls handed on.

use crate::plan::propose;
use crate::prune::propose_pruning;
use crate::settings::Settings;
use crate::threshold;
use engine_api::{
    CompactionPlan, CompressRequest, Conversation, Decision, EngineError, EngineSession, HostServices, Lifecycle,
    LifecycleEvent, ModelInfo, PlanResult, PromptTokens, SessionStart, Status, Usage, json,
};
use engine_kit::regions::{leading, newest_user};

/// One conversation.
#[derive(Debug)]
pub(crate) struct CodexSession {
    settings: Settings,
    model: ModelInfo,
    counters: Counters,
    /// Whether the plan that awaits its result has an outline for a handoff.
    is_outline: bool,
}

/// What is kept over a reload.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
struct Counters {
    last_prompt_tokens: u64,
    compactions: u64,
    /// Compactions whose handoff no model wrote.
    outlines: u64,
    /// Tokens of the request after the last compaction.
    floor_tokens: u64,
}

impl CodexSession {
    pub(crate) fn new(settings: Settings, model: ModelInfo) -> Self {
        CodexSession { settings, model, counters: Counters::default(), is_outline: false }
    }
}

impl EngineSession for CodexSession {
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
        threshold::decide(&self.settings, &self.model, prompt_tokens, self.counters.floor_tokens)
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
        propose_pruning(services, conversation, request, &self.settings)
    }
    fn update_from_response(&mut self, usage: &Usage) {
        self.counters.last_prompt_tokens = usage.prompt_tokens;
    }
    fn update_model(&mut self, model: &ModelInfo) {
        self.model = model.clone();
    }
    fn on_session_start(&mut self, _services: &dyn HostServices, start: &SessionStart) -> Result<(), EngineError> {
        self.model = start.model.clone();
        Ok(())
    }
    fn on_lifecycle(
        &mut self,
        _services: &dyn HostServices,
        _conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        if event.kind == Lifecycle::Reset {
            self.counters = Counters::default();
            self.is_outline = false;
        }
        Ok(())
    }
    fn plan_result(&mut self, result: &PlanResult) {
        if result.applied {
            self.counters.compactions = self.counters.compactions.saturating_add(1);
            self.counters.outlines = self.counters.outlines.saturating_add(u64::from(self.is_outline));
            self.counters.floor_tokens = result.tokens_after;
        }
        self.is_outline = false;
    }
    fn status(&self) -> Status {
        let mut status = Status::default();
        status.last_prompt_tokens = self.counters.last_prompt_tokens;
        status.threshold_tokens = threshold::limit(&self.settings, &self.model);
        status.context_length = self.model.context_length;
        status.compression_count = self.counters.compactions;
        status.extra = json::json!({
            "outlines": self.counters.outlines,
            "floor_tokens": self.counters.floor_tokens,
            "as_original": self.settings.as_original,
        });
        status
    }
    fn export_state(&self) -> Result<Vec<u8>, EngineError> {
        Ok(json::to_vec(&self.counters)?)
    }
    fn import_state(&mut self, state: &[u8]) -> Result<(), EngineError> {
        self.counters = json::from_slice(state)?;
        Ok(())
    }
}
