//! Facts about reading and writing whole bodies.

use engine_api::{Dialect, Flags, PartKind, Role};

use super::*;

const BODY: &str = r#"
{ "model" : "m-1",
  "messages": [
    {"role":"system","content":"s"},
    {"role":"user", "content":"a\u0062"} ,

    {"role":"assistant","content":"c"}
  ],
  "tools" : [ {"type": "function", "function": {"name": "f g"}} ], "n": 1.0e400 }
"#;

fn raws(document: &Document) -> Vec<String> {
    document.messages.iter().map(|message| message.raw.clone()).collect()
}

fn write(document: &Document, raws: &[String]) -> String {
    document.write(raws.iter().map(String::as_str))
}

#[test]
fn what_was_read_is_written_byte_for_byte() {
    for text in [
        BODY,
        "[]",
        " [ ] ",
        r#"{"messages":[]}"#,
        r#"[{"role":"user","content":"x"},{"role":"user","content":"x"} , {"role":"user","content":"x"}]"#,
        r#"{"messages":[1],"messages":[{"role":"user","content":"\ud83d"}]}"#,
        r#"{"model":"m","input":"hi \ud83d"}"#,
        r#"{"input":[{"role":"user","content":"x"}],"stream":true}"#,
    ] {
        let document = Document::read(text, None).unwrap();
        assert_eq!(write(&document, &raws(&document)), text);
    }
}

#[test]
fn other_bytes_stay_when_messages_change() {
    let document = Document::read(BODY, None).unwrap();
    let mut kept = raws(&document);
    kept.remove(1);
    kept.push(r#"{"role":"user","content":"new"}"#.to_owned());
    let want = BODY
        .replace("\n    {\"role\":\"user\", \"content\":\"a\\u0062\"} ,\n", "")
        .replace("\"c\"}\n  ]", "\"c\"},\n    {\"role\":\"user\",\"content\":\"new\"}\n  ]")
        .replace("\"s\"},\n    {\"role\":\"assistant\"", "\"s\"} ,\n\n    {\"role\":\"assistant\"");
    assert_eq!(write(&document, &kept), want);
    let empty = write(&document, &[]);
    assert!(Document::read(&empty, Some(Dialect::OpenAiChat)).unwrap().messages.is_empty());
}

#[test]
fn a_body_is_understood() {
    let document = Document::read(BODY, None).unwrap();
    assert_eq!(document.dialect(), Dialect::OpenAiChat);
    assert_eq!(document.model().as_deref(), Some("m-1"));
    assert_eq!(document.member("n"), Some("1.0e400"));
    assert_eq!(document.member("messages"), None);
    assert_eq!(document.overhead_texts(), [r#"{"type":"function","function":{"name":"f g"}}"#]);
    let roles: Vec<_> = document.messages.iter().map(|m| (m.id.0, m.role)).collect();
    assert_eq!(roles, [(1, Role::System), (2, Role::User), (3, Role::Assistant)]);
    assert_eq!(document.messages[1].text(), "ab");
    assert!(document.messages[1].flags.has(Flags::REAL_USER));
}

#[test]
fn instructions_count_as_overhead() {
    let text = r#"{"system":[{"type":"text","text":"a"},{"type":"text","text":" "}],"messages":[{"role":"user","content":"x"}]}"#;
    let document = Document::read(text, None).unwrap();
    assert_eq!(document.dialect(), Dialect::Anthropic);
    assert_eq!(document.overhead_texts(), ["a"]);
    let document = Document::read(r#"{"instructions":"be brief","input":"hi"}"#, None).unwrap();
    assert_eq!((document.dialect(), document.overhead_texts()), (Dialect::Responses, vec!["be brief".to_owned()]));
    assert_eq!(document.messages[0].parts[0].kind, PartKind::Text);
    assert_eq!(document.messages[0].text(), "hi");
}

#[test]
fn a_string_input_becomes_a_list_when_it_changes() {
    let document = Document::read(r#"{"input" : "hi","n":1}"#, None).unwrap();
    let mut changed = raws(&document);
    changed.push(r#"{"role":"user","content":"more"}"#.to_owned());
    assert_eq!(
        write(&document, &changed),
        r#"{"input" : [{"type":"message","role":"user","content":"hi"},{"role":"user","content":"more"}],"n":1}"#
    );
}

#[test]
fn members_are_set_in_place() {
    let mut document = Document::read(BODY, None).unwrap();
    document.set_member("model", "\"longer-name\"".to_owned());
    document.set_member("stream", "true".to_owned());
    document.set_member("stream", "false".to_owned());
    document.set_member("note", "no \"json\"".to_owned());
    document.set_member("messages", "[]".to_owned());
    document.set_member("n", "2".to_owned());
    let want =
        BODY.replace("m-1", "longer-name").replace("1.0e400 }", "2,\"stream\":false,\"note\":\"no \\\"json\\\"\" }");
    assert_eq!(write(&document, &raws(&document)), want);
    assert_eq!(document.member("stream"), Some("false"));
    assert_eq!(document.member("tools"), Some(r#"[ {"type": "function", "function": {"name": "f g"}} ]"#));
}

#[test]
fn a_bare_list_becomes_a_body_when_a_member_is_set() {
    let mut document = Document::read(" [{\"role\":\"user\",\"content\":\"x\"}]\n", None).unwrap();
    document.set_member("model", "\"m\"".to_owned());
    let written = write(&document, &raws(&document));
    assert_eq!(written, "{\"messages\": [{\"role\":\"user\",\"content\":\"x\"}],\"model\":\"m\"\n}");
    let again = Document::read(&written, None).unwrap();
    assert_eq!((again.model().as_deref(), again.messages.len()), (Some("m"), 1));
}

#[test]
fn a_document_is_made_from_parts() {
    let members = vec![("model".to_owned(), "\"m\"".to_owned()), ("input".to_owned(), "1".to_owned())];
    let message = crate::parse_message(Dialect::Responses, r#"{"role":"user","content":"x"}"#).unwrap();
    let document = Document::from_parts(Dialect::Responses, members, vec![message]);
    let want = r#"{"model":"m","input":[{"role":"user","content":"x"}]}"#;
    assert_eq!(write(&document, &raws(&document)), want);
    assert_eq!(document.member("model"), Some("\"m\""));
}

#[test]
fn what_is_no_conversation_is_refused() {
    for text in ["", "{", "[1,]", "{\"messages\":[}"] {
        assert!(matches!(Document::read(text, None), Err(WireError::NotJson { .. })), "{text}");
    }
    for text in ["1", "\"x\"", "{}", r#"{"messages":1}"#, r#"{"messages":"x"}"#] {
        assert!(matches!(Document::read(text, None), Err(WireError::NoMessages { .. })), "{text}");
    }
}

#[test]
fn a_hundred_thousand_equal_messages_are_written_in_linear_time() {
    let one = r#"{"role":"user","content":"x"}"#;
    let text = format!("[{}]", vec![one; 100_000].join(","));
    let document = Document::read(&text, None).unwrap();
    let kept = vec![one.to_owned(); 50_000];
    assert_eq!(write(&document, &kept).len(), 50_000 * (one.len() + 1) + 1);
    let odd: Vec<String> = (0..50_000).map(|at| if at % 2 == 0 { one.to_owned() } else { at.to_string() }).collect();
    assert!(crate::split_array(&write(&document, &odd)).unwrap().len() == 50_000);
}
