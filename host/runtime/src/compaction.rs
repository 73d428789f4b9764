//! One compaction: the engine's opinion, the ladder, and what becomes of the result.

use crate::completions::Completions;
use crate::live::{CALL_SECONDS_MAX, LiveSession, settings_of};
use crate::recall::{Book, RecallBook};
use crate::services::{CallServices, State, lock};
use engine_api::{
    Basis, CompactionPlan, CompletionModel, CompressRequest, Conversation, Decision as EngineDecision, EngineError,
    EngineSession, HostServices, Lifecycle, LifecycleEvent, Message, PlanResult, PromptTokens, Trigger, ViewTable,
};
use host_config::Mode;
use host_core::Session;
use host_core::economy::Outlook;
use host_core::ladder::{self, Descent, Goal, Proposer, Rung};
use host_core::outgoing::outgoing_count;
use host_core::policy::{Cause, Decision, Economy, Situation, decide};
use host_core::receipt::{self, Receipt};
use host_core::summariser::{REQUESTS_MAX, Route, Sizes};
use host_core::survival;
use host_registry::{BUILTIN_NAME, GuardedSession};
use host_store::{Lease, StoreError};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an engine may take over a plan, beside the time that models take; the largest histories take well under a
/// second.
pub(crate) const PLAN_SECONDS_MAX: u64 = 60;
/// How long models may take over the summaries of one compaction, whatever the settings say of one call.
const SUMMARY_SECONDS_MAX: u64 = 300;
/// What of a client's memory text a summariser sees: head and tail, in characters. Hermes' figures.
const MEMORY_CHARS: (usize, usize) = (4_000, 1_500);
const MEMORY_CHARS_MAX: usize = 6_000;
/// A summary is taken to be at most this part of the request, where nothing better is known.
const SUMMARY_PART: u64 = 10;
/// From this share of the size at which a compaction is made at any price, it is prepared at any price.
const FORCED_SHARE: (u64, u64) = (9, 10);
/// Why a compaction was not made.
const ABORTS: &str = "compression.abort_on_summary_failure is true";

impl LiveSession {
    /// Hears the engine's opinion and decides.
    pub(crate) fn decide(&mut self, cause: Cause, prompt_tokens: PromptTokens) -> Decision {
        let engine = match cause {
            Cause::Request { .. } => self.engine_decision(prompt_tokens),
            // Nobody is asked whether: a person or the provider has said so.
            Cause::Manual | Cause::Overflow { .. } => EngineDecision::host_decides(),
        };
        let economy = self.economy(prompt_tokens);
        decide(Situation {
            cause,
            config: &self.config,
            budgets: &self.budgets,
            prompt_tokens,
            message_count: self.session.view.len(),
            engine,
            economy,
            pressure: &mut self.pressure,
        })
    }

    /// Returns what a compaction would cost and save, if the settings want that to decide and prices are known.
    fn economy(&self, prompt_tokens: PromptTokens) -> Option<Economy> {
        if self.config.context.mode != Mode::Economic {
            return None;
        }
        let terms = self.summariser.terms(&self.main_model(), prompt_tokens.count)?;
        let outlook = Outlook {
            prompt: prompt_tokens.count,
            kept: self.session.overhead_tokens,
            summary: self.budgets.summary_tokens_max.min(prompt_tokens.count / SUMMARY_PART),
            tail: self.budgets.tail_budget_tokens,
            is_warm: self.is_cache_warm(),
            is_asked: self.route(Cause::Request { idle_seconds: 0 }).is_ok(),
        };
        Some(Economy { terms, outlook })
    }

    /// Tells whether a compaction may pay for itself, or has to be made whatever it costs; where money does not decide, always.
    pub(crate) fn may_pay(&self, prompt_tokens: PromptTokens) -> bool {
        let is_forced = prompt_tokens.count >= self.budgets.hygiene_tokens / FORCED_SHARE.1 * FORCED_SHARE.0;
        is_forced || self.economy(prompt_tokens).is_none_or(|economy| economy.is_good())
    }

    /// Asks the engine whether it wants its next plan to be prepared.
    pub(crate) fn engine_wants_preparation(&mut self, prompt_tokens: PromptTokens) -> bool {
        self.engine_decision(prompt_tokens).prepare
    }

    /// Asks the engine on the provider's report, or else on our count: then it may wait for the report.
    fn engine_decision(&mut self, prompt_tokens: PromptTokens) -> EngineDecision {
        let services = self.services(CALL_SECONDS_MAX, Completions::none());
        let deadline = Duration::from_secs(CALL_SECONDS_MAX);
        let asked = if prompt_tokens.basis == Basis::Reported {
            self.engine.call(services, deadline, move |session, _| Ok(session.should_compress(prompt_tokens)))
        } else {
            let snapshot = Snapshot::of(&self.session);
            self.engine.call(services, deadline, move |session, _| {
                if session.should_defer_preflight(prompt_tokens) {
                    return Ok(EngineDecision::keep(0, "the engine waits for the provider's report"));
                }
                let table = snapshot.table();
                Ok(session.should_compress_preflight(&table.conversation(), prompt_tokens))
            })
        };
        asked.unwrap_or_else(|_| EngineDecision::host_decides())
    }

    /// Compacts towards the target, and writes into the receipt what came of it.
    pub(crate) fn run(&mut self, cause: Cause, trigger: Trigger, target_tokens: u64, receipt: &mut Receipt) {
        let lease = match self.stored.as_ref().map(|stored| stored.lease()).transpose() {
            Ok(lease) => lease,
            Err(error) => {
                receipt.reason = format!("{}, but {error}", receipt.reason);
                receipt.fallbacks.push(error.to_string());
                return;
            }
        };
        let route = self.route(cause);
        // With the window full, a conversation that stayed as it is would be stuck.
        let may_abort = self.config.compression.abort_on_summary_failure
            && !matches!(trigger, Trigger::Hygiene | Trigger::Overflow);
        match &route {
            Ok(route) => receipt.summariser.clone_from(&route.reason),
            Err(why) if may_abort => {
                receipt.summariser.clone_from(why);
                receipt.reason = format!("{}, but {why}, and {ABORTS}", receipt.reason);
                return;
            }
            Err(why) => receipt.summariser.clone_from(why),
        }
        let completions = self.completions(route.as_ref().ok(), cause);
        let descent = self.descend(trigger, target_tokens, route.as_ref().ok(), &completions);
        receipt.calls = std::mem::take(&mut self.prepared_calls);
        receipt.calls.extend(completions.calls());
        let fallback = descent.report.fallback.clone();
        if !fallback.is_empty() {
            if route.is_ok() && may_abort {
                receipt.attempts = descent.attempts;
                receipt.reason = format!("{}, but {fallback}, and {ABORTS}", receipt.reason);
                receipt.fallbacks.push(fallback);
                lock(&self.state).roll_back();
                return;
            }
            // Where no model may be asked, an offline summary is what was to be had, and not a fallback.
            match &route {
                Ok(_) => receipt.fallbacks.push(format!("{fallback}; the summary was made offline")),
                Err(_) => {
                    receipt.notes.push("the summaries were made offline, from the conversation itself".to_owned())
                }
            }
        }
        self.dispose(descent, receipt, lease.as_ref());
    }

    /// Chooses the model for summaries; the error says why none is asked.
    pub(crate) fn route(&self, cause: Cause) -> Result<Route, String> {
        if matches!(cause, Cause::Overflow { attempt } if attempt > 1) {
            return Err("the request was refused again, so no further model is waited for".to_owned());
        }
        let sizes = Sizes {
            prefix: self.prompt_tokens().count,
            material: self.session.tokens().saturating_sub(self.session.overhead_tokens),
            summary: self.budgets.summary_tokens_max,
            is_cache_warm: self.is_cache_warm(),
        };
        self.summariser.route(&self.main_model(), &sizes, cause == Cause::Manual)
    }

    pub(crate) fn completions(&self, route: Option<&Route>, cause: Cause) -> Arc<Completions> {
        let Some(route) = route else { return Completions::none() };
        // A conversation that cannot be written has no prefix to ask on; its summary is asked for without one.
        let prefix = (route.model == CompletionModel::MainOnPrefix).then(|| self.write().ok()).flatten();
        let deadline = Instant::now() + Duration::from_secs(self.summary_seconds());
        Completions::new(
            Arc::clone(&self.summariser),
            self.main_model(),
            self.options.session_id.clone(),
            prefix,
            deadline,
            cause == Cause::Manual,
        )
    }

    /// Seconds that the models may take in all: two calls of the configured length, within a bound.
    pub(crate) fn summary_seconds(&self) -> u64 {
        let one = self.config.auxiliary.compression.timeout;
        one.saturating_mul(u64::from(REQUESTS_MAX)).min(SUMMARY_SECONDS_MAX)
    }

    pub(crate) fn services(&self, seconds: u64, completions: Arc<Completions>) -> Arc<CallServices> {
        self.services_with(seconds, completions, Arc::clone(&self.state), Arc::clone(&self.cancelled))
    }

    pub(crate) fn services_with(
        &self,
        seconds: u64,
        completions: Arc<Completions>,
        state: Arc<Mutex<State>>,
        cancelled: Arc<AtomicBool>,
    ) -> Arc<CallServices> {
        Arc::new(CallServices {
            counter: Arc::clone(&self.counter),
            book: match &self.stored {
                Some(stored) => Book::Stored(stored.store.clone(), stored.key),
                None => Book::Memory(RecallBook::of(&self.session)),
            },
            state,
            settings: settings_of(&self.config, &self.resolved.name),
            data_dir: Some(self.data_dir.clone()),
            log: Arc::clone(&self.log),
            started: Instant::now(),
            deadline: Duration::from_secs(seconds),
            cancelled,
            completions,
        })
    }

    /// Says what is asked of an engine.
    pub(crate) fn request(&self, trigger: Trigger, target_tokens: u64, route: Option<&Route>) -> CompressRequest {
        let mut request = CompressRequest::default();
        request.current_tokens = self.session.tokens();
        request.overhead_tokens = self.session.overhead_tokens;
        request.target_tokens = target_tokens;
        request.trigger = Some(trigger);
        request.focus_topic.clone_from(&self.options.focus);
        request.force = trigger == Trigger::Manual;
        request.keep_exchanges = self.options.keep_exchanges;
        request.memory_context = memory_context(&self.options.memory_context);
        if let Some(route) = route {
            request.completions_max = REQUESTS_MAX;
            request.completion_model = Some(route.model);
            request.completion_window = route.window;
        }
        request.model = self.model.clone();
        request
    }

    /// Returns a plan that was prepared, where this compaction is what it was prepared for: what a person asks for has a
    /// focus of its own, and a refused request must get smaller than was thought.
    fn take_prepared_for(&mut self, trigger: Trigger) -> Option<CompactionPlan> {
        let prepared = self.take_prepared()?;
        if matches!(trigger, Trigger::Manual | Trigger::Overflow) {
            return None;
        }
        let (plan, prepared) = prepared;
        lock(&self.state).take_over(prepared.state);
        self.prepared_calls = prepared.calls;
        Some(plan)
    }

    fn descend(
        &mut self,
        trigger: Trigger,
        target_tokens: u64,
        route: Option<&Route>,
        completions: &Arc<Completions>,
    ) -> Descent {
        let request = self.request(trigger, target_tokens, route);
        let prepared = self.take_prepared_for(trigger);
        let seconds = PLAN_SECONDS_MAX + if route.is_some() { self.summary_seconds() } else { 0 };
        let services = self.services(seconds, Arc::clone(completions));
        let mut proposer = Asker {
            snapshot: Snapshot::without_secrets(&self.session),
            request,
            services,
            deadline: Instant::now() + Duration::from_secs(seconds),
            prepared,
            engine: &mut self.engine,
            built_in: &mut self.built_in,
        };
        let table = ViewTable::new(self.session.revision, self.session.view.iter().map(Arc::as_ref));
        let goal = Goal { target_tokens, threshold_tokens: self.budgets.threshold_tokens };
        ladder::descend(&self.session, &table.conversation(), goal, &mut proposer, &self.scribe)
    }

    fn dispose(&mut self, descent: Descent, receipt: &mut Receipt, lease: Option<&Lease>) {
        receipt.attempts = descent.attempts;
        receipt.rung = descent.rung;
        receipt.floor = descent.floor;
        receipt.user_messages_not_quoted = descent.words_left_out;
        receipt.completions = descent.report.completions;
        receipt.notes = descent.report.notes;
        for attempt in receipt.attempts.iter().filter(|attempt| !attempt.problem.is_empty()) {
            let whose = match attempt.rung {
                Rung::Prepared => "the prepared plan",
                Rung::Engine => self.resolved.name.as_str(),
                Rung::BuiltIn => BUILTIN_NAME,
                Rung::Demotion => "shortening the largest tool results",
                Rung::Smallest => "the smallest legal context",
            };
            receipt.fallbacks.push(format!("{whose}: {}", attempt.problem));
        }
        let mut result = PlanResult::default();
        result.tokens_before = receipt.tokens_before;
        let found = descent.context.is_some();
        if let Some(context) = descent.context {
            receipt.action = "compacted";
            receipt.fates = receipt::fates(&self.session, &context);
            receipt.summaries = receipt::summaries(&self.session, &context);
            receipt.survival = Some(survival::survival(&self.session, &context));
            receipt.repairs = context.repairs().to_vec();
            receipt.tokens_after = context.tokens();
            receipt.engine_used = match descent.rung {
                Some(Rung::Prepared | Rung::Engine) => self.resolved.name.clone(),
                Some(Rung::BuiltIn) => BUILTIN_NAME.to_owned(),
                _ => "host".to_owned(),
            };
            result.applied = matches!(descent.rung, Some(Rung::Prepared | Rung::Engine))
                || (descent.rung == Some(Rung::BuiltIn) && self.built_in.is_none());
            result.nodes = context.nodes().iter().map(|node| node.id.0).collect();
            result.tokens_after = context.tokens();
            match self.store_compaction(context, receipt, lease) {
                Ok(()) => {
                    self.is_compacted = true;
                    receipt.messages_after = outgoing_count(&self.session.view);
                    self.pressure.compacted(receipt.tokens_before, receipt.tokens_after, self.budgets.threshold_tokens);
                }
                Err(error) => self.stays_as_it_is(&error, receipt, &mut result),
            }
        }
        if !found {
            self.pressure.found_nothing(receipt.tokens_before);
            receipt.tokens_after = receipt.tokens_before;
            receipt.reason = format!("{}; no smaller legal conversation was found", receipt.reason);
        }
        if result.applied {
            lock(&self.state).commit();
        } else {
            lock(&self.state).roll_back();
            result.rejection = receipt
                .attempts
                .iter()
                .map(|one| one.problem.as_str())
                .find(|one| !one.is_empty())
                .unwrap_or_default()
                .to_owned();
        }
        result.revision = self.session.revision;
        let services = self.services(CALL_SECONDS_MAX, Completions::none());
        let is_changed = receipt.action == "compacted";
        let snapshot = Snapshot::of(&self.session);
        let mut boundary = LifecycleEvent::new(Lifecycle::CompactionBoundary, self.options.session_id.clone());
        boundary.old_session_id = receipt.session_after.as_ref().map(|_| receipt.session.clone());
        // An engine that fails here has had its plan judged already; its strikes are counted by the guard.
        let _ = self.engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, services| {
            session.plan_result(&result);
            if is_changed {
                session.on_lifecycle(services, &snapshot.table().conversation(), &boundary)?;
            }
            Ok(())
        });
    }

    /// Undoes what the receipt says of a compaction that could not be stored: nothing is rewritten that is not durable.
    fn stays_as_it_is(&mut self, error: &StoreError, receipt: &mut Receipt, result: &mut PlanResult) {
        let unchanged = self.blank_receipt(PromptTokens { count: receipt.prompt_tokens, basis: receipt.prompt_basis });
        receipt.action = unchanged.action;
        receipt.fates = unchanged.fates;
        receipt.summaries.clear();
        receipt.survival = None;
        receipt.repairs.clear();
        receipt.engine_used.clear();
        receipt.tokens_after = receipt.tokens_before;
        receipt.fallbacks.push(error.to_string());
        receipt.reason = format!("{}, but {error}", receipt.reason);
        result.applied = false;
        result.nodes.clear();
        result.rejection = error.to_string();
        result.tokens_after = receipt.tokens_before;
        // Someone else may have compacted it, or gone on.
        if let Err(error) = self.reload() {
            receipt.fallbacks.push(error.to_string());
        }
    }

    pub(crate) fn blank_receipt(&self, prompt_tokens: PromptTokens) -> Receipt {
        let wanted = self.options.engine.clone().unwrap_or_else(|| self.config.context.engine.clone());
        let mut fallbacks = Vec::new();
        if let Some(fault) = &self.resolved.fallback {
            fallbacks
                .push(format!("engine {wanted} is {}: {}; {} is used", fault.state, fault.why, self.resolved.name));
        }
        let every = receipt::Fate {
            first: self.session.view.first().map(|message| message.id).unwrap_or_default(),
            last: self.session.view.last().map(|message| message.id).unwrap_or_default(),
            messages: self.session.view.len() as u64,
            what: receipt::What::Kept,
        };
        Receipt {
            session_after: None,
            session: self.options.session_id.clone(),
            action: "unchanged",
            engine_wanted: wanted,
            engine_used: String::new(),
            engine_source: self.resolved.source.to_string(),
            trigger: None,
            reason: String::new(),
            model: self.model.model.clone(),
            context_length: self.budgets.context_length,
            threshold_tokens: self.budgets.threshold_tokens,
            target_tokens: self.budgets.threshold_tokens,
            tokens_before: self.session.tokens(),
            tokens_after: self.session.tokens(),
            basis: self.counted_basis(),
            prompt_tokens: prompt_tokens.count,
            prompt_basis: prompt_tokens.basis,
            encoding: self.counter.encoding().to_owned(),
            messages_before: self.session.view.len(),
            messages_after: self.session.view.len(),
            fates: vec![every],
            summaries: Vec::new(),
            completions: 0,
            summariser: String::new(),
            calls: Vec::new(),
            attempts: Vec::new(),
            rung: None,
            fallbacks,
            repairs: Vec::new(),
            notes: Vec::new(),
            floor: None,
            user_messages_not_quoted: 0,
            survival: None,
            elapsed_ms: 0,
        }
    }
}

/// Takes secrets out of a memory provider's text and cuts its middle.
fn memory_context(text: &str) -> String {
    let text = host_redact::redact(text);
    let count = text.chars().count();
    if count <= MEMORY_CHARS_MAX {
        return text.to_string();
    }
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (at(MEMORY_CHARS.0), at(count.saturating_sub(MEMORY_CHARS.1)));
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    let left_out = count - MEMORY_CHARS.0 - MEMORY_CHARS.1;
    format!("{head}\n[... {left_out} characters left out ...]\n{tail}")
}

/// The messages of a call, owned by it: a call that hangs keeps what it borrows.
#[derive(Clone)]
pub(crate) struct Snapshot {
    revision: u64,
    messages: Vec<Arc<Message>>,
}

impl Snapshot {
    pub(crate) fn of(session: &Session) -> Snapshot {
        Snapshot { revision: session.revision, messages: session.view.clone() }
    }
    /// Takes the secrets out of what an engine reads to make a plan. An engine cuts texts to what fits a prompt, and a
    /// secret whose name or frame was cut away is not recognised later. Kept messages are the session's own all the same.
    pub(crate) fn without_secrets(session: &Session) -> Snapshot {
        let clean = |message: &Arc<Message>| {
            if message.parts.iter().all(|part| host_redact::scan(&part.text).is_empty()) {
                return Arc::clone(message);
            }
            let mut clean = Message::clone(message);
            for part in &mut clean.parts {
                part.text = host_redact::redact(&part.text).into_owned();
            }
            Arc::new(clean)
        };
        Snapshot { revision: session.revision, messages: session.view.iter().map(clean).collect() }
    }
    pub(crate) fn table(&self) -> ViewTable<'_> {
        ViewTable::new(self.revision, self.messages.iter().map(Arc::as_ref))
    }
}

/// Asks the engines for plans.
struct Asker<'a> {
    snapshot: Snapshot,
    request: CompressRequest,
    services: Arc<CallServices>,
    /// For all rungs together: the built-in compressor does not start a new wait after a slow engine.
    deadline: Instant,
    prepared: Option<CompactionPlan>,
    engine: &'a mut GuardedSession,
    built_in: &'a mut Option<GuardedSession>,
}

impl Asker<'_> {
    fn ask(
        guarded: &mut GuardedSession,
        snapshot: Snapshot,
        request: CompressRequest,
        services: Arc<CallServices>,
        deadline: Instant,
    ) -> Result<CompactionPlan, EngineError> {
        let ask = move |session: &mut dyn EngineSession, services: &dyn HostServices| {
            let table = snapshot.table();
            let conversation: Conversation<'_> = table.conversation();
            session.compress(services, &conversation, &request)
        };
        // An engine that used up the time still leaves the built-in compressor the time of a plan without a model.
        let left = deadline.saturating_duration_since(Instant::now());
        guarded.call(services, left.max(Duration::from_secs(PLAN_SECONDS_MAX / 2)), ask)
    }
}

impl Proposer for Asker<'_> {
    fn prepared(&mut self) -> Option<CompactionPlan> {
        self.prepared.take()
    }
    fn engine(&mut self) -> Option<Result<CompactionPlan, EngineError>> {
        // Without a second session the engine is the built-in compressor, which has a rung of its own.
        self.built_in.as_ref()?;
        Some(Self::ask(
            self.engine,
            self.snapshot.clone(),
            self.request.clone(),
            Arc::clone(&self.services),
            self.deadline,
        ))
    }
    fn built_in(&mut self) -> Result<CompactionPlan, EngineError> {
        let guarded = self.built_in.as_mut().unwrap_or(self.engine);
        Self::ask(guarded, self.snapshot.clone(), self.request.clone(), Arc::clone(&self.services), self.deadline)
    }
}
