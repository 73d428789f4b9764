//! Maps: answers checked and asked again, rows that outlive a crash, agents that look things up.
use crate::settings::Settings;
use crate::tests::store::{Mood, Store};
use crate::tools::{Desk, answer};
use engine_api::json::{self, Value, json};
use engine_api::testing::{assistant, user};

fn store(script: &[&str]) -> Store {
    let mut store = Store::new(vec![user(0, "the port is 8484"), assistant(0, "noted: port 8484")]);
    store.folder = Some(tempfile::tempdir().unwrap());
    store.mood = Mood::Fails;
    let scripted = |text: &&str| match *text {
        "!" => Err("the call's completions are used up".to_string()),
        text => Ok(text.to_string()),
    };
    store.script.lock().unwrap().extend(script.iter().map(scripted));
    store
}

fn ask(store: &Store, tool: &str, arguments: Value) -> Value {
    let settings = Settings::default();
    let table = store.table();
    let conversation = table.conversation();
    let desk = Desk {
        services: store,
        conversation: &conversation,
        settings: &settings,
        session_id: "here",
        status: &Value::Null,
    };
    json::from_str(&answer(&desk, tool, &arguments).unwrap()).unwrap()
}

#[test]
fn answers_are_checked_and_the_fault_is_told() {
    let store = store(&["\"red\"", "```json\n\"mauve\"\n```", "\"blue\""]);
    let arguments = json!({
        "prompt": "Which colour is {{name}}?", "items": [{ "name": "sky" }, { "name": "blood" }],
        "schema": { "enum": ["red", "blue"] }
    });
    let got = ask(&store, "llm_map", arguments);
    assert_eq!((&got["done"], &got["failed"], &got["pending"]), (&json!(2), &json!(0), &json!(0)), "{got}");
    assert_eq!(got["rows"][1]["output"], "blue");
    let asked = store.asked.lock().unwrap();
    assert!(asked[0].prompt.starts_with("Which colour is sky?"));
    assert!(asked[2].prompt.contains("must be one of [\"red\",\"blue\"]"), "{}", asked[2].prompt);
}

#[test]
fn a_job_goes_on_where_it_ended_and_asks_nothing_twice() {
    let mut store = store(&["a0", "a1", "!", "!"]);
    let items: Vec<u32> = (0..4).collect();
    let arguments = json!({ "prompt": "say {{item}}", "items": items, "job": "colours", "concurrency": 2 });
    let got = ask(&store, "llm_map", arguments.clone());
    assert_eq!((&got["done"], &got["failed"]), (&json!(2), &json!(2)), "{got}");
    assert!(got["failures"][0]["error"].as_str().unwrap().contains("used up"));
    // A crash in the middle of a row.
    let folder = store.folder.as_ref().unwrap().path().join("maps/job_colours");
    let rows = folder.join("rows.jsonl");
    let mut text = std::fs::read_to_string(&rows).unwrap();
    text.push_str("{\"index\":3,\"tri");
    std::fs::write(&rows, text).unwrap();

    let before = store.asked.lock().unwrap().len();
    store.script.lock().unwrap().extend(["a2", "a3"].map(|text| Ok(text.to_string())));
    let got = ask(&store, "llm_map", json!({ "job": "job_colours" }));
    assert_eq!((&got["done"], &got["resumed"], &got["done_before"]), (&json!(4), &json!(true), &json!(2)), "{got}");
    assert_eq!(store.asked.lock().unwrap().len() - before, 2);
    let got = ask(&store, "llm_map", arguments);
    assert_eq!((&got["done"], store.asked.lock().unwrap().len() - before), (&json!(4), 2));
    let page = ask(&store, "lcm_expand", json!({ "id": "job_colours", "source_offset": 1, "source_limit": 2 }));
    assert_eq!((&page["rows"][1]["output"], &page["next_source_offset"]), (&json!("a2"), &json!(3)));
    assert_eq!(ask(&store, "lcm_describe", json!({ "id": "job_colours" }))["items"], 4);
    let other = ask(&store, "llm_map", json!({ "prompt": "else", "items": [1], "job": "colours" }));
    assert!(other["error"].as_str().unwrap().contains("another prompt"), "{other}");
    store.folder = None;
    assert_eq!(ask(&store, "llm_map", json!({ "prompt": "x", "items": [1] }))["durable"], false);
}

#[test]
fn a_model_that_is_gone_is_not_asked_for_every_item() {
    let store = store(&[]);
    let items: Vec<u32> = (0..500).collect();
    let got = ask(&store, "llm_map", json!({ "prompt": "x", "items": items }));
    assert_eq!(store.asked.lock().unwrap().len(), 32);
    assert_eq!((&got["failed"], &got["pending"]), (&json!(32), &json!(468)));
    assert!(got["stopped"].as_str().unwrap().contains("no route") && got["resume_hint"].is_string(), "{got}");
}

#[test]
fn an_agent_looks_things_up_and_answers_within_its_steps() {
    let store = store(&[
        r#"{"tool":"lcm_grep","arguments":{"query":"port"}}"#,
        r#"{"tool":"rm","arguments":{}}"#,
        r#"{"answer": 8484}"#,
    ]);
    let arguments = json!({ "prompt": "Which port?", "items": ["gateway"], "schema": { "type": "integer" } });
    let got = ask(&store, "agentic_map", arguments);
    assert_eq!((&got["rows"][0]["output"], &got["rows"][0]["tries"]), (&json!(8484), &json!(3)), "{got}");
    {
        let asked = store.asked.lock().unwrap();
        assert!(asked[1].prompt.contains("IT RETURNED\n{\"query\":\"port\""), "{}", asked[1].prompt);
        assert!(asked[2].prompt.contains("there is no tool rm"), "{}", asked[2].prompt);
    }
    store.script.lock().unwrap().extend((0..9).map(|_| Ok(r#"{"tool":"lcm_status"}"#.to_string())));
    let got = ask(&store, "agentic_map", json!({ "prompt": "loop", "items": [1], "max_steps": 3, "read_only": false }));
    assert_eq!(got["failures"][0]["error"], "no answer after 3 replies");
    assert!(got["note"].as_str().unwrap().contains("read_only"));
    assert!(store.asked.lock().unwrap().last().unwrap().prompt.contains("This is your last reply"));
}

#[test]
fn items_come_from_searches_ids_and_lines() {
    let store = store(&["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(ask(&store, "llm_map", json!({ "prompt": "x", "query": "port" }))["items"], 2);
    assert_eq!(ask(&store, "llm_map", json!({ "prompt": "x", "store_ids": "1-9" }))["items"], 2);
    assert_eq!(ask(&store, "llm_map", json!({ "prompt": "x", "items_jsonl": "{\"a\":1}\n\n2\n" }))["items"], 2);
}
