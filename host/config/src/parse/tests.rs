//! Shows how files are read, good ones and bad ones.

use super::*;
use crate::{CacheTtl, CodexAppServerAuto, Provider, TailMode, get};
use proptest::prelude::*;
use serde_json::json;

/// Reads a file and shows its remarks, one per line.
fn remarks(text: &str) -> Vec<String> {
    parse(text, "config.yaml").diagnostics.iter().map(ToString::to_string).collect()
}

fn check(text: &str, key: &str, value: Value, expected: &[&str]) {
    let loaded = parse(text, "config.yaml");
    let shown: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(get(&loaded.config, key), Some(value), "{text}\n{shown:?}");
    assert_eq!(shown, expected, "{text}");
}

#[test]
fn a_bad_value_is_reported_where_it_stands() {
    check(
        "# c\ncompression:\n  enabled: true\n  threshold: half\n",
        "compression.threshold",
        json!(0.5),
        &["config.yaml:4: compression.threshold: expected a number from 0.05 to 0.95, found \"half\"; using 0.5"],
    );
    check(
        "compression: {enabled: true,\n  target_ratio: 0.01}\n",
        "compression.target_ratio",
        json!(0.1),
        &["config.yaml:2: compression.target_ratio: expected a number from 0.1 to 0.8, found 0.01; using 0.1"],
    );
}

#[test]
fn lenient_forms_are_read_as_meant() {
    let text = "\
compression:
  enabled: no
  in_place: \"off\"
  abort_on_summary_failure: On
  threshold: '0.6'
  protect_last_n: \"12\"
  protect_first_n: 4.0
  hygiene_hard_message_limit: 10_000
  tail_mode: LEGACY
  codex_app_server_auto: off
  codex_responses_compact_threshold: null
plugins:
  enabled: solo
  disabled: [a, 7]
model: gpt-5.5
";
    let Loaded { config, diagnostics } = parse(text, "f");
    assert_eq!(diagnostics, []);
    let compression = &config.compression;
    assert!(!compression.enabled && !compression.in_place && compression.abort_on_summary_failure);
    assert_eq!((compression.threshold, compression.protect_last_n, compression.protect_first_n), (0.6, 12, 4));
    assert_eq!((compression.hygiene_hard_message_limit, compression.tail_mode), (10_000, TailMode::Legacy));
    assert_eq!(compression.codex_app_server_auto, CodexAppServerAuto::Off);
    assert_eq!(compression.codex_responses_compact_threshold, None);
    assert!(config.plugins.allows("solo") && !config.plugins.allows("a"));
    assert_eq!(config.plugins.disabled, ["a", "7"]);
    assert_eq!(config.model.default, "gpt-5.5");
}

#[test]
fn percentages_are_read_with_a_notice() {
    let notice = "config.yaml:1: compression.threshold: \"60%\" is read as 0.6";
    check("compression: {threshold: 60%}", "compression.threshold", json!(0.6), &[notice]);
    let hint = "config.yaml:1: compression.threshold: expected a number from 0.05 to 0.95, found 60; using 0.5 \
                (for 60 percent write 0.6)";
    check("compression: {threshold: 60}", "compression.threshold", json!(0.5), &[hint]);
}

#[test]
fn unknown_settings_get_a_suggestion() {
    assert_eq!(
        remarks("compression:\n  treshold: 0.6\nthreshold: 0.7\nbanana: 1\ncompression.threshold: 0.7\n"),
        [
            "config.yaml:2: compression.treshold: unknown setting, ignored (did you mean compression.threshold?)",
            "config.yaml:3: threshold: unknown setting, ignored (did you mean compression.threshold?)",
            "config.yaml:4: banana: unknown setting, ignored",
            "config.yaml:5: compression.threshold: unknown setting, ignored (write compression: {threshold: …})",
        ]
    );
}

#[test]
fn sections_of_the_wrong_type_fall_back_to_defaults() {
    check(
        "context: str\n",
        "context.engine",
        json!("compressor"),
        &["config.yaml:1: context: expected a mapping with settings, found a text; using the defaults \
         (for example context: {engine: …})"],
    );
    check(
        "compression:\nauxiliary: {compression: [1]}\n",
        "compression.enabled",
        json!(true),
        &["config.yaml:2: auxiliary.compression: expected a mapping with settings, found a list; using the defaults \
         (for example auxiliary: {compression: {provider: …}})"],
    );
    check(
        "engines: [1]\n",
        "engines",
        json!({}),
        &["config.yaml:1: engines: expected a mapping from engine names to their settings, found a list; using none"],
    );
    check(
        "engines: {a: 1, b: , c: {d: [1]}}\n",
        "engines",
        json!({"b": {}, "c": {"d": [1]}}),
        &["config.yaml:1: engines.a: expected a mapping with settings, found a number; using none"],
    );
}

#[test]
fn of_equal_keys_the_last_is_used_and_the_slip_is_reported() {
    let text = "compression:\n  threshold: 0.6\n  threshold: 0.7\ncontext: {engine: a}\ncontext: {engine: b}\n";
    let expected = [
        "config.yaml:3: compression.threshold: the key stands more than once; using the last one (first on line 2)",
        "config.yaml:5: context: the key stands more than once; using the last one (first on line 4)",
    ];
    check(text, "compression.threshold", json!(0.7), &expected);
    check(text, "context.engine", json!("b"), &expected);
}

#[test]
fn tabs_in_the_indentation_are_read_and_reported() {
    check(
        "compression:\n\tthreshold: 0.7\n\ttarget_ratio: 0.3\n",
        "compression.target_ratio",
        json!(0.3),
        &["config.yaml:2: a tab in the indentation; using two spaces for each (YAML is indented by spaces, not tabs)"],
    );
    let broken = remarks("compression:\n\tthreshold: [\n");
    assert!(broken.len() == 1 && broken[0].contains("line 2 is indented by a tab"), "{broken:?}");
}

#[test]
fn a_file_that_is_no_yaml_leaves_the_defaults_and_one_error() {
    for text in [
        "a: [1, 2\nb: }",
        "{",
        "key: 'open",
        "<html>: <a\n : - x\n]",
        "[compression]\nthreshold = 0.5\n",
        "just words",
        "- 1",
        "7",
    ] {
        let loaded = parse(text, "config.yaml");
        assert!(loaded.is_unusable() && loaded.diagnostics.len() == 1, "{text} {:?}", loaded.diagnostics);
        assert_eq!(loaded.config, Config::default());
        assert!(loaded.diagnostics[0].to_string().ends_with("; using the defaults"), "{}", loaded.diagnostics[0]);
    }
    for text in ["", "\u{feff}", "# nothing\n", "---\n", "~", "{}", "compression:\nmodel:\nengines:\n"] {
        assert_eq!(remarks(text), [""; 0], "{text}");
    }
}

#[test]
fn merged_settings_count() {
    let text = "base: &base\n  threshold: 0.7\n  target_ratio: half\ncompression:\n  <<: *base\n  enabled: false\n";
    let expected = [
        "config.yaml:1: base: unknown setting, ignored",
        "config.yaml:4: compression.target_ratio: expected a number from 0.1 to 0.8, found \"half\"; using 0.2",
    ];
    check(text, "compression.threshold", json!(0.7), &expected);
    check(text, "compression.enabled", json!(false), &expected);
}

#[test]
fn huge_and_deep_files_are_refused_at_once() {
    let refused = |text: &str| {
        let shown = remarks(text);
        assert_eq!(shown.len(), 1);
        shown[0].clone()
    };
    assert!(refused(&"[".repeat(100_000)).contains("deeper than 64"));
    assert!(refused(&"a: {".repeat(100_000)).contains("deeper than 64"));
    assert!(refused(&"- ".repeat(100_000)).contains("deeper than 64"));
    let mappings: String = (0..5_000).map(|n| format!("{}k:\n", " ".repeat(n % 1_000))).collect();
    assert!(refused(&mappings[..FILE_BYTES_MAX.min(mappings.len())]).contains("deeper than 64"));
    assert!(refused(&" ".repeat(FILE_BYTES_MAX + 1)).contains("1048577 bytes"));
}

#[test]
fn remarks_are_limited() {
    let text: String = (0..5_000).map(|n| format!("unknown{n}: {n}\n")).collect();
    let shown = remarks(&text);
    assert_eq!(shown.len(), DIAGNOSTICS_MAX + 1);
    assert_eq!(shown[DIAGNOSTICS_MAX], "config.yaml: 4800 more remarks left out");
}

#[test]
fn old_names_fill_the_new_settings_that_are_free() {
    let text = "\
compression:
  summary_model: flash
  summary_provider: openrouter
  summary_base_url: http://old
auxiliary:
  compression:
    base_url: http://new
    provider: \"\"
";
    let Loaded { config, diagnostics } = parse(text, "config.yaml");
    let aux = &config.auxiliary.compression;
    assert_eq!(
        (aux.model.as_str(), aux.provider, aux.base_url.as_str()),
        ("flash", Provider::OpenRouter, "http://new")
    );
    let notices: Vec<String> =
        diagnostics.iter().filter(|d| d.severity == Severity::Notice).map(ToString::to_string).collect();
    assert_eq!(
        notices,
        [
            "config.yaml:2: compression.summary_model: this setting is now auxiliary.compression.model",
            "config.yaml:3: compression.summary_provider: this setting is now auxiliary.compression.provider",
            "config.yaml:4: compression.summary_base_url: this setting is now auxiliary.compression.base_url",
        ]
    );
}

#[test]
fn a_file_of_hermes_brings_one_notice() {
    let text = "\
_config_version: 17
model: {default: m, provider: openrouter, base_url: http://x, api_key: sk-secret}
terminal: {backend: local}
compression: {threshold: 0.5, max_attempts: 3, proactive_prune_tokens: 0}
auxiliary: {vision: {provider: auto}, compression: {provider: auto, api_key: ''}}
";
    let shown = remarks(text);
    assert_eq!(
        shown,
        ["config.yaml:1: settings of Hermes without an effect here: _config_version, model.base_url, model.api_key, \
         terminal, compression.max_attempts, compression.proactive_prune_tokens, auxiliary.vision",]
    );
}

#[test]
fn credentials_are_never_shown() {
    let text = "\
auxiliary:
  compression:
    api_key: sk-live-1
    extra_body: {nested: {client_secret: sk-live-2}}
    fallback_chain:
      - {provider: x, api_key: sk-live-3}
      - api_key: ${OK}
engines:
  lcm:
    auth_token: sk-live-4
";
    let loaded = parse(text, "config.yaml");
    let shown: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "config.yaml:3: auxiliary.compression.api_key: the credential stands in the file (keep it in the environment and write ${COMPRESSION_API_KEY})",
            "config.yaml:4: auxiliary.compression.extra_body.nested.client_secret: the credential stands in the file (keep it in the environment and write ${NESTED_API_KEY})",
            "config.yaml:6: auxiliary.compression.fallback_chain.0.api_key: the credential stands in the file (keep it in the environment and write ${API_KEY})",
            "config.yaml:10: engines.lcm.auth_token: the credential stands in the file (keep it in the environment and write ${LCM_API_KEY})",
        ]
    );
    let everything = format!(
        "{:?} {:?} {:?} {}",
        loaded.config,
        loaded,
        loaded.config.auxiliary,
        serde_json::to_string(&loaded.config).unwrap()
    );
    assert!(!everything.contains("sk-live"), "{everything}");
    let revealed = loaded.config.auxiliary.compression.api_key.reveal(&|_| None).unwrap();
    assert_eq!(revealed.as_deref(), Some("sk-live-1"), "but used");
    for wrong in ["[sk-live-1]", "{a: sk-live-1}"] {
        let text = format!("auxiliary: {{compression: {{api_key: {wrong}}}}}");
        assert!(!remarks(&text).concat().contains("sk-live"), "{:?}", remarks(&text));
    }
}

#[test]
fn entries_of_model_thresholds_are_checked_one_by_one() {
    let text = "compression:\n  model_thresholds:\n    glm-5.2: 40%\n    bad: 7\n    \"\": 0.5\n    fine: 0.3\n";
    check(
        text,
        "compression.model_thresholds",
        json!({"fine": 0.3, "glm-5.2": 0.4}),
        &[
            "config.yaml:3: compression.model_thresholds.glm-5.2: \"40%\" is read as 0.4",
            "config.yaml:4: compression.model_thresholds.bad: expected a number from 0.05 to 0.95, found 7; using compression.threshold (for 7 percent write 0.07)",
            "config.yaml:5: compression.model_thresholds.: expected a model name, found an empty one; using compression.threshold",
        ],
    );
}

/// Inputs that were put to Hermes 0.19.0, five of which keep it from starting. `Some` is the number of remarks.
#[test]
fn every_value_put_to_hermes_is_survived() {
    let compression = |key: &'static str| format!("compression.{key}");
    let rows = [
        ("compression: {threshold: 0.3}", compression("threshold"), json!(0.3), 0),
        ("compression: {threshold: 1.5}", compression("threshold"), json!(0.5), 1),
        ("compression: {threshold: -1}", compression("threshold"), json!(0.5), 1),
        ("compression: {threshold: null}", compression("threshold"), json!(0.5), 1),
        ("compression: {threshold: '0.6'}", compression("threshold"), json!(0.6), 0),
        ("compression: {protect_last_n: 0}", compression("protect_last_n"), json!(0), 0),
        ("compression: {protect_last_n: -3}", compression("protect_last_n"), json!(0), 1),
        ("compression: {protect_last_n: null}", compression("protect_last_n"), json!(20), 1),
        ("compression: {protect_first_n: -3}", compression("protect_first_n"), json!(0), 1),
        ("compression: {protect_first_n: x}", compression("protect_first_n"), json!(3), 1),
        ("compression: {protect_first_n: null}", compression("protect_first_n"), json!(3), 1),
        ("compression: {target_ratio: 0.01}", compression("target_ratio"), json!(0.1), 1),
        ("compression: {target_ratio: x}", compression("target_ratio"), json!(0.2), 1),
        ("compression: {enabled: false}", compression("enabled"), json!(false), 0),
        ("compression: {enabled: 'no'}", compression("enabled"), json!(false), 0),
        ("compression: {enabled: null}", compression("enabled"), json!(true), 1),
        ("compression: {enabled: 'yes'}", compression("enabled"), json!(true), 0),
        ("compression: {enabled: 'on'}", compression("enabled"), json!(true), 0),
        ("compression: {in_place: 'on'}", compression("in_place"), json!(true), 0),
        ("compression: {in_place: 'off'}", compression("in_place"), json!(false), 0),
        ("compression: {in_place: 1}", compression("in_place"), json!(true), 0),
        ("compression: {codex_app_server_auto: HERMES}", compression("codex_app_server_auto"), json!("hermes"), 0),
        ("compression: {codex_app_server_auto: false}", compression("codex_app_server_auto"), json!("off"), 1),
        ("compression: {codex_app_server_auto: null}", compression("codex_app_server_auto"), json!("native"), 1),
        ("compression: null", compression("enabled"), json!(true), 0),
        ("prompt_caching: {cache_ttl: 1h}", "prompt_caching.cache_ttl".into(), json!("1h"), 0),
        ("prompt_caching: {cache_ttl: 30m}", "prompt_caching.cache_ttl".into(), json!("5m"), 1),
        ("prompt_caching: {cache_ttl: 60}", "prompt_caching.cache_ttl".into(), json!("5m"), 1),
        ("context: {engine: probe}", "context.engine".into(), json!("probe"), 0),
        ("context: {engine: PROBE}", "context.engine".into(), json!("PROBE"), 0),
        ("context: {engine: ''}", "context.engine".into(), json!("compressor"), 0),
        ("context: {engine: null}", "context.engine".into(), json!("compressor"), 0),
        ("context: {engine: compressor}", "context.engine".into(), json!("compressor"), 0),
        ("context: {engine: ../x}", "context.engine".into(), json!("compressor"), 1),
        ("context: str", "context.engine".into(), json!("compressor"), 1),
        ("model: {context_length: 64000}", "model.context_length".into(), json!(64000), 0),
        ("model: {context_length: 256K}", "model.context_length".into(), json!(null), 1),
        ("", compression("threshold"), json!(0.5), 0),
    ];
    for (text, key, value, count) in rows {
        let loaded = parse(text, "f");
        assert_eq!(get(&loaded.config, &key), Some(value), "{text}");
        assert_eq!(loaded.diagnostics.len(), count, "{text} {:?}", loaded.diagnostics);
    }
    assert!(remarks("model: {context_length: 256K}")[0].contains("write the plain number 256000"));
    assert_eq!(parse("prompt_caching: {cache_ttl: 1h}", "f").config.prompt_caching.cache_ttl, CacheTtl::OneHour);
}

/// Text made of pieces that mean something to YAML and to the table.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("compression:".to_owned()),
        Just("model".to_owned()),
        Just("engines: ".to_owned()),
        Just("threshold: ".to_owned()),
        Just("api_key: ".to_owned()),
        Just("model_thresholds: ".to_owned()),
        Just("fallback_chain:".to_owned()),
        Just("<<: *a".to_owned()),
        Just("&a ".to_owned()),
        Just("!t ".to_owned()),
        Just("\n".to_owned()),
        Just("\n  ".to_owned()),
        Just("\n\t".to_owned()),
        Just("- ".to_owned()),
        Just("? ".to_owned()),
        Just(": ".to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just(",".to_owned()),
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("|\n".to_owned()),
        Just("# ".to_owned()),
        Just("---\n".to_owned()),
        Just("0.5".to_owned()),
        Just("é".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_makes_reading_fail(text in prop_oneof![any::<String>(), yaml_like()]) {
        let loaded = parse(&text, "f");
        let lines = text.replace("\r\n", "\n").split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
        for diagnostic in &loaded.diagnostics {
            prop_assert!(diagnostic.line.is_none_or(|line| 1 <= line && line <= lines + 1), "{diagnostic}");
            prop_assert!(!diagnostic.to_string().contains('\n'), "{diagnostic}");
        }
    }
}
