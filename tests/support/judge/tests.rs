//! Cases of the judge: each names what must be found in a list, and what must not.

use super::*;
use serde_json::{Value, json};

fn user() -> Value {
    user_says("hi")
}
fn user_says(text: &str) -> Value {
    json!({"role": "user", "content": text})
}
fn assistant() -> Value {
    assistant_says("ok")
}
fn assistant_says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}
fn system() -> Value {
    json!({"role": "system", "content": "s"})
}
fn call(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}
fn call_with(arguments: Value) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}]})
}
fn tool(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "r"})
}
fn tool_use(ids: &[&str]) -> Value {
    let block = |id: &&str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    json!({"role": "assistant", "content": ids.iter().map(block).collect::<Vec<_>>()})
}
fn result(ids: &[&str]) -> Value {
    let block = |id: &&str| json!({"type": "tool_result", "tool_use_id": id, "content": "r"});
    json!({"role": "user", "content": ids.iter().map(block).collect::<Vec<_>>()})
}
fn blocks(role: &str, blocks: Value) -> Value {
    json!({"role": role, "content": blocks})
}
fn text_block(role: &str, text: &str) -> Value {
    blocks(role, json!([{"type": "text", "text": text}]))
}
fn function_call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
}
fn function_output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "r"})
}
fn item(role: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": "x"}]})
}

type Case = (&'static str, Vec<Value>, &'static [&'static str], &'static [&'static str]);

/// Checks cases of name, messages, codes that must be found and codes that must not; `*` stands for every code.
fn check_cases(dialect: Dialect, cases: Vec<Case>) {
    for (name, messages, must, must_not) in cases {
        let found = check(&messages, dialect, None);
        let codes: Vec<&str> = found.iter().map(|finding| finding.code).collect();
        for code in must {
            assert!(codes.contains(code), "{name}: {code} was not found in {codes:?}");
        }
        for code in must_not {
            let is_clean = if *code == "*" { codes.is_empty() } else { !codes.contains(code) };
            assert!(is_clean, "{name}: {codes:?} holds {code}");
        }
    }
}

#[test]
fn openai_lists_are_judged_by_call_groups() {
    let cases: Vec<Case> = vec![
        ("clean", vec![system(), user(), call(&["a", "b"]), tool("a"), tool("b"), assistant()], &[], &["*"]),
        ("any order", vec![user(), call(&["a", "b"]), tool("b"), tool("a"), assistant()], &[], &["*"]),
        ("same role twice is fine", vec![user(), user(), assistant(), assistant(), user()], &[], &["*"]),
        ("orphan first", vec![user(), tool("a"), assistant()], &["orphan_result"], &[]),
        (
            "orphan after other turn",
            vec![user(), call(&["a"]), tool("a"), assistant(), tool("a")],
            &["orphan_result"],
            &[],
        ),
        ("wrong id", vec![user(), call(&["a"]), tool("z"), assistant()], &["orphan_result", "missing_result"], &[]),
        ("missing", vec![user(), call(&["a", "b"]), tool("a"), user()], &["missing_result"], &["orphan_result"]),
        ("missing at end", vec![user(), call(&["a"])], &["missing_result"], &[]),
        ("user between", vec![user(), call(&["a"]), user(), tool("a")], &["missing_result", "orphan_result"], &[]),
        ("dup id in one", vec![user(), call(&["a", "a"]), tool("a"), assistant()], &["duplicate_id"], &[]),
        ("dup id later", vec![user(), call(&["a"]), tool("a"), call(&["a"]), tool("a")], &["duplicate_id"], &[]),
        ("dup result", vec![user(), call(&["a"]), tool("a"), tool("a"), assistant()], &["duplicate_result"], &[]),
        ("null content", vec![user(), blocks("assistant", Value::Null)], &["null_content"], &[]),
        ("null user", vec![blocks("user", Value::Null)], &["null_content"], &[]),
        ("empty array", vec![blocks("user", json!([]))], &["empty_content"], &[]),
        (
            "empty calls",
            vec![user(), json!({"role": "assistant", "content": "x", "tool_calls": []})],
            &["empty_tool_calls"],
            &[],
        ),
        ("object arguments", vec![user(), call_with(json!({"x": 1})), tool("a")], &["arguments_type"], &[]),
        ("broken arguments", vec![user(), call_with(json!("{\"x\": ")), tool("a")], &["arguments_json"], &[]),
        ("bad role", vec![json!({"role": "exit", "content": "x"})], &["bad_role"], &[]),
        ("anthropic part", vec![user(), text_block("assistant", "x"), result(&["a"])], &["foreign_part"], &[]),
        ("late system", vec![user(), system(), assistant()], &["late_system"], &[]),
        (
            "tool without id",
            vec![user(), call(&["a"]), json!({"role": "tool", "content": "x"})],
            &["tool_without_id", "missing_result"],
            &[],
        ),
        (
            "legacy clean",
            vec![
                user(),
                json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}),
                json!({"role": "function", "name": "f", "content": "r"}),
                assistant(),
            ],
            &[],
            &["*"],
        ),
        (
            "legacy orphan",
            vec![user(), json!({"role": "function", "name": "f", "content": "r"})],
            &["orphan_result"],
            &[],
        ),
        ("nothing", vec![], &["no_messages"], &[]),
    ];
    assert_eq!(cases.len(), 25);
    check_cases(Dialect::OpenAi, cases);
}

#[test]
fn anthropic_lists_are_judged_by_joined_turns() {
    let thinking = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let text = json!({"type": "text", "text": "x"});
    let answer = json!({"type": "tool_result", "tool_use_id": "a", "content": "r"});
    let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let cases: Vec<Case> = vec![
        ("clean", vec![user(), tool_use(&["a", "b"]), result(&["a", "b"]), assistant()], &[], &["*"]),
        ("first assistant", vec![assistant(), user()], &["first_not_user"], &[]),
        ("system role", vec![system(), user()], &["bad_role"], &["first_not_user"]),
        ("same role", vec![user(), user(), assistant()], &["same_role"], &[]),
        (
            "split parallel is joined",
            vec![user(), tool_use(&["a"]), tool_use(&["b"]), result(&["a"]), result(&["b"]), assistant()],
            &["same_role"],
            &["missing_result", "orphan_result"],
        ),
        ("orphan", vec![user(), assistant(), result(&["a"]), assistant()], &["orphan_result"], &[]),
        ("orphan first", vec![result(&["a"]), assistant()], &["orphan_result"], &[]),
        (
            "missing",
            vec![user(), tool_use(&["a", "b"]), result(&["a"]), assistant()],
            &["missing_result"],
            &["orphan_result"],
        ),
        ("missing at end", vec![user(), tool_use(&["a"])], &["missing_result"], &[]),
        (
            "late result",
            vec![user(), tool_use(&["a"]), user(), assistant(), result(&["a"])],
            &["missing_result", "orphan_result"],
            &[],
        ),
        (
            "dup use",
            vec![user(), tool_use(&["a"]), result(&["a"]), tool_use(&["a"]), result(&["a"])],
            &["duplicate_id", "duplicate_result"],
            &[],
        ),
        ("dup result", vec![user(), tool_use(&["a"]), result(&["a", "a"]), assistant()], &["duplicate_result"], &[]),
        (
            "text before result",
            vec![user(), tool_use(&["a"]), blocks("user", json!([text, answer]))],
            &["result_not_first"],
            &[],
        ),
        ("text after result", vec![user(), tool_use(&["a"]), blocks("user", json!([answer, text]))], &[], &["*"]),
        ("empty string", vec![user_says(""), assistant()], &["empty_content"], &[]),
        ("empty array", vec![user(), blocks("assistant", json!([])), user()], &["empty_content"], &[]),
        ("last assistant may be empty", vec![user(), blocks("assistant", json!([]))], &[], &["empty_content"]),
        ("empty text", vec![user(), text_block("assistant", ""), user()], &["empty_text"], &[]),
        ("blank text", vec![user(), text_block("assistant", " \n"), user()], &["blank_text"], &[]),
        (
            "unsigned thinking",
            vec![user(), blocks("assistant", json!([{"type": "thinking", "thinking": "t"}, text]))],
            &["unsigned_thinking"],
            &[],
        ),
        ("thinking last", vec![user(), blocks("assistant", json!([thinking])), user()], &["thinking_last"], &[]),
        ("thinking fine", vec![user(), blocks("assistant", json!([thinking, call])), result(&["a"])], &[], &["*"]),
        (
            "string input",
            vec![
                user(),
                blocks("assistant", json!([{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}])),
                result(&["a"]),
            ],
            &["input_type"],
            &[],
        ),
        ("bad id", vec![user(), tool_use(&["a b"]), result(&["a b"])], &["bad_id"], &[]),
        (
            "empty error",
            vec![
                user(),
                tool_use(&["a"]),
                blocks("user", json!([{"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": ""}])),
            ],
            &["empty_error_result"],
            &[],
        ),
        (
            "empty result is fine",
            vec![user(), tool_use(&["a"]), blocks("user", json!([{"type": "tool_result", "tool_use_id": "a"}]))],
            &[],
            &["*"],
        ),
        (
            "image without data",
            vec![blocks(
                "user",
                json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]),
            )],
            &["bad_source"],
            &[],
        ),
        ("tool_use in user", vec![blocks("user", json!([call]))], &["block_in_role"], &[]),
        ("trailing space", vec![user(), assistant_says("x ")], &["trailing_space"], &[]),
        (
            "five cache marks",
            vec![blocks("user", json!([marked, marked, marked, marked, marked]))],
            &["cache_control"],
            &[],
        ),
    ];
    assert_eq!(cases.len(), 30);
    check_cases(Dialect::Anthropic, cases);
}

#[test]
fn responses_lists_are_judged_by_call_id() {
    let custom_call = json!({"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "x"});
    let custom_output = json!({"type": "custom_tool_call_output", "call_id": "c", "output": "r"});
    let reasoning = json!({"type": "reasoning", "summary": []});
    let cases: Vec<Case> = vec![
        (
            "clean",
            vec![
                item("user"),
                reasoning,
                function_call("a"),
                function_call("b"),
                function_output("a"),
                function_output("b"),
                item("assistant"),
            ],
            &[],
            &["*"],
        ),
        ("orphan", vec![item("user"), function_output("a")], &["orphan_result"], &[]),
        ("missing", vec![item("user"), function_call("a"), item("assistant")], &["missing_result"], &[]),
        ("output first", vec![function_output("a"), function_call("a")], &["orphan_result", "result_before_call"], &[]),
        ("dup", vec![function_call("a"), function_call("a"), function_output("a")], &["duplicate_id"], &[]),
        ("custom", vec![item("user"), custom_call, custom_output], &[], &["*"]),
        ("empty message", vec![json!({"type": "message", "role": "user", "content": []})], &["empty_content"], &[]),
    ];
    assert_eq!(cases.len(), 7);
    check_cases(Dialect::Responses, cases);
}

#[test]
fn the_system_prompt_counts_for_cache_marks_and_must_be_text() {
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let messages = vec![blocks("user", json!([marked, marked, marked, marked]))];
    let codes = |system: Value| {
        check(&messages, Dialect::Anthropic, Some(&system)).into_iter().map(|f| f.code).collect::<Vec<_>>()
    };
    assert!(codes(json!("you are")).is_empty());
    assert_eq!(codes(json!([marked])), ["cache_control"]);
    assert_eq!(codes(json!([{"type": "text", "text": ""}])), ["system_block"]);
    assert_eq!(codes(json!(7)), ["system_type"]);
}

#[test]
fn findings_say_where_and_what() {
    let messages = vec![user(), call(&["a"]), tool("a"), tool("a"), call(&["b"])];
    let found: Vec<String> = check(&messages, Dialect::OpenAi, None).iter().map(Finding::to_string).collect();
    assert_eq!(
        found,
        [
            "message 3: warn: duplicate_result: tool_call_id a answered twice",
            "message 4: error: missing_result: tool_call b has no tool message before message 5",
        ]
    );
    assert_eq!(check(&[], Dialect::OpenAi, None)[0].to_string(), "list: error: no_messages");
}

#[test]
fn lone_surrogates_are_read_and_stay_distinct() {
    let text = |raw: &str| read(raw).unwrap().as_str().unwrap().to_owned();
    assert_eq!(text(r#""a\ud83db""#), "a\u{f003d}b");
    assert_ne!(text(r#""\ud83d""#), text(r#""\uDE00""#));
    assert_eq!(text(r#""\ud83d\ude00""#), "😀");
    assert_eq!(text(r#""\\ud83d\ud83d""#), "\\ud83d\u{f003d}");
    assert_eq!(text(r#""\ud83d\ud83d\ude00\n""#), "\u{f003d}😀\n");
    assert_eq!(text(r#""\ude00\ud83d""#), "\u{f0600}\u{f003d}");
    assert!(read(r#""\ud83""#).is_err());
    assert!(read("\"\\é\"").is_err());
    assert!(read("{\"a\": \\").is_err());
}

#[test]
fn raw_messages_that_are_no_json_are_errors() {
    let raw = [r#"{"role":"user","content":"hi"}"#, r#"{"role":"#];
    let found = errors(&raw, Dialect::OpenAi);
    assert_eq!((found.len(), found[0].code, found[0].index), (1, "not_json", Some(1)));
    assert_eq!(errors(&raw[..1], Dialect::OpenAi), []);
}

#[test]
fn odd_types_everywhere_are_judged_without_a_panic() {
    let odd =
        [json!(null), json!(true), json!(0), json!(-0.0), json!("x"), json!([]), json!([{}]), json!({}), json!([1])];
    let fields = ["role", "type", "content", "tool_calls", "function_call", "call_id", "id", "name", "output"];
    let roles = ["assistant", "user", "tool", "function"];
    for dialect in Dialect::ALL {
        for value in &odd {
            assert!(!check(std::slice::from_ref(value), dialect, Some(value)).is_empty(), "{value}");
            for role in roles {
                for field in fields {
                    let mut message = json!({"role": role, "content": "x"});
                    message[field] = value.clone();
                    check(&[message.clone(), message], dialect, None);
                }
            }
            for kind in ["text", "tool_use", "tool_result", "image", "thinking", "image_url"] {
                for field in
                    ["id", "tool_use_id", "content", "source", "text", "input", "name", "image_url", "thinking"]
                {
                    let mut block = json!({"type": kind});
                    block[field] = value.clone();
                    check(
                        &[user(), blocks("assistant", json!([block])), blocks("user", json!([block]))],
                        dialect,
                        None,
                    );
                }
            }
        }
    }
}
