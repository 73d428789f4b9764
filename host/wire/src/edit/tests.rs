//! Facts about edits: what changes, what stays, and what an API would refuse afterwards.

use engine_api::{Dialect, PartKind};

use super::*;
use crate::parse_message;

use PartEdit::{Remove, Text};

#[track_caller]
fn check(dialect: Dialect, raw: &str, edits: &[(usize, PartEdit<'_>)], want: Option<&str>) {
    assert_eq!(edit_message(dialect, raw, edits).unwrap().as_deref(), want);
}

#[test]
fn openai_texts_and_calls_change_alone() {
    let openai = Dialect::OpenAiChat;
    check(
        openai,
        " {\"role\" : \"user\",\"content\":\"a\\u0062\" , \"x\":1e9} ",
        &[(0, Text("new \"y\""))],
        Some(" {\"role\" : \"user\",\"content\":\"new \\\"y\\\"\" , \"x\":1e9} "),
    );
    let raw = r#"{"role":"assistant","content":[ {"type":"text","text":"a","cache_control":{"type":"ephemeral"}} , {"type":"text","text":"b"} ],"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"2","type":"custom","custom":{"name":"p","input":"in"}}]}"#;
    check(openai, raw, &[], Some(raw));
    check(
        openai,
        raw,
        &[(0, Text("A")), (2, Text("{}")), (3, Text("IN"))],
        Some(
            r#"{"role":"assistant","content":[ {"type":"text","text":"A","cache_control":{"type":"ephemeral"}} , {"type":"text","text":"b"} ],"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"2","type":"custom","custom":{"name":"p","input":"IN"}}]}"#,
        ),
    );
    check(
        openai,
        raw,
        &[(0, Remove), (2, Remove)],
        Some(
            r#"{"role":"assistant","content":[ {"type":"text","text":"b"} ],"tool_calls":[{"id":"2","type":"custom","custom":{"name":"p","input":"in"}}]}"#,
        ),
    );
}

#[test]
fn openai_edits_leave_no_empty_list_behind() {
    let openai = Dialect::OpenAiChat;
    let raw =
        r#"{"role":"assistant","content":"hi","tool_calls":[{"id":"1","function":{"name":"f","arguments":{"a":1}}}]}"#;
    check(openai, raw, &[(1, Remove)], Some(r#"{"role":"assistant","content":"hi"}"#));
    check(openai, raw, &[(0, Text(" "))], Some(&raw.replace("\"hi\"", "null")));
    check(openai, raw, &[(0, Remove), (1, Remove)], None);
    // Arguments that were an object become the text that the API wants.
    check(openai, raw, &[(1, Text("{}"))], Some(&raw.replace(r#"{"a":1}"#, r#""{}""#)));
    let raw = r#"{"tool_calls":[{"id":"1","function":{}}],"role":"assistant","content":[{"type":"text","text":"x"}]}"#;
    check(openai, raw, &[(0, Remove)], Some(r#"{"role":"assistant","content":[{"type":"text","text":"x"}]}"#));
    check(
        openai,
        raw,
        &[(1, Remove)],
        Some(r#"{"tool_calls":[{"id":"1","function":{}}],"role":"assistant","content":null}"#),
    );
    let reasoned =
        r#"{"role":"assistant","reasoning_content":"hm","content":"hi","function_call":{"name":"f","arguments":"{}"}}"#;
    check(openai, reasoned, &[(0, Remove), (2, Remove)], Some(r#"{"role":"assistant","content":"hi"}"#));
    check(
        openai,
        reasoned,
        &[(1, Remove), (2, Text("{\"a\":1}"))],
        Some(
            r#"{"role":"assistant","reasoning_content":"hm","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}"#,
        ),
    );
    // Reasoning alone would be refused.
    check(openai, reasoned, &[(1, Remove), (2, Remove)], None);
}

#[test]
fn tool_answers_become_the_text() {
    let raw = r#"{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"image_url"}]}"#;
    check(Dialect::OpenAiChat, raw, &[(0, Text(""))], Some(r#"{"role":"tool","tool_call_id":"1","content":""}"#));
    check(Dialect::OpenAiChat, raw, &[(0, Remove)], None);
    check(
        Dialect::OpenAiChat,
        r#"{"role":"tool","tool_call_id":"1"}"#,
        &[(0, Text("x"))],
        Some(r#"{"role":"tool","tool_call_id":"1","content":"x"}"#),
    );

    let raw = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"text","text":"x"}]},{"tool_use_id":"b","type":"tool_result"},{"type":"text","text":"go"}]}"#;
    check(
        Dialect::Anthropic,
        raw,
        &[(0, Text("")), (1, Text("y"))],
        Some(
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"(no output)"},{"tool_use_id":"b","type":"tool_result","content":"y"},{"type":"text","text":"go"}]}"#,
        ),
    );

    for (raw, want) in [
        (
            r#"{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"x"}]}"#,
            Some(r#"{"type":"function_call_output","call_id":"a","output":"y"}"#),
        ),
        (
            r#"{"type":"shell_call_output","call_id":"a","output":[{"stdout":"x","stderr":"z","outcome":{"type":"timeout"}}]}"#,
            Some(
                r#"{"type":"shell_call_output","call_id":"a","output":[{"stdout":"y","stderr":"","outcome":{"type":"timeout"}}]}"#,
            ),
        ),
    ] {
        check(Dialect::Responses, raw, &[(0, Text("y"))], want);
        check(Dialect::Responses, raw, &[(0, Remove)], None);
    }
    let screenshot = r#"{"type":"computer_call_output","call_id":"a","output":{"type":"computer_screenshot"}}"#;
    assert!(matches!(
        edit_message(Dialect::Responses, screenshot, &[(0, Text("y"))]),
        Err(WireError::BadEdit { part: 0, .. })
    ));
}

#[test]
fn anthropic_inputs_stay_objects() {
    let raw = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"f","input":{"x": 1}}]}"#;
    let with = |input: &str| raw.replace(r#"{"x": 1}"#, input);
    check(Dialect::Anthropic, raw, &[(1, Text(r#"{"y":2}"#))], Some(&with(r#"{"y":2}"#)));
    check(Dialect::Anthropic, raw, &[(1, Text("cut sh"))], Some(&with(r#"{"_":"cut sh"}"#)));
    check(Dialect::Anthropic, raw, &[(1, Text("[1]"))], Some(&with(r#"{"_":"[1]"}"#)));
    check(Dialect::Anthropic, raw, &[(1, Remove)], None);
    check(
        Dialect::Anthropic,
        raw,
        &[(0, Remove)],
        Some(r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x": 1}}]}"#),
    );
    assert!(matches!(
        edit_message(Dialect::Anthropic, raw, &[(0, Text("x"))]),
        Err(WireError::BadEdit { part: 0, .. })
    ));
}

#[test]
fn responses_arguments_keep_their_kind() {
    let call = r#"{"type":"custom_tool_call","call_id":"a","name":"p","input":"x"}"#;
    check(Dialect::Responses, call, &[(0, Text("y"))], Some(&call.replace("\"x\"", "\"y\"")));
    let search = r#"{"type":"tool_search_call","call_id":"a","arguments":{"q":"x"}}"#;
    check(Dialect::Responses, search, &[(0, Text(r#"{"q":""}"#))], Some(&search.replace("\"x\"", "\"\"")));
    assert!(edit_message(Dialect::Responses, search, &[(0, Text("cut"))]).is_err());
    let message = r#"{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"},{"type":"output_text","text":"x","annotations":[]}]}"#;
    check(
        Dialect::Responses,
        message,
        &[(0, Text("never")), (1, Remove)],
        Some(r#"{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"never"}]}"#),
    );
    check(Dialect::Responses, message, &[(0, Remove), (1, Remove)], None);
}

#[test]
fn the_last_duplicate_member_is_the_one_that_changes() {
    check(
        Dialect::OpenAiChat,
        r#"{"role":"user","content":"a","content":"b"}"#,
        &[(0, Text("c"))],
        Some(r#"{"role":"user","content":"a","content":"c"}"#),
    );
}

#[test]
fn an_index_out_of_range_is_named() {
    let error = edit_message(Dialect::Anthropic, r#"{"role":"user","content":"a"}"#, &[(3, Remove)]).unwrap_err();
    assert_eq!(error.to_string(), "could not edit part 3 of the anthropic message: it has 1 parts");
    assert!(edit_message(Dialect::Anthropic, "nonsense", &[]).is_err());
}

#[test]
fn opaque_messages_can_only_go() {
    check(Dialect::Responses, r#"{"type":"compaction","encrypted_content":"x"}"#, &[(0, Remove)], None);
    assert_eq!(parse_message(Dialect::Responses, r#"{"type":"compaction"}"#).unwrap().parts[0].kind, PartKind::Opaque);
    assert!(edit_message(Dialect::Responses, r#"{"type":"compaction"}"#, &[(0, Text("x"))]).is_err());
}
