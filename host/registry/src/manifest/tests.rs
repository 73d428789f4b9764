//! Whole manifests, faults with their lines, and hostile YAML.

use super::*;

const WHOLE: &str = r#"manifest: 1
name: my-engine
version: 0.3.1
engine_api: ">=1.0, <2"
description: Keeps a tree of summaries
license: MIT
authors: [A, B]
homepage: https://example.org
kind: context_engine
library:
  linux-x86_64: libmine.so
  windows-x86_64: mine.dll
tools:
  - name: my_grep
    description: Search what was compacted
  - my_expand
settings:
  depth: {type: integer, default: 3}
capabilities: {llm: true, network: false}
mode_hint: process
"#;

fn read(text: &str) -> Result<Manifest, ManifestError> {
    Manifest::parse(text, Path::new("plugins/context_engine/my-engine/plugin.yaml"))
}

/// Returns the line and the text of the fault that replacing a piece of the whole manifest makes.
fn fault(from: &str, to: &str) -> (Option<usize>, String) {
    assert!(WHOLE.contains(from), "{from}");
    let error = read(&WHOLE.replacen(from, to, 1)).unwrap_err();
    assert!(!error.hint.is_empty());
    (error.problem.line, error.problem.text)
}

#[test]
fn a_whole_manifest_is_read() {
    let manifest = read(WHOLE).unwrap();
    assert_eq!(manifest.name.as_str(), "my-engine");
    assert_eq!(manifest.engine_api.to_string(), ">=1.0, <2");
    assert_eq!((manifest.kind, manifest.mode_hint), (Kind::ContextEngine, Some(ModeHint::Process)));
    assert_eq!(manifest.engines, vec![manifest.name.clone()]);
    assert_eq!(manifest.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["my_grep", "my_expand"]);
    assert_eq!(manifest.settings["depth"]["default"], 3);
    assert_eq!(manifest.capabilities.get("network"), Some(&false));
    assert_eq!(manifest.warnings, vec![]);
    assert_eq!(manifest.library_for("linux-x86_64").as_deref(), Some("libmine.so"));
    assert_eq!(manifest.library_for("macos-aarch64"), None);
}

#[test]
fn four_lines_are_enough_and_the_library_has_the_platforms_name() {
    let manifest = read("manifest: 1\nname: my-engine\nversion: \"1.0\"\nengine_api: \"1.1\"\n").unwrap();
    assert_eq!(manifest.library_for("linux-aarch64").as_deref(), Some("libmy_engine.so"));
    assert_eq!(manifest.library_for("macos-x86_64").as_deref(), Some("libmy_engine.dylib"));
    assert_eq!(manifest.library_for("windows-x86_64").as_deref(), Some("my_engine.dll"));
}

#[test]
fn a_general_plugin_names_its_engines() {
    let general = WHOLE.replace("kind: context_engine", "kind: general\nengines: [one, two, one]");
    let names: Vec<String> = read(&general).unwrap().engines.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(fault("kind: context_engine", "kind: general").1.contains("names no engine"));
    assert_eq!(fault("license: MIT", "engines: [other]").0, Some(6));
}

#[test]
fn a_fault_names_its_line() {
    assert_eq!(fault("manifest: 1", "manifest: 2").0, Some(1));
    assert_eq!(fault("name: my-engine\n", "").1, "missing field `name`");
    assert_eq!(fault("name: my-engine", "name: My-Engine").0, Some(2));
    assert_eq!(fault("0.3.1", "1.10"), (Some(3), "`version` is the number 1.1, not a text".to_owned()));
    assert_eq!(fault("0.3.1", "[1]").0, Some(3));
    assert_eq!(fault(">=1.0, <2", "new").0, Some(4));
    assert_eq!(fault("kind: context_engine", "kind: theme").0, Some(9));
    assert_eq!(fault("mine.dll", "../mine.dll").0, Some(10));
    assert_eq!(fault("mine.dll", "C:\\\\mine.dll").0, Some(10));
    assert_eq!(fault("- my_expand", "- my_grep").0, Some(13));
    assert_eq!(fault("- my_expand", "- my expand").0, Some(13));
    assert_eq!(fault("llm: true", "llm: often").0, Some(19));
    assert_eq!(fault("mode_hint: process", "mode_hint: thread").0, Some(20));
    assert_eq!(fault("license: MIT", "license: \"a\\u001b[2J\"").0, Some(6));
}

#[test]
fn bad_yaml_names_its_line() {
    assert_eq!(fault("[A, B]", "[A, B").0.map(|line| line >= 7), Some(true));
    assert!(fault("license: MIT", "name: twice").1.contains("not valid YAML"));
    for text in ["", "# nothing\n", "- a\n- b\n", "just words", "\u{0}", "\t", "&a [*a]"] {
        assert!(read(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_manifest_of_another_program_is_told_apart() {
    assert!(read("name: weather\nversion: 1.0.0\nkind: standalone\n").unwrap_err().is_foreign);
    assert!(!read("manifest: 9\n").unwrap_err().is_foreign);
}

#[test]
fn unknown_keys_warn_and_do_not_stop() {
    let manifest = read(&format!("{WHOLE}min_host: 2\nlibrary-x: 1\n")).unwrap();
    let lines: Vec<_> = manifest.warnings.iter().map(|warning| warning.line).collect();
    assert_eq!(lines, [Some(21), Some(22)]);
    let odd = read(&WHOLE.replace("windows-x86_64", "plan9-mips")).unwrap();
    assert!(odd.warnings[0].text.contains("plan9-mips"));
}

#[test]
fn an_error_reads_like_a_compilers() {
    let error = read(&WHOLE.replace("manifest: 1", "manifest: one")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugins/context_engine/my-engine/plugin.yaml:1: `manifest` is not 1, the form this host reads"
    );
}

#[test]
fn hostile_nesting_and_size_end_at_once() {
    let half = MANIFEST_BYTES_MAX as usize / 2;
    let bomb: String = (0..12).fold("a0: &a0 x\n".to_owned(), |text, level: usize| {
        let name = format!("a{}", level + 1);
        format!("{text}{name}: &{name} [{}]\n", vec![format!("*a{level}"); 9].join(","))
    });
    let texts = ["[".repeat(half), "{a: ".repeat(half / 4), "- ".repeat(half / 2), "? ".repeat(half / 2), bomb];
    for text in texts.into_iter().chain([(0..200).fold(String::new(), |all, level| all + &" ".repeat(level) + "a:\n")])
    {
        assert!(read(&text).is_err(), "{text:.40}");
    }
    assert!(read(&"a".repeat(MANIFEST_BYTES_MAX as usize + 1)).unwrap_err().problem.text.contains("at most"));
}
