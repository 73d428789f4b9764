//! What a user can set in the engine's own section, under our names and those of the peers.

mod table;

use crate::patterns::{Glob, MessagePatterns};
use engine_api::{SettingDiagnostic, json};
pub use table::{KEYS, Key, Kind};

/// In which shape tools answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// JSON, as hermes-lcm answers.
    #[default]
    Hermes,
    /// Markdown with a line of details, as lossless-claw answers.
    OpenClaw,
    /// By the names of the parameters that a call uses.
    Both,
}

/// Settings of the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Share of the window at which to compact; 0 takes the host's threshold.
    pub context_threshold: f64,
    /// Share of that threshold at which a plan is prepared in the background.
    pub soft_threshold: f64,
    /// Share of the room under the threshold that a compaction leaves filled.
    pub low_water: f64,
    /// Tokens of the newest messages that stay word for word; 0 takes the host's tail budget.
    pub fresh_tail_tokens: u64,
    /// Newest messages that stay at least.
    pub fresh_tail_messages_min: usize,
    /// Tokens of the stretch that one leaf stands for; 0 derives them from the windows.
    pub leaf_chunk_tokens: u64,
    /// Neighbouring leaves that are condensed into one summary.
    pub leaf_fan_in: usize,
    /// Neighbouring condensed summaries of equal depth that are condensed into one.
    pub condensed_fan_in: usize,
    /// A tool result with more tokens becomes a stub, unless it belongs to the newest exchange; 0 for never.
    pub large_result_tokens: u64,
    /// Summaries of at least this depth are carried into a new session; none for no carrying.
    pub retain_depth: Option<u32>,
    /// Sessions left to the host's built-in compressor.
    pub ignored_sessions: Vec<Glob>,
    /// Sessions in which only the tools work.
    pub read_only_sessions: Vec<Glob>,
    /// Messages that summaries leave out.
    pub ignored_messages: MessagePatterns,
    /// The shape of answers.
    pub dialect: Dialect,
    /// Items that a map asks about at once.
    pub map_concurrency: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            context_threshold: 0.0,
            soft_threshold: 0.8,
            low_water: 0.3,
            fresh_tail_tokens: 0,
            fresh_tail_messages_min: 8,
            leaf_chunk_tokens: 0,
            leaf_fan_in: 8,
            condensed_fan_in: 4,
            large_result_tokens: 25_000,
            retain_depth: Some(2),
            ignored_sessions: Vec::new(),
            read_only_sessions: Vec::new(),
            ignored_messages: MessagePatterns::default(),
            dialect: Dialect::Hermes,
            map_concurrency: 16,
        }
    }
}

impl Settings {
    /// Reads settings; what is wrong takes its default, with a remark.
    pub fn read(value: &json::Value) -> (Settings, Vec<SettingDiagnostic>) {
        let mut settings = Settings::default();
        let mut remarks = Vec::new();
        let json::Value::Object(members) = value else { return (settings, remarks) };
        for (name, given) in members {
            if name == "tools" && given.is_object() {
                for (inner, given) in given.as_object().into_iter().flatten() {
                    let dotted = format!("tools.{inner}");
                    settings.set(&dotted, given, &mut remarks);
                }
                continue;
            }
            settings.set(name, given, &mut remarks);
        }
        (settings, remarks)
    }

    fn set(&mut self, name: &str, given: &json::Value, remarks: &mut Vec<SettingDiagnostic>) {
        let found = KEYS.iter().find(|key| key.name == name || key.aliases.contains(&name));
        let Some(key) = found else {
            remarks.push(SettingDiagnostic::new(name, "is not a setting of this engine; it is passed over"));
            return;
        };
        if given.is_null() {
            return;
        }
        if let Err(wanted) = self.take(key, given) {
            let given = engine_kit::text::clip(&given.to_string(), 40);
            remarks
                .push(SettingDiagnostic::new(name, format!("must be {wanted}, not {given}; {} is used", key.default)));
        }
    }

    /// Takes a value over, or says what it should have been.
    fn take(&mut self, key: &Key, given: &json::Value) -> Result<(), String> {
        match key.kind {
            Kind::Count { least, most, is_zero_allowed } => {
                let number =
                    given.as_u64().filter(|number| (least..=most).contains(number) || *number == 0 && is_zero_allowed);
                let number = number.ok_or_else(|| {
                    format!("{}a whole number from {least} to {most}", if is_zero_allowed { "0 or " } else { "" })
                })?;
                self.set_count(key.name, number);
            }
            Kind::Share { least, most, is_zero_allowed } => {
                let number = given.as_f64().filter(|n| *n >= least && *n <= most || *n == 0.0 && is_zero_allowed);
                let number = number.ok_or_else(|| {
                    format!("{}a number from {least} to {most}", if is_zero_allowed { "0 or " } else { "" })
                })?;
                match key.name {
                    "context_threshold" => self.context_threshold = number,
                    "soft_threshold" => self.soft_threshold = number,
                    _ => self.low_water = number,
                }
            }
            Kind::Depth => {
                let depth = given.as_i64().filter(|depth| (-1..=64).contains(depth));
                self.retain_depth = match (depth, given.as_str()) {
                    (Some(depth), _) => u32::try_from(depth).ok(),
                    (None, Some("none")) => None,
                    _ => return Err("a whole number from -1 to 64, or \"none\"".to_string()),
                };
            }
            Kind::Globs => {
                let globs = texts(given)?.into_iter().map(Glob::new).collect::<Result<Vec<_>, _>>()?;
                match key.name {
                    "ignore_session_patterns" => self.ignored_sessions = globs,
                    _ => self.read_only_sessions = globs,
                }
            }
            Kind::Expressions => self.ignored_messages = MessagePatterns::new(&texts(given)?)?,
            Kind::Dialect => {
                self.dialect = match given.as_str() {
                    Some("hermes") => Dialect::Hermes,
                    Some("openclaw") => Dialect::OpenClaw,
                    Some("both") => Dialect::Both,
                    _ => return Err("hermes, openclaw or both".to_string()),
                }
            }
        }
        Ok(())
    }

    fn set_count(&mut self, name: &str, number: u64) {
        let count = usize::try_from(number).unwrap_or(usize::MAX);
        match name {
            "fresh_tail_tokens" => self.fresh_tail_tokens = number,
            "fresh_tail_messages_min" => self.fresh_tail_messages_min = count,
            "leaf_chunk_tokens" => self.leaf_chunk_tokens = number,
            "leaf_fan_in" => self.leaf_fan_in = count,
            "condensed_fan_in" => self.condensed_fan_in = count,
            "fan_in" => {
                self.leaf_fan_in = count;
                self.condensed_fan_in = count;
            }
            "large_result_tokens" => self.large_result_tokens = number,
            _ => self.map_concurrency = count,
        }
    }
}

/// A list of texts, or one text with commas.
fn texts(given: &json::Value) -> Result<Vec<&str>, String> {
    const WANTED: &str = "a list of patterns";
    match given {
        json::Value::String(text) => Ok(text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect()),
        json::Value::Array(list) => list.iter().map(|text| text.as_str().ok_or(WANTED.to_string())).collect(),
        _ => Err(WANTED.to_string()),
    }
}

#[cfg(test)]
mod tests;
