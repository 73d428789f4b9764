//! What a compaction and a turn cost on disk: no message is written twice, and a turn of a long history costs what one of
//! a short history does.

use crate::mix;
use crate::state::{self, append};
use engine_api::{MessageId, RecallRequest, RecallSearch, SearchKind};
use host_store::{NewSession, Store};
use std::path::Path;

/// Bytes that a compaction of a large session may write, whatever its size.
const COMPACTION_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the large session: about a million tokens.
const LARGE_BYTES: usize = 4_000_000;
const MESSAGE_BYTES: usize = 4_000;
/// Turns over which the cost of one is measured.
const TURNS: usize = 200;

/// Bytes of the write-ahead log. Asking for a file's size does not open it.
fn wal_bytes(path: &Path) -> u64 {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    std::fs::metadata(name).map_or(0, |data| data.len())
}

/// Text that is like nothing before it, so that it cannot be made much smaller.
fn text(seed: usize, bytes: usize) -> String {
    let mut rng = support::generate::Rng::new(seed as u64);
    let mut out = String::new();
    while out.len() < bytes {
        out.push_str(&format!("{:x} ", rng.next_u64() >> 24));
    }
    out
}

fn said(at: usize, bytes: usize) -> String {
    let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
    format!("{{\"role\":\"{role}\",\"content\":\"number{at}x {}\"}}", text(at, bytes))
}

fn session(store: &Store, count: usize, bytes: usize) -> i64 {
    let key = store.create_session(NewSession { name: "s".to_owned(), ..NewSession::default() }).unwrap().key;
    for from in (0..count).step_by(500) {
        let raws: Vec<String> = (from..count.min(from + 500)).map(|at| said(at, bytes)).collect();
        append(store, key, &raws).unwrap();
    }
    key
}

#[test]
fn ten_compactions_add_no_message_and_each_is_found_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = state::open(&folder.path().join("s.db")).unwrap();
    let key = session(&store, 60, 1_500);
    let before = state::read(&store)["s"].said.clone();
    for _ in 0..10 {
        // Those that find nothing more to take away change nothing, which is what this is about too.
        let _ = mix::compact(&store, "s", true);
    }
    assert!(!store.views(key).unwrap().is_empty());
    assert_eq!(store.counts().unwrap()["messages"], 60);
    assert_eq!(state::read(&store)["s"].said, before);
    for at in 0..60 {
        let mut search = RecallSearch::new(format!("number{at}x"));
        search.kind = Some(SearchKind::Messages);
        let reply = store.recall(key, &RecallRequest::search(search)).unwrap();
        assert_eq!((reply.total, reply.hits.len()), (1, 1), "message {at}");
    }
    assert_eq!(store.verify(None, true).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_compaction_of_a_million_tokens_writes_little_and_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let count = LARGE_BYTES / MESSAGE_BYTES;
    // Closed and opened again, the store begins with an empty log.
    drop({
        let store = state::open(&path).unwrap();
        session(&store, count, MESSAGE_BYTES);
        store
    });
    let store = state::open(&path).unwrap();
    let before = (wal_bytes(&path), store.counts().unwrap());
    mix::compact(&store, "s", true).unwrap();
    let after = (wal_bytes(&path), store.counts().unwrap());
    let written = after.0 - before.0;
    std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("{written} bytes were written for a compaction of {LARGE_BYTES} bytes\n").as_bytes(),
    )
    .unwrap();
    assert!(0 < written && written <= COMPACTION_BYTES_MAX, "{written} bytes were written");
    assert_eq!(before.1["messages"], after.1["messages"]);
    assert_eq!(before.1["views"] + 1, after.1["views"]);
    let key = store.session("s").unwrap().key;
    assert_eq!(store.rows(key, MessageId(0), u64::MAX).unwrap().len(), count);
}

#[test]
fn a_turn_of_a_long_history_writes_what_one_of_a_short_history_does() {
    let cost = |count: usize| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        drop({
            let store = state::open(&path).unwrap();
            session(&store, count, 60);
            store
        });
        let store = state::open(&path).unwrap();
        let key = store.session("s").unwrap().key;
        let before = wal_bytes(&path);
        for at in 0..TURNS {
            append(&store, key, &[said(count + at, 60)]).unwrap();
        }
        wal_bytes(&path) - before
    };
    let (short, long) = (cost(1_000), cost(20_000));
    std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("{TURNS} turns write {short} bytes after 1,000 messages and {long} after 20,000\n").as_bytes(),
    )
    .unwrap();
    assert!(long <= short * 2, "{short} bytes after 1,000 messages, {long} after 20,000");
}
