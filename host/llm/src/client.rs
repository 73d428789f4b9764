//! The summariser: whom to ask, in which order, and when to stop.

use crate::chunk::{self, Count};
use crate::cooldown::{self, Cooldowns, Place};
use crate::endpoint::{Api, Endpoints, Target};
use crate::failure::{Failure, Kind};
use crate::prices::Prices;
use crate::request::{self, Question};
use crate::route::{self, Options};
use crate::send::{self, Parcel, Sender};
use crate::splice;
use engine_api::{Completion, CompletionModel, CompletionRequest, Dialect, EngineError, ErrorKind, Usage};
use host_config::Config;
use host_core::economy::Terms;
use host_core::summariser::{Answer, Ask, Call, MainModel, Route, Sizes, Summariser};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinSet;

/// Threads that move bytes; the waiting is done on the callers' own.
const WORKERS: usize = 2;
/// Pause before the same endpoint is asked again: so long, and up to as long again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Share of the time left that the first endpoint gets where another could be asked after it.
const FIRST_SHARE: (u32, u32) = (2, 3);
/// An answer up to this size is never too long: a question may be shorter than its answer.
const LONG_ANSWER_BYTES_MIN: usize = 4_096;
/// Windows learned from errors that are remembered.
const WINDOWS_MAX: usize = 64;
/// Models set aside for a session that are remembered; the oldest are forgotten first.
const ASIDE_MAX: usize = 1_024;

/// Answers completions over the network.
///
/// Making one reads the settings, the environment and the price file, and nothing else; the runtime and the connections
/// are made when the first question is asked.
pub struct Client {
    endpoints: Endpoints,
    prices: Prices,
    cooldowns: Cooldowns,
    count: Count,
    sender: Sender,
    runtime: OnceLock<Result<Runtime, String>>,
    windows: Mutex<BTreeMap<(String, String), u64>>,
    aside: Mutex<VecDeque<(String, String, String)>>,
}

/// What one attempt was given and what came of it.
struct Attempt {
    result: Result<Completion, Failure>,
    /// Requests that left; 0 where the attempt ended before any could.
    pieces: u32,
}

impl Client {
    /// Makes a client; `home` holds `cooldowns.json` and, if a person wants other prices, `prices.yaml`.
    pub fn new(config: &Config, home: &Path, env: &dyn Fn(&str) -> Option<String>) -> Self {
        Client {
            endpoints: Endpoints::new(config, env),
            prices: Prices::load(home),
            cooldowns: Cooldowns::new(home),
            count: estimate,
            sender: Sender::new(),
            runtime: OnceLock::new(),
            windows: Mutex::default(),
            aside: Mutex::default(),
        }
    }

    /// Counts tokens with this function instead of estimating three bytes for each.
    #[must_use]
    pub fn with_counter(mut self, count: fn(&str) -> u64) -> Self {
        self.count = count;
        self
    }

    /// Returns the prices that routes are chosen by.
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    fn runtime(&self) -> Result<&Runtime, Failure> {
        let made = self.runtime.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(WORKERS).thread_name("summaries").enable_io().enable_time();
            builder.build().map_err(|error| error.to_string())
        });
        made.as_ref().map_err(|error| Failure::new(Kind::Connection, &format!("no threads for the network: {error}")))
    }

    /// Returns the targets of a question in the order in which they are asked; the error says why there is none.
    fn targets(&self, ask: &Ask<'_>) -> Result<Vec<Target>, Failure> {
        let main = || self.endpoints.main(ask.main, &self.prices);
        let auxiliary = || self.endpoints.auxiliary(ask.main, &self.prices);
        let chain = || self.endpoints.chain(ask.main, &self.prices).into_iter().map(Ok);
        let found: Vec<Result<Target, String>> = match ask.request.model.unwrap_or(CompletionModel::Auxiliary) {
            CompletionModel::Main => [main()].into_iter().chain(chain()).chain([auxiliary()]).collect(),
            // The prompt is only an instruction there, so no other model could answer it.
            CompletionModel::MainOnPrefix => {
                let on = CompletionModel::MainOnPrefix;
                vec![main().map(|target| Target { on, ..target })]
            }
            // The auxiliary model, and what a later contract may add.
            _ => [auxiliary()].into_iter().chain(chain()).chain([main()]).collect(),
        };
        let mut why = String::new();
        let mut targets: Vec<Target> = Vec::new();
        for target in found {
            match target {
                Ok(target) if targets.iter().any(|known| known.is_same(&target)) => {}
                Ok(target) => targets.push(target),
                Err(problem) if why.is_empty() => why = problem,
                Err(_) => {}
            }
        }
        if targets.is_empty() {
            return Err(Failure::new(Kind::NoProvider, &why));
        }
        if targets.len() > 1 {
            let aside = lock(&self.aside);
            let is_aside =
                |t: &Target| aside.iter().any(|(s, url, m)| s == ask.session && *url == t.url && *m == t.model);
            let all = targets.iter().all(is_aside);
            targets.retain(|target| all || !is_aside(target));
        }
        Ok(targets)
    }

    /// Leaves out the targets whose pause is running; the error says how long the shortest still is.
    fn awake(&self, targets: Vec<Target>, force: bool) -> Result<Vec<Target>, (Failure, Duration)> {
        if force {
            targets.iter().for_each(|target| self.cooldowns.clear(place(target)));
            return Ok(targets);
        }
        let now = cooldown::now_ms();
        let mut shortest: Option<(String, Duration)> = None;
        let mut awake = Vec::new();
        for target in targets {
            match self.cooldowns.pause(place(&target), now) {
                None => awake.push(target),
                Some(pause) => {
                    let said = format!(
                        "{} is left alone for {} s more after: {}",
                        name(&target),
                        pause.left.as_secs() + 1,
                        pause.why
                    );
                    if shortest.as_ref().is_none_or(|(_, left)| pause.left < *left) {
                        shortest = Some((said, pause.left));
                    }
                }
            }
        }
        match shortest {
            Some((said, left)) if awake.is_empty() => Err((Failure::new(Kind::NoProvider, &said), left)),
            _ => Ok(awake),
        }
    }

    /// Asks one target after another until one answers or the bounds are reached.
    async fn ask(
        &self,
        ask: &Ask<'_>,
        targets: Vec<Target>,
        handle: &Handle,
        calls: &mut Vec<Call>,
    ) -> Result<Completion, Vec<(String, Failure)>> {
        let clean = Clean::of(ask.request);
        let mut failures: Vec<(String, Failure)> = Vec::new();
        let mut left = ask.requests_max;
        let mut queue: VecDeque<Arc<Target>> = targets.into_iter().map(Arc::new).collect();
        let mut unfit: Vec<Arc<Target>> = Vec::new();
        let mut next = queue.pop_front();
        while let Some(target) = next.take() {
            if left == 0 {
                break;
            }
            let has_other = left > 1 && !queue.is_empty();
            let started = Instant::now();
            let attempt = self.attempt(ask, &clean, &target, has_other, handle).await;
            if attempt.pieces > 0 {
                left -= 1;
                calls.push(call(&target, &attempt, started.elapsed()));
            }
            let failure = match attempt.result {
                Ok(completion) => {
                    self.cooldowns.clear(place(&target));
                    self.set_aside(ask.session, &unfit);
                    return Ok(completion);
                }
                Err(failure) => failure,
            };
            let is_learned = failure.window.is_some_and(|window| self.learn(&target, window));
            // The next question to it is cut to the window it has told us.
            if !is_learned {
                self.cooldowns.failed(place(&target), &failure, cooldown::now_ms());
            }
            let kind = failure.kind;
            let wish = failure.retry_after;
            failures.push((name(&target), failure));
            if kind == Kind::Cancelled || left == 0 || Instant::now() >= ask.deadline {
                break;
            }
            if let Some(other) = queue.pop_front() {
                // What is no fault of the model says nothing about the next question.
                if kind.cooldown(1).is_some() && !is_learned {
                    unfit.push(target);
                }
                next = Some(other);
            } else if is_learned {
                next = Some(target);
            } else if kind.is_retryable() && attempt.pieces > 0 {
                let pause = wish.unwrap_or_default().max(jitter());
                if Instant::now() + pause >= ask.deadline {
                    break;
                }
                let wait = send::guarded(tokio::time::sleep(pause), ask.deadline, ask.cancelled).await;
                if let Err(kind) = wait {
                    failures.push((name(&target), Failure::new(kind, "")));
                    break;
                }
                next = Some(target);
            }
        }
        Err(failures)
    }

    async fn attempt(
        &self,
        ask: &Ask<'_>,
        clean: &Clean,
        target: &Arc<Target>,
        has_other: bool,
        handle: &Handle,
    ) -> Attempt {
        let failed = |failure| Attempt { result: Err(failure), pieces: 0 };
        let now = Instant::now();
        let remaining = ask.deadline.saturating_duration_since(now);
        let share = if has_other { remaining / FIRST_SHARE.1 * FIRST_SHARE.0 } else { remaining };
        let limit = now + share;
        let call_limit = limit.min(now + target.timeout);
        let guard = |kind| {
            Failure::new(kind, if kind == Kind::TimedOut { "no answer within the time of this call" } else { "" })
        };

        if target.on == CompletionModel::MainOnPrefix {
            let Some(prefix) = ask.prefix else {
                return failed(Failure::new(Kind::NoPrefix, "there is no live request"));
            };
            let dialect = ask.main.dialect.unwrap_or(Dialect::OpenAiChat);
            if target.api != Api::of(dialect) {
                return failed(Failure::new(
                    Kind::NoPrefix,
                    "the endpoint speaks another dialect than the live request",
                ));
            }
            let spliced = match splice::append(prefix.body, target.api, &clean.instruction()) {
                Ok(spliced) => spliced,
                Err(why) => return failed(Failure::new(Kind::NoPrefix, &why)),
            };
            let target = Arc::new(Target { model: spliced.model, ..Target::clone(target) });
            let parcel = Parcel { target, body: spliced.body, headers: prefix.headers.to_vec() };
            let sent = send::guarded(self.sender.send(parcel, call_limit), limit, ask.cancelled).await;
            let result = sent.unwrap_or_else(|kind| Err(guard(kind)));
            return Attempt { result: result.and_then(|answer| not_longer(answer, prefix.body.len())), pieces: 1 };
        }

        let window = self.window(target);
        let system_tokens = (self.count)(&clean.system);
        let fits = window == 0 || system_tokens.saturating_add((self.count)(&clean.prompt)) <= chunk::room(window);
        if fits {
            let parcel =
                Parcel { target: target.clone(), body: clean.body(target, &clean.prompt), headers: Vec::new() };
            let sent = send::guarded(self.sender.send(parcel, call_limit), limit, ask.cancelled).await;
            let result = sent.unwrap_or_else(|kind| Err(guard(kind)));
            return Attempt { result: result.and_then(|answer| not_longer(answer, clean.prompt.len())), pieces: 1 };
        }
        let Some(parts) = chunk::split(&clean.prompt, system_tokens, window, self.count) else {
            let why = format!("{} pieces of a window of {window} tokens do not hold it", chunk::PARTS_MAX);
            return failed(Failure::new(Kind::TooLarge, &why));
        };
        let mut pieces = 0;
        let work = self.in_pieces(clean, target, &parts, limit, handle, &mut pieces);
        let result = send::guarded(work, limit, ask.cancelled).await.unwrap_or_else(|kind| Err(guard(kind)));
        Attempt { result: result.and_then(|answer| not_longer(answer, clean.prompt.len())), pieces: pieces.max(1) }
    }

    /// Asks for notes on each part, then for the whole from the notes.
    async fn in_pieces(
        &self,
        clean: &Clean,
        target: &Arc<Target>,
        parts: &chunk::Parts<'_>,
        limit: Instant,
        handle: &Handle,
        pieces: &mut u32,
    ) -> Result<Completion, Failure> {
        // Dropping the set ends what is under way: the first failure, the deadline and a cancelled call all do.
        let mut set: JoinSet<(usize, Result<Completion, Failure>)> = JoinSet::new();
        let mut notes = vec![String::new(); parts.parts.len()];
        let mut usage = Usage::default();
        let mut waiting = 0..parts.parts.len();
        loop {
            while set.len() < send::CONCURRENT_MAX
                && let Some(at) = waiting.next()
            {
                let prompt = host_redact::redact(&parts.ask(at)).into_owned();
                let question = Question { system: "", prompt: &prompt, tokens_hint: 0, schema: None };
                let body = request::body(target, &question);
                let parcel = Parcel { target: target.clone(), body, headers: Vec::new() };
                let (sender, timeout) = (self.sender.clone(), target.timeout);
                let source_bytes = prompt.len();
                *pieces += 1;
                let work = async move {
                    let answer = sender.send(parcel, limit.min(Instant::now() + timeout)).await;
                    (at, answer.and_then(|answer| not_longer(answer, source_bytes)))
                };
                set.spawn_on(work, handle);
            }
            let Some(joined) = set.join_next().await else { break };
            let (at, answer) = joined.map_err(|error| Failure::new(Kind::Connection, &error.to_string()))?;
            let answer = answer?;
            add(&mut usage, &answer.usage);
            if let Some(note) = notes.get_mut(at) {
                *note = answer.text;
            }
        }
        let prompt = host_redact::redact(&parts.reduce(&notes, self.count)).into_owned();
        let parcel = Parcel { target: target.clone(), body: clean.body(target, &prompt), headers: Vec::new() };
        *pieces += 1;
        let mut whole = self.sender.send(parcel, limit.min(Instant::now() + target.timeout)).await?;
        add(&mut usage, &whole.usage);
        whole.usage = usage;
        Ok(whole)
    }

    /// Returns the window to go by: what the model itself has said, if that is smaller.
    fn window(&self, target: &Target) -> u64 {
        match lock(&self.windows).get(&window_key(target)) {
            Some(learned) if target.window == 0 || *learned < target.window => *learned,
            _ => target.window,
        }
    }

    /// Remembers a window that an error stated; tells whether it is news.
    fn learn(&self, target: &Target, window: u64) -> bool {
        let known = self.window(target);
        if known > 0 && window >= known {
            return false;
        }
        let mut windows = lock(&self.windows);
        if windows.len() >= WINDOWS_MAX {
            windows.pop_first();
        }
        windows.insert(window_key(target), window);
        true
    }

    /// Sets models aside for a session: another one answered what they could not.
    fn set_aside(&self, session: &str, targets: &[Arc<Target>]) {
        let mut aside = lock(&self.aside);
        for target in targets {
            if aside.len() >= ASIDE_MAX {
                aside.pop_front();
            }
            aside.push_back((session.to_owned(), target.url.clone(), target.model.clone()));
        }
    }
}

impl Summariser for Client {
    fn terms(&self, main: &MainModel, prompt_tokens: u64) -> Option<Terms> {
        let price = self.prices.find(&main.name)?.at(prompt_tokens);
        let output = price.output / price.input;
        output.is_finite().then_some(Terms { read: price.read, write: price.write, output })
    }
    fn route(&self, main: &MainModel, sizes: &Sizes, force: bool) -> Result<Route, String> {
        let own = self.endpoints.main(main, &self.prices);
        let awake = |target: Target| match self.awake(vec![target], force) {
            Ok(mut targets) => targets.pop().ok_or_else(String::new),
            Err((failure, _)) => Err(failure.detail),
        };
        let own = own.and_then(awake);
        let dialect = main.dialect.unwrap_or(Dialect::OpenAiChat);
        let prefix = match &own {
            Ok(target) if target.api == Api::of(dialect) => Ok(target),
            Ok(target) => Err(format!("{} speaks another dialect than the conversation", target.origin)),
            Err(why) => Err(why.clone()),
        };
        let auxiliary = self.endpoints.auxiliary(main, &self.prices).and_then(awake);
        // A question that stands by itself can also be put to the conversation's own model.
        let apart = match (&auxiliary, &own) {
            (Ok(target), _) | (Err(_), Ok(target)) => Ok(target),
            (Err(why), Err(_)) => Err(why.as_str()),
        };
        let learned = |target: &Target| Target { window: self.window(target), ..target.clone() };
        let prefix = prefix.map(learned);
        let apart = apart.map(learned);
        let options =
            Options { prefix: prefix.as_ref().map_err(String::as_str), apart: apart.as_ref().map_err(|why| *why) };
        route::choose(&options, sizes, &self.prices)
    }

    fn complete(&self, ask: &Ask<'_>) -> Answer {
        let mut calls = Vec::new();
        let refused = |failure: Failure| {
            let kind = failure.kind;
            error(ask.request, &[(String::new(), failure)]).with_hint(kind.hint())
        };
        if (ask.cancelled)() {
            return Answer { completion: Err(refused(Failure::new(Kind::Cancelled, ""))), calls };
        }
        if ask.requests_max == 0 {
            return Answer { completion: Err(refused(Failure::new(Kind::NoProvider, "no request is left"))), calls };
        }
        let targets = match self.targets(ask) {
            Ok(targets) => targets,
            Err(failure) => return Answer { completion: Err(refused(failure)), calls },
        };
        let targets = match self.awake(targets, ask.force) {
            Ok(targets) => targets,
            Err((failure, left)) => {
                let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                let error = error(ask.request, &[(String::new(), failure)]).retry_after_ms(left);
                return Answer { completion: Err(error), calls };
            }
        };
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(failure) => return Answer { completion: Err(refused(failure)), calls },
        };
        let work = self.ask(ask, targets, runtime.handle(), &mut calls);
        // A thread that already belongs to a runtime may not wait for another one.
        let result = match Handle::try_current() {
            Err(_) => Ok(runtime.block_on(work)),
            Ok(_) => std::thread::scope(|scope| scope.spawn(|| runtime.block_on(work)).join()),
        };
        let completion = match result {
            Ok(Ok(completion)) => Ok(completion),
            Ok(Err(failures)) => Err(error(ask.request, &failures)),
            Err(_) => Err(EngineError::internal("the thread that asked for a summary panicked")),
        };
        Answer { completion, calls }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Waiting for the threads would panic where the client is dropped by another runtime.
        if let Some(Ok(runtime)) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A request without secrets.
struct Clean {
    system: String,
    prompt: String,
    schema: Option<serde_json::Value>,
    tokens_hint: u64,
}

impl Clean {
    fn of(request: &CompletionRequest) -> Self {
        // A mask changes no quotes, so what was JSON stays JSON; if it does not, the answer is asked for without a form.
        let schema = request.schema.as_ref();
        let schema = schema.and_then(|schema| serde_json::from_str(&host_redact::redact(&schema.to_string())).ok());
        Clean {
            system: host_redact::redact(&request.system).into_owned(),
            prompt: host_redact::redact(&request.prompt).into_owned(),
            schema,
            tokens_hint: request.tokens_hint,
        }
    }

    fn body(&self, target: &Target, prompt: &str) -> String {
        let (system, tokens_hint) = (self.system.as_str(), self.tokens_hint);
        request::body(target, &Question { system, prompt, tokens_hint, schema: self.schema.as_ref() })
    }

    /// Returns what is appended to a live request, whose own system text must stay as it is.
    fn instruction(&self) -> String {
        if self.system.is_empty() { self.prompt.clone() } else { format!("{}\n\n{}", self.system, self.prompt) }
    }
}

/// Rejects an answer that is longer than what it stands for.
fn not_longer(answer: Completion, source_bytes: usize) -> Result<Completion, Failure> {
    let limit = source_bytes.max(LONG_ANSWER_BYTES_MIN);
    if answer.text.len() <= limit {
        return Ok(answer);
    }
    Err(Failure::new(Kind::TooLong, &format!("{} bytes for a source of {source_bytes}", answer.text.len())))
}

fn call(target: &Target, attempt: &Attempt, elapsed: Duration) -> Call {
    let usage = attempt.result.as_ref().map(|answer| answer.usage.clone()).unwrap_or_default();
    Call {
        model: target.model.clone(),
        endpoint: target.origin.clone(),
        on: target.on,
        outcome: attempt.result.as_ref().map_or_else(Failure::outcome, |_| "answered".to_owned()),
        elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        pieces: attempt.pieces,
    }
}

/// Makes the engine's error of all that failed, in order.
fn error(request: &CompletionRequest, failures: &[(String, Failure)]) -> EngineError {
    let last = failures.last().map(|(_, failure)| failure);
    let kind = match last.map(|failure| failure.kind) {
        Some(Kind::Cancelled) => ErrorKind::Cancelled,
        Some(Kind::TimedOut) => ErrorKind::TimedOut,
        _ => ErrorKind::Summariser,
    };
    let said: Vec<String> = failures
        .iter()
        .map(|(who, failure)| if who.is_empty() { failure.to_string() } else { format!("{who}: {failure}") })
        .collect();
    let message = format!("no model answered \"{}\": {}", request.task, said.join("; then "));
    EngineError::new(kind, message).with_hint(last.map_or("", |failure| failure.kind.hint()))
}

fn name(target: &Target) -> String {
    format!("{} at {}", target.model, target.origin)
}

fn place(target: &Target) -> Place<'_> {
    Place { endpoint: &target.origin, model: &target.model }
}

fn window_key(target: &Target) -> (String, String) {
    (target.url.clone(), target.model.clone())
}

fn add(sum: &mut Usage, usage: &Usage) {
    sum.prompt_tokens = sum.prompt_tokens.saturating_add(usage.prompt_tokens);
    sum.completion_tokens = sum.completion_tokens.saturating_add(usage.completion_tokens);
    sum.total_tokens = sum.total_tokens.saturating_add(usage.total_tokens);
    sum.cache_read_tokens = sum.cache_read_tokens.saturating_add(usage.cache_read_tokens);
    sum.cache_write_tokens = sum.cache_write_tokens.saturating_add(usage.cache_write_tokens);
    sum.reasoning_tokens = sum.reasoning_tokens.saturating_add(usage.reasoning_tokens);
}

/// Returns a pause that differs from caller to caller, so that those who failed together do not come back together.
fn jitter() -> Duration {
    let random = RandomState::new().hash_one(0_u8);
    let spread = u64::try_from(RETRY_PAUSE.as_millis()).unwrap_or(1).max(1);
    RETRY_PAUSE + Duration::from_millis(random % spread)
}

/// Estimates tokens, rather too many than too few: text has three to four bytes for each.
fn estimate(text: &str) -> u64 {
    (text.len() as u64).div_ceil(3)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
