//! Out and in again.

use super::*;
use crate::{Child, StoreError};

fn filled(store: &Store) -> i64 {
    let (key, _) = session(store, "a", 30);
    compact(store, key, 10);
    compact(store, key, 4);
    store.put_pin(key, "{\"role\":\"user\"}".into()).unwrap();
    store.put_engine_state(key, "lcm", vec![("k".into(), vec![0, 255])]).unwrap();
    store.fork(key, Child { name: "f".into(), title: None }).unwrap();
    key
}

fn lines(store: &Store) -> Vec<u8> {
    let mut out = Vec::new();
    store.export(None, &mut out).unwrap();
    out
}

#[test]
fn an_empty_store_that_reads_an_export_gives_the_same_export() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    filled(&store);
    let out = lines(&store);
    let other = open(&dir.path().join("o.db"));
    let carried = other.import(&mut out.as_slice()).unwrap();
    assert_eq!((carried.sessions, carried.messages), (2, 30));
    assert_eq!(String::from_utf8(lines(&other)).unwrap(), String::from_utf8(out).unwrap());
    assert_sound(&other);
    other.undo(other.session("a").unwrap().key).unwrap();
}

#[test]
fn a_store_with_other_sessions_takes_an_export_in_and_each_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (open(&dir.path().join("s.db")), open(&dir.path().join("o.db")));
    let key = filled(&store);
    let (theirs, _) = session(&other, "theirs", 8);
    compact(&other, theirs, 2);
    other.import(&mut lines(&store).as_slice()).unwrap();
    assert_eq!(view(&other, other.session("a").unwrap().key), view(&store, key));
    assert_sound(&other);
    let again = other.import(&mut lines(&store).as_slice());
    assert_eq!(again, Err(StoreError::SessionExists("a".into())));
    assert_sound(&other);
}

#[test]
fn lines_of_nobody_are_refused_with_their_number() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    filled(&store);
    let good = String::from_utf8(lines(&store)).unwrap();
    for bad in ["", "{}", "no json", "{\"type\":\"palimpsest_store\",\"form\":99}"] {
        let other = open(&dir.path().join("bad.db"));
        assert!(other.import(&mut bad.as_bytes()).is_err(), "{bad}");
    }
    let other = open(&dir.path().join("bad.db"));
    let tampered = good.replacen("number 3\\\"", "number 4\\\"", 1);
    assert_ne!(tampered, good);
    let refused = other.import(&mut tampered.as_bytes()).unwrap_err().to_string();
    assert!(refused.starts_with("line ") && refused.contains("hash"), "{refused}");
    assert_eq!(other.counts().unwrap()["messages"], 0);
}
