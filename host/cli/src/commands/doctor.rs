//! `doctor`: checks settings, engines, folders, store and tokenizer, and says what to do about each fault.

use crate::args::Global;
use crate::check::{Check, tally};
use crate::commands::{Status, wrap};
use crate::error::CliError;
use crate::place::Place;
use crate::shelf::{self, Proof, with_ending};
use crate::time;
use crate::ui::{Ui, bold};
use crate::words::{bytes, counted};
use host_config::Severity;
use host_registry::{Registry, State, TRUST_FILE, TrustFile};
use host_tokens::{Basis, Counter};
use serde::Serialize;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// A text whose count says that a vocabulary is whole, with one model of each vocabulary.
const SAMPLE: &str = "a page that was scraped and written over";
const SAMPLE_MODELS: [&str; 2] = ["gpt-4o", "gpt-4"];
/// Remarks about the settings that are shown; `config validate` shows all.
const REMARKS_MAX: usize = 10;
/// How long the gateway may take to say that it is there.
const ANSWER_TIME: Duration = Duration::from_millis(500);
/// Longest name of a section, with the space after it.
const SECTION_WIDTH: usize = 10;

#[derive(Debug, Serialize)]
struct Section {
    name: &'static str,
    checks: Vec<Check>,
}

pub(crate) fn run(global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::find(global);
    let registry = place.registry();
    let sections = [
        Section { name: "Config", checks: config(&place) },
        Section { name: "Engines", checks: engines(&place, &registry) },
        Section { name: "Home", checks: home(&place) },
        Section { name: "Store", checks: store(&place) },
        Section { name: "Tokenizer", checks: tokenizer(&place) },
        Section { name: "Clients", checks: clients(&place) },
    ];
    let (bad, odd) = tally(sections.iter().flat_map(|section| &section.checks));
    let status = Status::failed_if(bad > 0);
    if ui.is_json() {
        ui.json(&serde_json::json!({ "failures": bad, "warnings": odd, "sections": sections }))?;
        return Ok(status);
    }
    for section in &sections {
        let mut name = bold(&format!("{:<SECTION_WIDTH$}", section.name));
        for check in &section.checks {
            ui.out(&format!("{name}{}", check.text(SECTION_WIDTH)))?;
            name = " ".repeat(SECTION_WIDTH);
        }
    }
    let summary = match (bad, odd) {
        (0, 0) => "all is well".to_owned(),
        _ => format!("{}, {}", counted(bad as u64, "failure"), counted(odd as u64, "warning")),
    };
    ui.out(&format!("{summary}\n"))?;
    Ok(status)
}

/// Says which agents go through the gateway, and whether it answers.
fn clients(place: &Place) -> Vec<Check> {
    let origin = wrap::gateway_of(place);
    let is_up = answers(&origin);
    let state = if is_up { "answers" } else { "does not answer; `palimpsest gateway` starts it" };
    let mut checks = vec![Check::good(format!("the gateway at {origin} {state}"))];
    let env = |name: &str| std::env::var_os(name);
    for client in wrap::ALL {
        let settings = wrap::Settings::find(client, &env);
        let text = std::fs::read_to_string(&settings.path).unwrap_or_default();
        let (installed, is_routed) = (settings.is_installed(&env), settings.is_routed(&text, &origin));
        let overridden = settings.overridden(&env);
        let wrap_it = format!("`palimpsest wrap {}` does it", client.name());
        checks.push(match (is_routed, installed) {
            (true, _) if overridden.is_some() => {
                Check::odd(format!("{client} is routed"), overridden.unwrap_or_default(), "take the variable away")
            }
            (true, _) if !is_up => {
                Check::odd(format!("{client} is routed, and nothing answers there"), "", "start `palimpsest gateway`")
            }
            (true, _) => Check::good(format!("{client} is routed")),
            (false, true) => Check::good(format!("{client} is not routed; {wrap_it}")),
            (false, false) => Check::good(format!("{client} is not installed")),
        });
    }
    checks
}

/// Asks a gateway on this machine whether it is there.
fn answers(origin: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let place = origin.trim_start_matches("http://");
        let address = place.parse().map_err(std::io::Error::other)?;
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIME)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.write_all(format!("GET /livez HTTP/1.1\r\nhost: {place}\r\nconnection: close\r\n\r\n").as_bytes())?;
        let mut start = [0; 16];
        let length = stream.read(&mut start)?;
        Ok(start.get(..length).is_some_and(|start| start.starts_with(b"HTTP/1.1 200")))
    };
    ask().unwrap_or(false)
}

fn config(place: &Place) -> Vec<Check> {
    let engine = &place.config.context.engine;
    let mut checks = Vec::new();
    match &place.located.path {
        None => checks.push(Check::good(format!(
            "no settings file, so every setting has its default; context.engine = {engine}"
        ))),
        Some(path) if !place.diagnostics.iter().any(|one| one.severity == Severity::Error) => {
            checks.push(Check::good(format!("{} is read; context.engine = {engine}", path.display())));
        }
        Some(_) => {}
    }
    for diagnostic in place.diagnostics.iter().take(REMARKS_MAX) {
        let text = diagnostic.to_string();
        checks.push(match diagnostic.severity {
            Severity::Error => Check::bad(
                "the settings file is not used",
                text,
                "mend the file; until then every setting has its default",
            ),
            Severity::Warning => Check::odd(text, "", "`palimpsest config validate` shows every remark"),
            Severity::Notice => Check::good(text),
        });
    }
    if place.diagnostics.len() > REMARKS_MAX {
        let rest = counted((place.diagnostics.len() - REMARKS_MAX) as u64, "more remark");
        checks.push(Check::odd(rest, "", "`palimpsest config validate` shows all"));
    }
    if let Some(problem) = host_llm::Prices::load(&place.home).problem {
        let fix = "mend the file or move it away; until then the prices that came with the program hold";
        checks.push(Check::odd("the file of prices is damaged", problem, fix));
    }
    let (hooks, problems) = host_hooks::read(&place.config.hooks.session_compress);
    for problem in problems {
        checks.push(Check::odd(
            "a hook of session:compress is not as it should be",
            problem,
            "mend its entry in the settings",
        ));
    }
    checks.extend(hooks.iter().map(|hook| Check::good(format!("session:compress is told to {}", hook.name()))));
    checks
}

fn engines(place: &Place, registry: &Registry) -> Vec<Check> {
    let engine = place.config.context.engine.trim();
    let engine = if engine.is_empty() { host_registry::BUILTIN_NAME } else { engine };
    let mut checks = Vec::new();
    for one in registry.list(engine) {
        let what =
            format!("{} is {} ({})", [one.name.as_str(), &one.version].join(" ").trim_end(), one.state, one.source);
        checks.push(match one.state {
            State::Selected => Check::good(what),
            State::Ready | State::Disabled | State::Shadowed if one.name != engine => Check::good(what),
            // An engine that is asked for and cannot run is a fault; another one can wait.
            _ if one.name == engine => {
                let why = format!("{}; {} runs in its place", one.why, host_registry::BUILTIN_NAME);
                Check::bad(what, why, one.hint)
            }
            _ => Check::odd(what, one.why, one.hint),
        });
        checks.extend(one.warnings.into_iter().map(|warning| Check::odd(format!("{}: {warning}", one.name), "", "")));
    }
    for notice in &registry.discovery().notices {
        checks.push(Check::odd(notice.clone(), "", ""));
    }
    checks
}

fn home(place: &Place) -> Vec<Check> {
    let mut checks = vec![folder(&place.home, "home folder")];
    let trust = TrustFile::load(place.home.join(TRUST_FILE));
    checks.push(match trust.problem() {
        Some(problem) => Check::bad(
            format!("{} is not used, so no engine is approved", trust.path().display()),
            problem,
            "move the file away, then approve the engines again with `palimpsest engines install PATH --trust`",
        ),
        None => Check::good(format!("{} approved", counted(trust.iter().count() as u64, "engine"))),
    });
    for root in &place.roots {
        checks.push(if root.is_dir() {
            Check::good(format!("plugins folder {}", root.display()))
        } else if root.exists() {
            Check::bad(
                format!("{} is no folder", root.display()),
                "",
                "name a folder with --plugins or PALIMPSEST_PLUGINS",
            )
        } else {
            Check::good(format!("plugins folder {} is not there yet", root.display()))
        });
    }
    checks
}

/// Checks that the store can be read, and says how large it is and when it was last proved.
fn store(place: &Place) -> Vec<Check> {
    let path = shelf::path(place);
    if !shelf::is_there(place) {
        let what = format!("{} is not there yet; it is made when a session is imported", path.display());
        return vec![Check::good(what)];
    }
    let opened = shelf::open_to_read(place);
    let looked = opened
        .and_then(|store| Ok((store.file_facts().map_err(shelf::failed)?, store.counts().map_err(shelf::failed)?)));
    let (facts, counts) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            let fix = error
                .hint
                .unwrap_or_else(|| "`palimpsest sessions export --all -o FILE` saves what can be read".to_owned());
            return vec![Check::bad(format!("the store {} cannot be used", path.display()), error.message, fix)];
        }
    };
    let count = |table: &str| counts.get(table).copied().unwrap_or(0);
    // The write-ahead log is only looked at from outside: whoever opens and closes it drops SQLite's locks.
    let log = std::fs::metadata(with_ending(&path, "-wal")).map_or(0, |about| about.len());
    vec![
        Check::good(format!(
            "{} is readable, schema {}: {}, {}, {}",
            path.display(),
            facts.schema,
            counted(count("sessions"), "session"),
            counted(count("messages"), "message"),
            counted(count("nodes"), "summary node")
        )),
        Check::good(format!(
            "{} in the file, {} of them free, {} in the write-ahead log",
            bytes(facts.bytes),
            bytes(facts.free_bytes),
            bytes(log)
        )),
        last_proof(&path),
    ]
}

/// Says when the store was last proved, and how that ended.
fn last_proof(store: &Path) -> Check {
    let fix = "`palimpsest sessions verify` proves every message";
    let Some(proof) = Proof::last(store) else { return Check::good(format!("it was not proved yet; {fix}")) };
    let when = time::shown(proof.at_ms);
    match proof.problems {
        0 => Check::good(format!("it was proved whole on {when}")),
        count => Check::bad(format!("it was found damaged on {when}"), counted(count, "problem"), fix),
    }
}

/// Checks that a folder can be written to, or made.
fn folder(path: &Path, name: &str) -> Check {
    let shown = format!("{name} {}", path.display());
    let fix = "make it writable for you, or name another with --home or PALIMPSEST_HOME";
    match std::fs::metadata(path) {
        Ok(about) if !about.is_dir() => Check::bad(format!("{shown} is no folder"), "", fix),
        Ok(_) => match tempfile::tempfile_in(path) {
            Ok(_) => Check::good(format!("{shown} is writable")),
            Err(error) => Check::bad(format!("{shown} cannot be written to"), error.to_string(), fix),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Check::good(format!("{shown} is not there yet; it is made when something is kept"))
        }
        Err(error) => Check::bad(format!("{shown} cannot be looked at"), error.to_string(), fix),
    }
}

fn tokenizer(place: &Place) -> Vec<Check> {
    let mut checks = Vec::new();
    for model in SAMPLE_MODELS {
        let counter = Counter::for_model(model);
        let count = counter.count(SAMPLE);
        // Both vocabularies have a token for each of these words.
        let words = SAMPLE.split(' ').count();
        checks.push(if usize::try_from(count).is_ok_and(|count| (words..=words * 2).contains(&count)) {
            Check::good(format!("{} is embedded and counts", counter.encoding()))
        } else {
            let why = format!("{words} words came to {count} tokens");
            Check::bad(format!("{} does not count", counter.encoding()), why, "install palimpsest again")
        });
    }
    let model = &place.config.model.default;
    if !model.is_empty() {
        let counter = Counter::for_model(model);
        let encoding = counter.encoding();
        checks.push(match counter.basis() {
            Basis::Exact => Check::good(format!("{model} is counted with {encoding}, its own vocabulary")),
            _ => Check::good(format!("{model} is estimated with {encoding}: its own vocabulary is not published")),
        });
    }
    checks
}
