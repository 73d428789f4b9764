//! What all requests share.

use crate::access::AccessLog;
use crate::keeper::Keeper;
use crate::metrics::Metrics;
use crate::sessions::Sessions;
use crate::setup::Setup;
use crate::upstream::Upstream;
use crate::windows::Windows;
use host_store::Store;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Semaphore;

/// The gateway's parts.
pub(crate) struct App {
    setup: RwLock<Arc<Setup>>,
    pub(crate) store: Store,
    pub(crate) sessions: Sessions,
    pub(crate) keeper: Keeper,
    pub(crate) upstream: Upstream,
    pub(crate) windows: Windows,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: AccessLog,
    /// Requests at the same time.
    pub(crate) requests: Arc<Semaphore>,
    is_stopping: AtomicBool,
}

impl App {
    pub(crate) fn new(setup: Setup, store: Store, upstream: Upstream, access: AccessLog) -> App {
        let section = &setup.config.gateway;
        let permits = |most: u64| usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        App {
            sessions: Sessions::new(section.sessions_max, section.resident_bytes_max),
            keeper: Keeper::default(),
            windows: Windows::open(&setup.home),
            metrics: Arc::new(Metrics::new()),
            requests: Arc::new(Semaphore::new(permits(section.requests_max))),
            setup: RwLock::new(Arc::new(setup)),
            store,
            upstream,
            access,
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Returns the settings that hold now.
    pub(crate) fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.setup.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has other settings hold from now on; requests under way keep theirs.
    pub(crate) fn set_setup(&self, setup: Setup) {
        *self.setup.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(setup);
    }

    /// Tells whether the gateway is about to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Has the gateway say that it is about to end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }
}
