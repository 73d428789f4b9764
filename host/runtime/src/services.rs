//! What the host lends an engine during a call.

use crate::completions::Completions;
use crate::live::CALL_SECONDS_MAX;
use crate::recall::Book;
use engine_api::json::{Value, json};
use engine_api::{
    Completion, CompletionRequest, EngineError, ErrorKind, HostServices, LogLevel, RecallReply, RecallRequest,
};
use host_tokens::Counter;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Keys of an engine's state in one session at most.
const STATE_KEYS_MAX: usize = 1_024;
/// Bytes of an engine's state in one session at most.
const STATE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Log lines kept of one call; further ones are counted.
const LOG_LINES_MAX: usize = 200;
/// Requests to models at the same time for one call; the paper on LCM has as many workers in its maps.
const AT_ONCE_MAX: usize = 16;

/// An engine's state in a session: written beside the old one and taken over only with the plan.
#[derive(Default)]
pub(crate) struct State {
    kept: BTreeMap<String, Vec<u8>>,
    pending: BTreeMap<String, Vec<u8>>,
}

impl State {
    /// Takes over what the call wrote.
    pub(crate) fn commit(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.kept.extend(pending);
    }
    /// Begins with what this one keeps, for a call whose writes may never count.
    pub(crate) fn copy(&self) -> State {
        State { kept: self.kept.clone(), pending: BTreeMap::new() }
    }
    /// Takes over what another call wrote, to be committed with a plan.
    pub(crate) fn take_over(&mut self, written: Vec<(String, Vec<u8>)>) {
        self.pending.extend(written);
    }
    /// Returns what the call wrote.
    pub(crate) fn pending(&self) -> Vec<(String, Vec<u8>)> {
        self.pending.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
    /// Begins with what was stored.
    pub(crate) fn of(kept: Vec<(String, Vec<u8>)>) -> State {
        State { kept: kept.into_iter().collect(), pending: BTreeMap::new() }
    }
    /// Forgets what the call wrote.
    pub(crate) fn roll_back(&mut self) {
        self.pending.clear();
    }
}

/// The services of one call.
pub(crate) struct CallServices {
    pub(crate) counter: Arc<Counter>,
    pub(crate) book: Book,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) settings: Value,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    pub(crate) started: Instant,
    pub(crate) deadline: Duration,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) completions: Arc<Completions>,
}

impl CallServices {
    /// Makes the services of a call that needs no state, no settings and no model.
    pub(crate) fn plain(counter: Arc<Counter>, book: Book) -> Arc<CallServices> {
        Arc::new(CallServices {
            counter,
            book,
            state: Arc::default(),
            settings: Value::Null,
            data_dir: None,
            log: Arc::default(),
            started: Instant::now(),
            deadline: Duration::from_secs(CALL_SECONDS_MAX),
            cancelled: Arc::default(),
            completions: Completions::none(),
        })
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostServices for CallServices {
    fn complete(&self, request: &CompletionRequest) -> Result<Completion, EngineError> {
        self.completions.complete(request, &|| self.cancelled())
    }
    fn complete_many(&self, requests: &[CompletionRequest]) -> Vec<Result<Completion, EngineError>> {
        if requests.len() < 2 {
            return requests.iter().map(|request| self.complete(request)).collect();
        }
        let next = AtomicUsize::new(0);
        let answers: Vec<Mutex<Option<Result<Completion, EngineError>>>> =
            requests.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..requests.len().min(AT_ONCE_MAX) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let (Some(request), Some(slot)) = (requests.get(at), answers.get(at)) else { break };
                        *lock(slot) = Some(self.complete(request));
                    }
                });
            }
        });
        let missing = || Err(EngineError::internal("the request was not made"));
        answers.iter().map(|slot| lock(slot).take().unwrap_or_else(missing)).collect()
    }
    fn count_tokens(&self, text: &str) -> u64 {
        u64::from(self.counter.count(text))
    }
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        self.book.ask(request)
    }
    fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let state = lock(&self.state);
        Ok(state.pending.get(key).or_else(|| state.kept.get(key)).cloned())
    }
    fn state_put(&self, key: &str, value: &[u8]) -> Result<(), EngineError> {
        let mut state = lock(&self.state);
        let keys = state.kept.keys().chain(state.pending.keys()).filter(|other| *other != key).count() + 1;
        let bytes: usize = state.kept.values().chain(state.pending.values()).map(Vec::len).sum();
        if keys > STATE_KEYS_MAX || bytes.saturating_add(value.len()) > STATE_BYTES_MAX {
            let why =
                format!("an engine's state is at most {STATE_KEYS_MAX} keys and {STATE_BYTES_MAX} bytes a session");
            return Err(EngineError::new(ErrorKind::Storage, why));
        }
        state.pending.insert(key.to_owned(), value.to_vec());
        Ok(())
    }
    fn data_dir(&self) -> Result<String, EngineError> {
        let Some(dir) = &self.data_dir else { return Err(EngineError::unsupported("a data folder")) };
        std::fs::create_dir_all(dir).map_err(|error| {
            EngineError::new(ErrorKind::Storage, format!("could not make the data folder {}: {error}", dir.display()))
        })?;
        Ok(dir.display().to_string())
    }
    fn settings(&self) -> Value {
        self.settings.clone()
    }
    fn redact(&self, text: &str) -> String {
        host_redact::redact(text).into_owned()
    }
    fn log(&self, level: LogLevel, message: &str, _fields: &Value) {
        let mut log = lock(&self.log);
        if log.len() < LOG_LINES_MAX {
            log.push(format!("{level}: {message}"));
        }
    }
    fn now_unix_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
    fn remaining_ms(&self) -> u64 {
        let left = self.deadline.saturating_sub(self.started.elapsed());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }
    fn host_info(&self) -> Value {
        json!({ "name": "palimpsest", "version": env!("CARGO_PKG_VERSION"), "engine_api": engine_api::API_VERSION })
    }
}
