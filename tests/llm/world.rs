//! A home, settings and questions for the tests of the client.

use engine_api::{CompletionModel, CompletionRequest, Dialect};
use host_config::{Config, Secret};
use host_core::summariser::{Answer, Ask, MainModel, Prefix, Summariser};
use host_llm::Client;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use support::provider::Provider;
use tempfile::TempDir;

/// The key of the auxiliary endpoint; of a form that no redaction knows.
pub(crate) const KEY: &str = "key-of-the-auxiliary";
/// The key of the conversation's own endpoint.
pub(crate) const MAIN_KEY: &str = "key-of-the-main";
/// Longest time that a test waits for what should come at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A client's surroundings.
pub(crate) struct World {
    pub(crate) home: TempDir,
    pub(crate) config: Config,
    /// The conversation's own endpoint, if it has one.
    pub(crate) main_url: Option<String>,
    pub(crate) main: MainModel,
}

impl World {
    /// Summaries from a model named `aux` at this provider, and no other endpoint.
    pub(crate) fn new(auxiliary: &Provider) -> World {
        let mut config = Config::default();
        config.auxiliary.compression.base_url = auxiliary.openai_url();
        config.auxiliary.compression.model = "aux".to_owned();
        config.auxiliary.compression.api_key = Secret::new("${AUX_KEY}");
        World { home: tempfile::tempdir().unwrap(), config, main_url: None, main: MainModel::default() }
    }

    /// The conversation's own model `main` at this provider.
    pub(crate) fn with_main(mut self, main: &Provider, dialect: Dialect) -> World {
        self.main = MainModel { name: "main".to_owned(), dialect: Some(dialect), ..MainModel::default() };
        self.main_url = Some(main.origin());
        self
    }

    pub(crate) fn with_chain(mut self, steps: Value) -> World {
        self.config.auxiliary.compression.fallback_chain = steps.as_array().unwrap().clone();
        self
    }

    /// Makes a client, as a new process would.
    pub(crate) fn client(&self) -> Client {
        self.client_at(self.home.path())
    }

    pub(crate) fn client_at(&self, home: &Path) -> Client {
        let main = self.main_url.clone();
        let env = move |name: &str| match (name, &main) {
            ("AUX_KEY", _) => Some(KEY.to_owned()),
            ("OPENAI_BASE_URL", Some(url)) => Some(format!("{url}/v1")),
            ("ANTHROPIC_BASE_URL", Some(url)) => Some(url.clone()),
            ("OPENAI_API_KEY" | "ANTHROPIC_API_KEY", Some(_)) => Some(MAIN_KEY.to_owned()),
            _ => None,
        };
        Client::new(&self.config, home, &env)
    }

    pub(crate) fn ask(&self, client: &Client, request: &CompletionRequest) -> Answer {
        self.ask_with(client, request, |_| {})
    }

    pub(crate) fn ask_with(
        &self,
        client: &Client,
        request: &CompletionRequest,
        change: impl Fn(&mut Ask<'_>),
    ) -> Answer {
        let never = || false;
        let mut ask = Ask {
            request,
            session: "s1",
            main: &self.main,
            prefix: None,
            requests_max: host_core::summariser::REQUESTS_MAX,
            deadline: Instant::now() + PATIENCE,
            cancelled: &never,
            force: false,
        };
        change(&mut ask);
        client.complete(&ask)
    }

    pub(crate) fn ask_on(
        &self,
        client: &Client,
        request: &CompletionRequest,
        body: &str,
        headers: &[(String, String)],
    ) -> Answer {
        let never = || false;
        client.complete(&Ask {
            request,
            session: "s1",
            main: &self.main,
            prefix: Some(Prefix { body, headers }),
            requests_max: 2,
            deadline: Instant::now() + PATIENCE,
            cancelled: &never,
            force: false,
        })
    }
}

/// A question to the auxiliary model.
pub(crate) fn question(prompt: &str) -> CompletionRequest {
    CompletionRequest::new("summary", prompt)
}

/// A question to another model.
pub(crate) fn question_to(model: CompletionModel, prompt: &str) -> CompletionRequest {
    let mut request = question(prompt);
    request.model = Some(model);
    request
}

/// Returns the outcomes of the calls in order.
pub(crate) fn outcomes(answer: &Answer) -> Vec<String> {
    answer.calls.iter().map(|call| format!("{}: {}", call.model, call.outcome)).collect()
}

pub(crate) fn error_body(message: &str) -> String {
    json!({"error": {"message": message}}).to_string()
}
