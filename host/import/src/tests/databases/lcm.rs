//! hermes-lcm and LCM-X.

use super::{Made, nodes, raws, shown, stored, what};
use crate::{Format, History};

/// The tables of hermes-lcm 0.21 (schema 5), without indexes and search tables.
const SCHEMA: &str = "
CREATE TABLE messages (
    store_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, source TEXT DEFAULT '',
    conversation_id TEXT DEFAULT '', role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT,
    tool_name TEXT, timestamp REAL NOT NULL, token_estimate INTEGER DEFAULT 0, pinned INTEGER DEFAULT 0
);
CREATE INDEX idx_msg_session ON messages(session_id, store_id);
CREATE TABLE summary_nodes (
    node_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, depth INTEGER NOT NULL DEFAULT 0,
    summary TEXT NOT NULL, token_count INTEGER DEFAULT 0, source_token_count INTEGER DEFAULT 0,
    source_ids TEXT NOT NULL DEFAULT '[]', source_type TEXT NOT NULL DEFAULT 'messages', created_at REAL NOT NULL,
    earliest_at REAL, latest_at REAL, expand_hint TEXT DEFAULT ''
);
CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT);
INSERT INTO metadata VALUES ('schema_version', '5');
CREATE TABLE lcm_lifecycle_state (
    conversation_id TEXT PRIMARY KEY, current_session_id TEXT, last_finalized_session_id TEXT,
    current_frontier_store_id INTEGER NOT NULL DEFAULT 0, updated_at REAL NOT NULL DEFAULT 0
);
";

/// What LCM-X 0.23 adds.
const LCM_X: &str = "
ALTER TABLE messages ADD COLUMN ingested_at REAL;
ALTER TABLE messages ADD COLUMN observed_at REAL;
ALTER TABLE messages ADD COLUMN observed_at_source TEXT;
CREATE TABLE message_relations (store_id INTEGER, related_store_id INTEGER);
";

const TALK: &str = r#"
INSERT INTO messages (session_id, source, role, content, tool_calls, tool_call_id, tool_name, timestamp) VALUES
    ('s', 'telegram', 'system', 'sys', NULL, NULL, NULL, 10.5),
    ('s', 'telegram', 'user', 'one', NULL, NULL, NULL, 11),
    ('s', 'telegram', 'assistant', '', '[{"id": "c", "type": "function", "function": {"name": "sh", "arguments": "{}"}}]', NULL, NULL, 12),
    ('other', 'cli', 'user', 'elsewhere', NULL, NULL, NULL, 13),
    ('s', 'telegram', 'tool', 'ok', NULL, 'c', 'sh', 14),
    ('s', 'telegram', 'assistant', 'two', NULL, NULL, NULL, 15),
    ('s', 'telegram', 'user', 'three', NULL, NULL, NULL, 16);
INSERT INTO summary_nodes (node_id, session_id, depth, summary, source_ids, source_type, created_at) VALUES
    (1, 's', 0, 'leaf a', '[2]', 'messages', 20.25), (2, 's', 0, 'leaf b', '[3]', 'messages', 21),
    (3, 's', 1, 'both', '[1, 2]', 'nodes', 22), (4, 's', 0, 'leaf c', '[6]', 'messages', 23);
INSERT INTO lcm_lifecycle_state (conversation_id, current_session_id, last_finalized_session_id) VALUES ('k', 's', 'other');
"#;

#[test]
fn messages_come_by_session_and_nodes_name_their_sources() {
    for schema in [vec![SCHEMA, TALK], vec![SCHEMA, LCM_X, TALK]] {
        let made = Made::new(&schema);
        let got = made.read(History::Full);
        assert_eq!(got.format, Format::HermesLcm);
        assert_eq!(shown(&got), "S\"sys\" U\"one\" A[c sh {}] T(c ok) A\"two\" U\"three\"\nU\"elsewhere\"");
        assert_eq!(raws(&got, 0)[3], r#"{"role":"tool","content":"ok","tool_call_id":"c","name":"sh"}"#);
        let stored = stored(&got, 0);
        assert_eq!(
            nodes(stored),
            ["1 0 [1] [] leaf a", "2 0 [2] [] leaf b", "3 1 [] [0, 1] both", "4 0 [4] [] leaf c"]
        );
        assert_eq!(stored.nodes[0].created_ms, Some(20_250));
        assert_eq!(stored.session.parent.as_deref(), Some("other"));
        assert_eq!((stored.session.platform.as_str(), stored.session.started_ms), ("telegram", Some(10_500)));
        assert_eq!(stored.rows[3].row, Some(5));
        assert_eq!(what(&got), [""; 0]);
        assert_eq!(shown(&made.session("other").unwrap()), "U\"elsewhere\"");
    }
}

#[test]
fn the_live_history_has_the_frontier_in_place_of_what_it_covers() {
    let got = Made::new(&[SCHEMA, TALK]).read(History::Live);
    let first = shown(&got).lines().next().unwrap().to_owned();
    assert_eq!(first, r#"S"sys" U^"[Summary, depth 1, node 3]\nboth\n\n[Summary, depth 0, node 4]\nleaf c" U"three""#);
    assert!(stored(&got, 0).nodes.is_empty());
    assert_eq!(what(&got), ["1 results whose calls were summarised are not part of the live history"]);
}

#[test]
fn history_that_was_appended_again_is_kept_and_counted() {
    let made = Made::new(&[
        SCHEMA,
        TALK,
        "INSERT INTO messages (session_id, source, role, content, tool_calls, tool_call_id, tool_name, timestamp)
            SELECT session_id, source, role, content, tool_calls, tool_call_id, tool_name, 99 FROM messages
            WHERE session_id = 's' ORDER BY store_id;",
    ]);
    let got = made.read(History::Full);
    assert_eq!(got.conversations[0].document.messages.len(), 12);
    let want =
        "session \"s\": 6 of 12 messages repeat earlier ones in runs of 3 or more, the first in row 8; kept as stored";
    assert_eq!(what(&got), [want]);
}

#[test]
fn broken_nodes_are_kept_with_what_can_be_read() {
    let made = Made::new(&[
        SCHEMA,
        TALK,
        "DELETE FROM summary_nodes;
         INSERT INTO summary_nodes (node_id, session_id, depth, summary, source_ids, source_type, created_at) VALUES
            (1, 's', 1, 'a', '[2]', 'nodes', 1), (2, 's', 1, 'b', '[1, 3]', 'nodes', 1),
            (3, 's', -5, 'c', '[2, 77, \"3\", null]', 'messages', 1), (4, 's', 0, 'd', 'oops', 'messages', 1),
            (5, 's', 99999999999, 'e', '[2]', 'runes', 1), (6, 'ghost', 0, 'f', '[1]', 'messages', 1);",
    ]);
    let got = made.read(History::Full);
    assert_eq!(
        nodes(stored(&got, 0)),
        ["3 0 [1, 2] [] c", "2 1 [] [0] b", "1 1 [] [1] a", "4 0 [] [] d", "5 0 [] [] e"]
    );
    assert_eq!(
        what(&got),
        [
            "1 nodes of 1 sessions without messages left out",
            "1 sources of row 3 of table summary_nodes are no numbers; left out",
            "the sources of row 4 of table summary_nodes are no JSON list; the node is kept without them",
            "row 5 of table summary_nodes has sources of the kind \"runes\"; the node is kept without them",
            "node 3 of table summary_nodes has the depth -5; read as 0",
            "node 5 of table summary_nodes has the depth 99999999999; read as 0",
            "1 sources of nodes in table summary_nodes are not in their session; the nodes are kept without them",
            "1 links of nodes in table summary_nodes lead back to the node itself; left out",
        ]
    );
}

#[test]
fn a_store_without_nodes_gives_its_messages() {
    let got =
        Made::new(&[SCHEMA, TALK, "DROP TABLE summary_nodes; UPDATE metadata SET value = '12';"]).read(History::Live);
    assert_eq!(got.conversations[0].document.messages.len(), 6);
    assert!(what(&got)[0].starts_with("schema 12 of the database is newer than 5"));
    assert_eq!(what(&got)[1], "the database has no readable table summary_nodes; no summaries are read");
}
