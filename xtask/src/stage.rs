//! Builds the engines and lays them where the host looks; the demonstration.

use crate::{cargo, root, run, target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The engines that ship as plugins: package, and folder under `plugins/context_engine`.
const ENGINES: &[(&str, &str)] = &[("engine-lcm", "lcm"), ("engine-codex", "codex"), ("engine-opencode", "opencode")];

/// A real session of 778 messages; see tests/transcripts/SOURCES.tsv for where it comes from.
const DEMO_TRANSCRIPT: &str = "tests/transcripts/anthropic-messages/an-cc-105-user-turns-full.json.gz";

/// Builds the engines, puts them under `plugins/` and approves them. Returns the program's path.
pub(crate) fn stage(release: bool) -> Result<PathBuf, String> {
    let mut build = cargo();
    build.args(["build", "-p", "host-cli"]);
    for (package, _) in ENGINES {
        build.args(["-p", package]);
    }
    if release {
        build.arg("--release");
    }
    run(&mut build)?;
    let built = target()?.join(if release { "release" } else { "debug" });
    let program = built.join(format!("palimpsest{}", std::env::consts::EXE_SUFFIX));
    for (package, name) in ENGINES {
        let file = library_file(package);
        let folder = root().join("plugins/context_engine").join(name);
        replace(&built.join(&file), &folder.join(&file))?;
        run(Command::new(&program)
            .current_dir(root())
            .args(["--quiet", "--plugins", "plugins", "engines", "install", "--trust"])
            .arg(&folder))?;
    }
    Ok(program)
}

/// A library that is in use must not be written over: the running process has it mapped. So it is replaced by rename.
fn replace(from: &Path, to: &Path) -> Result<(), String> {
    let beside = to.with_extension("new");
    std::fs::copy(from, &beside).map_err(|error| format!("could not copy {}: {error}", from.display()))?;
    std::fs::rename(&beside, to).map_err(|error| format!("could not put {} in place: {error}", to.display()))
}

fn library_file(package: &str) -> String {
    let name = package.replace('-', "_");
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// Compacts a real transcript with the engine that a `config.yaml` names.
pub(crate) fn demo() -> Result<(), String> {
    let program = stage(false)?;
    let folder = target()?.join("demo");
    std::fs::create_dir_all(&folder).map_err(|error| format!("could not make {}: {error}", folder.display()))?;
    let config = folder.join("config.yaml");
    std::fs::write(&config, "context:\n  engine: lcm\n")
        .map_err(|error| format!("could not write {}: {error}", config.display()))?;
    let out = folder.join("compacted.json");
    run(Command::new(&program)
        .current_dir(root())
        .arg("--config")
        .arg(&config)
        .args(["--plugins", "plugins", "compact", DEMO_TRANSCRIPT])
        .args(["--model", "claude-sonnet-4-5", "--context-length", "200000", "-o"])
        .arg(&out))?;
    println!("the compacted conversation is in {}", out.display());
    Ok(())
}
