//! Codex rollout files.

use super::{check, check_as, lines, problems, read, shown};
use crate::{Format, History};

const FORMAT: Format = Format::CodexRollout;
const META: &str = r#"{"type":"session_meta","payload":{"id":"t1","base_instructions":{"text":"be good"}}}"#;
const CALL: &str =
    r#"{"type":"response_item","payload":{"type":"function_call","name":"sh","arguments":"{}","call_id":"c"}}"#;
const OUTPUT: &str =
    r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"ok"}}"#;

fn user(text: &str) -> String {
    format!(
        r#"{{"type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}}}"#
    )
}

fn model(text: &str) -> String {
    user(text).replace("\"user\"", "\"assistant\"").replace("input_text", "output_text")
}

#[test]
fn response_items_are_kept_as_they_are_and_events_are_dropped() {
    let item = r#"{"type":"message", "role":"user","content":[{"type":"input_text","text":"h\u0069"}]}"#;
    let file = lines(&[
        META,
        r#"{"type":"session_meta","payload":{"id":"parent"}}"#,
        &format!(r#"{{"type":"response_item","payload":{item}}}"#),
        r#"{"type":"event_msg","payload":{"type":"user_message","message":"hi"}}"#,
        CALL,
        OUTPUT,
        r#"{"type":"response_item","payload":{"type":"ghost_snapshot"}}"#,
        r#"{"type":"turn_context","payload":{"model":"gpt-x"}}"#,
        r#"{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":77}}}}"#,
        r#"{"type":"event_msg","payload":{"type":"token_count","info":null}}"#,
    ]);
    let got = check(&file, FORMAT, r#"U"hi" A[c sh {}] T(c ok)"#);
    let first = &got.conversations[0];
    assert_eq!(first.document.messages[0].raw, item);
    assert_eq!((first.id.as_str(), first.reported_tokens), ("t1", Some(77)));
    assert_eq!(first.document.member("instructions"), Some("\"be good\""));
    assert_eq!(first.document.model().as_deref(), Some("gpt-x"));
}

#[test]
fn a_replacement_history_is_the_new_live_history() {
    let file = lines(&[
        META,
        &user("one"),
        &model("two"),
        r#"{"type":"compacted","payload":{"message":"","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]},{"type":"compaction","encrypted_content":"x"}]}}"#,
        &user("three"),
    ]);
    check_as(&file, History::Full, FORMAT, r#"U"one" A"two" U"three""#);
    let live = shown(&read(&file, History::Live).unwrap());
    assert!(live.starts_with(r#"U"one" "#) && live.ends_with(r#" U"three""#) && !live.contains("two"), "{live}");
}

#[test]
fn a_summary_text_keeps_the_users_messages_before_it() {
    let file = lines(&[
        META,
        &user("<environment_context>x</environment_context>"),
        &user("one"),
        &model("two"),
        r#"{"type":"compacted","payload":{"message":"summed up"}}"#,
    ]);
    check_as(&file, History::Live, FORMAT, r#"U"one" U^"summed up""#);
}

#[test]
fn a_compaction_that_cannot_be_used_leaves_the_history() {
    let file = lines(&[
        META,
        &user("one"),
        r#"{"type":"compacted","payload":{"message":"x","replacement_history":[{"id":"s"}]}}"#,
    ]);
    let got = check(&file, FORMAT, r#"U"one""#);
    assert_eq!(problems(&got), ["3: a compaction whose replacement"]);
}

#[test]
fn turns_that_were_rolled_back_are_a_branch() {
    let file = lines(&[
        META,
        &user("one"),
        &model("a"),
        &user("two"),
        &model("b"),
        r#"{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}"#,
        &user("three"),
    ]);
    check(&file, FORMAT, "U\"one\" A\"a\" U\"three\"\nbranch: U\"one\" A\"a\" U\"two\" A\"b\"");
}

#[test]
fn the_oldest_files_hold_bare_items() {
    let file = lines(&[
        r#"{"id":"t0","timestamp":"x","instructions":null}"#,
        r#"{"record_type":"state"}"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#,
    ]);
    let got = check(&file, FORMAT, r#"U"hi""#);
    assert_eq!(got.conversations[0].id, "t0");
}

#[test]
fn a_cut_file_keeps_the_whole_records() {
    let whole = lines(&[META, &user("one"), &model("two")]);
    let got = check(&whole[..whole.len() - 20], FORMAT, r#"U"one""#);
    assert_eq!(problems(&got), ["3: the file is cut in this record"]);
}
