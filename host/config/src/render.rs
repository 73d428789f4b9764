//! Renders the table of settings as JSON schema, reference page and example file.

use crate::edit::render;
use crate::keys::{self, KEYS, Key, Kind, SECTIONS, Section};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Said in the first line of what is rendered, so that nobody edits it by hand.
const RENDERED: &str = "Rendered from the table of settings in host/config/src/keys.rs; change it there.";
/// Longest line of a comment in the example file.
const COMMENT_CHARS_MAX: usize = 100;

/// Returns a JSON schema (draft 2020-12) of the file, for editors.
///
/// It is stricter than reading: it knows the plain form of each setting only.
pub fn schema() -> Value {
    let mut root = object_schema("Configuration of Palimpsest. Settings of Hermes that are not listed are ignored.");
    // A Hermes file holds sections that are not ours.
    root.insert("additionalProperties".into(), Value::Bool(true));
    root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".into(), json!("config.yaml"));
    let mut root = Value::Object(root);
    let top = SECTIONS.iter().map(|section| section.path).chain(["auxiliary"]);
    // Outer sections come before inner ones, which are put into them.
    let mut paths: Vec<&str> = top.collect();
    paths.sort_unstable_by_key(|path| path.matches('.').count());
    for path in paths {
        let about = SECTIONS.iter().find(|section| section.path == path).map_or("Models for side tasks.", |s| s.about);
        let mut section = object_schema(&plain(about));
        // Side tasks of Hermes and engine settings are not ours to check.
        let is_open = path == "auxiliary" || path == keys::ENGINES;
        section.insert(
            "additionalProperties".into(),
            if path == keys::ENGINES { json!({"type": "object"}) } else { json!(is_open) },
        );
        keys::insert(&mut root, &schema_path(path), Value::Object(section));
    }
    for key in KEYS {
        keys::insert(&mut root, &schema_path(key.path), key_schema(key));
    }
    let model = root.pointer("/properties/model").cloned().unwrap_or_default();
    keys::insert(&mut root, &["properties", "model"], json!({"anyOf": [{"type": "string"}, model]}));
    root
}

fn object_schema(about: &str) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("description".into(), json!(about));
    schema
}

fn schema_path(path: &str) -> Vec<&str> {
    path.split('.').flat_map(|segment| ["properties", segment]).collect()
}

fn key_schema(key: &Key) -> Value {
    let mut schema = match key.kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Fraction { min, max, .. } => json!({"type": "number", "minimum": min, "maximum": max}),
        Kind::Integer { min, max, .. } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::OptionalInteger { min, max } => json!({"type": ["integer", "null"], "minimum": min, "maximum": max}),
        Kind::Choice(words) => json!({"enum": words}),
        Kind::Name => json!({"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$"}),
        Kind::Text | Kind::Secret => json!({"type": "string"}),
        Kind::TextList => json!({"type": "array", "items": {"type": "string"}}),
        Kind::FractionMap { min, max } => {
            json!({"type": "object", "additionalProperties": {"type": "number", "minimum": min, "maximum": max}})
        }
        Kind::Object => json!({"type": "object"}),
        Kind::ObjectList => json!({"type": "array", "items": {"type": "object"}}),
    };
    if let Value::Object(map) = &mut schema {
        map.insert("description".into(), json!(plain(key.meaning)));
        map.insert("default".into(), key.default.to_value());
    }
    schema
}

/// Returns the reference page.
pub fn reference_markdown() -> String {
    let mut out = format!("<!-- {RENDERED} -->\n# Configuration\n\n{INTRODUCTION}");
    for section in SECTIONS {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n## `{}`\n\n{}\n", section.path, section.about);
        let mut is_first = true;
        for (name, key) in settings(section) {
            if std::mem::take(&mut is_first) {
                out.push_str("\n| setting | accepts | default | like | meaning |\n|---|---|---|---|---|\n");
            }
            let accepts = accepts(key.kind).replace('|', "\\|");
            let (default, like) = (render(&key.default.to_value()), key.source.describe());
            let _ = writeln!(out, "| `{name}` | {accepts} | `{default}` | {like} | {} |", key.meaning);
        }
    }
    out.push_str("\n## Older names\n\nThese are still read, with a notice.\n\n| older name | name now |\n|---|---|\n");
    for (old, new) in keys::MOVED {
        let _ = writeln!(out, "| `{old}` | `{new}` |");
    }
    out
}

const INTRODUCTION: &str = "\
The file is looked for at `--config`, `$PALIMPSEST_CONFIG`, `./config.yaml` and `$PALIMPSEST_HOME/config.yaml`
(`~/.palimpsest` by default); the first one found is used. A file of Hermes can be used as it is: settings with the
same name mean the same, and those that have no effect here are named in one notice.

A mistake never stops the program. It is reported with file, line, key, what was expected and what is used instead;
`palimpsest config validate` shows the same. `yes`, `no`, `on` and `off` are read as booleans, quoted numbers as
numbers, `60%` as 0.60, and `<<` merges mappings. A file of more than 1 MiB or nested deeper than 64 levels is refused.

Texts may hold `${NAME}`, which is replaced by the environment variable where the value is used. Credentials are never
shown. `palimpsest config set KEY VALUE` changes one setting and keeps comments and layout;
`palimpsest config explain` shows every token budget with its derivation.

The column \"like\" says where name and default come from: \"Hermes 0.19.0\" is the released program,
\"Hermes documentation\" its documentation after that release, \"Palimpsest only\" a setting Hermes does not have.
";

/// The settings of a section with their names in it.
fn settings(section: &Section) -> impl Iterator<Item = (&'static str, &'static Key)> {
    KEYS.iter().filter_map(|key| {
        // A setting at the top is its own section.
        let (home, name) = key.path.rsplit_once('.').unwrap_or((key.path, key.path));
        (home == section.path).then_some((name, key))
    })
}

fn accepts(kind: Kind) -> String {
    match kind {
        Kind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Bool => "`true`, `false`".to_owned(),
        Kind::Name | Kind::Secret => "a text".to_owned(),
        Kind::Fraction { .. }
        | Kind::Integer { .. }
        | Kind::OptionalInteger { .. }
        | Kind::Text
        | Kind::TextList
        | Kind::FractionMap { .. }
        | Kind::Object
        | Kind::ObjectList => kind.expected(),
    }
}

/// Returns an example file in which every setting has its default.
pub fn example_yaml() -> String {
    let mut out =
        format!("# {RENDERED}\n#\n# Every setting is shown with its default, so an empty file means the same.\n");
    for section in SECTIONS {
        out.push('\n');
        comment(&mut out, "", section.about);
        if let Some(key) = keys::find(section.path) {
            comment(&mut out, "", &format!("{} Accepts {}.", key.meaning, accepts(key.kind)));
            let _ = writeln!(out, "{}: {}", key.path, render(&key.default.to_value()));
            continue;
        }
        let depth = section.path.split('.').count();
        for (at, segment) in section.path.split('.').enumerate() {
            let _ = write!(out, "{}{segment}:", "  ".repeat(at));
            out.push_str(if section.path == keys::ENGINES { " {}\n" } else { "\n" });
        }
        let indent = "  ".repeat(depth);
        for (name, key) in settings(section) {
            comment(&mut out, &indent, &format!("{} Accepts {}.", key.meaning, accepts(key.kind)));
            let _ = writeln!(out, "{indent}{name}: {}", render(&key.default.to_value()));
        }
    }
    out
}

fn comment(out: &mut String, indent: &str, text: &str) {
    let mut line = format!("{indent}#");
    for word in plain(text).split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COMMENT_CHARS_MAX {
            out.push_str(&line);
            out.push('\n');
            line = format!("{indent}#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

/// Takes the marks of the reference page out of a text.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, get, parse};

    /// Holds a file of the repository equal to its rendering; `UPDATE_EXPECT=1` rewrites it.
    fn check_file(name: &str, rendered: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, rendered).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
        assert!(found == rendered, "{name} differs from its rendering; UPDATE_EXPECT=1 rewrites it");
    }

    #[test]
    fn the_reference_page_is_up_to_date() {
        check_file("docs/config.md", &reference_markdown());
    }

    #[test]
    fn the_example_file_is_up_to_date() {
        check_file("config.example.yaml", &example_yaml());
    }

    #[test]
    fn the_example_file_means_the_defaults() {
        let loaded = parse(&example_yaml(), "config.example.yaml");
        assert_eq!(loaded.diagnostics, []);
        assert_eq!(loaded.config, Config::default());
    }

    #[test]
    fn what_is_rendered_says_so_first() {
        for text in [reference_markdown(), example_yaml()] {
            assert!(text.lines().next().unwrap().contains("Rendered from"), "{text:.200}");
        }
    }

    #[test]
    fn every_setting_has_a_field_a_page_row_and_a_schema() {
        let (page, schema, config) = (reference_markdown(), schema(), Config::default());
        for key in KEYS {
            assert_eq!(get(&config, key.path), Some(key.default.to_value()), "{}", key.path);
            let name = key.path.rsplit_once('.').map_or(key.path, |(_, name)| name);
            assert!(page.contains(&format!("| `{name}` |")), "{}", key.path);
            let pointer = format!("/{}", schema_path(key.path).join("/"))
                .replace("/properties/model/", "/properties/model/anyOf/1/");
            let part = schema.pointer(&pointer).unwrap_or_else(|| panic!("{pointer}"));
            assert_eq!(part["default"], key.default.to_value(), "{}", key.path);
        }
        let fields = serde_json::to_value(&config).unwrap();
        let mut leaves = Vec::new();
        paths(&fields, String::new(), &mut leaves);
        for leaf in leaves {
            assert!(keys::find(&leaf).is_some() || leaf == keys::ENGINES, "{leaf} is not in the table");
        }
        assert_eq!(schema["properties"]["compression"]["properties"]["threshold"]["maximum"], 0.95);
        assert_eq!(schema["properties"]["context"]["additionalProperties"], false);
    }

    fn paths(value: &Value, at: String, leaves: &mut Vec<String>) {
        match value {
            Value::Object(map) if keys::is_section(&at) || at.is_empty() => {
                for (name, item) in map {
                    paths(item, if at.is_empty() { name.clone() } else { format!("{at}.{name}") }, leaves);
                }
            }
            _ => leaves.push(at),
        }
    }

    #[test]
    fn every_default_is_a_value_its_setting_accepts() {
        for key in KEYS {
            let read = key.kind.read(&key.default.to_value());
            assert_eq!(read, crate::read::Outcome::Good(key.default.to_value()), "{}", key.path);
        }
    }
}
