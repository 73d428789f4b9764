//! The engine's session: counters, the plan, and the tool.

use crate::escalate::write;
use crate::grep;
use crate::settings::Settings;
use crate::tree::grow;
use engine_api::{
    CompactionPlan, CompressRequest, Conversation, EngineError, EngineSession, HostServices, Lifecycle, LifecycleEvent,
    ModelInfo, PlanResult, Status, SummaryStep, Usage, ViewTable, json, testing,
};
use engine_kit::layout::{SUMMARY_FRAME_TOKENS, spans};
use serde::{Deserialize, Serialize};

/// One conversation.
#[derive(Debug)]
pub(crate) struct LcmSession {
    settings: Settings,
    state: State,
    /// What the plan that awaits its result would add.
    proposed: Counters,
}

/// What survives a reload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct State {
    status: Status,
    counters: Counters,
    searches: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Counters {
    leaves: u64,
    condensed: u64,
    written: u64,
    outlines: u64,
    hard_cuts: u64,
}

impl LcmSession {
    pub(crate) fn new(settings: Settings) -> Self {
        LcmSession { settings, state: State::default(), proposed: Counters::default() }
    }
}

impl EngineSession for LcmSession {
    fn compress(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let tree = grow(services, conversation, request, &self.settings)?;
        let made = write(services, conversation, &tree.drafts, &request.focus_topic, request.completions_max);
        let summary_tokens: u64 =
            services.count_tokens_batch(&made.texts.iter().map(String::as_str).collect::<Vec<_>>()).iter().sum();
        let frames = SUMMARY_FRAME_TOKENS.saturating_mul(tree.drafts.len() as u64);
        let after = tree.layout.kept_tokens().saturating_add(summary_tokens).saturating_add(frames);
        if after >= conversation.tokens() {
            return Err(EngineError::nothing_to_compact("everything is recent, pinned or short already"));
        }

        let condensed = tree.drafts.iter().filter(|draft| draft.depth > 0).count() as u64;
        let [prose, bullets, outlines, cuts] = made.levels.map(u64::from);
        self.proposed = Counters {
            leaves: tree.drafts.len() as u64 - condensed,
            condensed,
            written: prose + bullets,
            outlines,
            hard_cuts: cuts,
        };
        let total = tree.drafts.len();
        let steps: Vec<SummaryStep> = tree
            .drafts
            .into_iter()
            .zip(made.texts)
            .map(|(draft, text)| SummaryStep {
                text,
                covers: spans(&draft.positions),
                nodes: Vec::new(),
                depth: draft.depth,
                kind: draft.kind,
            })
            .collect();
        let mut plan = tree.layout.into_plan(steps);
        plan.report.completions = made.completions;
        if outlines + cuts > 0 {
            plan.report.fallback =
                format!("{} of {total} summaries made without a model: {}", outlines + cuts, made.reason);
        }
        if bullets > 0 {
            plan.report
                .notes
                .push(format!("{bullets} of {total} summaries are bullets, for the first text was too long"));
        }
        Ok(plan)
    }
    fn has_content_to_compress(&mut self, conversation: &Conversation<'_>) -> bool {
        let first = engine_kit::regions::leading(conversation);
        conversation.len() > first.saturating_add(self.settings.fresh_tail_messages_min)
    }
    fn handle_tool_call(
        &mut self,
        services: &dyn HostServices,
        _conversation: &Conversation<'_>,
        name: &str,
        arguments: &json::Value,
    ) -> Result<String, EngineError> {
        if name != grep::TOOL {
            return Err(EngineError::unsupported(format!("the tool \"{name}\"")));
        }
        self.state.searches += 1;
        Ok(grep::answer(services, arguments))
    }
    fn update_from_response(&mut self, usage: &Usage) {
        self.state.status.last_prompt_tokens = usage.prompt_tokens;
    }
    fn update_model(&mut self, model: &ModelInfo) {
        self.state.status.context_length = model.context_length;
        self.state.status.threshold_tokens = model.threshold_tokens;
    }
    fn on_lifecycle(
        &mut self,
        _services: &dyn HostServices,
        _conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        if event.kind == Lifecycle::Reset {
            *self = LcmSession::new(self.settings);
        }
        Ok(())
    }
    fn plan_result(&mut self, result: &PlanResult) {
        let proposed = std::mem::take(&mut self.proposed);
        if !result.applied {
            return;
        }
        self.state.status.compression_count += 1;
        let counters = &mut self.state.counters;
        counters.leaves += proposed.leaves;
        counters.condensed += proposed.condensed;
        counters.written += proposed.written;
        counters.outlines += proposed.outlines;
        counters.hard_cuts += proposed.hard_cuts;
    }
    fn status(&self) -> Status {
        let mut status = self.state.status.clone();
        status.extra = json::json!({ "summaries": self.state.counters, "searches": self.state.searches });
        status
    }
    fn export_state(&self) -> Result<Vec<u8>, EngineError> {
        Ok(json::to_vec(&self.state)?)
    }
    fn import_state(&mut self, state: &[u8]) -> Result<(), EngineError> {
        self.state = json::from_slice(state)?;
        Ok(())
    }
}

/// Compacts a small conversation that it brings along, without a model, and calls its tool with nothing to find.
pub(crate) fn self_test(settings: Settings, services: &dyn HostServices) -> Result<String, EngineError> {
    let text = "a line of a log that nobody will read again\n".repeat(100);
    let mut messages = vec![testing::system(1, "system"), testing::user(2, "please look at the log")];
    for at in 0..60 {
        let call = format!("call{at}");
        messages.push(testing::calls(messages.len() as u64 + 1, &[(&call, "read_file", "{\"path\":\"a.log\"}")]));
        messages.push(testing::result(messages.len() as u64 + 1, &call, "read_file", &format!("{at}\n{text}")));
    }
    let table = ViewTable::new(1, &messages);
    let conversation = table.conversation();
    let mut request = CompressRequest::default();
    request.target_tokens = conversation.tokens() / 2;
    let mut session = LcmSession::new(Settings { fresh_tail_tokens: 0, ..settings });
    let plan = session.compress(services, &conversation, &request)?;
    let verdict = engine_kit::testing::judge(&conversation, &plan, &|text| services.count_tokens(text))?;
    if verdict.tokens_after >= request.target_tokens {
        return Err(EngineError::internal(format!(
            "a conversation of {} tokens came to {}, over its target of {}",
            verdict.tokens_before, verdict.tokens_after, request.target_tokens
        )));
    }
    let answer: json::Value = json::from_str(&grep::answer(services, &json::json!({})))?;
    if answer.get("error").is_none() {
        return Err(EngineError::internal("a search for nothing was answered"));
    }
    Ok(format!(
        "compacted a conversation of {} tokens to {} with {} summaries; {} answers",
        verdict.tokens_before,
        verdict.tokens_after,
        verdict.summaries,
        grep::TOOL
    ))
}
