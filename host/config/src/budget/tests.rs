//! Holds the budgets to the numbers Hermes computes, and to its documentation where the two differ.

use super::*;
use serde_json::Value;

fn at(context_length: u64) -> Budgets {
    budgets(&Config::default(), "some-model", context_length, None)
}

#[test]
fn budgets_equal_those_of_hermes() {
    let table: Value = serde_json::from_str(include_str!("../../tests/thresholds.json")).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 25);
    for case in cases {
        let mut config = Config::default();
        config.compression.tail_mode = TailMode::Legacy;
        config.compression.threshold = case["threshold"].as_f64().unwrap();
        config.compression.target_ratio = case["target_ratio"].as_f64().unwrap();
        // The reply length goes through the file, as two of the values are not plain numbers.
        let text = format!("model: {{max_tokens: {}}}", case["max_tokens"]);
        let max_tokens = crate::parse(&text, "config.yaml").config.model.max_tokens;
        let found = budgets(&config, "m", case["context_length"].as_u64().unwrap(), max_tokens);
        assert_eq!(found.threshold_fraction, case["fraction"].as_f64().unwrap(), "{case}");
        assert_eq!(found.threshold_tokens, case["threshold_tokens"].as_u64().unwrap(), "{case}");
        assert_eq!(found.tail_budget_tokens, case["tail_budget_tokens"].as_u64().unwrap(), "{case}");
        assert_eq!(found.summary_tokens_max, case["summary_tokens_max"].as_u64().unwrap(), "{case}");
    }
}

#[test]
fn a_floor_of_zero_gives_the_documented_table() {
    let mut config = Config::default();
    config.compression.small_context_floor = 0.0;
    config.compression.tail_mode = TailMode::Legacy;
    let found = budgets(&config, "m", 200_000, None);
    assert_eq!((found.threshold_tokens, found.tail_budget_tokens, found.summary_tokens_max), (100_000, 20_000, 10_000));
    assert_eq!(budgets(&config, "m", 262_144, None).threshold_tokens, 131_072);
}

#[test]
fn the_floor_ends_at_512_000_tokens() {
    assert_eq!(at(511_999).threshold_tokens, 383_999);
    assert_eq!(at(512_000).threshold_tokens, 256_000);
    assert_eq!(at(128_000).threshold_tokens, 96_000);
    assert_eq!(at(65_536).threshold_tokens, 64_000);
}

#[test]
fn the_lean_tail_grows_with_the_window_between_its_bounds() {
    let tails = [
        (8_192, 1_638),
        (32_768, 6_553),
        (200_000, 10_000),
        (800_000, 20_000),
        (1_000_000, 25_000),
        (4_000_000, 25_000),
    ];
    for (context, tail) in tails {
        assert_eq!(at(context).tail_budget_tokens, tail, "{context}");
    }
    assert_eq!(budgets(&Config::default(), "m", 100_000, Some(90_000)).tail_budget_tokens, 2_000);
}

#[test]
fn every_budget_fits_into_its_window() {
    for context in (0..70_000).step_by(7).chain([u64::MAX, u64::MAX / 2, 1 << 53]) {
        for reply in [None, Some(1), Some(4_096), Some(u64::MAX)] {
            let found = budgets(&Config::default(), "m", context, reply);
            assert!(found.threshold_tokens < found.window.max(2), "{context} {reply:?}");
            assert!(found.tail_budget_tokens <= found.threshold_tokens, "{context} {reply:?}");
            assert!(
                found.hygiene_tokens >= found.threshold_tokens || found.threshold_tokens == 1,
                "{context} {reply:?}"
            );
        }
    }
}

#[test]
fn the_longest_matching_name_sets_the_threshold() {
    let mut config = Config::default();
    let names = [("glm-5.2", 0.40), ("glm-5.2-1M", 0.25), ("claude-sonnet", 0.80), ("", 0.9)];
    config.compression.model_thresholds = names.map(|(name, value)| (name.to_owned(), value)).into();
    let fraction = |model: &str, context| budgets(&config, model, context, None).threshold_fraction;
    assert_eq!(fraction("z-ai/GLM-5.2-1m", 1_000_000), 0.25);
    assert_eq!(fraction("glm-5.2", 1_000_000), 0.40);
    assert_eq!(fraction("other", 1_000_000), 0.50);
    assert_eq!(fraction("glm-5.2", 200_000), 0.75, "the floor applies on top");
    assert_eq!(fraction("claude-sonnet-4", 200_000), 0.80, "the floor only raises");
}

#[test]
fn a_codex_model_is_raised_and_never_lowered() {
    let mut config = Config::default();
    config.model.provider = "openai-codex".into();
    let found = budgets(&config, "gpt-5.5", 272_000, None);
    assert_eq!((found.threshold_fraction, found.threshold_tokens), (0.85, 231_200));
    assert_eq!(found.autoraise.as_ref().map(Autoraise::marker).as_deref(), Some("gpt-5.5:50:85"));
    assert!(explain(&found).contains("codex_gpt55_autoraise"), "{}", explain(&found));

    for global in [0.9, 0.85] {
        config.compression.threshold = global;
        let kept = budgets(&config, "gpt-5.5", 272_000, None);
        assert_eq!((kept.threshold_fraction, kept.autoraise), (global, None));
    }
    config.compression.threshold = 0.9;
    let lowered = budgets_for(&config, "trinity-large-thinking", "openrouter", 131_072, None);
    assert_eq!((lowered.threshold_fraction, lowered.autoraise), (0.75, None));
}

#[test]
fn a_large_window_name_keeps_the_configured_threshold() {
    let mut config = Config::default();
    let found = budgets_for(&config, "gpt-5.6-sol-900k", "openai-codex", 900_000, None);
    assert_eq!((found.threshold_tokens, found.autoraise.is_none()), (450_000, true));
    assert!(explain(&found).contains("-900k"));
    config.compression.model_thresholds.insert("-900k".into(), 0.85);
    assert_eq!(budgets_for(&config, "gpt-5.6-sol-900k", "openai-codex", 900_000, None).threshold_fraction, 0.85);
}

#[test]
fn a_threshold_named_for_a_codex_model_beats_the_raise() {
    let mut config = Config::default();
    config.compression.model_thresholds.insert("gpt-5.5".into(), 0.8);
    let found = budgets_for(&config, "gpt-5.5", "openai-codex", 272_000, None);
    assert_eq!((found.threshold_fraction, found.autoraise), (0.8, None));
}

#[test]
fn the_safety_net_does_not_fire_before_a_high_threshold() {
    let mut config = Config::default();
    assert_eq!(at(200_000).hygiene_tokens, 170_000);
    config.compression.threshold = 0.95;
    let found = budgets(&config, "m", 200_000, None);
    assert_eq!((found.threshold_tokens, found.hygiene_tokens), (190_000, 190_000));
}

#[test]
fn the_configured_reply_length_stands_in_for_a_missing_one() {
    let mut config = Config::default();
    config.model.max_tokens = Some(65_536);
    assert_eq!(budgets(&config, "m", 200_000, None).threshold_tokens, 100_848);
    assert_eq!(budgets(&config, "m", 200_000, Some(8_192)).threshold_tokens, 143_856);
}

#[test]
fn a_summary_is_a_fifth_of_its_source_within_bounds() {
    let found = at(200_000);
    assert_eq!([1_000, 20_000, 1_000_000].map(|n| found.summary_tokens(n)), [2_000, 4_000, 10_000]);
}

#[test]
fn every_number_is_explained() {
    let text = explain(&at(200_000));
    let expected = "\
context_length      200,000  the model's context window
window              200,000  the whole context: no longest reply is set
threshold              0.50  compression.threshold
threshold_fraction     0.75  raised to compression.small_context_floor: the context is below 512,000
threshold_tokens    150,000  200,000 × 0.75
tail_budget_tokens   10,000  tail_mode lean: 2.5 % of the context, from 10,000 to 25,000
summary_tokens_max   10,000  5 % of the context, at most 10,000
hygiene_tokens      170,000  85 % of the context: the gateway's safety net
";
    assert_eq!(text, expected);
}

#[test]
fn no_setting_makes_the_arithmetic_fail() {
    let mut config = Config::default();
    for bad in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
        config.compression.threshold = bad;
        config.compression.target_ratio = if bad.is_nan() { 0.2 } else { bad };
        config.compression.small_context_floor = bad;
        let found = budgets(&config, "m", 200_000, None);
        assert!(found.threshold_tokens > 0 && found.threshold_tokens < 200_000, "{bad} {found:?}");
    }
}
