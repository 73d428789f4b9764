//! One conversation with its engine: what it holds, and what is asked of it.

use crate::compaction::Snapshot;
use crate::completions::Completions;
use crate::events::Subscriber;
use crate::pins::Pin;
use crate::prepare::Preparation;
use crate::recall::{Book, RecallBook};
use crate::scribe::WireScribe;
use crate::services::{CallServices, State, lock};
use crate::stored::{self, Stored};
use engine_api::json::{Value, json};
use engine_api::{
    Basis, ContextEngine, EngineError, Flags, Lifecycle, LifecycleEvent, ModelInfo, PartKind, PromptTokens,
    SessionStart, StartReason, Usage,
};
use host_config::codex::assumed_window;
use host_config::{Budgets, CacheTtl, Config};
use host_core::outgoing::outgoing;
use host_core::policy::{Cause, Decision};
use host_core::receipt::Receipt;
use host_core::summariser::{Call, MainModel, Offline, Place, Summariser};
use host_core::{Pressure, Session};
use host_registry::{BUILTIN_NAME, GuardedSession, Registry, Resolved};
use host_store::Store;
use host_tokens::{Calibration, Counter};
use host_wire::Document;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an engine may take over a decision or a tool call.
pub(crate) const CALL_SECONDS_MAX: u64 = 20;
/// How long a tool may take: a map over many rows asks a model for each.
const TOOL_SECONDS_MAX: u64 = 600;
/// Messages that are looked through for the call of an answer; answers follow their calls closely.
const CALLS_LOOKED_THROUGH: usize = 256;

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
    /// The store could not do its part.
    #[error(transparent)]
    Store(#[from] host_store::StoreError),
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
    /// The newest exchanges that stay whole; 0 for no such wish.
    pub keep_exchanges: u32,
    /// Text of the client's memory, for the summariser; secrets are taken out and it is cut.
    pub memory_context: String,
    /// Seconds since the conversation's last message; 0 if that is not known.
    pub idle_seconds: u64,
    /// Prompt tokens that the provider reported for this conversation.
    pub reported_tokens: Option<u64>,
    /// Estimate tokens in place of counting them.
    pub estimate: bool,
    /// The client's platform, where it is known.
    pub platform: String,
    /// A title for lists of sessions.
    pub title: String,
}

/// A conversation and its engine's session.
pub struct LiveSession {
    pub(crate) session: Session,
    pub(crate) document: Document,
    pub(crate) scribe: WireScribe,
    pub(crate) counter: Arc<Counter>,
    pub(crate) config: Config,
    pub(crate) budgets: Budgets,
    pub(crate) model: ModelInfo,
    pub(crate) options: Options,
    pub(crate) resolved: Resolved,
    pub(crate) engine: GuardedSession,
    pub(crate) built_in: Option<GuardedSession>,
    pub(crate) summariser: Arc<dyn Summariser>,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    pub(crate) data_dir: PathBuf,
    pub(crate) pressure: Pressure,
    calibration: Calibration,
    pub(crate) is_compacted: bool,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) answered: Option<Instant>,
    pub(crate) stored: Option<Stored>,
    pub(crate) subscribers: Vec<Subscriber>,
    /// Compactions of a session that is in no store.
    pub(crate) compressions: u64,
    pub(crate) pins: Vec<Pin>,
    pub(crate) preparation: Option<Preparation>,
    /// Requests to models that a prepared plan caused, until a receipt takes them.
    pub(crate) prepared_calls: Vec<Call>,
    pub(crate) home: PathBuf,
    pub(crate) place: Option<Place>,
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
        document: Document,
        config: Config,
        resolved: Resolved,
        home: &Path,
        options: Options,
    ) -> Result<LiveSession, RuntimeError> {
        LiveSession::make(document, config, resolved, home, options, None)
    }

    /// Makes the session of a document, or of what a store has under a key.
    pub(crate) fn make(
        mut document: Document,
        config: Config,
        resolved: Resolved,
        home: &Path,
        options: Options,
        from: Option<(Store, i64)>,
    ) -> Result<LiveSession, RuntimeError> {
        let model_name = options
            .model
            .clone()
            .or_else(|| document.model())
            .or_else(|| (!config.model.default.is_empty()).then(|| config.model.default.clone()))
            .unwrap_or_default();
        let context_length = options
            .context_length
            .or(config.model.context_length)
            .unwrap_or_else(|| assumed_window(&model_name, &config.model.provider));
        let budgets = host_config::budgets(&config, &model_name, context_length, config.model.max_tokens);
        let counter = Arc::new(counter_of(&options, &model_name));
        let mut messages = std::mem::take(&mut document.messages);
        let overhead = overhead_of(&document, &counter);
        let dialect = document.dialect();
        let (session, document, stored) = match from {
            Some((store, key)) => {
                let opened = stored::open(&store, key, document, &counter, overhead)?;
                (opened.session, opened.document, Some(opened.stored))
            }
            None => {
                counter.measure(&mut messages);
                (Session::new(options.session_id.clone(), dialect, messages, overhead), document, None)
            }
        };
        let is_compacted = session.view.iter().any(|message| message.flags.has(Flags::SYNTHETIC)) && stored.is_some();
        let pressure = options
            .reported_tokens
            .filter(|&reported| Pressure::is_possible(reported, session.tokens()))
            .map_or_else(Pressure::default, |reported| Pressure::reported(reported, session.tokens()));

        let mut calibration = Calibration::new(counter.basis());
        if let Some(reported) = options.reported_tokens {
            calibration.observe(session.tokens(), reported);
        }

        let mut model = ModelInfo::default();
        model.dialect = Some(dialect);
        fill(&mut model, model_name, &config.model.provider, &budgets);
        let is_resumed = stored.as_ref().is_some_and(|stored| stored.compressions > 0);
        let start = |name: &str| {
            let mut start = SessionStart::default();
            start.session_id.clone_from(&options.session_id);
            start.reason = Some(if is_resumed { StartReason::Resume } else { StartReason::New });
            start.platform.clone_from(&options.platform);
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
        let state = match &stored {
            Some(stored) => stored.state(&resolved.name)?,
            None => State::default(),
        };
        let mut live = LiveSession {
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
            summariser: Arc::new(Offline),
            state: Arc::new(Mutex::new(state)),
            log: Arc::default(),
            pressure,
            calibration,
            is_compacted,
            cancelled: Arc::default(),
            answered: None,
            stored,
            subscribers: Vec::new(),
            compressions: 0,
            pins: Vec::new(),
            preparation: None,
            prepared_calls: Vec::new(),
            home: home.to_owned(),
            place: None,
        };
        live.read_rules_files();
        live.read_pins()?;
        Ok(live)
    }

    /// Has this called after each compaction that is in effect.
    #[must_use]
    pub fn with_subscriber(mut self, subscriber: Subscriber) -> Self {
        self.subscribers.push(subscriber);
        self
    }

    /// Has completions answered by this summariser; without one, no model is asked.
    #[must_use]
    pub fn with_summariser(mut self, summariser: Arc<dyn Summariser>) -> Self {
        self.summariser = summariser;
        self
    }

    /// Takes each compaction from now on for one that a person asks for, or no longer.
    pub fn set_forced(&mut self, is_forced: bool) {
        self.options.force = is_forced;
    }

    /// Returns the conversation.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the conversation to change it: pins, appended messages.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Adds a message of the dialect, as the client wrote it.
    ///
    /// # Errors
    /// [`RuntimeError::Write`] if it is no message of the conversation's dialect.
    pub fn append(&mut self, raw: &str) -> Result<(), RuntimeError> {
        let mut message = host_wire::parse_message(self.session.dialect, raw)
            .map_err(|error| RuntimeError::Write(error.to_string()))?;
        self.counter.measure(std::slice::from_mut(&mut message));
        self.name_tools(&mut message);
        let id = match &mut self.stored {
            Some(stored) => stored.append(&message)?,
            None => self.session.next_id(),
        };
        self.session.append_as(id, message);
        self.pin_newest();
        Ok(())
    }

    /// Gives the answers in a message the names of the tools that were called.
    fn name_tools(&self, message: &mut engine_api::Message) {
        for part in
            message.parts.iter_mut().filter(|part| part.kind == PartKind::ToolResult && part.tool_name.is_empty())
        {
            let calls = self.session.view.iter().rev().take(CALLS_LOOKED_THROUGH).flat_map(|earlier| &earlier.parts);
            let call = calls
                .filter(|call| call.kind == PartKind::ToolCall && call.flags.family() == part.flags.family())
                .find(|call| call.call_id == part.call_id);
            if let Some(call) = call {
                part.tool_name.clone_from(&call.tool_name);
            }
        }
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

    /// Returns a handle that ends a running compaction early; the conversation then stays as it is or gets a summary
    /// that no model wrote.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.cancelled))
    }

    /// Returns how large the next request is.
    pub fn prompt_tokens(&self) -> PromptTokens {
        let counted = PromptTokens { count: self.session.tokens(), basis: self.counted_basis() };
        let calibration = &self.calibration;
        if !calibration.is_calibrated() {
            return self.pressure.prompt_tokens(counted, counted.count, &|tokens| tokens);
        }
        // Tokens are far below 2^52, so nothing is lost in the product.
        let scale = |tokens: u64| (tokens as f64 * calibration.factor()) as u64;
        self.pressure.prompt_tokens(counted, calibration.apply(counted.count), &scale)
    }

    /// Turns a target in the provider's tokens into one in ours, never into a larger one.
    fn in_our_count(&self, target_tokens: u64, prompt_tokens: u64) -> u64 {
        let by_report = self.pressure.in_our_count(target_tokens, prompt_tokens);
        let left = target_tokens.saturating_sub(self.calibration.overhead());
        if !self.calibration.is_calibrated() || left == 0 {
            return by_report;
        }
        by_report.min((left as f64 / self.calibration.factor().max(1.0)) as u64)
    }

    pub(crate) fn counted_basis(&self) -> Basis {
        match self.counter.basis() {
            host_tokens::Basis::Exact => Basis::Counted,
            _ => Basis::Estimated,
        }
    }

    /// Decides before a request, and compacts if that is the decision. The conversation goes on whatever the engine does.
    pub fn compact(&mut self) -> Receipt {
        let idle_seconds = self.options.idle_seconds;
        let cause = if self.options.force { Cause::Manual } else { Cause::Request { idle_seconds } };
        self.compact_for(cause)
    }

    /// Makes the request smaller after the provider refused it as too long. Each further refusal makes it smaller still,
    /// up to the smallest legal context; then the receipt says that nothing more can be done.
    ///
    /// `window` is the provider's own statement of its window, if it made one: it holds from now on.
    pub fn overflowed(&mut self, window: Option<u64>) -> Receipt {
        if let Some(window) = window.filter(|&window| 0 < window && window < self.budgets.context_length) {
            self.set_budgets(self.model.model.clone(), window);
        }
        // A compaction adds rows of its own; the newest that was really said is the same before and after it.
        let newest = self.session.transcript.iter().rev().find(|message| !message.flags.has(Flags::SYNTHETIC));
        let attempt = self.pressure.refused(newest.map(|message| message.id).unwrap_or_default());
        self.compact_for(Cause::Overflow { attempt })
    }

    pub(crate) fn compact_for(&mut self, cause: Cause) -> Receipt {
        let started = Instant::now();
        self.cancelled.store(false, Ordering::Relaxed);
        let prompt_tokens = self.prompt_tokens();
        let decision = self.decide(cause, prompt_tokens);
        let mut receipt = self.blank_receipt(prompt_tokens);
        match decision {
            Decision::Keep(reason) => receipt.reason = reason,
            Decision::Compact { trigger, reason, target_tokens } => {
                // The provider's count and ours differ; what must shrink is what we count.
                let counted = self.session.tokens();
                let target_tokens =
                    self.in_our_count(target_tokens, prompt_tokens.count).min(counted.saturating_sub(1));
                receipt.trigger = Some(trigger);
                receipt.reason = reason;
                receipt.target_tokens = target_tokens;
                self.run(cause, trigger, target_tokens, &mut receipt);
            }
        }
        receipt.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if receipt.action == "compacted" {
            self.tell_of(&receipt);
        }
        receipt
    }

    /// Hears the usage of an answered request: the engine does, and the breaker judges the last compaction by it.
    /// Usage that was not reported is all zeros.
    pub fn record(&mut self, usage: &Usage) {
        self.answered = Some(Instant::now());
        if let Some(stored) = self.stored.as_ref().filter(|_| *usage != Usage::default()) {
            // A figure for reports: the conversation does not wait for it to be right.
            if let Err(error) = stored.store.put_usage(stored.key, usage) {
                lock(&self.log).push(format!("warn: the usage was not stored: {error}"));
            }
        }
        self.calibration.observe(self.session.tokens(), usage.prompt_tokens);
        self.pressure.measured(usage.prompt_tokens, self.session.tokens(), self.budgets.threshold_tokens);
        let (usage, services) = (usage.clone(), self.services(CALL_SECONDS_MAX, Completions::none()));
        // A failure costs the engine a strike and the conversation nothing.
        let _ = self.engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, _| {
            session.update_from_response(&usage);
            Ok(())
        });
        self.prepare_if_near();
    }

    /// Goes on with another model: its window, thresholds and vocabulary hold from now on, and what was known of the
    /// size of requests is forgotten.
    pub fn switch_model(&mut self, model: &str, context_length: u64) {
        let counter = counter_of(&self.options, model);
        if counter != *self.counter {
            self.counter = Arc::new(counter);
            let counter = Arc::clone(&self.counter);
            let overhead = overhead_of(&self.document, &counter);
            self.session.recount(&|message| counter.measure(std::slice::from_mut(message)), overhead);
            self.scribe = WireScribe::new(self.session.dialect, counter);
        }
        self.set_budgets(model.to_owned(), context_length);
        self.pressure.reset();
        self.calibration = Calibration::new(self.counter.basis());
        self.answered = None;
    }

    /// Tells whether the provider's cache still holds the prefix of the last answered request.
    pub(crate) fn is_cache_warm(&self) -> bool {
        let seconds = match self.config.prompt_caching.cache_ttl {
            CacheTtl::FiveMinutes => 300,
            CacheTtl::OneHour => 3_600,
        };
        self.answered.is_some_and(|answered| answered.elapsed() < Duration::from_secs(seconds))
    }

    /// Tells the engine that the session is over, or that the person cleared it.
    pub fn tell(&mut self, kind: Lifecycle) {
        let (snapshot, event) =
            (Snapshot::of(&self.session), LifecycleEvent::new(kind, self.options.session_id.clone()));
        let services = self.services(CALL_SECONDS_MAX, Completions::none());
        // What an engine makes of the news is its own affair.
        let _ = self.engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, services| {
            session.on_lifecycle(services, &snapshot.table().conversation(), &event)
        });
    }

    /// Has the engine take over what it retains of an earlier session; what comes of it is its own affair.
    pub(crate) fn carry_over(&mut self, from_session_id: String) {
        let services = self.services(CALL_SECONDS_MAX, Completions::none());
        let taken = self.engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, services| {
            session.carry_over(services, &from_session_id)
        });
        self.keep_state(taken.is_ok());
    }

    fn set_budgets(&mut self, model: String, context_length: u64) {
        self.budgets = host_config::budgets(&self.config, &model, context_length, self.config.model.max_tokens);
        fill(&mut self.model, model, &self.config.model.provider, &self.budgets);
        for engine in [Some(&mut self.engine), self.built_in.as_mut()].into_iter().flatten() {
            let (model, book) = (self.model.clone(), Book::Memory(RecallBook::of(&self.session)));
            let services = CallServices::plain(Arc::clone(&self.counter), book);
            // An engine that fails here still gets the model with its next request.
            let _ = engine.call(services, Duration::from_secs(CALL_SECONDS_MAX), move |session, _| {
                session.update_model(&model);
                Ok(())
            });
        }
    }

    /// Answers a call of one of the engine's tools.
    ///
    /// # Errors
    /// The engine's own, or that of a panic or a passed deadline.
    pub fn call_tool(&mut self, name: &str, arguments: &Value) -> Result<String, EngineError> {
        if name == crate::session_search::TOOL {
            return self.search_sessions(arguments);
        }
        let snapshot = Snapshot::of(&self.session);
        let (name, arguments) = (name.to_owned(), arguments.clone());
        let deadline = Duration::from_secs(TOOL_SECONDS_MAX);
        let completions = match self.route(Cause::Manual) {
            Ok(_) => Completions::of_tool(
                Arc::clone(&self.summariser),
                self.main_model(),
                self.options.session_id.clone(),
                Instant::now() + deadline,
            ),
            Err(_) => Completions::none(),
        };
        self.cancelled.store(false, Ordering::Relaxed);
        let services = self.services(TOOL_SECONDS_MAX, completions);
        let answered = self.engine.call(services, deadline, move |session, services| {
            let table = snapshot.table();
            session.handle_tool_call(services, &table.conversation(), &name, &arguments)
        });
        self.keep_state(answered.is_ok());
        answered
    }

    /// Stores what an engine wrote outside of a compaction, or forgets it with the call that failed.
    pub(crate) fn keep_state(&mut self, is_good: bool) {
        let pending = lock(&self.state).pending();
        if !is_good {
            lock(&self.state).roll_back();
            return;
        }
        if let Some(stored) = self.stored.as_ref().filter(|_| !pending.is_empty())
            && let Err(error) = stored.store.put_engine_state(stored.key, &self.resolved.name, pending)
        {
            lock(&self.log).push(format!("warn: the engine's state was not stored: {error}"));
        }
        lock(&self.state).commit();
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

    /// Returns the conversation's model as a summariser knows it.
    pub(crate) fn main_model(&self) -> MainModel {
        MainModel {
            name: self.model.model.clone(),
            provider: self.model.provider.clone(),
            context_length: self.model.context_length,
            dialect: self.model.dialect,
            place: self.place.clone(),
        }
    }
}

/// Ends a running compaction of its session early.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// Asks the compaction to end at once.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn counter_of(options: &Options, model: &str) -> Counter {
    if options.estimate { Counter::estimating() } else { Counter::for_model(model) }
}

pub(crate) fn overhead_of(document: &Document, counter: &Counter) -> u64 {
    document.overhead_texts().iter().map(|text| u64::from(counter.count(text))).sum()
}

fn fill(model: &mut ModelInfo, name: String, provider: &str, budgets: &Budgets) {
    model.model = name;
    model.provider = provider.to_owned();
    model.context_length = budgets.context_length;
    model.max_tokens = budgets.context_length.saturating_sub(budgets.window);
    model.threshold_tokens = budgets.threshold_tokens;
    model.tail_budget_tokens = budgets.tail_budget_tokens;
    model.summary_tokens_max = budgets.summary_tokens_max;
}

/// Returns the settings of an engine: the user's own section; for the built-in compressor also what `compression` says.
pub fn settings_of(config: &Config, name: &str) -> Value {
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
