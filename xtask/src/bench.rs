//! Runs the benchmarks and gathers their rows.

use crate::cargo;
use std::path::Path;
use std::process::Stdio;

/// Benchmarks. Each prints one JSON row a line: `{name, unit, ours, peer, ratio, goal, met}`.
const BENCHES: &[&str] =
    &["boundary", "compressor", "cost", "gateway", "import", "redact", "search", "store", "tokens"];

/// Returns the package of a benchmark: the tests', but for those that need what no other crate may name.
fn package(bench: &str) -> &'static str {
    match bench {
        "tokens" => "host-tokens",
        "search" => "host-search",
        _ => "host-tests",
    }
}

/// Measures everything, or one benchmark; with `json`, writes the rows there as one list.
pub(crate) fn run(only: Option<&str>, json: Option<&Path>) -> Result<(), String> {
    if let Some(name) = only.filter(|name| !BENCHES.contains(name)) {
        return Err(format!("there is no benchmark {name:?}, only {}", BENCHES.join(", ")));
    }
    let mut rows: Vec<serde_json::Value> = Vec::new();
    for bench in BENCHES.iter().filter(|bench| only.is_none_or(|only| only == **bench)) {
        let mut command = cargo();
        // It takes minutes to set up, so only where it is asked for by name.
        if only == Some("compressor") {
            match crate::clients::hermes() {
                Ok(python) => drop(command.env("PALIMPSEST_HERMES_PYTHON", python)),
                Err(problem) => println!("SKIPPED: Hermes is not measured: {problem}"),
            }
        }
        let output = command
            .args(["bench", "-p", package(bench), "--bench", bench])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("could not run the benchmark {bench}: {error}"))?;
        if !output.status.success() {
            return Err(format!("the benchmark {bench} ended with {}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        rows.extend(
            text.lines().filter(|line| line.starts_with('{')).filter_map(|line| serde_json::from_str(line).ok()),
        );
    }
    println!("{:<64} {:>10} {:>10} {:>8}  {:<12} met", "what", "ours", "peer", "ratio", "goal");
    for row in &rows {
        let text = |key: &str| row.get(key).and_then(serde_json::Value::as_str).unwrap_or("-").to_owned();
        let number = |key: &str| row.get(key).and_then(serde_json::Value::as_f64);
        let shown = |key: &str| number(key).map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        println!(
            "{:<64} {:>10} {:>10} {:>8}  {:<12} {}",
            format!("{} [{}]", text("name"), text("unit")),
            shown("ours"),
            shown("peer"),
            number("ratio").map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x")),
            text("goal"),
            row.get("met").map(|met| if met.as_bool() == Some(true) { "yes" } else { "NO" }).unwrap_or("-"),
        );
    }
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&rows).map_err(|error| error.to_string())?;
        std::fs::write(file, text).map_err(|error| format!("could not write {}: {error}", file.display()))?;
    }
    Ok(())
}
