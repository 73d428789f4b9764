//! The same conversation in Anthropic's Messages and in Responses, as their clients send it.

use crate::world::World;
use serde_json::{Value, json};
use support::provider::{Provider, Reply};

const SMALL: &str = "model: {context_length: 20000}";

fn counting() -> Provider {
    Provider::with("", |seen| Some(Reply::Counted("ok".into(), seen.body.len() as u64 / 4, 5)))
}

fn text(nth: usize, chars: usize) -> String {
    let line = format!("line of part {nth}: value_{nth} = {}; ", nth * 7919);
    line.repeat(chars / line.len() + 1)
}

/// A conversation in Messages whose newest message carries the cache mark, as Claude Code's does.
fn messages(steps: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>\nToday is a day.\n</system-reminder>"},
        {"type": "text", "text": "Read all parts; the port is 48713."}]})];
    for nth in 0..steps {
        let id = format!("toolu_{nth}");
        messages.push(json!({"role": "assistant", "content": [
            {"type": "text", "text": "Now the next part."},
            {"type": "tool_use", "id": id, "name": "Read", "input": {"path": format!("part_{nth}")}}]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": text(nth, 4_000), "is_error": false}]}));
    }
    let last = messages.last_mut().unwrap()["content"].as_array_mut().unwrap().last_mut().unwrap();
    last["cache_control"] = json!({"type": "ephemeral"});
    json!({
        "model": "claude-test", "max_tokens": 1_000, "messages": messages,
        "system": [{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}],
    })
}

fn responses(steps: usize) -> Value {
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let mut input = vec![
        message("developer", "input_text", "You are an agent."),
        message("user", "input_text", "<environment_context>\n<cwd>/w</cwd>\n</environment_context>"),
        message("user", "input_text", "Read all parts; the port is 48713."),
    ];
    for nth in 0..steps {
        let id = format!("call_{nth}");
        input.push(json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": "{\"cmd\":\"cat\"}"}));
        input.push(json!({"type": "function_call_output", "call_id": id, "output": text(nth, 4_000)}));
    }
    json!({"model": "test-model", "input": input, "store": false,
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]})
}

/// Grows a conversation and returns how many compactions it took.
fn grow(path: &str, headers: &[(&str, &str)], body: &dyn Fn(usize) -> Value) -> usize {
    let world = World::with(SMALL, counting());
    for steps in 0..40 {
        let got = world.post(path, headers, body(steps).to_string());
        assert_eq!(got.status, 200, "step {steps}: {}", got.body);
    }
    let seen = world.provider.seen();
    let largest = seen.iter().map(|seen| seen.body.len()).max().unwrap();
    assert!(largest < 20_000 * 4, "{largest} bytes");
    assert!(seen.last().unwrap().body.contains("the port is 48713"));
    let (_, total) = {
        let list = world.get("/palimpsest/sessions").json();
        (0, list["total"].as_u64().unwrap())
    };
    assert_eq!(total, 1, "one conversation is one session");
    let metrics = world.get("/metrics").body;
    let lines = metrics.lines().filter(|line| line.starts_with("palimpsest_compactions_total"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

#[test]
fn marks_that_move_do_not_make_a_conversation_another() {
    const HEADERS: &[(&str, &str)] = &[("anthropic-version", "2023-06-01"), ("x-claude-code-session-id", "s-1")];
    let compactions = grow("/v1/messages", HEADERS, &messages);
    assert!((1..=10).contains(&compactions), "{compactions} compactions");
}

#[test]
fn a_conversation_in_items_goes_on_beyond_its_window() {
    let compactions = grow("/v1/responses", &[("thread-id", "t-1")], &responses);
    assert!((1..=10).contains(&compactions), "{compactions} compactions");
}

#[test]
fn what_an_undo_brings_back_has_its_marks_where_the_client_has_them_now() {
    const HEADERS: &[(&str, &str)] = &[("anthropic-version", "2023-06-01"), ("x-claude-code-session-id", "s-1")];
    // The scripted provider refuses a request with more marks than a real one takes.
    let world = World::with("model: {context_length: 60000}", counting());
    let post = |steps: usize| world.post("/v1/messages", HEADERS, messages(steps).to_string());
    let mut steps = 0;
    while !post(steps).header("x-palimpsest").contains("action=compacted") {
        steps += 1;
        assert!(steps < 100);
    }
    let undone = world.post("/palimpsest/sessions/s-1/undo", &[], "");
    assert_eq!(undone.status, 200, "{}", undone.body);
    assert_eq!(post(steps).status, 200);
    let last = world.provider.seen().last().unwrap().body.clone();
    assert_eq!(last.matches("cache_control").count(), 2, "one for the system text, one for the newest message");
}

#[test]
fn a_shortened_message_does_not_keep_the_mark_that_it_once_had() {
    const HEADERS: &[(&str, &str)] = &[("anthropic-version", "2023-06-01"), ("x-claude-code-session-id", "s-1")];
    // A provider that takes so little that the newest results are shortened, each with the mark that it carries.
    let limit = 4_000;
    let provider = Provider::with("", move |seen| {
        let tokens = seen.body.len() as u64 / 4;
        Some(if tokens > limit { Reply::Overflow(limit) } else { Reply::Counted("ok".into(), tokens, 5) })
    });
    let world = World::with("model: {context_length: 100000}", provider);
    for steps in 0..24 {
        let got = world.post("/v1/messages", HEADERS, messages(steps).to_string());
        assert_eq!(got.status, 200, "step {steps}: {}", got.body);
    }
    let most = world.provider.seen().iter().map(|seen| seen.body.matches("\"cache_control\"").count()).max().unwrap();
    assert!(most <= 2, "{most} marks");
}
