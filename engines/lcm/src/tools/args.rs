//! Reads arguments under the names of both dialects.

use engine_api::json::Value;

/// A text of arguments has at most so many characters.
pub(super) const TEXT_CHARS_MAX: usize = 20_000;

/// Parameters that only lossless-claw has.
const OPENCLAW: [&str; 18] = [
    "pattern",
    "scope",
    "since",
    "before",
    "allConversations",
    "conversationId",
    "summaryIds",
    "id",
    "tokenCap",
    "maxTokens",
    "includeMessages",
    "maxDepth",
    "expandFile",
    "expandFileMaxBytes",
    "startLine",
    "endLine",
    "fileIds",
    "timeoutMs",
];

/// Tells whether a call speaks lossless-claw's dialect.
pub(super) fn is_openclaw(arguments: &Value) -> bool {
    arguments.as_object().is_some_and(|members| members.keys().any(|key| OPENCLAW.contains(&key.as_str())))
}

/// Returns the first of these members that is there and not null, with its name.
pub(super) fn first<'a>(arguments: &'a Value, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
    names.iter().find_map(|name| {
        let value = arguments.get(*name).filter(|value| !value.is_null())?;
        Some((*name, value))
    })
}

/// Returns a text, trimmed; empty where there is none.
pub(super) fn text<'a>(arguments: &'a Value, names: &[&'static str]) -> Result<&'a str, String> {
    let Some((name, value)) = first(arguments, names) else { return Ok("") };
    let text = value.as_str().ok_or_else(|| format!("{name} must be a string"))?.trim();
    if text.chars().nth(TEXT_CHARS_MAX).is_some() {
        return Err(format!("{name} must have at most {TEXT_CHARS_MAX} characters"));
    }
    Ok(text)
}

/// One of several words.
pub(super) fn word(
    arguments: &Value,
    names: &[&'static str],
    allowed: &'static [&'static str],
) -> Result<Option<&'static str>, String> {
    let Some((name, value)) = first(arguments, names) else { return Ok(None) };
    let found = value.as_str().and_then(|word| allowed.iter().find(|allowed| allowed.eq_ignore_ascii_case(word)));
    found.copied().map(Some).ok_or_else(|| format!("{name} must be one of: {}", allowed.join(", ")))
}

/// True or false.
pub(super) fn is_set(arguments: &Value, names: &[&'static str], default: bool) -> Result<bool, String> {
    let Some((name, value)) = first(arguments, names) else { return Ok(default) };
    match (value.as_bool(), value.as_str()) {
        (Some(is_set), _) => Ok(is_set),
        (None, Some("true")) => Ok(true),
        (None, Some("false")) => Ok(false),
        _ => Err(format!("{name} must be true or false")),
    }
}

/// A number that was lowered to its limit says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: u64,
    pub(super) clamped_from: Option<u64>,
}

/// A positive whole number up to a limit; as a number or as digits.
pub(super) fn positive(arguments: &Value, names: &[&'static str], default: u64, most: u64) -> Result<Number, String> {
    let number = whole(arguments, names, default)?;
    if number == 0 {
        let name = first(arguments, names).map_or("the number", |(name, _)| name);
        return Err(format!("{name} must be a positive integer"));
    }
    Ok(Number { value: number.min(most), clamped_from: (number > most).then_some(number) })
}

/// A whole number from 0 on.
pub(super) fn whole(arguments: &Value, names: &[&'static str], default: u64) -> Result<u64, String> {
    let Some((name, value)) = first(arguments, names) else { return Ok(default) };
    let float = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0 && *number < 9e15);
    let number = value
        .as_u64()
        .or_else(|| float.map(|number| number as u64))
        .or_else(|| value.as_str().and_then(|digits| digits.trim().parse().ok()));
    number.ok_or_else(|| {
        let kind = if name == "limit" { "a positive integer" } else { "an integer from 0 on" };
        format!("{name} must be {kind}")
    })
}

/// Where to look: one session, or all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scope {
    /// Empty for the session of the call.
    pub(super) session: String,
    pub(super) is_all: bool,
}

impl Scope {
    pub(super) fn read(arguments: &Value) -> Result<Scope, String> {
        const SCOPES: [&str; 3] = ["current", "all", "session"];
        let word = word(arguments, &["session_scope", "sessionScope"], &SCOPES)?;
        let named = match first(arguments, &["session_id", "conversationId", "conversation_id", "sessionId"]) {
            None => String::new(),
            Some((_, Value::String(id))) => id.trim().to_string(),
            Some((_, Value::Number(id))) => id.to_string(),
            Some((name, _)) => return Err(format!("{name} must be a string")),
        };
        let is_all = is_set(arguments, &["allConversations", "all_conversations"], false)?;
        match word {
            Some("session") if named.is_empty() => Err("session_scope=session requires session_id".to_string()),
            Some("current" | "all") if !named.is_empty() => {
                Err("session_id is only valid with session_scope=session".to_string())
            }
            Some("all") => Ok(Scope { session: String::new(), is_all: true }),
            _ if is_all => Ok(Scope { session: String::new(), is_all: true }),
            _ => Ok(Scope { session: named, is_all: false }),
        }
    }
    pub(super) fn as_word(&self) -> &'static str {
        match (self.is_all, self.session.is_empty()) {
            (true, _) => "all",
            (_, false) => "session",
            _ => "current",
        }
    }
}

/// Puts a member into an object.
pub(super) fn add(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_string(), value.into());
    }
}

/// Says that a number was lowered.
pub(super) fn add_clamped(object: &mut Value, key: &str, number: Number) {
    if let Some(asked_for) = number.clamped_from {
        add(object, &format!("{key}_clamped_from"), asked_for);
    }
}
