//! Properties over generated conversations, arbitrary JSON and arbitrary text.

// Helpers of tests may unwrap, as the tests themselves do.
#![allow(clippy::unwrap_used)]

use engine_api::{Dialect, Part, PartKind, Role};
use host_wire::{
    Document, PartEdit, convert, detect, edit_message, extract_results, number, parse_message, split_array,
};
use proptest::prelude::*;

const DIALECTS: [Dialect; 3] = [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses];

fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(&DIALECTS[..])
}

/// JSON strings as clients write them: escapes of every kind, lone surrogates among them.
fn json_string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ a-z0-9{}\\[\\]:,]{0,8}".prop_map(|text| text),
        1 => Just("日本 é".to_owned()),
        1 => prop::sample::select(vec!["\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\ud83d", "\\ude00", "\\ud83d\\ude00"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "", " ", "\n\t", "\r\n"])
}

fn array_of(items: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (prop::collection::vec((space(), items, space()), 0..4), space()).prop_map(|(items, empty)| {
        let items: Vec<String> = items.into_iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
        if items.is_empty() { format!("[{empty}]") } else { format!("[{}]", items.join(",")) }
    })
}

/// Names and types that mean something to a dialect, so that generated objects reach every branch.
const KEYS: [&str; 24] = [
    "role",
    "content",
    "type",
    "text",
    "tool_calls",
    "function",
    "custom",
    "arguments",
    "input",
    "name",
    "id",
    "call_id",
    "tool_call_id",
    "tool_use_id",
    "output",
    "summary",
    "refusal",
    "reasoning_content",
    "function_call",
    "is_error",
    "action",
    "image_url",
    "source",
    "thinking",
];
const WORDS: [&str; 29] = [
    "user",
    "assistant",
    "system",
    "developer",
    "tool",
    "function",
    "text",
    "image_url",
    "tool_use",
    "tool_result",
    "thinking",
    "image",
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "reasoning",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "computer_call_output",
    "input_text",
    "output_text",
    "input_image",
    "refusal",
    "web_search_call",
    "custom",
    "local_shell_call",
];

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        json_string(),
        prop::sample::select(&WORDS[..]).prop_map(|word| format!("\"{word}\"")),
        prop::sample::select(vec!["null", "true", "false", "0", "-1.5e400", "123456789012345678901234567890"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let key = prop_oneof![
            6 => prop::sample::select(&KEYS[..]).prop_map(|key| format!("\"{key}\"")),
            1 => json_string(),
        ];
        let member =
            (key, space(), space(), inner.clone()).prop_map(|(key, a, b, value)| format!("{key}{a}:{b}{value}"));
        let object = array_of(member).prop_map(|list| {
            let inside = list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
            format!("{{{inside}}}")
        });
        prop_oneof![1 => array_of(inner), 3 => object]
    })
}

/// Well-formed messages: what edits are checked on.
fn message(dialect: Dialect) -> BoxedStrategy<String> {
    let text = || "[a-z \\n\"\\\\é日]{0,12}[a-z]".prop_map(|text| quote(&text));
    let id = || "[a-z]{1,3}".prop_map(|id| quote(&id));
    let arguments = || "[a-z]{0,4}".prop_map(|word| format!("{{\"a\": \"{word}\"}}"));
    match dialect {
        Dialect::Anthropic => {
            let block = prop_oneof![
                text().prop_map(|text| format!("{{\"type\":\"text\", \"text\":{text}}}")),
                text().prop_map(|text| format!("{{\"type\":\"thinking\",\"thinking\":{text},\"signature\":\"s\"}}")),
                (id(), arguments()).prop_map(|(id, input)| {
                    format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":\"f\",\"input\":{input}}}")
                }),
                (id(), text()).prop_map(|(id, text)| {
                    format!("{{\"type\":\"tool_result\",\"tool_use_id\":{id},\"content\":[{{\"type\":\"text\",\"text\":{text}}}]}}")
                }),
                Just("{\"type\":\"document\"}".to_owned()),
            ];
            let content = prop_oneof![1 => text(), 4 => array_of(block)];
            (prop::sample::select(vec!["user", "assistant"]), content)
                .prop_map(|(role, content)| format!("{{\"role\": \"{role}\",\"content\" : {content}, \"x\":1e9}}"))
                .boxed()
        }
        Dialect::Responses => prop_oneof![
            array_of(text().prop_map(|text| format!("{{\"type\":\"input_text\",\"text\":{text}}}")))
                .prop_map(|content| format!("{{\"type\":\"message\",\"role\":\"user\",\"content\": {content}}}")),
            (id(), arguments()).prop_map(|(id, arguments)| {
                format!(
                    "{{\"type\":\"function_call\",\"call_id\":{id},\"name\":\"f\",\"arguments\":{}}}",
                    quote(&arguments)
                )
            }),
            (id(), text()).prop_map(|(id, text)| {
                format!("{{\"type\":\"function_call_output\", \"call_id\":{id},\"output\":{text}}}")
            }),
            text().prop_map(|text| format!("{{\"type\":\"reasoning\",\"summary\":[{{\"text\":{text}}}]}}")),
        ]
        .boxed(),
        _ => {
            let part = text().prop_map(|text| format!("{{\"type\":\"text\",\"text\":{text}}}"));
            let content = prop_oneof![text(), array_of(part), Just("null".to_owned())];
            let call = (id(), arguments()).prop_map(|(id, arguments)| {
                let arguments = quote(&arguments);
                format!(
                    "{{\"id\":{id},\"type\":\"function\",\"function\":{{\"name\":\"f\",\"arguments\": {arguments}}}}}"
                )
            });
            let answer = (id(), text())
                .prop_map(|(id, text)| format!("{{\"role\":\"tool\",\"tool_call_id\":{id},\"content\" :{text}}}"));
            let reply = (content, array_of(call), prop::option::of(text())).prop_map(|(content, calls, reasoning)| {
                let reasoning = reasoning.map_or(String::new(), |text| format!("\"reasoning_content\":{text},"));
                format!("{{\"role\":\"assistant\",{reasoning}\"content\":{content}, \"tool_calls\": {calls}}}")
            });
            prop_oneof![1 => answer, 4 => reply].boxed()
        }
    }
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn conversation() -> impl Strategy<Value = (Dialect, String)> {
    dialect().prop_flat_map(|dialect| (Just(dialect), array_of(prop_oneof![4 => message(dialect), 1 => json()])))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

/// Whether a text edit of this part must succeed and be read back word for word.
fn takes_text(part: &Part) -> bool {
    matches!(part.kind, PartKind::Text | PartKind::ToolCall | PartKind::ToolResult)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_on_any_text(text in any::<String>(), dialect in dialect()) {
        let _ = Document::read(&text, None);
        let _ = parse_message(dialect, &text);
        let _ = split_array(&text);
        let _ = detect(&[&text]);
        let _ = edit_message(dialect, &text, &[(0, PartEdit::Remove)]);
        let _ = extract_results(dialect, &text, &[0]);
    }

    #[test]
    fn any_json_can_be_parsed_and_edited(raw in json(), dialect in dialect()) {
        let message = parse_message(dialect, &raw).unwrap();
        prop_assert_eq!(&message.raw, &raw);
        prop_assert_eq!(edit_message(dialect, &raw, &[]).unwrap(), Some(raw.clone()));
        for part in 0..message.parts.len() {
            for edit in [PartEdit::Remove, PartEdit::Text("{}"), PartEdit::Text("no json"), PartEdit::Text("")] {
                if let Ok(Some(edited)) = edit_message(dialect, &raw, &[(part, edit)]) {
                    prop_assert!(is_json(&edited), "{} -> {}", raw, edited);
                }
            }
            let _ = extract_results(dialect, &raw, &[part]);
        }
    }

    #[test]
    fn a_body_is_written_as_it_was_read((dialect, list) in conversation(), a in space(), b in space(), other in json()) {
        let key = if dialect == Dialect::Responses { "input" } else { "messages" };
        for text in [
            format!("{a}{list}{b}"),
            format!("{a}{{{b}\"zz\":{other},{a}\"{key}\"{b}:{list},\"n\":{other}{b}}}{a}"),
        ] {
            for dialect in [Some(dialect), None] {
                let document = Document::read(&text, dialect).unwrap();
                let written = document.write(document.messages.iter().map(|message| &*message.raw));
                prop_assert_eq!(&written, &text);
            }
        }
    }

    #[test]
    fn dropping_messages_keeps_the_others((dialect, list) in conversation(), keep in any::<u64>()) {
        let document = Document::read(&list, Some(dialect)).unwrap();
        let kept: Vec<&str> = document.messages.iter().enumerate()
            .filter(|(at, _)| keep >> (at % 64) & 1 == 1).map(|(_, message)| &*message.raw).collect();
        let written = document.write(kept.iter().copied());
        prop_assert_eq!(split_array(&written).unwrap(), kept);
    }

    #[test]
    fn setting_a_member_keeps_the_rest((dialect, list) in conversation(), old in json(), new in json(), space in space()) {
        let key = if dialect == Dialect::Responses { "input" } else { "messages" };
        let text = format!("{{\"a\":{old},{space}\"{key}\":{list},\"zz\":1{space}}}");
        let mut document = Document::read(&text, Some(dialect)).unwrap();
        document.set_member("a", new.clone());
        document.set_member("b", new.clone());
        let want = format!("{{\"a\":{new},{space}\"{key}\":{list},\"zz\":1,\"b\":{new}{space}}}");
        prop_assert_eq!(document.write(document.messages.iter().map(|message| &*message.raw)), want);
        prop_assert_eq!(document.member("b"), Some(&*new));
        prop_assert_eq!(document.member("zz"), Some("1"));
    }

    #[test]
    fn an_edit_changes_only_its_part(
        (dialect, raw) in dialect().prop_flat_map(|dialect| (Just(dialect), message(dialect))),
        at in any::<prop::sample::Index>(),
        remove in any::<bool>(),
    ) {
        let before = parse_message(dialect, &raw).unwrap();
        if before.parts.is_empty() {
            return Ok(());
        }
        let at = at.index(before.parts.len());
        let part = &before.parts[at];
        // Every argument is an object here, so each dialect takes this as it is.
        let new = "{\"changed\":\"\u{e9}\"}";
        if remove {
            let mut want = before.parts.clone();
            want.remove(at);
            match edit_message(dialect, &raw, &[(at, PartEdit::Remove)]).unwrap() {
                Some(edited) => {
                    let after = parse_message(dialect, &edited).unwrap();
                    prop_assert_eq!((after.role, &after.parts), (before.role, &want));
                    for empty in ["\"content\":[]", "\"content\" : []", "\"tool_calls\": []"] {
                        prop_assert!(raw.contains(empty) || !edited.contains(empty), "{}", edited);
                    }
                    prop_assert!(after.parts.iter().any(|part| part.kind != PartKind::Reasoning));
                }
                None => prop_assert!(want.iter().all(|part| part.kind == PartKind::Reasoning)),
            }
        } else if takes_text(part) {
            let edited = edit_message(dialect, &raw, &[(at, PartEdit::Text(new))]).unwrap().unwrap();
            let after = parse_message(dialect, &edited).unwrap();
            let mut want = before.clone();
            want.parts[at].text = new.to_owned();
            prop_assert_eq!((after.role, &after.parts), (want.role, &want.parts));
            // All that changed lies in one stretch of the text.
            let same_head = raw.bytes().zip(edited.bytes()).take_while(|(a, b)| a == b).count();
            let same_tail = raw.bytes().rev().zip(edited.bytes().rev()).take_while(|(a, b)| a == b).count();
            prop_assert!(same_head + same_tail + part.text.len() + 60 >= raw.len().min(edited.len()));
        } else {
            prop_assert!(edit_message(dialect, &raw, &[(at, PartEdit::Text(new))]).is_err());
        }
    }

    #[test]
    fn conversions_are_well_formed_and_keep_every_pair((dialect, list) in conversation(), to in dialect()) {
        let document = Document::read(&list, Some(dialect)).unwrap();
        let converted = convert(&document, to).document;
        let written = converted.write(converted.messages.iter().map(|message| &*message.raw));
        prop_assert!(is_json(&written));
        let again = Document::read(&written, Some(to)).unwrap();
        let mut messages = again.messages.clone();
        number(&mut messages);
        prop_assert_eq!(&messages, &converted.messages);
        if to == dialect {
            return Ok(());
        }
        let count = |document: &Document, kind| document.messages.iter().flat_map(|m| &m.parts).filter(|p| p.kind == kind).count();
        prop_assert_eq!(count(&document, PartKind::ToolCall), count(&again, PartKind::ToolCall));
        // A result directly follows the turn of its call, whatever stood between them.
        let mut open: Vec<String> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for message in &again.messages {
            for part in &message.parts {
                match part.kind {
                    PartKind::ToolCall => {
                        prop_assert!(seen.insert(part.call_id.clone()), "id {} twice", part.call_id);
                        open.push(part.call_id.clone());
                    }
                    PartKind::ToolResult if seen.contains(&part.call_id) => {
                        prop_assert!(open.contains(&part.call_id), "{} comes too late", part.call_id);
                    }
                    _ => {}
                }
            }
            let is_answer = message.parts.iter().any(|part| part.kind == PartKind::ToolResult);
            if message.role == Role::User && !is_answer {
                open.clear();
            }
        }
    }
}
