//! Says what a model API would refuse in a list of messages.
//!
//! It knows nothing of any engine and uses none of the crates under test: give it the messages that an engine produced
//! and it lists what a request made of them would be refused for. Errors are refusals; warnings are what first-party
//! APIs forgive and other hosts refuse (the same role twice, an id used again, an answer given twice).

mod anthropic;
mod openai;
mod responses;
#[cfg(test)]
mod tests;

use serde_json::Value;
use std::fmt;

/// The dialect that a list is judged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Chat Completions: system, developer, user, assistant, tool, and the legacy role function.
    OpenAi,
    /// Messages API: user and assistant with content blocks.
    Anthropic,
    /// Responses API: input items.
    Responses,
}

impl Dialect {
    /// All three, for tests that go through them.
    pub const ALL: [Dialect; 3] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Responses];

    /// Returns the dialect's short name.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Responses => "responses",
        }
    }
}

/// Whether a finding is a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Some hosts refuse it, the first-party API does not.
    Warn,
    /// The request is refused.
    Error,
}

/// One thing that is wrong with a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the request is refused for it.
    pub severity: Severity,
    /// Position of the message; none where the whole list is meant.
    pub index: Option<usize>,
    /// A short, stable name of the rule.
    pub code: &'static str,
    /// What was seen, for people.
    pub detail: String,
}

impl Finding {
    /// Tells whether the request is refused for it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.is_error() { "error" } else { "warn" };
        match self.index {
            Some(index) => write!(f, "message {index}: {severity}: {}", self.code)?,
            None => write!(f, "list: {severity}: {}", self.code)?,
        }
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

/// Lists what is wrong with `messages`; `system` is the system prompt beside them, which only Anthropic's dialect has.
pub fn check(messages: &[Value], dialect: Dialect, system: Option<&Value>) -> Vec<Finding> {
    let mut report = Report::default();
    if messages.is_empty() {
        report.list_error("no_messages", String::new());
        return report.findings;
    }
    match dialect {
        Dialect::OpenAi => openai::check(messages, &mut report),
        Dialect::Anthropic => anthropic::check(messages, system, &mut report),
        Dialect::Responses => responses::check(messages, &mut report),
    }
    report.findings
}

/// Lists the errors of a list of raw JSON messages; a message that is not JSON is an error `not_json`.
///
/// # Examples
/// `assert_eq!(judge::errors(&raw, Dialect::OpenAi), [], "seed {seed}")`
pub fn errors<S: AsRef<str>>(raw: &[S], dialect: Dialect) -> Vec<Finding> {
    let mut report = Report::default();
    let mut messages = Vec::with_capacity(raw.len());
    for (index, text) in raw.iter().enumerate() {
        match read(text.as_ref()) {
            Ok(message) => messages.push(message),
            Err(error) => report.error(index, "not_json", error.to_string()),
        }
    }
    if report.findings.is_empty() {
        report.findings = check(&messages, dialect, None);
    }
    report.findings.retain(Finding::is_error);
    report.findings
}

/// First of the characters that stand for halves of surrogate pairs: U+D800 reads as U+F0000, and so on.
const LONE_SURROGATES: u32 = 0xF_0000;

/// Reads JSON as APIs do, which let `"\ud83d"` without its other half pass.
///
/// `serde_json` refuses such text, as no Rust string can hold it. Each half becomes a private character of its own, so
/// that texts which differ still differ.
pub fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match replace_lone_surrogates(text) {
        Some(changed) => serde_json::from_str(&changed),
        None => Err(error),
    })
}

/// Replaces `\uD800`-like escapes without their other half; none where there are none.
fn replace_lone_surrogates(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let start = at + found;
        // A backslash only stands inside strings, where it is followed by one character or by `u` and four digits.
        at = start + 1 + text[start + 1..].chars().next().map_or(0, char::len_utf8);
        let Some(code) = unit_at(text, start) else { continue };
        at = start + 6;
        match code {
            0xD800..=0xDBFF if matches!(unit_at(text, at), Some(0xDC00..=0xDFFF)) => at += 6,
            0xD800..=0xDFFF => {
                out.push_str(&text[copied..start]);
                out.extend(char::from_u32(LONE_SURROGATES + u32::from(code - 0xD800)));
                copied = at;
            }
            _ => {}
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

/// Reads the UTF-16 unit that a `\uXXXX` escape at `start` writes.
fn unit_at(text: &str, start: usize) -> Option<u16> {
    let digits = text.get(start..start + 6)?.strip_prefix("\\u")?;
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
}

impl Report {
    fn error(&mut self, index: usize, code: &'static str, detail: impl Into<String>) {
        self.push(Severity::Error, Some(index), code, detail.into());
    }
    fn warn(&mut self, index: usize, code: &'static str, detail: impl Into<String>) {
        self.push(Severity::Warn, Some(index), code, detail.into());
    }
    fn list_error(&mut self, code: &'static str, detail: impl Into<String>) {
        self.push(Severity::Error, None, code, detail.into());
    }
    fn push(&mut self, severity: Severity, index: Option<usize>, code: &'static str, detail: String) {
        self.findings.push(Finding { severity, index, code, detail });
    }
}

/// Longest quote of an id or a name in a finding, in characters.
const QUOTE_CHARS: usize = 60;

/// Quotes a text, cut to a length that fits a line.
fn short(text: &str) -> String {
    if text.chars().nth(QUOTE_CHARS).is_none() {
        return text.to_owned();
    }
    text.chars().take(QUOTE_CHARS - 1).chain(['…']).collect()
}

/// Quotes a value: a string as it is, anything else as JSON.
fn short_value(value: Option<&Value>) -> String {
    match value {
        None => "null".to_owned(),
        Some(Value::String(text)) => short(text),
        Some(other) => short(&other.to_string()),
    }
}

/// Names a value's JSON type.
fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None | Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    }
}

/// Tells whether a field says anything: absent, null, false, zero and empty values do not.
fn is_set(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
    }
}

/// Returns a field's text where it is a string that is not empty.
fn text_of(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Tells whether a character is white space to the APIs, which also strip the four ASCII separators.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Tells whether a name consists of letters, digits and the given signs, at least one and at most `chars_max` of them.
fn is_plain_name(text: &str, signs: &str, chars_max: usize) -> bool {
    !text.is_empty() && text.len() <= chars_max && text.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c))
}
