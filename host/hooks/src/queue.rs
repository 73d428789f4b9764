//! The queue of events and the thread that delivers them.

use crate::command;
use crate::entry::{Hook, Whom};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Events that wait at most; further ones are counted and left out, so that nobody waits for a slow hook.
pub const QUEUE_MAX: usize = 64;
/// Warnings that are kept; further failures are counted.
const WARNINGS_MAX: usize = 64;
/// How long a hook that is told to end may take over it.
const END_TIME: Duration = Duration::from_secs(1);

/// What happened so far.
#[derive(Debug, Default)]
struct Tally {
    delivered: AtomicU64,
    failed: AtomicU64,
    overflowed: AtomicU64,
    is_over: AtomicBool,
    warnings: Mutex<Vec<String>>,
}

impl Tally {
    fn warn(&self, line: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < WARNINGS_MAX {
            warnings.push(line);
        }
    }
}

/// What became of all events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drained {
    /// Deliveries that worked.
    pub delivered: u64,
    /// Deliveries that did not.
    pub failed: u64,
    /// Events that found the queue full.
    pub overflowed: u64,
    /// Whether all was delivered in time.
    pub is_complete: bool,
    /// What went wrong, a line each.
    pub warnings: Vec<String>,
}

/// Hooks that listen.
#[derive(Debug)]
pub struct Hooks {
    queue: SyncSender<String>,
    tally: Arc<Tally>,
    done: Receiver<()>,
}

impl Hooks {
    /// Starts to listen. None if there is nobody to tell.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    pub fn start(hooks: Vec<Hook>) -> std::io::Result<Option<Hooks>> {
        if hooks.is_empty() {
            return Ok(None);
        }
        let (queue, events) = mpsc::sync_channel(QUEUE_MAX);
        let (ended, done) = mpsc::channel();
        let tally = Arc::new(Tally::default());
        let shared = Arc::clone(&tally);
        thread::Builder::new().name("hooks".to_owned()).spawn(move || {
            deliver(&hooks, &events, &shared);
            // Whoever no longer waits does not want to know.
            let _ = ended.send(());
        })?;
        Ok(Some(Hooks { queue, tally, done }))
    }

    /// Returns what is called with each event. It never waits.
    pub fn subscriber<E: Serialize>(&self) -> Arc<dyn Fn(&E) + Send + Sync> {
        let (queue, tally) = (self.queue.clone(), Arc::clone(&self.tally));
        Arc::new(move |event| match serde_json::to_string(event) {
            Ok(json) => offer(&queue, &tally, json),
            Err(error) => tally.warn(format!("an event could not be written: {error}")),
        })
    }

    /// Waits until all events are delivered, no longer than this; what is under way then is ended. Every subscriber must
    /// be gone by then: one that is still held could bring another event, so it is waited for in vain.
    pub fn drain(self, within: Duration) -> Drained {
        let Hooks { queue, tally, done } = self;
        drop(queue);
        let is_complete = done.recv_timeout(within) != Err(RecvTimeoutError::Timeout);
        if !is_complete {
            tally.is_over.store(true, Ordering::Relaxed);
            let _ = done.recv_timeout(END_TIME);
            tally.warn(format!("not all hooks were told within {} s", within.as_secs_f64()));
        }
        let overflowed = tally.overflowed.load(Ordering::Relaxed);
        if overflowed > 0 {
            tally.warn(format!("{overflowed} events were not told: {QUEUE_MAX} were waiting already"));
        }
        let warnings = tally.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Drained {
            delivered: tally.delivered.load(Ordering::Relaxed),
            failed: tally.failed.load(Ordering::Relaxed),
            overflowed,
            is_complete,
            warnings,
        }
    }
}

fn offer(queue: &SyncSender<String>, tally: &Tally, json: String) {
    match queue.try_send(json) {
        Ok(()) => {}
        Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
            tally.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn deliver(hooks: &[Hook], events: &Receiver<String>, tally: &Tally) {
    let is_over = || tally.is_over.load(Ordering::Relaxed);
    for event in events {
        for hook in hooks {
            if is_over() {
                return;
            }
            let told = match &hook.whom {
                Whom::Command { program, arguments } => {
                    command::run(program, arguments, &event, hook.timeout, &is_over)
                }
                Whom::Url(address) => address.post(&event, hook.timeout),
            };
            match told {
                Ok(()) => tally.delivered.fetch_add(1, Ordering::Relaxed),
                Err(why) => {
                    tally.warn(format!("{} {why}", hook.name()));
                    tally.failed.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
    }
}
