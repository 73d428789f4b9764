//! Who answers the completions that engines ask for, seen from where no network is known.

use crate::economy::Terms;
use engine_api::{Completion, CompletionModel, CompletionRequest, Dialect, EngineError};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Requests to a model that one compaction may cause in all, failed ones included. A summary that had to be made in
/// pieces, because the model's window is smaller than its source, counts once.
pub const REQUESTS_MAX: u32 = 2;

/// The conversation's own model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MainModel {
    /// Its name as the client wrote it; empty if none is known.
    pub name: String,
    /// Its provider where the settings name one.
    pub provider: String,
    /// Its context window in tokens; 0 if it is not known.
    pub context_length: u64,
    /// The dialect that its endpoint speaks.
    pub dialect: Option<Dialect>,
    /// Where its requests go, if that is known better than from the settings.
    pub place: Option<Place>,
}

/// Where a conversation's requests go.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// The whole address.
    pub url: String,
    /// The headers that let the client in. They are never shown.
    pub headers: Vec<(String, String)>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("headers", &self.headers.len()).finish_non_exhaustive()
    }
}

/// What a summary would read and write, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// The live request as it stands.
    pub prefix: u64,
    /// What the summary stands for, at most.
    pub material: u64,
    /// The longest summary that is wanted.
    pub summary: u64,
    /// The provider answered this prefix so recently that its cache still holds it.
    pub is_cache_warm: bool,
}

/// Which model a summary is best asked of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Route {
    /// Where.
    pub model: CompletionModel,
    /// The model's name.
    pub name: String,
    /// Its window in tokens; 0 if it is not known.
    pub window: u64,
    /// Why this one, in one line with numbers.
    pub reason: String,
}

/// The live request that a question is appended to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prefix<'a> {
    /// The body as the client wrote it, in the dialect of [`MainModel`]. Every call in it has its answer.
    pub body: &'a str,
    /// Headers of the client; those that change what the body means (`anthropic-beta`) are sent along, no others.
    pub headers: &'a [(String, String)],
}

/// A completion that is asked for, and its limits.
pub struct Ask<'a> {
    /// What the engine asks; secrets are taken out by the one who answers, before anything leaves.
    pub request: &'a CompletionRequest,
    /// The session's id.
    pub session: &'a str,
    /// The conversation's model.
    pub main: &'a MainModel,
    /// The live request, for [`CompletionModel::MainOnPrefix`]; the prompt then stands alone for the instruction.
    pub prefix: Option<Prefix<'a>>,
    /// Requests to a model that may be made, failed ones included.
    pub requests_max: u32,
    /// When the answer must be there.
    pub deadline: Instant,
    /// Tells whether the call should end at once.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// A person asked for it: a running cooldown does not hold.
    pub force: bool,
}

/// One request to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The model.
    pub model: String,
    /// Scheme, host and port of its endpoint.
    pub endpoint: String,
    /// Which of the models it is.
    pub on: CompletionModel,
    /// `answered`, or why not, in one line without any text of the conversation.
    pub outcome: String,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Prompt tokens, if reported.
    pub prompt_tokens: u64,
    /// Tokens of the answer, if reported.
    pub completion_tokens: u64,
    /// Requests over the network that it took: more than one where the prompt was read in pieces.
    pub pieces: u32,
}

/// What came of an [`Ask`].
#[derive(Debug)]
pub struct Answer {
    /// The completion, or why there is none.
    pub completion: Result<Completion, EngineError>,
    /// The requests that were made, in order.
    pub calls: Vec<Call>,
}

/// Answers completions. Blocks; may be called from any thread that no async runtime owns.
pub trait Summariser: Send + Sync {
    /// Chooses the cheapest model that fits; the error says in one line why none can be asked now.
    fn route(&self, main: &MainModel, sizes: &Sizes, force: bool) -> Result<Route, String>;
    /// Returns what the conversation's model costs; none if that is not known.
    fn terms(&self, main: &MainModel, prompt_tokens: u64) -> Option<Terms> {
        let _ = (main, prompt_tokens);
        None
    }
    /// Asks a model.
    fn complete(&self, ask: &Ask<'_>) -> Answer;
}

/// Never asks a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline;

impl Summariser for Offline {
    fn route(&self, _main: &MainModel, _sizes: &Sizes, _force: bool) -> Result<Route, String> {
        Err("no model is asked for summaries".to_owned())
    }
    fn complete(&self, ask: &Ask<'_>) -> Answer {
        let why = format!("no model is asked for \"{}\": summaries are made offline", ask.request.task);
        let error = EngineError::new(engine_api::ErrorKind::Summariser, why);
        Answer { completion: Err(error), calls: Vec::new() }
    }
}
