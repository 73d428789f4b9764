//! How many characters Python's `str` and `json.dumps` give for a JSON value, without making the text.

use serde_json::{Number, Value};

/// Characters of `str(value)` in Python, where the value is what Python's JSON reader makes of it.
///
/// Recursion is as deep as the value, which the JSON reader bounds at 128 levels.
pub(super) fn chars(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number_chars(number),
        Value::String(text) => string_chars(text),
        Value::Array(items) => {
            let mut list = List::default();
            items.iter().for_each(|item| list.add(chars(item)));
            list.chars()
        }
        Value::Object(fields) => {
            let mut object = Object::default();
            fields.iter().for_each(|(key, value)| object.add(key, chars(value)));
            object.chars()
        }
    }
}

/// Characters of `json.dumps(value, ensure_ascii=False)`: a blank follows every comma and every colon.
pub(super) fn spaced_json_chars(value: &Value) -> u64 {
    match value {
        Value::Array(items) => {
            let mut list = List::default();
            items.iter().for_each(|item| list.add(spaced_json_chars(item)));
            list.chars()
        }
        Value::Object(fields) => {
            let mut list = List::default();
            fields.iter().for_each(|(key, value)| list.add(json_string_chars(key) + 2 + spaced_json_chars(value)));
            list.chars()
        }
        Value::String(text) => json_string_chars(text),
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number_chars(number),
    }
}

/// Tells whether Python takes a value for false.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The length of a printed list: brackets, and a comma and a blank between items.
#[derive(Default)]
pub(super) struct List {
    items: u64,
    inner: u64,
}

impl List {
    pub(super) fn add(&mut self, item_chars: u64) {
        self.items += 1;
        self.inner += item_chars;
    }
    pub(super) fn chars(&self) -> u64 {
        2 + self.inner + 2 * self.items.saturating_sub(1)
    }
}

/// The length of a printed dictionary.
#[derive(Default)]
pub(super) struct Object(List);

impl Object {
    pub(super) fn add(&mut self, key: &str, value_chars: u64) {
        self.0.add(string_chars(key) + 2 + value_chars);
    }
    pub(super) fn chars(&self) -> u64 {
        self.0.chars()
    }
}

/// Characters of Python's `repr` of a string.
pub(super) fn string_chars(text: &str) -> u64 {
    let mut single = 0u64;
    let mut has_double = false;
    let mut inner = 0u64;
    for c in text.chars() {
        inner += match c {
            '\'' => {
                single += 1;
                1
            }
            '"' => {
                has_double = true;
                1
            }
            '\\' | '\n' | '\r' | '\t' => 2,
            ' '..='~' => 1,
            '\0'..='\u{7f}' => 4,
            c if is_printable(c) => 1,
            '\u{80}'..='\u{ff}' => 4,
            '\u{100}'..='\u{ffff}' => 6,
            _ => 10,
        };
    }
    // Python picks double quotes for a text that holds single ones only; else it escapes the single ones.
    2 + inner + if has_double { single } else { 0 }
}

fn json_string_chars(text: &str) -> u64 {
    let char_chars = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    };
    2 + text.chars().map(char_chars).sum::<u64>()
}

fn number_chars(number: &Number) -> u64 {
    if number.is_f64() {
        return number.as_f64().map_or(0, float_chars);
    }
    number.to_string().len() as u64
}

/// Characters of Python's `repr` of a float: the shortest digits that read back, positional from 1e-4 to below 1e16.
fn float_chars(float: f64) -> u64 {
    if !float.is_finite() {
        return 3 + u64::from(float.is_nan() || float.is_sign_negative());
    }
    let size = float.abs();
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        return format!("{float:?}").len() as u64;
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent = exponent.trim_start_matches('-');
    // The exponent has a sign always and two digits at least.
    (digits.len() + 2 + exponent.len().max(2)) as u64
}

/// Tells whether Python prints a character beyond ASCII as itself: not controls, marks of format, separators, surrogates,
/// private use, nor what is not assigned.
fn is_printable(c: char) -> bool {
    !matches!(c,
        '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
        | '\u{8e2}' | '\u{1680}' | '\u{180e}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{3000}' | '\u{d7fc}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{323b0}'..='\u{e00ff}' | '\u{e01f0}'..='\u{10ffff}')
}
