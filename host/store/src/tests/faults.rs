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
    let pages: i64 =
        store.read("test", |conn| Ok(conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap())).unwrap();
    store
        .write("test", move |conn| {
            conn.query_row(&format!("PRAGMA max_page_count = {}", pages + 2), [], |_| Ok(())).unwrap();
            Ok(())
        })
        .unwrap();
    // Random letters, which cannot be made smaller.
    let mut seed = 7u64;
    let large: String = (0..200_000)
        .map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            char::from(b'a' + (seed >> 40) as u8 % 26)
        })
        .collect();
    let refused = store.append(key, [(&said("user", &large), None)]);
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert_eq!(view(&store, key).len(), 10);
    store
        .write("test", |conn| {
            conn.query_row("PRAGMA max_page_count = 1000000", [], |_| Ok(())).unwrap();
            Ok(())
        })
        .unwrap();
    store.append(key, [(&said("user", &large), None)]).unwrap();
    assert_eq!(view(&store, key).len(), 11);
    assert_sound(&store);
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
