//! Every shape of message comes back byte for byte, and a history that a client sends again after a restart is found.

use crate::mix;
use crate::state::{self, append, messages};
use engine_api::{Dialect, MessageId};
use host_config::Config;
use host_registry::{Registry, Setup};
use host_runtime::{LiveSession, Options};
use host_store::{NewSession, Store};
use host_wire::Document;

/// Messages as clients and gateways really write them. Each is one line here unless white space is its point.
const CHAT: [&str; 16] = [
    r#"{"role":"user","name":"ann","content":"a name"}"#,
    r#"{"role":"assistant","content":"so","reasoning_content":"first this, then that"}"#,
    r#"{"role":"assistant","content":"so","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"c2ln","index":0}]}"#,
    r#"{"role":"assistant","content":null,"refusal":"I cannot help with that."}"#,
    r#"{"id":"msg_01","role":"assistant","content":"an id","created":1735689600}"#,
    r#"{"role":"user","content":[{"type":"text","text":"structured","cache_control":{"type":"ephemeral"}}]}"#,
    r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"now","arguments":""}}]}"#,
    r#"{"role":"tool","tool_call_id":"c1","name":"now","content":""}"#,
    r#"{"role":"user","content":"\u00e9\ud83d\ude00 \/ \u65e5\u672c \ud800"}"#,
    "{ \"role\" :\t\"user\",\r\n  \"content\":   \"odd white space\"  }",
    r#"{"role":"user","content":"first","content":"second"}"#,
    r#"{"role":"assistant","content":"large","x":123456789012345678901234567890,"y":1e400,"z":-0.0,"w":1.10}"#,
    r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}},{"type":"text","text":"look"}]}"#,
    r#"{"role":"assistant","content":"found","annotations":[{"type":"url_citation","url_citation":{"url":"https://example.org","start_index":0,"end_index":5}}]}"#,
    r#"{"role":"assistant","content":"thought","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"RXVZ"}]}"#,
    r#"{"role":"developer","content":"Answer in German."}"#,
];

const ANTHROPIC: [&str; 16] = [
    r#"{"role":"user","name":"ann","content":"a name that the dialect does not know"}"#,
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"first this","signature":"RXVZQ2s="},{"type":"text","text":"so"}]}"#,
    r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"RXVZQ2s="},{"type":"text","text":"so"}]}"#,
    r#"{"role":"assistant","content":[],"stop_reason":"refusal"}"#,
    r#"{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"an id"}],"usage":{"input_tokens":1}}"#,
    r#"{"role":"user","content":[{"type":"text","text":"structured","cache_control":{"type":"ephemeral","ttl":"1h"}}]}"#,
    r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"now","input":{}}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[],"is_error":false}]}"#,
    r#"{"role":"user","content":"\u00e9\ud83d\ude00 \/ \u65e5\u672c"}"#,
    "{ \"role\" :\t\"user\",\r\n  \"content\":   \"odd white space\"  }",
    r#"{"role":"user","content":"first","content":"second"}"#,
    r#"{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"sum","input":{"x":123456789012345678901234567890,"y":1e400,"z":-0.0}}]}"#,
    r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"tool_result","tool_use_id":"t2","content":"?"}]}"#,
    r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"srv1","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"srv1","content":[{"type":"web_search_result","url":"https://example.org","encrypted_content":"RXE="}]}]}"#,
    r#"{"role":"assistant","content":[{"type":"text","text":"cited","citations":[{"type":"char_location","cited_text":"x","document_index":0,"start_char_index":0,"end_char_index":1}]}]}"#,
    r#"{"role":"system","content":"a role that only some gateways take"}"#,
];

const RESPONSES: [&str; 16] = [
    r#"{"role":"user","name":"ann","content":"a name"}"#,
    r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"first this"}]}"#,
    r#"{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"Z0FBQUE="}"#,
    r#"{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I cannot help with that."}]}"#,
    r#"{"type":"message","id":"msg_01","role":"assistant","status":"completed","content":[{"type":"output_text","text":"an id","annotations":[]}]}"#,
    r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"structured"}]}"#,
    r#"{"type":"function_call","id":"fc_1","call_id":"c1","name":"now","arguments":""}"#,
    r#"{"type":"function_call_output","call_id":"c1","output":""}"#,
    r#"{"role":"user","content":"\u00e9\ud83d\ude00 \/ \u65e5\u672c"}"#,
    "{ \"role\" :\t\"user\",\r\n  \"content\":   \"odd white space\"  }",
    r#"{"role":"user","content":"first","content":"second"}"#,
    r#"{"type":"message","role":"assistant","content":"large","x":123456789012345678901234567890,"y":1e400,"z":-0.0}"#,
    r#"{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}]}"#,
    r#"{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}}"#,
    r#"{"type":"compaction","id":"cmp_1","encrypted_content":"Z0FBQUE="}"#,
    r#"{"role":"developer","content":"Answer in German."}"#,
];

fn open(store: &Store, dialect: Dialect, name: &str, raws: &[&str]) -> LiveSession {
    let home = tempfile::tempdir().unwrap();
    let registry = Registry::open(Setup { home: home.path().to_owned(), ..Setup::default() });
    let options =
        Options { session_id: name.to_owned(), context_length: Some(64_000), estimate: true, ..Options::default() };
    let document = Document::read(&body(dialect, raws), Some(dialect)).unwrap();
    LiveSession::open_stored(store, document, Config::default(), &registry, home.path(), options).unwrap()
}

/// A request body with members around the messages, and white space of its own.
fn body(dialect: Dialect, raws: &[&str]) -> String {
    let list = if dialect == Dialect::Responses { "input" } else { "messages" };
    format!("{{ \"model\": \"some-model\",\n  \"{list}\": [{}],\n  \"stream\": true }}", raws.join(","))
}

fn rows(store: &Store, key: i64) -> Vec<String> {
    store.rows(key, MessageId(0), u64::MAX).unwrap().into_iter().map(|(row, _)| row.raw).collect()
}

#[test]
fn sixteen_shapes_in_three_dialects_come_back_byte_for_byte() {
    for (dialect, shapes) in
        [(Dialect::OpenAiChat, CHAT), (Dialect::Anthropic, ANTHROPIC), (Dialect::Responses, RESPONSES)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let key = {
            let store = state::open(&path).unwrap();
            let live = open(&store, dialect, "shapes", &shapes);
            live.store().unwrap().1
        };
        let store = state::open(&path).unwrap();
        assert_eq!(rows(&store, key), shapes, "{dialect}: stored");
        // Goes on without a message of the client's, so what is written was read from the store.
        let again = open(&store, dialect, "shapes", &[]);
        let sent = again.write().unwrap();
        let read = Document::read(&sent, Some(dialect)).unwrap();
        let raws: Vec<&str> = read.messages.iter().map(|message| message.raw.as_str()).collect();
        assert_eq!(raws, shapes, "{dialect}: written");
        // And through an export into another store.
        let mut lines = Vec::new();
        store.export(None, &mut lines).unwrap();
        let other = state::open(&folder.path().join("other.db")).unwrap();
        other.import(&mut lines.as_slice()).unwrap();
        let key = other.session("shapes").unwrap().key;
        assert_eq!(rows(&other, key), shapes, "{dialect}: exported");
        assert_eq!(other.verify(None, true).unwrap().problems, Vec::<String>::new());
    }
}

/// What a client sends after a restart, of the history that it had, and how many of the messages are new.
fn restarts(history: &[String]) -> Vec<(&'static str, Vec<String>, usize)> {
    let new = |text: &str| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}");
    let with = |mut list: Vec<String>, more: &[String]| {
        list.extend_from_slice(more);
        list
    };
    let changed = |at: usize, raw: String| {
        let mut list = history.to_vec();
        list[at] = raw;
        list
    };
    let last = history.len() - 1;
    let turn = [new("go on"), "{\"role\":\"assistant\",\"content\":\"gone on\"}".to_owned()];
    let system = "{\"role\":\"system\",\"content\":\"Today is another day.\"}".to_owned();
    let suffixed = history[last].replace("\"}", " (the time is 12:00)\"}");
    assert_ne!(suffixed, history[last]);
    vec![
        ("the same", history.to_vec(), 0),
        ("one more turn", with(history.to_vec(), &turn), 2),
        ("another system prompt", with(changed(0, system), &turn), 3),
        ("an exchange taken back", with(history[..last - 1].to_vec(), &[new("rather this")]), 1),
        ("the last message edited", changed(last, new("what I meant is this")), 1),
        ("the oldest left out", with(history[5..].to_vec(), &turn), 2),
        ("a note behind the last message", changed(last, suffixed), 1),
        (
            "a summary of the client's in place of the oldest",
            with(vec![new("Summary so far: it went well.")], &history[9..]),
            1,
        ),
    ]
}

#[test]
fn a_history_that_is_sent_again_after_a_restart_is_not_stored_again() {
    let mut history = vec!["{\"role\":\"system\",\"content\":\"You mend programs.\"}".to_owned()];
    for at in 0..10 {
        let text = format!("part {at} of the work, {}", "with some words of its own ".repeat(200 + at));
        history.push(format!("{{\"role\":\"assistant\",\"content\":\"answer to {text}\"}}"));
        history.push(format!("{{\"role\":\"user\",\"content\":\"{text}\"}}"));
    }
    history.swap(1, 2);
    let refs: Vec<&str> = history.iter().map(String::as_str).collect();
    for (what, resent, added) in restarts(&history) {
        for is_compacted in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("s.db");
            {
                let store = state::open(&path).unwrap();
                drop(open(&store, Dialect::OpenAiChat, "s", &refs));
                if is_compacted {
                    mix::compact(&store, "s", true).unwrap();
                }
            }
            let store = state::open(&path).unwrap();
            let sent: Vec<&str> = resent.iter().map(String::as_str).collect();
            let live = open(&store, Dialect::OpenAiChat, "s", &sent);
            let key = live.store().unwrap().1;
            let stored = rows(&store, key);
            let case = format!("{what}, compacted: {is_compacted}");
            assert_eq!(stored.len(), history.len() + added, "{case}");
            assert_eq!(stored[..history.len()], history, "{case}");
            let last = live.session().view.last().unwrap();
            assert_eq!(last.raw, *sent.last().unwrap(), "{case}");
            assert_eq!(store.verify(None, true).unwrap().problems, Vec::<String>::new(), "{case}");
        }
    }
}

#[test]
fn an_interrupted_client_that_sends_everything_twice_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = state::open(&folder.path().join("s.db")).unwrap();
    let key = store.create_session(NewSession { name: "s".to_owned(), ..NewSession::default() }).unwrap().key;
    let raws = messages(3, 40);
    append(&store, key, &raws).unwrap();
    for _ in 0..3 {
        let parsed = state::parsed(&raws);
        assert_eq!(store.align(key, &parsed.iter().collect::<Vec<_>>()).unwrap().added, 0);
    }
    assert_eq!(rows(&store, key), raws);
}
