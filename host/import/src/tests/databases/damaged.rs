//! Databases that are damaged, odd, locked, or none.

use super::hermes::SCHEMA;
use super::{Made, read, shown, what};
use crate::{Format, History, ImportError, Options, import, import_path, import_sessions};
use rusqlite::Connection;
use std::ops::ControlFlow;

/// A session of many rows, some of them with a text over several pages.
fn long(rows: usize) -> Made {
    let made = Made::new(&[SCHEMA, "INSERT INTO sessions (id, source, started_at) VALUES ('s', 'cli', 1);"]);
    let mut connection = made.connection();
    let transaction = connection.transaction().unwrap();
    for row in 0..rows {
        let text = format!("{row} {}", "x".repeat(if row % 10 == 0 { 9_000 } else { 150 }));
        transaction
            .execute("INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', ?1, 1)", [text])
            .unwrap();
    }
    transaction.commit().unwrap();
    made
}

#[test]
fn a_file_that_is_no_known_store_says_what_it_holds() {
    let error = |sql: &[&str]| read(&Made::new(sql).path, History::Full).unwrap_err().to_string();
    let other = error(&["CREATE TABLE notes (id INTEGER); CREATE TABLE tags (id INTEGER);"]);
    assert!(
        other.contains("no known store (notes, tags); read are hermes-state, hermes-lcm and lossless-claw"),
        "{other}"
    );
    assert!(error(&["CREATE VIEW messages AS SELECT 1 AS store_id, 2 AS session_id;"]).contains("no tables"));
    let lacking = error(&["CREATE TABLE messages (store_id INTEGER PRIMARY KEY, session_id TEXT, role TEXT);"]);
    assert!(lacking.contains("table messages has no column content"), "{lacking}");
    let empty = error(&[SCHEMA]);
    assert!(empty.contains("read as hermes-state and holds no message"), "{empty}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.db");
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(read(&path, History::Full), Err(ImportError::Empty)));
}

#[test]
fn a_database_is_not_read_as_a_stream_nor_under_another_name() {
    let made = long(1);
    let bytes = std::fs::read(&made.path).unwrap();
    let error = import(&mut bytes.as_slice(), &Options::default(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("by its file name"), "{error}");
    let options = Options { format: Some(Format::HermesLcm), ..Options::default() };
    let error = import_path(&made.path, &options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("it is a store of hermes-state, not of hermes-lcm"), "{error}");
    let text = made.folder.path().join("talk.jsonl");
    std::fs::write(&text, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}").unwrap();
    assert!(import_path(&text, &options, &mut |_| {}).unwrap_err().to_string().contains("and this is none"));
    assert_eq!(shown(&read(&text, History::Full).unwrap()), "U\"a\"");
    let named = made.folder.path().join("talk.jsonl#s");
    assert!(matches!(read(&named, History::Full), Err(ImportError::NotFound { .. })));
}

#[test]
fn a_file_with_a_number_sign_in_its_name_is_that_file() {
    let made = long(1);
    let path = made.folder.path().join("store.db#s");
    std::fs::write(&path, "{\"messages\":[{\"role\":\"user\",\"content\":\"a text\"}]}").unwrap();
    assert_eq!(shown(&read(&path, History::Full).unwrap()), "U\"a text\"");
}

#[test]
fn every_cut_and_every_damaged_page_gives_an_error_or_what_is_readable() {
    let made = long(120);
    let whole = std::fs::read(&made.path).unwrap();
    let page = 4_096;
    assert!(whole.len() > 20 * page);
    let (mut partly, mut refused) = (0, 0);
    let mut try_bytes = |at: usize, bytes: &[u8]| {
        let path = made.folder.path().join("damaged.db");
        std::fs::write(&path, bytes).unwrap();
        match read(&path, History::Full) {
            Ok(got) if got.conversations[0].document.messages.len() < 120 => {
                assert!(what(&got).iter().any(|what| what.contains("messages")), "{at}: {:?}", what(&got));
                partly += 1;
            }
            Ok(_) => {}
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    };
    for at in (0..whole.len()).step_by(page / 2) {
        try_bytes(at, &whole[..at]);
        for value in [0u8, 0xff, 0x0d] {
            let mut bytes = whole.clone();
            let end = (at + 64).min(bytes.len());
            bytes[at..end].fill(value);
            try_bytes(at, &bytes);
            bytes[at..(at + page / 2).min(whole.len())].fill(value);
            try_bytes(at, &bytes);
        }
    }
    assert!(partly > 10 && refused > 3, "{partly} {refused}");
}

#[test]
fn a_damaged_row_costs_that_row_and_is_named() {
    let made = long(100);
    let mut bytes = std::fs::read(&made.path).unwrap();
    // The chain of pages of one long text is broken by a page number that does not exist.
    let connection = made.connection();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    let pages: Vec<i64> = (1..=bytes.len() as i64 / 4_096).collect();
    let needle = b"xxxxxxxxxxxxxxxx";
    let overflow = pages.iter().find(|page| {
        let at = (**page as usize - 1) * 4_096;
        bytes[at + 4..at + 20] == needle[..] && bytes[at..at + 4] != [0; 4]
    });
    let at = (*overflow.unwrap() as usize - 1) * 4_096;
    bytes[at..at + 4].copy_from_slice(&[0x00, 0xff, 0xff, 0xff]);
    std::fs::write(&made.path, &bytes).unwrap();
    let got = read(&made.path, History::Full).unwrap();
    assert_eq!(got.conversations[0].document.messages.len(), 99);
    let problems = what(&got);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("row ") && problems[0].contains("of table messages cannot be read"),
        "{problems:?}"
    );
}

#[test]
fn a_value_over_the_limit_is_left_out_with_its_row() {
    let made = long(11);
    let options = Options { line_bytes_max: 1_000, history: History::Full, ..Options::default() };
    let got = import_path(&made.path, &options, &mut |_| {}).unwrap();
    assert_eq!(got.conversations[0].document.messages.len(), 11);
    assert_eq!(
        what(&got),
        [
            "column content in row 1 of table messages is 9002 bytes, over the limit of 1000; left out",
            "column content in row 11 of table messages is 9003 bytes, over the limit of 1000; left out",
        ]
    );
}

#[test]
fn what_another_process_wrote_to_its_log_is_read_and_nothing_is_written() {
    let made = long(2);
    let writer = made.connection();
    writer.pragma_update(None, "journal_mode", "WAL").unwrap();
    writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    writer
        .execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', 'in the log', 1)",
            [],
        )
        .unwrap();
    let before = std::fs::read(&made.path).unwrap();
    let log = made.folder.path().join("store.db-wal");
    let log_before = std::fs::read(&log).unwrap();
    let got = read(&made.path, History::Full).unwrap();
    assert!(shown(&got).ends_with("U\"in the log\""));
    assert_eq!((std::fs::read(&made.path).unwrap(), std::fs::read(&log).unwrap()), (before, log_before));
    // The writer goes on as before.
    writer.execute("DELETE FROM messages WHERE content = 'in the log'", []).unwrap();
    assert_eq!(read(&made.path, History::Full).unwrap().conversations[0].document.messages.len(), 2);
}

#[test]
fn a_transaction_that_is_not_finished_is_not_read() {
    let made = long(2);
    let writer = made.connection();
    writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', 'new', 1);").unwrap();
    assert_eq!(read(&made.path, History::Full).unwrap().conversations[0].document.messages.len(), 2);
    writer.execute_batch("COMMIT;").unwrap();
    assert_eq!(read(&made.path, History::Full).unwrap().conversations[0].document.messages.len(), 3);
}

#[test]
fn sessions_beyond_the_limit_are_counted_and_can_be_read_one_at_a_time() {
    let made = Made::new(&[SCHEMA]);
    let connection = Connection::open(&made.path).unwrap();
    connection
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1005)
             INSERT INTO sessions (id, source, started_at) SELECT 's' || i, 'cli', i FROM n;
             INSERT INTO messages (session_id, role, content, timestamp) SELECT id, 'user', id, 1 FROM sessions ORDER BY started_at;",
        )
        .unwrap();
    let got = made.read(History::Full);
    assert_eq!((got.conversations.len(), got.conversations[0].id.as_str()), (1_000, "s1005"));
    assert!(what(&got)[0].starts_with("5 older sessions left out"), "{:?}", what(&got));
    let small = Options { document_bytes_max: 30, ..Options::default() };
    let got = import_path(&made.path, &small, &mut |_| {}).unwrap();
    assert!(got.conversations.len() < 5 && !got.problems.is_empty());
    let mut ids = Vec::new();
    let mut each = |conversation: crate::Conversation| {
        ids.push(conversation.id);
        if ids.len() == 1_003 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let read = import_sessions(&made.path, &Options::default(), &mut |_| {}, &mut each).unwrap();
    assert_eq!((ids.len(), ids[1_002].as_str(), read.left_out), (1_003, "s3", 2));
}
