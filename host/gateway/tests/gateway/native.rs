//! The clients' own compactions, answered by the engine.

use crate::world::World;
use serde_json::{Value, json};
use support::provider::{Provider, Reply};

const NATIVE: &str = "gateway: {mode: native}\nmodel: {context_length: 200000}";

fn counting() -> Provider {
    Provider::with("", |seen| Some(Reply::Counted("ok".into(), seen.body.len() as u64 / 4, 5)))
}

fn message(role: &str, kind: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

fn items(steps: usize) -> Vec<Value> {
    let mut input = vec![
        message("developer", "input_text", "You are an agent."),
        message("user", "input_text", "Read all parts; the port is 48713."),
    ];
    for nth in 0..steps {
        let id = format!("call_{nth}");
        let text = format!("line of part {nth}; ").repeat(200);
        input.push(json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": "{\"cmd\":\"cat\"}"}));
        input.push(json!({"type": "function_call_output", "call_id": id, "output": text}));
    }
    input
}

fn body(input: &[Value], is_stream: bool) -> String {
    json!({"model": "test-model", "input": input, "store": false, "stream": is_stream,
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]})
    .to_string()
}

#[test]
fn codex_gets_a_handle_that_stands_for_the_conversation_also_after_a_restart() {
    const ID: &[(&str, &str)] = &[("thread-id", "t-1")];
    let world = World::with(NATIVE, counting());
    let mut input = items(20);
    assert_eq!(world.post("/v1/responses", ID, body(&input, false)).status, 200);
    input.push(json!({"type": "compaction_trigger"}));
    let got = world.post("/v1/responses", ID, body(&input, true));
    assert_eq!(got.status, 200, "{}", got.body);
    assert!(got.header("x-palimpsest").contains("action=native"), "{:?}", got.headers);
    let done = got.body.lines().filter(|line| line.contains("\"response.output_item.done\"")).collect::<Vec<_>>();
    assert_eq!(done.len(), 1, "{}", got.body);
    let item = serde_json::from_str::<Value>(done[0].strip_prefix("data: ").unwrap()).unwrap()["item"].clone();
    assert_eq!(item["type"], "compaction");
    assert!(world.provider.seen().iter().all(|seen| !seen.body.contains("compaction_trigger")));

    // Codex keeps its instructions and the user's words, and puts the handle behind them.
    let next = vec![
        message("developer", "input_text", "You are an agent."),
        message("user", "input_text", "Read all parts; the port is 48713."),
        item.clone(),
        message("user", "input_text", "Go on with the next part."),
    ];
    let got = world.post("/v1/responses", ID, body(&next, false));
    assert_eq!(got.status, 200, "{}", got.body);
    let sent = world.provider.seen().last().unwrap().body.clone();
    assert!(!sent.contains("palimpsest1"), "the handle is not the provider's: {sent:.300}");
    assert!(sent.contains("the port is 48713") && sent.contains("Go on with the next part."));
    assert!(sent.len() < body(&items(20), false).len() / 2, "{} bytes", sent.len());
    assert!(sent.contains("line of part 19"), "the newest stays");

    let (_, home, provider) = world.end();
    let world = World::at(NATIVE, provider, home);
    let got = world.post("/v1/responses", ID, body(&next, false));
    assert_eq!(got.status, 200, "{}", got.body);
    assert_eq!(world.provider.seen().last().unwrap().body, sent, "a restart changes nothing that leaves");
    let mut lost = next;
    lost[2]["encrypted_content"] = json!("palimpsest1:77:nobody");
    let got = world.post("/v1/responses", &[("thread-id", "t-2")], body(&lost, false));
    assert_eq!(got.status, 400, "{}", got.body);
    assert!(got.body.contains("no compacted view"), "{}", got.body);
}

#[test]
fn a_trigger_is_answered_in_transparent_mode_too() {
    let world = World::with("model: {context_length: 200000}", counting());
    let mut input = items(12);
    input.push(json!({"type": "compaction_trigger"}));
    let got = world.post("/v1/responses", &[("thread-id", "t-1")], body(&input, false));
    assert_eq!((got.status, got.json()["output"][0]["type"].as_str()), (200, Some("compaction")), "{}", got.body);
    let got = world.post("/v1/responses/compact", &[("thread-id", "t-1")], body(&items(12), false));
    assert_eq!(got.status, 200, "{}", got.body);
}

#[test]
fn claude_code_gets_the_summary_as_its_answer() {
    const ID: &[(&str, &str)] = &[("anthropic-version", "2023-06-01"), ("x-claude-code-session-id", "c-1")];
    let world = World::with(NATIVE, counting());
    let mut messages = vec![json!({"role": "user", "content": "Read all parts; the port is 48713."})];
    for nth in 0..20 {
        let (id, text) = (format!("toolu_{nth}"), format!("line of part {nth}; ").repeat(200));
        messages.push(
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "Read", "input": {}}]}),
        );
        messages
            .push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}));
    }
    let body = |messages: &[Value]| {
        json!({"model": "claude-test", "max_tokens": 1_000, "messages": messages,
            "tools": [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}]})
        .to_string()
    };
    assert_eq!(world.post("/v1/messages", ID, body(&messages)).status, 200);
    let asks = "CRITICAL: Respond with TEXT ONLY. Write a <summary> of the conversation.\n\nAdditional Instructions:\nkeep the port\n";
    let mut asked = messages.clone();
    asked.last_mut().unwrap()["content"].as_array_mut().unwrap().push(json!({"type": "text", "text": asks}));
    let before = world.provider.seen().len();
    let got = world.post("/v1/messages", ID, body(&asked));
    assert_eq!(got.status, 200, "{}", got.body);
    let text = got.json()["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("summary 1 of") && text.contains("the port is 48713"), "{text}");
    assert!(world.provider.seen().iter().skip(before).all(|seen| !seen.body.contains("CRITICAL: Respond")));
}
