//! `engines install`, `remove` and `use`: what changes which engines there are and which one runs.

use super::list::chosen;
use super::{effective, unknown};
use crate::commands::{Status, config};
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::ui::{Ui, green, yellow};
use host_registry::{
    ApiVersion, BUILTIN_NAME, EngineName, FileFault, InstallError, Installed, State, TRUST_FILE, Trust, TrustFile,
};
use serde_json::json;
use std::path::Path;

pub(super) fn install(path: &Path, is_trusted: bool, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let mut trust = TrustFile::load(place.home.join(TRUST_FILE));
    let root = &place.install_root;
    let put = |path: &Path, approve, trust: &mut TrustFile| {
        host_registry::install(path, root, trust, approve, ApiVersion::host())
            .map_err(|error| install_error(&format!("could not install {}", path.display()), &error))
    };
    let mut installed = put(path, is_trusted, &mut trust)?;
    if installed.trust != Trust::Trusted && !is_trusted && ui.can_ask() {
        let Installed { name, dir, library_sha256, .. } = &installed;
        let question = format!(
            "{} is in {}\n  sha256 {library_sha256}\nIts code will run with your rights. Approve it?",
            safe::line(name.as_str()),
            safe::line(&dir.display().to_string())
        );
        if ui.asks(&question) {
            let was_there = installed.was_there;
            installed = Installed { was_there, ..put(&installed.dir.clone(), true, &mut trust)? };
        }
    }
    let Installed { name, dir, was_there, library_sha256, precheck, warnings, .. } = &installed;
    let is_approved = installed.trust == Trust::Trusted;
    let approve = format!("palimpsest engines install {} --trust", dir.display());
    if ui.is_json() {
        ui.json(&json!({
            "name": name.as_str(),
            "version": precheck.note.version,
            "path": dir,
            "replaced": was_there,
            "sha256": library_sha256.to_string(),
            "manifest_sha256": installed.manifest_sha256.to_string(),
            "is_approved": is_approved,
            "approve_with": (!is_approved).then_some(&approve),
            "warnings": warnings,
        }))?;
        return Ok(Status::Done);
    }
    let verb = if *was_there { "Replaced" } else { "Installed" };
    let version = &precheck.note.version;
    ui.out(&format!("{} {verb} {name} {version} in {}\n", green("✓"), safe::line(&dir.display().to_string())))?;
    ui.out(&format!("  sha256 {library_sha256}\n"))?;
    for warning in warnings {
        ui.out(&format!("{} {}\n", yellow("!"), safe::line(warning)))?;
    }
    if is_approved {
        ui.out(&format!("{} approved; choose it with `palimpsest engines use {name}`\n", green("✓")))?;
    } else {
        ui.out(&format!(
            "{} not approved, so it does not run; approve it with\n  {}\n",
            yellow("!"),
            safe::line(&approve)
        ))?;
    }
    Ok(Status::Done)
}

fn install_error(what: &str, error: &InstallError) -> CliError {
    let own: String;
    let hint = match error {
        InstallError::Plugin(fault) => fault.hint.as_str(),
        InstallError::File(FileFault::Missing { .. }) => "name the plugin's folder or its library",
        InstallError::File(fault) => {
            own = fault.hint();
            &own
        }
        InstallError::Write { .. } => "make the plugins folder writable, or name another with --plugins",
        InstallError::Trust(_) => "`palimpsest doctor` says what is wrong with the approvals",
        InstallError::NotInstalled { .. } => "`palimpsest engines list` shows where engines are",
        InstallError::NotOnlyAPlugin { .. } => "remove the folder yourself",
        _ => "",
    };
    CliError::user(what).because(error).hint(hint)
}

pub(super) fn remove(name: &str, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let what = format!("could not remove {name:?}");
    let parsed = match EngineName::parse(name) {
        Ok(parsed) => parsed,
        Err(_) if name == BUILTIN_NAME => {
            return Err(CliError::user(format!("{name} is built in and cannot be removed"))
                .hint("choose another engine with `palimpsest engines use NAME`"));
        }
        Err(error) => return Err(CliError::user(what).because(&error)),
    };
    let mut trust = TrustFile::load(place.home.join(TRUST_FILE));
    let mut missing = None;
    for root in &place.roots {
        match host_registry::remove(&parsed, root, &mut trust) {
            Ok(dir) => return removed(name, &dir, place, ui),
            Err(error @ InstallError::NotInstalled { .. }) => missing = Some(error),
            Err(error) => return Err(install_error(&what, &error)),
        }
    }
    let error = unknown(name, &place.registry().list(chosen(place)));
    Err(match missing {
        Some(missing) => error.because(&missing),
        None => error,
    })
}

fn removed(name: &str, dir: &Path, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let listings = place.registry().list(chosen(place));
    let (runs, _) = effective(chosen(place), &listings);
    let is_chosen = chosen(place) == name;
    if ui.is_json() {
        ui.json(&json!({ "name": name, "removed": dir, "context_engine": chosen(place), "effective": runs }))?;
        return Ok(Status::Done);
    }
    let dir = safe::line(&dir.display().to_string());
    ui.out(&format!("{} Removed {name} from {dir}, and its approval\n", green("✓")))?;
    if is_chosen && runs != name {
        ui.out(&format!(
            "{} context.engine is still {name}: {runs} runs in its place; `palimpsest engines use {runs}` makes it so\n",
            yellow("!")
        ))?;
    }
    Ok(Status::Done)
}

pub(super) fn choose(name: &str, force: bool, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let listings = place.registry().list(name);
    let found = listings.iter().find(|one| one.name == name);
    let is_known = found.is_some_and(|one| one.state != State::Missing && one.state != State::Invalid);
    if !is_known && !force {
        let error = unknown(name, &listings);
        return Err(match found.filter(|one| one.state == State::Invalid) {
            Some(one) => CliError::user(format!("engine {name:?} cannot be chosen")).cause(&one.why).hint(&one.hint),
            None => error,
        });
    }
    let path = place.config_path();
    config::change(&path, "context.engine", name)?;
    let (runs, why_not) = effective(name, &listings);
    if ui.is_json() {
        ui.json(&json!({
            "context_engine": name,
            "effective": runs,
            "path": path,
            "why": why_not.map(|one| &one.why),
            "hint": why_not.map(|one| &one.hint),
        }))?;
        return Ok(Status::Done);
    }
    ui.out(&format!(
        "{} context.engine is {} in {}\n",
        green("✓"),
        safe::line(name),
        safe::line(&path.display().to_string())
    ))?;
    match why_not {
        None => ui.out(&format!("  {runs} runs from now on\n"))?,
        Some(one) => {
            ui.out(&format!("{} it is {}, so {runs} runs in its place\n", yellow("!"), one.state))?;
            for (word, text) in [("why", &one.why), ("fix", &one.hint)].into_iter().filter(|(_, text)| !text.is_empty())
            {
                ui.out(&format!("  {word}: {}\n", safe::line(text)))?;
            }
        }
    }
    Ok(Status::Done)
}
