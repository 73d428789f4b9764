//! `config`: reads, changes, checks and explains the settings.

use crate::args::{ConfigCommand, Global};
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::ui::{Ui, green, red, yellow};
use crate::words::counted;
use host_config::{ConfigError, Severity};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) fn run(command: &ConfigCommand, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    match command {
        ConfigCommand::Get { key } => get(key, &Place::open(global, ui), ui),
        ConfigCommand::Set { key, value } => set(key, value, &Place::open(global, ui), ui),
        ConfigCommand::Validate { strict } => validate(*strict, &Place::find(global), ui),
        ConfigCommand::Explain { model, context_length } => {
            explain(model.as_deref(), *context_length, &Place::open(global, ui), ui)
        }
        ConfigCommand::Path => path(&Place::find(global), ui),
        ConfigCommand::Schema => {
            ui.json(&host_config::schema())?;
            Ok(Status::Done)
        }
    }
}

fn get(key: &str, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let Some(value) = host_config::get(&place.config, key) else { return Err(unknown(key)) };
    if ui.is_json() {
        ui.json(&json!({ "key": key, "value": value }))?;
    } else {
        ui.out(&format!("{}\n", shown(&value)))?;
    }
    Ok(Status::Done)
}

fn unknown(key: &str) -> CliError {
    // Setting it fails in the same way, and says which setting was meant.
    match host_config::set_value("", key, &Value::Null) {
        Err(ConfigError::UnknownKey { key, hint }) => {
            CliError::user(format!("unknown setting {key:?}")).hint(hint.unwrap_or_else(list_hint))
        }
        _ => CliError::user(format!("{key} is not set")).hint(list_hint()),
    }
}

fn list_hint() -> String {
    "`palimpsest config schema` lists every setting".to_owned()
}

/// Returns a value as it is written on a command line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => safe::block(text).into_owned(),
        Value::Object(_) | Value::Array(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn set(key: &str, value: &str, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let path = place.config_path();
    let text = change(&path, key, value)?;
    let loaded = host_config::parse(&text, &path.display().to_string());
    let now = host_config::get(&loaded.config, key).unwrap_or_default();
    if ui.is_json() {
        ui.json(&json!({ "key": key, "value": now, "path": path }))?;
    } else {
        ui.out(&format!("{key} is {} in {}\n", shown(&now), path.display()))?;
    }
    Ok(Status::Done)
}

/// Changes a setting in a file, which is made if it is not there, and returns the file's new text.
pub(crate) fn change(path: &Path, key: &str, value: &str) -> Result<String, CliError> {
    let old = read(path)?;
    let text = host_config::set(&old, key, value).map_err(|error| match error {
        ConfigError::UnknownKey { .. } => unknown(key),
        ConfigError::BadValue { .. } => CliError::user(error.to_string()),
        other => CliError::user(format!("could not set {key} in {}", path.display())).because(&other),
    })?;
    host_config::write_atomically(path, &text)
        .map_err(|error| CliError::user(format!("{key} was not changed")).because(&error))?;
    Ok(text)
}

fn read(path: &Path) -> Result<String, CliError> {
    use std::io::Read;
    let limit = host_config::FILE_BYTES_MAX as u64;
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(CliError::io("read", path, &error)),
    };
    let mut text = String::new();
    // The size that the system states is not that of a device, so the reading itself is bounded.
    let read = file.take(limit + 1).read_to_string(&mut text).map_err(|error| CliError::io("read", path, &error))?;
    if read as u64 > limit {
        return Err(CliError::user(format!("{} is too large for a settings file", path.display())));
    }
    Ok(text)
}

fn validate(strict: bool, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let count = |severity| place.diagnostics.iter().filter(|one| one.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let status = Status::failed_if(errors > 0 || (strict && warnings > 0));
    if ui.is_json() {
        ui.json(&json!({
            "path": place.located.path,
            "is_valid": status == Status::Done,
            "errors": errors,
            "warnings": warnings,
            "diagnostics": place.diagnostics,
        }))?;
        return Ok(status);
    }
    for diagnostic in &place.diagnostics {
        let word = match diagnostic.severity {
            Severity::Error => red("error"),
            Severity::Warning => yellow("warning"),
            Severity::Notice => "notice".to_owned(),
        };
        ui.out(&format!("{word}: {}\n", safe::line(&diagnostic.to_string())))?;
    }
    let summary = match &place.located.path {
        None => format!("{} no settings file; every setting has its default", green("✓")),
        Some(path) if place.diagnostics.is_empty() => format!("{} {} has no faults", green("✓"), path.display()),
        Some(path) => {
            let (errors, warnings) = (counted(errors as u64, "error"), counted(warnings as u64, "warning"));
            format!("{}: {errors}, {warnings}, {}", path.display(), counted(count(Severity::Notice) as u64, "notice"))
        }
    };
    ui.out(&format!("{summary}\n"))?;
    Ok(status)
}

fn explain(model: Option<&str>, context_length: Option<u64>, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let model = model.unwrap_or(&place.config.model.default);
    let (context_length, is_assumed) = place.context_length(context_length, model);
    let budgets = host_config::budgets(&place.config, model, context_length, None);
    if ui.is_json() {
        ui.json(&json!({ "model": model, "is_context_length_assumed": is_assumed, "budgets": budgets }))?;
        return Ok(Status::Done);
    }
    let name = if model.is_empty() { "no model named" } else { model };
    let assumed = if is_assumed { "; the window is assumed, --context-length states it" } else { "" };
    ui.out(&format!("{}{assumed}\n{}", safe::line(name), host_config::explain(&budgets)))?;
    Ok(Status::Done)
}

fn path(place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let exists = place.located.path.as_ref().is_some_and(|path| path.is_file());
    if ui.is_json() {
        ui.json(&json!({ "path": place.located.path, "exists": exists, "searched": place.located.searched }))?;
        return Ok(Status::Done);
    }
    match &place.located.path {
        Some(path) => ui.out(&format!("{}\n", path.display()))?,
        None => {
            let places: Vec<String> = place.located.searched.iter().map(|path| path.display().to_string()).collect();
            ui.note(&format!("no settings file; looked for {}", places.join(", ")));
        }
    }
    if !exists && place.located.path.is_some() {
        ui.note("there is no such file; every setting has its default");
    }
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_setting_is_refused_with_what_was_meant() {
        assert_eq!(unknown("compression.treshold").hint.unwrap(), "did you mean compression.threshold?");
        assert_eq!(unknown("engines.lcm.x").message, "engines.lcm.x is not set");
        assert!(unknown("weather").hint.unwrap().contains("config schema"));
    }

    #[test]
    fn a_change_makes_the_file_and_keeps_comments() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("config.yaml");
        change(&path, "context.engine", "lcm").unwrap();
        std::fs::write(&path, "# mine\ncontext:\n  engine: lcm # chosen\n").unwrap();
        change(&path, "context.engine", "codex").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\ncontext:\n  engine: codex # chosen\n");
        assert!(change(&path, "compression.threshold", "lots").unwrap_err().message.contains("expected"));
        assert!(change(folder.path(), "context.engine", "x").is_err());
    }
}
