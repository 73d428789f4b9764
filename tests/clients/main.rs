//! The real programs of four agents through the gateway, with a model on the loopback that has each of them read file after
//! file: none of them compacts by itself, none of them fails, and what was read long ago is found again.
//!
//! `cargo xtask clients` installs the programs. A test whose program is absent says so and passes, unless
//! `PALIMPSEST_REQUIRE_CLIENTS` is set.
// Tests may unwrap: a failed expectation is how they speak. What a run came to is printed, since it tells more than a pass.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod gateway;
mod programs;

use gateway::Gateway;
use programs::{Client, Home, run};
use support::agent::{Agent, FINAL_ANSWER, Model, Record, lay_files};
use support::provider::Reply;

/// Files that an agent reads: each is a turn with a tool.
const TURNS: usize = 42;
/// Bytes of each file, about 3,500 tokens: 42 of them are more than twice the window.
const FILE_BYTES: usize = 7_000;
/// The gateway's settings: a window of 64,000 tokens, in which the largest of the clients' own prompts has room.
const SETTINGS: &str = "model: {context_length: 64000}\ngateway: {access_log: 'off'}\n";
/// The window that the client itself believes in. It would compact at nine tenths of it or below, and never gets there.
const CLIENT_WINDOW: u64 = 110_000;
const TASK: &str = "Read the part files one after another and report.";

/// Takes a client through its task; returns what the model saw, and how the gateway counts.
fn go(client: Client, agent: Agent, settings: &str) -> Option<(Record, Gateway, Home)> {
    let program = programs::find(client)?;
    let home = Home::new(client);
    lay_files(&home.work(), TURNS + 2, FILE_BYTES).unwrap();
    let model = agent.start();
    let gateway = Gateway::start(settings, &model.provider.origin());
    let out = run(&program, client, &home, &gateway.origin, CLIENT_WINDOW, TASK, false);
    let record = model.record();
    check(client, &model);
    assert!(out.contains(FINAL_ANSWER), "{client:?} did not end: {record:?}\n{}", tail(&out));
    Some((record, gateway, home))
}

/// Fails if the model got a request that no provider takes.
fn check(client: Client, model: &Model) {
    let mut problems = model.provider.take_problems();
    let count = problems.len();
    problems.sort();
    problems.dedup();
    problems.truncate(10);
    assert!(count == 0, "{client:?} sent what no provider takes, {count} times:\n{}", problems.join("\n"));
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(25)).map(|line| format!("{line:.400}\n")).collect()
}

/// A long task in transparent mode.
fn transparent(client: Client) {
    let Some((record, gateway, _home)) = go(client, Agent::new(TURNS), SETTINGS) else { return };
    println!("{client:?}: {record:?}, compactions {}\n{}", gateway.compactions(), gateway.told());
    assert!(record.turns >= 40, "{record:?}");
    assert_eq!(record.client_compactions, 0, "the client compacted by itself: {record:?}");
    assert!(gateway.compactions() >= 1, "nothing was compacted: {record:?}");
    assert!(record.largest < 64_000 * 4, "a request was larger than the window: {record:?}");
    // Hermes has a tool of the same name, which searches its own store.
    if client != Client::Hermes {
        assert!(record.is_recalled, "what was read early was not found late: {record:?}");
    }
}

#[test]
fn codex_reads_on_beyond_its_window() {
    transparent(Client::Codex);
}

#[test]
fn claude_code_reads_on_beyond_its_window() {
    transparent(Client::Claude);
}

#[test]
fn opencode_reads_on_beyond_its_window() {
    transparent(Client::OpenCode);
}

#[test]
fn hermes_reads_on_beyond_its_window() {
    transparent(Client::Hermes);
}

/// A provider whose window is smaller than everybody thinks, that fails, stalls and breaks off in between.
fn through_faults(client: Client) {
    let busy =
        Reply::Status(503, "{\"error\":{\"message\":\"busy\",\"type\":\"server_error\"}}".to_owned(), Vec::new());
    let agent =
        Agent { window: 45_000, faults: vec![(4, busy.clone()), (9, Reply::CloseEarly), (14, busy)], ..Agent::new(26) };
    let settings = "model: {context_length: 200000}\ngateway: {access_log: 'off'}\n";
    let Some((record, gateway, _home)) = go(client, agent, settings) else { return };
    println!("{client:?}: {record:?}, compactions {}", gateway.compactions());
    assert!((1..=3).contains(&record.overflows), "the window is learned from the first refusal: {record:?}");
    assert_eq!(record.client_compactions, 0, "{record:?}");
}

#[test]
fn codex_survives_a_window_that_is_smaller_than_thought() {
    through_faults(Client::Codex);
}

#[test]
fn claude_code_survives_a_window_that_is_smaller_than_thought() {
    through_faults(Client::Claude);
}

#[test]
fn opencode_survives_a_window_that_is_smaller_than_thought() {
    through_faults(Client::OpenCode);
}

/// The client's own compaction is answered by the engine, and the session goes on and is resumed.
fn native(client: Client) {
    let settings = "model: {context_length: 1000000}\ngateway: {access_log: 'off', mode: native}\n";
    let Some(program) = programs::find(client) else { return };
    let home = Home::new(client);
    lay_files(&home.work(), TURNS + 2, FILE_BYTES).unwrap();
    let model = Agent::new(30).start();
    let gateway = Gateway::start(settings, &model.provider.origin());
    let window = if client == Client::Claude { 100_000 } else { 60_000 };
    let out = run(&program, client, &home, &gateway.origin, window, TASK, false);
    let first = model.record();
    let resumed = run(&program, client, &home, &gateway.origin, window, "What was read?", true);
    let record = model.record();
    println!("{client:?}: {record:?}, native {}", gateway.native());
    check(client, &model);
    assert!(out.contains(FINAL_ANSWER), "{client:?} did not end: {first:?}\n{}", tail(&out));
    assert!(resumed.contains(FINAL_ANSWER), "{client:?} could not be resumed: {record:?}\n{}", tail(&resumed));
    assert_eq!(record.client_compactions, 0, "a compaction of the client reached the provider: {record:?}");
    assert!(gateway.native() >= 1, "the client never compacted: {record:?}");
}

#[test]
fn codex_has_its_own_compaction_answered() {
    native(Client::Codex);
}

#[test]
fn claude_code_has_its_own_compaction_answered() {
    native(Client::Claude);
}

#[test]
fn opencode_has_its_own_compaction_answered() {
    native(Client::OpenCode);
}
