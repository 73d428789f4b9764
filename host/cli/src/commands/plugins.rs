//! `plugins`: the general plugins, the engines, and which engine is chosen.

use crate::args::Global;
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::ui::{Ui, bold, dim, green};
use host_registry::{Kind, Registry, State};
use serde_json::{Value, json};

/// A general plugin as it is listed.
struct Line {
    name: String,
    version: String,
    state: &'static str,
    engines: Vec<String>,
    path: String,
    description: String,
    why: String,
}

pub(crate) fn run(global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::open(global, ui);
    let registry = place.registry();
    let general = general(&place, &registry);
    let engines = registry.list(&place.config.context.engine);
    if ui.is_json() {
        let general: Vec<Value> = general
            .iter()
            .map(|line| {
                json!({
                    "name": line.name, "version": line.version, "state": line.state, "engines": line.engines,
                    "path": line.path, "description": line.description, "why": line.why,
                })
            })
            .collect();
        let engines: Vec<Value> = engines
            .iter()
            .map(|one| {
                json!({ "name": one.name, "state": one.state.as_str(), "is_selected": one.state == State::Selected })
            })
            .collect();
        ui.json(&json!({
            "general": general, "engines": engines, "context_engine": place.config.context.engine,
        }))?;
        return Ok(Status::Done);
    }
    ui.out(&format!("{}\n", bold("General plugins (all that are enabled run)")))?;
    if general.is_empty() {
        ui.out("  none\n")?;
    }
    for line in &general {
        let engines =
            if line.engines.is_empty() { String::new() } else { format!(", engines {}", line.engines.join(", ")) };
        let head = format!("{} {} {}{engines}", line.name, line.version, line.state);
        ui.out(&format!("  {}\n", safe::line(&head)))?;
        for detail in [&line.description, &line.why, &line.path].into_iter().filter(|detail| !detail.is_empty()) {
            ui.out(&format!("    {}\n", dim(&safe::line(detail))))?;
        }
    }
    ui.out(&format!("{}\n", bold("Context engines (one runs)")))?;
    for one in &engines {
        let mark = if one.state == State::Selected { green("●") } else { "○".to_owned() };
        let about = if one.description.is_empty() { String::new() } else { format!(": {}", one.description) };
        ui.out(&format!("  {mark} {}\n", safe::line(&format!("{} {}{about}", one.name, one.state))))?;
    }
    ui.out(&dim("`palimpsest engines use NAME` chooses an engine; `palimpsest config set plugins.enabled '[NAME]'` enables plugins"))?;
    ui.out("\n")?;
    Ok(Status::Done)
}

fn general(place: &Place, registry: &Registry) -> Vec<Line> {
    let discovery = registry.discovery();
    let found = discovery.found.iter().filter(|one| one.kind == Kind::General).map(|one| Line {
        name: one.plugin.to_string(),
        version: one.manifest.version.clone(),
        state: if place.config.plugins.allows(one.plugin.as_str()) { "enabled" } else { "disabled" },
        engines: one.manifest.engines.iter().map(ToString::to_string).collect(),
        path: one.dir.display().to_string(),
        description: one.manifest.description.clone(),
        why: String::new(),
    });
    // What is skipped has no kind of its own where its manifest could not be read; its place tells.
    let is_engine = |path: &std::path::Path| {
        path.parent().and_then(|parent| parent.file_name()).is_some_and(|name| name == host_registry::ENGINES_FOLDER)
    };
    let skipped = discovery.skipped.iter().filter(|one| !is_engine(&one.path)).map(|one| Line {
        name: one.name.clone(),
        version: one.candidate.as_ref().map(|about| about.manifest.version.clone()).unwrap_or_default(),
        state: one.state.as_str(),
        engines: Vec::new(),
        path: one.path.display().to_string(),
        description: String::new(),
        why: one.why.clone(),
    });
    found.chain(skipped).collect()
}
