//! Files that are no engine's library, names that do not agree, and libraries that end the process they are tried in.

use crate::world::{World, bytes};
use host_registry::State;
use std::fs;
use std::path::{Path, PathBuf};
use support::fixtures::{Fixture, approve, manifest, patched, stage};

/// Where systems keep the library that stands for any library which is no engine.
const FOREIGN_LIBRARIES: [&str; 5] = [
    "/lib/x86_64-linux-gnu/libz.so.1",
    "/lib/aarch64-linux-gnu/libz.so.1",
    "/usr/lib/libz.so.1",
    "/usr/lib64/libz.so.1",
    "/lib/x86_64-linux-gnu/libm.so.6",
];

#[cfg(target_os = "linux")]
#[test]
fn a_library_for_another_machine_is_named_as_such() {
    let world = World::without_probe();
    let mut library = bytes(Fixture::Older);
    // The machine is a number of two bytes at 18.
    let (number, name) = if cfg!(target_arch = "aarch64") { (62, "x86_64") } else { (183, "aarch64") };
    library[18] = number;
    world.put("older", &library);
    let host = format!("this host is {}", std::env::consts::ARCH);
    world.refused("older", State::Unreadable, &[&format!("built for {name}"), &host]);
}

#[test]
fn files_that_are_no_whole_library_are_told_apart() {
    let world = World::without_probe();
    let whole = bytes(Fixture::Older);
    for (library, words) in [
        (&b""[..], "is empty"),
        (b"#!/bin/sh\necho engine\n", "text file"),
        (&whole[..whole.len() / 2], "cut short"),
        (&whole[..4096], "cut short"),
        (&whole[..40], ""),
        (&[0x55; 5000], ""),
        (b"!<arch>\nlibolder.a", "static archive"),
        (b"\x7fELF", ""),
    ] {
        world.put("older", library);
        world.refused("older", State::Unreadable, &[words, "libolder"]);
    }
    world.put("older", &whole);
    world.loaded("older");
}

#[cfg(unix)]
#[test]
fn a_library_without_an_entry_point_is_no_engine() {
    let world = World::without_probe();
    let Some(foreign) = FOREIGN_LIBRARIES.iter().find_map(|path| fs::read(path).ok()) else {
        eprintln!("SKIPPED: none of {FOREIGN_LIBRARIES:?} is on this machine");
        return;
    };
    world.put("older", &foreign);
    world.refused("older", State::NotAnEngine, &["no engine entry point", "libolder"]);
    // The symbol has another name: the same library, but for eight bytes.
    let renamed = patched(&bytes(Fixture::Older), "_1as_0lib_1header", "_1as_0lib_1headed");
    world.put("older", &renamed);
    world.refused("older", State::NotAnEngine, &["no engine entry point"]);
    let silent = patched(&bytes(Fixture::Older), ".ctxengine", ".cdxengine");
    world.put("older", &silent);
    world.refused("older", State::NotAnEngine, &["no engine note"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_that_needs_what_is_not_there_is_refused_by_the_systems_loader() {
    let world = World::new();
    let library = bytes(Fixture::Older);
    // Names of the allowed kind, so that only the loader finds out.
    world.put("older", &patched(&library, "libgcc_s.so.1", "libgcc_s.so.9"));
    world.refused("older", State::Unreadable, &["could not open", "libgcc_s.so.9"]);
    world.put("older", &patched(&library, "libgcc_s.so.1", "libextra.so.1"));
    world.refused("older", State::Untrusted, &["libextra.so.1", "may not load"]);
    world.put("older", &library);
    world.loaded("older");
}

#[cfg(target_os = "linux")]
#[test]
fn a_c_library_is_no_engine_whatever_it_exports() {
    let folder = tempfile::tempdir().unwrap();
    // The right symbol over the wrong bytes: what the loader reads as a header is zero.
    let source = "char _1as_0lib_1header_0root_bmodule_bloader[512];\nint answer(void) { return 42; }\n";
    let Some(library) = compiled(folder.path(), source) else {
        eprintln!("SKIPPED: there is no working `cc` on this machine");
        return;
    };
    let world = World::without_probe();
    world.put("older", &library);
    world.refused("older", State::NotAnEngine, &["no engine note"]);

    let note = "CTXENGINE/1\\nname=older\\nversion=0.1.0\\nengine_api=1.0.0\\npanic=unwind\\n";
    let source = format!("{source}__attribute__((section(\".ctxengine\"))) char note[512] = \"{note}\";\n");
    let library = compiled(folder.path(), &source).unwrap();
    let world = World::new();
    world.put("older", &library);
    world.refused("older", State::NotAnEngine, &["not an engine's", "header"]);
}

/// Compiles a library in C; `None` without a compiler.
#[cfg(target_os = "linux")]
fn compiled(folder: &Path, source: &str) -> Option<Vec<u8>> {
    let (from, to): (PathBuf, PathBuf) = (folder.join("library.c"), folder.join("library.so"));
    fs::write(&from, source).unwrap();
    let status = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&to).arg(&from).status().ok()?;
    status.success().then(|| fs::read(&to).unwrap())
}

#[test]
fn folder_manifest_note_and_code_must_have_one_name() {
    let world = World::new();
    let older = bytes(Fixture::Older);
    let elder = patched(&older, "name=older", "name=elder");
    for (folder, manifest_name, library, words) in [
        ("elder", "older", &older, "the folder is elder"),
        ("elder", "elder", &older, "says it is older"),
        // The note agrees, the code does not.
        ("elder", "elder", &elder, "registers older"),
    ] {
        let folder = stage(&world.engines(), folder, library, &manifest(manifest_name)).unwrap();
        approve(world.home(), &folder).unwrap();
        world.refused("elder", State::Invalid, &[words, "name"]);
    }
    world.put("crash", &bytes(Fixture::Misnamed));
    world.refused("crash", State::Invalid, &["registers \"crash\"", "calls itself \"somebody-else\""]);
}

#[test]
fn the_manifest_must_allow_this_host() {
    let world = World::without_probe();
    let older = bytes(Fixture::Older);
    for (line, words) in
        [("engine_api: \">=1.2\"", "asks for engine API >=1.2"), ("engine_api: \"2\"", "asks for engine API 2")]
    {
        let text = manifest("older").replace("engine_api: \">=1.0, <2\"", line);
        let folder = stage(&world.engines(), "older", &older, &text).unwrap();
        approve(world.home(), &folder).unwrap();
        world.refused("older", State::Incompatible, &[words, "this host has 1.1.0"]);
    }
}

#[test]
fn a_library_that_ends_its_process_does_not_end_this_one() {
    for fixture in [Fixture::Crash, Fixture::CrashAtOpen, Fixture::CrashWithSuccess] {
        let world = World::new();
        world.put("crash", &bytes(fixture));
        world.put("older", &bytes(Fixture::Older));
        let seen = world.refused("crash", State::CrashedOnProbe, &["ended the process that tried to load it"]);
        let how = if fixture == Fixture::CrashWithSuccess { "exit status: 0" } else { "signal" };
        assert!(seen.contains(how) || cfg!(not(unix)), "{fixture:?}: {seen}");
        world.loaded("older");
        let line = world.registry().list("older").into_iter().find(|line| line.name == "crash").unwrap();
        assert_eq!(line.state, State::CrashedOnProbe);
    }
}

#[test]
fn an_engine_that_cannot_be_made_is_refused_with_the_place_of_its_panic() {
    let bad = bytes(Fixture::Bad);
    let text = support::fixtures::general_manifest("bad", &["sound", fixture_bad::PANICS_IN_NEW]);
    let mut world = World::without_probe();
    world.put_general("bad", &bad, &text);
    world.setup.enabled.push("bad".to_owned());
    let resolved = world.resolve(fixture_bad::PANICS_IN_NEW);
    let fault = resolved.fallback.unwrap();
    assert_eq!((resolved.name.as_str(), fault.state), ("compressor", State::Invalid));
    for word in ["could not be made", "no engine today", "bad/src/lib.rs:"] {
        assert!(fault.why.contains(word), "{word:?} is not said: {}", fault.why);
    }
    world.loaded("sound");
}
