//! What a user can set in the engine's own section.

use engine_api::{SettingDiagnostic, json};

/// Settings of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Tokens of the newest messages that stay word for word; 0 takes the host's tail budget.
    pub fresh_tail_tokens: u64,
    /// Newest messages that stay at least.
    pub fresh_tail_messages_min: usize,
    /// Tokens of the stretch that one leaf stands for.
    pub leaf_chunk_tokens: u64,
    /// Neighbouring summaries of equal depth that are condensed into one.
    pub fan_in: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { fresh_tail_tokens: 0, fresh_tail_messages_min: 8, leaf_chunk_tokens: 20_000, fan_in: 4 }
    }
}

struct Range {
    key: &'static str,
    least: u64,
    most: u64,
    default: u64,
    /// 0 stands for "as the host says".
    is_zero_allowed: bool,
}

const RANGES: [Range; 4] = [
    Range { key: "fresh_tail_tokens", least: 1_000, most: 2_000_000, default: 0, is_zero_allowed: true },
    Range { key: "fresh_tail_messages_min", least: 1, most: 10_000, default: 8, is_zero_allowed: false },
    Range { key: "leaf_chunk_tokens", least: 1_000, most: 400_000, default: 20_000, is_zero_allowed: false },
    Range { key: "fan_in", least: 2, most: 64, default: 4, is_zero_allowed: false },
];

impl Settings {
    /// Reads settings; what is wrong takes its default, with a remark.
    pub fn read(value: &json::Value) -> (Settings, Vec<SettingDiagnostic>) {
        let mut remarks = Vec::new();
        let mut read = |range: &Range| match value.get(range.key) {
            None | Some(json::Value::Null) => range.default,
            Some(given) => match given.as_u64() {
                Some(0) if range.is_zero_allowed => 0,
                Some(number) if (range.least..=range.most).contains(&number) => number,
                _ => {
                    let message = format!(
                        "must be a whole number from {} to {}, not {}; {} is used",
                        range.least,
                        range.most,
                        engine_kit::text::clip(&given.to_string(), 40),
                        range.default
                    );
                    remarks.push(SettingDiagnostic::new(range.key, message));
                    range.default
                }
            },
        };
        let [tail_tokens, tail_messages, leaf_tokens, fan_in] = RANGES.each_ref().map(&mut read);
        if let json::Value::Object(members) = value {
            for key in members.keys().filter(|key| RANGES.iter().all(|range| range.key != key.as_str())) {
                remarks.push(SettingDiagnostic::new(key, "is not a setting of this engine; it is passed over"));
            }
        }
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let settings = Settings {
            fresh_tail_tokens: tail_tokens,
            fresh_tail_messages_min: count(tail_messages),
            leaf_chunk_tokens: leaf_tokens,
            fan_in: count(fan_in),
        };
        (settings, remarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_take_their_defaults_with_a_remark() {
        let (settings, remarks) = Settings::read(&json::json!({
            "fresh_tail_tokens": 0, "fresh_tail_messages_min": 0, "leaf_chunk_tokens": "many", "fan_in": 8, "fanin": 3
        }));
        assert_eq!(settings, Settings { fan_in: 8, ..Settings::default() });
        let keys: Vec<&str> = remarks.iter().map(|remark| remark.key.as_str()).collect();
        assert_eq!(keys, ["fresh_tail_messages_min", "leaf_chunk_tokens", "fanin"]);
        assert_eq!(Settings::read(&json::Value::Null), (Settings::default(), vec![]));
        assert_eq!(Settings::read(&json::json!([1])), (Settings::default(), vec![]));
    }
}
