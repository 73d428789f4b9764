//! What a user can set in the engine's own section.

use engine_api::{SettingDiagnostic, json};

/// Codex' budget for the user's messages beside a local handoff, in tokens.
const ORIGINAL_USER_TOKENS: u64 = 20_000;
/// Codex cuts a tool's output to so many tokens when it records it: `truncation_policy` of its catalogue.
const TOOL_OUTPUT_TOKENS: u64 = 10_000;
/// A prompt is a page or two; longer ones would not leave room for what they speak of.
const PROMPT_BYTES_MAX: usize = 32_768;

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// A whole number in this range, or 0 with a meaning of its own.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A part of something, as a fraction in this range.
    Share {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// A text.
    Text,
}

/// A setting.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The default as a user writes it.
    pub default: &'static str,
    /// The default where `as_original` is set.
    pub original: &'static str,
}

/// Every setting.
pub const KEYS: [Key; 8] = [
    Key { name: "as_original", kind: Kind::Flag, default: "false", original: "true" },
    Key {
        name: "user_messages_tokens",
        kind: Kind::Count { least: 500, most: 1_000_000 },
        default: "0",
        original: "20000",
    },
    Key {
        name: "user_messages_share",
        kind: Kind::Share { least: 0.02, most: 0.6 },
        default: "0.25",
        original: "0.25",
    },
    Key { name: "tail_tokens", kind: Kind::Count { least: 500, most: 1_000_000 }, default: "0", original: "none" },
    Key {
        name: "tool_output_tokens",
        kind: Kind::Count { least: 200, most: 1_000_000 },
        default: "10000",
        original: "10000",
    },
    Key {
        name: "auto_compact_tokens",
        kind: Kind::Count { least: 1_000, most: 10_000_000 },
        default: "0",
        original: "0",
    },
    Key { name: "prepare", kind: Kind::Flag, default: "true", original: "false" },
    Key { name: "prompt", kind: Kind::Text, default: "\"\"", original: "\"\"" },
];

/// Settings of the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Whether it does as the program does, budgets, headings and trigger included.
    pub as_original: bool,
    /// Tokens of the user's messages that stay; 0 for a share of the window.
    pub user_messages_tokens: u64,
    /// That share.
    pub user_messages_share: f64,
    /// Tokens of the newest work that stays; 0 takes the host's tail budget. `None` for the last exchange alone.
    pub tail_tokens: Option<u64>,
    /// A kept tool result with more tokens is cut in its middle; 0 for never.
    pub tool_output_tokens: u64,
    /// Prompt tokens at which to compact, where that is less than what model and host say; 0 for no such limit.
    pub auto_compact_tokens: u64,
    /// Whether a handoff is prepared in the background, while the work goes on.
    pub prepare: bool,
    /// Takes the place of the prompt; `{budget}` in it becomes the tokens that the handoff may have. Empty for none.
    pub prompt: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            as_original: false,
            user_messages_tokens: 0,
            user_messages_share: 0.25,
            tail_tokens: Some(0),
            tool_output_tokens: TOOL_OUTPUT_TOKENS,
            auto_compact_tokens: 0,
            prepare: true,
            prompt: String::new(),
        }
    }
}

impl Settings {
    /// What the program does.
    pub fn original() -> Self {
        Settings {
            as_original: true,
            user_messages_tokens: ORIGINAL_USER_TOKENS,
            tail_tokens: None,
            prepare: false,
            ..Settings::default()
        }
    }

    /// Reads settings; what is wrong takes its default, with a remark. A setting that is written wins over `as_original`.
    pub fn read(value: &json::Value) -> (Settings, Vec<SettingDiagnostic>) {
        let mut remarks = Vec::new();
        let json::Value::Object(members) = value else { return (Settings::default(), remarks) };
        let is_original = members.get("as_original").and_then(json::Value::as_bool).unwrap_or(false);
        let mut settings = if is_original { Settings::original() } else { Settings::default() };
        for (name, given) in members {
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                remarks.push(SettingDiagnostic::new(name, "is not a setting of this engine; it is passed over"));
                continue;
            };
            if given.is_null() {
                continue;
            }
            if let Err(wanted) = settings.take(key, given) {
                let given = engine_kit::text::clip(&given.to_string(), 40);
                let default = if is_original { key.original } else { key.default };
                let message = format!("must be {wanted}, not {given}; {default} is used");
                remarks.push(SettingDiagnostic::new(name, message));
            }
        }
        (settings, remarks)
    }

    /// Takes a value over, or says what it should have been.
    fn take(&mut self, key: &Key, given: &json::Value) -> Result<(), String> {
        match key.kind {
            Kind::Flag => {
                let flag = given.as_bool().ok_or("true or false")?;
                match key.name {
                    "as_original" => self.as_original = flag,
                    _ => self.prepare = flag,
                }
            }
            Kind::Count { least, most } => {
                let number = given.as_u64().filter(|number| *number == 0 || (least..=most).contains(number));
                let number = number.ok_or_else(|| format!("0 or a whole number from {least} to {most}"))?;
                match key.name {
                    "user_messages_tokens" => self.user_messages_tokens = number,
                    "tail_tokens" => self.tail_tokens = Some(number),
                    "tool_output_tokens" => self.tool_output_tokens = number,
                    _ => self.auto_compact_tokens = number,
                }
            }
            Kind::Share { least, most } => {
                let number = given.as_f64().filter(|number| (least..=most).contains(number));
                self.user_messages_share = number.ok_or_else(|| format!("a number from {least} to {most}"))?;
            }
            Kind::Text => {
                let text = given.as_str().filter(|text| text.len() <= PROMPT_BYTES_MAX);
                let text = text.ok_or_else(|| format!("a text of at most {PROMPT_BYTES_MAX} bytes"))?;
                self.prompt = text.trim().to_string();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
