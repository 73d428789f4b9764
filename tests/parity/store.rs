//! Golden 15: what Hermes' session store does, and where ours does better.

use crate::cases;
use engine_api::{Flags, Message, MessageId, NodeId, RecallRequest, RecallSearch, Role, SearchKind, SummaryKind};
use host_runtime::{WireReader, session_search};
use host_store::{Commit, Item, NewNode, NewSession, Reader as _, Store};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;

fn store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("sessions.db"), Arc::new(WireReader)).unwrap();
    (folder, store)
}

fn message(said: &Value) -> Message {
    let mut message = WireReader.message(engine_api::Dialect::OpenAiChat, &said.to_string()).unwrap();
    if message.role == Role::User {
        message.flags = message.flags.with(Flags::REAL_USER);
    }
    message
}

fn session(store: &Store, name: &str, said: &[Value]) -> (i64, Vec<MessageId>) {
    let key = store.create_session(NewSession { name: name.into(), ..NewSession::default() }).unwrap().key;
    let messages: Vec<Message> = said.iter().map(message).collect();
    let ids = store.append(key, messages.iter().map(|message| (message, None))).unwrap();
    (key, ids)
}

/// Puts a summary in place of all but the newest two messages of what is seen.
fn compact(store: &Store, key: i64, summary: &Value) {
    let loaded = store.load(key, 0).unwrap();
    let (old, tail) = loaded.messages.split_at(loaded.messages.len().saturating_sub(2));
    let node = NewNode {
        id: loaded.next_node,
        depth: 0,
        kind: SummaryKind::Iterative,
        text: summary["content"].as_str().unwrap().to_owned(),
        messages: old.iter().filter(|row| row.node == NodeId(0)).map(|row| row.id).collect(),
        nodes: old.iter().filter(|row| row.node != NodeId(0)).map(|row| row.node).collect(),
        tokens: 1,
        source_tokens: 10,
        model: "offline".into(),
    };
    let written = Item::Written {
        raw: summary.to_string(),
        role: Role::User,
        flags: Flags::SYNTHETIC.with(Flags::SUMMARY),
        node: node.id,
        stands_for: None,
        demoted: Vec::new(),
    };
    let items = std::iter::once(written).chain(tail.iter().map(|row| Item::Kept(row.id))).collect();
    let (branch, view, upto) = (loaded.branch, loaded.view, loaded.upto);
    let lease = store.lease(key, "parity").unwrap();
    let receipt = "{}".to_owned();
    store
        .commit(&lease, Commit { branch, view, upto, items, nodes: vec![node], receipt, ..Commit::default() })
        .unwrap();
}

fn states(store: &Store, key: i64) -> Vec<(bool, bool)> {
    let rows = store.rows(key, MessageId(0), 1_000).unwrap();
    rows.iter().map(|(_, state)| (state.active, state.compacted)).collect()
}

fn found(store: &Store, key: i64, query: &str) -> u64 {
    let mut search = RecallSearch::new(query);
    search.kind = Some(SearchKind::Messages);
    store.recall(key, &RecallRequest::search(search)).unwrap().total
}

fn ask(store: &Store, (key, name): (i64, &str), arguments: Value) -> Value {
    serde_json::from_str(&session_search::answer(store, key, name, &arguments)).unwrap()
}

#[test]
fn archived_messages_stay_one_row_each_and_are_found_also_from_the_same_session() {
    let all = cases("15-session-store");
    let (_folder, store) = store();
    let input = &all[0]["input"];
    let (key, ids) = session(&store, "S1", input["append"].as_array().unwrap());
    let (other, _) = session(&store, "OTHER", &[json!({ "role": "user", "content": "hello" })]);
    compact(&store, key, &input["archive_and_compact"][0]);

    // What is live is the same.
    let live: Vec<Value> =
        store.load(key, 0).unwrap().messages.iter().map(|row| serde_json::from_str(&row.raw).unwrap()).collect();
    assert_eq!(json!(live), all[0]["observed"]["live"]);
    // Hermes copies the two kept messages (7 rows); here each is one row, and the kept ones are active.
    assert_eq!(all[0]["observed"]["rows_id_role_active_compacted_content"].as_array().unwrap().len(), 7);
    assert_eq!(states(&store, key), vec![(false, true), (false, true), (true, false), (true, false)]);

    // Found from another session, with the same snippet.
    let discovered = ask(&store, (other, "OTHER"), json!({ "query": "zebrafish", "limit": 1, "sort": "oldest" }));
    let hit = &all[1]["observed"]["hits"][0];
    assert_eq!(discovered["hits"][0]["session_id"], hit[0]);
    assert_eq!(discovered["hits"][0]["snippet"], hit[2]);
    // Hermes refuses to scroll in the same session, although what was archived is not in its context; here it works.
    assert_eq!(all[2]["observed"]["success"], false);
    let scrolled = ask(&store, (key, "S1"), json!({ "session_id": "S1", "around_message_id": ids[0], "window": 2 }));
    assert_eq!((scrolled["success"].as_bool(), scrolled["count"].as_u64()), (Some(true), Some(3)));
    let scrolled =
        ask(&store, (other, "OTHER"), json!({ "session_id": "S1", "around_message_id": ids[0], "window": 2 }));
    assert_eq!(scrolled["success"], all[3]["observed"]["success"]);

    // Three more compactions: Hermes has 16 rows and finds "done" five times; here no row is added, and it is found once.
    for _ in 0..3 {
        compact(&store, key, &input["archive_and_compact"][0]);
    }
    assert_eq!(all[4]["observed"]["search_hits_for_'done'"], 5);
    assert_eq!((states(&store, key).len(), found(&store, key, "done")), (4, 1));
}

#[test]
fn what_was_rewound_is_hidden_and_stays_in_the_store() {
    let all = cases("15-session-store");
    let (_folder, store) = store();
    let said: Vec<Value> =
        [("user", "first"), ("assistant", "done one"), ("user", "second"), ("assistant", "done two")]
            .iter()
            .map(|(role, content)| json!({ "role": role, "content": content }))
            .collect();
    let (key, _) = session(&store, "S2", &said);
    let kept: Vec<Message> = said[..2].iter().map(message).collect();
    store.align(key, &kept.iter().collect::<Vec<_>>()).unwrap();
    let expected: Vec<(bool, bool)> = all[5]["observed"]["rows_role_active_compacted"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row[1] == 1, row[2] == 1))
        .collect();
    assert_eq!(states(&store, key), expected);
    assert_eq!(found(&store, key, "two"), 0);
    // Hermes finds rewound rows for short Chinese words, against its own contract.
    let last = all.last().unwrap();
    assert_eq!(
        (last["observed"]["hits_in_S2"].as_u64(), last["observed"]["expected_by_contract"].as_u64()),
        (Some(1), Some(0))
    );
    let chinese =
        [json!({ "role": "user", "content": "部署 服务" }), json!({ "role": "assistant", "content": "好的" })];
    let (key, _) = session(&store, "S3", &chinese);
    assert_eq!(found(&store, key, "部署"), 1);
    let other = message(&json!({ "role": "user", "content": "别的" }));
    store.align(key, &[&other]).unwrap();
    assert_eq!(found(&store, key, "部署"), 0);
    assert_eq!(store.verify(None, true).unwrap().problems, Vec::<String>::new());
}

#[test]
fn one_holder_compacts_at_a_time() {
    let observed = cases("15-session-store")[6]["observed"].clone();
    let (_folder, store) = store();
    let (key, _) = session(&store, "S1", &[json!({ "role": "user", "content": "x" })]);
    let first = store.lease(key, "A");
    assert_eq!(first.is_ok(), observed["acquire A"]);
    assert_eq!(store.lease(key, "B").is_ok(), observed["acquire B while A live"]);
    let first = first.unwrap();
    assert_eq!(first.renew().is_ok(), observed["refresh A"]);
    first.release();
    assert!(store.lease(key, "B").is_ok());
}

#[test]
fn queries_that_hermes_has_to_clean_up_find_what_they_say() {
    let (_folder, store) = store();
    let texts = [
        "chat-send",
        "\"unbalanced",
        "a AND",
        "C++",
        "P2.2",
        "(x)",
        "OR x",
        "my-app.config.ts",
        "\"exact phrase\" more",
    ];
    let golden: Vec<Value> =
        cases("15-session-store").into_iter().filter(|case| case["input"].get("fts_query").is_some()).collect();
    assert_eq!(golden.len(), texts.len());
    let said: Vec<Value> =
        texts.iter().map(|text| json!({ "role": "user", "content": format!("see {text} there") })).collect();
    let (key, ids) = session(&store, "S1", &said);
    for (case, id) in golden.iter().zip(ids) {
        let query = case["input"]["fts_query"].as_str().unwrap();
        let mut search = RecallSearch::new(query);
        search.kind = Some(SearchKind::Messages);
        let reply = store.recall(key, &RecallRequest::search(search)).unwrap();
        assert!(reply.hits.iter().any(|hit| hit.message == id), "{query}: {:?}", reply.hits);
    }
}
