//! Shows what an edit changes, and that it changes nothing else.

use super::*;
use crate::{get, parse};
use proptest::prelude::*;

const FILE: &str = "\
# My settings
context:
  engine: compressor   # built in

compression:
    # percentages of the window
    threshold: \"0.5\"      # half
    model_thresholds: {glm-5.2: 0.40, \"claude-sonnet\": 0.35}   # per model
    # tail_mode: legacy
    protect_last_n: 20
auxiliary: {compression: {model: '', provider: auto}, vision: {provider: auto}}  # side models
plugins:
  enabled:
  - one   # first
  - two

engines:
  lcm:
    note: |
      # not a comment
      kept
model:
display: {compact: true}
# the end";

/// Sets one value and shows the lines that are different, as in a diff.
fn check(text: &str, key: &str, value: &str, expected: &[&str]) {
    let new = set(text, key, value).unwrap_or_else(|error| panic!("{key} = {value}: {error}"));
    let old_lines: Vec<&str> = text.split('\n').collect();
    let new_lines: Vec<&str> = new.split('\n').collect();
    let same = old_lines.iter().zip(&new_lines).take_while(|(a, b)| a == b).count();
    let rest = old_lines.len().min(new_lines.len()) - same;
    let tail = old_lines.iter().rev().zip(new_lines.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut diff: Vec<String> = old_lines[same..old_lines.len() - tail].iter().map(|l| format!("-{l}")).collect();
    diff.extend(new_lines[same..new_lines.len() - tail].iter().map(|l| format!("+{l}")));
    assert_eq!(diff, expected, "{key} = {value}\n{new}");
    assert_eq!(set(&new, key, value).unwrap(), new, "setting it again changes nothing");
}

#[test]
fn one_line_changes() {
    check(FILE, "context.engine", "lcm", &["-  engine: compressor   # built in", "+  engine: lcm   # built in"]);
    check(
        FILE,
        "compression.threshold",
        "60%",
        &["-    threshold: \"0.5\"      # half", "+    threshold: 0.6      # half"],
    );
    check(
        FILE,
        "compression.model_thresholds.glm-5.2",
        "0.25",
        &[
            "-    model_thresholds: {glm-5.2: 0.40, \"claude-sonnet\": 0.35}   # per model",
            "+    model_thresholds: {glm-5.2: 0.25, \"claude-sonnet\": 0.35}   # per model",
        ],
    );
    check(
        FILE,
        "compression.model_thresholds.qwen3.5-max",
        "0.3",
        &[
            "-    model_thresholds: {glm-5.2: 0.40, \"claude-sonnet\": 0.35}   # per model",
            "+    model_thresholds: {glm-5.2: 0.40, \"claude-sonnet\": 0.35, qwen3.5-max: 0.3}   # per model",
        ],
    );
    check(
        FILE,
        "auxiliary.compression.provider",
        "OpenRouter",
        &[
            "-auxiliary: {compression: {model: '', provider: auto}, vision: {provider: auto}}  # side models",
            "+auxiliary: {compression: {model: '', provider: openrouter}, vision: {provider: auto}}  # side models",
        ],
    );
    check(
        FILE,
        "auxiliary.compression.timeout",
        "30",
        &[
            "-auxiliary: {compression: {model: '', provider: auto}, vision: {provider: auto}}  # side models",
            "+auxiliary: {compression: {model: '', provider: auto, timeout: 30}, vision: {provider: auto}}  # side models",
        ],
    );
}

#[test]
fn a_missing_setting_or_section_is_added() {
    check(FILE, "compression.tail_mode", "Legacy", &["+    tail_mode: legacy"]);
    check(FILE, "context.mode", "economic", &["+  mode: economic"]);
    check(FILE, "engines.lcm.depth", "3", &["+    depth: 3"]);
    check(FILE, "model.context_length", "262144", &["+  context_length: 262144"]);
    check(FILE, "prompt_caching.cache_ttl", "1h", &["+prompt_caching:", "+  cache_ttl: \"1h\"", "+"]);
    check("", "compression.threshold", "0.7", &["+compression:", "+  threshold: 0.7"]);
    check("# only a comment", "compression.threshold", "0.7", &["+compression:", "+  threshold: 0.7", "+"]);
    check("---\n", "engines.a.b.c", "x y", &["+engines:", "+  a:", "+    b:", "+      c: \"x y\""]);
}

#[test]
fn texts_that_look_like_something_else_are_quoted() {
    let rows = [
        ("model.default", "true"),
        ("model.default", "Yes"),
        ("model.default", "null"),
        ("model.default", "4"),
        ("model.default", "0.5"),
        ("model.default", "1e3"),
        ("model.default", ""),
        ("model.default", " x "),
        ("model.default", "a: b"),
        ("model.default", "a #b"),
        ("model.default", "- a"),
        ("model.default", "*a"),
        ("model.default", "{a"),
        ("model.default", "it's \"so\" \\n"),
        ("model.default", "é\u{85}\u{2028}\u{7f}🦀"),
        ("auxiliary.compression.api_key", "${KEY}"),
        ("auxiliary.compression.base_url", "https://x/y?z=1#f"),
        ("model.default", "claude-sonnet-4.6"),
        ("model.default", "a\nb\tc\r"),
    ];
    for (key, value) in rows {
        for text in ["", FILE, "model: {default: x, max_tokens: 5} # c\nauxiliary: {compression: {}}\n"] {
            let new = set(text, key, value).unwrap();
            assert_eq!(
                lookup(&load(&new).unwrap(), &Target::of(key).unwrap().path),
                Some(&Value::from(value)),
                "{new}"
            );
        }
    }
    assert_eq!(set("", "model.default", "true").unwrap(), "model:\n  default: \"true\"\n");
    assert_eq!(set("", "model.default", "gpt-5.5").unwrap(), "model:\n  default: gpt-5.5\n");
}

#[test]
fn lists_and_mappings_are_set_as_a_whole() {
    let rows = [
        ("plugins.enabled", "a, b", "plugins:\n  enabled: [a, b]\n"),
        ("plugins.enabled", "[a, \"b c\"]", "plugins:\n  enabled: [a, \"b c\"]\n"),
        ("plugins.enabled", "", "plugins:\n  enabled: []\n"),
        ("compression.model_thresholds", "{glm: 40%}", "compression:\n  model_thresholds: {glm: 0.4}\n"),
        ("engines.lcm.on", "yes", "engines:\n  lcm:\n    \"on\": \"yes\"\n"),
        ("engines.lcm.deep.size", "3", "engines:\n  lcm:\n    deep:\n      size: 3\n"),
        (
            "auxiliary.compression.extra_body.top_p",
            "0.9",
            "auxiliary:\n  compression:\n    extra_body:\n      top_p: 0.9\n",
        ),
        ("model.max_tokens", "null", "model:\n  max_tokens: null\n"),
    ];
    for (key, value, expected) in rows {
        assert_eq!(set("", key, value).unwrap(), expected);
    }
    check(FILE, "plugins.enabled", "one,two,three four", &["+  - \"three four\""]);
    check(FILE, "plugins.enabled", "one", &["-  - two"]);
    check(FILE, "plugins.enabled", "one,three", &["-  - two", "+  - three"]);
    let error = set(FILE, "plugins.enabled", "two,one").unwrap_err().to_string();
    assert!(error.contains("lost a comment"), "{error}");
    let list = set(FILE, "plugins.enabled", "one,three").unwrap();
    assert_eq!(get(&parse(&list, "f").config, "plugins.enabled"), Some(serde_json::json!(["one", "three"])));
}

#[test]
fn a_wrong_key_or_value_is_refused_with_what_would_be_right() {
    let rows = [
        ("compression.threshold", "1.5", "compression.threshold: expected a number from 0.05 to 0.95, found \"1.5\""),
        ("compression.threshold", "half", "expected a number from 0.05 to 0.95, found \"half\""),
        ("compression.target_ratio", "0.01", "expected a number from 0.1 to 0.8"),
        ("compression.protect_last_n", "-1", "expected a whole number from 0 to"),
        ("compression.enabled", "maybe", "expected true or false"),
        ("prompt_caching.cache_ttl", "30m", "expected one of 5m, 1h"),
        ("context.engine", "../x", "expected a name"),
        ("compression.model_thresholds.glm", "9", "expected a number from 0.05 to 0.95"),
        ("compression.model_thresholds", "{a: 0.4, b: x}", "found \"x\" for \"b\""),
        ("plugins.enabled", "[[a]]", "expected a list of names"),
        ("engines.lcm.x", "[a", "expected a YAML value"),
        (
            "compression.treshold",
            "0.5",
            "unknown setting \"compression.treshold\"; did you mean compression.threshold?",
        ),
        ("compression", "0.5", "it holds settings, such as compression.enabled"),
        ("compression.summary_model", "x", "it is now auxiliary.compression.model"),
        ("engines.lcm", "x", "engines.<name>.<setting>"),
        ("engines..x", "x", "engines.<name>.<setting>"),
        ("", "x", "unknown setting \"\""),
        ("a\nb", "x", "unknown setting"),
    ];
    for (key, value, expected) in rows {
        let error = set(FILE, key, value).unwrap_err().to_string();
        assert!(error.contains(expected), "{key} {value}: {error}");
    }
    let error = set_value("", "auxiliary.compression.api_key", &serde_json::json!(["sk-live"])).unwrap_err();
    assert!(!error.to_string().contains("sk-live"), "{error}");
}

#[test]
fn a_file_that_cannot_be_edited_safely_is_left_alone() {
    let rows = [
        ("a: [", "not readable"),
        ("- a\n", "holds a list"),
        ("compression: {threshold: 0.5}\ncompression: {threshold: 0.6}\n", "more than once"),
        ("a: 1\n---\nb: 2\n", "more than one document"),
        ("compression: text\n", "something else stands"),
        ("base: &b {threshold: 0.6}\ncompression: *b\n", "was not changed"),
        ("x: palimpsest_new_value\ncompression: {enabled: true}\n", "palimpsest_new_value"),
    ];
    for (text, expected) in rows {
        let error = set(text, "compression.threshold", "0.7").unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = set("model: gpt\n", "model.max_tokens", "5").unwrap_err().to_string();
    assert!(error.contains("plain text"), "{error}");
    assert_eq!(set("model: gpt # m\n", "model.default", "o5").unwrap(), "model: o5 # m\n");
}

#[test]
fn line_ends_and_merged_values_stay() {
    let text = "compression:\r\n  threshold: 0.5\r\n  enabled: true\r\n";
    assert_eq!(set(text, "compression.threshold", "0.6").unwrap(), text.replace("0.5", "0.6"));
    let text = "base: &b {threshold: 0.6, enabled: false}\ncompression:\n  <<: *b\n  in_place: true\n";
    let new = set(text, "compression.threshold", "0.7").unwrap();
    assert_eq!(new, format!("{text}  threshold: 0.7\n"));
    assert_eq!(get(&parse(&new, "f").config, "compression.enabled"), Some(Value::Bool(false)));
}

#[test]
fn every_setting_of_the_example_file_can_be_set() {
    let example = crate::example_yaml();
    for key in keys::KEYS {
        assert_eq!(set_value(&example, key.path, &key.default.to_value()).unwrap(), example, "{}", key.path);
    }
    let rows = [
        ("engines.lcm.depth", "3", "engines: {lcm: {depth: 3}}"),
        ("compression.model_thresholds.glm-5.2", "0.4", "  model_thresholds: {glm-5.2: 0.4}"),
        ("model.context_length", "128000", "  context_length: 128000"),
        ("plugins.enabled", "a", "  enabled: [a]"),
        ("auxiliary.compression.fallback_chain", "[{provider: main}]", "    fallback_chain: [{provider: main}]"),
    ];
    for (key, value, line) in rows {
        let new = set(&example, key, value).unwrap();
        let changed: Vec<&str> = new.lines().zip(example.lines()).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
        assert_eq!(changed, [line], "{key}");
        assert_eq!(new.lines().count(), example.lines().count(), "{key}");
    }
}

/// A key with a value it accepts, written as on a command line, and the value as `get` gives it.
fn assignment() -> impl Strategy<Value = (String, String, Value)> {
    let fraction = (5_u32..=95).prop_map(|n| f64::from(n) / 100.0);
    prop_oneof![
        fraction.clone().prop_map(|n| ("compression.threshold".into(), n.to_string(), Value::from(n))),
        (fraction, "[a-z0-9./ :#-]{1,12}").prop_filter_map("a blank name", |(n, name)| {
            let is_kept = !name.trim().is_empty() && name.trim() == name;
            is_kept.then(|| (format!("compression.model_thresholds.{name}"), n.to_string(), Value::from(n)))
        }),
        (0_u64..10_000).prop_map(|n| ("compression.protect_last_n".into(), n.to_string(), Value::from(n))),
        any::<bool>().prop_map(|b| (
            "compression.in_place".into(),
            if b { "on" } else { "off" }.into(),
            Value::from(b)
        )),
        any::<String>().prop_map(|s| ("model.default".into(), s.clone(), Value::from(s))),
        any::<String>().prop_map(|s| ("auxiliary.compression.base_url".into(), s.clone(), Value::from(s))),
        proptest::collection::vec("[a-zA-Z0-9 #:'-]{1,8}", 0..4).prop_map(|names| {
            let names: Vec<String> = names.iter().map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect();
            ("plugins.enabled".into(), names.join(","), Value::from(names))
        }),
        Just(("model.max_tokens".into(), "null".into(), Value::Null)),
        (1_u64..1_000_000).prop_map(|n| ("engines.lcm.budget.tokens".into(), n.to_string(), Value::from(n))),
    ]
}

/// Files as people keep them, some of which already hold the keys that are set.
fn file() -> impl Strategy<Value = String> {
    let section = prop_oneof![
        Just("# comment\n"),
        Just("\n"),
        Just("compression:\n"),
        Just("compression:\n  threshold: 0.4 # why\n  # x\n"),
        Just("compression: {in_place: false, protect_last_n: '3'}  # flow\n"),
        Just("compression: {}\n"),
        Just("compression:\n    model_thresholds:\n        a: 0.3   # first\n        \"b\": 0.4\n    in_place: yes\n"),
        Just("model: gpt-5\n"),
        Just("model:\n  default: 'x'\n  max_tokens: 9\n"),
        Just("model: {default: a}\n"),
        Just("plugins:\n  enabled:\n    - a # one\n    - b\n  disabled: []\n"),
        Just("plugins: {enabled: [a, b]}\n"),
        Just("engines:\n  lcm:\n    text: |\n      # kept\n      lines\n  other: {a: [1, {b: 2}]}\n"),
        Just("auxiliary:\n\n  compression:   # side\n    base_url: \"http://x\"\n"),
        Just("display: {compact: true}\n"),
    ];
    proptest::collection::vec(section, 0..6).prop_map(|sections| {
        let mut seen = std::collections::BTreeSet::new();
        sections.into_iter().filter(|s| s.starts_with(['#', '\n']) || seen.insert(s.split(':').next())).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_was_set_is_read_back_and_nothing_else_changed(text in file(), (key, written, value) in assignment()) {
        let before = parse(&text, "f").config;
        let new = match set(&text, &key, &written) {
            Ok(new) => new,
            Err(error) => {
                // Only a model written as plain text stands in the way of a setting in these files.
                let is_plain_model = text.contains("model: gpt-5") && key == "model.max_tokens";
                // And an emptied or reordered list would lose the comment of an item.
                let is_commented = text.contains("# one") && key == "plugins.enabled";
                prop_assert!(is_plain_model || is_commented, "{error}\n{text}");
                return Ok(());
            }
        };
        let after = parse(&new, "f").config;
        prop_assert_eq!(get(&after, &key), Some(value.clone()), "{}", new);
        let mut expected = serde_json::to_value(&before).unwrap();
        let path = Target::of(&key).unwrap().path;
        prop_assert!(graft(&mut expected, &path, value));
        prop_assert_eq!(serde_json::to_value(&after).unwrap(), expected, "{}", new);
        // Lines that do not hold the setting are the same, in the same order.
        let mut lines = new.lines();
        let is_lost = |line: &&str| {
            let mut ahead = lines.clone();
            let is_found = ahead.any(|other| other == *line);
            if is_found {
                lines = ahead;
            }
            !is_found
        };
        let lost: Vec<&str> = text.lines().filter(is_lost).collect();
        prop_assert!(lost.len() <= 1 || key == "plugins.enabled", "{lost:?}\n{text}\n{new}");
    }

    #[test]
    fn no_text_makes_an_edit_fail_badly(text in any::<String>(), (key, written, _) in assignment()) {
        if let Ok(new) = set(&text, &key, &written) {
            prop_assert!(load(&new).is_ok());
        }
    }
}
