//! Stores what has left already: the requests that no decision waited for, gathered over a moment.
//!
//! A turn of an agent takes seconds, a durable write some milliseconds; gathered, many writes become one. What is lost when
//! the power goes is what came within the last moment, which the client still has and sends again.

use crate::app::App;
use crate::sessions::Slot;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How long requests are gathered.
const GATHER: Duration = Duration::from_millis(200);
/// Conversations that are stored at the same time; each may hold a long history in memory.
const AT_ONCE_MAX: usize = 2;

/// The conversations that have something to store.
#[derive(Default)]
pub(crate) struct Keeper {
    waiting: Mutex<Vec<Arc<Slot>>>,
}

impl Keeper {
    /// Has a conversation's requests stored soon.
    pub(crate) fn note(&self, slot: &Arc<Slot>) {
        if slot.begins_waiting() {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(slot));
        }
    }

    fn take(&self) -> Vec<Arc<Slot>> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Stores what is gathered, for as long as the gateway runs.
pub(crate) async fn run(app: Arc<App>) {
    let mut ticks = tokio::time::interval(GATHER);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        flush(&app).await;
    }
}

/// Stores all that is gathered now.
pub(crate) async fn flush(app: &Arc<App>) {
    let places = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let mut work = JoinSet::new();
    for slot in app.keeper.take() {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let app = Arc::clone(app);
        work.spawn(async move {
            let mut guard = Arc::clone(&slot.conversation).lock_owned().await;
            let waiting = slot.take_waiting();
            let kept = tokio::task::spawn_blocking(move || {
                let mut kept = Ok(());
                for turn in &waiting.turns {
                    kept = kept.and(guard.keep(&app.store, turn));
                }
                if kept.and(guard.keep_usages(&app.store, &waiting.usages)).is_err() {
                    app.metrics.store_errors.inc();
                }
                slot.is_light_as(guard.is_light());
            });
            let _ = kept.await;
            drop(place);
        });
    }
    while work.join_next().await.is_some() {}
}
