//! The program as a person runs it: a transcript and settings go in, a conversation and a receipt come out.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod compact;
mod engines;
mod local_model;
mod sessions;
mod wrap;

use serde_json::Value;
use std::path::PathBuf;
use support::env::{Outcome, TestEnv};
use support::fixtures::{self, Fixture};

/// A real session of 778 messages, about 340,000 tokens.
const LARGE: &str = "anthropic-messages/an-cc-105-user-turns-full.json.gz";

fn transcript(name: &str) -> PathBuf {
    support::corpus::own_folder().join(name)
}

fn env() -> TestEnv {
    TestEnv::new(Fixture::Program.path()).expect("the folders of a test can be made")
}

/// Lays the lcm engine's folder as the repository ships it, with this library.
fn lay_lcm(env: &TestEnv, library: &[u8]) -> PathBuf {
    let manifest = include_str!("../../plugins/context_engine/lcm/plugin.yaml");
    let area = env.plugins().join("context_engine");
    let folder = fixtures::stage(&area, "lcm", library, manifest).expect("a plugin's folder can be laid");
    // The shipped manifest names its file; the fixtures lay one by the rule for manifests that do not.
    let shipped = folder.join(format!("{}engine_lcm{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    std::fs::write(&shipped, library).expect("a library can be written");
    fixtures::set_mode(&shipped, 0o644).expect("a mode can be set");
    folder
}

fn approved_lcm(env: &TestEnv) -> PathBuf {
    let library = std::fs::read(Fixture::Lcm.path()).expect("the engine was built");
    let folder = lay_lcm(env, &library);
    approve(env, &folder);
    folder
}

/// Approves a plugin where it lies: it is installed into the folder that it is in.
fn approve(env: &TestEnv, folder: &std::path::Path) {
    let (plugins, folder) = (env.plugins().display().to_string(), folder.display().to_string());
    run(env, &["--plugins", &plugins, "engines", "install", "--trust", &folder]).success();
}

fn run(env: &TestEnv, arguments: &[&str]) -> Outcome {
    env.run(arguments).expect("the program can be started")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}\n{text}"))
}
