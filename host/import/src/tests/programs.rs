//! Session files of further agent programs.

use super::{check, check_as, lines, problems};
use crate::{Format, History};

#[test]
fn an_opencode_tool_part_is_a_call_and_its_result() {
    let text = r#"{"info":{"id":"ses_1","slug":"x","projectID":"p","title":"T"},"messages":[
        {"info":{"id":"m1","role":"user","summary":{"diffs":[]}},"parts":[{"type":"text","text":"hi"},{"type":"text","text":"note","synthetic":true},{"type":"file","mime":"image/png","url":"data:image/png;base64,AA"}]},
        {"info":{"id":"m2","role":"assistant","modelID":"m","tokens":{"input":5,"cache":{"read":7,"write":1}}},"parts":[{"type":"step-start"},{"type":"reasoning","text":"hm"},{"type":"text","text":"ok"},
          {"type":"tool","callID":"REDACTED","tool":"sh","state":{"status":"completed","input":{"a":1},"output":"one","time":{"compacted":9}}},
          {"type":"tool","callID":"REDACTED","tool":"sh","state":{"status":"error","input":{},"error":"bad"}},
          {"type":"step-start"},{"type":"tool","callID":"c3","tool":"sh","state":{"status":"running","input":{}}}]}]}"#;
    let want = |first: &str| {
        format!(
            r#"U"hi""note"<img> A~hm~"ok"[REDACTED sh {{"a":1}}][REDACTED-2 sh {{}}] T(REDACTED {first}) T(REDACTED-2 bad) A[c3 sh {{}}] T(c3 [Tool execution was interrupted])"#
        )
    };
    check_as(text, History::Full, Format::OpenCodeExport, &want("one"));
    let got = check_as(text, History::Live, Format::OpenCodeExport, &want("[Old tool result content cleared]"));
    assert_eq!((got.conversations[0].title.as_str(), got.conversations[0].reported_tokens), ("T", Some(13)));
    let cut = super::read(&text[..text.find("\"step-start\"").unwrap()], History::Live).unwrap();
    assert_eq!(cut.conversations[0].document.messages.len(), 1);
    assert_eq!(problems(&cut), ["3: the document is cut here; the "]);
}

#[test]
fn an_opencode_compaction_starts_the_live_history() {
    let text = r#"{"info":{"id":"ses_1","slug":"x"},"messages":[
        {"info":{"id":"m1","role":"user"},"parts":[{"type":"text","text":"old"}]},
        {"info":{"id":"m2","role":"user"},"parts":[{"type":"compaction","auto":true}]},
        {"info":{"id":"m3","role":"assistant","parentID":"m2","summary":true,"finish":"stop"},"parts":[{"type":"text","text":"sum"}]},
        {"info":{"id":"m4","role":"user"},"parts":[{"type":"text","text":"go on","synthetic":true}]}]}"#;
    check_as(text, History::Live, Format::OpenCodeExport, r#"U*"What did we do so far?" A^"sum" U*"go on""#);
    check_as(text, History::Full, Format::OpenCodeExport, r#"U"old" U*"go on""#);
}

#[test]
fn later_opencode_events_replace_earlier_ones() {
    let event = |kind: &str, properties: &str| {
        format!(r#"{{"timestamp":1,"event":{{"type":"{kind}","properties":{properties}}}}}"#)
    };
    let info = |id: &str, session: &str, role: &str| {
        format!(r#"{{"info":{{"id":"{id}","sessionID":"{session}","role":"{role}"}}}}"#)
    };
    let part = |session: &str, message: &str, id: &str, rest: &str| {
        format!(r#"{{"part":{{"id":"{id}","sessionID":"{session}","messageID":"{message}",{rest}}}}}"#)
    };
    let records = [
        event("session.updated", r#"{"info":{"id":"s2","parentID":"s1"}}"#),
        event("session.updated", r#"{"info":{"id":"s1","title":"T"}}"#),
        event("message.updated", &info("m1", "s1", "user")),
        event("message.part.updated", &part("s1", "m1", "p1", r#""type":"text","text":"hi""#)),
        event("message.updated", &info("m2", "s1", "assistant")),
        event("message.part.updated", &part("s1", "m2", "p2", r#""type":"text","text":"""#)),
        event("message.part.delta", r#"{"sessionID":"s1","messageID":"m2","partID":"p2","field":"text","delta":"he"}"#),
        event(
            "message.part.delta",
            r#"{"sessionID":"s1","messageID":"m2","partID":"p2","field":"text","delta":"llo"}"#,
        ),
        event(
            "message.part.updated",
            &part(
                "s1",
                "m2",
                "p3",
                r#""type":"tool","callID":"c","tool":"sh","state":{"status":"pending","input":{}}"#,
            ),
        ),
        event(
            "message.part.updated",
            &part(
                "s1",
                "m2",
                "p3",
                r#""type":"tool","callID":"c","tool":"sh","state":{"status":"completed","input":{"a":1},"output":"o"}"#,
            ),
        ),
        event("message.updated", &info("m9", "s2", "user")),
        event("message.part.updated", &part("s2", "m9", "p9", r#""type":"text","text":"child""#)),
        "{\"event\":{\"type\":\"message.part.upd".to_owned(),
    ];
    let file = lines(&records.iter().map(String::as_str).collect::<Vec<_>>());
    let got = check(&file, Format::OpenCodeEvents, "U\"hi\" A\"hello\"[c sh {\"a\":1}] T(c o)\nside: U\"child\"");
    assert_eq!((got.conversations[0].id.as_str(), got.problems.len()), ("s1", 1));
}

#[test]
fn copilot_events_give_one_system_prompt_and_the_text_that_was_sent() {
    let event = |kind: &str, data: &str| format!(r#"{{"type":"{kind}","data":{data},"id":"i","parentId":null}}"#);
    let records = [
        event("session.start", r#"{"sessionId":"s"}"#),
        event("system.message", r#"{"content":"old"}"#),
        event("user.message", r#"{"content":"hi","transformedContent":"<now>hi"}"#),
        event(
            "assistant.message",
            r#"{"content":"","reasoningText":"hm","toolRequests":[{"toolCallId":"a","name":"sh","arguments":{}},{"toolCallId":"b","name":"patch","arguments":"*** Begin"}]}"#,
        ),
        event("tool.execution_complete", r#"{"toolCallId":"b","success":false,"error":{"message":"no"}}"#),
        event("system.message", r#"{"content":"new"}"#),
        event("tool.execution_complete", r#"{"toolCallId":"a","result":{"content":"yes","detailedContent":"long"}}"#),
        "{\"type\":\"user.mess".to_owned(),
    ];
    let file = lines(&records.iter().map(String::as_str).collect::<Vec<_>>());
    let got = check(
        &file,
        Format::CopilotCli,
        r#"S"new" U"<now>hi" A~hm~[a sh {}][b patch {"input":"*** Begin"}] T(a yes) T(b no)"#,
    );
    assert_eq!((got.conversations[0].id.as_str(), got.problems.len()), ("s", 1));
}

#[test]
fn gemini_messages_hold_their_calls_and_results() {
    let text = r#"{"sessionId":"s","projectHash":"h","messages":[
        {"type":"info","content":"update"},
        {"type":"user","content":[{"text":"hi"},{"text":"file"}]},
        {"type":"gemini","content":"ok","thoughts":[{"subject":"S","description":"d"}],"tokens":{"input":4},"model":"g",
         "toolCalls":[{"id":"c","name":"read","args":{"p":1},"result":[{"functionResponse":{"response":{"output":"text"}}}]},{"id":"d","name":"read","args":{}}]},
        {"type":"gemini","content":"done"}]}"#;
    let got = check(text, Format::GeminiCli, r#"U"hi""file" A~S: d~"ok"[c read {"p":1}][d read {}] T(c text) A"done""#);
    assert_eq!((got.conversations[0].id.as_str(), got.conversations[0].reported_tokens), ("s", Some(4)));
    let cut = super::read(&text[..text.len() - 10], History::Live).unwrap();
    assert_eq!(cut.conversations[0].document.messages.len(), 3);
}

#[test]
fn gemini_files_of_one_message_a_line_are_read_too() {
    let file = lines(&[
        r#"{"sessionId":"s","projectHash":"h"}"#,
        r#"{"id":"1","type":"user","content":"hi"}"#,
        r#"{"id":"2","type":"gemini","content":"yo"}"#,
    ]);
    check(&file, Format::GeminiCli, r#"U"hi" A"yo""#);
}

const PI_SESSION: &str = r#"{"type":"session","id":"s","cwd":"/"}"#;

#[test]
fn an_anthropic_pi_session_keeps_signed_thinking() {
    let file = lines(&[
        PI_SESSION,
        r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}"#,
        r#"{"type":"message","message":{"role":"assistant","api":"anthropic-messages","content":[{"type":"thinking","thinking":"t","thinkingSignature":"sig"},{"type":"toolCall","id":"a","name":"read","arguments":{"p":1}},{"type":"toolCall","id":"b","name":"read","arguments":{}}],"usage":{"input":3,"cacheRead":4}}}"#,
        r#"{"type":"message","message":{"role":"toolResult","toolCallId":"a","content":[{"type":"text","text":"A"}],"isError":false}}"#,
        r#"{"type":"message","message":{"role":"toolResult","toolCallId":"b","content":[{"type":"text","text":"B"}],"isError":true}}"#,
        r#"{"type":"message","message":{"role":"bashExecution","command":"ls","output":"","exitCode":2}}"#,
    ]);
    let got = check(
        &file,
        Format::Pi,
        r#"U"hi" A~t~[a read {"p":1}][b read {}] U(a A)(b B) U*"Ran `ls`\n(no output)\n\nCommand exited with code 2""#,
    );
    assert_eq!(got.conversations[0].reported_tokens, Some(7));
    assert!(got.conversations[0].document.messages[1].raw.contains(r#""signature":"sig""#));
}

#[test]
fn a_pi_tree_is_walked_back_from_its_newest_entry_and_a_compaction_keeps_its_tail() {
    let message = |id: &str, parent: &str, role: &str, text: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","parentId":"{parent}","message":{{"role":"{role}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    };
    let records = [
        PI_SESSION.to_owned(),
        message("1", "", "user", "one"),
        message("2", "1", "assistant", "two"),
        message("x", "2", "user", "left"),
        message("3", "2", "user", "three"),
        r#"{"type":"compaction","id":"4","parentId":"3","summary":"sum","firstKeptEntryId":"3"}"#.to_owned(),
        message("5", "4", "assistant", "five"),
        "{\"type\":\"message\",\"id\"".to_owned(),
    ];
    let file = lines(&records.iter().map(String::as_str).collect::<Vec<_>>());
    let summary = r#"U^"The conversation history before this point was compacted into the following summary:\n\n<summary>\nsum\n</summary>""#;
    let branch = "\nbranch: U\"one\" A\"two\" U\"left\"";
    check_as(&file, History::Live, Format::Pi, &format!("{summary} U\"three\" A\"five\"{branch}"));
    let got = check_as(&file, History::Full, Format::Pi, &format!("U\"one\" A\"two\" U\"three\" A\"five\"{branch}"));
    assert_eq!(got.problems.len(), 1);
}

#[test]
fn a_pi_message_that_broke_off_is_not_sent_again() {
    let file = lines(&[
        PI_SESSION,
        r#"{"type":"message","message":{"role":"user","content":"hi"}}"#,
        r#"{"type":"message","message":{"role":"assistant","stopReason":"aborted","content":[{"type":"text","text":"par"},{"type":"toolCall","id":"a","name":"read","partialJson":"{"}]}}"#,
    ]);
    check_as(&file, History::Live, Format::Pi, r#"U"hi""#);
    check_as(&file, History::Full, Format::Pi, r#"U"hi" A"par""#);
}

#[test]
fn aider_history_gives_its_last_session_or_all_of_it() {
    let text = "\n# aider chat started at 2025-01-01 00:00:00\n\n> Aider v1\n\n#### one\n#### more  \n\nanswer\n\n```py\n# code\n```\n\n> Tokens: 1\n\n# aider chat started at 2025-01-02 00:00:00\n\n#### two\n\nsecond\n\n# aider chat started at 2025-01-03 00:00:00\n\n> nothing said\n";
    let first = r#"U"one\nmore" A"answer\n\n```py\n# code\n```""#;
    check_as(text, History::Full, Format::Aider, &format!(r#"{first} U"two" A"second""#));
    let got = check_as(text, History::Live, Format::Aider, r#"U"two" A"second""#);
    assert_eq!(got.conversations[0].id, "2025-01-02 00:00:00");
    // Any text is a transcript; bytes that are none do no harm.
    let mut broken = text.as_bytes().to_vec();
    broken.extend(b"#### \xff\x00\n");
    assert_eq!(
        crate::import(&mut broken.as_slice(), &super::options(History::Full), &mut |_| {}).unwrap().problems.len(),
        1
    );
}
