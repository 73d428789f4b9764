//! Tries a library in another process before it is opened in this one.
//!
//! Opening a damaged file can end a process: the loader trusts its tables. What a library told is kept beside its
//! verified copy, so bytes that load are tried once per version of the host; bytes that do not are tried each time.

use crate::candidate::EngineFault;
use crate::dylib::Library;
use crate::state::State;
use engine_api::json::{self, Value};
use engine_api::{API_VERSION, ToolSchema};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a library may take to be opened and asked who it is.
const PROBE_SECONDS_MAX: u64 = 20;
/// Bytes of a report that are read.
const REPORT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The verdict's file, beside the library's verified copy.
const VERDICT_FILE: &str = "probe.json";

/// What a library told when it was tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeReport {
    /// The host's contract version that tried it.
    pub host_api: String,
    /// The library's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The contract it was built for.
    pub engine_api: String,
    /// `unwind` or `abort`.
    pub panic: String,
    /// Its engines.
    pub engines: Vec<ProbedEngine>,
    /// Why it cannot be used; empty if it can.
    pub fault: String,
}

/// One engine of a library that was tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbedEngine {
    /// The name it is registered under.
    pub name: String,
    /// The name it gives itself.
    pub own_name: String,
    /// Its version.
    pub version: String,
    /// One line.
    pub description: String,
    /// Its tools.
    pub tools: Vec<ToolSchema>,
}

/// Opens a library in this process and asks who it is: what the trying process does.
pub fn probe_here(path: &Path) -> ProbeReport {
    let mut report = ProbeReport { host_api: API_VERSION.to_owned(), ..ProbeReport::default() };
    let library = match Library::open(path) {
        Ok(library) => library,
        Err(error) => {
            report.fault = error.to_string();
            return report;
        }
    };
    let info = library.info();
    report.name.clone_from(&info.name);
    report.version.clone_from(&info.version);
    report.engine_api.clone_from(&info.engine_api);
    report.panic.clone_from(&info.panic);
    for name in &info.engines {
        match library.engine(name, &Value::Null) {
            Ok(engine) => {
                let own = engine.info();
                report.engines.push(ProbedEngine {
                    name: name.clone(),
                    own_name: own.name,
                    version: own.version,
                    description: own.description,
                    tools: engine.tool_schemas(),
                });
            }
            Err(error) => {
                report.fault = format!("engine {name} could not be made: {error}");
                return report;
            }
        }
    }
    report
}

/// Tries a library in a process of `runner` (this program), or takes the verdict of an earlier try.
pub fn probe(runner: &Path, library: &Path) -> Result<ProbeReport, EngineFault> {
    let verdict = library.with_file_name(VERDICT_FILE);
    let kept = std::fs::read_to_string(&verdict).ok().and_then(|text| json::from_str::<ProbeReport>(&text).ok());
    let report = match kept {
        Some(report) if report.host_api == API_VERSION => report,
        _ => {
            let report = run(runner, library)?;
            // Only a speed-up: without it the library is tried again next time.
            let _ = json::to_string_pretty(&report).map(|text| std::fs::write(&verdict, text));
            report
        }
    };
    judge(report)
}

/// Turns a library's own account into a verdict.
fn judge(report: ProbeReport) -> Result<ProbeReport, EngineFault> {
    if !report.fault.is_empty() {
        let state = if report.fault.contains("engine API") { State::Incompatible } else { State::NotAnEngine };
        let state = if report.fault.contains("could not open") { State::Unreadable } else { state };
        return Err(EngineFault::new(state, report.fault, "rebuild it against this host's engine-api"));
    }
    if report.panic == "abort" {
        let why = "it was built with panic=abort, so any panic in it would end this program".to_owned();
        return Err(EngineFault::new(State::Incompatible, why, "build it with panic=unwind"));
    }
    if let Some(engine) = report.engines.iter().find(|engine| engine.name != engine.own_name) {
        let why = format!("it registers \"{}\", which calls itself \"{}\"", engine.name, engine.own_name);
        return Err(EngineFault::new(State::Invalid, why, "give the engine one name"));
    }
    Ok(report)
}

fn run(runner: &Path, library: &Path) -> Result<ProbeReport, EngineFault> {
    let failed = |why: String| EngineFault::new(State::Unreadable, why, "see that this program may start itself");
    let mut child = Command::new(runner)
        .args(["engine-runner", "probe"])
        .arg(library)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(format!("could not start {} to try the library: {error}", runner.display())))?;
    let Some(stdout) = child.stdout.take() else {
        return Err(failed("the trying process has no output".to_owned()));
    };
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.take(REPORT_BYTES_MAX).read_to_string(&mut text);
        let _ = sender.send(text);
    });
    let Ok(text) = receiver.recv_timeout(Duration::from_secs(PROBE_SECONDS_MAX)) else {
        let _ = child.kill();
        let _ = child.wait();
        let why = format!("it did not finish loading within {PROBE_SECONDS_MAX} s in a process of its own");
        return Err(EngineFault::new(State::TimedOut, why, "report it to the engine's author"));
    };
    let status = child.wait().map_err(|error| failed(format!("could not wait for the trying process: {error}")))?;
    json::from_str::<ProbeReport>(&text).map_err(|_| {
        let why = format!("it ended the process that tried to load it ({status})");
        EngineFault::new(State::CrashedOnProbe, why, "the file is damaged or its code faulty: build or fetch it again")
    })
}

/// Returns the program that tries libraries: this one.
pub fn own_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}
