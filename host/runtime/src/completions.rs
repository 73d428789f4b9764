//! What one compaction, or one call of a tool, may ask of models, and what it has asked.

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
    /// Requests in all.
    requests_max: u32,
    used: Mutex<Used>,
}

/// Requests that one call of a tool may cause: a map over a thousand rows, each tried again once.
pub(crate) const TOOL_REQUESTS_MAX: u32 = 2_000;

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
            requests_max: 0,
            used: Mutex::default(),
        })
    }

    /// Allows a tool's call [`TOOL_REQUESTS_MAX`] requests until the deadline.
    pub(crate) fn of_tool(
        summariser: Arc<dyn Summariser>,
        main: MainModel,
        session: String,
        deadline: Instant,
    ) -> Arc<Completions> {
        let (prefix, force, requests_max) = (None, true, TOOL_REQUESTS_MAX);
        Arc::new(Completions {
            summariser,
            main,
            session,
            prefix,
            deadline,
            force,
            requests_max,
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
        let requests_max = REQUESTS_MAX;
        Arc::new(Completions {
            summariser,
            main,
            session,
            prefix,
            deadline,
            force,
            requests_max,
            used: Mutex::default(),
        })
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
            let reserved = self.requests_max.saturating_sub(used.requests).min(REQUESTS_MAX);
            used.requests += reserved;
            reserved
        };
        if requests_max == 0 {
            let why = match self.requests_max {
                0 => "no model may be asked in this call".to_owned(),
                most => format!("this call has used or reserved its {most} requests to models"),
            };
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
