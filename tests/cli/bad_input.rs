//! What no one should feed a program and everyone does: a clear error or a valid result, never an internal error.

use super::*;
use serde_json::json;

/// Compacts by force; returns the exit code and everything that was said.
fn compact(env: &TestEnv, name: &str, content: &[u8]) -> (i32, String) {
    let file = env.write(name, content).unwrap().display().to_string();
    said(run(env, &["compact", &file, "--force", "--context-length", "8000"]))
}

fn said(outcome: Outcome) -> (i32, String) {
    let code = outcome.status.code().unwrap_or(-1);
    let said = format!("{}\n{}", outcome.stdout, outcome.stderr);
    assert!(code == 0 || code == 1, "exit code {code}:\n{said}");
    assert!(!said.contains("internal error") && !said.contains("panicked"), "{said}");
    (code, said)
}

#[test]
fn what_is_no_conversation_is_an_error_that_says_so() {
    let env = env();
    for (name, content) in [
        ("empty", &b""[..]),
        ("blank", b" \n\n "),
        ("not-json", b"this is { no json"),
        ("nul", &[0u8; 4096]),
        ("invalid-utf8", b"\xff\xfe\xfa\x00\x80"),
        ("number", b"42"),
        ("no-messages", b"{\"messages\":[]}"),
        ("wrong-type", b"{\"messages\":{\"role\":\"user\"}}"),
    ] {
        let (code, said) = compact(&env, name, content);
        assert_eq!(code, 1, "{name}: {said}");
        assert!(said.contains("error:") && said.contains(name), "{name}: {said}");
    }
    let (code, said) = said(run(&env, &["compact", &env.work().display().to_string()]));
    assert!(code == 1 && said.contains("folder") || said.contains("directory"), "{said}");
    let (code, said) = super::bad_input::said(run(&env, &["compact", "there-is-no-such-file"]));
    assert!(code == 1 && said.contains("there-is-no-such-file"), "{said}");
}

fn body(messages: serde_json::Value) -> Vec<u8> {
    json!({ "model": "gpt-5", "messages": messages }).to_string().into_bytes()
}

fn call(id: &str) -> serde_json::Value {
    json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } })
}

#[test]
fn odd_conversations_give_a_valid_result() {
    let env = env();
    let calls: Vec<_> = (0..10_000).map(|at| call(&format!("c{at}"))).collect();
    let mut parallel = vec![
        json!({ "role": "user", "content": "do it all" }),
        json!({ "role": "assistant", "content": null, "tool_calls": calls }),
    ];
    parallel
        .extend((0..10_000).map(|at| json!({ "role": "tool", "tool_call_id": format!("c{at}"), "content": "done" })));
    parallel.push(json!({ "role": "assistant", "content": "all is done" }));
    let huge = "a very long line of words ".repeat(200_000);
    let cases: Vec<(&str, serde_json::Value)> = vec![
        ("without-role", json!([{ "content": "who am i" }, { "role": "user", "content": "hello" }])),
        ("parallel", json!(parallel)),
        (
            "duplicate-ids",
            json!([
                { "role": "user", "content": "x" }, { "role": "assistant", "content": null, "tool_calls": [call("a"), call("a")] },
                { "role": "tool", "tool_call_id": "a", "content": "r" }, { "role": "tool", "tool_call_id": "a", "content": "r" },
                { "role": "user", "content": "y" },
            ]),
        ),
        (
            "results-before-calls",
            json!([
                { "role": "user", "content": "x" }, { "role": "tool", "tool_call_id": "a", "content": "r" },
                { "role": "assistant", "content": null, "tool_calls": [call("a")] }, { "role": "user", "content": "y" },
            ]),
        ),
        ("only-system", json!([{ "role": "system", "content": "rules" }])),
        (
            "five-megabytes",
            json!([
                { "role": "user", "content": "start" }, { "role": "assistant", "content": huge }, { "role": "user", "content": "go on" },
            ]),
        ),
    ];
    for (name, messages) in cases {
        let (code, said) = compact(&env, name, &body(messages));
        assert_eq!(code, 0, "{name}: {}", said.chars().take(2_000).collect::<String>());
    }
}

#[test]
fn a_line_of_a_gigabyte_is_passed_over() {
    use std::io::Write;
    let env = env();
    let path = env.work().join("session.jsonl");
    let mut file = std::fs::File::create(&path).unwrap();
    let line = |role: &str, parent: &str, id: &str, text: &str| {
        json!({ "type": role, "uuid": id, "parentUuid": if parent.is_empty() { json!(null) } else { json!(parent) },
            "sessionId": "s", "isSidechain": false, "message": { "role": role, "content": text } })
        .to_string()
            + "\n"
    };
    file.write_all(line("user", "", "a", "hello").as_bytes()).unwrap();
    // A hole reads as NUL bytes and takes no room on the disk.
    let end = file.metadata().unwrap().len();
    file.set_len(end + (1 << 30)).unwrap();
    use std::io::Seek;
    file.seek(std::io::SeekFrom::End(0)).unwrap();
    file.write_all(format!("\n{}", line("assistant", "a", "b", "hello to you")).as_bytes()).unwrap();
    drop(file);
    let (code, said) = said(run(&env, &["compact", &path.display().to_string(), "--force"]));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("line 2"), "{said}");
}

#[test]
fn a_bad_command_line_is_told_apart_from_bad_data() {
    let env = env();
    run(&env, &["compact"]).failure(2);
    run(&env, &["compact", "x", "--context-length", "many"]).failure(2);
    let outcome = run(&env, &["--json", "compact", "there-is-no-such-file"]);
    assert_eq!(outcome.status.code(), Some(1));
    assert!(json_error(&outcome.stdout).contains("there-is-no-such-file"), "{}", outcome.stdout);
}

fn json_error(text: &str) -> String {
    super::json(text)["error"]["message"].as_str().unwrap_or_default().to_owned()
        + &super::json(text)["error"].to_string()
}

#[test]
fn a_bad_configuration_never_stops_the_work() {
    let env = env();
    for config in [
        "compression: [",
        "compression:\n  threshold: half\n  protect_last_n: -3\nnonsense: 1\n",
        "\t: :",
        "- a\n- b\n",
    ] {
        env.write("config.yaml", config).unwrap();
        let file = env.write("talk.json", body(json!([{ "role": "user", "content": "hello" }]))).unwrap();
        let (code, said) = said(run(&env, &["compact", &file.display().to_string()]));
        assert_eq!(code, 0, "{config:?}: {said}");
        assert!(said.contains("config.yaml"), "{config:?} is not spoken of: {said}");
    }
}
