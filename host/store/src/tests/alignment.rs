//! Resent histories: nothing is stored twice, nothing is lost.

use super::*;
use crate::align::align;
use crate::{Change, KnownPrefix};
use proptest::prelude::*;

fn resend(store: &Store, key: i64, messages: &[Message]) -> crate::Alignment {
    store.align(key, &messages.iter().collect::<Vec<_>>()).unwrap()
}

fn history(count: usize) -> Vec<Message> {
    let mut all = vec![said("system", "you are helpful")];
    all.extend((1..count).map(|at| said(if at % 2 == 1 { "user" } else { "assistant" }, &format!("number {at}"))));
    all
}

fn rows(store: &Store) -> u64 {
    store.counts().unwrap()["messages"]
}

/// Opens a store with a session of 21 messages.
fn stored() -> (tempfile::TempDir, Store, i64, Vec<Message>) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let key = store.create_session(NewSession { name: "a".into(), ..NewSession::default() }).unwrap().key;
    let all = history(21);
    assert_eq!(resend(&store, key, &all).change, Change::Appended);
    (dir, store, key, all)
}

#[test]
fn a_history_that_only_grows_adds_what_is_new() {
    let (_dir, store, key, mut all) = stored();
    assert_eq!((resend(&store, key, &all).change, rows(&store)), (Change::Same, 21));
    all.push(said("user", "next"));
    let found = resend(&store, key, &all);
    assert_eq!((found.change, found.added, rows(&store)), (Change::Appended, 1, 22));
}

#[test]
fn each_shape_of_a_restart_adds_only_what_is_new_and_loses_nothing() {
    type Shape = fn(&mut Vec<Message>);
    let shapes: [(&str, Shape, u64); 8] = [
        ("same", |_| {}, 0),
        ("system prompt", |all| all[0] = said("system", "you are brief"), 1),
        ("undo", |all| all.truncate(15), 0),
        ("edited last", |all| all[20] = said("assistant", "edited"), 1),
        ("trimmed head", |all| drop(all.drain(1..9)), 0),
        ("suffix note", |all| all[19] = said("user", "number 19\n\n[note: the time is 12:00]"), 1),
        ("foreign summary", |all| drop(all.splice(1..13, [said("user", "Summary of the conversation so far: …")])), 1),
        ("short stale snapshot", |all| all.truncate(9), 0),
    ];
    for (name, change, expected) in shapes {
        let (_dir, store, key, mut all) = stored();
        change(&mut all);
        all.push(said("user", "the new turn"));
        resend(&store, key, &all);
        assert_eq!(rows(&store), 21 + expected + 1, "{name}");
        let shown = view(&store, key);
        let sent: Vec<&str> = all.iter().map(|message| message.raw.as_str()).collect();
        // What the client left out at its head still belongs to the conversation.
        assert!(sent.iter().all(|raw| shown.iter().any(|one| one == raw)), "{name}");
        if name != "trimmed head" {
            assert_eq!(shown, sent, "{name}");
        }
        // A second time it is known.
        resend(&store, key, &all);
        assert_eq!(rows(&store), 21 + expected + 1, "{name} again");
        assert_sound(&store);
    }
}

#[test]
fn a_view_goes_over_to_the_branch_as_far_as_it_holds() {
    let (_dir, store, key, mut all) = stored();
    compact(&store, key, 6);
    assert_eq!(view(&store, key).len(), 7);
    // The edit is in the tail: the summary still holds.
    all[18] = said("assistant", "edited");
    resend(&store, key, &all);
    let shown = view(&store, key);
    assert_eq!(shown.len(), 7);
    assert!(shown[0].contains("summary 1"));
    // The edit is in what the summary stands for: it says what was not said, so the messages are shown.
    all[3] = said("user", "something else");
    resend(&store, key, &all);
    assert_eq!(view(&store, key), all.iter().map(|message| message.raw.clone()).collect::<Vec<_>>());
    assert_sound(&store);
}

#[test]
fn a_client_that_sends_back_what_the_host_wrote_changes_nothing() {
    let (_dir, store, key, _) = stored();
    compact(&store, key, 6);
    let shown: Vec<Message> = store
        .load(key, 0)
        .unwrap()
        .messages
        .iter()
        .map(|row| Plain.message(Dialect::OpenAiChat, &row.raw).unwrap())
        .collect();
    let mut sent = shown.clone();
    sent.push(said("user", "and on"));
    assert_eq!(resend(&store, key, &sent).change, Change::Appended);
    assert_eq!(rows(&store), 22);
    assert_eq!(view(&store, key), sent.iter().map(|message| message.raw.clone()).collect::<Vec<_>>());
    // Edited in its tail, the summary stays.
    sent[3] = said("assistant", "edited");
    assert_eq!(resend(&store, key, &sent).change, Change::Edited);
    assert_eq!(rows(&store), 23);
    assert_eq!(view(&store, key), sent.iter().map(|message| message.raw.clone()).collect::<Vec<_>>());
    assert_sound(&store);
}

#[test]
fn going_back_to_another_branch_stores_nothing() {
    let (_dir, store, key, all) = stored();
    let mut other = all.clone();
    other[20] = said("assistant", "edited");
    resend(&store, key, &other);
    assert_eq!(rows(&store), 22);
    assert_eq!(resend(&store, key, &all).change, Change::Rewound);
    assert_eq!(rows(&store), 22);
    assert_eq!(view(&store, key), all.iter().map(|message| message.raw.clone()).collect::<Vec<_>>());
    assert_sound(&store);
}

#[test]
fn the_same_words_said_again_are_said_again() {
    let (_dir, store, key, mut all) = stored();
    for _ in 0..3 {
        all.push(said("user", "ok"));
    }
    assert_eq!(resend(&store, key, &all).added, 3);
    assert_eq!(store.counts().unwrap()["bodies"], 22);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn places_rise_and_are_of_the_same_message(
        old in proptest::collection::vec(0u64..12, 0..40),
        new in proptest::collection::vec(0u64..12, 0..40),
    ) {
        let path: Vec<(u64, u64)> = old.iter().enumerate().map(|(at, identity)| (at as u64 + 1, *identity)).collect();
        let found = align(&path, &new);
        let places: Vec<usize> = found.iter().flatten().copied().collect();
        prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
        for (to, at) in found.iter().enumerate() {
            if let Some(at) = at {
                prop_assert_eq!(old[*at], new[to]);
            }
        }
        // As many as the longest common subsequence has.
        let mut table = vec![vec![0usize; new.len() + 1]; old.len() + 1];
        for row in (0..old.len()).rev() {
            for column in (0..new.len()).rev() {
                table[row][column] = if old[row] == new[column] { table[row + 1][column + 1] + 1 } else { table[row + 1][column].max(table[row][column + 1]) };
            }
        }
        prop_assert_eq!(places.len(), table[0][0]);
    }

    /// A host that does anything: what was sent last is what is shown, and each message is stored once.
    #[test]
    fn any_behaviour_of_a_host_shows_what_it_sent(
        steps in proptest::collection::vec((0u8..7, 0usize..30, 0usize..30), 1..12),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir.path().join("s.db"));
        let key = store.create_session(NewSession { name: "a".into(), ..NewSession::default() }).unwrap().key;
        let mut all = history(6);
        let mut fresh = 0;
        for (kind, one, two) in steps {
            let at = one % all.len().max(1);
            let mut trimmed = false;
            match kind {
                0 | 1 => { fresh += 1; all.push(said("user", &format!("fresh {fresh}"))); }
                2 => all.truncate(at.max(1)),
                3 => { fresh += 1; all[at] = said("assistant", &format!("edit {fresh}")); }
                4 => { fresh += 1; all.insert(at, said("user", &format!("note {fresh}"))); }
                5 => trimmed = true,
                _ => { let to = (at + two % 5).min(all.len() - 1); if to > at { all.drain(at..to); } }
            }
            if trimmed && view(&store, key).len() > 4 {
                compact(&store, key, 1 + two % 3);
            }
            resend(&store, key, &all);
            let shown = view(&store, key);
            let loaded = store.load(key, 0).unwrap();
            if loaded.view.is_none() {
                prop_assert!(all.iter().all(|message| shown.contains(&message.raw)));
            }
            let found = store.verify(None, false).unwrap();
            prop_assert_eq!(found.problems, Vec::<String>::new());
        }
    }
}

#[test]
fn a_conversation_without_an_id_is_found_by_how_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (first, _) = session(&store, "a", 6);
    let (second, _) = session(&store, "b", 4);
    store.put_root(first, 7).unwrap();
    store.put_root(first, 7).unwrap();
    store.put_root(second, u64::MAX).unwrap();
    let names = |root| store.sessions_with_root(root).unwrap().into_iter().map(|row| row.name).collect::<Vec<_>>();
    assert_eq!((names(7), names(u64::MAX), names(8)), (vec!["a".into()], vec!["b".into()], Vec::<String>::new()));
    let identities: Vec<u64> = view(&store, first).iter().map(|raw| Plain.identity(raw)).collect();
    let known = |identities: &[u64]| store.known_prefix(first, identities).unwrap();
    assert_eq!(known(&identities), KnownPrefix { messages: 6, of: 6 });
    assert_eq!(known(&[&identities[..3], &[1, 2]].concat()), KnownPrefix { messages: 3, of: 6 });
    assert_eq!(known(&identities[1..]), KnownPrefix::default());
}
