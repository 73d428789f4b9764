//! Databases of lossless-claw: blocks, context items, summaries.

use super::{Made, nodes, raws, shown, stored, what};
use crate::{Format, History, Kind};

/// The tables of lossless-claw 0.15, without indexes, checks, search tables and the columns of blocks that no text is in.
const SCHEMA: &str = "
CREATE TABLE conversations (
    conversation_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, session_key TEXT,
    active INTEGER NOT NULL DEFAULT 1, archived_at TEXT, title TEXT, bootstrapped_at TEXT,
    created_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT NOT NULL DEFAULT (datetime('now'))
);
CREATE TABLE messages (
    message_id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE,
    seq INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, token_count INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL DEFAULT (datetime('now')), UNIQUE (conversation_id, seq)
);
CREATE TABLE message_parts (
    part_id TEXT PRIMARY KEY, message_id INTEGER NOT NULL REFERENCES messages(message_id) ON DELETE CASCADE,
    session_id TEXT NOT NULL, part_type TEXT NOT NULL, ordinal INTEGER NOT NULL, text_content TEXT,
    tool_call_id TEXT, tool_name TEXT, tool_status TEXT, tool_input TEXT, tool_output TEXT, tool_error TEXT,
    metadata TEXT, UNIQUE (message_id, ordinal)
);
CREATE TABLE summaries (
    summary_id TEXT PRIMARY KEY, conversation_id INTEGER NOT NULL, kind TEXT NOT NULL, depth INTEGER NOT NULL DEFAULT 0,
    content TEXT NOT NULL, token_count INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL DEFAULT (datetime('now')),
    file_ids TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE summary_messages (
    summary_id TEXT NOT NULL, message_id INTEGER NOT NULL, ordinal INTEGER NOT NULL, PRIMARY KEY (summary_id, message_id)
);
CREATE TABLE summary_parents (
    summary_id TEXT NOT NULL, parent_summary_id TEXT NOT NULL, ordinal INTEGER NOT NULL,
    PRIMARY KEY (summary_id, parent_summary_id)
);
CREATE TABLE context_items (
    conversation_id INTEGER NOT NULL, ordinal INTEGER NOT NULL, item_type TEXT NOT NULL, message_id INTEGER,
    summary_id TEXT, created_at TEXT NOT NULL DEFAULT (datetime('now')), PRIMARY KEY (conversation_id, ordinal)
);
";

const TALK: &str = r#"
INSERT INTO conversations (session_id, session_key, title, created_at) VALUES
    ('u-1', 'agent:main:telegram:7', 'Plan', '2026-08-22 10:20:30'), ('u-2', 'agent:main:subagent:9', NULL, '2026-08-22 10:20:30'),
    ('u-3', NULL, NULL, '2026-08-22'), ('u-3', NULL, NULL, '2026-08-23');
INSERT INTO messages (message_id, conversation_id, seq, role, content, created_at) VALUES
    (1, 1, 1, 'user', 'look', '2026-08-22 10:20:31'), (2, 1, 0, 'system', 'sys', '2026-08-22T10:20:30.500Z'),
    (3, 1, 2, 'assistant', '', '2026-08-22 10:20:32'), (4, 1, 3, 'tool', '', '2026-08-22 10:20:33'),
    (5, 1, 4, 'tool', 'second', '2026-08-22 10:20:34'), (6, 1, 5, 'assistant', 'done', '2026-08-22 10:20:35'),
    (7, 2, 0, 'user', 'sub', '2026-08-22 10:20:35'), (8, 3, 0, 'user', 'before', '2026-08-22'),
    (9, 4, 0, 'user', 'after', '2026-08-23'), (10, 4, 1, 'tool', 'of no call', '2026-08-23');
INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content, tool_call_id, tool_name, tool_input, tool_output, metadata) VALUES
    ('a', 1, 'u-1', 'text', 0, 'look', NULL, NULL, NULL, NULL, '{"originalRole":"user"}'),
    ('b', 3, 'u-1', 'reasoning', 0, 'hm', NULL, NULL, NULL, NULL,
        '{"originalRole":"assistant","rawType":"thinking","raw":{"type":"thinking","thinking":"hm","thinkingSignature":"c2ln"}}'),
    ('c', 3, 'u-1', 'text', 1, 'first', NULL, NULL, NULL, NULL, '{"originalRole":"assistant","rawType":"text","raw":{"type":"text","text":"first"}}'),
    ('d', 3, 'u-1', 'tool', 2, NULL, 'c1', 'read', '{"z":1,"a":[2, 3]}', NULL,
        '{"originalRole":"assistant","rawType":"toolCall","raw":{"type":"toolCall","id":"c1","name":"read","arguments":{"z":1,"a":[2, 3]}}}'),
    ('e', 3, 'u-1', 'tool', 3, NULL, 'c2', 'sh', '"{\"q\": 1}"', NULL, '{"originalRole":"assistant","rawType":"function_call"}'),
    ('f', 4, 'u-1', 'text', 0, 'a picture', NULL, NULL, NULL, NULL,
        '{"originalRole":"toolResult","toolCallId":"c1","toolName":"read","rawType":"text","raw":{"type":"text","text":"a picture"}}'),
    ('g', 4, 'u-1', 'file', 1, NULL, 'c1', 'read', NULL, NULL,
        '{"originalRole":"toolResult","toolCallId":"c1","toolName":"read","rawType":"image","raw":{"type":"image","mimeType":"image/png","data":"AA=="}}'),
    ('h', 5, 'u-1', 'text', 0, 'second', NULL, NULL, NULL, NULL, '{"originalRole":"toolResult","toolCallId":"c2","toolName":"sh"}'),
    ('i', 6, 'u-1', 'reasoning', 0, NULL, NULL, NULL, NULL, NULL,
        '{"originalRole":"assistant","rawType":"thinking","raw":{"type":"thinking","thinking":"","thinkingSignature":"{\"type\":\"reasoning\",\"id\":\"rs_1\",\"encrypted_content\":\"zz\"}"}}'),
    ('j', 6, 'u-1', 'text', 1, 'done', NULL, NULL, NULL, NULL, '{"originalRole":"assistant"}');
INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, created_at) VALUES
    ('sum_top', 1, 'condensed', 1, 'all', '2026-08-22 11:00:00'), ('sum_a', 1, 'leaf', 0, 'leaf', '2026-08-22 10:59:00');
INSERT INTO summary_messages VALUES ('sum_a', 4, 1), ('sum_a', 3, 0);
INSERT INTO summary_parents VALUES ('sum_top', 'sum_a', 0);
INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id) VALUES
    (1, 0, 'summary', NULL, 'sum_top'), (1, 1, 'message', 6, NULL), (1, 2, 'message', 999, NULL);
"#;

#[test]
fn blocks_become_messages_in_the_order_of_their_numbers() {
    let made = Made::new(&[SCHEMA, TALK]);
    let got = made.read(History::Full);
    assert_eq!(got.format, Format::LosslessClaw);
    let ids: Vec<&str> = got.conversations.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["u-3/4", "u-3/3", "u-1", "u-2"]);
    assert_eq!(got.conversations[3].kind, Kind::Sidechain);
    let raws = raws(&got, 2);
    assert_eq!(
        raws,
        [
            r#"{"role":"system","content":"sys"}"#,
            r#"{"role":"user","content":"look"}"#,
            r#"{"role":"assistant","content":"first","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"c2ln"}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"z\":1,\"a\":[2, 3]}"}},{"id":"c2","type":"function","function":{"name":"sh","arguments":"{\"q\": 1}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c1","content":"a picture","name":"read"}"#,
            r#"{"role":"tool","tool_call_id":"c2","content":"second","name":"sh"}"#,
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}"#,
            r#"{"role":"assistant","content":"done","reasoning_details":[{"type":"reasoning.encrypted","data":"zz","id":"rs_1"}]}"#,
        ]
    );
    let stored = stored(&got, 2);
    assert_eq!(nodes(stored), ["sum_a 0 [2, 3] [] leaf", "sum_top 1 [] [0] all"]);
    assert_eq!(stored.nodes[0].created_ms, Some(1_787_396_340_000));
    let rows: Vec<Option<i64>> = stored.rows.iter().map(|row| row.row).collect();
    assert_eq!(rows, [2, 1, 3, 4, 5, 4, 6].map(Some));
    assert_eq!(stored.rows[0].created_ms, Some(1_787_394_030_500));
    let session = &stored.session;
    assert_eq!((session.id.as_str(), session.title.as_str()), ("u-1", "Plan"));
    assert_eq!((session.platform.as_str(), session.started_ms), ("agent:main:telegram:7", Some(1_787_394_030_000)));
    assert_eq!(
        what(&got),
        ["row 10 of table messages is a tool's result that names no call; read as the assistant's text"]
    );
    assert_eq!(shown(&made.session("u-3/3").unwrap()), "U\"before\"");
    assert_eq!(made.session("u-3").unwrap().conversations[0].id, "u-3/4", "the newest of that session");
}

#[test]
fn the_live_history_is_the_list_of_items() {
    let made = Made::new(&[SCHEMA, TALK]);
    let path = format!("{}#u-1", made.path.display());
    let got = super::read(path.as_ref(), History::Live).unwrap();
    assert_eq!(shown(&got), r#"U^"<summary id=\"sum_top\" depth=\"1\">\nall\n</summary>" A"done"~~"#);
    assert_eq!(what(&got), ["1 items of what the model is sent in session \"u-1\" are not there"]);
}

#[test]
fn tables_that_are_gone_are_named_and_the_rest_is_read() {
    let made = Made::new(&[
        SCHEMA,
        TALK,
        "DROP TABLE message_parts; DROP TABLE summaries; DROP TABLE context_items; DROP TABLE conversations;",
    ]);
    let got = made.session("2").unwrap();
    assert_eq!(shown(&got), "U\"sub\"");
    let problems = what(&got).join("\n");
    for table in ["message_parts", "summaries", "conversations"] {
        assert!(problems.contains(&format!("no readable table {table}")), "{problems}");
    }
}
