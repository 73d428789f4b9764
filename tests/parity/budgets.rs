//! Thresholds, tail budgets and summary ceilings, to the token.

use crate::cases;
use host_config::{Budgets, Config, TailMode, budgets};
use serde_json::Value;

/// The file of a person who wants what Hermes 0.19.0 does: the legacy tail.
fn legacy(threshold: f64, ratio: f64) -> Config {
    let mut config = Config::default();
    config.compression.tail_mode = TailMode::Legacy;
    config.compression.threshold = threshold;
    config.compression.target_ratio = ratio;
    config
}

fn assert_equal(seen: &Budgets, want: &Value, case: &Value) {
    let number = |key: &str| want[key].as_u64();
    assert_eq!(Some(seen.threshold_tokens), number("threshold_tokens"), "{case}");
    assert_eq!(Some(seen.tail_budget_tokens), number("tail_token_budget"), "{case}");
    assert_eq!(Some(seen.summary_tokens_max), number("max_summary_tokens"), "{case}");
    assert_eq!(Some(seen.threshold_fraction), want["threshold_percent"].as_f64(), "{case}");
}

#[test]
fn every_observed_budget_is_ours() {
    let mut compared = 0;
    for case in cases("01-thresholds") {
        let (input, observed) = (&case["input"], &case["observed"]);
        if let Some(windows) = input["contexts"].as_array() {
            // The session's model is switched again and again; each window is resolved from the configured fraction.
            for (window, want) in windows.iter().zip(observed.as_array().unwrap()) {
                let seen = budgets(&legacy(0.5, 0.2), "some-model", window.as_u64().unwrap(), None);
                assert_equal(&seen, want, &case);
                compared += 1;
            }
            continue;
        }
        let config =
            legacy(input["threshold_percent"].as_f64().unwrap(), input["summary_target_ratio"].as_f64().unwrap());
        let max_tokens = input["max_tokens"].as_u64().or_else(|| input["max_tokens"].as_str()?.parse().ok());
        let seen = budgets(&config, "some-model", input["context_length"].as_u64().unwrap(), max_tokens);
        assert_equal(&seen, observed, &case);
        compared += 1;
    }
    assert_eq!(compared, 25, "every case was compared");
}
