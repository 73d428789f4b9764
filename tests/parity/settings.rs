//! What becomes of odd values in the settings: where Hermes does not start, or takes nonsense, we warn and go on.

use crate::cases;
use host_config::{CacheTtl, CodexAppServerAuto, Config, Loaded, parse};
use std::fmt::Write as _;

/// Values that are taken differently, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("threshold=1.5", "a threshold over the window is no threshold: the default is used and the file's line named"),
    ("threshold=None", "Hermes does not start; null is the default"),
    ("protect_last_n=-3", "a negative count keeps nothing; Hermes carries it along"),
    ("protect_last_n=None", "Hermes does not start; null is the default"),
    ("protect_first_n='x'", "Hermes does not start; the default is used and the file's line named"),
    ("protect_first_n=None", "Hermes does not start; null is the default"),
    ("target_ratio='x'", "Hermes does not start; the default is used and the file's line named"),
    ("enabled=None", "null is the default, as everywhere; Hermes turns compression off"),
    ("codex_app_server_auto=False", "an unquoted `off` is meant as off; Hermes takes it for native"),
    ("ctx '256K'", "256K is understood as 256,000 by neither; the assumed window differs"),
];

/// The compression section of a case, as Hermes' configuration has it.
fn yaml(input: &str) -> Option<String> {
    let (key, value) = match input.split_once('=') {
        Some((key, value)) => (key, value.replace("None", "null").replace("False", "false").replace("True", "true")),
        None => ("", String::new()),
    };
    Some(match (input, key) {
        ("defaults", _) => String::new(),
        ("compression: null", _) => "compression:\n".to_owned(),
        ("context: str", _) => "context: text\n".to_owned(),
        ("ctx 64000", _) => "model:\n  context_length: 64000\n".to_owned(),
        ("ctx '256K'", _) => "model:\n  context_length: 256K\n".to_owned(),
        (_, "cache_ttl") => format!("prompt_caching:\n  cache_ttl: {value}\n"),
        // Which engine runs is the registry's matter, and is tested there.
        (_, "engine") => return None,
        _ => format!("compression:\n  {key}: {value}\n"),
    })
}

/// Writes what is in effect in the words of the golden.
fn effective(loaded: &Loaded) -> String {
    let config: &Config = &loaded.config;
    let window = config.model.context_length.unwrap_or(200_000);
    let budgets = host_config::budgets(config, "some-model", window, None);
    let compression = &config.compression;
    let truth = |flag: bool| if flag { "True" } else { "False" };
    let mut out = String::from("ContextCompressor");
    let ttl = match config.prompt_caching.cache_ttl {
        CacheTtl::FiveMinutes => "5m",
        CacheTtl::OneHour => "1h",
    };
    let codex = match compression.codex_app_server_auto {
        CodexAppServerAuto::Native => "native",
        CodexAppServerAuto::Hermes => "hermes",
        CodexAppServerAuto::Off => "off",
    };
    let _ = write!(
        out,
        " thr%={} thr={} first={} last={} tail={} enabled={} in_place={} ttl={ttl} codex={codex}",
        budgets.threshold_fraction,
        budgets.threshold_tokens,
        compression.protect_first_n,
        compression.protect_last_n,
        budgets.tail_budget_tokens,
        truth(compression.enabled),
        truth(compression.in_place),
    );
    out
}

#[test]
fn odd_values_are_taken_as_hermes_takes_them_or_as_the_list_says() {
    let mut different = Vec::new();
    let mut compared = 0;
    for case in cases("16-config-validation") {
        let input = case["input"].as_str().unwrap();
        let Some(mut text) = yaml(input) else { continue };
        // Hermes 0.19.0 knows one tail only.
        if text.starts_with("compression:\n  ") {
            text.push_str("  tail_mode: legacy\n");
        } else if !text.starts_with("compression:") {
            text.push_str("compression:\n  tail_mode: legacy\n");
        }
        let mut loaded = parse(&text, "config.yaml");
        // A null section has no place for the tail mode, and is otherwise the default.
        loaded.config.compression.tail_mode = host_config::TailMode::Legacy;
        let observed = case["observed"].as_str().unwrap();
        let observed = observed.split(" warn=").next().unwrap_or(observed);
        if effective(&loaded) != observed {
            different.push((input.to_owned(), effective(&loaded), observed.to_owned(), loaded.diagnostics.len()));
        }
        compared += 1;
    }
    assert!(compared >= 30, "{compared} cases were compared");
    let names: Vec<&str> = different.iter().map(|(input, ..)| input.as_str()).collect();
    let listed: Vec<&str> = DIFFERENT.iter().map(|(input, _)| *input).collect();
    assert_eq!(names, listed, "{different:#?}");
    for (input, seen, observed, remarks) in &different {
        assert!(!seen.contains("EXC"), "{input}");
        let is_silent_null = input.ends_with("=None");
        assert!(*remarks > 0 || is_silent_null || !observed.starts_with("EXC"), "{input} is not remarked on");
    }
}
