//! Runs the benchmarks and gathers their rows.

use crate::cargo;
use std::path::Path;
use std::process::Stdio;

/// Benchmarks, as targets of the tests' package. Each prints one JSON row a line:
/// `{name, unit, ours, peer, ratio, goal, met}`.
const BENCHES: &[&str] = &["boundary", "import", "redact"];

/// Measures; with `json`, writes the rows there as one list.
pub(crate) fn run(json: Option<&Path>) -> Result<(), String> {
    let mut rows: Vec<serde_json::Value> = Vec::new();
    for bench in BENCHES {
        let output = cargo()
            .args(["bench", "-p", "host-tests", "--bench", bench])
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
    println!("{:<44} {:>12} {:>12} {:>8}  {:<14} met", "what", "ours", "peer", "ratio", "goal");
    for row in &rows {
        let text = |key: &str| row.get(key).and_then(serde_json::Value::as_str).unwrap_or("-").to_owned();
        let number = |key: &str| row.get(key).and_then(serde_json::Value::as_f64);
        let shown = |key: &str| number(key).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        println!(
            "{:<44} {:>12} {:>12} {:>8}  {:<14} {}",
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
