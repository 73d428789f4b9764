//! Compactions, the way back, and going on under another id.

use super::*;
use crate::{Child, StoreError};

#[test]
fn a_compaction_adds_a_view_and_no_message() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 40);
    for _ in 0..10 {
        compact(&store, key, 4);
    }
    let counts = store.counts().unwrap();
    assert_eq!(counts["messages"], 40);
    assert_eq!(counts["views"], 10);
    assert_eq!(view(&store, key).len(), 5);
    assert_sound(&store);
}

#[test]
fn undo_makes_the_view_before_live_byte_for_byte_and_redo_goes_forward() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 10);
    let whole = view(&store, key);
    let first = compact(&store, key, 4).view;
    let after_first = view(&store, key);
    compact(&store, key, 2);
    assert_eq!(store.undo(key).unwrap(), Some(first));
    assert_eq!(view(&store, key), after_first);
    assert_eq!(store.undo(key).unwrap(), None);
    assert_eq!(view(&store, key), whole);
    assert_eq!(store.undo(key), Err(StoreError::NothingToUndo("a".into())));
    store.go_to_view(key, first).unwrap();
    assert_eq!(view(&store, key), after_first);
    assert_sound(&store);
}

#[test]
fn what_was_said_after_a_compaction_is_there_after_an_undo() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 10);
    compact(&store, key, 2);
    let late = said("user", "late");
    store.append(key, [(&late, None)]).unwrap();
    assert_eq!(view(&store, key).len(), 4);
    store.undo(key).unwrap();
    assert_eq!(view(&store, key).len(), 11);
    assert_eq!(view(&store, key).last(), Some(&late.raw));
    assert_sound(&store);
}

#[test]
fn what_another_adds_during_a_compaction_follows_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let (ours, theirs) = (open(&path), open(&path));
    let (key, _) = session(&ours, "a", 10);
    let lease = ours.lease(key, "us").unwrap();
    let commit = summarise(&ours, key, 2);
    let late = said("user", "said meanwhile");
    theirs.append(key, [(&late, None)]).unwrap();
    ours.commit(&lease, commit).unwrap();
    assert_eq!(view(&ours, key).len(), 4);
    assert_eq!(view(&ours, key).last(), Some(&late.raw));
    assert_sound(&ours);
}

#[test]
fn only_the_holder_of_the_lease_compacts_and_only_from_the_live_view() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 20);
    let lease = store.lease(key, "first").unwrap();
    assert!(matches!(store.lease(key, "second"), Err(StoreError::Leased { holder, .. }) if holder == "first"));
    let stale = summarise(&store, key, 2);
    store.commit(&lease, summarise(&store, key, 8)).unwrap();
    assert_eq!(store.commit(&lease, stale), Err(StoreError::Moved("a".into())));
    lease.renew().unwrap();
    lease.release();
    let second = store.lease(key, "second").unwrap();
    drop(second);
    let third = store.lease(key, "third").unwrap();
    let late = summarise(&store, key, 2);
    let token = third.token;
    third.release();
    let fourth = store.lease(key, "fourth").unwrap();
    assert!(fourth.token > token);
    store.commit(&fourth, late).unwrap();
    assert_sound(&store);
}

#[test]
fn a_rotation_continues_in_one_child_with_all_that_was_said() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 12);
    store.describe_session(key, Some("{\"model\":\"m\"}".into()), None, Some("fix".into())).unwrap();
    store.put_engine_state(key, "lcm", vec![("k".into(), b"v".to_vec())]).unwrap();
    compact(&store, key, 6);
    let lease = store.lease(key, "us").unwrap();
    let commit = summarise(&store, key, 2);
    let late = said("user", "said meanwhile");
    store.append(key, [(&late, None)]).unwrap();
    let child = Child { name: "b".into(), title: None };
    let (row, _) = store.rotate(&lease, child.clone(), commit.clone()).unwrap();
    assert_eq!((row.parent.as_deref(), row.title.as_str(), row.kinship.as_str()), (Some("a"), "fix #2", "rotation"));
    assert_eq!(view(&store, row.key).len(), 4);
    assert_eq!(view(&store, row.key).last(), Some(&late.raw));
    assert_eq!(store.engine_state(row.key, "lcm").unwrap(), vec![("k".to_owned(), b"v".to_vec())]);
    assert_eq!(store.session("a").unwrap().end_reason, "compression");
    let again = Child { name: "c".into(), title: None };
    assert_eq!(store.rotate(&lease, again, commit), Err(StoreError::Moved("a".into())));
    assert_eq!(store.counts().unwrap()["messages"], 13);
    store.append(row.key, [(&said("assistant", "goes on"), None)]).unwrap();
    assert_eq!(view(&store, row.key).len(), 5);
    drop(lease);
    compact(&store, row.key, 1);
    assert_sound(&store);
}

#[test]
fn a_fork_shares_what_was_said_and_goes_its_own_way() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 12);
    compact(&store, key, 6);
    let fork = store.fork(key, Child { name: "f".into(), title: None }).unwrap();
    assert_eq!(view(&store, fork.key), view(&store, key));
    store.append(fork.key, [(&said("user", "other way"), None)]).unwrap();
    assert_eq!(view(&store, fork.key).len(), view(&store, key).len() + 1);
    compact(&store, fork.key, 2);
    assert_eq!(store.counts().unwrap()["messages"], 13);
    let (next, carried) = store.begin_next(key, Child { name: "n".into(), title: None }, Some(2)).unwrap();
    assert_eq!((carried, view(&store, next.key)), (0, Vec::<String>::new()));
    let (next, carried) = store.begin_next(key, Child { name: "m".into(), title: None }, Some(0)).unwrap();
    store.append(next.key, [(&said("user", "anew"), None)]).unwrap();
    assert_eq!((carried, view(&store, next.key).len()), (1, 2));
    let below = engine_api::RecallRequest::expand(NodeId(1), 0, 0);
    assert_eq!(store.recall(next.key, &below).unwrap().total, 6);
    assert_eq!(store.session("a").unwrap().end_reason, "new");
    assert_sound(&store);
}

#[test]
fn sweeping_keeps_what_was_said_and_the_newest_views() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 40);
    for keep in [30, 25, 20, 15, 10, 5] {
        compact(&store, key, keep);
    }
    let now = view(&store, key);
    let counted = store.sweep(2, true).unwrap();
    assert_eq!(store.counts().unwrap()["views"], 6);
    let swept = store.sweep(2, false).unwrap();
    assert_eq!(swept, counted);
    assert_eq!(swept.views, 3);
    assert_eq!(view(&store, key), now);
    assert_eq!(store.counts().unwrap()["messages"], 40);
    store.undo(key).unwrap();
    store.undo(key).unwrap();
    store.compact_file().unwrap();
    assert_sound(&store);
}

#[test]
fn the_words_of_the_user_that_are_out_of_sight_are_loaded_newest_first_up_to_a_bound() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, ids) = session(&store, "a", 20);
    compact(&store, key, 2);
    let words = store.load(key, usize::MAX).unwrap().words;
    assert_eq!(
        words.iter().map(|row| row.id).collect::<Vec<_>>(),
        ids[..18].iter().step_by(2).copied().collect::<Vec<_>>()
    );
    assert_eq!(store.load(key, 1).unwrap().words.len(), 1);
}

#[test]
fn a_compaction_that_does_not_know_of_a_message_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 10);
    let mut commit = summarise(&store, key, 2);
    let theirs = store.append(key, [(&said("user", "of another process"), None)]).unwrap();
    let ours = store.append(key, [(&said("user", "of this one"), None)]).unwrap();
    // As this process sees it: its own message follows what it knew, and the other's is not there.
    commit.items.push(Item::Kept(ours[0]));
    commit.upto = ours[0];
    let lease = store.lease(key, "us").unwrap();
    assert_eq!(store.commit(&lease, commit.clone()), Err(StoreError::Moved("a".into())));
    commit.items.insert(commit.items.len() - 1, Item::Kept(theirs[0]));
    store.commit(&lease, commit).unwrap();
    assert_eq!(view(&store, key).len(), 5);
    assert_sound(&store);
}
