//! Summaries by a model: what is asked and what leaves, and what happens when the model fails in each way there is.

use crate::agent::{Agent, Provider as Upstream, TAILS, Turn, text};
use engine_api::CompletionModel;
use host_config::{Config, Provider as Whose, Secret};
use host_core::receipt::Receipt;
use host_llm::Client;
use std::path::Path;
use std::sync::Arc;
use support::provider::{Provider, Reply};

const KEY: &str = "key-of-the-summaries";
/// Seconds that one call may take where an answer comes: a busy machine is slow.
const CALL_SECONDS: u64 = 30;
/// What two calls, their pauses and a slow machine may take together, in milliseconds: far below a wait without an end.
const ELAPSED_MS_MAX: u64 = 120_000;

const SUMMARY: &str = "## Goal\nMend the parser.\n\n## Completed Actions\n1. Read src/part1.rs, which is off by one.\n";

fn auxiliary(config: &mut Config, url: &str) {
    let settings = &mut config.auxiliary.compression;
    settings.provider = Whose::Custom;
    settings.base_url = url.to_owned();
    settings.model = "small-model".to_owned();
    settings.api_key = Secret::new(KEY);
    settings.context_length = Some(128_000);
    settings.timeout = CALL_SECONDS;
}

/// A provider that gives one reply again and again.
fn always(reply: Reply) -> Provider {
    Provider::with(KEY, move |_| Some(reply.clone()))
}

fn status(status: u16, message: &str) -> Reply {
    Reply::Status(status, format!("{{\"error\":{{\"message\":\"{message}\"}}}}"), Vec::new())
}

fn no_env(_name: &str) -> Option<String> {
    None
}

/// Works until a compaction is due, with this provider of summaries; returns the receipt of the compaction.
fn compacted(agent: &mut Agent) -> Receipt {
    agent.user("Look at all parts, please.");
    for step in 0..120 {
        assert_eq!(agent.tool(&text(step, 1_000)), Turn::Answered, "{:#?}", agent.last());
        agent.answer(&format!("Part {step} is off by one; I decided to mend it in src/part{step}.rs."));
        if let Some(receipt) = agent.receipts.iter().find(|receipt| receipt.trigger.is_some()) {
            return receipt.clone();
        }
    }
    panic!("no compaction was due");
}

fn agent(url: &str, home: &Path, tail: host_config::TailMode, change: impl FnOnce(&mut Config)) -> Agent {
    agent_of(32_000, url, home, tail, change)
}

fn agent_of(
    window: u64,
    url: &str,
    home: &Path,
    tail: host_config::TailMode,
    change: impl FnOnce(&mut Config),
) -> Agent {
    let mut settings = Config::default();
    auxiliary(&mut settings, url);
    change(&mut settings);
    let client = Client::new(&settings, home, &no_env);
    Agent::new(Upstream { window, ..Upstream::default() }, tail, |config| {
        let tail = config.compression.tail_mode;
        *config = settings;
        config.compression.tail_mode = tail;
    })
    .asking(Arc::new(client))
}

fn home() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("host-tests").tempdir().unwrap()
}

/// Every way to fail, with the words of the receipt that name it.
fn failures() -> Vec<(&'static str, Reply)> {
    vec![
        ("401 key refused", status(401, "bad key")),
        ("402 quota used up", status(402, "pay first")),
        ("403 key refused", status(403, "not yours")),
        ("400 request refused", status(400, "unknown field")),
        ("404 request refused", status(404, "no such model")),
        ("429 rate limited", status(429, "slow down")),
        ("503 provider error", status(503, "overloaded")),
        ("400 prompt too long", Reply::Overflow(100)),
        ("timed out", Reply::Hang),
        ("timed out", Reply::Drip(String::new(), true)),
        ("no connection", Reply::CloseEarly),
        ("no connection", Reply::CloseMidway),
        ("not JSON", Reply::InvalidJson),
        ("no answer of this API", Reply::Html),
        ("empty answer", Reply::Empty),
        ("refused", Reply::Refusal),
        ("only tool calls", Reply::ToolOnly),
        ("answer cut off", Reply::Truncated("## Goal\nMend".to_owned())),
        ("longer than its source", Reply::TooLong),
    ]
}

#[test]
fn whatever_the_summariser_does_the_session_goes_on_and_the_receipt_says_why() {
    for tail in TAILS {
        for (words, reply) in failures() {
            let (provider, home) = (always(reply), home());
            // What never answers is waited for as short as the settings allow.
            let seconds = if words == "timed out" { 1 } else { CALL_SECONDS };
            let mut agent = agent(&provider.openai_url(), home.path(), tail, |config| {
                config.auxiliary.compression.timeout = seconds;
            });
            let receipt = compacted(&mut agent);
            assert_eq!(receipt.action, "compacted", "{words}: {receipt:#?}");
            assert!(
                receipt.fallbacks.iter().any(|line| line.contains(words) && line.contains("offline")),
                "{words}: {receipt:#?}"
            );
            assert!((1..=2).contains(&receipt.calls.len()), "{words}: {:#?}", receipt.calls);
            assert!(provider.seen().len() <= 2, "{words}: {} requests for one compaction", provider.seen().len());
            assert!(receipt.elapsed_ms < ELAPSED_MS_MAX, "{words}: {} ms", receipt.elapsed_ms);
            assert_eq!(agent.user("And now the next thing."), Turn::Answered, "{words}");
        }
    }
}

#[test]
fn nobody_listening_is_a_failure_like_any_other() {
    let home = home();
    let url = always(Reply::Empty).openai_url();
    let mut agent = agent(&url, home.path(), TAILS[0], |_| {});
    let receipt = compacted(&mut agent);
    assert_eq!(receipt.action, "compacted");
    assert!(receipt.fallbacks.iter().any(|line| line.contains("no connection")), "{receipt:#?}");
}

#[test]
fn a_summary_of_the_model_is_in_the_context_and_no_secret_leaves() {
    for tail in TAILS {
        let (provider, home) = (always(Reply::Counted(SUMMARY.to_owned(), 9_000, 60)), home());
        let mut agent = agent(&provider.openai_url(), home.path(), tail, |_| {});
        let key = format!("ghp_{}", "aB3dE6gH9k".repeat(4).get(..36).unwrap());
        // Behind the first messages, which the first compaction keeps.
        agent.tool(&text(98, 300));
        agent.answer(&format!("The deploy script reads GITHUB_TOKEN={key}, which I keep."));
        let receipt = compacted(&mut agent);
        assert_eq!(receipt.fallbacks, Vec::<String>::new(), "{receipt:#?}");
        assert_eq!((receipt.calls.len(), receipt.calls[0].prompt_tokens), (1, 9_000));
        assert!(receipt.summariser.contains("small-model"), "{}", receipt.summariser);
        let seen = provider.seen();
        assert_eq!(
            (seen.len(), seen[0].model(), seen[0].header("authorization")),
            (1, "small-model", Some("Bearer key-of-the-summaries"))
        );
        assert!(!seen[0].body.contains(&key), "a secret of the conversation was sent to the summariser");
        assert!(seen[0].body.contains("[redacted:github-token]"));
        let body = agent.live.write().unwrap();
        assert!(body.contains("which is off by one"), "the model's summary is in the context");
        assert!(
            agent.live.session().transcript.iter().any(|message| message.raw.contains(&key)),
            "the conversation keeps it"
        );
    }
}

#[test]
fn a_failed_summariser_is_left_alone_across_a_restart_until_a_person_asks() {
    let mut is_first = true;
    let script = move |_: &support::provider::Seen| {
        let reply =
            if std::mem::take(&mut is_first) { status(401, "bad key") } else { Reply::Answer(SUMMARY.to_owned()) };
        Some(reply)
    };
    let (provider, home) = (Provider::with(KEY, script), home());
    compacted(&mut agent(&provider.openai_url(), home.path(), TAILS[0], |_| {}));
    assert_eq!(provider.seen().len(), 1, "a refused key is not tried twice");
    let receipt = compacted(&mut agent(&provider.openai_url(), home.path(), TAILS[0], |_| {}));
    assert_eq!(provider.seen().len(), 1, "another process leaves it alone as well");
    assert!(receipt.summariser.contains("left alone"), "{}", receipt.summariser);
    let settings = {
        let mut config = Config::default();
        auxiliary(&mut config, &provider.openai_url());
        config
    };
    let client = Client::new(&settings, home.path(), &no_env);
    let mut asked = agent(&provider.openai_url(), home.path(), TAILS[0], |_| {}).forced().asking(Arc::new(client));
    asked.user("Look.");
    for step in 0..12 {
        asked.tool(&text(step, 1_000));
    }
    assert!(provider.seen().len() >= 2, "a person's wish ends the pause");
}

#[test]
fn the_conversations_own_model_answers_when_the_auxiliary_one_fails() {
    let (small, own, home) = (
        always(status(404, "no such model")),
        Provider::with("the-main-key", |_| Some(Reply::Answer(SUMMARY.to_owned()))),
        home(),
    );
    let mut settings = Config::default();
    auxiliary(&mut settings, &small.openai_url());
    let url = own.openai_url();
    let env = move |name: &str| match name {
        "OPENAI_API_KEY" => Some("the-main-key".to_owned()),
        "OPENAI_BASE_URL" => Some(url.clone()),
        _ => None,
    };
    let client = Client::new(&settings, home.path(), &env);
    // In so small a window the live request has no room for an instruction and an answer.
    let mut agent =
        Agent::new(Upstream { window: 10_000, ..Upstream::default() }, TAILS[0], |config| *config = settings)
            .asking(Arc::new(client));
    let receipt = compacted(&mut agent);
    let models: Vec<&str> = receipt.calls.iter().map(|call| call.model.as_str()).collect();
    assert_eq!(models, ["small-model", "some-model"], "{receipt:#?}");
    assert_eq!(receipt.fallbacks, Vec::<String>::new());
    assert_eq!((small.seen().len(), own.seen().len()), (1, 1));
}

#[test]
fn an_abort_leaves_the_conversation_as_it_is_but_never_a_full_window() {
    let (provider, home) = (always(status(401, "bad key")), home());
    let mut agent = agent_of(100_000, &provider.openai_url(), home.path(), TAILS[0], |config| {
        config.compression.abort_on_summary_failure = true
    });
    let receipt = compacted(&mut agent);
    assert_eq!(receipt.action, "unchanged");
    assert!(receipt.reason.contains("abort_on_summary_failure"), "{}", receipt.reason);
    for step in 200..220 {
        assert_eq!(agent.tool(&text(step, 1_000)), Turn::Answered, "{:#?}", agent.last());
    }
    assert!(agent.compactions() >= 1, "with the window nearly full a summary without a model is better than none");
}

#[test]
fn with_a_warm_cache_the_conversations_own_model_is_asked_on_the_live_request() {
    let (own, home) =
        (Provider::with("the-main-key", |_| Some(Reply::Counted(SUMMARY.to_owned(), 27_000, 60))), home());
    let url = own.openai_url();
    let env = move |name: &str| match name {
        "OPENAI_API_KEY" => Some("the-main-key".to_owned()),
        "OPENAI_BASE_URL" => Some(url.clone()),
        _ => None,
    };
    let client = Client::new(&Config::default(), home.path(), &env);
    let mut agent =
        Agent::new(Upstream { window: 32_000, ..Upstream::default() }, TAILS[0], |_| {}).asking(Arc::new(client));
    let receipt = compacted(&mut agent);
    assert_eq!((receipt.calls.len(), receipt.calls[0].on), (1, CompletionModel::MainOnPrefix), "{receipt:#?}");
    assert!(
        receipt.summariser.contains("on its live prefix") && receipt.summariser.contains("cache warm"),
        "{}",
        receipt.summariser
    );
    assert_eq!(receipt.fallbacks, Vec::<String>::new(), "{receipt:#?}");
    let seen = own.seen();
    let sent = seen[0].json["messages"].as_array().unwrap();
    assert_eq!(sent.len(), receipt.messages_before + 1, "the instruction is one message behind the conversation");
    let said = agent.live.session().transcript.iter().take(receipt.messages_before);
    for message in said {
        assert!(seen[0].body.contains(&message.raw), "the live request keeps its bytes: {}", message.raw);
    }
    assert!(agent.live.write().unwrap().contains("which is off by one"));
}

#[test]
fn a_secret_beside_a_cut_does_not_leave_either() {
    for tail in TAILS {
        let (provider, home) = (always(Reply::Answer(SUMMARY.to_owned())), home());
        let password = "Pw9xK3vQ7zLm2";
        provider.forbid(password);
        let mut agent = agent(&provider.openai_url(), home.path(), tail, |_| {});
        agent.tool(&text(98, 300));
        let lines: Vec<String> = (0..300).map(|host| format!("postgres://u:{password}@h{host}")).collect();
        agent.tool(&lines.join("\n"));
        compacted(&mut agent);
        assert_eq!(provider.seen().len(), 1);
    }
}
