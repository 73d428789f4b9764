//! What holds for every text: no panic, no second change, a JSON text stays one.
#![allow(clippy::unwrap_used)]

use host_redact::{redact, scan};
use proptest::prelude::*;
use serde_json::Value;
use std::borrow::Cow;

/// Pieces that begin, look like or surround secrets, and random text between them.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("password=".to_owned()),
        Just("\"apiKey\": \"".to_owned()),
        Just("\\\"token\\\":\\\"".to_owned()),
        Just("Authorization: Bearer ".to_owned()),
        Just("Cookie: a=".to_owned()),
        Just("://u:".to_owned()),
        Just("@".to_owned()),
        Just("-----BEGIN RSA PRIVATE KEY-----\\n".to_owned()),
        Just("-----END RSA PRIVATE KEY-----".to_owned()),
        Just("eyJ".to_owned()),
        Just("sk-".to_owned()),
        Just("ghp_".to_owned()),
        Just("AccountKey=".to_owned()),
        Just("12345678:AA".to_owned()),
        Just("otp: 123456".to_owned()),
        Just("[redacted:token]".to_owned()),
        Just("\\".to_owned()),
        Just("\"".to_owned()),
        "[A-Za-z0-9_+/=.-]{0,60}",
        "\\PC{0,12}",
        "[ \n\t;,'é日\u{1f600}]{0,4}",
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn cases() -> u32 {
    std::env::var("PALIMPSEST_REDACT_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3_000)
}

/// The keys and the kinds of all values, without the texts.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::String(String::new()),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), shape(value))).collect()),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn any_text_is_redacted_once_and_its_findings_are_in_order(text in text()) {
        let findings = scan(&text);
        let mut done = 0;
        for finding in &findings {
            prop_assert!(finding.range.start >= done && finding.range.end > finding.range.start, "{findings:?}");
            prop_assert!(text.get(finding.range.clone()).is_some(), "the range is between characters");
            done = finding.range.end;
        }
        let once = redact(&text);
        prop_assert_eq!(findings.is_empty(), matches!(once, Cow::Borrowed(_)));
        let twice = redact(&once).into_owned();
        prop_assert_eq!(once.into_owned(), twice);
    }

    #[test]
    fn a_json_text_stays_one_with_the_same_keys(values in proptest::collection::vec(text(), 1..5), depth in 0..3) {
        let mut document = serde_json::json!({ "password": values[0], "list": values, "n": 12 });
        for _ in 0..depth {
            // Text in text: arguments of a call within a body within a log.
            document = serde_json::json!({ "arguments": document.to_string(), "api_key": values[0] });
        }
        let text = document.to_string();
        let redacted: Value = match serde_json::from_str(&redact(&text)) {
            Ok(value) => value,
            Err(error) => return Err(TestCaseError::fail(format!("{error}: {text} became {}", redact(&text)))),
        };
        prop_assert_eq!(shape(&redacted), shape(&document));
    }
}

#[test]
fn long_runs_of_beginnings_are_walked_in_bounded_steps() {
    // Each would take hours if every beginning looked at the rest of the text.
    for piece in [
        "eyJ",
        "sk-",
        "-----BEGIN RSA PRIVATE KEY-----",
        "://",
        "password=",
        "password=\"",
        "1.2.",
        "token:'",
        "Cookie: a=b; ",
        "AccountKey=",
    ] {
        let text = piece.repeat(2_000_000 / piece.len());
        let redacted = redact(&text);
        assert!(redacted.len() <= text.len() * 4, "{piece}");
    }
}
