//! `engines verify`: whether a library would run here, step by step, without installing it.

use crate::check::{Check, tally};
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::ui::Ui;
use crate::words::{bytes, counted};
use host_registry::{
    ApiVersion, Digest, LIBRARY_BYTES_MAX, MANIFEST_FILE, Manifest, PanicMode, Precheck, TRUST_FILE, Trust, TrustFile,
    host_platform,
};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Largest manifest that is read, as in a plugins folder.
const MANIFEST_BYTES_MAX: u64 = 64 * 1024;

/// What was looked at.
struct Subject {
    library: PathBuf,
    manifest: Option<(Manifest, Digest)>,
}

pub(super) fn run(path: &Path, is_run_asked: bool, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let mut checks = Vec::new();
    let subject = subject(path, &mut checks)?;
    let mut sha256 = None;
    if let Some(subject) = &subject {
        let library = read(&subject.library, LIBRARY_BYTES_MAX)?;
        let digest = Digest::of(&library);
        sha256 = Some(digest);
        let size = bytes(library.len() as u64);
        checks.push(Check::good(format!("{} is read: {size}, sha256 {digest}", subject.library.display())));
        verify(subject, &library, digest, is_run_asked, place, &mut checks);
    }
    let (bad, odd) = tally(&checks);
    let status = Status::failed_if(bad > 0);
    if ui.is_json() {
        ui.json(&serde_json::json!({
            "path": path,
            "library": subject.as_ref().map(|subject| &subject.library),
            "sha256": sha256.map(|digest| digest.to_string()),
            "faults": bad,
            "warnings": odd,
            "checks": checks,
        }))?;
        return Ok(status);
    }
    for check in &checks {
        ui.out(&check.text(0))?;
    }
    let verdict = match (bad, odd) {
        (0, 0) => "it runs here".to_owned(),
        (0, _) => "nothing found that would keep it from running here".to_owned(),
        _ => format!("it would not run here: {}", counted(bad as u64, "fault")),
    };
    ui.out(&format!("{verdict}\n"))?;
    Ok(status)
}

/// Finds the library that a path means; a folder's manifest is checked on the way.
fn subject(path: &Path, checks: &mut Vec<Check>) -> Result<Option<Subject>, CliError> {
    let about = std::fs::metadata(path).map_err(|error| CliError::io("read", path, &error))?;
    let is_manifest = path.file_name().is_some_and(|name| name == MANIFEST_FILE);
    if !about.is_dir() && !is_manifest {
        return Ok(Some(Subject { library: path.to_owned(), manifest: None }));
    }
    let file = if about.is_dir() { path.join(MANIFEST_FILE) } else { path.to_owned() };
    if !file.exists() {
        let what = format!("{} is no plugin: it has no {MANIFEST_FILE}", path.display());
        return Err(CliError::user(what).hint("name the library itself, or a folder with plugin.yaml and the library"));
    }
    let text = read(&file, MANIFEST_BYTES_MAX)?;
    let manifest = match Manifest::parse(&String::from_utf8_lossy(&text), &file) {
        Ok(manifest) => manifest,
        Err(error) => {
            checks.push(Check::bad("the manifest cannot be used", error.to_string(), error.hint));
            return Ok(None);
        }
    };
    checks.push(Check::good(format!("{}: {} {}", file.display(), manifest.name, manifest.version)));
    for warning in &manifest.warnings {
        let line = warning.line.map(|line| format!(":{line}")).unwrap_or_default();
        checks.push(Check::odd(format!("{MANIFEST_FILE}{line}: {}", warning.text), "", ""));
    }
    let platform = host_platform();
    let Some(name) = manifest.library_for(&platform) else {
        let why = format!("the manifest names no library for {platform}");
        checks.push(Check::bad("there is no library for this host", why, "build it on this platform"));
        return Ok(None);
    };
    let library = file.with_file_name(name);
    if !library.exists() {
        let what = format!("{} is not there", library.display());
        checks.push(Check::bad(what, "the manifest names it", "build the library and copy it there"));
        return Ok(None);
    }
    Ok(Some(Subject { library, manifest: Some((manifest, Digest::of(&text))) }))
}

fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, CliError> {
    let failed = |error: &std::io::Error| CliError::io("read", path, error);
    let about = std::fs::metadata(path).map_err(|error| failed(&error))?;
    if !about.is_file() {
        return Err(CliError::user(format!("{} is not a regular file", path.display())));
    }
    let mut out = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut out).map_err(|error| failed(&error))?;
    if out.len() as u64 > bytes_max {
        return Err(CliError::user(format!("{} has more than {bytes_max} bytes", path.display())));
    }
    Ok(out)
}

fn verify(
    subject: &Subject,
    library: &[u8],
    digest: Digest,
    is_run_asked: bool,
    place: &Place,
    checks: &mut Vec<Check>,
) {
    let Precheck { note, needed, arch, .. } = match host_registry::precheck(library) {
        Ok(precheck) => precheck,
        Err(error) => {
            checks.push(Check::bad(
                format!("not an engine for this host ({})", error.state()),
                error.to_string(),
                error.hint(),
            ));
            return;
        }
    };
    checks.push(Check::good(format!("a shared library for {arch}, needs {}", needed.join(", "))));
    let host = ApiVersion::host();
    let rustc = if note.rustc.is_empty() { String::new() } else { format!(", built by rustc {}", note.rustc) };
    checks.push(Check::good(format!("engine {} {}{rustc}", note.name, note.version)));
    if host.loads(note.engine_api) {
        checks.push(Check::good(format!("built for engine API {}, this host has {host}", note.engine_api)));
    } else {
        let what = format!("built for engine API {}, this host has {host}", note.engine_api);
        let fix = format!("build it against engine-api {}.{}", host.major, host.minor);
        checks.push(Check::bad(what, "majors differ", fix));
    }
    if note.panic == PanicMode::Abort {
        let why = "a panic in it would end the host";
        checks.push(Check::bad("built with panic=abort", why, "build it with panic=unwind"));
    }
    if let Some((manifest, _)) = &subject.manifest {
        if !manifest.engines.contains(&note.name) {
            let names: Vec<&str> = manifest.engines.iter().map(|name| name.as_str()).collect();
            let why = format!("the library is {}, the manifest says {}", note.name, names.join(", "));
            checks.push(Check::bad("library and manifest differ", why, "give the engine one name"));
        }
        if !manifest.engine_api.allows(host) {
            let why = format!("the manifest asks for engine API {}, this host has {host}", manifest.engine_api);
            checks.push(Check::bad("not for this host", why, "take a version made for this host"));
        }
    }
    let is_trusted = trust(subject, &note.name, digest, place, checks);
    if tally(&*checks).0 > 0 {
        return;
    }
    if is_trusted || is_run_asked {
        probe(subject, library, digest, place, checks);
    } else {
        checks.push(Check::odd(
            "not tried",
            "only approved libraries are run",
            "--run tries it in a process of its own",
        ));
    }
}

/// Checks the approval; returns whether these bytes are approved.
fn trust(
    subject: &Subject,
    name: &host_registry::EngineName,
    digest: Digest,
    place: &Place,
    checks: &mut Vec<Check>,
) -> bool {
    let file = TrustFile::load(place.home.join(TRUST_FILE));
    // A library alone has no manifest to compare; what is approved is then its bytes.
    let manifest = subject.manifest.as_ref().map(|(_, digest)| *digest);
    let manifest = manifest.or_else(|| file.get(name).map(|approval| approval.manifest)).unwrap_or(digest);
    let path = if subject.manifest.is_some() { subject.library.parent() } else { Some(subject.library.as_path()) };
    let path = path.unwrap_or(Path::new(".")).display();
    let fix = format!("look at it, then run `palimpsest engines install {path} --trust`");
    match file.check(name, &digest, &manifest) {
        Trust::Trusted => {
            checks.push(Check::good("approved"));
            true
        }
        Trust::Unknown => {
            let why = file.problem().map_or("nobody approved an engine of this name".to_owned(), str::to_owned);
            checks.push(Check::odd("not approved", why, fix));
            false
        }
        Trust::Changed { was, .. } => {
            checks.push(Check::odd("not approved", format!("other bytes were approved: sha256 {was}"), fix));
            false
        }
    }
}

fn probe(subject: &Subject, library: &[u8], digest: Digest, place: &Place, checks: &mut Vec<Check>) {
    let Some(runner) = host_registry::own_program() else {
        checks.push(Check::odd("not tried", "this program does not know its own file", ""));
        return;
    };
    // The bytes that were checked are tried, not what the path holds by now.
    let name = subject.library.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let copy = match host_registry::verified_copy(library, &digest, &place.home, &name) {
        Ok(copy) => copy,
        Err(error) => {
            checks.push(Check::bad(
                "could not be copied to be tried",
                error.to_string(),
                "`palimpsest doctor` checks the home folder",
            ));
            return;
        }
    };
    match host_registry::probe(&runner, &copy) {
        Ok(report) => {
            let engines: Vec<&str> = report.engines.iter().map(|engine| engine.name.as_str()).collect();
            let tools: usize = report.engines.iter().map(|engine| engine.tools.len()).sum();
            let tools = counted(tools as u64, "tool");
            checks.push(Check::good(format!("loads in a process of its own: {} with {tools}", engines.join(", "))));
        }
        Err(fault) => checks.push(Check::bad(format!("does not load ({})", fault.state), fault.why, fault.hint)),
    }
}
