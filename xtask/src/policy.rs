//! Which licences and known faults of dependencies are accepted, checked without a network.

use crate::cargo;
use std::collections::BTreeSet;

/// Licences that a dependency may have. Each needs no more than its notice, but for the last two.
const ACCEPTED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "BSL-1.0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    // Copyleft per file, unmodified: generational-arena, through abi_stable.
    "MPL-2.0",
    "CDLA-Permissive-2.0",
];

/// Packages that are known to be unmaintained, and why they are accepted: both come with abi_stable 0.11.3 only.
/// No vulnerability is known in either (RUSTSEC-2024-0014, RUSTSEC-2024-0436).
const UNMAINTAINED: &[&str] = &["generational-arena", "paste"];

/// Packages that must not come in: `serde_yml` is unsound (RUSTSEC-2025-0068), the others have maintained successors.
const REFUSED: &[&str] = &["serde_yml", "serde_yaml", "openssl-sys", "atty"];

/// Checks every package of the lock file.
pub(crate) fn licences() -> Result<(), String> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|error| format!("could not run cargo metadata: {error}"))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("could not read cargo metadata: {error}"))?;
    let packages =
        metadata.get("packages").and_then(serde_json::Value::as_array).ok_or("cargo metadata lists no packages")?;
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for package in packages {
        let text = |key: &str| package.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        let name = text("name");
        seen.insert(name.to_owned());
        if REFUSED.contains(&name) {
            problems.push(format!("{name} must not be a dependency (see xtask/src/policy.rs)"));
        }
        if !is_accepted(text("license")) {
            problems.push(format!(
                "{name} {} has licence \"{}\", which is not accepted",
                text("version"),
                text("license")
            ));
        }
    }
    for name in UNMAINTAINED.iter().filter(|name| !seen.contains(**name)) {
        problems.push(format!("{name} is no dependency any more: take it off the list of unmaintained packages"));
    }
    if problems.is_empty() {
        println!("licences: {} packages, all accepted", packages.len());
        return Ok(());
    }
    Err(problems.join("\n"))
}

/// Tells whether an SPDX expression can be met by accepted licences: one side of an OR, both of an AND.
fn is_accepted(expression: &str) -> bool {
    // `/` is the old way to write OR.
    let expression = expression.replace('/', " OR ");
    if expression.trim().is_empty() {
        return false;
    }
    let expression = expression.replace(['(', ')'], " ");
    expression.split(" AND ").all(|part| part.split(" OR ").any(|one| ACCEPTED.contains(&one.trim())))
}
