//! Installs the real programs of four agents, for the tests that run them through the gateway.

use crate::target;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Clients from npm, each with the version that its behaviour was written down from.
const PACKAGES: [&str; 3] = ["@openai/codex@0.171.0", "@anthropic-ai/claude-code@2.1.197", "opencode-ai@1.18.33"];
/// Hermes, from PyPI; also the peer of the compressor's benchmark.
const HERMES: &str = "hermes-agent==0.19.0";
/// Says which packages a folder has.
const STAMP: &str = "installed.txt";

/// Installs all of them under the target folder; what is there already is left alone.
pub(crate) fn install() -> Result<(), String> {
    let mut problems = Vec::new();
    problems.extend(npm().err());
    problems.extend(hermes().err());
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn folder() -> Result<PathBuf, String> {
    let folder = target()?.join("clients");
    std::fs::create_dir_all(&folder).map_err(|error| format!("could not make {}: {error}", folder.display()))?;
    Ok(folder)
}

fn npm() -> Result<(), String> {
    let folder = folder()?;
    let (stamp, wanted) = (folder.join(STAMP), PACKAGES.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    println!("installing {} into {}", PACKAGES.join(", "), folder.display());
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]).arg(&folder).args(PACKAGES);
    let output = command.output().map_err(|error| format!("npm could not be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("npm install did not work: {}", said.lines().last().unwrap_or("it said nothing")));
    }
    std::fs::write(&stamp, wanted).map_err(|error| format!("could not write {}: {error}", stamp.display()))
}

/// Makes a Python that has Hermes, or finds the one made before; returns its interpreter.
pub(crate) fn hermes() -> Result<PathBuf, String> {
    let folder = folder()?.join("hermes");
    let python = folder.join("bin/python");
    let is_there = |python: &Path| {
        let try_it = Command::new(python).args(["-c", "import agent.context_compressor"]).output();
        try_it.is_ok_and(|output| output.status.success())
    };
    if is_there(&python) {
        return Ok(python);
    }
    println!("installing {HERMES} into {}", folder.display());
    let venv = Command::new("python3").args(["-m", "venv"]).arg(&folder).output();
    if !venv.is_ok_and(|output| output.status.success()) {
        return Err("python3 -m venv did not work".to_owned());
    }
    let pip = Command::new(&python).args(["-m", "pip", "install", "--quiet", HERMES]).output();
    let pip = pip.map_err(|error| format!("pip could not be run: {error}"))?;
    if !pip.status.success() || !is_there(&python) {
        let said = String::from_utf8_lossy(&pip.stderr);
        return Err(format!("pip install {HERMES} did not work: {}", said.lines().last().unwrap_or("it said nothing")));
    }
    Ok(python)
}
