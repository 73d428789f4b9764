//! Reads a configuration file. It never fails: what cannot be used is reported and the default stands in.

use crate::diagnostic::{Diagnostic, Severity};
use crate::keys::{self, Kind};
use crate::lines::{self, Lines};
use crate::read::{Outcome, type_name};
use crate::{Config, secret, suggest, tree};
use serde_json::{Map, Value};

/// Largest file that is read; a configuration is a few kilobytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Most remarks about one file; a file in another format would bring thousands.
const DIAGNOSTICS_MAX: usize = 200;
/// Two spaces per tab is what most files are indented by.
const TAB_AS_SPACES: &str = "  ";

/// A configuration and what was remarked while it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub config: Config,
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// Tells whether the file as a whole had to be left aside, so that all settings are defaults.
    pub fn is_unusable(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }
}

/// Reads the text of a configuration file; `file` is its name in diagnostics.
pub fn parse(text: &str, file: &str) -> Loaded {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > FILE_BYTES_MAX {
        return refused(file, None, format!("the file has {} bytes, more than {FILE_BYTES_MAX}", text.len()), None);
    }
    let lines = Lines::of(text);
    if let Some(line) = lines.too_deep {
        return refused(file, Some(line), format!("nested deeper than {} levels", lines::DEPTH_MAX), None);
    }
    let mut reader = Reader::new(file, lines);
    let read = match tree::read(text) {
        Ok(read) => read,
        Err(broken) => {
            let Some(tab) = reader.lines.tab_indented else {
                return refused(file, broken.line, not_yaml(&broken), None);
            };
            let Ok(read) = tree::read(&spaces_for_tabs(text)) else {
                let hint = format!("line {tab} is indented by a tab, which YAML does not take");
                return refused(file, broken.line, not_yaml(&broken), Some(hint));
            };
            let hint = Some("YAML is indented by spaces, not tabs".to_owned());
            reader.remark(Remark {
                line: Some(tab),
                found: "a tab in the indentation".into(),
                used: "two spaces for each".into(),
                hint,
                ..Remark::default()
            });
            // The lines were learned with tabs as one column each, which keeps the nesting of such files.
            read
        }
    };
    if read.has_more_documents {
        reader.remark(Remark {
            found: "more than one document in the file".into(),
            used: "the first".into(),
            ..Remark::default()
        });
    }
    for path in &read.duplicates {
        reader.duplicate(path);
    }
    match &read.value {
        Value::Null => {}
        Value::Object(map) => reader.root(map),
        other => {
            let found = format!("expected settings like \"context:\", found {}", type_name(other));
            return refused(file, Some(1), found, None);
        }
    }
    reader.finish()
}

fn not_yaml(broken: &tree::Broken) -> String {
    format!("not readable as YAML: {}", broken.message)
}

/// Gives the defaults with the one reason why.
pub(crate) fn refused(file: &str, line: Option<usize>, found: String, hint: Option<String>) -> Loaded {
    let diagnostic = Diagnostic {
        file: file.to_owned(),
        line,
        key: String::new(),
        expected: String::new(),
        found,
        used: "the defaults".to_owned(),
        severity: Severity::Error,
        hint,
    };
    Loaded { config: Config::default(), diagnostics: vec![diagnostic] }
}

fn spaces_for_tabs(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for line in text.split_inclusive('\n') {
        let body = line.trim_start_matches([' ', '\t']);
        let indentation = line.get(..line.len() - body.len()).unwrap_or_default();
        out.push_str(&indentation.replace('\t', TAB_AS_SPACES));
        out.push_str(body);
    }
    out
}

/// A remark before the file name is added.
struct Remark {
    line: Option<usize>,
    key: String,
    expected: String,
    found: String,
    used: String,
    severity: Severity,
    hint: Option<String>,
}

impl Default for Remark {
    fn default() -> Self {
        let text = String::new;
        Self {
            line: None,
            key: text(),
            expected: text(),
            found: text(),
            used: text(),
            severity: Severity::Warning,
            hint: None,
        }
    }
}

struct Reader<'a> {
    file: &'a str,
    lines: Lines,
    tree: Value,
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
    /// Settings of Hermes without an effect here, named together in one notice.
    hermes_only: Vec<String>,
    hermes_line: Option<usize>,
    /// Values of old keys, used where the new key is not set.
    moved: Vec<(&'static str, Value)>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str, lines: Lines) -> Self {
        Self {
            file,
            lines,
            tree: keys::default_tree(),
            diagnostics: Vec::new(),
            omitted: 0,
            hermes_only: Vec::new(),
            hermes_line: None,
            moved: Vec::new(),
        }
    }

    fn remark(&mut self, remark: Remark) {
        if self.diagnostics.len() >= DIAGNOSTICS_MAX {
            self.omitted += 1;
            return;
        }
        let Remark { line, key, expected, found, used, severity, hint } = remark;
        self.diagnostics.push(Diagnostic {
            file: self.file.to_owned(),
            line,
            key,
            expected,
            found,
            used,
            severity,
            hint,
        });
    }

    fn duplicate(&mut self, path: &[String]) {
        let all = self.lines.all_of(path);
        let first = all.first().filter(|_| all.len() > 1).map(|line| format!("first on line {line}"));
        self.remark(Remark {
            line: all.last().copied().or_else(|| self.lines.of_key(path)),
            key: path.join("."),
            found: "the key stands more than once".into(),
            used: "the last one".into(),
            hint: first,
            ..Remark::default()
        });
    }

    fn root(&mut self, map: &Map<String, Value>) {
        for (name, value) in map {
            let path = vec![name.clone()];
            match (name.as_str(), value) {
                (keys::ENGINES, _) => self.engines(value),
                // Hermes takes a model written as plain text for its name.
                ("model", Value::String(_) | Value::Number(_)) => {
                    self.setting(&["model".to_owned()], "model.default", value)
                }
                _ => self.item(path, value),
            }
        }
        for (target, value) in std::mem::take(&mut self.moved) {
            let segments: Vec<String> = target.split('.').map(str::to_owned).collect();
            let (first, rest) = target.split_once('.').unwrap_or((target, ""));
            let new = rest.split('.').try_fold(map.get(first), |at, segment| Some(at?.get(segment)));
            // An empty text is how an unset value is written in files made from the example.
            let is_free = new.flatten().is_none_or(|new| new.is_null() || new.as_str() == Some(""));
            if is_free {
                self.setting(&segments, target, &value);
            }
        }
    }

    fn item(&mut self, path: Vec<String>, value: &Value) {
        let dotted = path.join(".");
        // A key written with its dots is one key to YAML, not a path.
        let is_path = path.iter().all(|segment| !segment.contains('.'));
        if is_path && keys::find(&dotted).is_some() {
            self.setting(&path, &dotted, value);
        } else if is_path && keys::is_section(&dotted) {
            self.section(path, &dotted, value);
        } else if let Some(&(_, target)) = keys::MOVED.iter().find(|(old, _)| is_path && *old == dotted) {
            self.remark(Remark {
                line: self.lines.of_key(&path),
                key: dotted,
                found: format!("this setting is now {target}"),
                severity: Severity::Notice,
                ..Remark::default()
            });
            self.moved.push((target, value.clone()));
        } else if keys::is_hermes_only(&dotted) {
            self.hermes_line = self.hermes_line.or(self.lines.of_key(&path));
            self.hermes_only.push(dotted);
        } else {
            self.unknown(&path, dotted);
        }
    }

    fn section(&mut self, path: Vec<String>, dotted: &str, value: &Value) {
        match value {
            // A section whose settings are all commented out.
            Value::Null => {}
            Value::Object(map) => {
                for (name, value) in map {
                    let mut path = path.clone();
                    path.push(name.clone());
                    self.item(path, value);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let example = keys::KEYS.iter().find(|key| key.path.starts_with(dotted)).map(|key| key.path);
                self.remark(Remark {
                    line: self.lines.of_key(&path),
                    key: dotted.to_owned(),
                    expected: "a mapping with settings".into(),
                    found: type_name(value).into(),
                    used: "the defaults".into(),
                    hint: example.map(|path| format!("for example {}", nested(path))),
                    ..Remark::default()
                });
            }
        }
    }

    fn unknown(&mut self, path: &[String], dotted: String) {
        let hint = match keys::find(&dotted) {
            Some(key) => Some(format!("write {}", nested(key.path))),
            None => suggest::closest(&dotted).map(|meant| format!("did you mean {meant}?")),
        };
        let line = self.lines.of_key(path);
        self.remark(Remark {
            line,
            key: short(&dotted),
            found: "unknown setting, ignored".into(),
            hint,
            ..Remark::default()
        });
    }

    /// Reads the value of a known setting; `path` is where it stands in the file.
    fn setting(&mut self, path: &[String], dotted: &str, value: &Value) {
        let Some(key) = keys::find(dotted) else { return };
        let target: Vec<&str> = key.path.split('.').collect();
        if let (Kind::FractionMap { min, max }, Value::Object(map)) = (key.kind, value) {
            let entries = self.fractions(path, map, min, max);
            keys::insert(&mut self.tree, &target, entries);
            return;
        }
        let line = self.lines.of_key(path);
        match key.kind.read(value) {
            Outcome::Good(read) => {
                self.look_for_secrets(path, key.kind, &read);
                keys::insert(&mut self.tree, &target, read);
            }
            Outcome::Noted(read, found) => {
                self.remark(Remark {
                    line,
                    key: dotted.into(),
                    found,
                    severity: Severity::Notice,
                    ..Remark::default()
                });
                keys::insert(&mut self.tree, &target, read);
            }
            Outcome::Bad { found, nearest, hint } => {
                let used = nearest.clone().unwrap_or_else(|| key.default.to_value()).to_string();
                let expected = key.kind.expected();
                self.remark(Remark { line, key: dotted.into(), expected, found, used, hint, ..Remark::default() });
                if let Some(nearest) = nearest {
                    keys::insert(&mut self.tree, &target, nearest);
                }
            }
        }
    }

    fn fractions(&mut self, path: &[String], map: &Map<String, Value>, min: f64, max: f64) -> Value {
        let mut entries = Map::new();
        let kind = keys::entry_kind(min, max);
        for (name, value) in map {
            let mut path = path.to_vec();
            path.push(name.clone());
            let line = self.lines.of_key(&path);
            let key = short(&path.join("."));
            if name.trim().is_empty() {
                // An empty name is part of every model's name and would silently replace the threshold.
                self.remark(Remark {
                    line,
                    key,
                    expected: "a model name".into(),
                    found: "an empty one".into(),
                    used: "compression.threshold".into(),
                    ..Remark::default()
                });
                continue;
            }
            match kind.read(value) {
                Outcome::Good(read) => {
                    entries.insert(name.clone(), read);
                }
                Outcome::Noted(read, found) => {
                    self.remark(Remark { line, key, found, severity: Severity::Notice, ..Remark::default() });
                    entries.insert(name.clone(), read);
                }
                Outcome::Bad { found, hint, .. } => {
                    let used = "compression.threshold".into();
                    self.remark(Remark {
                        line,
                        key,
                        expected: kind.expected(),
                        found,
                        used,
                        hint,
                        ..Remark::default()
                    });
                }
            }
        }
        Value::Object(entries)
    }

    fn engines(&mut self, value: &Value) {
        let section = keys::ENGINES.to_owned();
        let map = match value {
            Value::Null => return,
            Value::Object(map) => map,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let line = self.lines.of_key(std::slice::from_ref(&section));
                let (expected, found) =
                    ("a mapping from engine names to their settings".into(), type_name(value).into());
                self.remark(Remark { line, key: section, expected, found, used: "none".into(), ..Remark::default() });
                return;
            }
        };
        let mut engines = Map::new();
        for (name, settings) in map {
            let path = [section.clone(), name.clone()];
            match settings {
                Value::Object(_) => {
                    self.look_for_secrets(&path, Kind::Object, settings);
                    engines.insert(name.clone(), settings.clone());
                }
                Value::Null => {
                    engines.insert(name.clone(), Value::Object(Map::new()));
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    let line = self.lines.of_key(&path);
                    let found = type_name(settings).into();
                    self.remark(Remark {
                        line,
                        key: short(&path.join(".")),
                        expected: "a mapping with settings".into(),
                        found,
                        used: "none".into(),
                        ..Remark::default()
                    });
                }
            }
        }
        keys::insert(&mut self.tree, &[keys::ENGINES], Value::Object(engines));
    }

    /// Remarks on credentials that stand in the file itself.
    fn look_for_secrets(&mut self, path: &[String], kind: Kind, value: &Value) {
        match (kind, value) {
            (Kind::Secret, Value::String(text)) if !text.is_empty() && !text.contains("${") => {
                let name = path.iter().take(path.len().saturating_sub(1)).map(|s| s.to_ascii_uppercase()).next_back();
                self.secret_notice(path, name);
            }
            (Kind::Object | Kind::ObjectList, Value::Object(map)) => {
                for (name, item) in map {
                    let mut path = path.to_vec();
                    path.push(name.clone());
                    let kind = if secret::is_secret_name(name) && item.is_string() { Kind::Secret } else { kind };
                    self.look_for_secrets(&path, kind, item);
                }
            }
            (Kind::Object | Kind::ObjectList, Value::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    let mut path = path.to_vec();
                    path.push(at.to_string());
                    self.look_for_secrets(&path, kind, item);
                }
            }
            _ => {}
        }
    }

    fn secret_notice(&mut self, path: &[String], owner: Option<String>) {
        let is_variable =
            |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
        let variable =
            owner.filter(is_variable).map_or_else(|| "API_KEY".to_owned(), |owner| format!("{owner}_API_KEY"));
        self.remark(Remark {
            line: self.lines.of_key(path),
            key: short(&path.join(".")),
            found: "the credential stands in the file".into(),
            severity: Severity::Notice,
            hint: Some(format!("keep it in the environment and write ${{{variable}}}")),
            ..Remark::default()
        });
    }

    fn finish(mut self) -> Loaded {
        if !self.hermes_only.is_empty() {
            let found = format!("settings of Hermes without an effect here: {}", short(&self.hermes_only.join(", ")));
            self.remark(Remark { line: self.hermes_line, found, severity: Severity::Notice, ..Remark::default() });
        }
        self.diagnostics.sort_by_key(|d| d.line);
        if self.omitted > 0 {
            let found = format!("{} more remarks left out", self.omitted);
            self.diagnostics.push(Diagnostic {
                file: self.file.to_owned(),
                line: None,
                key: String::new(),
                expected: String::new(),
                found,
                used: String::new(),
                severity: Severity::Warning,
                hint: None,
            });
        }
        match serde_json::from_value(self.tree) {
            Ok(config) => Loaded { config, diagnostics: self.diagnostics },
            // Every value was read by the table, so this means that the table and the types disagree.
            Err(error) => refused(self.file, None, format!("settings could not be put together: {error}"), None),
        }
    }
}

/// Shows a dotted path the way it is written: `a: {b: …}`.
fn nested(path: &str) -> String {
    let mut segments = path.split('.').rev();
    let last = segments.next().unwrap_or_default();
    segments.fold(format!("{last}: …"), |inner, outer| format!("{outer}: {{{inner}}}"))
}

/// Longest path or list of paths in a message.
const SHOWN_CHARS_MAX: usize = 400;

/// Keeps a name from the file on one line of a readable length.
fn short(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut out: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
