//! What a user can set, with the names of the `compression` section.

use engine_api::{SettingDiagnostic, json};

/// How much of the newest conversation stays, and what the summary carries beside its sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailMode {
    /// A small tail; large results in it become lines early, and the summary lists identifiers at length.
    Lean,
    /// A tail of a share of the threshold; the summary lists few identifiers.
    Legacy,
}

/// Settings of the compressor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Messages after the system prompt that the first compaction keeps.
    pub protect_first_n: usize,
    /// Newest messages that pruning leaves alone.
    pub protect_last_n: usize,
    /// Share of the threshold for the tail, where the host states no tail budget.
    pub target_ratio: f64,
    /// How much of the newest conversation stays.
    pub tail_mode: TailMode,
    /// Newest real user messages that stay word for word.
    pub min_tail_user_messages: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            protect_first_n: 3,
            protect_last_n: 20,
            target_ratio: 0.20,
            tail_mode: TailMode::Lean,
            min_tail_user_messages: 1,
        }
    }
}

/// More messages than this are a slip of the finger.
const MESSAGES_MAX: u64 = 10_000;
/// Hermes' bounds of the tail's share.
const TARGET_RATIO: (f64, f64) = (0.10, 0.80);

impl Settings {
    /// Reads settings; what is wrong takes its default, with a remark. Unknown names are left to the host.
    pub fn read(value: &json::Value) -> (Settings, Vec<SettingDiagnostic>) {
        let mut settings = Settings::default();
        let mut remarks = Vec::new();
        let mut remark = |key: &str, wanted: &str, used: String| {
            remarks.push(SettingDiagnostic::new(key, format!("must be {wanted}; {used} is used")));
        };
        let counts = [
            ("protect_first_n", &mut settings.protect_first_n, 0),
            ("protect_last_n", &mut settings.protect_last_n, 0),
            ("min_tail_user_messages", &mut settings.min_tail_user_messages, 1),
        ];
        for (key, slot, least) in counts {
            match value.get(key) {
                None | Some(json::Value::Null) => {}
                Some(given) => match given.as_u64().filter(|count| (least..=MESSAGES_MAX).contains(count)) {
                    Some(count) => *slot = usize::try_from(count).unwrap_or(*slot),
                    None => remark(key, &format!("a whole number from {least} to {MESSAGES_MAX}"), slot.to_string()),
                },
            }
        }
        match value.get("target_ratio") {
            None | Some(json::Value::Null) => {}
            Some(given) => match given.as_f64().filter(|ratio| ratio.is_finite()) {
                Some(ratio) => settings.target_ratio = ratio.clamp(TARGET_RATIO.0, TARGET_RATIO.1),
                None => remark("target_ratio", "a number from 0.10 to 0.80", settings.target_ratio.to_string()),
            },
        }
        match value.get("tail_mode") {
            None | Some(json::Value::Null) => {}
            Some(given) => match given.as_str() {
                Some("lean") => settings.tail_mode = TailMode::Lean,
                Some("legacy") => settings.tail_mode = TailMode::Legacy,
                _ => remark("tail_mode", "lean or legacy", "lean".to_string()),
            },
        }
        (settings, remarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_take_their_defaults_with_a_remark() {
        let (settings, remarks) = Settings::read(&json::json!({
            "protect_first_n": 1, "protect_last_n": -3, "target_ratio": 7, "tail_mode": "long",
            "min_tail_user_messages": 0, "threshold": 0.5
        }));
        assert_eq!(settings, Settings { protect_first_n: 1, target_ratio: 0.80, ..Settings::default() });
        let keys: Vec<&str> = remarks.iter().map(|remark| remark.key.as_str()).collect();
        assert_eq!(keys, ["protect_last_n", "min_tail_user_messages", "tail_mode"]);
        for odd in [json::json!(null), json::json!([]), json::json!("x"), json::json!({ "tail_mode": null })] {
            assert_eq!(Settings::read(&odd), (Settings::default(), vec![]), "{odd}");
        }
    }
}
