//! The tool's arguments and answers.
use super::*;
use engine_api::testing::FakeHost;
use engine_api::{Completion, CompletionRequest, EngineError, LogLevel, MessageId, RecallReply, json};
use std::sync::Mutex;

fn host() -> FakeHost {
    let mut recall = RecallReply::default();
    let mut call = RecallHit::new(MessageId(7), NodeId(2), Role::Assistant, "cargo test --package auth");
    call.tool = "bash".to_string();
    call.tokens = 40;
    recall.hits = vec![
        RecallHit::new(MessageId(3), NodeId(2), Role::User, "x".repeat(1_000)),
        call,
        RecallHit::new(MessageId(0), NodeId(2), Role::User, "They fixed the login."),
    ];
    recall.total = 41;
    recall.node = json::json!({ "depth": 1 });
    FakeHost { recall, ..FakeHost::default() }
}

fn ask(arguments: Value) -> Value {
    json::from_str(&answer(&host(), &arguments)).unwrap()
}

#[test]
fn hits_have_the_known_shape() {
    let got = ask(json!({ "query": "login", "limit": 10 }));
    assert_eq!(got["total_results"], 41);
    assert_eq!(
        got["results"][0],
        json!({
            "type": "message", "depth": "raw", "store_id": 7, "role": "assistant", "snippet": "cargo test --package auth",
            "token_count": 40, "from_current_session": true, "tool_name": "bash", "node_id": 2, "covered_by": "node 2"
        })
    );
    assert_eq!(got["results"][1]["snippet"].as_str().unwrap().chars().count(), SNIPPET_CHARS);
    assert_eq!(
        got["results"][2],
        json!({ "type": "summary", "depth": "d1", "node_id": 2, "snippet": "They fixed the login.", "token_count": 0 })
    );
    assert_eq!(ask(json!({ "query": "x", "sort": "relevance" }))["results"][0]["store_id"], 3);
    assert_eq!(ask(json!({ "pattern": "x", "limit": 1 }))["results"].as_array().unwrap().len(), 1);
}

#[test]
fn wrong_arguments_are_answered_with_an_error() {
    for (arguments, want) in [
        (json!({}), "No query provided"),
        (json!({ "query": "  " }), "No query provided"),
        (json!({ "query": 7 }), "No query provided"),
        (json!([]), "No query provided"),
        (Value::Null, "No query provided"),
        (json!({ "query": "x".repeat(1_001) }), "query must have at most 1000 characters"),
        (json!({ "query": "x", "limit": 0 }), "limit must be a positive integer"),
        (json!({ "query": "x", "limit": "ten" }), "limit must be a positive integer"),
        (json!({ "query": "x", "mode": "semantic" }), "mode must be one of: full_text, regex"),
        (json!({ "query": "x", "sort": 1 }), "sort must be one of: recency, relevance, hybrid"),
        (json!({ "query": "x", "role": "robot" }), "role must be one of: system, user, assistant, tool, unknown"),
        (json!({ "query": "x", "session_scope": "world" }), "session_scope must be one of: current, all, session"),
        (json!({ "query": "x", "compacted_only": "no" }), "compacted_only must be true or false"),
    ] {
        assert_eq!(ask(arguments.clone()), json!({ "error": want }), "{arguments}");
    }
}

#[test]
fn what_was_bent_or_missed_is_said() {
    let got = ask(json!({ "query": "x", "limit": 5_000, "session_scope": "all" }));
    assert_eq!((&got["limit"], &got["limit_clamped_from"]), (&json!(200), &json!(5_000)));
    assert_eq!(got["session_scope_note"], "only the current session was searched");
    let nothing: Value = json::from_str(&answer(&FakeHost::default(), &json!({ "query": "x" }))).unwrap();
    assert_eq!(nothing["results"], json!([]));
    assert!(nothing["note"].as_str().unwrap().contains("nothing matches"));
}

/// A host that remembers what recall was asked, and refuses regular expressions.
#[derive(Default)]
struct Asked(Mutex<Vec<RecallSearch>>);

impl HostServices for Asked {
    fn complete(&self, _: &CompletionRequest) -> Result<Completion, EngineError> {
        Err(EngineError::unsupported("completions"))
    }
    fn count_tokens(&self, text: &str) -> u64 {
        text.len() as u64
    }
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        let RecallRequest::Search(search) = request else { return Ok(RecallReply::default()) };
        self.0.lock().unwrap().push((**search).clone());
        if search.regex { Err(EngineError::from("unclosed group")) } else { Ok(RecallReply::default()) }
    }
    fn state_get(&self, _: &str) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(None)
    }
    fn state_put(&self, _: &str, _: &[u8]) -> Result<(), EngineError> {
        Ok(())
    }
    fn redact(&self, text: &str) -> String {
        text.to_string()
    }
    fn log(&self, _: LogLevel, _: &str, _: &Value) {}
    fn now_unix_ms(&self) -> u64 {
        0
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
}

#[test]
fn the_search_is_passed_on_as_it_was_asked_for() {
    let host = Asked::default();
    answer(&host, &json!({ "query": "a b", "role": "tool", "limit": 3 }));
    answer(&host, &json!({ "query": "a", "compacted_only": false }));
    assert_eq!(answer(&host, &json!({ "query": "a(", "mode": "regex" })), r#"{"error":"unclosed group"}"#);
    let asked = host.0.lock().unwrap();
    assert_eq!((asked[0].pattern.as_str(), asked[0].role, asked[0].limit), ("a b", Some(Role::Tool), 3));
    assert!(asked[0].compacted_only && !asked[1].compacted_only && asked[2].regex);
}
