//! Facts about splitting lists and messages, in each dialect.

use engine_api::{Dialect, Flags, PartKind, Role};

use super::*;

#[test]
fn results_take_the_name_of_the_newest_call_before_them() {
    let raws = [
        r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"read","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"a","content":"x"}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"write","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"a","content":"x"}"#,
        r#"{"role":"tool","tool_call_id":"z","content":"x"}"#,
    ];
    let mut messages: Vec<_> = raws.iter().map(|raw| parse_message(Dialect::OpenAiChat, raw).unwrap()).collect();
    number(&mut messages);
    assert_eq!(messages.iter().map(|m| m.id.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let names: Vec<_> = messages.iter().map(|m| m.parts[0].tool_name.as_str()).collect();
    assert_eq!(names, ["read", "read", "write", "write", ""]);
}

#[test]
fn arrays_split_into_exact_texts() {
    let text = " [ {\"a\": 1} ,\n 2,\"x\\u0041\" ] ";
    assert_eq!(split_array(text).unwrap(), ["{\"a\": 1}", "2", "\"x\\u0041\""]);
    assert_eq!(split_array("[]").unwrap(), Vec::<&str>::new());
    assert!(matches!(split_array("[1,"), Err(WireError::NotJson { .. })));
    assert!(matches!(split_array("{}"), Err(WireError::WrongKind { found: "an object", .. })));
}

#[test]
fn dialects_are_recognised_by_content() {
    let user = r#"{"role":"user","content":"hi"}"#;
    let system = r#"{"role":"system","content":"s"}"#;
    let tool_use = r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}"#;
    let item = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#;
    let call = r#"{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}"#;
    for (messages, want) in [
        (&[][..], Dialect::OpenAiChat),
        (&[user], Dialect::OpenAiChat),
        (&[system, user], Dialect::OpenAiChat),
        (&[user, tool_use], Dialect::Anthropic),
        (&[item], Dialect::Responses),
        (&[user, call], Dialect::Responses),
        (&["1", "not json", "{}"], Dialect::OpenAiChat),
    ] {
        assert_eq!(detect(messages), want, "{messages:?}");
    }
}

#[test]
fn what_is_no_object_is_opaque_and_what_is_no_json_is_an_error() {
    for dialect in [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses] {
        for raw in ["1", "\"text\"", "[]", "null", "{}", " { } "] {
            let message = parse_message(dialect, raw).unwrap();
            assert_eq!((message.role, message.raw.as_str()), (Role::Other, raw));
        }
        assert!(matches!(parse_message(dialect, "{\"role\":"), Err(WireError::NotJson { .. })));
        assert!(parse_message(dialect, "").is_err());
    }
}

/// Role, then per part: kind, call id, tool name, text, marks without the family.
type Shape = (Role, Vec<(PartKind, String, String, String, Flags)>);

fn shape(dialect: Dialect, raw: &str) -> Shape {
    let message = parse_message(dialect, raw).unwrap();
    let parts = message
        .parts
        .into_iter()
        .map(|part| (part.kind, part.call_id, part.tool_name, part.text, part.flags.with_family(0)));
    (message.role, parts.collect())
}

fn part(kind: PartKind, id: &str, name: &str, text: &str) -> (PartKind, String, String, String, Flags) {
    (kind, id.into(), name.into(), text.into(), Flags::default())
}

fn marked(kind: PartKind, id: &str, text: &str, flags: Flags) -> (PartKind, String, String, String, Flags) {
    (kind, id.into(), String::new(), text.into(), flags)
}

use PartKind::{Image, Opaque, Reasoning, Text, ToolCall, ToolResult};

#[test]
fn chat_completions_parts_come_in_the_order_of_the_text() {
    let read = |raw: &str| shape(Dialect::OpenAiChat, raw);
    assert_eq!(
        read(
            r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"p\":1}"}},
            {"id":"b","type":"custom","custom":{"name":"p","input":"x"}},{"id":"c","function":{"name":"g","arguments":{"q": 2}}},7],
            "reasoning_content":"hm","content":[{"type":"text","text":"t"},{"type":"image_url"},"bare",{"type":"file"},{"type":"text"}],
            "refusal":"no","function_call":{"name":"old","arguments":"{}"}}"#
        ),
        (
            Role::Assistant,
            vec![
                part(ToolCall, "a", "f", "{\"p\":1}"),
                part(ToolCall, "b", "p", "x"),
                part(ToolCall, "c", "g", "{\"q\": 2}"),
                part(Opaque, "", "", ""),
                part(Reasoning, "", "", "hm"),
                part(Text, "", "", "t"),
                part(Image, "", "", ""),
                part(Text, "", "", "bare"),
                part(Opaque, "", "", ""),
                part(Opaque, "", "", ""),
                part(Text, "", "", "no"),
                part(ToolCall, "", "old", "{}"),
            ]
        )
    );
    let image = Flags::HAS_IMAGE;
    for (raw, want) in [
        (
            r#"{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"x"},{"type":"image_url"},{"type":"text","text":"y"}]}"#,
            marked(ToolResult, "a", "x\ny", image),
        ),
        (r#"{"role":"tool","tool_call_id":"a","content":""}"#, part(ToolResult, "a", "", "")),
        (r#"{"role":"tool","tool_call_id":"a"}"#, part(ToolResult, "a", "", "")),
        (r#"{"role":"function","name":"old","content":"r"}"#, part(ToolResult, "", "old", "r")),
    ] {
        assert_eq!(read(raw), (Role::Tool, vec![want]), "{raw}");
    }
    for content in ["null", "\"\"", "[]"] {
        assert_eq!(read(&format!(r#"{{"role":"user","content":{content}}}"#)), (Role::User, vec![]));
    }
    assert_eq!(
        read(r#"{"role":"assistant","content":"a","reasoning":"r","reasoning_details":[{"type":"reasoning.text","text":"r"}]}"#).1,
        vec![part(Text, "", "", "a"), part(Reasoning, "", "", "r"), part(Reasoning, "", "", "")]
    );
    assert_eq!(read(r#"{"role":"exit","content":"bye"}"#), (Role::Other, vec![part(Text, "", "", "bye")]));
}

#[test]
fn anthropic_blocks_are_parts() {
    let read = |raw: &str| shape(Dialect::Anthropic, raw);
    assert_eq!(
        read(
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},
            {"type":"text","text":"t"},{"type":"tool_use","id":"a","name":"f","input":{"p": 1}},
            {"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]}]}"#
        ),
        (
            Role::Assistant,
            vec![
                part(Reasoning, "", "", "hm"),
                part(Reasoning, "", "", ""),
                part(Text, "", "", "t"),
                part(ToolCall, "a", "f", "{\"p\": 1}"),
                marked(Opaque, "", "", Flags::SELF_CONTAINED),
                marked(Opaque, "", "", Flags::SELF_CONTAINED),
            ]
        )
    );
    assert_eq!(
        read(
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"bad"},
            {"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"x"},{"type":"image"},{"query":"q"},{"type":"document"}]},
            {"type":"tool_result","tool_use_id":"c"},{"type":"image","source":{}},{"type":"document"}]}"#
        ),
        (
            Role::User,
            vec![
                marked(ToolResult, "a", "bad", Flags::ERROR),
                marked(ToolResult, "b", "x\n{\"query\":\"q\"}", Flags::HAS_IMAGE),
                part(ToolResult, "c", "", ""),
                part(Image, "", "", ""),
                part(Opaque, "", "", ""),
            ]
        )
    );
    assert_eq!(read(r#"{"role":"user","content":"hi"}"#), (Role::User, vec![part(Text, "", "", "hi")]));
}

#[test]
fn response_items_have_the_role_of_who_speaks() {
    let read = |raw: &str| shape(Dialect::Responses, raw);
    let own = marked(Opaque, "", "", Flags::SELF_CONTAINED);
    for (raw, role, want) in [
        (
            r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"x"}]}"#,
            Role::Developer,
            part(Text, "", "", "x"),
        ),
        (r#"{"role":"user","content":"x"}"#, Role::User, part(Text, "", "", "x")),
        (
            r#"{"role":"assistant","content":[{"type":"output_text","text":"x"}]}"#,
            Role::Assistant,
            part(Text, "", "", "x"),
        ),
        (
            r#"{"role":"user","content":[{"type":"input_image","image_url":"data:x"}]}"#,
            Role::User,
            part(Image, "", "", ""),
        ),
        (
            r#"{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}"#,
            Role::Assistant,
            part(ToolCall, "a", "f", "{}"),
        ),
        (
            r#"{"type":"custom_tool_call","call_id":"a","name":"p","input":"x"}"#,
            Role::Assistant,
            part(ToolCall, "a", "p", "x"),
        ),
        (
            r#"{"type":"local_shell_call","id":"i","action":{"type":"exec"}}"#,
            Role::Assistant,
            part(ToolCall, "i", "local_shell_call", r#"{"type":"exec"}"#),
        ),
        (
            r#"{"type":"tool_search_call","call_id":"a","arguments":{"q":1}}"#,
            Role::Assistant,
            part(ToolCall, "a", "tool_search_call", r#"{"q":1}"#),
        ),
        (r#"{"type":"tool_search_call","execution":"server","arguments":{}}"#, Role::Assistant, own.clone()),
        (r#"{"type":"web_search_call","status":"completed"}"#, Role::Assistant, own),
        (r#"{"type":"function_call_output","call_id":"a","output":"x"}"#, Role::Tool, part(ToolResult, "a", "", "x")),
        (
            r#"{"type":"custom_tool_call_output","call_id":"a","output":[{"type":"input_text","text":"x"},{"type":"input_image"}]}"#,
            Role::Tool,
            marked(ToolResult, "a", "x", Flags::HAS_IMAGE),
        ),
        (
            r#"{"type":"shell_call_output","call_id":"a","output":[{"stdout":"x","stderr":"y"},{"stdout":"","stderr":"z"}]}"#,
            Role::Tool,
            part(ToolResult, "a", "", "x\ny\nz"),
        ),
        (
            r#"{"type":"computer_call_output","call_id":"a","output":{"type":"computer_screenshot"}}"#,
            Role::Tool,
            marked(ToolResult, "a", "", Flags::HAS_IMAGE),
        ),
        (
            r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"x"},{"text":"y"}],"content":null}"#,
            Role::Assistant,
            part(Reasoning, "", "", "x\ny"),
        ),
        (r#"{"type":"compaction","encrypted_content":"x"}"#, Role::Other, part(Opaque, "", "", "")),
        (r#"{"type":"additional_tools","role":"developer","tools":[]}"#, Role::Other, part(Opaque, "", "", "")),
    ] {
        assert_eq!(read(raw), (role, vec![want]), "{raw}");
    }
}

#[test]
fn each_kind_of_call_item_is_a_family_of_its_own() {
    let mut families = Vec::new();
    for known in &crate::openai_responses::CALL_KINDS {
        let family = |kind: &str| {
            let raw = format!(r#"{{"type":"{kind}","call_id":"a"}}"#);
            parse_message(Dialect::Responses, &raw).unwrap().parts[0].flags.family()
        };
        assert_eq!(family(known.call), family(known.output));
        families.push(family(known.call));
    }
    families.dedup();
    assert_eq!(families.len(), crate::openai_responses::CALL_KINDS.len());
}

#[test]
fn results_take_names_only_within_their_family() {
    let raws = [
        r#"{"type":"function_call","call_id":"a","name":"read","arguments":"{}"}"#,
        r#"{"type":"custom_tool_call","call_id":"a","name":"patch","input":"x"}"#,
        r#"{"type":"function_call_output","call_id":"a","output":"1"}"#,
        r#"{"type":"custom_tool_call_output","call_id":"a","output":"2"}"#,
    ];
    let mut messages: Vec<_> = raws.iter().map(|raw| parse_message(Dialect::Responses, raw).unwrap()).collect();
    number(&mut messages);
    let names: Vec<_> = messages.iter().map(|m| m.parts[0].tool_name.as_str()).collect();
    assert_eq!(names, ["read", "patch", "read", "patch"]);
}

#[test]
fn a_nest_of_brackets_is_one_opaque_value() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    for dialect in [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses] {
        for raw in [
            deep.clone(),
            format!(r#"{{"role":"user","content":{deep}}}"#),
            format!(r#"{{"role":"tool","content":{deep}}}"#),
        ] {
            assert_eq!(parse_message(dialect, &raw).unwrap().raw, raw);
        }
    }
}
