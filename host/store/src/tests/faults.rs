//! What happens to a store: no space, no right to write, damaged pages, other versions.

use super::*;
use crate::StoreError;
use rusqlite::Connection;

/// Does something to a file that no store has open.
fn tamper(path: &Path, sql: &str) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(sql).unwrap();
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    drop(open(&path));
    tamper(&path, "PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE);");
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(Store::open(&path, Arc::new(Plain)), Err(StoreError::Newer { found: 99, .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn an_older_schema_is_brought_up_with_all_that_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    let (key, _) = session(&store, "a", 10);
    drop(store);
    tamper(&path, "DROP TABLE roots; PRAGMA user_version = 1;");
    assert!(Store::open_to_read(&path, Arc::new(Plain)).is_ok());
    let store = open(&path);
    assert_eq!(view(&store, key).len(), 10);
    store.put_root(key, 3).unwrap();
    assert_eq!(store.sessions_with_root(3).unwrap().len(), 1);
    assert_sound(&store);
}

#[test]
fn a_database_of_something_else_and_no_database_at_all_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.db");
    tamper(&path, "CREATE TABLE t (x);");
    assert!(matches!(Store::open(&path, Arc::new(Plain)), Err(StoreError::Foreign(_))));
    let text = dir.path().join("text.db");
    std::fs::write(&text, "this is no database, whatever its name may say, and it is long enough").unwrap();
    assert!(matches!(Store::open(&text, Arc::new(Plain)), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_full_disk_is_told_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    let (key, _) = session(&store, "a", 10);
    limit_pages(&store, pages(&store) + 2);
    let large = noise(7, 200_000);
    let refused = store.append(key, [(&said("user", &large), None)]);
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert_eq!(view(&store, key).len(), 10);
    limit_pages(&store, 1_000_000);
    store.append(key, [(&said("user", &large), None)]).unwrap();
    assert_eq!(view(&store, key).len(), 11);
    assert_sound(&store);
}

/// Lets the file grow to so many pages, for the connection that writes.
fn limit_pages(store: &Store, pages: i64) {
    let set = move |conn: &Connection| {
        conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
        Ok(())
    };
    store.write("test", set).unwrap();
}

fn pages(store: &Store) -> i64 {
    store.read("test", |conn| Ok(conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap())).unwrap()
}

/// Text that cannot be made smaller.
fn noise(mut seed: u64, bytes: usize) -> String {
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (seed >> 40) as u8 % 26)
    };
    (0..bytes).map(|_| letter()).collect()
}

#[test]
fn a_disk_that_fills_at_any_page_leaves_the_old_state_or_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 20);
    let (mut refused, mut stored) = (0, 0);
    for round in 0..60u64 {
        let before = (view(&store, key), store.counts().unwrap());
        limit_pages(&store, pages(&store) + i64::try_from(round % 6).unwrap());
        let did = match round % 3 {
            0 => store.append(key, [(&said("user", &noise(round, 30_000)), None)]).map(|_| ()),
            1 => {
                // The summary is as large as a message, so that it needs pages.
                let mut commit = summarise(&store, key, 6);
                commit.nodes[0].text = noise(round, 30_000);
                store.lease(key, "a test").and_then(|lease| store.commit(&lease, commit).map(|_| ()))
            }
            _ => store.undo(key).map(|_| ()),
        };
        match did {
            Ok(()) => stored += 1,
            Err(StoreError::Full(_)) => {
                refused += 1;
                assert_eq!((view(&store, key), store.counts().unwrap()), before, "round {round}");
            }
            Err(StoreError::NothingToUndo(_)) => {}
            Err(other) => panic!("round {round}: {other}"),
        }
        assert_eq!(store.verify(None, round % 10 == 0).unwrap().problems, Vec::<String>::new(), "round {round}");
    }
    assert!(refused > 5 && stored > 5, "{refused} refused, {stored} stored");
}

#[cfg(unix)]
#[test]
fn a_file_and_a_folder_that_cannot_be_written_are_told_and_what_is_there_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("kept");
    let path = folder.join("s.db");
    let (key, _) = session(&open(&path), "a", 4);
    let set = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&path, 0o400);
    set(&folder, 0o500);
    // Whoever may do anything is not kept from writing by this.
    let is_kept_out = std::fs::File::create(folder.join("other")).is_err();
    if is_kept_out {
        let opened = Store::open(&path, Arc::new(Plain));
        let refused = opened.and_then(|store| store.append(key, [(&said("user", "x"), None)]).map(|_| ()));
        let told = matches!(&refused, Err(StoreError::ReadOnly(_) | StoreError::Open { .. }));
        assert!(told, "{refused:?}");
        let nothing = Store::open(&folder.join("new.db"), Arc::new(Plain));
        assert!(matches!(nothing, Err(StoreError::Open { .. })));
    }
    set(&folder, 0o700);
    set(&path, 0o600);
    assert_eq!(view(&open(&path), key).len(), 4);
}

#[test]
fn what_is_exported_of_a_damaged_file_is_what_was_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    let mut said: Vec<String> = Vec::new();
    for name in ["a", "b"] {
        let (key, _) = session(&store, name, 150);
        said.extend(view(&store, key));
        compact(&store, key, 10);
    }
    drop(store);
    tamper(&path, "PRAGMA wal_checkpoint(TRUNCATE);");
    let whole = std::fs::read(&path).unwrap();
    let mut saved = 0usize;
    let count = whole.len() / 8_192;
    for page in 1..count {
        let copy = dir.path().join(format!("damaged-{page}.db"));
        let mut bytes = whole.clone();
        bytes[page * 8_192 + 100..page * 8_192 + 2_000].fill(0xA5);
        std::fs::write(&copy, &bytes).unwrap();
        let Ok(store) = Store::open(&copy, Arc::new(Plain)) else { continue };
        let mut out = Vec::new();
        if store.export(None, &mut out).is_err() {
            continue;
        }
        let mut exported = 0;
        for line in String::from_utf8(out).unwrap().lines() {
            let line: Value = json::from_str(line).unwrap();
            if line["type"] == "message" {
                let raw = line["raw"].as_str().unwrap();
                assert!(said.iter().any(|said| said == raw), "page {page}: nobody said {raw}");
                exported += 1;
            }
        }
        saved += usize::from(exported > 0);
    }
    // One damaged page must not cost the rest; the list of tables and that of sessions are all or nothing.
    assert!(saved + 4 >= count, "{saved} of {} damaged files gave messages", count - 1);
}

#[test]
fn a_store_opened_to_read_refuses_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    let (key, _) = session(&store, "a", 4);
    let reading = Store::open_to_read(&path, Arc::new(Plain)).unwrap();
    assert_eq!(view(&reading, key).len(), 4);
    assert!(matches!(reading.append(key, [(&said("user", "x"), None)]), Err(StoreError::ReadOnly(_))));
    assert!(matches!(Store::open_to_read(&dir.path().join("none.db"), Arc::new(Plain)), Err(StoreError::Open { .. })));
}

#[test]
fn messages_cannot_be_changed_or_removed_by_anyone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    session(&store, "a", 4);
    drop(store);
    let conn = Connection::open(&path).unwrap();
    assert!(conn.execute("DELETE FROM messages", []).is_err());
    assert!(conn.execute("UPDATE messages SET role = 1", []).is_err());
}

#[test]
fn a_changed_byte_is_named_and_the_rest_is_exported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    let (key, ids) = session(&store, "a", 40);
    drop(store);
    tamper(
        &path,
        "UPDATE bodies SET data = CAST(replace(data, 'number 7', 'number 8') AS BLOB) WHERE data LIKE '%number 7\"%';",
    );
    let store = open(&path);
    let found = store.verify(None, false).unwrap();
    assert!(found.problem_count >= 1, "{found:?}");
    assert!(found.problems[0].contains("hash"), "{found:?}");
    assert!(matches!(store.load(key, 0), Err(StoreError::Damaged { .. })));
    let mut out = Vec::new();
    let carried = store.export(None, &mut out).unwrap();
    assert_eq!((carried.messages, carried.unreadable), (39, 1));
    assert_eq!(store.messages(&ids[..3]).unwrap().len(), 3);
}

#[test]
fn damaged_pages_give_an_error_and_what_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    for name in ["a", "b", "c"] {
        session(&store, name, 200);
    }
    drop(store);
    tamper(&path, "PRAGMA wal_checkpoint(TRUNCATE);");
    let whole = std::fs::read(&path).unwrap();
    let pages = whole.len() / 8_192;
    let mut told = 0;
    for page in 1..pages {
        let copy = dir.path().join(format!("damaged-{page}.db"));
        let mut bytes = whole.clone();
        bytes[page * 8_192..(page + 1) * 8_192].fill(0x5A);
        std::fs::write(&copy, &bytes).unwrap();
        // Whatever is damaged: no panic, and an error or a finding.
        let Ok(store) = Store::open(&copy, Arc::new(Plain)) else {
            told += 1;
            continue;
        };
        let found = store.verify(None, true);
        let mut out = Vec::new();
        let exported = store.export(None, &mut out);
        if found.is_err() || found.is_ok_and(|found| found.problem_count > 0) || exported.is_err() {
            told += 1;
        }
    }
    assert_eq!(told, pages - 1);
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let (key, _) = session(&store, "a", 20);
    compact(&store, key, 4);
    let copy = dir.path().join("copy.db");
    store.back_up(&copy).unwrap();
    assert!(store.back_up(&copy).is_err());
    let other = open(&copy);
    assert_eq!(view(&other, key), view(&store, key));
    assert_sound(&other);
}
