//! Claude Code session files.

use super::{check, check_as, lines, problems, read, shown};
use crate::{Format, History, Kind};

const FORMAT: Format = Format::ClaudeCode;

fn line(kind: &str, uuid: &str, parent: &str, rest: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") };
    format!(r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s","isSidechain":false,{rest}}}"#)
}

fn user(uuid: &str, parent: &str, content: &str) -> String {
    line("user", uuid, parent, &format!(r#""message":{{"role":"user","content":{content}}}"#))
}

fn model(uuid: &str, parent: &str, id: &str, block: &str) -> String {
    let usage = r#""usage":{"input_tokens":1,"cache_read_input_tokens":20,"cache_creation_input_tokens":300}"#;
    line(
        "assistant",
        uuid,
        parent,
        &format!(r#""message":{{"id":"{id}","role":"assistant","model":"m","content":[{block}],{usage}}}"#),
    )
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"run","input":{{}}}}"#)
}

fn result(id: &str, text: &str) -> String {
    format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"{text}"}}"#)
}

fn file(records: &[String]) -> String {
    lines(&records.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn lines_of_one_message_are_joined_and_results_off_the_chain_are_added() {
    // The result of c1 stands between lines of its message; the next model line hangs on the last result.
    let file = file(&[
        user("1", "", r#""go""#),
        model("2", "1", "m1", &text("two calls")),
        model("3", "2", "m1", &call("c1")),
        user("4", "3", &format!("[{}]", result("c1", "first"))),
        model("5", "3", "m1", &call("c2")),
        user("6", "5", &format!("[{},{}]", result("c2", "second"), text("and more"))),
        model("7", "6", "m2", &text("done")),
    ]);
    let got =
        check(&file, FORMAT, r#"U"go" A"two calls"[c1 run {}][c2 run {}] U(c1 first)(c2 second)"and more" A"done""#);
    let first = &got.conversations[0];
    assert_eq!((first.id.as_str(), first.title.as_str(), first.reported_tokens), ("s", "go", Some(321)));
    assert_eq!(first.document.model().as_deref(), Some("m"));
    assert!(got.problems.is_empty());
}

#[test]
fn content_keeps_its_bytes() {
    let content = r#"[ {"type":"text", "text":"caf\u00e9 \/","x":1.0} ]"#;
    let got = read(&user("1", "", content), History::Live).unwrap();
    assert_eq!(got.conversations[0].document.messages[0].raw, format!(r#"{{"role":"user","content":{content}}}"#));
}

#[test]
fn a_compaction_starts_the_live_history_anew_and_the_full_one_goes_through_it() {
    let file = file(&[
        user("1", "", r#""old""#),
        model("2", "1", "m1", &text("older answer")),
        line("system", "3", "", r#""subtype":"compact_boundary","logicalParentUuid":"2""#),
        line("user", "4", "3", r#""isCompactSummary":true,"message":{"role":"user","content":"the summary"}"#),
        user("5", "4", r#""new""#),
    ]);
    check_as(&file, History::Live, FORMAT, r#"U^"the summary" U"new""#);
    check_as(&file, History::Full, FORMAT, r#"U"old" A"older answer" U"new""#);
}

#[test]
fn an_edit_leaves_a_branch_and_parallel_calls_leave_none() {
    let file = file(&[
        user("1", "", r#""first""#),
        model("2", "1", "m1", &text("a")),
        user("3", "2", r#""wrong""#),
        model("4", "3", "m2", &text("b")),
        user("5", "2", r#""right""#),
    ]);
    check(&file, FORMAT, "U\"first\" A\"a\" U\"right\"\nbranch: U\"first\" A\"a\" U\"wrong\" A\"b\"");
}

#[test]
fn messages_may_hang_on_progress_lines_and_these_are_dropped() {
    let file = file(&[
        user("1", "", r#""go""#),
        line("progress", "2", "1", r#""data":{"message":{"role":"assistant","content":"noise"}}"#),
        line("attachment", "3", "2", r#""attachment":{}"#),
        model("4", "3", "m1", &text("yes")),
    ]);
    check(&file, FORMAT, r#"U"go" A"yes""#);
}

#[test]
fn subagents_are_conversations_of_their_own() {
    let side = |record: String| record.replace(r#""isSidechain":false"#, r#""isSidechain":true,"agentId":"x""#);
    let file = file(&[
        user("1", "", r#""go""#),
        side(user("2", "", r#""task""#)),
        side(model("3", "2", "m9", &text("result"))),
        model("4", "1", "m1", &text("yes")),
    ]);
    let got = check(&file, FORMAT, "U\"go\" A\"yes\"\nside: U\"task\" A\"result\"");
    assert_eq!((got.conversations[1].id.as_str(), got.conversations[1].kind), ("agent-x", Kind::Sidechain));
}

#[test]
fn client_made_errors_are_left_out_and_injected_text_stays() {
    let file = file(&[
        line("user", "1", "", r#""isMeta":true,"message":{"role":"user","content":"caveat"}"#),
        user("2", "1", r#""go""#),
        line(
            "assistant",
            "3",
            "2",
            r#""isApiErrorMessage":true,"message":{"id":"e","model":"<synthetic>","role":"assistant","content":[{"type":"text","text":"API Error"}]}"#,
        ),
        model("4", "3", "m1", &text("yes")),
    ]);
    check(&file, FORMAT, r#"U*"caveat" U"go" A"yes""#);
}

#[test]
fn a_line_written_twice_counts_once_and_a_lost_parent_is_bridged() {
    let file = file(&[
        user("1", "", r#""go""#),
        model("2", "1", "m1", &text("a")),
        model("2", "1", "m1", &text("a")),
        user("3", "lost", r#""on""#),
    ]);
    let got = check(&file, FORMAT, r#"U"go" A"a" U"on""#);
    assert_eq!(problems(&got), ["3: a record that was written befo", "4: its parent is not in the file;"]);
}

#[test]
fn calls_that_share_a_redacted_id_are_paired_by_order() {
    let file = file(&[
        user("1", "", r#""go""#),
        model("2", "1", "m1", &call("REDACTED")),
        user("3", "2", &format!("[{}]", result("REDACTED", "one"))),
        model("4", "3", "m2", &call("REDACTED")),
        user("5", "4", &format!("[{}]", result("REDACTED", "two"))),
    ]);
    check(&file, FORMAT, r#"U"go" A[REDACTED run {}] U(REDACTED one) A[REDACTED run {}] U(REDACTED two)"#);
}

#[test]
fn results_that_a_light_compaction_dropped_are_a_placeholder_in_the_live_history() {
    let file = file(&[
        user("1", "", r#""go""#),
        model("2", "1", "m1", &call("c1")),
        user("3", "2", &format!("[{}]", result("c1", "long"))),
        line(
            "system",
            "4",
            "3",
            r#""subtype":"microcompact_boundary","microcompactMetadata":{"compactedToolIds":["c1"]}"#,
        ),
        user("5", "4", r#""on""#),
    ]);
    check_as(&file, History::Full, FORMAT, r#"U"go" A[c1 run {}] U(c1 long) U"on""#);
    check_as(&file, History::Live, FORMAT, r#"U"go" A[c1 run {}] U(c1 [Old tool result content cleared]) U"on""#);
}

#[test]
fn titles_come_from_the_file() {
    let own = file(&[user("1", "", r#""go""#), r#"{"type":"summary","summary":"A title","leafUuid":"1"}"#.to_owned()]);
    assert_eq!(read(&own, History::Live).unwrap().conversations[0].title, "A title");
    let other = file(&[user("1", "", r#""go""#), r#"{"type":"summary","summary":"Other","leafUuid":"9"}"#.to_owned()]);
    assert_eq!(read(&other, History::Live).unwrap().conversations[0].title, "go");
}

#[test]
fn bad_records_are_named_and_the_rest_is_read() {
    let file = file(&[
        user("1", "", r#""go""#),
        user("2", "1", "null"),
        r#"{"silly":"this"}"#.to_owned(),
        "42".to_owned(),
        line("user", "3", "2", r#""message":"error""#),
        model("4", "3", "m1", &text("yes")),
        r#"{"type":"user","uuid":"5","parentUuid":"4","mess"#.to_owned(),
    ]);
    let got = check(&file, FORMAT, r#"U"go" A"yes""#);
    let numbers: Vec<Option<u64>> = got.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(numbers, [2, 3, 4, 5, 7].map(Some));
}

#[test]
fn blank_text_blocks_are_left_out() {
    let file =
        file(&[user("1", "", r#""go""#), model("2", "1", "m1", &text("\\n\\n")), model("3", "2", "m1", &call("c1"))]);
    check(&file, FORMAT, r#"U"go" A[c1 run {}]"#);
}

#[test]
fn parents_in_a_ring_end_the_walk() {
    let file = file(&[user("1", "2", r#""a""#), user("2", "1", r#""b""#)]);
    assert_eq!(shown(&read(&file, History::Full).unwrap()), r#"U"a" U"b""#);
}

#[test]
fn hermes_traces_are_read_the_same_way() {
    let file = user("1", "", r#""go""#).replace(r#""sessionId""#, r#""version":"hermes-agent","sessionId""#);
    check(&file, Format::HermesTrace, r#"U"go""#);
}
