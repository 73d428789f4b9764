//! Rules of the Cargo.toml files: arrows between crates, homes of heavy crates, versions in one place.

use crate::workspace::{self, File};
use crate::{Problem, assert_none};
use std::fs;

/// Who may know whom among the crates of the workspace. An arrow that is not here is a decision: say why in the commit.
const ARROWS: [(&str, &[&str]); 22] = [
    ("engine-api", &[]),
    ("engine-kit", &["engine-api"]),
    ("engine-compressor", &["engine-api", "engine-kit"]),
    ("engine-lcm", &["engine-api", "engine-kit"]),
    ("engine-codex", &["engine-api", "engine-kit"]),
    ("engine-opencode", &["engine-api", "engine-kit"]),
    ("host-config", &[]),
    ("host-core", &["engine-api", "engine-kit", "host-config"]),
    ("host-wire", &["engine-api"]),
    ("host-tokens", &["engine-api"]),
    ("host-registry", &["engine-api", "engine-compressor", "host-core"]),
    ("host-redact", &[]),
    ("host-llm", &["engine-api", "host-config", "host-core", "host-redact"]),
    ("host-search", &["engine-api"]),
    ("host-hooks", &[]),
    ("host-store", &["engine-api", "host-search"]),
    (
        "host-runtime",
        &[
            "engine-api",
            "host-config",
            "host-core",
            "host-tokens",
            "host-redact",
            "host-registry",
            "host-store",
            "host-wire",
        ],
    ),
    ("host-import", &["engine-api", "host-wire"]),
    (
        "host-gateway",
        &[
            "engine-api",
            "host-config",
            "host-core",
            "host-wire",
            "host-registry",
            "host-runtime",
            "host-llm",
            "host-store",
        ],
    ),
    (
        "host-cli",
        &[
            "engine-api",
            "host-config",
            "host-core",
            "host-wire",
            "host-tokens",
            "host-registry",
            "host-runtime",
            "host-gateway",
            "host-hooks",
            "host-import",
            "host-llm",
            "host-store",
        ],
    ),
    ("xtask", &["host-registry", "host-cli"]),
    // An engine that misbehaves is written as a third party would write it.
    (FIXTURE_ENGINES, &["engine-api", "engine-kit"]),
];
/// Stands in the table for every crate in the folder of misbehaving engines.
const FIXTURE_ENGINES: &str = "tests/fixture-engines/*";
/// The crate of tests over everything; it may know all, and the tests of all may know its judge and generator.
const TESTS: &str = "host-tests";

/// Crates that cost much to build or to trust, and the only crates that may name them.
const HOMES: [(&str, &[&str]); 15] = [
    ("abi_stable", &["engine-api", "host-registry"]),
    ("libloading", &["host-registry"]),
    ("inventory", &["host-registry"]),
    ("object", &["host-registry"]),
    ("serde_yaml", &["host-config", "host-llm", "host-registry"]),
    ("yaml-edit", &["host-config", "host-registry"]),
    ("tiktoken", &["host-tokens"]),
    ("tiktoken-rs", &["host-tokens"]),
    ("clap", &["host-cli", "xtask"]),
    ("rusqlite", &["host-import", "host-search", "host-store"]),
    ("flate2", &["host-gateway", "host-import"]),
    ("reqwest", &["host-gateway", "host-llm"]),
    ("regex-syntax", &["host-search"]),
    ("zstd", &["host-gateway", "host-store"]),
    ("aho-corasick", &["host-redact"]),
];

/// Heavy crates that tests may use anywhere: transcripts are kept compressed.
const TEST_TOOLS: [&str; 1] = ["flate2"];

/// A crate's manifest, as far as the rules need it.
struct Manifest {
    path: String,
    name: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    line: usize,
    is_for_tests: bool,
    is_from_workspace: bool,
}

impl Manifest {
    /// Reads what Cargo reads, in the plain form that this workspace writes it in.
    fn read(path: &str, text: &str) -> Manifest {
        let mut manifest = Manifest { path: path.to_owned(), name: String::new(), dependencies: Vec::new() };
        let mut section = String::new();
        let mut brackets = 0_usize;
        for (index, line) in text.lines().enumerate() {
            let line = line.split(" #").next().unwrap_or("").trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let is_continued = brackets > 0;
            brackets += line.matches(['[', '{']).count();
            brackets = brackets.saturating_sub(line.matches([']', '}']).count());
            if is_continued {
                continue;
            }
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_matches(['[', ']']).to_owned();
                if let Some((kind, name)) = section.rsplit_once('.').filter(|(kind, _)| kind.ends_with("dependencies"))
                {
                    let is_for_tests = kind.ends_with("dev-dependencies");
                    let dependency =
                        Dependency { name: name.into(), line: index + 1, is_for_tests, is_from_workspace: false };
                    manifest.dependencies.push(dependency);
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim().trim_matches('"'), value.trim());
            if section == "package" && key == "name" {
                manifest.name = value.trim_matches('"').to_owned();
            } else if section.ends_with("dependencies") {
                let (name, is_dotted) = match key.strip_suffix(".workspace") {
                    Some(name) => (name, value == "true"),
                    None => (key, false),
                };
                manifest.dependencies.push(Dependency {
                    name: name.to_owned(),
                    line: index + 1,
                    is_for_tests: section.ends_with("dev-dependencies"),
                    is_from_workspace: is_dotted || value.replace(' ', "").contains("workspace=true"),
                });
            } else if section.contains("dependencies.")
                && key == "workspace"
                && let Some(last) = manifest.dependencies.last_mut()
            {
                last.is_from_workspace = value == "true";
            }
        }
        manifest
    }
}

/// Reads the manifests of all crates but the root's, which is no crate.
fn manifests() -> Vec<Manifest> {
    let is_crate = |file: &File| file.path.ends_with("/Cargo.toml");
    workspace::files(&["toml"]).iter().filter(|file| is_crate(file)).map(|f| Manifest::read(&f.path, &f.text)).collect()
}

fn wrong_arrows(manifests: &[Manifest]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let own: Vec<&str> = manifests.iter().map(|manifest| manifest.name.as_str()).collect();
    for manifest in manifests.iter().filter(|manifest| manifest.name != TESTS) {
        let is_fixture = manifest.path.starts_with(FIXTURE_ENGINES.trim_end_matches('*'));
        let entry = if is_fixture { FIXTURE_ENGINES } else { &manifest.name };
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == entry) else {
            let what =
                format!("crate {:?} is not in the table of arrows; add a line to ARROWS in tests/tidy", manifest.name);
            problems.push(Problem::new(&manifest.path, 1, what));
            continue;
        };
        for dependency in manifest.dependencies.iter().filter(|dependency| own.contains(&dependency.name.as_str())) {
            let is_support = dependency.is_for_tests && dependency.name == TESTS;
            if !is_support && !allowed.contains(&dependency.name.as_str()) {
                let what = format!(
                    "{} may not know {}; it may know {allowed:?}: move the code to the crate that owns the data",
                    manifest.name, dependency.name
                );
                problems.push(Problem::new(&manifest.path, dependency.line, what));
            }
        }
    }
    problems
}

fn homeless(manifests: &[Manifest]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for manifest in manifests {
        for dependency in &manifest.dependencies {
            let Some((name, homes)) = HOMES.iter().find(|(name, _)| *name == dependency.name) else { continue };
            let is_test_tool = dependency.is_for_tests && TEST_TOOLS.contains(name);
            if !is_test_tool && !homes.contains(&manifest.name.as_str()) {
                let what = format!("{name} lives in {homes:?} only; use it through them");
                problems.push(Problem::new(&manifest.path, dependency.line, what));
            }
        }
    }
    problems
}

fn own_versions(manifests: &[Manifest]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for manifest in manifests {
        for dependency in manifest.dependencies.iter().filter(|dependency| !dependency.is_from_workspace) {
            let name = &dependency.name;
            let what = format!(
                "{name} has a version of its own; move it to the root Cargo.toml and write `{name}.workspace = true`"
            );
            problems.push(Problem::new(&manifest.path, dependency.line, what));
        }
    }
    problems
}

/// Finds sources in the lock file other than the public index: a mirror of one machine does not belong there.
fn foreign_lock_sources(path: &str, text: &str) -> Vec<Problem> {
    const PUBLIC: &str = "\"registry+https://github.com/rust-lang/crates.io-index\"";
    let sources = text.lines().enumerate().filter_map(|(i, line)| Some((i, line.strip_prefix("source = ")?)));
    sources
        .filter(|(_, source)| *source != PUBLIC)
        .map(|(i, source)| {
            Problem::new(path, i + 1, format!("{source} is not the public index; lock the crate from there"))
        })
        .collect()
}

#[test]
fn crates_know_only_whom_they_may() {
    assert_none(wrong_arrows(&manifests()));
}

#[test]
fn heavy_crates_stay_at_home() {
    assert_none(homeless(&manifests()));
}

#[test]
fn versions_are_written_once() {
    assert_none(own_versions(&manifests()));
}

#[test]
fn every_crate_is_a_member() {
    let root = fs::read_to_string(workspace::root().join("Cargo.toml")).unwrap();
    let start = root.find("members = [").expect("the root lists its members");
    let list = &root[start..start + root[start..].find(']').expect("the list of members ends")];
    let mut problems = Vec::new();
    for manifest in manifests() {
        let folder = manifest.path.trim_end_matches("/Cargo.toml");
        let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !list.contains(&format!("\"{folder}\"")) && !list.contains(&format!("\"{parent}/*\"")) {
            problems.push(Problem::new(
                &manifest.path,
                1,
                format!("add {folder:?} to the members in the root Cargo.toml"),
            ));
        }
    }
    assert_none(problems);
}

#[test]
fn the_lock_file_names_only_the_public_index() {
    let lock = fs::read_to_string(workspace::root().join("Cargo.lock")).unwrap();
    assert_none(foreign_lock_sources("Cargo.lock", &lock));
    let mirror = "[[package]]\nname = \"a\"\nsource = \"sparse+https://mirror.example/index/\"\n";
    assert_eq!(foreign_lock_sources("l", mirror)[0].line, 3);
}

#[test]
fn the_rules_find_what_they_are_for() {
    let text = "[package]\nname = \"engine-kit\"\n\n[dependencies]\nengine-api.workspace = true\nhost-core.workspace = true\n\
        clap = { workspace = true, features = [\n  \"derive\",\n] }\nserde = \"1\" # old\n\n[dev-dependencies]\n\
        host-tests.workspace = true\nflate2.workspace = true\n\n[target.'cfg(unix)'.dependencies.libc]\nversion = \"0.2\"\n\n[dependencies.log]\n\
        workspace = true\n\n[lints]\nworkspace = true\n";
    let kit = Manifest::read("engines/kit/Cargo.toml", text);
    let names: Vec<&str> = kit.dependencies.iter().map(|dependency| dependency.name.as_str()).collect();
    assert_eq!(names, ["engine-api", "host-core", "clap", "serde", "host-tests", "flate2", "libc", "log"]);
    let others = ["engine-api", "host-core", "host-tests", "host-new"];
    let mut all = vec![kit];
    all.extend(
        others.map(|name| Manifest::read(&format!("{name}/Cargo.toml"), &format!("[package]\nname = \"{name}\"\n"))),
    );
    let lines = |problems: Vec<Problem>| problems.into_iter().map(|p| (p.file, p.line)).collect::<Vec<_>>();
    let kit = "engines/kit/Cargo.toml".to_owned();
    assert_eq!(lines(wrong_arrows(&all)), [(kit.clone(), 6), ("host-new/Cargo.toml".to_owned(), 1)]);
    assert_eq!(lines(homeless(&all)), [(kit.clone(), 7)]);
    assert_eq!(lines(own_versions(&all)), [(kit.clone(), 10), (kit, 16)]);
}
