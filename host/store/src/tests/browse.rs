//! Looking at a store: transcripts, the two sides of a compaction, the way forward after an undo.

use super::*;
use crate::{Child, StoreError};

#[test]
fn a_transcript_has_every_message_of_every_branch_and_pages() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let key = store.create_session(NewSession { name: "a".into(), ..NewSession::default() }).unwrap().key;
    let mut history: Vec<Message> = (0..10).map(|at| said("user", &format!("number {at}"))).collect();
    store.align(key, &history.iter().collect::<Vec<_>>()).unwrap();
    history.truncate(6);
    history.push(said("user", "another way"));
    store.align(key, &history.iter().collect::<Vec<_>>()).unwrap();
    compact(&store, key, 2);
    let (all, total) = store.transcript(key, MessageId(0), 100).unwrap();
    assert_eq!((all.len(), total), (11, 11));
    let count = |active, compacted| {
        all.iter().filter(|(_, state)| (state.active, state.compacted) == (active, compacted)).count()
    };
    assert_eq!((count(true, false), count(false, true), count(false, false)), (2, 5, 4));
    let (page, _) = store.transcript(key, all[3].0.id, 4).unwrap();
    let ids = |rows: &[(crate::Row, crate::RowState)]| rows.iter().map(|(row, _)| row.id).collect::<Vec<_>>();
    assert_eq!(ids(&page), ids(&all[4..8]));
    assert_eq!(store.branch_messages(key).unwrap().len(), 7);
}

#[test]
fn the_sides_of_a_compaction_stay_what_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, said_ids) = session(&store, "a", 10);
    let shown = |store: &Store| store.load(key, 0).unwrap().messages.iter().map(|row| row.id).collect::<Vec<_>>();
    let first = compact(&store, key, 4).view;
    let after_first = shown(&store);
    // Without a message between, what the host wrote has greater numbers than all that was said.
    let second = compact(&store, key, 2).view;
    let after_second = shown(&store);
    let late = said("user", "late");
    store.append(key, [(&late, None)]).unwrap();
    let sides = store.sides(first).unwrap();
    assert_eq!((sides.before, &sides.after), (said_ids, &after_first));
    let sides = store.sides(second).unwrap();
    assert_eq!((sides.before, sides.after), (after_first, after_second));
    assert!(matches!(store.sides(77), Err(StoreError::Invalid(_))));
}

#[test]
fn the_side_before_a_rotation_is_what_the_parent_showed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, ids) = session(&store, "a", 10);
    let lease = store.lease(key, "us").unwrap();
    let child = Child { name: "b".into(), title: None };
    let (_, committed) = store.rotate(&lease, child, summarise(&store, key, 3)).unwrap();
    let sides = store.sides(committed.view).unwrap();
    assert_eq!((sides.before, sides.after.len()), (ids, 4));
}

#[test]
fn the_way_forward_is_the_newest_view_that_follows_the_live_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 20);
    assert_eq!(store.next_view(key).unwrap(), None);
    let first = compact(&store, key, 8).view;
    let second = compact(&store, key, 4).view;
    assert_eq!(store.next_view(key).unwrap(), None);
    store.undo(key).unwrap();
    assert_eq!(store.next_view(key).unwrap(), Some(second));
    store.undo(key).unwrap();
    assert_eq!(store.next_view(key).unwrap(), Some(first));
    let other = compact(&store, key, 2).view;
    store.undo(key).unwrap();
    assert_eq!(store.next_view(key).unwrap(), Some(other));
}

#[test]
fn facts_of_the_file_are_those_of_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    session(&store, "a", 20);
    let facts = store.file_facts().unwrap();
    assert!(facts.schema >= 1 && facts.bytes > 0 && facts.free_bytes < facts.bytes, "{facts:?}");
}
