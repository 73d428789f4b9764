//! One conversation with its engine: decide, ask, dispose, write.

use crate::recall::RecallBook;
use crate::scribe::WireScribe;
use crate::services::{CallServices, State, lock};
use engine_api::json::{Value, json};
use engine_api::{
    Basis, CompactionPlan, CompressRequest, ContextEngine, Conversation, Decision as EngineDecision, EngineError,
    EngineSession, HostServices, Message, ModelInfo, PlanResult, PromptTokens, SessionStart, StartReason, Trigger,
    Usage, ViewTable,
};
use host_config::{Budgets, Config};
use host_core::ladder::{self, Descent, Goal, Proposer, Rung};
use host_core::outgoing::{outgoing, outgoing_count};
use host_core::policy::{Decision, Situation, decide};
use host_core::receipt::{self, Receipt};
use host_core::{Breaker, Session};
use host_registry::{BUILTIN_NAME, GuardedSession, Registry, Resolved};
use host_tokens::Counter;
use host_wire::Document;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an engine may take over a plan when no model is asked; the largest histories take well under a second.
const PLAN_SECONDS_MAX: u64 = 60;
/// How long an engine may take over a decision or a tool call.
const CALL_SECONDS_MAX: u64 = 20;
/// Completions that an engine may ask for: none, since no model is asked yet.
const COMPLETIONS_MAX: u32 = 0;
/// Context window of a model that neither the settings nor the command line know: small enough for every current one.
pub const CONTEXT_LENGTH_DEFAULT: u64 = 128_000;

/// Why a session could not be opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Even the built-in compressor could not be made.
    #[error("the built-in compressor could not be made: {0}")]
    BuiltIn(EngineError),
    /// A message could not be written in its dialect.
    #[error("could not write the conversation: {0}")]
    Write(String),
}

/// What a person asks for, beside the settings.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The session's id.
    pub session_id: String,
    /// The engine, in place of `context.engine`.
    pub engine: Option<String>,
    /// The model, in place of the one that the document or the settings name.
    pub model: Option<String>,
    /// The context window in tokens, in place of the settings'.
    pub context_length: Option<u64>,
    /// Compact whatever the count says.
    pub force: bool,
    /// What summaries should dwell on.
    pub focus: String,
    /// Prompt tokens that the provider reported for this conversation.
    pub reported_tokens: Option<u64>,
    /// Estimate tokens in place of counting them.
    pub estimate: bool,
}

/// A conversation and its engine's session.
pub struct LiveSession {
    session: Session,
    document: Document,
    scribe: WireScribe,
    counter: Arc<Counter>,
    config: Config,
    budgets: Budgets,
    model: ModelInfo,
    options: Options,
    resolved: Resolved,
    engine: GuardedSession,
    built_in: Option<GuardedSession>,
    state: Arc<Mutex<State>>,
    log: Arc<Mutex<Vec<String>>>,
    data_dir: PathBuf,
    breaker: Breaker,
    is_compacted: bool,
}

impl LiveSession {
    /// Opens a conversation: finds its engine and counts it.
    ///
    /// # Errors
    /// [`RuntimeError::BuiltIn`] only; a configured engine that cannot be had is a fallback, not an error.
    pub fn open(
        document: Document,
        config: Config,
        registry: &Registry,
        home: &Path,
        options: Options,
    ) -> Result<LiveSession, RuntimeError> {
        let wanted = options.engine.clone().unwrap_or_else(|| config.context.engine.clone());
        let resolved = registry.resolve(&wanted, &|name| settings_of(&config, name)).map_err(RuntimeError::BuiltIn)?;
        LiveSession::open_with(document, config, resolved, home, options)
    }

    /// Opens a conversation with an engine that was found already.
    ///
    /// # Errors
    /// [`RuntimeError::BuiltIn`] if the built-in compressor, which stands behind every engine, cannot be made.
    pub fn open_with(
        mut document: Document,
        config: Config,
        resolved: Resolved,
        home: &Path,
        options: Options,
    ) -> Result<LiveSession, RuntimeError> {
        let model_name = options
            .model
            .clone()
            .or_else(|| document.model())
            .or_else(|| (!config.model.default.is_empty()).then(|| config.model.default.clone()))
            .unwrap_or_default();
        let context_length = options.context_length.or(config.model.context_length).unwrap_or(CONTEXT_LENGTH_DEFAULT);
        let budgets = host_config::budgets(&config, &model_name, context_length, config.model.max_tokens);
        let counter = Arc::new(if options.estimate { Counter::estimating() } else { Counter::for_model(&model_name) });
        let mut messages = std::mem::take(&mut document.messages);
        counter.measure(&mut messages);
        let overhead = document.overhead_texts().iter().map(|text| u64::from(counter.count(text))).sum();
        let dialect = document.dialect();
        let session = Session::new(options.session_id.clone(), dialect, messages, overhead);

        let mut model = ModelInfo::default();
        model.model = model_name;
        model.context_length = budgets.context_length;
        model.max_tokens = budgets.context_length.saturating_sub(budgets.window);
        model.threshold_tokens = budgets.threshold_tokens;
        model.tail_budget_tokens = budgets.tail_budget_tokens;
        model.summary_tokens_max = budgets.summary_tokens_max;
        model.dialect = Some(dialect);
        let start = |name: &str| {
            let mut start = SessionStart::default();
            start.session_id.clone_from(&options.session_id);
            start.reason = Some(StartReason::New);
            start.model = model.clone();
            start.settings = settings_of(&config, name);
            start
        };
        let built_in = if resolved.name == BUILTIN_NAME {
            None
        } else {
            let made: Arc<dyn ContextEngine> =
                host_registry::built_in(&settings_of(&config, BUILTIN_NAME)).map_err(RuntimeError::BuiltIn)?.into();
            Some(GuardedSession::new(made, start(BUILTIN_NAME)))
        };
        let engine = GuardedSession::new(Arc::clone(&resolved.engine), start(&resolved.name));
        Ok(LiveSession {
            session,
            document,
            scribe: WireScribe::new(dialect, Arc::clone(&counter)),
            counter,
            budgets,
            model,
            data_dir: home.join("engine-data").join(&resolved.name),
            resolved,
            engine,
            built_in,
            options,
            config,
            state: Arc::default(),
            log: Arc::default(),
            breaker: Breaker::default(),
            is_compacted: false,
        })
    }

    /// Returns the conversation.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the conversation to change it: pins, appended messages.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Pins a message: no engine can take it away. Returns whether the context has it.
    pub fn pin(&mut self, id: engine_api::MessageId) -> bool {
        self.session.pin(id)
    }

    /// Returns the engine in use and why it is not the one asked for, if it is not.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Returns what the settings come to for the model.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Returns the engine's log lines since the session was opened.
    pub fn log(&self) -> Vec<String> {
        lock(&self.log).clone()
    }

    /// Returns how large the next request is.
    pub fn prompt_tokens(&self) -> PromptTokens {
        if let Some(count) = self.options.reported_tokens {
            return PromptTokens { count, basis: Basis::Reported };
        }
        PromptTokens { count: self.session.tokens(), basis: self.counted_basis() }
    }

    fn counted_basis(&self) -> Basis {
        match self.counter.basis() {
            host_tokens::Basis::Exact => Basis::Counted,
            _ => Basis::Estimated,
        }
    }

    /// Decides, and compacts if that is the decision. The conversation goes on whatever the engine does.
    pub fn compact(&mut self) -> Receipt {
        let started = Instant::now();
        let prompt_tokens = self.prompt_tokens();
        let engine = self.engine_decision(prompt_tokens);
        let decision = decide(&Situation {
            config: &self.config,
            budgets: &self.budgets,
            prompt_tokens,
            message_count: self.session.view.len(),
            engine,
            forced: self.options.force,
            breaker: self.breaker,
        });
        let mut receipt = self.blank_receipt(prompt_tokens);
        match decision {
            Decision::Keep(reason) => receipt.reason = reason,
            Decision::Compact { trigger, reason, target_tokens } => {
                // The provider's count and ours differ; what must shrink is what we count.
                let target_tokens = target_tokens.min(self.session.tokens().saturating_sub(1));
                receipt.trigger = Some(trigger);
                receipt.reason = reason;
                receipt.target_tokens = target_tokens;
                let descent = self.descend(trigger, target_tokens);
                self.dispose(descent, &mut receipt);
            }
        }
        receipt.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        receipt
    }

    /// Hears the usage of an answered request: the engine does, and the breaker judges the last compaction by it.
    pub fn record(&mut self, usage: &Usage) {
        self.breaker.measured(usage.prompt_tokens, self.budgets.threshold_tokens);
        self.options.reported_tokens = Some(usage.prompt_tokens);
        let (usage, services) = (usage.clone(), self.services(CALL_SECONDS_MAX));
        // A failure costs the engine a strike and the conversation nothing.
        let _ = self.engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, _| {
            session.update_from_response(&usage);
            Ok(())
        });
    }

    /// Answers a call of one of the engine's tools.
    ///
    /// # Errors
    /// The engine's own, or that of a panic or a passed deadline.
    pub fn call_tool(&mut self, name: &str, arguments: &Value) -> Result<String, EngineError> {
        let snapshot = self.snapshot();
        let (name, arguments) = (name.to_owned(), arguments.clone());
        let services = self.services(CALL_SECONDS_MAX);
        self.engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, services| {
            let table = snapshot.table();
            session.handle_tool_call(services, &table.conversation(), &name, &arguments)
        })
    }

    /// Writes the conversation as it stands: the client's own body with the new message list.
    ///
    /// # Errors
    /// [`RuntimeError::Write`] if a message cannot be written in its dialect.
    pub fn write(&self) -> Result<String, RuntimeError> {
        if !self.is_compacted {
            return Ok(self.document.write(self.session.view.iter().map(|message| message.raw.as_str())));
        }
        let raws = outgoing(&self.session.view, &self.scribe).map_err(RuntimeError::Write)?;
        Ok(self.document.write(raws.iter().map(String::as_str)))
    }

    fn engine_decision(&mut self, prompt_tokens: PromptTokens) -> EngineDecision {
        let services = self.services(CALL_SECONDS_MAX);
        let asked = self.engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, _| {
            Ok(session.should_compress(prompt_tokens))
        });
        asked.unwrap_or_else(|_| EngineDecision::host_decides())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { revision: self.session.revision, messages: self.session.view.clone() }
    }

    fn services(&self, seconds: u64) -> Arc<CallServices> {
        Arc::new(CallServices {
            counter: Arc::clone(&self.counter),
            book: RecallBook::of(&self.session),
            state: Arc::clone(&self.state),
            settings: settings_of(&self.config, &self.resolved.name),
            data_dir: Some(self.data_dir.clone()),
            log: Arc::clone(&self.log),
            started: Instant::now(),
            deadline: Duration::from_secs(seconds),
            cancelled: AtomicBool::new(false),
        })
    }

    fn descend(&mut self, trigger: Trigger, target_tokens: u64) -> Descent {
        let mut request = CompressRequest::default();
        request.current_tokens = self.session.tokens();
        request.overhead_tokens = self.session.overhead_tokens;
        request.target_tokens = target_tokens;
        request.trigger = Some(trigger);
        request.focus_topic.clone_from(&self.options.focus);
        request.force = self.options.force;
        request.completions_max = COMPLETIONS_MAX;
        request.model = self.model.clone();
        let services = self.services(PLAN_SECONDS_MAX);
        let mut proposer = Asker {
            snapshot: self.snapshot(),
            request,
            services,
            engine: &mut self.engine,
            built_in: &mut self.built_in,
        };
        let table = ViewTable::new(self.session.revision, self.session.view.iter().map(Arc::as_ref));
        let goal = Goal { target_tokens, threshold_tokens: self.budgets.threshold_tokens };
        ladder::descend(&self.session, &table.conversation(), goal, &mut proposer, &self.scribe)
    }

    fn dispose(&mut self, descent: Descent, receipt: &mut Receipt) {
        receipt.attempts = descent.attempts;
        receipt.rung = descent.rung;
        receipt.floor = descent.floor;
        receipt.user_messages_not_quoted = descent.words_left_out;
        receipt.completions = descent.report.completions;
        receipt.notes = descent.report.notes;
        if !descent.report.fallback.is_empty() {
            // Where no model may be asked, an offline summary is what was to be had, and not a fallback.
            if COMPLETIONS_MAX == 0 {
                receipt.notes.push("the summaries were made offline, from the conversation itself".to_owned());
            } else {
                receipt.fallbacks.push(descent.report.fallback);
            }
        }
        for attempt in receipt.attempts.iter().filter(|attempt| !attempt.problem.is_empty()) {
            let whose = match attempt.rung {
                Rung::Engine => self.resolved.name.as_str(),
                Rung::BuiltIn => BUILTIN_NAME,
                Rung::Demotion => "shortening the largest tool results",
                Rung::Smallest => "the smallest legal context",
            };
            receipt.fallbacks.push(format!("{whose}: {}", attempt.problem));
        }
        let mut result = PlanResult::default();
        result.tokens_before = receipt.tokens_before;
        if let Some(context) = descent.context {
            receipt.action = "compacted";
            receipt.fates = receipt::fates(&self.session, &context);
            receipt.summaries = receipt::summaries(&self.session, &context);
            receipt.repairs = context.repairs().to_vec();
            receipt.tokens_after = context.tokens();
            receipt.engine_used = match descent.rung {
                Some(Rung::Engine) => self.resolved.name.clone(),
                Some(Rung::BuiltIn) => BUILTIN_NAME.to_owned(),
                _ => "host".to_owned(),
            };
            result.applied =
                descent.rung == Some(Rung::Engine) || (descent.rung == Some(Rung::BuiltIn) && self.built_in.is_none());
            result.nodes = context.nodes().iter().map(|node| node.id.0).collect();
            result.tokens_after = context.tokens();
            self.session.commit(context);
            self.is_compacted = true;
            receipt.messages_after = outgoing_count(&self.session.view);
            self.breaker.compacted();
            // The count of the provider was of the conversation before.
            self.options.reported_tokens = None;
        } else {
            self.breaker.found_nothing(receipt.tokens_before);
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
        let services = self.services(CALL_SECONDS_MAX);
        // An engine that fails here has had its plan judged already; its strikes are counted by the guard.
        let _ = self.engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, _| {
            session.plan_result(&result);
            Ok(())
        });
    }

    fn blank_receipt(&self, prompt_tokens: PromptTokens) -> Receipt {
        let wanted = self.options.engine.clone().unwrap_or_else(|| self.config.context.engine.clone());
        let mut fallbacks = Vec::new();
        if let Some(fault) = &self.resolved.fallback {
            fallbacks
                .push(format!("engine {wanted} is {}: {}; {} is used", fault.state, fault.why, self.resolved.name));
        }
        let every = receipt::Fate {
            first: self.session.view.first().map(|message| message.id).unwrap_or_default(),
            last: self.session.view.last().map(|message| message.id).unwrap_or_default(),
            what: receipt::What::Kept,
        };
        Receipt {
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
            attempts: Vec::new(),
            rung: None,
            fallbacks,
            repairs: Vec::new(),
            notes: Vec::new(),
            floor: None,
            user_messages_not_quoted: 0,
            elapsed_ms: 0,
        }
    }
}

/// Returns the settings of an engine: the user's own section; for the built-in compressor also what `compression` says.
fn settings_of(config: &Config, name: &str) -> Value {
    let own = config.engines.get(name).cloned().unwrap_or_else(|| json!({}));
    if name != BUILTIN_NAME {
        return own;
    }
    let mut settings = engine_api::json::to_value(&config.compression).unwrap_or_else(|_| json!({}));
    if let (Some(settings), Some(own)) = (settings.as_object_mut(), own.as_object()) {
        settings.extend(own.clone());
    }
    settings
}

/// The messages of a call, owned by it: a call that hangs keeps what it borrows.
#[derive(Clone)]
struct Snapshot {
    revision: u64,
    messages: Vec<Arc<Message>>,
}

impl Snapshot {
    fn table(&self) -> ViewTable<'_> {
        ViewTable::new(self.revision, self.messages.iter().map(Arc::as_ref))
    }
}

/// Asks the engines for plans.
struct Asker<'a> {
    snapshot: Snapshot,
    request: CompressRequest,
    services: Arc<CallServices>,
    engine: &'a mut GuardedSession,
    built_in: &'a mut Option<GuardedSession>,
}

impl Asker<'_> {
    fn ask(
        guarded: &mut GuardedSession,
        snapshot: Snapshot,
        request: CompressRequest,
        services: Arc<CallServices>,
    ) -> Result<CompactionPlan, EngineError> {
        let ask = move |session: &mut dyn EngineSession, services: &dyn HostServices| {
            let table = snapshot.table();
            let conversation: Conversation<'_> = table.conversation();
            session.compress(services, &conversation, &request)
        };
        guarded.call(services, Duration::from_secs(PLAN_SECONDS_MAX), ask)
    }
}

impl Proposer for Asker<'_> {
    fn engine(&mut self) -> Option<Result<CompactionPlan, EngineError>> {
        // Without a second session the engine is the built-in compressor, which has a rung of its own.
        self.built_in.as_ref()?;
        Some(Self::ask(self.engine, self.snapshot.clone(), self.request.clone(), Arc::clone(&self.services)))
    }
    fn built_in(&mut self) -> Result<CompactionPlan, EngineError> {
        let guarded = self.built_in.as_mut().unwrap_or(self.engine);
        Self::ask(guarded, self.snapshot.clone(), self.request.clone(), Arc::clone(&self.services))
    }
}
