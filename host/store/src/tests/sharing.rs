//! Many at once on one file.

use super::*;
use std::thread;

#[test]
fn several_writers_and_readers_lose_and_double_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let first = open(&path);
    let (key, _) = session(&first, "a", 20);
    // Two stores stand for two processes: each has a writer of its own.
    let stores = [first.clone(), open(&path)];
    thread::scope(|scope| {
        for (at, store) in stores.iter().enumerate() {
            for worker in 0..2 {
                scope.spawn(move || {
                    for number in 0..25 {
                        let message = said("user", &format!("{at} {worker} {number}"));
                        store.append(key, [(&message, None)]).unwrap();
                    }
                });
            }
        }
        let store = &stores[1];
        scope.spawn(move || {
            for _ in 0..10 {
                let Ok(lease) = store.lease(key, "compacts") else { continue };
                // A compaction that comes too late is refused, and costs nothing.
                let _ = store.commit(&lease, summarise(store, key, 5));
            }
        });
        let store = &stores[0];
        scope.spawn(move || {
            for _ in 0..50 {
                assert!(!view(store, key).is_empty());
            }
        });
    });
    assert_eq!(first.counts().unwrap()["messages"], 120);
    for store in &stores {
        assert_sound(store);
    }
}

#[test]
fn a_job_that_fails_takes_nothing_of_its_group_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 2);
    thread::scope(|scope| {
        for number in 0..20 {
            let store = &store;
            scope.spawn(move || {
                if number % 2 == 0 {
                    store.append(key, [(&said("user", &format!("good {number}")), None)]).unwrap();
                } else {
                    let name = NewSession { name: "a".into(), ..NewSession::default() };
                    assert_eq!(store.create_session(name), Err(crate::StoreError::SessionExists("a".into())));
                }
            });
        }
    });
    assert_eq!(view(&store, key).len(), 12);
}

#[test]
fn a_job_that_panics_leaves_the_writer_at_work() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 2);
    let broken: Result<(), _> = store.write("testing", |_| panic!("a fault of the test"));
    assert!(broken.is_err());
    store.append(key, [(&said("user", "after"), None)]).unwrap();
    assert_eq!(view(&store, key).len(), 3);
}
