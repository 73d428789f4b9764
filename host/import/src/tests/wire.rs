//! Request bodies and message lists.

use super::{check, lines, problems, read};
use crate::{Format, History};

#[test]
fn bodies_of_every_dialect_keep_their_bytes() {
    let cases = [
        (
            r#"{ "model":"m", "x":[1, 2],"messages":[ {"role":"user","content":"hi","odd":1} ],"tools":[] }"#,
            Format::OpenAi,
        ),
        (
            r#"{"system":"s","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}],"max_tokens":5}"#,
            Format::Anthropic,
        ),
        (
            r#"{"model":"m","instructions":"i","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}"#,
            Format::Responses,
        ),
    ];
    for (text, format) in cases {
        let got = read(text, History::Live).unwrap();
        assert_eq!(got.format, format, "{text}");
        let document = &got.conversations[0].document;
        assert_eq!(document.write(document.messages.iter().map(|message| message.raw.as_str())), text);
    }
}

#[test]
fn a_string_input_is_one_message() {
    check(r#"{"model":"m","input":"hi"}"#, Format::Responses, r#"U"hi""#);
}

#[test]
fn a_bare_list_and_a_message_a_line_are_the_same_conversation() {
    let (a, b) = (r#"{"role":"user","content":"a"}"#, r#"{"role":"assistant","content":"b"}"#);
    check(&format!("[{a},{b}]"), Format::OpenAi, r#"U"a" A"b""#);
    check(&lines(&[a, b]), Format::OpenAi, r#"U"a" A"b""#);
}

#[test]
fn a_body_a_line_gives_a_conversation_each() {
    let body = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}],"instance_id":"{text}"}}"#);
    let got = check(&lines(&[&body("a"), "[]", &body("b")]), Format::OpenAi, "U\"a\"\nU\"b\"");
    assert_eq!(got.conversations[1].id, "b");
}

#[test]
fn legacy_functions_and_null_content_are_read() {
    check(
        r#"[{"role":"user","content":"a"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}]"#,
        Format::OpenAi,
        &super::shown(&read(r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}]}"#, History::Live).unwrap()),
    );
}

#[test]
fn the_tokens_of_a_call_log_are_reported() {
    let got = check(
        r#"{"messages":[{"role":"user","content":"a"}],"response":{"usage":{"prompt_tokens":9}}}"#,
        Format::OpenAi,
        r#"U"a""#,
    );
    assert_eq!(got.conversations[0].reported_tokens, Some(9));
}

#[test]
fn lists_deep_in_a_toolbench_answer_are_found_and_the_longest_is_the_main_one() {
    let text = r#"{"win":true,"tree":{"tree":{"node_type":"x"}},"answer_generation":{"train_messages":[
        [{"role":"user","content":"a"}],[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]]}}"#;
    check(text, Format::ToolBench, "U\"a\" A\"b\"\nbranch: U\"a\"");
}

#[test]
fn a_cut_body_keeps_the_whole_messages_and_members() {
    let got = check(
        r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"us"#,
        Format::OpenAi,
        r#"U"a" A"b""#,
    );
    assert_eq!(got.conversations[0].document.member("model"), Some("\"m\""));
    assert_eq!(problems(&got), ["1: the document is cut here; the "]);
}

#[test]
fn a_broken_body_keeps_what_comes_before_the_fault() {
    let got =
        check(r#"[{"role":"user","content":"a"},{"role":"user","content":"b"},}]"#, Format::OpenAi, r#"U"a" U"b""#);
    assert_eq!(got.problems.len(), 1);
}

#[test]
fn cline_blocks_become_what_the_api_knows() {
    let store = r#"{"version":1,"agent":"lead","sessionId":"s","updated_at":"t","messages":[
        {"role":"user","content":[{"type":"text","text":"sum"}],"metadata":{"kind":"compaction_summary"},"id":"0"},
        {"role":"user","content":[{"type":"text","text":"look"},{"type":"file","path":"/a","content":"body"}],"ts":1},
        {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"read","input":{}}],"ts":2,"modelInfo":{"id":"m"},"metrics":{"inputTokens":8}},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","name":"read","content":[{"query":"q","success":true}]}],"ts":3}
        ],"system_prompt":"be"}"#;
    let rest = r#"U"look""<file_content path=\"/a\">\nbody\n</file_content>" A[t1 read {}] U(t1 {"query":"q","success":true})"#;
    super::check_as(store, History::Full, Format::Cline, rest);
    let got = super::check_as(store, History::Live, Format::Cline, &format!("U^\"sum\" {rest}"));
    let document = &got.conversations[0].document;
    assert_eq!(document.member("system"), Some("\"be\""));
    assert_eq!(
        document.messages[2].raw,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"read","input":{}}]}"#
    );
    assert!(!document.messages[3].raw.contains("\"name\""));
    assert_eq!(got.conversations[0].reported_tokens, Some(8));
    let cut = check_cut(store);
    assert_eq!(cut, 3);
}

fn check_cut(store: &str) -> usize {
    let at = store.find("tool_result").unwrap();
    read(&store[..at], History::Live).unwrap().conversations[0].document.messages.len()
}
