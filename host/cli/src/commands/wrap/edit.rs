//! Changes single values of settings files and leaves every other byte: TOML, JSON with comments, YAML.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, value};

/// A file's language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Toml,
    Json,
    Yaml,
}

/// One value that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Where it stands.
    pub(crate) at: Vec<String>,
    /// What stood there; none if nothing did.
    pub(crate) old: Option<String>,
    /// What stands there now.
    pub(crate) new: String,
}

/// A changed file.
#[derive(Debug)]
pub(crate) struct Edited {
    pub(crate) text: String,
    pub(crate) changes: Vec<Change>,
    /// What the person should know.
    pub(crate) notes: Vec<String>,
}

type Wanted = (Vec<String>, String);

fn path(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Moves Codex's provider: the built-in one, or the custom one that the settings name.
pub(super) fn codex(text: &str, url: &str) -> Result<Edited, String> {
    let doc: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let custom = doc.get("model_provider").and_then(Item::as_str).filter(|name| *name != "openai").map(str::to_owned);
    let Some(name) = custom else { return toml(text, &[(path(&["openai_base_url"]), url.to_owned())]) };
    let mut edited = toml(text, &[(path(&["model_providers", &name, "base_url"]), url.to_owned())])?;
    edited.notes.extend(upstream_note(&name, edited.changes.first().and_then(|change| change.old.as_deref())));
    Ok(edited)
}

/// Moves each provider that OpenCode's settings have; without any, the two that it knows by itself.
pub(super) fn opencode(text: &str, origin: &str) -> Result<Edited, String> {
    let root = parse(text)?;
    let providers = root.object_value().and_then(|root| root.object_value("provider"));
    let named: Vec<(String, bool)> = providers
        .iter()
        .flat_map(CstObject::properties)
        .filter_map(|property| {
            let name = property.name()?.decoded_value().ok()?;
            let npm =
                property.object_value()?.get("npm").and_then(|npm| npm.value()?.as_string_lit()?.decoded_value().ok());
            Some((name.clone(), npm.unwrap_or(name).contains("anthropic")))
        })
        .collect();
    let named =
        if named.is_empty() { vec![("anthropic".to_owned(), true), ("openai".to_owned(), false)] } else { named };
    // Both of OpenCode's kinds of providers want the version in their address.
    let wanted: Vec<Wanted> = named
        .iter()
        .map(|(name, _)| (path(&["provider", name, "options", "baseURL"]), format!("{origin}/v1")))
        .collect();
    let mut edited = json(text, &wanted)?;
    for ((name, _), change) in named.iter().zip(&edited.changes) {
        edited.notes.extend(upstream_note(name, change.old.as_deref()));
    }
    Ok(edited)
}

/// Moves Hermes' model.
pub(super) fn hermes(text: &str, url: &str) -> Result<Edited, String> {
    let mut edited = yaml(text, &[(path(&["model", "base_url"]), url.to_owned())])?;
    edited.notes.extend(upstream_note("hermes", edited.changes.first().and_then(|change| change.old.as_deref())));
    Ok(edited)
}

/// Says where the old address belongs now.
fn upstream_note(name: &str, old: Option<&str>) -> Option<String> {
    let old = old.filter(|old| !old.is_empty())?;
    Some(format!(
        "its requests went to {old}; so that the gateway sends them there, put \
         `providers: {{{name}: {{base_url: \"{old}\"}}}}` into config.yaml"
    ))
}

/// Puts values back that were changed, in a file that has changed since.
pub(super) fn undo(format: Format, text: &str, changes: &[Change]) -> Result<String, String> {
    let mut text = text.to_owned();
    for change in changes {
        text = match format {
            Format::Toml => toml_back(&text, change)?,
            Format::Json => json_back(&text, change)?,
            Format::Yaml => yaml_back(&text, change)?,
        };
    }
    Ok(text)
}

fn toml(text: &str, wanted: &[Wanted]) -> Result<Edited, String> {
    let mut doc: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let mut changes = Vec::new();
    for (at, new) in wanted {
        let (last, tables) = at.split_last().ok_or("no place was named")?;
        let mut item = doc.as_item_mut();
        for table in tables {
            item = item.get_mut(table.as_str()).ok_or_else(|| format!("there is no {table}"))?;
        }
        let slot = item.as_table_like_mut().ok_or_else(|| format!("{} is no table", tables.join(".")))?;
        let old = slot.get(last).and_then(Item::as_str).map(str::to_owned);
        match slot.get_mut(last).and_then(Item::as_value_mut) {
            // What stands around the value stays: a comment behind it.
            Some(found) => {
                let decor = found.decor().clone();
                *found = toml_edit::Value::from(new.as_str());
                *found.decor_mut() = decor;
            }
            None => drop(slot.insert(last, value(new.as_str()))),
        }
        changes.push(Change { at: at.clone(), old, new: new.clone() });
    }
    Ok(Edited { text: doc.to_string(), changes, notes: Vec::new() })
}

fn toml_back(text: &str, change: &Change) -> Result<String, String> {
    let Some(old) = &change.old else {
        let mut doc: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
        if doc.get(change.at.first().map_or("", String::as_str)).and_then(Item::as_str) == Some(&change.new) {
            doc.remove(change.at.first().map_or("", String::as_str));
        }
        return Ok(doc.to_string());
    };
    toml(text, &[(change.at.clone(), old.clone())]).map(|edited| edited.text)
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())
}

/// Sets values of a JSON file, which may have comments and trailing commas.
pub(super) fn json(text: &str, wanted: &[Wanted]) -> Result<Edited, String> {
    let root = parse(text)?;
    if root.value().is_some_and(|value| value.as_object().is_none()) {
        return Err("it is no JSON object".to_owned());
    }
    let mut changes = Vec::new();
    for (at, new) in wanted {
        let (last, parents) = at.split_last().ok_or("no place was named")?;
        let mut object = root.object_value_or_set();
        for parent in parents {
            object = object.object_value_or_create(parent).ok_or_else(|| format!("{parent} is no object"))?;
        }
        let input = CstInputValue::String(new.clone());
        let old = match object.get(last) {
            Some(property) => {
                let old = property.value().and_then(|value| value.as_string_lit()?.decoded_value().ok());
                property.set_value(input);
                old
            }
            None => {
                object.append(last, input);
                None
            }
        };
        changes.push(Change { at: at.clone(), old, new: new.clone() });
    }
    Ok(Edited { text: root.to_string(), changes, notes: Vec::new() })
}

fn json_back(text: &str, change: &Change) -> Result<String, String> {
    if let Some(old) = &change.old {
        return json(text, &[(change.at.clone(), old.clone())]).map(|edited| edited.text);
    }
    let root = parse(text)?;
    let Some((last, parents)) = change.at.split_last() else { return Ok(text.to_owned()) };
    let mut object = root.object_value();
    for parent in parents {
        object = object.and_then(|object| object.object_value(parent));
    }
    if let Some(property) = object.and_then(|object| object.get(last)) {
        property.remove();
    }
    Ok(root.to_string())
}

fn yaml(text: &str, wanted: &[Wanted]) -> Result<Edited, String> {
    let mut text = text.to_owned();
    let mut changes = Vec::new();
    for (at, new) in wanted {
        let at_text: Vec<&str> = at.iter().map(String::as_str).collect();
        let (edited, old) = host_config::set_text(&text, &at_text, new).map_err(|error| error.to_string())?;
        changes.push(Change { at: at.clone(), old, new: new.clone() });
        text = edited;
    }
    Ok(Edited { text, changes, notes: Vec::new() })
}

fn yaml_back(text: &str, change: &Change) -> Result<String, String> {
    if let Some(old) = &change.old {
        return yaml(text, &[(change.at.clone(), old.clone())]).map(|edited| edited.text);
    }
    // The line is ours from its first letter to its last.
    let name = change.at.last().map_or("", String::as_str);
    let is_ours = |line: &str| line.trim_start().starts_with(name) && line.contains(change.new.as_str());
    Ok(text.split_inclusive('\n').filter(|line| !is_ours(line)).collect())
}
