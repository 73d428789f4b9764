//! What one compaction may ask of models, and what it has asked.

use crate::services::lock;
use engine_api::{Completion, CompletionRequest, EngineError, ErrorKind};
use host_core::summariser::{Ask, Call, MainModel, Offline, Prefix, REQUESTS_MAX, Summariser};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The completions of one compaction: a model to ask, and a budget that every rung of the ladder shares.
pub(crate) struct Completions {
    summariser: Arc<dyn Summariser>,
    main: MainModel,
    session: String,
    prefix: Option<String>,
    deadline: Instant,
    force: bool,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    requests: u32,
    calls: Vec<Call>,
}

impl Completions {
    /// Allows none.
    pub(crate) fn none() -> Arc<Completions> {
        Arc::new(Completions {
            summariser: Arc::new(Offline),
            main: MainModel::default(),
            session: String::new(),
            prefix: None,
            deadline: Instant::now(),
            force: false,
            used: Mutex::default(),
        })
    }

    /// Allows [`REQUESTS_MAX`] requests until the deadline.
    pub(crate) fn new(
        summariser: Arc<dyn Summariser>,
        main: MainModel,
        session: String,
        prefix: Option<String>,
        deadline: Instant,
        force: bool,
    ) -> Arc<Completions> {
        Arc::new(Completions { summariser, main, session, prefix, deadline, force, used: Mutex::default() })
    }

    /// Asks a model, within what is left of the budget.
    pub(crate) fn complete(
        &self,
        request: &CompletionRequest,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Completion, EngineError> {
        // The budget is taken before the model is asked, so that an engine that asks from several threads cannot pass it.
        let requests_max = {
            let mut used = lock(&self.used);
            let left = REQUESTS_MAX.saturating_sub(used.requests);
            used.requests = REQUESTS_MAX;
            left
        };
        if requests_max == 0 {
            let why = format!("this compaction has used or reserved its {REQUESTS_MAX} requests to models");
            return Err(EngineError::new(ErrorKind::Summariser, why));
        }
        let answer = self.summariser.complete(&Ask {
            request,
            session: &self.session,
            main: &self.main,
            prefix: self.prefix.as_deref().map(|body| Prefix { body, headers: &[] }),
            requests_max,
            deadline: self.deadline,
            cancelled,
            force: self.force,
        });
        let mut used = lock(&self.used);
        let spent = u32::try_from(answer.calls.len()).unwrap_or(u32::MAX).min(requests_max);
        used.requests = used.requests.saturating_sub(requests_max.saturating_sub(spent));
        used.calls.extend(answer.calls);
        answer.completion
    }

    /// Returns the requests that were made.
    pub(crate) fn calls(&self) -> Vec<Call> {
        lock(&self.used).calls.clone()
    }
}
