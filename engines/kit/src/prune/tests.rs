//! Short forms of results and arguments.
use super::*;
use engine_api::testing::{calls, result, user};
use engine_api::{Message, ViewTable};

fn line(tool: &str, arguments: &str, output: &str) -> String {
    let messages = [calls(1, &[("c", tool, arguments)]), result(2, "c", tool, output)];
    let table = ViewTable::new(1, &messages);
    let conversation = table.conversation();
    let calls = CallTable::new(&conversation);
    one_line_result(calls.call_of(1, 0), conversation.get(1).unwrap().part(0).unwrap())
}

#[test]
fn a_result_becomes_a_line_that_says_what_was_done() {
    let output = "x\n".repeat(200);
    for (tool, arguments, want) in [
        (
            "terminal",
            r#"{"command":"cargo test --all"}"#,
            "[terminal] ran `cargo test --all` -> exit ?, 200 lines output",
        ),
        (
            "shell",
            r#"{"command":["bash","-lc","ls -la"]}"#,
            "[shell] ran `bash -lc ls -la` -> exit ?, 200 lines output",
        ),
        ("Read", r#"{"file_path":"src/main.rs","offset":120}"#, "[Read] read src/main.rs from line 120 (400 chars)"),
        ("write_file", r#"{"path":"a.txt","content":"1\n2\n3"}"#, "[write_file] wrote to a.txt (3 lines)"),
        ("mcp__x__edit_file", r#"{"path":"a.txt"}"#, "[mcp__x__edit_file] changed a.txt (400 chars result)"),
        (
            "apply_patch",
            r#"{"patchText":"*** Begin Patch\n*** Update File: src/a.rs\n@@\n*** Add File: src/b.rs"}"#,
            "[apply_patch] changed src/a.rs, src/b.rs (400 chars result)",
        ),
        (
            "apply_patch",
            "*** Begin Patch\n*** Delete File: src/c.rs\n",
            "[apply_patch] changed src/c.rs (400 chars result)",
        ),
        ("search_files", r#"{"pattern":"fn main"}"#, "[search_files] searched for 'fn main' -> 200 lines"),
        (
            "memory",
            r#"{"action":"add","target":"user","text":"x"}"#,
            "[memory] action=add target=user (400 chars result)",
        ),
        ("odd", "not json", "[odd] not json (400 chars result)"),
        ("", "{}", "[unknown] (400 chars result)"),
        ("odd", "", "[odd] (400 chars result)"),
    ] {
        assert_eq!(line(tool, arguments, &output), want);
    }
}

#[test]
fn a_failed_command_keeps_the_line_that_says_why() {
    let output = format!("Compiling x\nerror[E0308]: mismatched types\n{}\nExit code: 101", "note\n".repeat(900));
    let got = line("bash", r#"{"command":"cargo check"}"#, &output);
    assert_eq!(got, "[bash] ran `cargo check` -> exit 101, 904 lines output | error[E0308]: mismatched types");
    assert!(line("bash", "{}", r#"{"output":"ok","exit_code":0}"#).contains("exit 0,"));
}

#[test]
fn exit_codes_are_read_in_their_usual_forms() {
    for (text, want) in [
        ("Exit code: 1", Some("1")),
        ("Exit code 127\nfoo", Some("127")),
        ("{\"output\":\"x\",\"exit_code\": -1}", Some("-1")),
        ("{\"exitCode\":0}", Some("0")),
        ("Process exited with code 2", Some("2")),
        ("exited with status: 3", Some("3")),
        ("<returncode>0</returncode>", Some("0")),
        ("exit is left, code is unknown", None),
        ("the exit code of the program is written below", None),
        ("exitexitexit code", None),
        ("", None),
    ] {
        assert_eq!(exit_code(text), want, "{text}");
    }
    let long = format!("{}\nexit code 4", "x".repeat(10_000));
    assert_eq!(exit_code(&long), Some("4"));
    assert_eq!(exit_code(&"exit".repeat(1_000)), None);
}

#[test]
fn a_line_is_short_whatever_comes_in() {
    let huge = "\u{1f600}\n\"".repeat(100_000);
    for arguments in [huge.clone(), format!("{{\"command\":{}}}", json::to_string(&huge).unwrap()), "{".repeat(10_000)]
    {
        for tool in ["bash", "read", "write", "edit", "grep", huge.as_str(), ""] {
            assert!(line(tool, &arguments, &huge).chars().count() < 400, "{tool:.10}");
        }
    }
}

#[test]
fn arguments_lose_the_inside_of_long_strings_and_stay_json() {
    let long = "ü".repeat(600);
    let arguments = json::json!({ "path": "a", "content": long, "list": [{ "deep": long }], "n": 1.5 }).to_string();
    let trimmed = trim_arguments(&arguments, 200).unwrap();
    let value: Value = json::from_str(&trimmed).unwrap();
    assert_eq!(value["path"], "a");
    assert_eq!(value["content"].as_str().unwrap(), format!("{}...[truncated]", "ü".repeat(200)));
    assert_eq!(value["list"][0]["deep"], value["content"]);
    assert_eq!(trim_arguments(&trimmed, 214), None, "a trimmed text is not trimmed again");
    for other in ["", "free text", "[\"a\"]", "{\"a\":", "{\"a\":1}"] {
        assert_eq!(trim_arguments(other, 200), None, "{other}");
    }
    assert!(json::from_str::<Value>(&emptied_arguments("{\"")).unwrap().is_object());
}

#[test]
fn pruning_leaves_short_pinned_and_shortened_parts_alone() {
    let long = "row\n".repeat(300);
    let mut messages = vec![
        user(1, &long),
        calls(
            2,
            &[("a", "bash", "{\"command\":\"ls\"}"), ("b", "bash", "{}"), ("c", "bash", "{}"), ("d", "bash", "{}")],
        ),
        result(3, "a", "bash", &long),
        result(4, "b", "bash", "short"),
        result(5, "c", "bash", &long),
        result(6, "d", "bash", &long),
    ];
    messages[4].flags = Flags::PINNED;
    messages[5].parts[0].flags = Flags::DEMOTED;
    let table = ViewTable::new(1, &messages);
    let conversation = table.conversation();
    let got = prune(&conversation, 0..99, &CallTable::new(&conversation));
    assert_eq!(got.iter().map(|it| (it.message, it.part)).collect::<Vec<_>>(), [(2, 0)]);
}

#[test]
fn of_equal_results_the_newest_stays() {
    let same = "y".repeat(300);
    let messages: Vec<Message> =
        (0..4).map(|at| result(at + 1, "c", "bash", if at == 2 { "other" } else { &same })).collect();
    let table = ViewTable::new(1, &messages);
    assert_eq!(duplicates(&table.conversation(), 0..4), [(0, 0), (1, 0)]);
    assert_eq!(duplicates(&table.conversation(), 0..2), [(0, 0)], "what is not looked at is no copy");
}
