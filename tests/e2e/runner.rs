//! Tries a library and tells what it is, as `palimpsest engine-runner probe <library>` does: the other end of a probe.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [command, task, library] = &arguments[..] else { return ExitCode::from(2) };
    if command != "engine-runner" || task != "probe" {
        return ExitCode::from(2);
    }
    let report = host_registry::probe_here(Path::new(library));
    let written = engine_api::json::to_string(&report).map(|text| writeln!(std::io::stdout(), "{text}"));
    if matches!(written, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
