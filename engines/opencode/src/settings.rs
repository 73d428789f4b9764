//! What a user can set, as a table with ranges and defaults.

use engine_api::{SettingDiagnostic, json};

/// The headings of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headings {
    /// Goal, Instructions, Discoveries, Accomplished, Relevant files.
    Five,
    /// The program's newer ones: Objective, Important Details, Work State, Next Move, Relevant Files.
    New,
}

/// Settings of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Behaves as the program does, its figures included, where nothing else is set.
    pub as_original: bool,
    /// Hides old tool results.
    pub prune: bool,
    /// Tokens that hiding must free, or nothing is hidden.
    pub prune_minimum_tokens: u64,
    /// Tokens of the newest tool results that are never hidden.
    pub prune_protect_tokens: u64,
    /// Newest turns whose results are never hidden.
    pub prune_protect_turns: usize,
    /// Tools whose results are never hidden.
    pub prune_exempt_tools: Vec<String>,
    /// Tokens of the newest messages that stay; 0 takes the host's tail budget.
    pub preserve_recent_tokens: u64,
    /// Turns of the tail at most; 0 for no such bound.
    pub tail_turns: usize,
    /// Keeps the first request word for word.
    pub keep_original_request: bool,
    /// Says the newest request again after an overflow within its turn.
    pub replay: bool,
    /// The headings of a summary.
    pub headings: Headings,
    /// Tokens of a summary at most.
    pub summary_tokens: u64,
    /// Characters of a tool result that the summariser sees.
    pub result_chars: usize,
    /// The user's own instruction for the summary; empty for the engine's.
    pub prompt: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            as_original: false,
            prune: true,
            prune_minimum_tokens: 20_000,
            prune_protect_tokens: 40_000,
            prune_protect_turns: 2,
            prune_exempt_tools: vec!["skill".to_string()],
            preserve_recent_tokens: 0,
            tail_turns: 0,
            keep_original_request: true,
            replay: true,
            headings: Headings::Five,
            summary_tokens: 4_096,
            result_chars: 2_000,
            prompt: String::new(),
        }
    }
}

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Switch,
    /// A whole number in a range, both ends included.
    Count(u64, u64),
    /// A list of names of tools.
    Names,
    /// `five` or `new`.
    Headings,
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
}

const fn key(name: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { name, kind, default }
}

/// Every setting. `as_original` comes first, for the others are read over what it chooses.
pub const KEYS: [Key; 14] = [
    key("as_original", Kind::Switch, "false"),
    key("prune", Kind::Switch, "true"),
    key("prune_minimum_tokens", Kind::Count(0, 1_000_000), "20000"),
    key("prune_protect_tokens", Kind::Count(0, 1_000_000), "40000"),
    key("prune_protect_turns", Kind::Count(0, 1_000), "2"),
    key("prune_exempt_tools", Kind::Names, "[skill]"),
    key("preserve_recent_tokens", Kind::Count(0, 1_000_000), "0"),
    key("tail_turns", Kind::Count(0, 1_000), "0"),
    key("keep_original_request", Kind::Switch, "true"),
    key("replay", Kind::Switch, "true"),
    key("headings", Kind::Headings, "five"),
    key("summary_tokens", Kind::Count(200, 32_000), "4096"),
    key("result_chars", Kind::Count(100, 100_000), "2000"),
    key("prompt", Kind::Text, "\"\""),
];

/// A longer instruction is no instruction.
const PROMPT_BYTES_MAX: usize = 32_000;
/// Exempt tools at most.
const NAMES_MAX: usize = 256;

impl Settings {
    /// The program's own behaviour: it hides nothing unless told to, and keeps no first request.
    fn original() -> Settings {
        Settings {
            as_original: true,
            prune: false,
            keep_original_request: false,
            headings: Headings::New,
            ..Settings::default()
        }
    }

    /// Reads settings; what is wrong takes its default, with a remark.
    pub fn read(value: &json::Value) -> (Settings, Vec<SettingDiagnostic>) {
        let is_original = value.get("as_original").and_then(json::Value::as_bool) == Some(true);
        let mut settings = if is_original { Settings::original() } else { Settings::default() };
        let mut remarks = Vec::new();
        for (name, given) in value.as_object().into_iter().flatten() {
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                remarks.push(SettingDiagnostic::new(name, "is not a setting of this engine; it is passed over"));
                continue;
            };
            if given.is_null() {
                continue;
            }
            if let Err(wanted) = settings.take(key, given) {
                let given = engine_kit::text::clip(&given.to_string(), 40);
                let message = format!("must be {wanted}, not {given}; the default is used");
                remarks.push(SettingDiagnostic::new(name, message));
            }
        }
        (settings, remarks)
    }

    /// Takes a value over, or says what it should have been.
    fn take(&mut self, key: &Key, given: &json::Value) -> Result<(), String> {
        match key.kind {
            Kind::Switch => {
                let on = given.as_bool().ok_or("true or false")?;
                match key.name {
                    "prune" => self.prune = on,
                    "keep_original_request" => self.keep_original_request = on,
                    "replay" => self.replay = on,
                    _ => self.as_original = on,
                }
            }
            Kind::Count(least, most) => {
                let number = given.as_u64().filter(|number| (least..=most).contains(number));
                let number = number.ok_or_else(|| format!("a whole number from {least} to {most}"))?;
                let count = usize::try_from(number).unwrap_or(usize::MAX);
                match key.name {
                    "prune_minimum_tokens" => self.prune_minimum_tokens = number,
                    "prune_protect_tokens" => self.prune_protect_tokens = number,
                    "prune_protect_turns" => self.prune_protect_turns = count,
                    "preserve_recent_tokens" => self.preserve_recent_tokens = number,
                    "tail_turns" => self.tail_turns = count,
                    "summary_tokens" => self.summary_tokens = number,
                    _ => self.result_chars = count,
                }
            }
            Kind::Names => {
                let names = given.as_array().filter(|list| list.len() <= NAMES_MAX);
                let names: Option<Vec<String>> =
                    names.and_then(|list| list.iter().map(|name| name.as_str().map(str::to_string)).collect());
                self.prune_exempt_tools = names.ok_or("a list of names of tools")?;
            }
            Kind::Headings => {
                self.headings = match given.as_str() {
                    Some("five") => Headings::Five,
                    Some("new") => Headings::New,
                    _ => return Err("five or new".to_string()),
                }
            }
            Kind::Text => {
                let text = given.as_str().filter(|text| text.len() <= PROMPT_BYTES_MAX);
                self.prompt = text.ok_or_else(|| format!("a text of at most {PROMPT_BYTES_MAX} bytes"))?.to_string();
            }
        }
        Ok(())
    }
}
