//! The example of the documents: 45 messages of about 95,000 tokens become about 25 of about 45,000. The page with its
//! picture is rendered from the compaction itself.

use engine_api::Role;
use engine_api::json::{Value, json};
use host_config::{Config, TailMode};
use host_core::receipt::What;
use host_registry::{Registry, Setup};
use host_runtime::{LiveSession, Options};
use host_wire::Document;
use std::fmt::Write as _;
use std::path::Path;

/// The page, from the folder of this crate.
const PAGE: &str = "../docs/example.md";

/// A session about a failing login: five requests, and between them files that are read, commands and edits.
fn conversation() -> Vec<Value> {
    let mut messages = vec![json!({ "role": "system", "content": "You are a coding agent. Never push to main." })];
    let mut calls = 0;
    let mut step = |messages: &mut Vec<Value>, name: &str, arguments: Value, lines: usize| {
        calls += 1;
        let id = format!("call_{calls}");
        let call =
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } });
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        let text: Vec<String> = (0..lines)
            .map(|line| {
                format!(
                    "{line:>4}  fn check_{calls}_{line}(token: &Token) -> bool {{ token.expires > {} }}",
                    line * 37 % 911
                )
            })
            .collect();
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": text.join("\n") }));
    };
    let say =
        |messages: &mut Vec<Value>, role: &str, text: &str| messages.push(json!({ "role": role, "content": text }));

    say(
        &mut messages,
        "user",
        "Login fails with a 401 after a refresh. Find out why, and keep the public API as it is.",
    );
    for (file, lines) in
        [("src/auth/session.rs", 360), ("src/auth/token.rs", 400), ("src/http/client.rs", 280), ("tests/auth.rs", 240)]
    {
        step(&mut messages, "read_file", json!({ "path": file }), lines);
    }
    say(
        &mut messages,
        "assistant",
        "The refreshed token is stored, but src/http/client.rs:88 keeps the header of the old one.",
    );
    say(&mut messages, "user", "Mend it there, and add a test for two refreshes in a row.");
    for (command, lines) in [("cargo test auth", 200), ("cargo test auth -- --nocapture", 320), ("git diff", 150)] {
        step(&mut messages, "terminal", json!({ "command": command }), lines);
    }
    step(&mut messages, "write_file", json!({ "path": "src/http/client.rs", "content": "// 40 lines" }), 2);
    step(&mut messages, "terminal", json!({ "command": "cargo test auth" }), 220);
    say(
        &mut messages,
        "assistant",
        "Mended: the client asks the session for the header each time. Two refreshes are tested; 31 tests pass.",
    );
    say(&mut messages, "user", "Does the websocket path have the same fault?");
    for (file, lines) in [("src/ws/connect.rs", 270), ("src/ws/resume.rs", 250)] {
        step(&mut messages, "read_file", json!({ "path": file }), lines);
    }
    say(&mut messages, "assistant", "Yes: src/ws/resume.rs:41 copies the token at the start and never asks again.");
    say(&mut messages, "user", "Then mend that as well.");
    say(&mut messages, "assistant", "I start with the tests.");
    for (command, lines) in [("cargo test ws", 230), ("cargo clippy", 210), ("cargo test", 240)] {
        step(&mut messages, "terminal", json!({ "command": command }), lines);
    }
    step(&mut messages, "read_file", json!({ "path": "CHANGELOG.md" }), 180);
    step(&mut messages, "terminal", json!({ "command": "git log --oneline -200" }), 200);
    step(&mut messages, "terminal", json!({ "command": "git status" }), 120);
    say(&mut messages, "assistant", "Done; all 214 tests pass. The changelog has no entry for either yet.");
    say(&mut messages, "user", "Write one entry for both.");
    messages
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "model",
        Role::Tool => "result",
        _ => "?",
    }
}

fn first_words(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= 58 { line } else { format!("{}…", line.chars().take(57).collect::<String>()) }
}

/// Compacts the example; returns it with its receipt.
fn page() -> (String, host_core::Receipt) {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.compression.tail_mode = TailMode::Legacy;
    config.compression.target_ratio = 0.30;
    let body = json!({ "model": "gpt-5", "messages": conversation() }).to_string();
    let options =
        Options { session_id: "example".to_owned(), context_length: Some(200_000), force: true, ..Options::default() };
    let registry = Registry::open(Setup { home: home.path().to_owned(), ..Setup::default() });
    let mut live =
        LiveSession::open(Document::read(&body, None).unwrap(), config, &registry, home.path(), options).unwrap();
    let before: Vec<_> = live.session().view.clone();
    let receipt = live.compact();

    let mut out = String::from(
        "# Before and after\n\n\
         A session of a coding agent, compacted by the built-in engine with `tail_mode: legacy` and `target_ratio: 0.3` for a window of\n\
         200,000 tokens and without a model. The page is rendered from that compaction by `cargo test -p host-tests --test\n\
         parity`.\n\n",
    );
    let _ = writeln!(
        out,
        "{} messages and {} tokens before, {} messages and {} tokens after.\n\n## Before\n\n```text",
        receipt.messages_before, receipt.tokens_before, receipt.messages_after, receipt.tokens_after
    );
    for message in &before {
        let fate = receipt.fates.iter().find(|fate| fate.first <= message.id && message.id <= fate.last).unwrap();
        let fate = match &fate.what {
            What::Summarised { .. } => "→ summary",
            What::Rewritten => "→ a line",
            other => other.as_str(),
        };
        let text = message
            .parts
            .iter()
            .map(|part| if part.text.is_empty() { part.tool_name.clone() } else { part.text.clone() });
        let text = first_words(&text.collect::<Vec<_>>().join(" "));
        let _ =
            writeln!(out, "{:>3}  {:<6} {:>6}  {fate:<10}  {text}", message.id.0, role(message.role), message.tokens);
    }
    out.push_str("```\n\n## After\n\n```text\n");
    for message in &live.session().view {
        let text = first_words(&message.text());
        let _ = writeln!(out, "{:>3}  {:<6} {:>6}  {text}", message.id.0, role(message.role), message.tokens);
    }
    out.push_str("```\n\n## The summary\n\n```text\n");
    for message in live.session().view.iter().filter(|message| message.flags.has(engine_api::Flags::SUMMARY)) {
        let _ = writeln!(out, "{}", message.text());
    }
    out.push_str("```\n");
    (out, receipt)
}

#[test]
fn the_example_of_the_documents_is_what_the_engine_does() {
    let (rendered, receipt) = page();
    let near = |value: u64, wanted: u64| value.abs_diff(wanted) * 100 <= wanted * 15;
    assert_eq!(receipt.messages_before, 45);
    assert!(near(receipt.tokens_before, 95_000), "{}", receipt.tokens_before);
    assert!(near(receipt.messages_after as u64, 25), "{} messages\n{rendered}", receipt.messages_after);
    assert!(near(receipt.tokens_after, 45_000), "{} tokens\n{rendered}", receipt.tokens_after);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &rendered).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(found == rendered, "docs/example.md differs from its rendering; UPDATE_EXPECT=1 rewrites it");
}
