//! Keeps credentials out of every text this crate writes, and expands `${NAME}` where a value is used.
//!
//! Masking lives in the types: whoever prints, debugs or serialises a configuration gets `***` without thinking of it.

use crate::ConfigError;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// What is shown in place of a credential.
pub const MASK: &str = "***";

/// Parts of a key name that mark its value as a credential in settings whose keys are not ours
/// (`engines.<name>`, `extra_body`, `fallback_chain`).
const SECRET_NAME_PARTS: [&str; 7] =
    ["api_key", "apikey", "secret", "password", "authorization", "access_token", "auth_token"];

/// How deep masking looks into free-form settings; deeper values are masked whole.
const MASK_DEPTH_MAX: usize = 128;

/// A credential, or the name of the environment variable that holds it.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential as it was written, `${NAME}` or literal.
    pub fn new(written: impl Into<String>) -> Self {
        Self(written.into())
    }

    /// Tells whether nothing is configured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether the credential itself was written, not a reference to the environment.
    pub fn is_literal(&self) -> bool {
        !self.0.is_empty() && !self.0.contains("${")
    }

    /// Returns the credential with `${NAME}` taken from `env`; `None` when nothing is configured.
    pub fn reveal(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, ConfigError> {
        if self.0.is_empty() { Ok(None) } else { expand(&self.0, env).map(Some) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "" } else { MASK })
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.0.is_empty() { "" } else { MASK })
    }
}

/// Replaces `${NAME}` by the value of the variable; `$${` stands for a literal `${`.
///
/// A variable that is not set is an error: a request sent with an empty key fails later and says less.
pub fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, ConfigError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        if let Some(escaped) = before.strip_suffix('$') {
            out.push_str(escaped);
            out.push_str("${");
            rest = after.strip_prefix("${").unwrap_or_default();
            continue;
        }
        out.push_str(before);
        let inner = after.strip_prefix("${").unwrap_or_default();
        let named = inner.split_once('}').filter(|(name, _)| is_variable_name(name));
        let Some((name, tail)) = named else {
            // Not a reference (`${}`, `${a b}`, never closed): the text stands as written.
            out.push_str("${");
            rest = inner;
            continue;
        };
        let Some(value) = env(name) else { return Err(ConfigError::MissingVariable { name: name.to_owned() }) };
        out.push_str(&value);
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Tells whether a key of free-form settings names a credential.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    name == "token" || SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

/// Returns free-form settings with the values of credential-like keys masked; `${NAME}` references stay readable.
pub fn masked(value: &Value) -> Value {
    mask_at(value, 0)
}

fn mask_at(value: &Value, depth: usize) -> Value {
    if depth > MASK_DEPTH_MAX {
        return Value::from(MASK);
    }
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, item)| {
                    let hidden = is_secret_name(key) && !is_reference(item);
                    (key.clone(), if hidden { Value::from(MASK) } else { mask_at(item, depth + 1) })
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(|item| mask_at(item, depth + 1)).collect()),
        Value::String(text) => Value::from(masked_text(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Masks what a plain text may give away: the user and the query of an address, and a key put in the wrong place.
pub(crate) fn masked_text(text: &str) -> String {
    if text.starts_with("sk-") {
        return MASK.to_owned();
    }
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let host = host.rsplit_once('@').map_or_else(|| host.to_owned(), |(_, host)| format!("{MASK}@{host}"));
    let query = query.map(|_| format!("?{MASK}")).unwrap_or_default();
    format!("{scheme}://{host}{path}{query}")
}

fn is_reference(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => {
            text.is_empty()
                || text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(is_variable_name)
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

pub(crate) fn serialize_masked_map<S: Serializer>(
    map: &serde_json::Map<String, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    masked(&Value::Object(map.clone())).serialize(serializer)
}

pub(crate) fn serialize_masked_list<S: Serializer>(items: &[Value], serializer: S) -> Result<S::Ok, S::Error> {
    masked(&Value::Array(items.to_vec())).serialize(serializer)
}

pub(crate) fn serialize_masked_engines<S: Serializer>(
    engines: &BTreeMap<String, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(engines.iter().map(|(name, settings)| (name, masked(settings))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn env(name: &str) -> Option<String> {
        (name == "KEY").then(|| "sk-live-1".to_owned())
    }

    #[test]
    fn a_reference_is_expanded_only_when_revealed() {
        let secret = Secret::new("${KEY}");
        assert!(!secret.is_literal());
        assert_eq!(secret.reveal(&env).unwrap().as_deref(), Some("sk-live-1"));
        assert_eq!(format!("{secret} {secret:?}"), "*** \"***\"");
        assert_eq!(Secret::default().reveal(&env).unwrap(), None);
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = expand("Bearer ${NOPE}", &env).unwrap_err();
        assert!(error.to_string().contains("NOPE"), "{error}");
    }

    #[test]
    fn text_that_is_no_reference_stands() {
        for text in ["", "$", "${", "${}", "${a b}", "$KEY", "{KEY}", "${1A}", "ü${"] {
            assert_eq!(expand(text, &env).unwrap(), text);
        }
        assert_eq!(expand("a${KEY}b$${KEY}c", &env).unwrap(), "ask-live-1b${KEY}c");
    }

    #[test]
    fn credentials_in_free_settings_are_masked() {
        let value =
            json!({"url": "u", "api_key": "sk", "n": [{"X-Api-Key": "k", "client_secret": 7}], "token": "${T}"});
        let shown = masked(&value).to_string();
        assert!(!shown.contains("sk") && !shown.contains("\"k\"") && !shown.contains('7'), "{shown}");
        assert!(shown.contains("${T}"), "{shown}");
    }
}
