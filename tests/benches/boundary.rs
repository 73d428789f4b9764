//! Measures what the plugin boundary costs on a conversation of 500,000 tokens, beside passing JSON lists.
//!
//! Prints one JSON row a line. Each figure is the smallest of many runs: neighbours on the machine only ever add time.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use engine_api::testing::FakeHost;
use engine_api::{
    CompressRequest, ContextEngine, EngineSession, Message, MessageId, Part, PartKind, Role, SessionStart, ViewTable,
    json::{self, Value, json},
};
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::fixtures::Fixture;

const MESSAGES: usize = 2_000;
/// Four bytes a token: 2 MB are about 500,000 tokens. Three quarters stand in tool results.
const RESULT_BYTES: usize = 3_000;
const OTHER_BYTES: usize = 420;
const RUNS: usize = 400;

fn conversation() -> Vec<Message> {
    (0..MESSAGES as u64)
        .map(|at| {
            let (role, part) = match at % 4 {
                0 => (Role::User, Part::new(PartKind::Text, "u".repeat(OTHER_BYTES))),
                1 => (Role::Assistant, Part::call(format!("c{at}"), "read_file", "{\"path\":\"src/main.rs\"}")),
                2 => (Role::Tool, Part::result(format!("c{}", at - 1), "line of a file\n".repeat(RESULT_BYTES / 15))),
                _ => (Role::Assistant, Part::new(PartKind::Text, "a".repeat(OTHER_BYTES))),
            };
            let raw = json!({ "role": role, "content": part.text, "tool_call_id": part.call_id }).to_string();
            let mut message = Message::new(role, raw, vec![part]);
            message.id = MessageId(at + 1);
            message.tokens = (message.raw.len() / 4) as u32;
            if role == Role::User {
                message.flags = engine_api::Flags::REAL_USER;
            }
            message
        })
        .collect()
}

fn smallest(mut work: impl FnMut()) -> Duration {
    (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .min()
        .unwrap_or_default()
}

/// The same job by JSON lists: the host writes all messages, the engine reads them, answers with a list, the host reads.
fn by_json(messages: &[Message]) -> usize {
    let list = format!("[{}]", messages.iter().map(|message| message.raw.as_str()).collect::<Vec<_>>().join(","));
    let seen: Vec<Value> = json::from_str(&list).unwrap_or_default();
    let keep = seen.len().saturating_sub(20);
    let mut answer = vec![json!({ "role": "user", "content": "a summary" })];
    answer.extend_from_slice(&seen[keep..]);
    let answer = json::to_string(&answer).unwrap_or_default();
    json::from_str::<Vec<Value>>(&answer).map_or(0, |list| list.len())
}

fn call(session: &mut dyn EngineSession, table: &ViewTable<'_>, request: &CompressRequest) {
    let plan = session.compress(&FakeHost::default(), &table.conversation(), request);
    black_box(plan.expect("the sound engine has a plan for this conversation").steps.len());
}

fn row(name: &str, ours: Duration, peer: Duration, goal_us: f64) {
    let us = |time: Duration| time.as_nanos() as f64 / 1_000.0;
    let row = json!({
        "name": name, "unit": "us", "ours": us(ours), "peer": us(peer), "ratio": us(peer) / us(ours),
        "goal": format!("<= {goal_us} us"), "met": us(ours) <= goal_us,
    });
    println!("{row}");
}

fn main() {
    let messages = conversation();
    let bytes: usize = messages.iter().map(|message| message.raw.len()).sum();
    eprintln!("{MESSAGES} messages, {bytes} bytes, about {} tokens", bytes / 4);
    let table = ViewTable::new(1, &messages);
    let request = CompressRequest::default();
    let open = |engine: &dyn ContextEngine| {
        engine.open_session(&FakeHost::default(), &SessionStart::default()).expect("the sound engine opens sessions")
    };

    let mut linked = open(fixture_bad::sound().as_ref());
    let library = host_registry::Library::open(&Fixture::Bad.path()).expect("the fixture library loads");
    let engine = library.engine("sound", &Value::Null).expect("the library has the sound engine");
    let mut loaded = open(engine.as_ref());

    let peer = (0..20).map(|_| {
        let started = Instant::now();
        black_box(by_json(&messages));
        started.elapsed()
    });
    let peer = peer.min().unwrap_or_default();
    row("boundary, 500K tokens, engine linked in", smallest(|| call(linked.as_mut(), &table, &request)), peer, 10.0);
    row("boundary, 500K tokens, engine in a cdylib", smallest(|| call(loaded.as_mut(), &table, &request)), peer, 10.0);
    row(
        "view tables, 2,000 messages, built once",
        smallest(|| drop(black_box(ViewTable::new(1, &messages)))),
        peer,
        100.0,
    );
}
