//! Plans made ahead of need: the engine works on a snapshot while the conversation goes on, and when the time has come
//! its plan is applied with what was said since kept behind it. No turn then waits for a model.

use crate::compaction::{PLAN_SECONDS_MAX, Snapshot};
use crate::completions::Completions;
use crate::live::LiveSession;
use crate::services::lock;
use engine_api::{CompactionPlan, MessageId, SessionStart, StartReason, Step, Trigger};
use host_core::policy::Cause;
use host_core::summariser::Call;
use host_registry::GuardedSession;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Preparations at the same time in this process; a further session prepares with its next turn.
const PREPARING_MAX: usize = 4;
/// Preparations that run now.
static PREPARING: AtomicUsize = AtomicUsize::new(0);

/// A plan in the making, or made.
pub(crate) struct Preparation {
    /// The view that it is made for.
    base: Vec<MessageId>,
    shared: Arc<Shared>,
    cancelled: Arc<AtomicBool>,
    deadline: Instant,
}

#[derive(Default)]
struct Shared {
    done: Mutex<Option<Option<Prepared>>>,
    changed: Condvar,
}

/// A plan that was prepared.
pub(crate) struct Prepared {
    plan: CompactionPlan,
    /// What the engine wrote of its state.
    pub(crate) state: Vec<(String, Vec<u8>)>,
    /// The requests to models that it caused.
    pub(crate) calls: Vec<Call>,
}

impl Drop for Preparation {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Counts a preparation for as long as it lives.
struct Running;

impl Running {
    fn begin() -> Option<Running> {
        let before = PREPARING.fetch_add(1, Ordering::AcqRel);
        let running = Running;
        (before < PREPARING_MAX).then_some(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        PREPARING.fetch_sub(1, Ordering::AcqRel);
    }
}

impl LiveSession {
    /// Begins to prepare a compaction if one is near and none is prepared. Called after each answered request.
    pub(crate) fn prepare_if_near(&mut self) {
        let share = self.config.compression.prepare_at;
        if !self.config.compression.enabled || share <= 0.0 || self.preparation.is_some() {
            return;
        }
        let prompt_tokens = self.prompt_tokens();
        // Tokens are far below 2^52, so nothing is lost in the product.
        let from = (self.budgets.threshold_tokens as f64 * share) as u64;
        if prompt_tokens.count < from && !self.engine_wants_preparation(prompt_tokens) {
            return;
        }
        // A summary that nobody may use costs all the same.
        if !self.may_pay(prompt_tokens) {
            return;
        }
        self.prepare();
    }

    /// Begins to prepare a compaction in the background. Returns whether it was begun: not while others of this process
    /// are at their limit.
    pub fn prepare(&mut self) -> bool {
        let Some(running) = Running::begin() else { return false };
        let target_tokens = self.budgets.threshold_tokens.min(self.session.tokens().saturating_sub(1));
        let route = self.route(Cause::Request { idle_seconds: 0 }).ok();
        let completions = match &route {
            Some(_) => self.completions(route.as_ref(), Cause::Request { idle_seconds: 0 }),
            None => Completions::none(),
        };
        let seconds = PLAN_SECONDS_MAX + if route.is_some() { self.summary_seconds() } else { 0 };
        let request = self.request(Trigger::Background, target_tokens, route.as_ref());
        let cancelled = Arc::new(AtomicBool::new(false));
        // Its state is a copy: what it writes counts only if its plan is used.
        let state = Arc::new(Mutex::new(lock(&self.state).copy()));
        let services =
            self.services_with(seconds, Arc::clone(&completions), Arc::clone(&state), Arc::clone(&cancelled));
        let snapshot = Snapshot::without_secrets(&self.session);
        let base = self.session.view.iter().map(|message| message.id).collect();
        let mut start = SessionStart::default();
        start.session_id.clone_from(&self.options.session_id);
        start.reason = Some(StartReason::Fork);
        start.platform.clone_from(&self.options.platform);
        start.model = self.model.clone();
        start.settings = crate::live::settings_of(&self.config, &self.resolved.name);
        let engine = Arc::clone(&self.resolved.engine);
        let shared = Arc::new(Shared::default());
        let deadline = Duration::from_secs(seconds);
        let (answer, stopped) = (Arc::clone(&shared), Arc::clone(&cancelled));
        let work = move || {
            let _running = running;
            let mut guarded = GuardedSession::new(engine, start);
            let plan = guarded.call(services, deadline, move |session, services| {
                session.compress(services, &snapshot.table().conversation(), &request)
            });
            let prepared = plan.ok().filter(|_| !stopped.load(Ordering::Relaxed)).map(|plan| Prepared {
                plan,
                state: lock(&state).pending(),
                calls: completions.calls(),
            });
            *answer.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
            answer.changed.notify_all();
        };
        let spawned = std::thread::Builder::new().name("palimpsest-prepare".to_owned()).spawn(work).is_ok();
        if spawned {
            self.preparation = Some(Preparation { base, shared, cancelled, deadline: Instant::now() + deadline });
        }
        spawned
    }

    /// Waits until a preparation that runs has ended; for hosts that are idle, and for tests.
    pub fn wait_for_preparation(&self) {
        if let Some(preparation) = &self.preparation {
            preparation.wait();
        }
    }

    /// Returns a plan that was prepared and fits the conversation as it now is, one that runs still after its end.
    pub(crate) fn take_prepared(&mut self) -> Option<(CompactionPlan, Prepared)> {
        let preparation = self.preparation.take()?;
        let now = self.session.view.iter().map(|message| message.id);
        let fits = preparation.base.len() <= self.session.view.len()
            && preparation.base.iter().copied().eq(now.take(preparation.base.len()));
        if !fits {
            return None;
        }
        // To begin anew would take longer than what is left of it.
        preparation.wait();
        let done = preparation.shared.done.lock().unwrap_or_else(PoisonError::into_inner).take();
        let prepared = done.flatten()?;
        let mut plan = prepared.plan.clone();
        plan.base_revision = self.session.revision;
        plan.keep(preparation.base.len()..self.session.view.len());
        // A plan that leaves out the newest of its time would leave out what is older than the newest now.
        let keeps_order = plan.steps.iter().any(|step| matches!(step, Step::Keep(_)));
        keeps_order.then_some((plan, prepared))
    }
}

impl Preparation {
    fn wait(&self) {
        let mut done = self.shared.done.lock().unwrap_or_else(PoisonError::into_inner);
        while done.is_none() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            done = self.shared.changed.wait_timeout(done, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
