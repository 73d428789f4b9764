//! Sessions that live in a store: they go on after a restart, are undone and rotated, and nothing of them is lost.

use engine_api::json::{self, Value, json};
use engine_api::{Completion, CompletionModel, EngineError, MessageId, Usage};
use host_config::Config;
use host_core::summariser::{Answer, Ask, Call, MainModel, Route, Sizes, Summariser};
use host_registry::{Registry, Setup};
use host_runtime::{CompressEvent, LiveSession, Options, PinRule, WireReader};
use host_store::Store;
use host_wire::Document;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A home with a store.
struct Home {
    folder: TempDir,
    config: Config,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::Builder::new().prefix("host-tests").tempdir().unwrap();
        Home { folder, config: Config::default() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store(&self) -> Store {
        Store::open(&self.path().join("sessions.db"), Arc::new(WireReader)).unwrap()
    }

    fn options(&self, name: &str) -> Options {
        let context_length = Some(32_000);
        Options { session_id: name.to_owned(), context_length, estimate: true, ..Options::default() }
    }

    fn registry(&self) -> Registry {
        Registry::open(Setup { home: self.path().to_owned(), ..Setup::default() })
    }

    /// Opens a session with what a client sends.
    fn open(&self, store: &Store, name: &str, messages: &[Value]) -> LiveSession {
        let body = json!({ "model": "some-model", "messages": messages }).to_string();
        let document = Document::read(&body, None).unwrap();
        let options = self.options(name);
        LiveSession::open_stored(store, document, self.config.clone(), &self.registry(), self.path(), options).unwrap()
    }

    fn resume(&self, store: &Store, name: &str) -> LiveSession {
        let (config, options) = (self.config.clone(), self.options(name));
        LiveSession::resume(store, config, &self.registry(), self.path(), options).unwrap()
    }
}

fn history(turns: usize) -> Vec<Value> {
    let mut all = vec![json!({ "role": "system", "content": "You mend programs." })];
    for turn in 0..turns {
        all.push(json!({ "role": "user", "content": format!("Mend part {turn}, and never touch release-{turn}.") }));
        let arguments = json!({ "path": format!("src/part{turn}.rs") }).to_string();
        let call = json!({ "id": format!("c{turn}"), "type": "function", "function": { "name": "read_file", "arguments": arguments } });
        all.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        let result = format!("line {turn} of the file, zebrafish{turn} port {}\n", 9_000 + turn).repeat(60);
        all.push(json!({ "role": "tool", "tool_call_id": format!("c{turn}"), "content": result }));
        all.push(json!({ "role": "assistant", "content": format!("Part {turn} is mended.") }));
    }
    all
}

fn compact(live: &mut LiveSession) -> host_core::Receipt {
    live.set_forced(true);
    let receipt = live.compact();
    live.set_forced(false);
    assert_eq!(receipt.action, "compacted", "{receipt:#?}");
    receipt
}

fn sound(store: &Store) {
    assert_eq!(store.verify(None, true).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_session_goes_on_after_a_restart_with_the_very_same_bytes() {
    let home = Home::new();
    let store = home.store();
    let mut live = home.open(&store, "a", &history(30));
    let whole = live.write().unwrap();
    compact(&mut live);
    let shown = live.write().unwrap();
    assert!(shown.len() < whole.len() / 2);
    drop(live);
    drop(store);
    let store = home.store();
    assert_eq!(home.resume(&store, "a").write().unwrap(), shown);
    // The client sends all of it again, and one more.
    let mut all = history(30);
    all.push(json!({ "role": "user", "content": "And now?" }));
    let rows = store.counts().unwrap()["messages"];
    let mut live = home.open(&store, "a", &all);
    assert_eq!(store.counts().unwrap()["messages"], rows + 1);
    let next = live.write().unwrap();
    assert!(next.starts_with(shown.trim_end_matches("]}")), "the prefix changed");
    compact(&mut live);
    sound(&store);
    live.undo().unwrap();
    assert_eq!(live.write().unwrap(), next);
    live.undo().unwrap();
    let document = Document::read(&live.write().unwrap(), None).unwrap();
    let raws: Vec<String> = document.messages.into_iter().map(|message| message.raw).collect();
    assert_eq!(raws, all.iter().map(Value::to_string).collect::<Vec<_>>());
    sound(&store);
}

#[test]
fn ten_compactions_without_a_new_message_add_none() {
    let home = Home::new();
    let store = home.store();
    let mut live = home.open(&store, "a", &history(30));
    let rows = store.counts().unwrap()["messages"];
    for _ in 0..10 {
        live.set_forced(true);
        live.compact();
    }
    assert_eq!(store.counts().unwrap()["messages"], rows);
    sound(&store);
}

#[test]
fn a_rotation_goes_on_under_a_new_id_and_tells_so() {
    let mut home = Home::new();
    home.config.compression.in_place = false;
    let store = home.store();
    let heard: Arc<Mutex<Vec<CompressEvent>>> = Arc::default();
    let ears = Arc::clone(&heard);
    let mut live = home
        .open(&store, "a", &history(30))
        .with_subscriber(Arc::new(move |event: &CompressEvent| ears.lock().unwrap().push(event.clone())));
    let receipt = compact(&mut live);
    let child = receipt.session_after.clone().unwrap();
    live.append(&json!({ "role": "user", "content": "And on." }).to_string()).unwrap();
    let shown = live.write().unwrap();
    drop(live);
    let heard = heard.lock().unwrap();
    let [event] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!((event.old_session_id.as_str(), &event.session_id, event.in_place), ("a", &child, false));
    assert_eq!(event.compression_count, 1);
    assert_eq!(store.session("a").unwrap().end_reason, "compression");
    assert_eq!(store.session(&child).unwrap().parent.as_deref(), Some("a"));
    assert_eq!(home.resume(&store, &child).write().unwrap(), shown);
    sound(&store);
}

#[test]
fn what_a_summary_stands_for_is_found_in_the_same_session_and_from_another() {
    let home = Home::new();
    let store = home.store();
    let mut live = home.open(&store, "a", &history(30));
    compact(&mut live);
    let ask = |live: &mut LiveSession, arguments: Value| -> Value {
        json::from_str(&live.call_tool("session_search", &arguments).unwrap()).unwrap()
    };
    let found = ask(&mut live, json!({ "query": "zebrafish3 port" }));
    assert_eq!(found["hits"][0]["is_current_session"], true, "{found:#}");
    assert!(found["hits"][0]["snippet"].as_str().unwrap().contains(">>>zebrafish3<<<"), "{found:#}");
    assert_eq!(found["hits"][0]["active"], false);
    let id = found["hits"][0]["message_id"].clone();
    let whole = ask(&mut live, json!({ "message_id": id }));
    assert!(whole["message"]["text"].as_str().unwrap().contains("9003"));
    let around = ask(&mut live, json!({ "session_id": "a", "around_message_id": id, "window": 2 }));
    assert_eq!(around["count"], 5);
    let mut other = home.open(&store, "b", &history(1));
    assert_eq!(ask(&mut other, json!({ "query": "zebrafish7" }))["hits"][0]["session_id"], "a");
    assert_eq!(ask(&mut other, json!({}))["sessions"].as_array().unwrap().len(), 2);
    let read = ask(&mut other, json!({ "session_id": "a" }));
    assert_eq!((read["messages"].as_array().unwrap().len(), read["message_count"].as_u64()), (30, Some(121)));
    let missed = ask(&mut other, json!({ "query": "zebrafisch" }));
    assert_eq!(missed["count"], 0);
    assert!(missed["note"].as_str().unwrap().contains("nothing fits"));
    for bad in [
        json!([1]),
        json!({ "message_id": "x" }),
        json!({ "query": "a", "sort": "best" }),
        json!({ "session_id": "none" }),
    ] {
        assert_eq!(ask(&mut other, bad.clone())["success"], false, "{bad}");
    }
}

#[test]
fn a_shortened_result_names_a_call_that_returns_all_of_it() {
    let home = Home::new();
    let store = home.store();
    let mut all = history(12);
    let long = "0123456789abcdef word\n".repeat(9_000);
    all[3]["content"] = json!(long);
    all.truncate(5);
    all.push(json!({ "role": "user", "content": "Short now." }));
    let mut live = home.open(&store, "a", &all);
    live.set_forced(true);
    live.compact();
    let body = live.write().unwrap();
    let Some(at) = body.find("session_search with message_id ") else { panic!("no pointer in {body}") };
    let number = body[at + 31..].split(' ').next().unwrap();
    let mut text = String::new();
    loop {
        let arguments = json!({ "message_id": number, "offset": text.len() });
        let page: Value = json::from_str(&live.call_tool("session_search", &arguments).unwrap()).unwrap();
        text.push_str(page["message"]["text"].as_str().unwrap());
        if page["message"]["next_offset"].is_null() {
            break;
        }
    }
    assert_eq!(text, long);
}

#[test]
fn pins_hold_through_compactions_and_restarts() {
    let home = Home::new();
    let store = home.store();
    let mut live = home.open(&store, "a", &history(30));
    live.set_pin(PinRule { regex: Some("never touch release-\\d".to_owned()), ..PinRule::default() }).unwrap();
    compact(&mut live);
    drop(live);
    let mut live = home.resume(&store, "a");
    live.append(&json!({ "role": "user", "content": "Go on." }).to_string()).unwrap();
    live.set_forced(true);
    live.compact();
    let document = Document::read(&live.write().unwrap(), None).unwrap();
    let raws: Vec<&str> = document.messages.iter().map(|message| message.raw.as_str()).collect();
    let pinned: Vec<String> =
        history(30).iter().filter(|message| message["role"] == "user").map(Value::to_string).collect();
    assert!(pinned.iter().all(|raw| raws.contains(&raw.as_str())));
}

#[test]
fn the_text_of_rules_files_is_in_every_compacted_context_once() {
    let mut home = Home::new();
    let rules = home.path().join("RULES.md");
    std::fs::write(&rules, "# Rules\n- Never push to main.\n- Answer in German.\n").unwrap();
    home.config.pins.files = vec![rules.display().to_string(), home.path().join("none.md").display().to_string()];
    let store = home.store();
    let mut live = home.open(&store, "a", &history(30));
    assert!(live.log().iter().any(|line| line.contains("none.md")));
    compact(&mut live);
    for turn in 0..3 {
        assert_eq!(live.write().unwrap().matches("Never push to main").count(), 1, "{turn}");
        live.append(
            &json!({ "role": "user", "content": format!("Again {turn}. {}", "words ".repeat(400)) }).to_string(),
        )
        .unwrap();
        live.set_forced(true);
        live.compact();
    }
}

#[test]
fn a_session_that_follows_shows_what_was_carried_over_after_its_instructions() {
    let mut home = Home::new();
    home.config.context.carry_over_depth = Some(0);
    let store = home.store();
    let mut live = home.open(&store, "a", &history(30));
    compact(&mut live);
    let mut next = live.begin_next("b").unwrap();
    next.append(&json!({ "role": "system", "content": "You mend programs." }).to_string()).unwrap();
    next.append(&json!({ "role": "user", "content": "Something new." }).to_string()).unwrap();
    let check = |live: &LiveSession| {
        let document = Document::read(&live.write().unwrap(), None).unwrap();
        let roles: Vec<_> = document.messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles.first(), Some(&"system"));
        assert!(document.messages[1].raw.contains("palimpsest: summary"));
        assert_eq!(document.messages.len(), 3);
    };
    check(&next);
    drop(next);
    check(&home.resume(&store, "b"));
    assert!(store.session("a").unwrap().ended_ms.is_some());
    sound(&store);
}

/// Writes a summary, slowly or not, and counts.
struct Scribe {
    asked: AtomicU32,
}

impl Summariser for Scribe {
    fn route(&self, main: &MainModel, _sizes: &Sizes, _force: bool) -> Result<Route, String> {
        let reason = "the only one there is".to_owned();
        Ok(Route { model: CompletionModel::Auxiliary, name: main.name.clone(), window: 128_000, reason })
    }
    fn complete(&self, ask: &Ask<'_>) -> Answer {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let mut completion = Completion::default();
        completion.text = format!(
            "## Goal\nMend the parts (summary {number} by a model).\n\n## Completed Actions\n1. Read src/part1.rs.\n"
        );
        completion.model = "scribe".to_owned();
        completion.finish_reason = "stop".to_owned();
        let call = Call {
            model: "scribe".to_owned(),
            endpoint: String::new(),
            on: ask.request.model.unwrap_or(CompletionModel::Auxiliary),
            outcome: "answered".to_owned(),
            elapsed_ms: 0,
            prompt_tokens: 0,
            completion_tokens: 0,
            pieces: 1,
        };
        Answer { completion: Ok::<_, EngineError>(completion), calls: vec![call] }
    }
}

#[test]
fn a_compaction_prepared_in_the_background_asks_no_model_when_it_is_due() {
    let home = Home::new();
    let store = home.store();
    let scribe = Arc::new(Scribe { asked: AtomicU32::new(0) });
    let mut live = home.open(&store, "a", &history(2)).with_summariser(Arc::clone(&scribe) as Arc<dyn Summariser>);
    let mut receipts = Vec::new();
    for turn in 2..80 {
        for message in history(turn + 1).split_off(1 + 4 * turn) {
            live.append(&message.to_string()).unwrap();
        }
        let before = scribe.asked.load(Ordering::SeqCst);
        let receipt = live.compact();
        if receipt.action == "compacted" {
            assert_eq!(scribe.asked.load(Ordering::SeqCst), before, "the turn waited for a model");
            receipts.push(receipt);
        }
        let mut usage = Usage::default();
        usage.prompt_tokens = live.session().tokens();
        live.record(&usage);
        live.wait_for_preparation();
        if receipts.len() == 2 {
            break;
        }
    }
    assert_eq!(receipts.len(), 2);
    for receipt in &receipts {
        assert_eq!(json::to_value(receipt).unwrap()["rung"], "prepared");
        assert_eq!(receipt.calls.len(), 1, "{receipt:#?}");
    }
    assert!(live.write().unwrap().contains("by a model"));
    sound(&store);
}

#[test]
fn a_store_that_cannot_be_written_costs_the_compaction_and_not_the_conversation() {
    let home = Home::new();
    let store = home.store();
    let mut live = home.open(&store, "a", &history(30));
    let before = live.write().unwrap();
    // Someone else holds the lease.
    let (_, key) = live.store().map(|(store, key)| (store.clone(), key)).unwrap();
    let lease = store.lease(key, "someone else").unwrap();
    live.set_forced(true);
    let receipt = live.compact();
    assert_eq!(receipt.action, "unchanged");
    assert!(receipt.reason.contains("someone else"), "{}", receipt.reason);
    assert_eq!(live.write().unwrap(), before);
    drop(lease);
    // Someone else compacted meanwhile.
    let mut other = home.resume(&store, "a");
    compact(&mut other);
    let receipt = live.compact();
    assert_eq!(receipt.action, "unchanged");
    assert_eq!(live.write().unwrap(), other.write().unwrap());
    assert!(live.pin(MessageId(1)));
    sound(&store);
}

#[test]
fn summaries_of_another_programs_store_stand_for_their_messages_here() {
    use host_runtime::{Adopted, adopt};
    let home = Home::new();
    let store = home.store();
    let live = home.open(&store, "a", &history(10));
    let (store, key) = live.store().map(|(store, key)| (store.clone(), key)).unwrap();
    let ids: Vec<MessageId> = live.session().view.iter().map(|message| message.id).collect();
    let leaf = |from: usize, to: usize| Adopted {
        depth: 0,
        text: format!("messages {from} to {to}"),
        messages: ids[from..to].to_vec(),
        nodes: Vec::new(),
        model: "another".to_owned(),
    };
    let above = Adopted {
        depth: 1,
        text: "all of it".to_owned(),
        messages: Vec::new(),
        nodes: vec![0, 1],
        model: String::new(),
    };
    let summaries = vec![leaf(1, 9), leaf(9, 17), above, leaf(17, 21)];
    assert_eq!(adopt(&store, key, summaries.clone()).unwrap(), 4);
    assert_eq!(adopt(&store, key, summaries).unwrap(), 0);
    let live = home.resume(&store, "a");
    let shown = live.write().unwrap();
    assert!(shown.contains("all of it") && shown.contains("messages 17 to 21") && !shown.contains("messages 1 to 9"));
    let below = engine_api::RecallRequest::expand(engine_api::NodeId(3), 0, 100);
    assert_eq!(store.recall(key, &below).unwrap().total, 16);
    sound(&store);
}
