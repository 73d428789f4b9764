//! What Hermes gives for the same messages, recorded, and what Python prints.

use super::*;
use serde_json::json;

/// The figures of a message, by the names under which Hermes' are recorded.
fn figure(name: &str, message: &Value) -> u64 {
    match name {
        "estimate_messages_tokens_rough" => messages(std::slice::from_ref(message)),
        "estimate_chars" => message_chars(message),
        "tail_budget_tokens" => tail_message(message),
        "content_length_for_budget" => message.get("content").map_or(0, content_chars),
        "estimate_tokens_rough" => super::text(message["text"].as_str().unwrap()),
        other => panic!("unknown figure {other}"),
    }
}

fn check(message: &Value, observed: &Value) -> usize {
    for (name, right) in observed.as_object().unwrap() {
        assert_eq!(figure(name, message), right.as_u64().unwrap(), "{name} of {message:.200}");
    }
    observed.as_object().unwrap().len()
}

#[test]
fn recorded_estimates_are_met_exactly() {
    let golden: Value = serde_json::from_str(include_str!("golden-02.json")).unwrap();
    // One case sums up ten messages of which only seven were recorded, so nothing can be compared with it.
    let cases =
        golden["cases"].as_array().unwrap().iter().filter(|case| case["input"].get("all_of_the_above").is_none());
    let figures: usize = cases.map(|case| check(&case["input"], &case["observed"])).sum();
    assert_eq!(figures, 7 * 4 + 3);
}

#[test]
fn estimates_of_odd_messages_are_those_of_hermes() {
    let observed: Value = serde_json::from_str(include_str!("observed.json")).unwrap();
    let pairs = observed["messages"].as_array().unwrap();
    let figures: usize = pairs.iter().map(|pair| check(&pair[0], &pair[1])).sum();
    assert_eq!(figures, 10 * 3);
    let list: Vec<Value> = pairs.iter().map(|pair| pair[0].clone()).collect();
    assert_eq!(messages(&list), observed["list"].as_u64().unwrap());
    let own_tools = observed["tools"].as_array().unwrap();
    assert_eq!(tools(own_tools), observed["tools_tokens"].as_u64().unwrap());
    assert_eq!(request("Sei kurz, é.", &list, own_tools), observed["request"].as_u64().unwrap());
}

#[test]
fn values_are_as_long_as_python_prints_them() {
    // The right column is `len(repr(json.loads(...)))` of CPython 3.11.
    for (value, right) in PRINTED {
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(printed::chars(&value), *right, "{value}");
    }
}

#[test]
fn replayed_fields_are_measured_as_spaced_json() {
    // The right column is `len(json.dumps(..., ensure_ascii=False, sort_keys=True))` of CPython 3.11.
    for (value, right) in SPACED {
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(printed::spaced_json_chars(&value), *right, "{value}");
    }
}

#[test]
fn a_request_is_its_instructions_messages_and_tools() {
    let tool = json!({"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object", "é": 1}}});
    let chars = "read".len() + "Reads.".len() + r#"{"type":"object","é":1}"#.chars().count();
    assert_eq!(tools(std::slice::from_ref(&tool)), chars.div_ceil(4) as u64);
    let message = json!({"role": "user", "content": "hello"});
    assert_eq!(request("abcde", &[message], &[tool]), 2 + 9 + chars.div_ceil(4) as u64);
    // A tool without a frame, one without parameters, and what is no tool.
    assert_eq!(tools(&[json!({"name": "abcd"}), json!({"name": "ab", "parameters": null}), json!("x")]), 3);
    assert_eq!(request("", &[], &[]), 0);
}

#[test]
fn pictures_are_counted_wherever_they_stand() {
    let picture = json!({"type": "image", "source": {"data": "A".repeat(4_000)}});
    let stashed =
        json!({"role": "user", "content": "x", "_anthropic_content_blocks": [picture, {"type": "image_url"}]});
    assert_eq!(messages(&[stashed]), 1_500 + 8);
    let three = json!({"role": "user", "content": [picture, picture, {"type": "input_image"}]});
    assert!(messages(&[three]) < 4_600);
}

#[test]
fn a_tally_rounds_once_and_takes_what_is_no_json() {
    let raw = r#"{"role":"user","content":"hello"}"#;
    let (mut one, mut all) = (Tally::default(), Tally::default());
    one.add_json(raw);
    (0..3).for_each(|_| all.add_all(one));
    assert_eq!((one.tokens(), all.tokens()), (9, 27));
    all.add_json("{broken");
    assert_eq!(all.tokens(), 29);
}

#[test]
fn what_is_no_message_is_measured_as_it_is_printed() {
    for value in [
        json!(null),
        json!(3),
        json!("text"),
        json!([1, 2]),
        json!({"content": {"a": [null]}}),
        json!({"tool_calls": "x"}),
    ] {
        messages(std::slice::from_ref(&value));
        tail_message(&value);
    }
    assert_eq!(message_chars(&json!("it's")), 4);
}

const PRINTED: &[(&str, u64)] = &[
    (r#"null"#, 4),
    (r#"true"#, 4),
    (r#"false"#, 5),
    (r#"0"#, 1),
    (r#"-0.0"#, 4),
    (r#"1.5"#, 3),
    (r#"1e16"#, 5),
    (r#"1e-5"#, 5),
    (r#"123456789012345680.0"#, 22),
    (r#"1e22"#, 5),
    (r#"0.0001"#, 6),
    (r#"-2.5e-7"#, 8),
    (r#"1e100"#, 6),
    (r#"18446744073709551615"#, 20),
    (r#""""#, 2),
    (r#""it's""#, 6),
    (r#""say \"it's\"""#, 13),
    (r#""\\ \n \t \r""#, 13),
    (r#""\u0000\u001b\u007f\u0080\u00a0\u00ad""#, 26),
    (r#""é汉👍""#, 5),
    (r#""\u200b\u200d\ufeff\u2028""#, 26),
    (r#""\ue000\ud83e\uddff\udbff\udffd""#, 19),
    (r#"[]"#, 2),
    (r#"{}"#, 2),
    (r#"[1,[2,[]],{}]"#, 16),
    (r#"{"a":{"b":[true,null,"x"]},"c'd":1.0}"#, 43),
    (r#"["a","b'c"]"#, 12),
];

const SPACED: &[(&str, u64)] = &[
    (r#"[]"#, 2),
    (r#"{}"#, 2),
    (r#"[{"type":"reasoning","n":1.5,"x":[null,true,false]}]"#, 59),
    (r#"{"b":"é\n\u0001\u0008\u007f","a":"\"\\"}"#, 34),
    (r#"1e22"#, 5),
    (r#"["x"]"#, 5),
];
