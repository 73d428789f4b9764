//! An agent's loop over one session, and the provider at its other end.

use engine_api::Usage;
use engine_api::json::{Value, json};
use host_config::{Config, TailMode};
use host_core::pressure::OVERFLOWS_MAX;
use host_core::receipt::Receipt;
use host_core::summariser::Summariser;
use host_registry::{Registry, Resolved, Setup};
use host_runtime::{LiveSession, Options};
use host_wire::Document;
use std::collections::HashSet;
use std::sync::Arc;
use support::judge::{self, Dialect};
use tempfile::TempDir;

/// What the provider says of the tokens it measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reports {
    Truth,
    Nothing,
    /// The same figure whatever the request.
    Always(u64),
    /// The truth times this.
    Times(f64),
    /// Only what its cache did not have: the newest of four parts.
    WithoutCached,
    /// The truth, nothing and a thousandfold in turns.
    Mad,
}

/// The provider: it counts in its own way, and refuses what does not fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Provider {
    pub(crate) window: u64,
    /// Its tokens for one of ours.
    pub(crate) factor: f64,
    /// Tokens that it adds to every request.
    pub(crate) overhead: u64,
    pub(crate) reports: Reports,
    /// Whether a refusal states the window.
    pub(crate) states_window: bool,
}

impl Default for Provider {
    fn default() -> Self {
        Provider { window: 32_000, factor: 1.0, overhead: 0, reports: Reports::Truth, states_window: false }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Answered,
    /// Not even the smallest legal context was taken; the reason is in the last receipt.
    Refused,
}

/// A session in use.
pub(crate) struct Agent {
    _home: TempDir,
    pub(crate) live: LiveSession,
    pub(crate) provider: Provider,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) refusals: u32,
    pub(crate) requests: u64,
    said: Vec<String>,
    newest_request: String,
    calls: u32,
}

pub(crate) const TAILS: [TailMode; 2] = [TailMode::Lean, TailMode::Legacy];

impl Agent {
    pub(crate) fn new(provider: Provider, tail: TailMode, change: impl FnOnce(&mut Config)) -> Agent {
        Agent::with_engine(provider, tail, change, None)
    }

    /// Starts a session of this engine, or of the built-in one.
    pub(crate) fn with_engine(
        provider: Provider,
        tail: TailMode,
        change: impl FnOnce(&mut Config),
        engine: Option<Resolved>,
    ) -> Agent {
        let home = tempfile::Builder::new().prefix("host-tests").tempdir().unwrap();
        let mut config = Config::default();
        config.compression.tail_mode = tail;
        change(&mut config);
        // What is asked of models is asked where the tests look: in the turn.
        config.compression.prepare_at = 0.0;
        let setup = Setup { home: home.path().to_owned(), ..Setup::default() };
        let system = json!({ "role": "system", "content": "You mend programs. Never touch the release folder." });
        let first = json!({ "role": "user", "content": "Please mend the parser, and keep the old names." });
        let said = vec![system.to_string(), first.to_string()];
        let body = format!("{{\"model\":\"some-model\",\"messages\":[{}]}}", said.join(","));
        let options = Options {
            session_id: "s".to_owned(),
            context_length: Some(provider.window),
            estimate: true,
            ..Options::default()
        };
        let document = Document::read(&body, None).unwrap();
        let live = match engine {
            Some(engine) => LiveSession::open_with(document, config, engine, home.path(), options).unwrap(),
            None => LiveSession::open(document, config, &Registry::open(setup), home.path(), options).unwrap(),
        };
        let newest_request = said[1].clone();
        Agent {
            _home: home,
            live,
            provider,
            receipts: Vec::new(),
            refusals: 0,
            requests: 0,
            said,
            newest_request,
            calls: 0,
        }
    }

    /// Has summaries written by this summariser.
    pub(crate) fn asking(self, summariser: Arc<dyn Summariser>) -> Agent {
        Agent { live: self.live.with_summariser(summariser), ..self }
    }

    /// Has every compaction be one that a person asks for.
    pub(crate) fn forced(mut self) -> Agent {
        self.live.set_forced(true);
        self
    }

    /// Says something to the session without a request.
    pub(crate) fn say(&mut self, message: &Value) {
        let raw = message.to_string();
        self.live.append(&raw).unwrap();
        if message["role"] == "user" {
            self.newest_request.clone_from(&raw);
        }
        self.said.push(raw);
    }

    pub(crate) fn user(&mut self, text: &str) -> Turn {
        self.say(&json!({ "role": "user", "content": text }));
        self.request()
    }

    /// The model calls a tool, and its result goes back.
    pub(crate) fn tool(&mut self, result: &str) -> Turn {
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        let arguments = json!({ "path": format!("src/part{}.rs", self.calls) }).to_string();
        let call = json!({ "id": id, "type": "function", "function": { "name": "read_file", "arguments": arguments } });
        self.say(&json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        self.say(&json!({ "role": "tool", "tool_call_id": id, "content": result }));
        self.request()
    }

    pub(crate) fn answer(&mut self, text: &str) {
        self.say(&json!({ "role": "assistant", "content": text }));
    }

    /// Sends the request, with all that comes before and after.
    pub(crate) fn request(&mut self) -> Turn {
        let receipt = self.live.compact();
        self.note(receipt);
        for _ in 0..=OVERFLOWS_MAX {
            self.requests += 1;
            let real = self.measure();
            self.check_body();
            if real <= self.provider.window {
                let usage = self.usage(real);
                self.live.record(&usage);
                return Turn::Answered;
            }
            self.refusals += 1;
            let stated = self.provider.states_window.then_some(self.provider.window);
            let receipt = self.live.overflowed(stated);
            let ended = receipt.action == "unchanged" && receipt.trigger.is_none();
            self.note(receipt);
            if ended {
                return Turn::Refused;
            }
        }
        panic!("a refused request was tried again more than {OVERFLOWS_MAX} times");
    }

    fn measure(&self) -> u64 {
        let counted = self.live.session().tokens();
        (counted as f64 * self.provider.factor) as u64 + self.provider.overhead
    }

    fn usage(&self, real: u64) -> Usage {
        let mut usage = Usage::default();
        usage.prompt_tokens = match self.provider.reports {
            Reports::Truth => real,
            Reports::Nothing => 0,
            Reports::Always(figure) => figure,
            Reports::Times(factor) => (real as f64 * factor) as u64,
            Reports::WithoutCached => real / 4,
            Reports::Mad => match self.requests % 3 {
                0 => real,
                1 => 0,
                _ => real.saturating_mul(1_000),
            },
        };
        usage
    }

    /// Every receipt has a reason, and nothing gets larger.
    #[track_caller]
    fn note(&mut self, receipt: Receipt) {
        assert!(!receipt.reason.is_empty());
        assert!(receipt.tokens_after <= receipt.tokens_before, "{} to {}", receipt.tokens_before, receipt.tokens_after);
        if receipt.action == "compacted" {
            assert!(receipt.tokens_after < receipt.tokens_before, "a compaction took nothing away");
            let under = receipt.tokens_after <= receipt.target_tokens;
            assert!(under || receipt.floor.is_some(), "over the target without a stated floor");
        }
        assert!(receipt.calls.len() <= 2, "{} requests to models in one compaction", receipt.calls.len());
        self.receipts.push(receipt);
    }

    /// What is sent is legal and has the newest request word for word; what was said is all there.
    #[track_caller]
    fn check_body(&self) {
        let body = self.live.write().unwrap();
        let document = Document::read(&body, None).unwrap();
        let raws: Vec<&str> = document.messages.iter().map(|message| message.raw.as_str()).collect();
        let errors = judge::errors(&raws, Dialect::OpenAi);
        assert!(errors.is_empty(), "{errors:?}");
        assert!(raws.contains(&self.newest_request.as_str()), "the newest request is not word for word in the context");
        let kept: HashSet<&str> = self.live.session().transcript.iter().map(|message| message.raw.as_str()).collect();
        assert!(self.said.iter().all(|raw| kept.contains(raw.as_str())), "something that was said is lost");
    }

    pub(crate) fn compactions(&self) -> usize {
        self.receipts.iter().filter(|receipt| receipt.action == "compacted").count()
    }

    pub(crate) fn last(&self) -> &Receipt {
        self.receipts.last().unwrap()
    }
}

/// A text of about so many tokens, different for each number.
pub(crate) fn text(number: usize, tokens: usize) -> String {
    let mut out = String::new();
    let mut line = 0;
    // A line has about twenty tokens.
    while line * 20 < tokens {
        out.push_str(&format!(
            "step {number} line {line}: let value_{line} = compute({}, {});\n",
            line * 7,
            number + line
        ));
        line += 1;
    }
    out
}
