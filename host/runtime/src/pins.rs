//! What must stay word for word: rules of the user's by message, pattern, role, tool or file, and rules files.

use crate::live::{LiveSession, RuntimeError};
use engine_api::{Flags, Message, MessageId, Role};
use host_core::rules::RulesFile;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use std::io::Read as _;

/// Bytes of a pattern at most.
const PATTERN_BYTES_MAX: usize = 1_024;
/// Memory of a compiled pattern at most.
const PATTERN_MEMORY_MAX: usize = 1 << 20;

/// Bytes of a rules file at most.
const RULES_BYTES_MAX: u64 = 256 * 1024;

/// What a pin says; a message must fit every member that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PinRule {
    /// This message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Messages in whose text this regular expression is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Messages of this role; `user` are those that a person wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Calls and results of this tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Messages that speak of a file whose path fits: `*` for anything but `/`, `**` for anything, `?` for one letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl std::fmt::Display for PinRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            self.message.map(|id| format!("message {}", id.0)),
            self.regex.as_ref().map(|regex| format!("text that fits {regex}")),
            self.role.map(|role| format!("role {role}")),
            self.tool.as_ref().map(|tool| format!("tool {tool}")),
            self.file.as_ref().map(|file| format!("file {file}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// A pin, ready to be held against messages.
#[derive(Debug, Clone)]
pub(crate) struct Pin {
    rule: PinRule,
    regex: Option<Regex>,
    file: Option<Regex>,
}

impl PinRule {
    /// Checks the rule.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        Pin::of(self.clone()).map(|_| ())
    }
}

impl Pin {
    pub(crate) fn of(rule: PinRule) -> Result<Pin, String> {
        if rule == PinRule::default() {
            return Err("a pin names a message, a pattern, a role, a tool or a file".to_owned());
        }
        let build = |pattern: &str| {
            if pattern.len() > PATTERN_BYTES_MAX {
                return Err(format!("the pattern has {} bytes, at most {PATTERN_BYTES_MAX} are taken", pattern.len()));
            }
            let built = RegexBuilder::new(pattern).size_limit(PATTERN_MEMORY_MAX).multi_line(true).build();
            built.map_err(|error| {
                format!(
                    "the regular expression is not usable: {}",
                    error.to_string().lines().last().unwrap_or_default().trim()
                )
            })
        };
        let regex = rule.regex.as_deref().map(build).transpose()?;
        let file = rule.file.as_deref().map(|glob| build(&pattern_of(glob))).transpose()?;
        Ok(Pin { rule, regex, file })
    }

    pub(crate) fn fits(&self, message: &Message) -> bool {
        let rule = &self.rule;
        let any = |fits: &dyn Fn(&str) -> bool| message.parts.iter().any(|part| fits(&part.text));
        if message.flags.has(Flags::SYNTHETIC) {
            return false;
        }
        rule.message.is_none_or(|id| id == message.id)
            && rule.role.is_none_or(|role| match role {
                Role::User => message.is_real_user(),
                role => message.role == role,
            })
            && rule.tool.as_ref().is_none_or(|tool| message.parts.iter().any(|part| part.tool_name == *tool))
            && self.regex.as_ref().is_none_or(|regex| any(&|text| regex.is_match(text)))
            && self.file.as_ref().is_none_or(|file| any(&|text| file.is_match(text)))
    }
}

/// Turns a file glob into a pattern that finds such a path within a text.
fn pattern_of(glob: &str) -> String {
    let mut out = String::from(r#"(?:^|[\s"'`(=,:\[{/])"#);
    let mut rest = glob;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/") {
            out.push_str(r#"(?:[^\s"'`]*/)?"#);
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix("**") {
            out.push_str(r#"[^\s"'`]*"#);
            rest = after;
            continue;
        }
        match first {
            '*' => out.push_str(r#"[^\s"'`/]*"#),
            '?' => out.push_str(r#"[^\s"'`/]"#),
            other => out.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    out.push_str(r#"(?:$|[\s"'`):,;\]}]|\.(?:\s|$))"#);
    out
}

impl LiveSession {
    /// Reads the rules files of the settings; a relative path is below the working folder. One that cannot be read is
    /// passed over with a warning.
    pub(crate) fn read_rules_files(&mut self) {
        for name in self.config.pins.files.clone() {
            let read = std::fs::File::open(&name).and_then(|file| {
                let mut text = String::new();
                file.take(RULES_BYTES_MAX + 1).read_to_string(&mut text)?;
                Ok(text)
            });
            match read {
                Ok(text) if text.len() as u64 > RULES_BYTES_MAX => {
                    self.warn(format!("rules file {name} has more than {RULES_BYTES_MAX} bytes and is passed over"));
                }
                Ok(text) => self.session.rules.push(RulesFile { name, text }),
                Err(error) => self.warn(format!("rules file {name} is passed over: {error}")),
            }
        }
    }

    /// Reads the pins of the settings and of the store, and holds the context to them.
    pub(crate) fn read_pins(&mut self) -> Result<(), RuntimeError> {
        let mut rules = Vec::new();
        for rule in &self.config.pins.rules {
            match serde_json::from_value::<PinRule>(rule.clone()) {
                Ok(rule) => rules.push(rule),
                Err(error) => self.warn(format!("a pin of the settings is passed over: {error}")),
            }
        }
        if let Some(stored) = &self.stored {
            for row in stored.store.pins(stored.key)? {
                match serde_json::from_str::<PinRule>(&row.rule) {
                    Ok(rule) => rules.push(rule),
                    Err(error) => self.warn(format!("pin {} is passed over: {error}", row.pin)),
                }
            }
        }
        self.pins.clear();
        for rule in rules {
            match Pin::of(rule) {
                Ok(pin) => self.pins.push(pin),
                Err(why) => self.warn(format!("a pin is passed over: {why}")),
            }
        }
        self.pin_by_rules();
        Ok(())
    }

    fn warn(&self, line: String) {
        crate::services::lock(&self.log).push(format!("warn: {line}"));
    }

    /// Pins what is in the context and fits a pin.
    pub(crate) fn pin_by_rules(&mut self) {
        let fitting: Vec<MessageId> = self
            .session
            .view
            .iter()
            .filter(|message| !message.flags.has(Flags::PINNED) && self.pins.iter().any(|pin| pin.fits(message)))
            .map(|message| message.id)
            .collect();
        for id in fitting {
            self.session.pin(id);
        }
    }

    /// Pins the newest message if it fits a pin.
    pub(crate) fn pin_newest(&mut self) {
        let newest = self.session.view.last().filter(|message| self.pins.iter().any(|pin| pin.fits(message)));
        if let Some(id) = newest.map(|message| message.id) {
            self.session.pin(id);
        }
    }

    /// Pins a message of the context: no engine can take it away. Returns whether the context has it.
    pub fn pin(&mut self, id: MessageId) -> bool {
        self.session.pin(id)
    }

    /// Sets a pin that is kept with the session, and returns its number; 0 in a session that is in no store.
    ///
    /// # Errors
    /// [`RuntimeError::Write`] for a rule that is not usable, [`RuntimeError::Store`] if the store fails.
    pub fn set_pin(&mut self, rule: PinRule) -> Result<u64, RuntimeError> {
        let pin = Pin::of(rule.clone()).map_err(RuntimeError::Write)?;
        let mut number = 0;
        if let Some(stored) = &self.stored {
            let text = serde_json::to_string(&rule).map_err(|error| RuntimeError::Write(error.to_string()))?;
            number = stored.store.put_pin(stored.key, text)?;
        }
        self.pins.push(pin);
        self.pin_by_rules();
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::{Part, PartKind};

    fn message(role: Role, text: &str) -> Message {
        let mut message = Message::new(role, "{}", vec![Part::new(PartKind::Text, text)]);
        if role == Role::User {
            message.flags = Flags::REAL_USER;
        }
        message
    }

    #[test]
    fn a_pin_fits_what_it_says() {
        let fits = |rule: &str, message: &Message| Pin::of(serde_json::from_str(rule).unwrap()).unwrap().fits(message);
        let user = message(Role::User, "never push to main; see src/store/mod.rs, please");
        assert!(fits(r#"{"role":"user"}"#, &user) && !fits(r#"{"role":"assistant"}"#, &user));
        assert!(fits(r#"{"regex":"never (push|merge)"}"#, &user) && !fits(r#"{"regex":"always"}"#, &user));
        for (glob, expected) in [
            ("src/store/mod.rs", true),
            ("src/**/*.rs", true),
            ("**/mod.rs", true),
            ("*.rs", true),
            ("src/*.rs", false),
            ("store/mod", false),
            ("src/store/mod.r?", true),
            ("tests/**", false),
        ] {
            let rule = serde_json::json!({ "file": glob }).to_string();
            assert_eq!(fits(&rule, &user), expected, "{glob}");
        }
        let mut result = Message::new(Role::Tool, "{}", vec![Part::result("c", "out")]);
        result.parts[0].tool_name = "bash".into();
        assert!(fits(r#"{"tool":"bash"}"#, &result) && !fits(r#"{"tool":"read"}"#, &result));
        assert!(!fits(r#"{"tool":"bash","role":"user"}"#, &result));
    }

    #[test]
    fn a_pin_that_says_nothing_or_cannot_be_read_is_refused() {
        for rule in ["{}", r#"{"regex":"("}"#, r#"{"regex":"(?:a{1000}){1000}"}"#] {
            assert!(serde_json::from_str::<PinRule>(rule).unwrap().check().is_err(), "{rule}");
        }
        assert!(serde_json::from_str::<PinRule>(r#"{"message":1,"colour":"red"}"#).is_err());
    }
}
