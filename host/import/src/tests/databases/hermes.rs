//! Hermes' `state.db`: live, compacted and rewound rows.

use super::{Made, raws, shown, stored, what};
use crate::{Format, History, Kind, RowState};

/// The tables of schema 22, without indexes, counters and the columns of the gateway.
pub(super) const SCHEMA: &str = "
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES (22);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, model TEXT, model_config TEXT,
    system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, title TEXT, rewind_count INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0, FOREIGN KEY (parent_session_id) REFERENCES sessions(id)
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, effect_disposition TEXT, timestamp REAL NOT NULL,
    token_count INTEGER, finish_reason TEXT, reasoning TEXT, reasoning_content TEXT, reasoning_details TEXT,
    codex_reasoning_items TEXT, codex_message_items TEXT, platform_message_id TEXT, observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0, api_content TEXT
);
CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
";

const TALK: &str = r#"
INSERT INTO sessions (id, source, model, system_prompt, started_at, end_reason, title) VALUES
    ('one', 'cli', 'hermes-4', 'You are Hermes.', 1767225600.5, NULL, 'Fix the build'),
    ('empty', 'cli', NULL, NULL, 1767225601, NULL, NULL);
INSERT INTO messages (session_id, role, content, tool_calls, tool_call_id, tool_name, timestamp, reasoning,
    reasoning_details, codex_reasoning_items, active, compacted, api_content) VALUES
    ('one', 'user', 'old', NULL, NULL, NULL, 1767225700, NULL, NULL, NULL, 0, 1, NULL),
    ('one', 'user', 'taken back', NULL, NULL, NULL, 1767225701, NULL, NULL, NULL, 0, 0, NULL),
    ('one', 'user', '[CONTEXT COMPACTION — x] sum', NULL, NULL, NULL, 1767225702, NULL, NULL, NULL, 1, 0, NULL),
    ('one', 'user', char(0) || 'json:[{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]',
        NULL, NULL, NULL, 1767225690.25, NULL, NULL, NULL, 1, 0, NULL),
    ('one', 'assistant', NULL, '[{"id": "c1", "type": "function", "function": {"name": "sh", "arguments": "{\"a\": 1}"}}]',
        NULL, NULL, 1767225704, 'hm', '[{"type": "reasoning.text",  "text": "hm"}]', '[{"id": "rs_1"}]', 1, 0, NULL),
    ('one', 'tool', 'out', NULL, 'c1', 'sh', 1767225705, NULL, NULL, NULL, 1, 0, NULL),
    ('one', 'user', 'go on', NULL, NULL, NULL, 1767225706, NULL, NULL, NULL, 1, 0, 'go on [note: it is Tuesday]');
"#;

#[test]
fn every_row_comes_in_the_order_of_writing_with_its_state() {
    let made = Made::new(&[SCHEMA, TALK]);
    let got = made.read(History::Full);
    assert_eq!(got.format, Format::HermesState);
    let want = r#"S"You are Hermes." U"old" U"taken back" U^"[CONTEXT COMPACTION — x] sum" U"see"<img> A~hm~[c1 sh {"a": 1}]~~ T(c1 out) U"go on""#;
    // The details repeat the words of the reasoning, so they hold none of their own.
    assert_eq!(shown(&got).replace("~hm~~~", "~hm~"), want.replace("[c1 sh {\"a\": 1}]~~", "[c1 sh {\"a\": 1}]"));
    let raws = raws(&got, 0);
    assert_eq!(
        raws[5],
        r#"{"role":"assistant","content":null,"reasoning":"hm","reasoning_details":[{"type": "reasoning.text",  "text": "hm"}],"codex_reasoning_items":[{"id": "rs_1"}],"tool_calls":[{"id": "c1", "type": "function", "function": {"name": "sh", "arguments": "{\"a\": 1}"}}]}"#
    );
    assert_eq!(raws[6], r#"{"role":"tool","content":"out","tool_call_id":"c1","name":"sh"}"#);
    let stored = stored(&got, 0);
    let states: Vec<RowState> = stored.rows.iter().map(|row| row.state).collect();
    use RowState::{Compacted, Live, Rewound};
    assert_eq!(states, [Live, Compacted, Rewound, Live, Live, Live, Live, Live]);
    let rows: Vec<Option<i64>> = stored.rows.iter().map(|row| row.row).collect();
    assert_eq!(rows, [None, Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(7)]);
    assert_eq!(stored.rows[4].created_ms, Some(1_767_225_690_250));
    assert_eq!(stored.rows[7].sent.as_deref(), Some("go on [note: it is Tuesday]"));
    let session = &stored.session;
    assert_eq!((session.title.as_str(), session.platform.as_str()), ("Fix the build", "cli"));
    assert_eq!((session.started_ms, session.parent.as_deref()), (Some(1_767_225_600_500), None));
    assert_eq!(got.conversations[0].document.member("model"), Some("\"hermes-4\""));
    assert_eq!(what(&got), ["1 sessions without messages left out"]);
}

#[test]
fn the_live_history_is_what_the_model_would_be_sent() {
    let got = Made::new(&[SCHEMA, TALK]).read(History::Live);
    let raws = raws(&got, 0);
    assert_eq!(raws.len(), 6);
    assert!(raws[1].contains("[CONTEXT COMPACTION"));
    assert_eq!(raws[5], r#"{"role":"user","content":"go on [note: it is Tuesday]"}"#);
}

#[test]
fn sessions_come_newest_first_and_subagents_last() {
    let made = Made::new(&[
        SCHEMA,
        "INSERT INTO sessions (id, source, parent_session_id, started_at, end_reason, title) VALUES
            ('root', 'cli', NULL, 9, 'compression', NULL), ('next', 'cli', 'root', 1, 'branched', 'Two'),
            ('fork', 'cli', 'next', 1, NULL, NULL), ('agent', 'subagent', 'next', 1, NULL, NULL),
            ('lost', 'telegram', 'gone', 2, NULL, NULL);
         INSERT INTO messages (session_id, role, content, timestamp) VALUES ('root', 'user', 'a', 99),
            ('lost', 'user', 'e', 1), ('next', 'user', 'b', 1), ('fork', 'user', 'c', 1), ('agent', 'user', 'd', 1),
            ('unlisted', 'user', 'f', 3);",
    ]);
    let got = made.read(History::Full);
    let ids: Vec<(&str, Kind)> = got.conversations.iter().map(|one| (one.id.as_str(), one.kind)).collect();
    use Kind::{Branch, Main, Sidechain};
    assert_eq!(
        ids,
        [("unlisted", Main), ("fork", Branch), ("next", Main), ("lost", Main), ("root", Main), ("agent", Sidechain)]
    );
    assert_eq!(stored(&got, 2).session.parent.as_deref(), Some("root"));
    assert_eq!(stored(&got, 0).session.started_ms, Some(3_000), "the first message, where the session is not listed");
    assert_eq!(
        what(&got),
        [
            "session \"unlisted\" has messages and no row in table sessions",
            "session \"lost\" names the parent \"gone\", which is not there"
        ]
    );
    assert_eq!(made.session("root").unwrap().conversations[0].title, "a");
    assert_eq!(made.session("Two").unwrap().conversations[0].id, "next", "a title names a session too");
    let error = made.session("nope").unwrap_err().to_string();
    assert!(error.contains("has no session \"nope\"; it has 6, the newest are unlisted, fork, next"), "{error}");
}

#[test]
fn a_child_that_began_while_its_parent_was_at_work_is_a_subagents() {
    let made = Made::new(&[
        SCHEMA,
        "INSERT INTO sessions (id, source, parent_session_id, started_at, ended_at, end_reason) VALUES
            ('first', 'cli', NULL, 1, 50, 'new_session'), ('during', 'cli', 'first', 20, 30, 'agent_close'),
            ('after', 'cli', 'first', 51, NULL, NULL), ('within', 'cli', 'after', 60, NULL, NULL);
         INSERT INTO messages (session_id, role, content, timestamp) SELECT id, 'user', id, 1 FROM sessions ORDER BY started_at;",
    ]);
    let got = made.read(History::Full);
    assert_eq!(shown(&got), "U\"after\"\nU\"first\"\nside: U\"within\"\nside: U\"during\"");
}

#[test]
fn an_old_schema_lacks_columns_and_a_newer_one_is_named() {
    let old = Made::new(&[
        "CREATE TABLE schema_version (version INTEGER NOT NULL); INSERT INTO schema_version VALUES (2);
         CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, parent_session_id TEXT, started_at REAL NOT NULL);
         CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
            content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL);
         INSERT INTO sessions VALUES ('s', 'cli', NULL, 1);
         INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'session_meta', '{}', 1), ('s', 'user', 'a', 1);",
    ]);
    let got = old.read(History::Live);
    assert_eq!((shown(&got).as_str(), what(&got).len()), ("U\"a\"", 0));
    let new = Made::new(&[
        SCHEMA,
        TALK,
        "UPDATE schema_version SET version = 99; ALTER TABLE messages ADD COLUMN mood TEXT;",
    ]);
    let got = new.read(History::Live);
    assert_eq!(what(&got)[0], "table messages has columns that are not read: mood");
    assert!(what(&got)[1].starts_with("schema 99 of the database is newer than 22"));
}

#[test]
fn odd_values_are_named_with_their_row() {
    let made = Made::new(&[
        SCHEMA,
        r"INSERT INTO sessions (id, source, started_at) VALUES ('s', 'cli', 'soon');
          INSERT INTO messages (id, session_id, role, content, tool_calls, timestamp) VALUES
            (4, 's', 'narrator', 12, NULL, 'never'),
            (5, 's', 'assistant', 'hi', '[{broken', 1e300),
            (6, 's', 'user', x'41ff42', NULL, 1),
            (7, 's', 'user', char(0) || 'json:{nope', NULL, 1),
            (8, 's', 'assistant', NULL, '[]', -1),
            (9, 's', 'tool', NULL, NULL, 1);",
    ]);
    let got = made.read(History::Full);
    assert_eq!(
        what(&got),
        [
            "row 4 of table messages has the role \"narrator\"; read as a user's message",
            "tool_calls of row 5 of table messages is no valid JSON (8 bytes); the message is kept without it",
            "column content in row 6 of table messages is no text; read as well as it can be",
            "row 7 of table messages has content marked as JSON that is none; kept as text",
            "session \"s\": 0 tool calls without a result and 1 results without a call; kept as stored",
        ]
    );
    let raws = raws(&got, 0);
    assert_eq!(raws[0], r#"{"role":"user","content":"12"}"#);
    assert_eq!(raws[3], "{\"role\":\"user\",\"content\":\"\\u0000json:{nope\"}");
    assert_eq!(raws[4], r#"{"role":"assistant","content":""}"#);
    assert_eq!(raws[5], r#"{"role":"tool","content":"","tool_call_id":""}"#);
    assert_eq!(stored(&got, 0).rows[1].created_ms, Some(i64::MAX));
}
