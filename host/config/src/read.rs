//! Reads one value as the setting it stands for, leniently where the meaning is clear.

use crate::diagnostic::excerpt;
use crate::keys::{Kind, OutOfRange};
use serde_json::{Map, Value};

/// What a written value comes to.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Read as meant.
    Good(Value),
    /// Read as meant, with a remark.
    Noted(Value, String),
    /// Not usable; the number nearest to it within the range, where the key wants that, else the default.
    Bad { found: String, nearest: Option<Value>, hint: Option<String> },
}

/// Longest name of an engine; it becomes the name of a folder.
const NAME_CHARS_MAX: usize = 64;

impl Kind {
    /// Says what the setting accepts, to follow "expected".
    pub(crate) fn expected(self) -> String {
        match self {
            Kind::Bool => "true or false".to_owned(),
            Kind::Fraction { min, max, .. } => format!("a number from {min} to {max}"),
            Kind::Integer { min, max, .. } => format!("a whole number from {min} to {max}"),
            Kind::OptionalInteger { min, max } => format!("a whole number from {min} to {max}, or null"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Name => "a name of letters, digits, \"-\", \"_\" and \".\"".to_owned(),
            Kind::Text => "a text".to_owned(),
            Kind::Secret => "a text, best ${NAME}".to_owned(),
            Kind::TextList => "a list of names".to_owned(),
            Kind::FractionMap { min, max } => format!("a mapping from model names to numbers from {min} to {max}"),
            Kind::Object => "a mapping".to_owned(),
            Kind::ObjectList => "a list of mappings".to_owned(),
        }
    }

    /// Reads a value; `FractionMap` is read entry by entry by the caller.
    pub(crate) fn read(self, value: &Value) -> Outcome {
        match self {
            Kind::Bool => boolean(value),
            Kind::Fraction { min, max, out_of_range } => fraction(value, min, max, out_of_range),
            Kind::Integer { min, max, out_of_range } => integer(value, min, max, out_of_range),
            Kind::OptionalInteger { min, max } => match value {
                Value::Null => Outcome::Good(Value::Null),
                Value::String(text) if is_none_word(text) => Outcome::Good(Value::Null),
                _ => integer(value, min, max, OutOfRange::UseDefault),
            },
            Kind::Choice(words) => choice(value, words),
            Kind::Name => name(value),
            Kind::Text => text(value),
            Kind::Secret => match value {
                Value::Null => Outcome::Good(Value::from("")),
                Value::String(_) => Outcome::Good(value.clone()),
                Value::Bool(_) | Value::Number(_) => text(value),
                // The value is not shown: it may be a credential in the wrong shape.
                Value::Array(_) | Value::Object(_) => bad_type(value),
            },
            Kind::TextList => text_list(value),
            Kind::FractionMap { .. } | Kind::Object => match value {
                Value::Null => Outcome::Good(Value::Object(Map::new())),
                Value::Object(_) => Outcome::Good(value.clone()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => bad_type(value),
            },
            Kind::ObjectList => match value {
                Value::Null => Outcome::Good(Value::Array(Vec::new())),
                Value::Array(items) if items.iter().all(Value::is_object) => Outcome::Good(value.clone()),
                Value::Object(_) => Outcome::Good(Value::Array(vec![value.clone()])),
                Value::Array(_) => bad("a list with something else in it".to_owned()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => bad_type(value),
            },
        }
    }
}

/// Names the type of a value without showing it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Shows a value as it stands in the file, as far as it is short.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => type_name(value).to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => excerpt(text),
    }
}

fn bad(found: String) -> Outcome {
    Outcome::Bad { found, nearest: None, hint: None }
}

fn bad_type(value: &Value) -> Outcome {
    bad(type_name(value).to_owned())
}

fn bad_value(value: &Value) -> Outcome {
    bad(show(value))
}

fn hinted(value: &Value, hint: String) -> Outcome {
    Outcome::Bad { found: show(value), nearest: None, hint: Some(hint) }
}

fn is_none_word(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "" | "null" | "none" | "~" | "auto")
}

/// Reads the booleans of YAML 1.1, which Hermes accepts too.
pub(crate) fn boolean_word(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" | "1" => Some(true),
        "false" | "no" | "off" | "n" | "0" => Some(false),
        _ => None,
    }
}

fn boolean(value: &Value) -> Outcome {
    let flag = match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => boolean_word(text),
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => Some(true),
            Some(0.0) => Some(false),
            _ => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    flag.map_or_else(|| bad_value(value), |flag| Outcome::Good(Value::Bool(flag)))
}

fn fraction(value: &Value, min: f64, max: f64, out_of_range: OutOfRange) -> Outcome {
    let (number, is_percent) = match value {
        Value::Number(number) => (number.as_f64(), false),
        Value::String(text) => match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim().parse::<f64>().ok().map(|n| n / 100.0), true),
            None => (text.trim().parse::<f64>().ok(), false),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => (None, false),
    };
    // Text like "inf" parses as a number that no range holds.
    let Some(number) = number.filter(|n| n.is_finite()) else { return bad_value(value) };
    if (min..=max).contains(&number) {
        let read = Value::from(number);
        return if is_percent {
            Outcome::Noted(read.clone(), format!("{} is read as {read}", show(value)))
        } else {
            Outcome::Good(read)
        };
    }
    if out_of_range == OutOfRange::UseNearest {
        return Outcome::Bad { found: show(value), nearest: Some(Value::from(number.clamp(min, max))), hint: None };
    }
    // 60 is likelier a percentage than a fraction, but 1.5 could be anything.
    let share = number / 100.0;
    if !is_percent && number > 1.0 && (min..=max).contains(&share) && number >= 5.0 {
        return hinted(value, format!("for {number} percent write {share}"));
    }
    bad_value(value)
}

fn integer(value: &Value, min: u64, max: u64, out_of_range: OutOfRange) -> Outcome {
    let number = match value {
        Value::Number(number) => {
            number.as_i64().map(i128::from).or(number.as_u64().map(i128::from)).or_else(|| whole(number.as_f64()?))
        }
        Value::String(text) => {
            let digits = text.trim().replace('_', "");
            digits.parse::<i128>().ok().or_else(|| whole(digits.parse::<f64>().ok()?))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let Some(number) = number else {
        return match value {
            Value::String(text) => match with_suffix(text) {
                Some(plain) => hinted(value, format!("write the plain number {plain}")),
                None => bad_value(value),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => bad_value(value),
        };
    };
    let (low, high) = (i128::from(min), i128::from(max));
    let nearest = u64::try_from(number.clamp(low, high)).map(Value::from).ok();
    if (low..=high).contains(&number) {
        return nearest.map_or_else(|| bad_value(value), Outcome::Good);
    }
    Outcome::Bad { found: show(value), nearest: nearest.filter(|_| out_of_range == OutOfRange::UseNearest), hint: None }
}

fn whole(number: f64) -> Option<i128> {
    // Beyond this, floats skip whole numbers, so the written one is not known.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i128)
}

/// Reads "256K" and "1M" for the hint only: whether K is 1,000 or 1,024 is not said.
fn with_suffix(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits =
        text.strip_suffix(['k', 'K']).map(|d| (d, 1_000)).or(text.strip_suffix(['m', 'M']).map(|d| (d, 1_000_000)));
    let (digits, unit) = digits?;
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

fn choice(value: &Value, words: &[&str]) -> Outcome {
    let written = match value {
        Value::String(text) => text.trim().to_ascii_lowercase(),
        // YAML 1.1 readers make a boolean of the unquoted word; the word is what was meant.
        Value::Bool(false) if words.contains(&"off") => {
            return Outcome::Noted(Value::from("off"), "false is read as \"off\"".to_owned());
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            return bad_value(value);
        }
    };
    match words.iter().find(|word| **word == written) {
        Some(word) => Outcome::Good(Value::from(*word)),
        None => bad_value(value),
    }
}

fn name(value: &Value) -> Outcome {
    match value {
        // Hermes reads an empty name as the built-in engine.
        Value::Null => Outcome::Good(Value::from(crate::keys::BUILT_IN_ENGINE)),
        Value::String(text) if text.trim().is_empty() => Outcome::Good(Value::from(crate::keys::BUILT_IN_ENGINE)),
        Value::String(text) => {
            let text = text.trim();
            // The name becomes a folder name, so it must not lead out of the plugins folder.
            let is_safe = text.chars().count() <= NAME_CHARS_MAX
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
                && !text.starts_with('.')
                && !text.contains("..");
            if is_safe { Outcome::Good(Value::from(text)) } else { bad_value(value) }
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => bad_value(value),
    }
}

fn text(value: &Value) -> Outcome {
    match value {
        Value::Null => Outcome::Good(Value::from("")),
        Value::String(_) => Outcome::Good(value.clone()),
        // A model may be called 4 or a key consist of digits.
        Value::Bool(_) | Value::Number(_) => Outcome::Good(Value::from(value.to_string())),
        Value::Array(_) | Value::Object(_) => bad_type(value),
    }
}

fn text_list(value: &Value) -> Outcome {
    let texts: Option<Vec<Value>> = match value {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(list_text).collect(),
        _ => list_text(value).map(|text| vec![text]),
    };
    match texts {
        Some(texts) => Outcome::Good(Value::Array(texts)),
        None if value.is_array() => bad("a list with something else in it".to_owned()),
        None => bad_type(value),
    }
}

fn list_text(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => Some(Value::from(text.trim())),
        Value::Number(number) => Some(Value::from(number.to_string())),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
