//! Thresholds that Codex models get by their name.

use crate::cases;
use host_config::codex::{AUTORAISE_MARKER_FILE, Autoraise, codex_window, model_rule};
use host_config::{Config, budgets_for};
use serde_json::Value;

/// The `-900k` names have a window of 900,000 tokens, so the raise made for a window of 272,000 does not fit them;
/// Hermes' later documentation says so too.
const DIFFERENT: &[&str] = &["gpt-5.6-sol-900k"];

#[test]
fn every_observed_rule_is_ours_but_for_the_large_window() {
    let mut different = Vec::new();
    let (mut compared, all) = (0, cases("14-codex"));
    for case in &all {
        let (input, observed) = (&case["input"], &case["observed"]);
        if let Some(model) = input["codex_context_fallback"].as_str() {
            assert_eq!(Some(codex_window(model)), observed.as_u64(), "{case}");
        } else if let Some(global) = input["global"].as_f64() {
            let mut config = Config::default();
            config.compression.threshold = global;
            // A window from 512,000 tokens on has no floor, so the fraction is seen as it is.
            let model =
                if input["is_codex_autoraise"] == Value::Bool(true) { "gpt-5.5" } else { "trinity-large-thinking" };
            let seen = budgets_for(&config, model, "openai-codex", 600_000, None);
            assert_eq!(Some(seen.threshold_fraction), observed[0].as_f64(), "{case}");
            assert!(seen.autoraise.is_none(), "{case}");
        } else if input["notice_for"].is_object() {
            let raise = Autoraise { model: "gpt-5.5".to_owned(), from: 0.5, to: 0.85 };
            assert_eq!(Some(raise.marker().as_str()), observed["marker_content"].as_str());
            assert_eq!(Some(AUTORAISE_MARKER_FILE), observed["marker_file"].as_str());
            let notice = raise.notice();
            assert_eq!(notice.lines().count() as u64, observed["notice"]["lines"].as_u64().unwrap());
            for part in observed["notice"]["contains"].as_array().unwrap() {
                // The command to undo it is ours.
                let part = part.as_str().unwrap().replace("hermes config", "palimpsest config");
                assert!(notice.contains(&part), "{notice} lacks {part}");
            }
        } else {
            let text = |key: &str| input[key].as_str().unwrap();
            let rule = model_rule(text("model"), text("provider"), input["autoraise"].as_bool().unwrap());
            if rule.map(|rule| rule.threshold) != observed.as_f64() {
                different.push(text("model").to_owned());
            }
        }
        compared += 1;
    }
    assert_eq!(compared, all.len());
    assert_eq!(different, DIFFERENT);
}
