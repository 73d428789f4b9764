//! What an engine does wrong and what the host makes of it: the conversation goes on, legal and honest, each time.

use crate::world::{World, bytes};
use engine_api::json::{Value, json};
use engine_api::testing::FakeHost;
use engine_api::{CompressRequest, ErrorKind, HostServices, SessionStart, ViewTable};
use host_config::Config;
use host_core::Receipt;
use host_registry::{GuardedSession, Registry, STRIKES_MAX};
use host_runtime::{LiveSession, Options};
use host_wire::Document;
use std::collections::HashSet;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::fixtures::{self, Fixture, general_manifest};
use support::judge::{self, Dialect};

/// Set for a run of this program that is only there to be watched.
const WATCHED: &str = "HOST_TESTS_WATCHED";

/// Whose plan is in use at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Used {
    /// The engine's own, mended or framed by the host where that was needed.
    Engine,
    /// The built-in compressor's.
    BuiltIn,
}

/// What becomes of each engine's plan, and the words of the receipt that say why.
const CASES: &[(&str, Used, &[&str])] = &[
    (fixture_bad::PANICS_IN_NEW, Used::BuiltIn, &["could not be made", "no engine today", "bad/src/lib.rs:"]),
    (fixture_bad::PANICS_IN_OPEN, Used::BuiltIn, &["the engine panicked: no session today", "bad/src/lib.rs:"]),
    ("panics-in-compress", Used::BuiltIn, &["the engine panicked: the plan for", "bad/src/plans.rs:"]),
    (fixture_bad::PANICS_IN_TOOL, Used::Engine, &[]),
    ("errors", Used::BuiltIn, &["the engine's index is locked"]),
    ("returns-empty-plan", Used::BuiltIn, &["neither kept, summarised nor dropped"]),
    ("keeps-nothing", Used::BuiltIn, &["the instructions in message 1 would not stay"]),
    ("loses-user", Used::BuiltIn, &["the user's newest message", "would not stay"]),
    ("loses-system", Used::BuiltIn, &["the instructions in message 1 would not stay"]),
    ("drops-a-result", Used::BuiltIn, &["over the target"]),
    ("duplicates", Used::BuiltIn, &["more than once"]),
    ("out-of-range", Used::BuiltIn, &["keep step names message position"]),
    ("reversed-span", Used::BuiltIn, &["keep step names message position"]),
    ("reorders", Used::BuiltIn, &["out of order"]),
    ("no-reason", Used::BuiltIn, &["dropped without a reason"]),
    ("empty-summary", Used::BuiltIn, &["a summary has no text"]),
    ("huge-summary", Used::BuiltIn, &["a summary of", "stands for"]),
    ("rewrites-user-text", Used::BuiltIn, &["only tool results and tool calls can be rewritten"]),
    ("breaks-arguments", Used::BuiltIn, &["arguments must be a JSON object"]),
    ("stale-revision", Used::BuiltIn, &["the plan was made for revision"]),
    ("superseded-summary", Used::BuiltIn, &["which this session does not have"]),
    ("lies-smaller", Used::BuiltIn, &["before there were"]),
    ("inserts-system-order", Used::Engine, &[]),
    ("over-target", Used::BuiltIn, &["over the target"]),
    ("floods", Used::BuiltIn, &["steps, at most"]),
];

/// A conversation of one task: instructions, and turns of a question, calls with long results, and an answer.
fn body() -> String {
    let mut messages =
        vec![json!({ "role": "system", "content": "You mend programs. Never touch the release folder." })];
    for turn in 0..12 {
        messages.push(json!({ "role": "user", "content": format!("Turn {turn}: please see why test {turn} fails.") }));
        let call = |id: String, path: String| {
            let arguments = json!({ "path": path }).to_string();
            json!({ "id": id, "type": "function", "function": { "name": "read_file", "arguments": arguments } })
        };
        let (one, two) = (format!("call_{turn}_a"), format!("call_{turn}_b"));
        let calls =
            [call(one.clone(), format!("src/part{turn}.rs")), call(two.clone(), format!("tests/part{turn}.rs"))];
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
        for (id, what) in [(one, "source"), (two, "test")] {
            let text: Vec<String> =
                (0..160).map(|n| format!("{what} {turn} line {n}: let value_{n} = {};", n * turn)).collect();
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": text.join("\n") }));
        }
        messages.push(
            json!({ "role": "assistant", "content": format!("Test {turn} fails because value {turn} is off by one.") }),
        );
    }
    messages.push(json!({ "role": "user", "content": "Now mend all of them, and keep the öld names." }));
    json!({ "model": "some-model", "messages": messages, "temperature": 0 }).to_string()
}

fn world() -> World {
    let mut world = World::without_probe();
    let mut names = fixture_bad::names();
    names.push(fixture_bad::SOUND);
    world.put_general("bad", &bytes(Fixture::Bad), &general_manifest("bad", &names));
    world.setup.enabled.push("bad".to_owned());
    world
}

fn open(world: &World, registry: &Registry, engine: &str) -> LiveSession {
    let options = Options {
        session_id: "s1".to_owned(),
        engine: Some(engine.to_owned()),
        context_length: Some(32_000),
        force: true,
        estimate: true,
        ..Options::default()
    };
    LiveSession::open(Document::read(&body(), None).unwrap(), Config::default(), registry, world.home(), options)
        .unwrap()
}

/// Holds what goes out to what every host promises, whatever the engine did.
#[track_caller]
fn check_outcome(engine: &str, session: &LiveSession, receipt: &Receipt) {
    let written: Value = serde_json::from_str(&session.write().unwrap()).unwrap();
    let messages = written["messages"].as_array().unwrap();
    let raws: Vec<String> = messages.iter().map(Value::to_string).collect();
    assert_eq!(judge::errors(&raws, Dialect::OpenAi), [], "{engine}");
    let came: Value = serde_json::from_str(&body()).unwrap();
    let came = came["messages"].as_array().unwrap();
    assert!(messages.contains(&came[0]), "{engine}: the instructions are gone");
    assert_eq!(messages.last(), came.last(), "{engine}: the newest user message");
    assert_eq!(receipt.action, "compacted", "{engine}: {}", receipt.reason);
    assert!(receipt.tokens_after < receipt.tokens_before, "{engine}");
    assert!(receipt.tokens_after <= receipt.target_tokens || receipt.floor.is_some(), "{engine}: {receipt:?}");
    assert_eq!(session.session().tokens(), receipt.tokens_after, "{engine}");
    // Whatever is there under its own name is there byte for byte.
    let document = Document::read(&body(), None).unwrap();
    let originals: HashSet<&str> = document.messages.iter().map(|message| message.raw.as_str()).collect();
    let view = &session.session().view;
    assert!(view.iter().any(|message| originals.contains(message.raw.as_str())), "{engine}: nothing was kept");
    // Nothing is lost: each message that came is still in the transcript.
    let transcript: HashSet<&str> = session.session().transcript.iter().map(|message| message.raw.as_str()).collect();
    assert!(originals.is_subset(&transcript), "{engine}: the transcript lost something");
    // The model is given no order that the operator did not give.
    let orders = messages.iter().filter(|message| message["role"] == "system").count();
    assert_eq!(orders, 1, "{engine}: an engine spoke as the system");
}

#[test]
fn each_way_to_misbehave_ends_in_a_legal_conversation_and_an_honest_receipt() {
    let world = world();
    let registry = world.registry();
    for (engine, used, words) in CASES {
        let mut session = open(&world, &registry, engine);
        let receipt = session.compact();
        check_outcome(engine, &session, &receipt);
        let expected = match used {
            Used::Engine => *engine,
            Used::BuiltIn => "compressor",
        };
        assert_eq!(receipt.engine_used, expected, "{engine}: {:?}", receipt.fallbacks);
        assert_eq!(receipt.engine_wanted, *engine);
        let said = receipt.fallbacks.join("\n");
        for word in *words {
            assert!(said.contains(word), "{engine}: {word:?} is not said: {said}");
        }
        assert_eq!(words.is_empty(), receipt.fallbacks.is_empty(), "{engine}: {said}");
        // And on: a later compaction works as well, or finds nothing smaller.
        let again = session.compact();
        assert!(again.tokens_after <= receipt.tokens_after, "{engine}: {again:?}");
        session.write().unwrap();
    }
}

#[test]
fn every_engine_of_the_library_has_a_case() {
    let apart = [fixture_bad::HANGS, fixture_bad::PANICS_IN_DROP];
    let tested: HashSet<&str> = CASES.iter().map(|(name, ..)| *name).chain(apart).collect();
    assert_eq!(tested, fixture_bad::names().into_iter().collect());
}

#[test]
fn a_sound_engine_is_used_without_a_fallback() {
    let world = world();
    let mut session = open(&world, &world.registry(), fixture_bad::SOUND);
    let receipt = session.compact();
    check_outcome(fixture_bad::SOUND, &session, &receipt);
    assert_eq!((receipt.engine_used.as_str(), receipt.fallbacks), (fixture_bad::SOUND, Vec::new()));
}

#[test]
fn a_plan_that_covers_a_live_summary_and_keeps_it_is_refused() {
    let world = world();
    let mut session = open(&world, &world.registry(), "superseded-summary");
    session.compact();
    assert!(session.session().view.iter().any(|message| message.node.0 != 0), "no summary to supersede");
    let receipt = session.compact();
    let said = receipt.fallbacks.join("\n");
    assert!(said.contains("stays in the context"), "{said}");
}

#[test]
fn a_call_whose_result_is_dropped_is_answered_by_the_host() {
    let world = world();
    let mut session = open(&world, &world.registry(), "drops-a-result");
    let receipt = session.compact();
    let tokens = receipt.attempts.first().and_then(|attempt| attempt.tokens);
    assert!(tokens.is_some(), "the mended plan was not legal: {:?}", receipt.attempts);
}

#[test]
fn a_panic_in_a_tool_is_an_error_with_its_place_and_the_session_goes_on() {
    let world = world();
    let mut session = open(&world, &world.registry(), fixture_bad::PANICS_IN_TOOL);
    let error = session.call_tool("panics_in_tool_ask", &json!({})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Panicked);
    assert!(error.message.contains("index out of bounds"), "{}", error.message);
    assert!(error.message.contains("bad/src/lib.rs:"), "{}", error.message);
    let receipt = session.compact();
    check_outcome(fixture_bad::PANICS_IN_TOOL, &session, &receipt);
    assert_eq!(receipt.engine_used, fixture_bad::PANICS_IN_TOOL, "one panic does not end an engine: {receipt:?}");
    for _ in 1..STRIKES_MAX {
        let _ = session.call_tool("panics_in_tool_ask", &json!({}));
    }
    let error = session.call_tool("panics_in_tool_ask", &json!({})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{}", error.message);
    session.write().unwrap();
}

#[test]
fn a_hanging_engine_is_left_behind_at_its_deadline() {
    let world = world();
    let engine = world.loaded(fixture_bad::HANGS).engine;
    let host: Arc<dyn HostServices + Send + Sync> = Arc::new(FakeHost::default());
    let mut guarded = GuardedSession::new(engine, SessionStart::default());
    let started = Instant::now();
    let mut call = || {
        guarded.call(Arc::clone(&host), Duration::from_millis(100), |session, services| {
            let document = Document::read(&body(), None).unwrap();
            let table = ViewTable::new(1, &document.messages);
            session.compress(services, &table.conversation(), &CompressRequest::default())
        })
    };
    assert_eq!(call().unwrap_err().kind, ErrorKind::TimedOut);
    assert_eq!(call().unwrap_err().kind, ErrorKind::Unsupported);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
#[ignore = "waits for the host's own deadline of a minute"]
fn a_hanging_engine_costs_one_deadline_and_the_conversation_goes_on() {
    let world = world();
    let mut session = open(&world, &world.registry(), fixture_bad::HANGS);
    let receipt = session.compact();
    check_outcome(fixture_bad::HANGS, &session, &receipt);
    assert_eq!(receipt.engine_used, "compressor");
    assert!(receipt.fallbacks.join("\n").contains("did not answer within"), "{:?}", receipt.fallbacks);
}

/// Runs one ignored test of this program by itself and returns how it ended and what it wrote to standard error.
fn watched(test: &str) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(WATCHED, "1")
        .env(fixtures::AS_BUILT, "1")
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_panic_in_an_engine_prints_nothing() {
    let (succeeded, stderr) = watched("misbehaving::watched_panics");
    assert!(succeeded, "{stderr}");
    assert_eq!(stderr, "");
}

#[test]
#[ignore = "run by `a_panic_in_an_engine_prints_nothing`"]
fn watched_panics() {
    if std::env::var_os(WATCHED).is_none() {
        return;
    }
    let world = world();
    let registry = world.registry();
    for engine in [fixture_bad::PANICS_IN_NEW, fixture_bad::PANICS_IN_OPEN, "panics-in-compress"] {
        let mut session = open(&world, &registry, engine);
        assert_eq!(session.compact().engine_used, "compressor");
    }
    let mut session = open(&world, &registry, fixture_bad::PANICS_IN_TOOL);
    assert!(session.call_tool("panics_in_tool_ask", &json!({})).is_err());
}

#[test]
fn a_panic_at_the_end_of_a_session_does_not_end_the_host() {
    let (succeeded, stderr) = watched("misbehaving::watched_panic_in_drop");
    assert!(succeeded, "the host did not survive:\n{stderr}");
}

#[test]
#[ignore = "run by `a_panic_at_the_end_of_a_session_does_not_end_the_host`"]
fn watched_panic_in_drop() {
    if std::env::var_os(WATCHED).is_none() {
        return;
    }
    let world = world();
    let mut session = open(&world, &world.registry(), fixture_bad::PANICS_IN_DROP);
    let receipt = session.compact();
    assert_eq!(receipt.engine_used, fixture_bad::PANICS_IN_DROP);
    drop(session);
    // The session ends on its own thread; a second one of the same engine shows that the process still works.
    let engine = world.loaded(fixture_bad::PANICS_IN_DROP).engine;
    let opened = engine.open_session(&FakeHost::default(), &SessionStart::default()).unwrap();
    drop(opened);
}
