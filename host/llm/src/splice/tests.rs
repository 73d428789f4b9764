//! What is appended to a live request, and what else is changed.

use super::*;

const CHAT_LIST: &str = r#""messages":[{"role":"user","content":"a"}]"#;

fn chat(rest: &str) -> Result<String, String> {
    append(&format!("{{\"model\":\"m\",{CHAT_LIST}{rest}}}"), Api::Chat, "Q").map(|spliced| spliced.body)
}

#[test]
fn only_what_spoils_the_answer_is_changed() {
    let asked = r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"Q"}]"#;
    let cases = [
        ("", ""),
        (r#","temperature":1.0"#, r#","temperature":1.0"#),
        (r#","stream":true,"n":3"#, r#","stream":false,"n":1"#),
        (r#","tools":[],"tool_choice":"auto""#, r#","tools":[],"tool_choice":"auto""#),
        (r#","tools":[1],"tool_choice":"auto""#, r#","tools":[1],"tool_choice":"none""#),
        (r#","tools":[1] "#, r#","tools":[1] ,"tool_choice":"none""#),
        (r#","max_tokens":9000"#, r#","max_tokens":9000"#),
        (r#","max_completion_tokens":9"#, r#","max_completion_tokens":null"#),
    ];
    for (rest, want) in cases {
        assert_eq!(chat(rest).unwrap(), format!("{asked}{want}}}"), "{rest}");
    }
}

#[test]
fn anthropic_keeps_its_tool_choice_unless_it_forces_a_call() {
    let body = |choice: &str, limit: u32| {
        format!(
            r#"{{"model":"m","max_tokens":{limit},"tools":[1],"tool_choice":{{"type":"{choice}"}},"messages":[{{"role":"user","content":"a"}}]}}"#
        )
    };
    let changed = |choice: &str| append(&body(choice, 9_000), Api::Messages, "Q").unwrap().body;
    assert!(changed("auto").contains(r#""tool_choice":{"type":"auto"}"#));
    assert!(changed("any").contains(r#""tool_choice":{"type":"none"}"#));
    assert!(append(&body("auto", 10), Api::Messages, "Q").unwrap().body.contains("\"max_tokens\":8192"));
}

#[test]
fn what_cannot_carry_a_question_is_refused() {
    let responses = |items: &str| append(&format!("{{\"model\":\"m\",\"input\":{items}}}"), Api::Responses, "Q");
    let cases = [
        chat(r#","response_format":{"type":"json_object"}"#),
        responses(r#"[{"type":"function_call","call_id":"c","name":"t","arguments":"{}"}]"#).map(|s| s.body),
        responses(r#"[{"type":"compaction_trigger"}]"#).map(|s| s.body),
        responses("{}").map(|s| s.body),
        append(r#"{"model":"m","conversation":"c","input":"a"}"#, Api::Responses, "Q").map(|s| s.body),
        append(r#"{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"x","input":{}}]}]}"#, Api::Messages, "Q").map(|s| s.body),
        append("nonsense", Api::Chat, "Q").map(|s| s.body),
        append(r#"{"messages":[{"role":"user","content":"a"}]}"#, Api::Chat, "Q").map(|s| s.body),
    ];
    for case in cases {
        assert!(case.as_ref().is_err_and(|why| why.contains("live request")), "{case:?}");
    }
    assert!(chat(r#","response_format":{"type":"text"}"#).is_ok());
    let closed = r#"[{"type":"function_call","call_id":"c","name":"t","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]"#;
    assert!(responses(closed).is_ok());
}
