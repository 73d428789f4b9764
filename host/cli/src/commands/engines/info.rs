//! `engines info`: all that is known of one engine.

use super::{tool_tokens, unknown};
use crate::commands::Status;
use crate::commands::engines::list::chosen;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::ui::{Ui, bold, yellow};
use crate::words::{bytes, counted};
use host_registry::{Candidate, EngineName, Listing, TRUST_FILE, Trust, TrustFile};
use host_tokens::Counter;
use serde_json::{Value, json};

pub(super) fn run(name: &str, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let registry = place.registry();
    let listings = registry.list(chosen(place));
    let is_there = |one: &&Listing| one.name == name && one.state != host_registry::State::Missing;
    let Some(listing) = listings.iter().find(is_there) else { return Err(unknown(name, &listings)) };
    let discovery = registry.discovery();
    let found = discovery.found.iter().find(|one| one.manifest.engines.iter().any(|engine| *engine == *name));
    let skipped = || discovery.skipped.iter().find(|one| one.name == name).and_then(|one| one.candidate.as_deref());
    let facts = facts(listing, found.or_else(skipped), place);
    if ui.is_json() {
        ui.json(&facts)?;
        return Ok(Status::Done);
    }
    ui.out(&text(&facts))?;
    Ok(Status::Done)
}

/// Gathers everything as one JSON value; the text is rendered from it, so both say the same.
fn facts(listing: &Listing, candidate: Option<&Candidate>, place: &Place) -> Value {
    let counter = Counter::for_model(&place.config.model.default);
    let tools: Vec<Value> = listing
        .tools
        .iter()
        .map(
            |tool| json!({ "name": tool.name, "description": tool.description, "tokens": tool_tokens(&counter, tool) }),
        )
        .collect();
    let mut facts = json!({
        "name": listing.name,
        "version": listing.version,
        "api": listing.api,
        "state": listing.state.as_str(),
        "source": listing.source,
        "description": listing.description,
        "why": listing.why,
        "hint": listing.hint,
        "tools": tools,
        "warnings": listing.warnings,
        "configured": host_config::get(&place.config, &format!("{}.{}", host_config::keys::ENGINES, listing.name)),
    });
    let (Some(candidate), Some(facts)) = (candidate, facts.as_object_mut()) else { return facts };
    let manifest = &candidate.manifest;
    let trust = TrustFile::load(place.home.join(TRUST_FILE));
    let approval = EngineName::parse(&listing.name).ok().and_then(|name| trust.get(&name).cloned());
    facts.insert(
        "library".into(),
        json!({
            "path": candidate.library,
            "sha256": candidate.library_sha256.to_string(),
            "bytes": candidate.precheck.size,
            "arch": candidate.precheck.arch,
            "needs": candidate.precheck.needed,
            "rustc": candidate.precheck.note.rustc,
            "engine_api": candidate.precheck.note.engine_api.to_string(),
        }),
    );
    facts.insert(
        "approval".into(),
        json!({
            "state": match candidate.trust {
                Trust::Trusted => "approved".to_owned(),
                Trust::Unknown => "not approved".to_owned(),
                Trust::Changed { was, .. } => format!("other bytes were approved: {was}"),
            },
            "approved": approval.as_ref().map(|one| one.approved),
            "source": approval.as_ref().map(|one| one.source.clone()),
        }),
    );
    facts.insert(
        "manifest".into(),
        json!({
            "sha256": candidate.manifest_sha256.to_string(),
            "plugin": candidate.plugin.as_str(),
            "kind": manifest.kind.as_str(),
            "engine_api": manifest.engine_api.to_string(),
            "license": manifest.license,
            "authors": manifest.authors,
            "homepage": manifest.homepage,
            "capabilities": manifest.capabilities,
            "tools": manifest.tools.iter().map(|tool| json!({
                "name": tool.name, "description": tool.description,
            })).collect::<Vec<_>>(),
            "settings": manifest.settings,
        }),
    );
    Value::Object(facts.clone())
}

fn text(facts: &Value) -> String {
    let word = |pointer: &str| facts.pointer(pointer).map(plain).unwrap_or_default();
    let mut out = format!("{}\n", bold(&safe::line(&format!("{} {}", word("/name"), word("/version")))));
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            out.push_str(&format!("  {name:<14}{}\n", safe::line(&value)));
        }
    };
    fact("about", word("/description"));
    fact("state", word("/state"));
    fact("why", word("/why"));
    fact("hint", word("/hint"));
    fact("engine API", word("/api"));
    fact("source", word("/source"));
    fact("library", word("/library/path"));
    fact("size", facts.pointer("/library/bytes").and_then(Value::as_u64).map(bytes).unwrap_or_default());
    fact("sha256", word("/library/sha256"));
    fact("built for", [word("/library/arch"), word("/library/rustc")].join(" ").trim().to_owned());
    fact("approval", word("/approval/state"));
    fact("approved", facts.pointer("/approval/approved").and_then(Value::as_u64).map(date).unwrap_or_default());
    fact("license", word("/manifest/license"));
    fact("authors", word("/manifest/authors"));
    fact("homepage", word("/manifest/homepage"));
    fact("asks for", word("/manifest/engine_api"));
    fact("capabilities", word("/manifest/capabilities"));
    fact("configured", word("/configured"));
    for warning in facts["warnings"].as_array().into_iter().flatten() {
        out.push_str(&format!("  {} {}\n", yellow("!"), safe::line(&plain(warning))));
    }
    let tools = facts["tools"].as_array().filter(|tools| !tools.is_empty()).or(facts["manifest"]["tools"].as_array());
    if let Some(tools) = tools.filter(|tools| !tools.is_empty()) {
        out.push_str(&format!("{}\n", bold("Tools")));
        for tool in tools {
            let tokens =
                tool["tokens"].as_u64().map(|count| format!(" ({})", counted(count, "token"))).unwrap_or_default();
            let line = format!("{}{tokens}: {}", plain(&tool["name"]), plain(&tool["description"]));
            out.push_str(&format!("  {}\n", safe::line(&line)));
        }
    }
    if let Some(settings) = facts["manifest"]["settings"].as_object().filter(|settings| !settings.is_empty()) {
        out.push_str(&format!("{}\n", bold(&format!("Settings (engines.{}.…)", safe::line(&word("/name"))))));
        for (name, schema) in settings {
            let default = schema.get("default").map(|value| format!(", default {}", plain(value))).unwrap_or_default();
            let line = format!("{name}: {}{default}. {}", plain(&schema["type"]), plain(&schema["description"]));
            out.push_str(&format!("  {}\n", safe::line(line.trim())));
        }
    }
    out
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(map) if map.is_empty() => String::new(),
        Value::Object(_) | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Returns a day, from seconds since 1970.
fn date(seconds: u64) -> String {
    // Civil from days: eras of 400 years of 146,097 days, counted from March.
    let days = (seconds / 86_400).min(3_000_000) + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let rows = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_700_000_000, "2023-11-14"),
            (1_798_675_200, "2026-12-31"),
        ];
        for (seconds, day) in rows {
            assert_eq!(date(seconds), day);
        }
        assert!(!date(u64::MAX).is_empty());
    }
}
