//! Small readers of JSON text: named members of an object as exact text, elements of an array, decoded strings.
//!
//! Everything borrows from the text, so what is not asked for costs nothing. Files written by JavaScript hold lone
//! surrogates (`\ud83d` where a string was cut inside an emoji), which serde_json refuses; they are read as U+FFFD.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Returns the exact text of the named members of an object; the last one where a key is repeated, none where it is null.
pub(crate) fn pick<'t, const N: usize>(
    text: &'t str,
    names: [&str; N],
) -> Result<[Option<&'t str>; N], serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let mut found = [None; N];
    Members { names: &names, found: &mut found }.deserialize(&mut parser)?;
    parser.end()?;
    Ok(found)
}

struct Members<'n, 'f, 't> {
    names: &'n [&'n str],
    found: &'f mut [Option<&'t str>],
}

impl<'t> DeserializeSeed<'t> for Members<'_, '_, 't> {
    type Value = ();
    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for Members<'_, '_, 't> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(index) = map.next_key_seed(KeyIndex(self.names))? {
            match index.and_then(|index| self.found.get_mut(index)) {
                Some(place) => {
                    let value: &'t RawValue = map.next_value()?;
                    *place = Some(value.get()).filter(|text| *text != "null");
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct KeyIndex<'n>(&'n [&'n str]);

impl<'t> DeserializeSeed<'t> for KeyIndex<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyIndex<'_> {
    type Value = Option<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}

/// Returns every member of an object as (key, exact text), in order.
pub(crate) fn members(text: &str) -> Option<Vec<(String, &str)>> {
    struct All;
    impl<'t> Visitor<'t> for All {
        type Value = Vec<(String, &'t str)>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(key) = map.next_key::<String>()? {
                let value: &'t RawValue = map.next_value()?;
                all.push((key, value.get()));
            }
            Ok(all)
        }
    }
    serde_json::Deserializer::from_str(text).deserialize_map(All).ok()
}

/// Returns the exact texts of an array's elements; nothing if it is no array.
pub(crate) fn elements(text: &str) -> Vec<&str> {
    if !text.starts_with('[') {
        return Vec::new();
    }
    serde_json::from_str::<Vec<&RawValue>>(text)
        .map(|all| all.into_iter().map(RawValue::get).collect())
        .unwrap_or_default()
}

/// Decodes a JSON string; nothing if the text is none.
pub(crate) fn string(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    match serde_json::from_str::<String>(text) {
        Ok(decoded) => Some(Cow::Owned(decoded)),
        Err(_) => serde_json::from_str::<String>(&mend_surrogates(text)).ok().map(Cow::Owned),
    }
}

/// Decodes a member that should be a string.
pub(crate) fn text(member: Option<&str>) -> Option<Cow<'_, str>> {
    member.and_then(string)
}

/// Reads a member that should be `true`.
pub(crate) fn is_true(member: Option<&str>) -> bool {
    member == Some("true")
}

/// Reads a member that should be a whole number that is not negative.
pub(crate) fn number(member: Option<&str>) -> Option<u64> {
    member.and_then(|text| text.parse().ok())
}

/// Reads any value, lone surrogates mended.
pub(crate) fn value(text: &str) -> Result<Value, serde_json::Error> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) => match mend_surrogates(text) {
            Cow::Owned(mended) => serde_json::from_str(&mended),
            Cow::Borrowed(_) => Err(error),
        },
    }
}

/// Writes a text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    // A string always serialises.
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}

/// Replaces escapes of lone surrogates by `\ufffd`; borrowed if there are none.
pub(crate) fn mend_surrogates(text: &str) -> Cow<'_, str> {
    fn unit(text: &str, at: usize) -> Option<u16> {
        let escape = text.get(at..at.checked_add(6)?)?;
        u16::from_str_radix(escape.strip_prefix("\\u")?, 16).ok()
    }
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while let Some(step) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += step;
        let Some(first) = unit(text, at) else {
            at += 2;
            continue;
        };
        let is_high = (0xd800..0xdc00).contains(&first);
        if is_high && unit(text, at + 6).is_some_and(|second| (0xdc00..0xe000).contains(&second)) {
            at += 12;
            continue;
        }
        if (0xd800..0xe000).contains(&first) {
            let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push_str("\\ufffd");
            copied = at + 6;
        }
        at += 6;
    }
    match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(text.get(copied..).unwrap_or_default());
            Cow::Owned(out)
        }
    }
}

/// Looks up a string member of a value.
pub(crate) fn get_str<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Text of a value that may be a string, a list of text parts, or anything else (then its JSON text).
pub(crate) fn loose_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) if parts.iter().all(|part| part.is_string() || get_str(part, "text").is_some()) => {
            let texts: Vec<&str> =
                parts.iter().filter_map(|part| part.as_str().or_else(|| get_str(part, "text"))).collect();
            texts.join("\n")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_members_are_exact_text_and_null_counts_as_absent() {
        let [a, b, c, d] =
            pick(r#"{"a": [1,  2], "x": {"a": 3}, "b":null, "c":"\u0041", "c":"z"}"#, ["a", "b", "c", "d"]).unwrap();
        assert_eq!((a, b, c, d), (Some("[1,  2]"), None, Some("\"z\""), None));
        assert!(pick("[1]", ["a"]).unwrap_err().is_data());
        assert!(pick("{\"a\":1} {", ["a"]).unwrap_err().is_syntax());
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_kept() {
        assert_eq!(string(r#""a\ud83d""#).as_deref(), Some("a\u{fffd}"));
        assert_eq!(string(r#""\ud83d\ude00 \ude00 \\ud83d""#).as_deref(), Some("\u{1f600} \u{fffd} \\ud83d"));
        assert_eq!(value(r#"{"a":"\ud83d"}"#).unwrap()["a"], "\u{fffd}");
        assert_eq!(string("12"), None);
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_overflow() {
        let deep = "[".repeat(100_000);
        assert!(value(&deep).is_err());
        assert!(pick(&format!("{{\"a\":{deep}"), ["a"]).is_err());
        assert!(elements(&deep).is_empty());
    }
}
