//! Every tool in both dialects: right calls, wrong calls, and the calls that the engine's own texts name.
use super::*;
use crate::tests::store::{Mood, Store};
use engine_api::json;
use engine_api::testing::{assistant, calls, result, system, user};

/// A session with a summary over its first messages.
fn store() -> Store {
    let mut store = Store::new(vec![
        system(0, "be careful"),
        user(0, "why does the login fail"),
        calls(0, &[("c1", "terminal", "{\"command\":\"grep -rn TokenError src/auth.rs\"}")]),
        result(0, "c1", "terminal", &"src/auth.rs:44 TokenError leeway\n".repeat(400)),
        assistant(0, "The leeway is zero."),
        user(0, "thanks, and now the docs"),
    ]);
    let node = crate::tests::store::Node {
        text: "They looked for TokenError in src/auth.rs.".to_string(),
        depth: 0,
        messages: vec![2, 3, 4, 5],
        nodes: vec![],
    };
    store.nodes.insert(1, node);
    let top = crate::tests::store::Node {
        text: "An arc of the login.".to_string(),
        depth: 1,
        messages: vec![],
        nodes: vec![1],
    };
    store.nodes.insert(2, top);
    store
}

fn call(store: &Store, dialect: Dialect, name: &str, arguments: Value) -> String {
    let settings = Settings { dialect, ..Settings::default() };
    let table = store.table();
    let conversation = table.conversation();
    let desk = Desk {
        services: store,
        conversation: &conversation,
        settings: &settings,
        session_id: "here",
        status: &Value::Null,
    };
    answer(&desk, name, &arguments).unwrap()
}

fn ask(store: &Store, name: &str, arguments: Value) -> Value {
    json::from_str(&call(store, Dialect::Hermes, name, arguments)).unwrap()
}

#[test]
fn grep_finds_messages_arguments_and_summaries() {
    let store = store();
    let got = ask(&store, "lcm_grep", json!({ "query": "TokenError" }));
    assert_eq!((&got["total_results"], &got["coverage"]), (&json!(3), &json!("full")));
    let ids: Vec<&Value> = got["results"].as_array().unwrap().iter().map(|hit| &hit["store_id"]).collect();
    assert_eq!(ids, [&json!(4), &json!(3), &Value::Null]);
    assert_eq!(got["results"][1]["expand_hint"], "lcm_expand(store_id=3)");
    let page = ask(&store, "lcm_grep", json!({ "query": "TokenError", "limit": 1 }));
    let next = ask(&store, "lcm_grep", json!({ "query": "TokenError", "limit": 1, "cursor": page["next_cursor"] }));
    assert_eq!((&page["next_cursor"], &next["results"][0]["store_id"]), (&json!("o1"), &json!(3)));
    let miss = ask(&store, "lcm_grep", json!({ "query": "kubernetes" }));
    assert_eq!(miss["nearest"], json!(["nearby"]));
    assert!(miss["note"].as_str().unwrap().contains("searched this session: nothing matches"));
    let groups = ask(&store, "lcm_grep", json!({ "query": "TokenError", "group_by": "summary" }));
    assert!(groups["groups"].as_array().is_some_and(|groups| !groups.is_empty()) && groups["results"].is_null());
    let clamped = ask(&store, "lcm_grep", json!({ "query": "x", "limit": 5_000 }));
    assert_eq!((&clamped["limit"], &clamped["limit_clamped_from"]), (&json!(200), &json!(5_000)));
    let other =
        ask(&store, "lcm_grep", json!({ "query": "TokenError", "session_scope": "session", "session_id": "old" }));
    assert_eq!(other["session_scope"], "session");
}

#[test]
fn wrong_calls_are_answered_with_what_would_be_right() {
    let store = store();
    for (tool, arguments, want) in [
        ("lcm_grep", json!({}), "No query provided"),
        ("lcm_grep", json!({ "query": 7 }), "No query provided"),
        ("lcm_grep", json!([]), "the arguments must be a JSON object"),
        ("lcm_grep", Value::Null, "No query provided"),
        ("lcm_grep", json!({ "query": "x".repeat(1_001) }), "at most 1000 characters"),
        ("lcm_grep", json!({ "query": "x", "limit": 0 }), "limit must be a positive integer"),
        ("lcm_grep", json!({ "query": "x", "limit": "ten" }), "limit must be a positive integer"),
        ("lcm_grep", json!({ "query": "x", "mode": "magic" }), "mode must be one of: auto, full_text"),
        ("lcm_grep", json!({ "query": "x", "sort": 1 }), "sort must be one of"),
        ("lcm_grep", json!({ "query": "x", "role": "robot" }), "role must be one of: system, user"),
        ("lcm_grep", json!({ "query": "x", "session_scope": "session" }), "session_scope=session requires session_id"),
        (
            "lcm_grep",
            json!({ "query": "x", "session_scope": "all", "session_id": "a" }),
            "session_id is only valid with session_scope=session",
        ),
        ("lcm_grep", json!({ "query": "x", "time_from": "2026-01-01T00:00:00" }), "must include a timezone"),
        ("lcm_grep", json!({ "query": "x", "since": 20, "before": 10 }), "since must be earlier than before"),
        ("lcm_grep", json!({ "query": "x", "cursor": "next" }), "cursor must be what next_cursor gave"),
        ("lcm_grep", json!({ "query": "x", "conversationId": "nowhere" }), "there is no session nowhere"),
        ("lcm_describe", json!({ "node_id": 99 }), "Node 99 not found in current session"),
        ("lcm_describe", json!({ "id": "what" }), "is no id"),
        ("lcm_expand", json!({}), "node_id, externalized_ref, or store_id is required"),
        ("lcm_expand", json!({ "node_id": 1, "store_id": 2 }), "Provide only one of"),
        ("lcm_expand", json!({ "store_id": 99 }), "Message store_id 99 not found"),
        ("lcm_expand", json!({ "node_id": 99 }), "Node 99 not found"),
        ("lcm_expand", json!({ "store_ids": "50-60" }), "no message from 50 to 60"),
        ("lcm_expand", json!({ "id": "job_none" }), "there is no job job_none"),
        ("lcm_expand", json!({ "store_id": 1, "max_tokens": "lots" }), "max_tokens must be an integer"),
        ("lcm_expand_query", json!({}), "prompt is required"),
        ("lcm_expand_query", json!({ "prompt": "x" }), "Provide either query or node_ids"),
        (
            "lcm_expand_query",
            json!({ "prompt": "x", "query": "y", "max_tokens": "z" }),
            "max_tokens must be an integer",
        ),
        ("lcm_load_session", json!({}), "session_id is required"),
        ("lcm_load_session", json!({ "session_id": "old", "roles": ["robot"] }), "role must be one of"),
        ("llm_map", json!({}), "prompt is required"),
        ("llm_map", json!({ "prompt": "x" }), "give items"),
        ("llm_map", json!({ "prompt": "x", "items": [] }), "there are no items"),
        ("llm_map", json!({ "prompt": "x", "items": [1], "query": "y" }), "give one of"),
        ("llm_map", json!({ "prompt": "x", "items_jsonl": "{\"a\":1}\n{" }), "line 2 is no JSON"),
        ("llm_map", json!({ "prompt": "x", "items": [1], "schema": { "type": "strng" } }), "schema is not usable"),
        ("agentic_map", json!({ "job": "../../etc" }), "job must be up to"),
        ("agentic_map", json!({ "job": "job_none" }), "there is no job"),
    ] {
        for dialect in [Dialect::Hermes, Dialect::OpenClaw, Dialect::Both] {
            let got: Value = json::from_str(&call(&store, dialect, tool, arguments.clone())).unwrap();
            let error = got["error"].as_str().unwrap_or_else(|| panic!("{tool} {arguments}: {got}"));
            assert!(error.contains(want), "{tool} {arguments}: {error}");
        }
    }
}

#[test]
fn expand_returns_messages_whole_with_their_arguments_page_by_page() {
    let store = store();
    let got = ask(&store, "lcm_expand", json!({ "node_id": 1, "max_tokens": 1_000 }));
    assert!(got["expanded"][1]["content"].as_str().unwrap().contains("grep -rn TokenError"), "{got}");
    let page = &got["pagination"];
    assert_eq!(
        (&page["total_sources"], &page["has_more"], &page["next_source_offset"]),
        (&json!(4), &json!(true), &json!(2))
    );
    let mut whole = String::new();
    let (mut source, mut content) = (json!(2), page["next_content_offset"].clone());
    whole.push_str(got["expanded"][2]["content"].as_str().unwrap());
    while source == json!(2) {
        let arguments =
            json!({ "node_id": "sum_1", "max_tokens": 1_000, "source_offset": source, "content_offset": content });
        let got = ask(&store, "lcm_expand", arguments);
        whole.push_str(got["expanded"][0]["content"].as_str().unwrap());
        source = got["pagination"]["next_source_offset"].clone();
        content = got["pagination"]["next_content_offset"].clone();
    }
    assert_eq!(whole, store.messages[3].parts[0].text);
    let raw = ask(&store, "lcm_expand", json!({ "store_id": 2, "raw": true }));
    assert_eq!(raw["content"], store.messages[1].raw.as_str());
    let piece = ask(&store, "lcm_expand", json!({ "id": "lcm:2:4-8" }));
    assert_eq!(piece["content"], "does");
    let list = ask(&store, "lcm_expand", json!({ "store_ids": "2-3,5", "include_exact_ref": true }));
    assert_eq!(list["expanded"][2]["store_id"], 5);
    assert!(list["expanded"][2]["exact_ref"].as_str().unwrap().starts_with("lcm:5:0-"));
    let direct = ask(&store, "lcm_expand", json!({ "node_id": 2, "direct": true }));
    assert_eq!((&direct["source_type"], &direct["expanded"][0]["node_id"]), (&json!("nodes"), &json!(1)));
    let several = ask(&store, "lcm_expand", json!({ "summaryIds": ["sum_1", "sum_9"] }));
    assert!(several["expansions"][1]["error"].as_str().unwrap().contains("Node 9 not found"));
}

#[test]
fn describe_status_load_and_doctor_answer() {
    let store = store();
    let whole = ask(&store, "lcm_describe", json!({}));
    assert_eq!((&whole["store_message_count"], &whole["depths"]["d1"]["count"]), (&json!(6), &json!(1)));
    let node = ask(&store, "lcm_describe", json!({ "node_id": "[Session Arc (d1, node 2)]" }));
    assert_eq!((&node["depth"], &node["children"]), (&json!(1), &json!([1])));
    assert_eq!(ask(&store, "lcm_describe", json!({ "id": "file_4" }))["tool_name"], "terminal");
    let status = ask(&store, "lcm_status", json!({}));
    assert_eq!((&status["engine"], &status["messages_in_view"]), (&json!("lcm"), &json!(6)));
    assert!(ask(&store, "lcm_doctor", json!({}))["checks"].as_array().unwrap().len() >= 7);
    let first = ask(&store, "lcm_load_session", json!({ "session_id": "old", "limit": 2 }));
    assert_eq!((&first["returned_messages"], &first["next_cursor"]), (&json!(2), &json!(2)));
    let rest = ask(&store, "lcm_load_session", json!({ "session_id": "old", "after_store_id": first["next_cursor"] }));
    assert_eq!((&rest["messages"][0]["store_id"], &rest["has_more"]), (&json!(3), &json!(false)));
    assert_eq!(ask(&store, "lcm_load_session", json!({ "session_scope": "all" }))["sessions"][0]["session"], "old");
}

#[test]
fn a_question_is_answered_from_evidence_and_without_a_model_by_the_evidence() {
    let mut store = store();
    store.script.lock().unwrap().push(Ok("The leeway is zero [msg 5, 4]; see [node 7].".to_string()));
    let got = ask(&store, "lcm_expand_query", json!({ "prompt": "why?", "query": "leeway" }));
    assert_eq!((&got["cited_ids"], &got["model"]), (&json!(["msg 4", "msg 5"]), &json!("scripted")));
    assert!(store.asked.lock().unwrap()[0].prompt.contains("[msg 5]\nThe leeway is zero."));
    store.mood = Mood::Fails;
    let got = ask(&store, "lcm_expand_query", json!({ "prompt": "why?", "node_ids": [1] }));
    assert_eq!((&got["degraded"], &got["answer"]), (&json!(true), &Value::Null));
    assert_eq!(got["evidence"].as_array().unwrap().len(), 4);
    let got = ask(&store, "lcm_expand", json!({ "query": "leeway" }));
    assert!(got["evidence"][0]["text"].as_str().unwrap().contains("leeway"));
}

#[test]
fn lossless_claws_dialect_gets_markdown_and_details() {
    let store = store();
    let got = call(&store, Dialect::Both, "lcm_grep", json!({ "pattern": "TokenError", "scope": "both" }));
    assert!(got.contains("- [conv=here msg#3] (assistant, 2023-11-14T22:13:23Z): terminal"), "{got}");
    assert!(got.contains("\ndetails: {") && got.contains("\"messageCount\":2"), "{got}");
    let got = call(&store, Dialect::Both, "lcm_describe", json!({ "id": "sum_1" }));
    assert!(got.starts_with("LCM_SUMMARY sum_1\nmeta conv=here kind=leaf depth=0"), "{got}");
    let got = call(&store, Dialect::OpenClaw, "lcm_expand", json!({ "summaryIds": ["sum_1"] }));
    assert!(got.contains("### msg#2 (user)\nwhy does the login fail"), "{got}");
    for tool in ["lcm_status", "lcm_doctor"] {
        assert!(call(&store, Dialect::OpenClaw, tool, json!({})).contains("\ndetails: {"));
    }
    assert!(call(&store, Dialect::Both, "lcm_grep", json!({ "query": "TokenError" })).starts_with('{'));
}

#[test]
fn every_tool_has_a_schema_and_every_schema_a_tool() {
    let manifest = include_str!("../../../../plugins/context_engine/lcm/plugin.yaml");
    let store = store();
    for schema in schemas() {
        call(&store, Dialect::Hermes, &schema.name, json!({}));
        assert_eq!(schema.parameters["type"], "object");
        assert!(manifest.contains(&format!("- {}\n", schema.name)));
    }
}
