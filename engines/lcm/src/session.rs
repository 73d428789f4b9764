//! The engine's session: when to compact, the plan, what survives a reload, and the way to the tools.

use crate::carry::{self, Carried};
use crate::patterns::is_named;
use crate::settings::Settings;
use crate::threshold;
use crate::tools;
use crate::tree::{Tree, Wish, grow};
use crate::write::{Level, Writer};
use engine_api::{
    CompactionPlan, CompressRequest, Conversation, Decision, EngineError, EngineSession, HostServices, InsertKind,
    Lifecycle, LifecycleEvent, LogLevel, ModelInfo, PlanResult, PromptTokens, Role, SessionStart, Status, Step,
    SummaryStep, Usage, json,
};
use engine_kit::layout::{SUMMARY_FRAME_TOKENS, spans};
use engine_kit::regions::leading;
use serde::{Deserialize, Serialize};

/// Tokens of a note of carried summaries where no window is known.
const CARRY_TOKENS: u64 = 4_000;

/// One conversation.
#[derive(Debug)]
pub(crate) struct LcmSession {
    settings: Settings,
    session_id: String,
    platform: String,
    model: ModelInfo,
    state: State,
    /// What the plan that awaits its result would add.
    proposed: Proposed,
}

/// What survives a reload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    status: Status,
    counters: Counters,
    pub(crate) tool_calls: u64,
    /// Tokens of the request after the last compaction.
    floor_tokens: u64,
    /// A person asked that all summaries become one at the next compaction.
    is_rotation_wanted: bool,
    carried: Vec<Carried>,
    /// The carried summaries stand in the conversation, or did.
    is_carried_placed: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Proposed {
    counters: Counters,
    has_carried: bool,
    is_rotation: bool,
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
    pub(crate) fn new(settings: Settings, start: &SessionStart) -> Self {
        let mut session = LcmSession {
            settings,
            session_id: start.session_id.clone(),
            platform: start.platform.clone(),
            model: ModelInfo::default(),
            state: State::default(),
            proposed: Proposed::default(),
        };
        session.take_model(&start.model);
        session
    }
    fn take_model(&mut self, model: &ModelInfo) {
        self.model = model.clone();
        self.state.status.context_length = model.context_length;
        self.state.status.threshold_tokens = threshold::Marks::of(&self.settings, model).hard;
    }
    /// Says why this session is not compacted here, if it is not.
    fn left_alone(&self) -> Option<String> {
        let name = |globs| is_named(globs, &self.session_id, &self.platform);
        if name(&self.settings.ignored_sessions) {
            return Some("the compaction of a session that ignore_session_patterns names".to_string());
        }
        name(&self.settings.read_only_sessions)
            .then(|| "the compaction of a session that stateless_session_patterns names".to_string())
    }
    fn carried_note(&self, services: &dyn HostServices, request: &CompressRequest) -> String {
        if self.state.is_carried_placed || self.state.carried.is_empty() {
            return String::new();
        }
        let window = request.model.context_length.max(self.model.context_length);
        let tokens_max = if window == 0 { CARRY_TOKENS } else { window / carry::WINDOW_PART };
        carry::note(&self.state.carried, tokens_max, &|text| services.count_tokens(text))
    }
    fn propose(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let note = self.carried_note(services, request);
        let insert_tokens = if note.is_empty() { 0 } else { services.count_tokens(&note) + SUMMARY_FRAME_TOKENS };
        let is_rotation = self.state.is_rotation_wanted;
        let tree = grow(services, conversation, request, &self.settings, Wish { is_rotation, insert_tokens })?;
        let Tree { mut layout, drafts, room } = tree;
        let writer = Writer { services, conversation, request, ignored: &self.settings.ignored_messages };
        let made = writer.write(&drafts);

        let mut steps: Vec<SummaryStep> = Vec::with_capacity(drafts.len());
        let mut condensed = 0;
        for (draft, text) in drafts.into_iter().zip(&made.texts) {
            let Some((text, _)) = text else {
                layout.keep(draft.positions);
                continue;
            };
            condensed += u64::from(draft.depth > 0);
            steps.push(SummaryStep {
                text: text.clone(),
                covers: spans(&draft.positions),
                nodes: Vec::new(),
                depth: draft.depth,
                kind: draft.kind,
            });
        }
        let texts: Vec<&str> = steps.iter().map(|step| step.text.as_str()).collect();
        let summary_tokens: u64 = services.count_tokens_batch(&texts).iter().sum();
        let frames = SUMMARY_FRAME_TOKENS.saturating_mul(steps.len() as u64);
        let after = layout.kept_tokens().saturating_add(summary_tokens).saturating_add(frames);
        if after.saturating_add(insert_tokens) >= conversation.tokens() {
            return Err(EngineError::nothing_to_compact("everything is recent, pinned or short already"));
        }

        let (outlines, cuts) = (made.count(Level::Outline), made.count(Level::HardCut));
        let bullets = made.count(Level::Bullets);
        let total = steps.len() as u64;
        self.proposed = Proposed {
            counters: Counters {
                leaves: total - condensed,
                condensed,
                written: made.count(Level::Prose) + bullets,
                outlines,
                hard_cuts: cuts,
            },
            has_carried: !note.is_empty(),
            is_rotation,
        };
        let mut plan = layout.into_plan(steps);
        insert(&mut plan, conversation, note);
        plan.report.completions = made.completions;
        if outlines + cuts > 0 {
            plan.report.fallback =
                format!("{} of {total} summaries made without a model: {}", outlines + cuts, made.reason);
        }
        let mut note = |text: String| plan.report.notes.push(text);
        if bullets > 0 {
            note(format!("{bullets} of {total} summaries are bullets, for the first text was too long"));
        }
        if after > room {
            note(format!("what must stay takes {after} tokens, over the {room} aimed at"));
        }
        Ok(plan)
    }
}

/// Puts a note after the leading system messages.
fn insert(plan: &mut CompactionPlan, conversation: &Conversation<'_>, text: String) {
    if text.is_empty() {
        return;
    }
    let first = leading(conversation);
    let step = Step::Insert { role: Role::User, kind: InsertKind::Restored, message: None, text };
    let at = plan.steps.iter().position(|step| match step {
        Step::Keep(span) => span.last >= first,
        _ => true,
    });
    let at = at.unwrap_or(plan.steps.len());
    if let Some(Step::Keep(span)) = plan.steps.get_mut(at)
        && span.first < first
    {
        let last = std::mem::replace(&mut span.last, first.saturating_sub(1));
        let rest = engine_api::Span { first, last };
        plan.steps.insert(at + 1, Step::Keep(rest));
        plan.steps.insert(at + 1, step);
        return;
    }
    plan.steps.insert(at, step);
}

impl EngineSession for LcmSession {
    fn compress(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        if let Some(what) = self.left_alone() {
            return Err(EngineError::unsupported(what).with_hint("the built-in compressor takes over"));
        }
        self.propose(services, conversation, request)
    }
    fn should_compress(&mut self, prompt_tokens: PromptTokens) -> Decision {
        if self.left_alone().is_some() {
            return Decision::host_decides();
        }
        threshold::decide(&self.settings, &self.model, prompt_tokens, self.state.floor_tokens)
    }
    fn has_content_to_compress(&mut self, conversation: &Conversation<'_>) -> bool {
        let first = leading(conversation);
        conversation.len() > first.saturating_add(self.settings.fresh_tail_messages_min)
    }
    fn select_context(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let note = self.carried_note(services, request);
        if note.is_empty() || conversation.is_empty() {
            return Err(EngineError::unsupported("a view of its own for each request"));
        }
        let mut plan = CompactionPlan::new(conversation.revision());
        plan.keep(0..conversation.len());
        insert(&mut plan, conversation, note);
        Ok(plan)
    }
    fn handle_tool_call(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        name: &str,
        arguments: &json::Value,
    ) -> Result<String, EngineError> {
        let status = json::to_value(self.status())?;
        let desk = tools::Desk {
            services,
            conversation,
            settings: &self.settings,
            session_id: &self.session_id,
            status: &status,
        };
        let answer = tools::answer(&desk, name, arguments)
            .ok_or_else(|| EngineError::unsupported(format!("the tool \"{name}\"")))?;
        self.state.tool_calls += 1;
        Ok(answer)
    }
    fn update_from_response(&mut self, usage: &Usage) {
        self.state.status.last_prompt_tokens = usage.prompt_tokens;
    }
    fn update_model(&mut self, model: &ModelInfo) {
        self.take_model(model);
        // Another window, another floor.
        self.state.floor_tokens = 0;
    }
    fn on_session_start(&mut self, _services: &dyn HostServices, start: &SessionStart) -> Result<(), EngineError> {
        self.session_id.clone_from(&start.session_id);
        self.platform.clone_from(&start.platform);
        self.take_model(&start.model);
        Ok(())
    }
    fn on_lifecycle(
        &mut self,
        _services: &dyn HostServices,
        _conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        if event.kind == Lifecycle::Reset {
            let mut status = Status::default();
            status.context_length = self.state.status.context_length;
            status.threshold_tokens = self.state.status.threshold_tokens;
            self.state = State { status, ..State::default() };
            self.proposed = Proposed::default();
        }
        Ok(())
    }
    fn carry_over(&mut self, services: &dyn HostServices, from_session_id: &str) -> Result<(), EngineError> {
        let Some(depth_min) = self.settings.retain_depth else { return Ok(()) };
        match carry::take(services, from_session_id, depth_min) {
            Ok(carried) => {
                self.state.carried = carried;
                self.state.is_carried_placed = false;
            }
            // A host without a store knows no other session; a new session then begins with nothing, as any does.
            Err(why) => services.log(LogLevel::Info, "Nothing was carried over.", &json::json!({ "reason": why })),
        }
        Ok(())
    }
    fn plan_result(&mut self, result: &PlanResult) {
        let proposed = std::mem::take(&mut self.proposed);
        if !result.applied {
            return;
        }
        let state = &mut self.state;
        state.status.compression_count += 1;
        state.floor_tokens = result.tokens_after;
        state.is_carried_placed |= proposed.has_carried;
        state.is_rotation_wanted &= !proposed.is_rotation;
        let counters = &mut state.counters;
        counters.leaves += proposed.counters.leaves;
        counters.condensed += proposed.counters.condensed;
        counters.written += proposed.counters.written;
        counters.outlines += proposed.counters.outlines;
        counters.hard_cuts += proposed.counters.hard_cuts;
    }
    fn status(&self) -> Status {
        let mut status = self.state.status.clone();
        let marks = threshold::Marks::of(&self.settings, &self.model);
        status.extra = json::json!({
            "summaries": self.state.counters,
            "tool_calls": self.state.tool_calls,
            "soft_threshold_tokens": marks.soft,
            "last_compaction_ended_at": self.state.floor_tokens,
            "carried_over": self.state.carried.len(),
            "rotation_wanted": self.state.is_rotation_wanted,
        });
        status
    }
    fn export_state(&self) -> Result<Vec<u8>, EngineError> {
        Ok(json::to_vec(&self.state)?)
    }
    fn import_state(&mut self, state: &[u8]) -> Result<(), EngineError> {
        self.state = json::from_slice(state)?;
        Ok(())
    }
    fn control(
        &mut self,
        services: &dyn HostServices,
        name: &str,
        _arguments: &json::Value,
    ) -> Result<String, EngineError> {
        match name {
            "status" | "doctor" => {
                let table = engine_api::ViewTable::new(0, []);
                let tool = format!("lcm_{name}");
                self.handle_tool_call(services, &table.conversation(), &tool, &json::json!({}))
            }
            "rotate" => {
                self.state.is_rotation_wanted = true;
                let note = "all earlier summaries become one at the next compaction; nothing is deleted";
                Ok(json::json!({ "rotation": "wanted", "deleted": 0, "note": note }).to_string())
            }
            _ => Err(EngineError::unsupported(format!("the command \"{name}\""))
                .with_hint("the commands are status, doctor and rotate")),
        }
    }
}
