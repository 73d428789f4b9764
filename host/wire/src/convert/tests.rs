//! Facts about conversions: pairs stay pairs, and the target accepts the list.

use engine_api::{Dialect, Message, PartKind, Role};

use super::*;
use crate::json::Object;

fn converted(text: &str, to: Dialect) -> Converted {
    convert(&Document::read(text, None).unwrap(), to)
}

fn raws(converted: &Converted) -> Vec<&str> {
    converted.document.messages.iter().map(|message| message.raw.as_str()).collect()
}

const OPENAI: &str = r#"{"model":"m","max_tokens":5,"seed":1,"messages":[
  {"role":"system","content":"be brief"},
  {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]},
  {"role":"assistant","reasoning_content":"hm","content":"ok","tool_calls":[
    {"id":"a b","type":"function","function":{"name":"read.file","arguments":"{\"p\":1}"}},
    {"id":"c","type":"function","function":{"name":"g","arguments":"not json"}}]},
  {"role":"tool","tool_call_id":"a b","content":"one"},
  {"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"two"}]},
  {"role":"user","content":"go on"},
  {"role":"assistant","content":"done "}],
 "tools":[{"type":"function","function":{"name":"read.file","description":"d","parameters":{"type":"object"}}},{"type":"web_search"}]}"#;

#[test]
fn chat_completions_become_anthropic_messages() {
    let converted = converted(OPENAI, Dialect::Anthropic);
    let document = &converted.document;
    assert_eq!(document.member("system"), Some("\"be brief\""));
    assert_eq!(document.member("max_tokens"), Some("5"));
    assert_eq!(
        document.member("tools"),
        Some(r#"[{"name":"read_file","description":"d","input_schema":{"type":"object"}}]"#)
    );
    assert_eq!(
        raws(&converted),
        [
            r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"a_b","name":"read_file","input":{"p":1}},{"type":"tool_use","id":"c","name":"g","input":{"_":"not json"}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a_b","content":"one"},{"type":"tool_result","tool_use_id":"c","content":"two"},{"type":"text","text":"go on"}]}"#,
            r#"{"role":"assistant","content":"done"}"#,
        ]
    );
    assert_eq!(
        converted.notes,
        [
            "1 reasoning parts left out: they are signed for their own provider",
            "1 call ids changed: the target refuses them or wants each one once",
            "1 tool arguments wrapped: the target wants a JSON object",
            "1 tool definitions left out that the target dialect does not know",
            "1 members left out of the body: seed",
        ]
    );
}

#[test]
fn chat_completions_become_response_items() {
    let converted = converted(OPENAI, Dialect::Responses);
    let kinds: Vec<String> =
        raws(&converted).iter().map(|raw| Object::parse(raw).unwrap().text("type").unwrap().into_owned()).collect();
    let output = "function_call_output";
    assert_eq!(
        kinds,
        ["message", "message", "message", "function_call", "function_call", output, output, "message", "message"]
    );
    assert_eq!(converted.document.member("max_output_tokens"), Some("5"));
    assert_eq!(
        raws(&converted)[1],
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,QUJD"}]}"#
    );
}

#[test]
fn a_round_trip_over_all_dialects_keeps_the_meaning() {
    let text =
        OPENAI.replace("a b", "ab").replace("read.file", "read").replace("not json", "{}").replace("done ", "done");
    let first = Document::read(&text, None).unwrap();
    let anthropic = convert(&first, Dialect::Anthropic);
    let responses = convert(&anthropic.document, Dialect::Responses);
    let back = convert(&responses.document, Dialect::OpenAiChat);
    type Shape = (Role, Vec<(PartKind, String, String)>);
    let shape = |messages: &[Message]| -> Vec<Shape> {
        let known = |m: &Message| {
            let parts = m.parts.iter().filter(|part| part.kind != PartKind::Reasoning);
            parts.map(|part| (part.kind, part.text.clone(), part.call_id.clone())).collect()
        };
        messages.iter().map(|m| (m.role, known(m))).collect()
    };
    assert_eq!(shape(&back.document.messages), shape(&first.messages));
}

#[test]
fn within_a_dialect_not_a_byte_changes() {
    let document = Document::read(OPENAI, None).unwrap();
    let same = convert(&document, Dialect::OpenAiChat);
    assert_eq!(same.document.write(raws(&same)), OPENAI);
    assert!(same.notes.is_empty());
}

#[test]
fn reused_and_shared_ids_become_unique_and_stay_paired() {
    let call = |ids: &[&str]| {
        let calls: Vec<String> = ids
            .iter()
            .map(|id| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#))
            .collect();
        format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","))
    };
    let tool = |id: &str, text: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{text}"}}"#);
    let user = r#"{"role":"user","content":"x"}"#.to_owned();
    // The second turn's first call is never answered, so its id is free for the third.
    let list = [
        user,
        call(&["r", "r"]),
        tool("r", "1"),
        tool("r", "2"),
        call(&["r", "z"]),
        tool("z", "4"),
        call(&["r"]),
        tool("r", "5"),
        tool("r", "again"),
        tool("lost", "6"),
    ];
    let converted = converted(&format!("[{}]", list.join(",")), Dialect::Responses);
    let parts: Vec<(&str, &str)> = converted
        .document
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .map(|part| (part.call_id.as_str(), part.text.as_str()))
        .collect();
    assert_eq!(
        parts,
        [
            ("", "x"),
            ("r", "{}"),
            ("r_2", "{}"),
            ("r", "1"),
            ("r_2", "2"),
            ("r_3", "{}"),
            ("z", "{}"),
            ("z", "4"),
            ("r_4", "{}"),
            ("r_4", "5\nagain"),
            ("lost", "6"),
        ]
    );
    assert!(converted.notes.iter().any(|note| note.starts_with("1 repeated answers")));
}

#[test]
fn one_id_in_two_kinds_of_call_becomes_two() {
    let text = r#"{"input":[{"role":"user","content":"x"},
      {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"custom_tool_call","call_id":"a","name":"p","input":"y"},
      {"type":"custom_tool_call_output","call_id":"a","output":"of p"},{"type":"function_call_output","call_id":"a","output":"of f"}]}"#;
    let converted = converted(text, Dialect::OpenAiChat);
    let answers: Vec<_> = converted.document.messages[2..]
        .iter()
        .map(|m| (m.parts[0].tool_name.as_str(), m.parts[0].text.as_str()))
        .collect();
    assert_eq!(answers, [("p", "of p"), ("f", "of f")]);
}

#[test]
fn legacy_function_calls_get_ids() {
    let text = r#"[{"role":"user","content":"x"},
      {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"},
      {"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}},{"role":"function","name":"f","content":"s"}]"#;
    let converted = converted(text, Dialect::Anthropic);
    assert_eq!(
        raws(&converted)[1..3],
        [
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"f","input":{}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"r"}]}"#,
        ]
    );
    assert!(raws(&converted)[4].contains("call_2"));
}

#[test]
fn anthropic_begins_with_the_user() {
    for text in [
        r#"[{"role":"system","content":"s"},{"role":"assistant","content":"hello"}]"#,
        r#"[{"role":"system","content":"s"}]"#,
    ] {
        let converted = converted(text, Dialect::Anthropic);
        let first = &converted.document.messages[0];
        assert_eq!(first.role, Role::User);
        assert!(first.flags.has(engine_api::Flags::SYNTHETIC) && !first.is_real_user());
    }
}

#[test]
fn parallel_items_become_one_turn_with_its_answers_behind_it() {
    let text = r#"{"instructions":"be brief","input":[
      {"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]},
      {"type":"reasoning","summary":[],"encrypted_content":"e"},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"now"}]},
      {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
      {"type":"custom_tool_call","call_id":"b","name":"patch","input":"*** Begin"},
      {"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"1"},{"type":"input_image","image_url":"https://x/y.png"}]},
      {"type":"message","role":"developer","content":[{"type":"input_text","text":"note"}]},
      {"type":"custom_tool_call_output","call_id":"b","output":"2"}]}"#;
    let chat = converted(text, Dialect::OpenAiChat);
    assert_eq!(
        raws(&chat),
        [
            r#"{"role":"system","content":"be brief"}"#,
            r#"{"role":"user","content":"x"}"#,
            r#"{"role":"assistant","content":"now","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"custom","custom":{"name":"patch","input":"*** Begin"}}]}"#,
            r#"{"role":"tool","tool_call_id":"a","content":"1\n[image]"}"#,
            r#"{"role":"tool","tool_call_id":"b","content":"2"}"#,
            r#"{"role":"developer","content":"note"}"#,
        ]
    );
    let anthropic = converted(text, Dialect::Anthropic);
    assert_eq!(
        anthropic.document.member("system"),
        Some(r#"[{"type":"text","text":"be brief"},{"type":"text","text":"note"}]"#)
    );
    assert_eq!(
        raws(&anthropic)[1..],
        [
            r#"{"role":"assistant","content":[{"type":"text","text":"now"},{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"patch","input":{"input":"*** Begin"}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"},{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]},{"type":"tool_result","tool_use_id":"b","content":"2"}]}"#,
        ]
    );
}

#[test]
fn long_ids_are_cut_and_stay_distinct() {
    let long = |end: &str| format!("{}{end}", "x".repeat(300));
    let text = format!(
        r#"{{"input":[{{"type":"function_call","call_id":"{a}","name":"f","arguments":"{{}}"}},{{"type":"function_call","call_id":"{b}","name":"f","arguments":"{{}}"}},{{"type":"function_call_output","call_id":"{b}","output":"b"}},{{"type":"function_call_output","call_id":"{a}","output":"a"}}]}}"#,
        a = long("a"),
        b = long("b"),
    );
    let converted = converted(&text, Dialect::OpenAiChat);
    let [calls, answer_b, answer_a] = converted.document.messages.as_slice() else { panic!("three messages") };
    let ids: Vec<&str> = calls.parts.iter().map(|part| part.call_id.as_str()).collect();
    assert!(ids.iter().all(|id| id.len() == 40) && ids[0] != ids[1]);
    assert_eq!((answer_b.parts[0].call_id.as_str(), answer_a.parts[0].call_id.as_str()), (ids[1], ids[0]));
}

#[test]
fn many_equal_ids_are_made_unique_in_linear_time() {
    let pair = r#"{"type":"function_call","call_id":"REDACTED","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"REDACTED","output":"x"}"#;
    let text = format!("{{\"input\":[{}]}}", vec![pair; 20_000].join(","));
    let converted = converted(&text, Dialect::Anthropic);
    assert_eq!(converted.document.messages.len(), 40_001);
}
