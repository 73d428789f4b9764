//! Changes one setting in the text of a configuration file and leaves every other byte as it is.
//!
//! A library does the edit on its syntax tree. Whether it did what was asked is judged without it: both texts are
//! parsed, and their values may differ in the requested place only; comments must all be there still.

use crate::keys::{self, Kind};
use crate::lines::{self, Lines};
use crate::parse::FILE_BYTES_MAX;
use crate::read::{Outcome, show, type_name};
use crate::{ConfigError, suggest, tree};
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use yaml_edit::path::YamlPath;

/// Longest path that is set.
const PATH_CHARS_MAX: usize = 400;
/// Stands for the new value while the library edits, so that how values are written is decided here.
const PLACEHOLDER: &str = "palimpsest_new_value";

/// Returns the text with one setting changed. `value` is written as on a command line: `0.6`, `60%`, `off`, `[a, b]`.
pub fn set(text: &str, key: &str, value: &str) -> Result<String, ConfigError> {
    let target = Target::of(key)?;
    let value = target.written(value)?;
    apply(text, &target, value)
}

/// Returns the text with one setting changed to a value.
pub fn set_value(text: &str, key: &str, value: &Value) -> Result<String, ConfigError> {
    let target = Target::of(key)?;
    let value = target.checked(value)?;
    apply(text, &target, value)
}

/// Returns another program's YAML with one text in it changed or added, and the text that stood there; all else stays.
pub fn set_text(text: &str, path: &[&str], value: &str) -> Result<(String, Option<String>), ConfigError> {
    let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
    let old = tree::read(text).ok().and_then(|read| {
        let found = path.iter().try_fold(&read.value, |at, name| at.get(name))?;
        found.as_str().map(str::to_owned)
    });
    let target = Target { key: path.join("."), path, kind: None };
    Ok((apply(text, &target, Value::from(value))?, old))
}

/// A place that may be set.
#[derive(Debug)]
struct Target {
    key: String,
    path: Vec<String>,
    /// What it accepts; `None` for a setting that is not ours to check.
    kind: Option<Kind>,
}

impl Target {
    fn of(key: &str) -> Result<Self, ConfigError> {
        let key = key.trim();
        let unknown = |hint: Option<String>| Err(ConfigError::UnknownKey { key: key.to_owned(), hint });
        if key.chars().count() > PATH_CHARS_MAX || key.chars().any(char::is_control) {
            return unknown(None);
        }
        let dotted = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
        let found = |path: Vec<String>, kind| Ok(Self { key: key.to_owned(), path, kind });
        if let Some(setting) = keys::find(key) {
            return found(dotted(key), Some(setting.kind));
        }
        if let Some((setting, rest)) = keys::containing(key) {
            let mut path = dotted(setting.path);
            if let Kind::FractionMap { min, max } = setting.kind {
                // The rest is one name: models are called "glm-5.2".
                path.push(rest.trim_matches('"').to_owned());
                return found(path, Some(keys::entry_kind(min, max)));
            }
            path.extend(dotted(rest));
            return if path.iter().all(|part| !part.is_empty()) { found(path, None) } else { unknown(None) };
        }
        if let Some(rest) = key.strip_prefix(keys::ENGINES).and_then(|rest| rest.strip_prefix('.')) {
            let parts = dotted(rest);
            if parts.len() < 2 || parts.iter().any(String::is_empty) {
                return unknown(Some("settings of an engine are written engines.<name>.<setting>".to_owned()));
            }
            return found(dotted(key), None);
        }
        if let Some((_, target)) = keys::MOVED.iter().find(|(old, _)| *old == key) {
            return unknown(Some(format!("it is now {target}")));
        }
        if keys::is_section(key) {
            let first = keys::KEYS.iter().map(|known| known.path).find(|path| path.starts_with(&format!("{key}.")));
            return unknown(Some(format!(
                "it holds settings, such as {}",
                first.unwrap_or("engines.<name>.<setting>")
            )));
        }
        unknown(suggest::closest(key).map(|meant| format!("did you mean {meant}?")))
    }

    /// Reads what stands on the command line.
    fn written(&self, text: &str) -> Result<Value, ConfigError> {
        let raw = Value::from(text);
        match self.kind {
            Some(Kind::TextList) if !text.trim_start().starts_with('[') => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Value::from);
                self.checked(&Value::Array(names.collect()))
            }
            Some(Kind::TextList | Kind::FractionMap { .. } | Kind::Object | Kind::ObjectList) | None => {
                self.checked(&self.yaml(text)?)
            }
            Some(_) => self.checked(&raw),
        }
    }

    fn yaml(&self, text: &str) -> Result<Value, ConfigError> {
        let bad =
            |found: String| ConfigError::BadValue { key: self.key.clone(), expected: "a YAML value".into(), found };
        if text.len() > FILE_BYTES_MAX || Lines::of(text).too_deep.is_some() {
            return Err(bad("one that is too large".to_owned()));
        }
        match tree::read(text) {
            Ok(read) if !read.has_more_documents => Ok(read.value),
            Ok(_) => Err(bad("several documents".to_owned())),
            Err(broken) => Err(bad(broken.message)),
        }
    }

    /// Checks type and range, and gives the value in the form it is written in.
    fn checked(&self, value: &Value) -> Result<Value, ConfigError> {
        let Some(kind) = self.kind else { return Ok(value.clone()) };
        let bad = |found: String| ConfigError::BadValue { key: self.key.clone(), expected: kind.expected(), found };
        match (kind, kind.read(value)) {
            (Kind::FractionMap { min, max }, Outcome::Good(Value::Object(entries))) => {
                let mut checked = Map::new();
                for (name, entry) in entries {
                    match keys::entry_kind(min, max).read(&entry) {
                        Outcome::Good(number) | Outcome::Noted(number, _) if !name.trim().is_empty() => {
                            checked.insert(name, number);
                        }
                        _ => return Err(bad(format!("{} for {name:?}", show(&entry)))),
                    }
                }
                Ok(Value::Object(checked))
            }
            (_, Outcome::Good(value) | Outcome::Noted(value, _)) => Ok(value),
            // A number outside the range is refused even where reading a file takes the nearest one.
            (Kind::Secret, Outcome::Bad { .. }) => Err(bad(type_name(value).to_owned())),
            (_, Outcome::Bad { found, hint, .. }) => Err(bad(match hint {
                Some(hint) => format!("{found} ({hint})"),
                None => found,
            })),
        }
    }
}

fn apply(text: &str, target: &Target, value: Value) -> Result<String, ConfigError> {
    let old = load(text)?;
    let refused = |reason: &str| ConfigError::EditRefused { key: target.key.clone(), reason: reason.to_owned() };
    let mut path = target.path.clone();
    if old.get("model").is_some_and(Value::is_string) && path.first().is_some_and(|first| first == "model") {
        if target.key != "model.default" {
            return Err(refused("the model is written as plain text, so it has no other settings"));
        }
        path.truncate(1);
    }
    if lookup(&old, &path) == Some(&value) {
        return Ok(text.to_owned());
    }
    let mut expected = old.clone();
    if !graft(&mut expected, &path, value.clone()) {
        return Err(refused("something else stands where its section should be"));
    }

    if old.is_null() {
        return judged(target, text, appended(text, &path, &value), &expected, 0);
    }
    // A list is changed item by item where that is enough, so that the comments of the other items stay.
    let items = match (lookup(&old, &path), &value) {
        (Some(Value::Array(old)), Value::Array(new)) if !old.is_empty() => ListEdit::between(old, new),
        _ => None,
    };
    if let Some(items) = items
        && let Ok(edited) = edit_tree(text, &path, &Change::Items(&items))
        && let Ok(edited) = judged(target, text, edited, &expected, items.removed.len())
    {
        return Ok(edited);
    }
    let edited = edit_tree(text, &path, &Change::Value(&value)).map_err(|reason| refused(&reason))?;
    // A "#" inside the replaced value looks like a comment and may go.
    let is_hidden = lookup(&old, &path).is_some_and(|value| value.to_string().contains('#'));
    judged(target, text, edited, &expected, if is_hidden { usize::MAX } else { 0 })
}

/// Judges an edited text without trusting what edited it.
fn judged(
    target: &Target,
    old: &str,
    edited: String,
    expected: &Value,
    lost_comments_max: usize,
) -> Result<String, ConfigError> {
    let refused = |reason: &str| Err(ConfigError::EditRefused { key: target.key.clone(), reason: reason.to_owned() });
    if edited.len() > FILE_BYTES_MAX {
        return refused("the file would become too large");
    }
    match load(&edited) {
        Ok(new) if new == *expected => {}
        _ => return refused("the edit would have changed something else too"),
    }
    if loses_more_comments(old, &edited, lost_comments_max) {
        return refused("the edit would have lost a comment");
    }
    Ok(edited)
}

/// Parses a file for an edit, which unlike reading it insists on good YAML.
fn load(text: &str) -> Result<Value, ConfigError> {
    let fail = |reason: String| Err(ConfigError::Unreadable { reason });
    if text.len() > FILE_BYTES_MAX {
        return fail(format!("it has {} bytes, more than {FILE_BYTES_MAX}", text.len()));
    }
    if let Some(line) = Lines::of(text).too_deep {
        return fail(format!("line {line} is nested deeper than {} levels", lines::DEPTH_MAX));
    }
    match tree::read(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        Err(broken) => fail(format!("it is not readable as YAML: {}", broken.message)),
        Ok(read) if read.has_more_documents => fail("it holds more than one document".to_owned()),
        Ok(read) => match (read.duplicates.first(), read.value) {
            (Some(path), _) => fail(format!("{} stands in it more than once", path.join("."))),
            (None, value @ (Value::Null | Value::Object(_))) => Ok(value),
            (None, other) => fail(format!("it holds {} instead of settings", type_name(&other))),
        },
    }
}

fn lookup<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |at, segment| at.get(segment))
}

/// Puts a value into a tree. Empty sections become mappings; anything else in the way is left and reported.
fn graft(tree: &mut Value, path: &[String], value: Value) -> bool {
    let mut at = tree;
    for segment in path {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(map) = at else { return false };
        at = map.entry(segment.clone()).or_insert(Value::Null);
    }
    *at = value;
    true
}

/// Adds a setting to a file without settings, after its comments.
fn appended(text: &str, path: &[String], value: &Value) -> String {
    let mut out = text.to_owned();
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    for (depth, segment) in path.iter().enumerate() {
        out.push_str(&"  ".repeat(depth));
        out.push_str(&render_text(segment));
        out.push(':');
        out.push_str(if depth + 1 < path.len() { "\n" } else { " " });
    }
    out.push_str(&render(value));
    out.push('\n');
    out
}

/// How one list becomes another by taking items out and adding some at the end.
struct ListEdit {
    /// Places of the items to take out, the last one first.
    removed: Vec<usize>,
    added: Vec<Value>,
}

impl ListEdit {
    fn between(old: &[Value], new: &[Value]) -> Option<Self> {
        let removed: Vec<usize> =
            old.iter().enumerate().filter(|(_, item)| !new.contains(item)).map(|(at, _)| at).rev().collect();
        let kept: Vec<&Value> = old.iter().filter(|item| new.contains(item)).collect();
        let (start, added) = new.split_at_checked(kept.len())?;
        // An emptied list has no block form, and one in a new order is written anew.
        let is_enough = !kept.is_empty() && start.iter().eq(kept) && added.iter().all(Value::is_string);
        is_enough.then(|| Self { removed, added: added.to_vec() })
    }
}

enum Change<'a> {
    Value(&'a Value),
    Items(&'a ListEdit),
}

/// Lets the library make a change.
fn edit_tree(text: &str, path: &[String], change: &Change<'_>) -> Result<String, String> {
    if text.contains(PLACEHOLDER) {
        return Err(format!("the file holds the word {PLACEHOLDER}"));
    }
    // Every character is escaped, so that dots and digits in names are no syntax.
    let escaped: Vec<String> = path.iter().map(|segment| segment.chars().flat_map(|c| ['\\', c]).collect()).collect();
    let escaped = escaped.join(".");
    let fail = |error: &dyn std::fmt::Display| lines::one_line(&error.to_string());
    // The library states its own invariants with `expect`; a broken one must cost the edit, not the process.
    let edited = catch_unwind(AssertUnwindSafe(|| {
        let document = yaml_edit::Document::from_str(text).map_err(|error| fail(&error))?;
        match change {
            Change::Value(_) => document.try_set_path(&escaped, PLACEHOLDER).map_err(|error| fail(&error))?,
            Change::Items(items) => {
                let node = document.try_get_path(&escaped).map_err(|error| fail(&error))?;
                let list = node.as_sequence().ok_or("no list stands there")?;
                for &at in &items.removed {
                    list.remove(at);
                }
                for _ in &items.added {
                    list.push(PLACEHOLDER);
                }
            }
        }
        Ok::<String, String>(document.to_string())
    }))
    .map_err(|_| "the editor failed on this file".to_owned())??;
    let values = match change {
        Change::Value(value) => std::slice::from_ref(*value),
        Change::Items(items) => &items.added,
    };
    let mut out = String::with_capacity(edited.len());
    let mut pieces = edited.split(PLACEHOLDER);
    out.push_str(pieces.next().unwrap_or_default());
    for (value, piece) in values.iter().zip(pieces) {
        out.push_str(&render(value));
        out.push_str(piece);
    }
    Ok(out)
}

/// Tells whether more comments of a text than allowed end no line of another one, in the same order. A comment begins
/// at a "#" after a blank.
fn loses_more_comments(old: &str, new: &str, allowed: usize) -> bool {
    let comment = |line: &str| {
        let starts = |at: usize| at == 0 || line.get(..at).is_some_and(|before| before.ends_with([' ', '\t']));
        line.match_indices('#').map(|(at, _)| at).find(|&at| starts(at))
    };
    let mut lines = new.lines();
    old.lines()
        .filter_map(|line| line.get(comment(line)?..).map(str::trim_end))
        .filter(|comment| {
            let mut ahead = lines.clone();
            let is_kept = ahead.any(|line| line.trim_end().ends_with(comment));
            if is_kept {
                lines = ahead;
            }
            !is_kept
        })
        // Each lost comment costs a walk over the rest, so the search stops at the first one too many.
        .nth(allowed)
        .is_some()
}

/// Writes a value on one line, in the flow style that is valid both in block and in flow mappings.
pub(crate) fn render(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => render_text(text),
        Value::Array(items) => format!("[{}]", items.iter().map(render).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries = map.iter().map(|(name, item)| format!("{}: {}", render_text(name), render(item)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Writes a text plain where every YAML reader takes it for a text, else in double quotes.
fn render_text(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/'));
    let looks_typed = crate::read::boolean_word(text).is_some()
        || matches!(text.to_ascii_lowercase().as_str(), "null" | "none" | "nan" | "inf" | "infinity");
    if is_word && !looks_typed {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // YAML takes some of these for line ends and refuses others.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                out.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
