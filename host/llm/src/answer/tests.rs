//! Forms of answers that the scripted provider does not give.

use super::*;

#[test]
fn texts_are_found_in_all_their_forms() {
    let cases = [
        (
            Api::Chat,
            r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}"#,
            "a\nb",
        ),
        (
            Api::Chat,
            "\u{feff} {\"choices\":[{\"message\":{\"content\":\"<think>x</think>\\n a \"},\"error\":null}],\"error\":null}",
            "a",
        ),
        (
            Api::Messages,
            r#"{"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"},{"type":"tool_use","id":"1"}]}"#,
            "a",
        ),
        (
            Api::Responses,
            r#"{"output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":"a"}]}]}"#,
            "a",
        ),
    ];
    for (api, body, want) in cases {
        assert_eq!(read(api, body).unwrap().text, want, "{body}");
    }
}

#[test]
fn usage_counts_cached_tokens_once() {
    let body = r#"{"content":[{"type":"text","text":"a"}],"usage":{"input_tokens":5,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":7}}"#;
    let usage = read(Api::Messages, body).unwrap().usage;
    assert_eq!(
        (usage.prompt_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.total_tokens),
        (125, 100, 20, 132)
    );
    let body = r#"{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":125,"completion_tokens":-1,"prompt_tokens_details":{"cached_tokens":100}}}"#;
    let usage = read(Api::Chat, body).unwrap().usage;
    assert_eq!((usage.prompt_tokens, usage.cache_read_tokens, usage.completion_tokens), (125, 100, 0));
}

#[test]
fn no_body_panics() {
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let bodies = [
        "",
        "null",
        "[]",
        "{}",
        "7",
        "\"x\"",
        "{\"choices\":{}}",
        "{\"choices\":[7]}",
        "{\"content\":\"x\"}",
        "{\"output\":7}",
        "data: x",
        "\u{0}",
        &deep,
    ];
    for body in bodies {
        for api in [Api::Chat, Api::Messages, Api::Responses] {
            assert!(read(api, body).is_err(), "{body:.40}");
        }
    }
    let routed = r#"{"error":{"message":"Provider returned error","code":429}}"#;
    assert_eq!(read(Api::Chat, routed).unwrap_err().kind, Kind::RateLimited);
}
