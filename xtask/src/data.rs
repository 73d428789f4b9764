//! Compacts every file of a data folder with every engine at every window, and has the results judged.

use crate::{cargo, root, target};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A judge of message lists beside the data that shares no code with this repository; used where Python is there.
const JUDGE: &str = "check_pairs.py";
/// Files in one call of the judge: a command line has a limit.
const FILES_PER_CALL: usize = 200;

/// Errors of each kind in one file.
type Errors = BTreeMap<String, usize>;

/// Runs the corpus test over a folder; without one, over `../shared/data`, else over the copies in the repository.
pub(crate) fn run(folder: Option<&Path>) -> Result<(), String> {
    let beside = root().join("../shared/data");
    let own = root().join("tests/transcripts");
    let folder = folder.unwrap_or(if beside.is_dir() { &beside } else { &own });
    let folder = folder.canonicalize().map_err(|error| format!("could not find {}: {error}", folder.display()))?;
    let outputs = target()?.join("data");
    // Only files of this run are judged.
    let _ = std::fs::remove_dir_all(&outputs);
    std::fs::create_dir_all(&outputs).map_err(|error| format!("could not make {}: {error}", outputs.display()))?;
    crate::run(cargo().env("PALIMPSEST_DATA", &folder).env("PALIMPSEST_OUTPUTS", &outputs).args([
        "test",
        "--release",
        "-p",
        "host-tests",
        "--test",
        "corpus",
        "--",
        "--nocapture",
    ]))?;
    let judge = folder.join(JUDGE);
    if !judge.is_file() || Command::new("python3").arg("--version").output().is_err() {
        println!("SKIPPED: no {JUDGE} beside the data, or no python3; the test's own judge found nothing");
        return Ok(());
    }
    judge_outputs(&judge, &outputs)
}

/// Compares what the judge finds in each output with what it finds in its input.
fn judge_outputs(judge: &Path, outputs: &Path) -> Result<(), String> {
    let mut found: BTreeMap<PathBuf, Errors> = BTreeMap::new();
    for dialect in ["openai", "anthropic", "responses"] {
        let files: Vec<PathBuf> = files_of(outputs, dialect)?;
        for batch in files.chunks(FILES_PER_CALL) {
            found.extend(ask(judge, dialect, batch)?);
        }
    }
    let mut worse = Vec::new();
    let mut pairs = 0;
    for (output, errors) in &found {
        let name = output.to_string_lossy();
        let Some(stem) = name.strip_suffix(".output.json") else { continue };
        let input = found.get(Path::new(&format!("{stem}.input.json")));
        pairs += 1;
        for (code, count) in errors {
            let had = input.and_then(|errors| errors.get(code)).copied().unwrap_or(0);
            if *count > had {
                worse.push(format!("{name}: {count} errors {code}, its input had {had}"));
            }
        }
    }
    println!("{JUDGE}: {pairs} outputs judged beside their inputs, {} with an error of their own", worse.len());
    if worse.is_empty() { Ok(()) } else { Err(worse.join("\n")) }
}

fn files_of(folder: &Path, dialect: &str) -> Result<Vec<PathBuf>, String> {
    let listed = std::fs::read_dir(folder).map_err(|error| format!("could not list {}: {error}", folder.display()))?;
    let is_of = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(&format!(".{dialect}.input.json")) || name.ends_with(&format!(".{dialect}.output.json"))
    };
    let mut files: Vec<PathBuf> =
        listed.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(is_of).collect();
    files.sort();
    Ok(files)
}

fn ask(judge: &Path, dialect: &str, files: &[PathBuf]) -> Result<Vec<(PathBuf, Errors)>, String> {
    let output = Command::new("python3")
        .arg(judge)
        .args(["--json", "--format", dialect])
        .args(files)
        .output()
        .map_err(|error| format!("could not run {JUDGE}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found = Vec::new();
    for line in text.lines() {
        let verdict: Value =
            serde_json::from_str(line).map_err(|error| format!("could not read {JUDGE}'s words: {error}"))?;
        let file = verdict.get("file").and_then(Value::as_str).unwrap_or_default();
        let mut errors = Errors::new();
        for finding in verdict.get("findings").and_then(Value::as_array).into_iter().flatten() {
            if finding.get("severity").and_then(Value::as_str) == Some("error") {
                let code = finding.get("code").and_then(Value::as_str).unwrap_or("?");
                *errors.entry(code.to_owned()).or_default() += 1;
            }
        }
        found.push((PathBuf::from(file), errors));
    }
    if found.len() != files.len() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{JUDGE} judged {} of {} files: {said}", found.len(), files.len()));
    }
    Ok(found)
}
