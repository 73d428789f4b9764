//! Looking things up in the store.

use super::*;
use engine_api::{ErrorKind, RecallRequest, RecallSearch};

#[test]
fn what_a_summary_stands_for_comes_back_whole_and_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, ids) = session(&store, "a", 12);
    compact(&store, key, 6);
    compact(&store, key, 2);
    let first = store.recall(key, &RecallRequest::expand(NodeId(2), 0, 7)).unwrap();
    assert_eq!((first.total, first.hits.len(), first.has_more), (10, 7, true));
    assert_eq!(first.hits[0].message, ids[0]);
    assert_eq!(first.hits[0].node, NodeId(2));
    let rest = store.recall(key, &RecallRequest::expand(NodeId(2), 7, 7)).unwrap();
    assert_eq!((rest.hits.len(), rest.has_more), (3, false));
    let direct = RecallRequest::Expand { node: NodeId(2), session: String::new(), direct: true, offset: 0, limit: 0 };
    let direct = store.recall(key, &direct).unwrap();
    assert_eq!(direct.hits[0].node, NodeId(1));
    assert_eq!(direct.hits[0].message, MessageId(0));
    assert_eq!(direct.hits.len(), 5);
    let described = store.recall(key, &RecallRequest::describe(NodeId(2))).unwrap().node;
    assert_eq!((described["messages"].as_u64(), described["live"].as_bool()), (Some(10), Some(true)));
    let overview = store.recall(key, &RecallRequest::Overview { session: String::new() }).unwrap().node;
    assert_eq!(overview["compacted_messages"], 10);
    assert_eq!(store.recall(key, &RecallRequest::describe(NodeId(9))).unwrap_err().kind, ErrorKind::Input);
}

#[test]
fn a_message_comes_in_pages_of_text_or_as_the_bytes_it_came_in() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 1);
    let long = said("user", &"wörter und mehr ".repeat(100));
    let id = store.append(key, [(&long, None)]).unwrap()[0];
    let ask = |raw, offset, limit| {
        store.recall(key, &RecallRequest::Get { message: id, session: String::new(), raw, offset, limit }).unwrap()
    };
    assert_eq!(ask(true, 0, 0).hits[0].text, long.raw);
    let mut text = String::new();
    loop {
        let page = ask(false, text.len() as u64, 100);
        text.push_str(&page.hits[0].text);
        if !page.has_more {
            break;
        }
    }
    assert_eq!(text, "wörter und mehr ".repeat(100));
}

#[test]
fn a_session_is_read_in_pages_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, ids) = session(&store, "a", 25);
    let (other, _) = session(&store, "b", 1);
    let mut seen = Vec::new();
    loop {
        let after = seen.last().copied().unwrap_or_default();
        let load = RecallRequest::Load { session: "a".into(), after, limit: 10, roles: Vec::new() };
        let page = store.recall(other, &load).unwrap();
        seen.extend(page.hits.iter().map(|hit| hit.message));
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, ids);
    let sessions = store.recall(key, &RecallRequest::Sessions { offset: 0, limit: 0 }).unwrap();
    assert_eq!(sessions.total, 2);
}

#[test]
fn a_search_finds_each_message_once_however_often_it_was_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, ids) = session(&store, "a", 30);
    for keep in [20, 10, 5] {
        compact(&store, key, keep);
    }
    let mut search = RecallSearch::new("\"number 7\"");
    search.kind = Some(engine_api::SearchKind::Messages);
    let found = store.recall(key, &RecallRequest::search(search.clone())).unwrap();
    assert_eq!(found.hits.iter().map(|hit| hit.message).collect::<Vec<_>>(), vec![ids[7]]);
    assert!(!found.hits[0].live);
    assert_eq!(found.hits[0].node, NodeId(3));
    search.compacted_only = true;
    search.pattern = "\"number 29\"".into();
    assert_eq!(store.recall(key, &RecallRequest::search(search)).unwrap().total, 0);
}
