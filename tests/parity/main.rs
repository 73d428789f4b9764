//! What Hermes 0.19.0 was seen to do, case by case: the same here, or a difference that is named with its reason.
//!
//! The cases are observations of the real program. A difference that no list names fails its test, and so does a listed
//! one that is none any more.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

mod budgets;
mod codex;
mod command;
mod example;
mod settings;
mod store;

use serde_json::Value;

/// Reads the cases of a golden file.
fn cases(name: &str) -> Vec<Value> {
    let path = format!("{}/goldens/hermes/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("could not read {path}: {error}"));
    let golden: Value = serde_json::from_str(&text).unwrap();
    let cases = golden["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{path} has no cases");
    cases
}
