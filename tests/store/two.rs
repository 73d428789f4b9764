//! Processes side by side on one store: nothing is lost, nothing is there twice, none waits for ever, and of two that
//! compact only the holder of the lease does.

use crate::crash::number;
use crate::mix;
use crate::state::{self, append as store_messages, hash, messages, summarise};
use crate::worker::{Order, Task, Worker, say};
use engine_api::{MessageId, RecallRequest, RecallSearch};
use host_store::{NewSession, StoreError};
use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};
use support::generate::Rng;

/// How long the processes work side by side; 600 for the long run.
const SECONDS: &str = "PALIMPSEST_SECONDS";
const SECONDS_DEFAULT: u64 = 4;
const NAME: &str = "shared";
/// Newest messages that a compaction of these tests keeps.
const KEEP: usize = 6;
/// Messages beyond those that make a compaction worth it; between two, the live session's own has a chance.
const MORE: usize = 60;
/// A lease that nobody waits for.
const LEASE_MS: u64 = 20;
/// A lease that lasts longer than a compaction of these tests.
const LONG_LEASE_MS: u64 = 30_000;
/// How long a lease that has run out may take to be had, on a machine that does other things.
const TAKEN_OVER_SECONDS: u64 = 60;
/// What the holder of a lease says when it has it.
const HELD: &str = "held";

fn ends(order: &Order) -> Instant {
    Instant::now() + Duration::from_secs(order.seconds)
}

fn opened(order: &Order) -> (host_store::Store, i64) {
    let store = state::open(&order.store).unwrap();
    store.set_lease_time(Duration::from_millis(order.lease_ms));
    let key = store.session(NAME).unwrap().key;
    (store, key)
}

/// Appends, and says the hashes of what is on disk.
pub(crate) fn append(order: &Order) {
    let (end, (store, key)) = (ends(order), opened(order));
    let mut rng = Rng::new(order.seed);
    while Instant::now() < end {
        let mut raws = messages(rng.next_u64() >> 1, rng.between(1, 5));
        // Each message is of its own, so that one that is there twice is seen.
        let own = format!("{{\"role\":\"user\",\"content\":\"{:016x}\"}}", rng.next_u64());
        raws.push(own);
        store_messages(&store, key, &raws).unwrap();
        let hashes: Vec<u64> = raws.iter().map(|raw| hash(raw)).collect();
        say(&serde_json::to_string(&hashes).unwrap());
    }
}

/// Compacts over and over, and says how often it did.
pub(crate) fn compact(order: &Order) {
    let (end, (store, key)) = (ends(order), opened(order));
    let mut done = 0u64;
    while Instant::now() < end {
        if store.load(key, 0).unwrap().messages.len() <= KEEP + MORE {
            continue;
        }
        let lease = match store.lease(key, "a compacting worker") {
            Ok(lease) => lease,
            Err(StoreError::Leased { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        match store.commit(&lease, summarise(&store, key, KEEP).0) {
            Ok(_) => done += 1,
            // The other one was quicker, or this one slower than its lease.
            Err(StoreError::Moved(_) | StoreError::LeaseLost(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    say(&done.to_string());
}

/// Compacts as a live session does, which goes on after others have compacted.
pub(crate) fn compact_live(order: &Order) {
    let (end, (store, _)) = (ends(order), opened(order));
    let mut done = 0u64;
    while Instant::now() < end {
        done += u64::from(mix::compact(&store, NAME, true).is_ok());
    }
    say(&done.to_string());
}

/// Reads, and finds every state whole.
pub(crate) fn read(order: &Order) {
    let (end, (store, key)) = (ends(order), opened(order));
    let mut states = 0u64;
    let mut newest = 0usize;
    while Instant::now() < end {
        let loaded = store.load(key, 0).unwrap();
        let distinct: HashSet<MessageId> = loaded.messages.iter().map(|row| row.id).collect();
        assert_eq!(distinct.len(), loaded.messages.len(), "a view shows a message twice");
        assert_eq!(store.verify(Some(key), false).unwrap().problems, Vec::<String>::new());
        let said = store.rows(key, MessageId(0), u64::MAX).unwrap().len();
        assert!(said >= newest, "{newest} messages were there, and now {said}");
        newest = said;
        let mut search = RecallSearch::default();
        search.pattern = "user".to_owned();
        store.recall(key, &RecallRequest::search(search)).unwrap();
        states += 1;
    }
    say(&states.to_string());
}

/// Takes the lease and compacts under it when it is told to; says what came of it.
pub(crate) fn hold(order: &Order) {
    let (store, key) = opened(order);
    let lease = store.lease(key, "a holding worker").unwrap();
    let (commit, _) = summarise(&store, key, KEEP);
    say(HELD);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    say(&match store.commit(&lease, commit) {
        Ok(_) => "stored".to_owned(),
        Err(error) => error.to_string(),
    });
}

fn order(task: Task, path: &Path, seed: u64, lease_ms: u64) -> Order {
    Order { task, store: path.to_owned(), seed, seconds: number(SECONDS, SECONDS_DEFAULT), lease_ms }
}

fn shared(path: &Path, count: usize) -> (host_store::Store, i64, Vec<u64>) {
    let store = state::open(path).unwrap();
    let key = store.create_session(NewSession { name: NAME.to_owned(), ..NewSession::default() }).unwrap().key;
    let raws = messages(7, count);
    store_messages(&store, key, &raws).unwrap();
    let hashes = raws.iter().map(|raw| hash(raw)).collect();
    (store, key, hashes)
}

#[test]
fn while_some_append_and_others_compact_and_read_nothing_is_lost_or_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (store, key, first) = shared(&path, 30);
    let tasks = [Task::Append, Task::Append, Task::Compact, Task::CompactLive, Task::Read];
    let workers: Vec<(Task, std::thread::JoinHandle<Vec<String>>)> = tasks
        .into_iter()
        .zip(1u64..)
        .map(|(task, seed)| {
            let worker = Worker::start(&order(task, &path, seed, LONG_LEASE_MS));
            // Each is listened to, so that none waits for a full pipe.
            (task, std::thread::spawn(move || worker.finish()))
        })
        .collect();
    let mut said = Vec::new();
    let mut compactions = 0;
    for (task, worker) in workers {
        let lines = worker.join().unwrap();
        if task == Task::Append {
            let hashes = lines.iter().map(|line| serde_json::from_str::<Vec<u64>>(line).unwrap());
            said.push(hashes.flatten().collect::<Vec<u64>>());
        } else {
            let count: u64 = lines.last().unwrap().parse().unwrap();
            // One that compacts may always have come too late.
            assert!(count > 0 || task != Task::Read, "{task:?} did nothing");
            compactions += if task == Task::Read { 0 } else { count };
        }
    }
    let stored: Vec<u64> =
        store.rows(key, MessageId(0), u64::MAX).unwrap().iter().map(|(row, _)| hash(&row.raw)).collect();
    assert_eq!(stored.len(), first.len() + said.iter().map(Vec::len).sum::<usize>());
    assert_eq!(stored[..first.len()], first);
    // Each process's messages are there in its order, and nothing else is. Two may say the same, so each is looked for apart.
    let added = &stored[first.len()..];
    for said in &said {
        let mut rest = added.iter();
        assert!(said.iter().all(|one| rest.any(|other| other == one)), "a message is missing, or out of order");
    }
    let sorted = |mut all: Vec<u64>| {
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(added.to_vec()), sorted(said.concat()), "a message of nobody's");
    assert_eq!(store.verify(None, true).unwrap().problems, Vec::<String>::new());
    assert_eq!(store.views(key).unwrap().len() as u64, compactions);
    assert!(compactions > 0);
    let sizes: Vec<usize> = said.iter().map(Vec::len).collect();
    let line = format!("{sizes:?} messages appended by two processes, {compactions} compactions\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
}

#[test]
fn the_lease_of_a_process_that_was_killed_holds_until_it_runs_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (store, key, _) = shared(&path, 20);
    // The usual time: it does not run out in this test.
    let mut worker = Worker::start(&order(Task::Hold, &path, 1, 300_000));
    assert_eq!(worker.line().as_deref(), Some(HELD));
    worker.kill();
    let refused = store.lease(key, "another").unwrap_err();
    assert!(
        matches!(&refused, StoreError::Leased { holder, seconds, .. } if holder == "a holding worker" && *seconds <= 300)
    );
    // Messages are added all the same.
    store_messages(&store, key, &messages(8, 3)).unwrap();
    assert_eq!(store.rows(key, MessageId(0), u64::MAX).unwrap().len(), 23);
}

#[test]
fn a_lease_that_ran_out_is_taken_over_and_its_old_holder_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (store, key, _) = shared(&path, 20);
    let mut late = Worker::start(&order(Task::Hold, &path, 1, LEASE_MS));
    assert_eq!(late.line().as_deref(), Some(HELD));
    let end = Instant::now() + Duration::from_secs(TAKEN_OVER_SECONDS);
    let lease = loop {
        match store.lease(key, "the next") {
            Ok(lease) => break lease,
            Err(StoreError::Leased { .. }) => assert!(Instant::now() < end, "the lease never ran out"),
            Err(error) => panic!("{error}"),
        }
    };
    late.tell("go on");
    assert!(late.line().unwrap().contains("lease"), "the old holder stored its compaction");
    let (commit, view) = summarise(&store, key, KEEP);
    store.commit(&lease, commit).unwrap();
    let shown: Vec<u64> = store.load(key, 0).unwrap().messages.iter().map(|row| hash(&row.raw)).collect();
    assert_eq!(shown, view);
    assert_eq!(store.views(key).unwrap().len(), 1);
    assert_eq!(late.finish(), Vec::<String>::new());
}
