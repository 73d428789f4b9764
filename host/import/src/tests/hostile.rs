//! Input that is broken, hostile or large.

use super::{options, read, shown};
use crate::{Format, History, ImportError, Options, Severity, import, import_path};
use std::io::Write;
use std::path::Path;

#[test]
fn what_cannot_be_read_says_why() {
    let path = |path: &str| import_path(Path::new(path), &Options::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(path("/no/such/file"), ImportError::NotFound { .. }));
    assert!(matches!(path(env!("CARGO_MANIFEST_DIR")), ImportError::Directory { .. }));
    let text = |text: &str| read(text, History::Live).unwrap_err();
    assert!(matches!(text(" \n"), ImportError::Empty));
    assert!(matches!(text("just words\n"), ImportError::NothingRecognised { .. }));
    assert!(matches!(text("\u{7f}ELF\0\0\0"), ImportError::Binary { .. }));
    let none = text(r#"{"type":"user","uuid":"1","sessionId":"s"}"#);
    assert!(matches!(none, ImportError::NoMessages { format: Format::ClaudeCode, .. }));
    assert!(none.to_string().contains("line 1"), "{none}");
}

#[test]
fn a_document_over_the_limit_is_refused_and_a_line_over_it_skipped() {
    let body = r#"{"messages":[{"role":"user","content":"hello"}]}"#;
    let small = Options { document_bytes_max: 10, ..Options::default() };
    assert!(matches!(import(&mut body.as_bytes(), &small, &mut |_| {}), Err(ImportError::TooLarge { bytes_max: 10 })));
    let long = format!("{{\"role\":\"user\",\"content\":\"{}\"}}\n", "x".repeat(5_000));
    let file =
        format!("{}{long}{}", "{\"role\":\"user\",\"content\":\"a\"}\n", "{\"role\":\"user\",\"content\":\"b\"}\n");
    let small = Options { line_bytes_max: 1_000, ..Options::default() };
    let got = import(&mut file.as_bytes(), &small, &mut |_| {}).unwrap();
    assert_eq!(
        (shown(&got).as_str(), got.problems[0].severity, got.problems[0].line),
        (r#"U"a" U"b""#, Severity::Lost, Some(2))
    );
}

#[test]
fn packed_files_are_unpacked_and_a_cut_one_keeps_its_head() {
    let line = |n: u32| format!("{{\"role\":\"user\",\"content\":\"{n} {}\"}}\n", n.wrapping_mul(2_654_435_761));
    let text: String = (0..20_000).map(line).collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let mut seen = 0;
    let got = import(&mut packed.as_slice(), &options(History::Live), &mut |bytes| seen = bytes).unwrap();
    assert_eq!((got.conversations[0].document.messages.len(), got.bytes_read), (20_000, text.len() as u64));
    assert_eq!(seen, packed.len() as u64);
    let got = import(&mut &packed[..packed.len() / 2], &options(History::Live), &mut |_| {}).unwrap();
    assert!(got.conversations[0].document.messages.len() > 1_000);
    assert!(got.problems.iter().any(|problem| problem.what.contains("packed file ends early")));
}

#[test]
fn byte_order_mark_crlf_nul_and_bad_utf8_do_no_harm() {
    let mut file = b"\xef\xbb\xbf{\"role\":\"user\",\"content\":\"a\"}\r\n\0\0\0\r\n".to_vec();
    file.extend(b"{\"role\":\"user\",\"content\":\"\xff\"}\r\n{\"role\":\"user\",\"content\":\"\\ud83d\"}\r\n{\"content\":\"no role\"}\r\n");
    let got = import(&mut file.as_slice(), &options(History::Live), &mut |_| {}).unwrap();
    assert!(shown(&got).starts_with("U\"a\" U\"\u{fffd}\""), "{}", shown(&got));
    assert!(got.problems.len() >= 3);
}

#[test]
fn every_prefix_of_every_sample_is_read_without_a_panic() {
    let samples = [
        "{\"type\":\"user\",\"uuid\":\"1\",\"parentUuid\":null,\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"é\"}}\n",
        "{\"type\":\"session_meta\",\"payload\":{\"id\":\"t\"}}\n{\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":[]}}\n",
        "{\"info\":{\"id\":\"s\",\"slug\":\"x\"},\"messages\":[{\"info\":{\"role\":\"user\"},\"parts\":[{\"type\":\"text\",\"text\":\"\\u00e9\"}]}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\\\\\"}],\"x\":[1,{\"y\":null}]}",
        "# aider chat started at 1\n#### a\nb\n> c\n",
    ];
    for sample in samples {
        for end in 0..=sample.len() {
            let _ = import(&mut &sample.as_bytes()[..end], &options(History::Full), &mut |_| {});
            let mut broken = sample.as_bytes().to_vec();
            if let Some(byte) = broken.get_mut(end) {
                *byte = b'}';
            }
            let _ = import(&mut broken.as_slice(), &options(History::Live), &mut |_| {});
        }
    }
}

#[test]
fn any_format_given_for_any_text_gives_an_answer_or_an_error() {
    let texts = [
        "{}",
        "[]",
        "[[]]",
        "[{}]",
        "[1,\"a\",null]",
        "{\"messages\":{}}",
        "{\"messages\":[1,[],{}]}",
        "{\"type\":[]}\n{\"payload\":1}\n",
        "\"x\"",
        "7",
        "}",
    ];
    for format in Format::ALL {
        for text in texts {
            let options = Options { format: Some(*format), ..Options::default() };
            let _ = import(&mut text.as_bytes(), &options, &mut |_| {});
        }
    }
}

#[test]
fn many_forks_stay_within_the_limits() {
    let head =
        r#"{"type":"user","uuid":"0","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"go"}}"#;
    let mut file = format!("{head}\n");
    for n in 1..5_000 {
        file.push_str(&format!(
            "{{\"type\":\"user\",\"uuid\":\"{n}\",\"parentUuid\":\"0\",\"sessionId\":\"s\",\"message\":{{\"role\":\"user\",\"content\":\"{n}\"}}}}\n"
        ));
    }
    let got = read(&file, History::Full).unwrap();
    assert!(got.conversations.len() > 200 && got.conversations.len() <= 1_000, "{}", got.conversations.len());
    assert_eq!(got.conversations[0].document.messages.len(), 2);
}

#[test]
fn ten_thousand_parallel_calls_are_one_message_and_one_answer() {
    let mut file = String::from(
        "{\"type\":\"user\",\"uuid\":\"u\",\"parentUuid\":null,\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"content\":\"go\"}}\n",
    );
    let mut parent = "u".to_owned();
    for n in 0..10_000 {
        file.push_str(&format!("{{\"type\":\"assistant\",\"uuid\":\"a{n}\",\"parentUuid\":\"{parent}\",\"message\":{{\"id\":\"m\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"c{n}\",\"name\":\"f\",\"input\":{{}}}}]}}}}\n"));
        parent = format!("a{n}");
    }
    for n in 0..10_000 {
        file.push_str(&format!("{{\"type\":\"user\",\"uuid\":\"r{n}\",\"parentUuid\":\"a{n}\",\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"c{n}\",\"content\":\"ok\"}}]}}}}\n"));
    }
    let got = read(&file, History::Live).unwrap();
    let messages = &got.conversations[0].document.messages;
    assert_eq!(messages.iter().map(|message| message.parts.len()).collect::<Vec<_>>(), [1, 10_000, 10_000]);
    assert_eq!(got.conversations.len(), 1);
}

#[test]
fn a_subagent_of_a_copilot_session_is_a_sidechain_and_an_opencode_removal_counts() {
    let event = |kind: &str, data: &str| format!(r#"{{"type":"{kind}","data":{data},"id":"i","parentId":null}}"#);
    let file = format!(
        "{}\n{}\n{}\n",
        event("session.start", r#"{"sessionId":"s"}"#),
        event("user.message", r#"{"content":"hi"}"#),
        event("assistant.message", r#"{"content":"sub","parentToolCallId":"t"}"#)
    );
    assert_eq!(shown(&read(&file, History::Live).unwrap()), "U\"hi\"\nside: A\"sub\"");
    let event = |kind: &str, rest: &str| format!(r#"{{"event":{{"type":"{kind}","properties":{rest}}}}}"#);
    let file = format!(
        "{}\n{}\n{}\n",
        event("message.updated", r#"{"info":{"id":"m","sessionID":"s","role":"user"}}"#),
        event(
            "message.part.updated",
            r#"{"part":{"id":"p","sessionID":"s","messageID":"m","type":"text","text":"hi"}}"#
        ),
        event("message.part.removed", r#"{"sessionID":"s","messageID":"m","partID":"p"}"#)
    );
    assert!(matches!(read(&file, History::Live), Err(ImportError::NoMessages { .. })));
}
