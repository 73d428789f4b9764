//! Recall within a reply: the model looks for what was compacted away, and the client sees one reply.

use crate::world::{Chat, World};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use support::provider::{Provider, Reply, Seen, ToolUse};

const CHAT: &str = "/v1/chat/completions";
const SMALL: &str = "model: {context_length: 20000}";

fn tool(seen: &Seen, name: &str) -> bool {
    seen.json["tools"].as_array().into_iter().flatten().any(|tool| tool["function"]["name"] == name)
}

/// A model that looks once for what the third part said, as soon as it can, beside `also` a call of the client's.
fn looking(is_mixed: bool) -> (Provider, Arc<Mutex<Vec<Value>>>) {
    let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
    let told = Arc::clone(&requests);
    let mut has_looked = false;
    let provider = Provider::with("", move |seen| {
        let tokens = seen.body.len() as u64 / 4;
        told.lock().unwrap().push(seen.json.clone());
        if tool(seen, "session_search") && !has_looked {
            has_looked = true;
            let call = |id: &str, name: &str, input: Value| ToolUse { id: id.into(), name: name.into(), input };
            let mut calls = vec![call("call_look", "session_search", json!({"query": "value_2"}))];
            if is_mixed {
                calls.push(call("call_own", "read_file", json!({"path": "x"})));
            }
            return Some(Reply::Use("Let me look. ".into(), calls, tokens));
        }
        Some(Reply::Counted("It is known.".into(), tokens, 5))
    });
    (provider, requests)
}

/// Grows a conversation until the model has looked; returns that reply.
fn until_it_looks(world: &World, chat: &mut Chat) -> String {
    for nth in 0..40 {
        let got = world.post(CHAT, &[], chat.body());
        assert_eq!(got.status, 200, "{}", got.body);
        if got.body.contains("Let me look.") {
            return got.body;
        }
        chat.step(nth, 4_000);
    }
    panic!("the model never looked");
}

#[test]
fn a_recall_call_is_answered_within_the_reply_and_told_of_later() {
    for is_stream in [false, true] {
        let (provider, requests) = looking(false);
        let world = World::with(SMALL, provider);
        let mut chat = Chat::new("Read all parts.");
        chat.is_stream = is_stream;
        let reply = until_it_looks(&world, &mut chat);
        assert!(reply.contains("It is known."), "{reply}");
        assert!(!reply.contains("session_search") && !reply.contains("\"tool_calls\""), "{reply}");
        let answered = requests.lock().unwrap().last().unwrap().clone();
        let messages = answered["messages"].as_array().unwrap();
        let answer = messages.last().unwrap();
        assert_eq!((answer["role"].as_str(), answer["tool_call_id"].as_str()), (Some("tool"), Some("call_look")));
        assert!(answer["content"].as_str().unwrap().contains("15838"), "value_2 is 15838: {answer}");
        // The next request tells of the call and its answer, before the reply that the client got.
        chat.messages.push(json!({"role": "assistant", "content": "Let me look. It is known."}));
        chat.messages.push(json!({"role": "user", "content": "Good, go on."}));
        assert_eq!(world.post(CHAT, &[], chat.body()).status, 200);
        let next = requests.lock().unwrap().last().unwrap()["messages"].as_array().unwrap().clone();
        let at = next.iter().position(|message| message["tool_call_id"] == "call_look").expect("the answer is there");
        assert_eq!(next[at - 1]["tool_calls"][0]["id"], "call_look");
        assert_eq!(next[at + 1]["content"], "Let me look. It is known.");
        // And so it does after a restart.
        let (_, home, provider) = world.end();
        let world = World::at(SMALL, provider, home);
        assert_eq!(world.post(CHAT, &[], chat.body()).status, 200);
        let again = requests.lock().unwrap().last().unwrap()["messages"].as_array().unwrap().clone();
        assert_eq!(again, next);
    }
}

#[test]
fn of_mixed_calls_the_client_gets_its_own_and_the_answer_comes_with_its_next_request() {
    let (provider, requests) = looking(true);
    let world = World::with(SMALL, provider);
    let mut chat = Chat::new("Read all parts.");
    let reply: Value = serde_json::from_str(&until_it_looks(&world, &mut chat)).unwrap();
    let message = &reply["choices"][0]["message"];
    let calls = message["tool_calls"].as_array().unwrap();
    assert_eq!((calls.len(), calls[0]["id"].as_str()), (1, Some("call_own")), "{reply}");
    chat.messages.push(message.clone());
    chat.messages.push(json!({"role": "tool", "tool_call_id": "call_own", "content": "own"}));
    assert_eq!(world.post(CHAT, &[], chat.body()).status, 200);
    let next = requests.lock().unwrap().last().unwrap()["messages"].as_array().unwrap().clone();
    let look = next.iter().position(|message| message["tool_call_id"] == "call_look").expect("the answer is there");
    let own = next.iter().position(|message| message["tool_call_id"] == "call_own").expect("so is the client's");
    assert!(look < own, "{next:?}");
}

#[test]
fn no_tools_are_offered_before_a_compaction_or_against_the_settings() {
    let (provider, requests) = looking(false);
    let world = World::with("model: {context_length: 20000}\ngateway: {engine_tools: false}", provider);
    let mut chat = Chat::new("Read all parts.");
    for nth in 0..25 {
        assert_eq!(world.post(CHAT, &[], chat.body()).status, 200);
        chat.step(nth, 4_000);
    }
    assert!(requests.lock().unwrap().iter().all(|request| !request["tools"].to_string().contains("session_search")));
}
