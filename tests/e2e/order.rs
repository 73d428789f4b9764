//! Which engine is taken, and when none of the plugins may be.

use crate::world::{World, bytes};
use host_registry::{Source, State};
use std::fs;
use support::fixtures::{Fixture, approve, general_manifest, library_file, manifest, patched, set_mode, stage};

#[test]
fn the_first_of_two_plugins_folders_comes_first() {
    let mut world = World::without_probe();
    let older = bytes(Fixture::Older);
    let first = world.put("older", &older);
    let second = stage(&world.add_root().join("context_engine"), "older", &older, &manifest("older")).unwrap();
    let Source::Folder(used) = world.loaded("older").source else { panic!("not from a folder") };
    assert_eq!(used, fs::canonicalize(&first).unwrap());
    let registry = world.registry();
    let skipped = registry.discovery().why_not("older").unwrap();
    assert_eq!(
        (skipped.state, fs::canonicalize(&skipped.path).unwrap()),
        (State::Shadowed, fs::canonicalize(&second).unwrap())
    );
    fs::remove_dir_all(&first).unwrap();
    let Source::Folder(used) = world.loaded("older").source else { panic!("not from a folder") };
    assert_eq!(used, fs::canonicalize(&second).unwrap());
}

#[test]
fn an_engines_own_folder_comes_before_a_general_plugin() {
    let mut world = World::without_probe();
    world.put_general("bad", &bytes(Fixture::Bad), &general_manifest("bad", &["sound"]));
    world.setup.enabled.push("bad".to_owned());
    assert!(matches!(world.loaded("sound").source, Source::General(_)));
    let own = world.put("sound", &patched(&bytes(Fixture::Older), "older", "sound"));
    let resolved = world.loaded("sound");
    assert!(matches!(resolved.source, Source::Folder(_)), "{}", resolved.source);
    assert_eq!(resolved.engine.info().description, "built for engine API 1.0.0");
    fs::remove_dir_all(own).unwrap();
    assert!(matches!(world.loaded("sound").source, Source::General(_)));
}

#[test]
fn a_general_plugin_is_used_only_when_it_is_enabled() {
    let mut world = World::without_probe();
    world.put_general("bad", &bytes(Fixture::Bad), &general_manifest("bad", &["sound", "errors"]));
    world.refused("sound", State::Disabled, &["general plugin bad", "not enabled", "plugins.enabled"]);
    world.setup.enabled.push("bad".to_owned());
    for name in ["sound", "errors"] {
        assert_eq!(world.loaded(name).engine.info().name, name);
    }
    // An engine that the library has and its manifest keeps quiet about is not there.
    world.refused("hangs", State::Missing, &["hangs"]);
    world.setup.disabled.push("bad".to_owned());
    world.refused("sound", State::Disabled, &["not enabled"]);
}

#[test]
fn a_disabled_engine_is_not_used() {
    let mut world = World::without_probe();
    world.put("older", &bytes(Fixture::Older));
    world.setup.disabled.push("older".to_owned());
    world.refused("older", State::Disabled, &["plugins.disabled"]);
    world.setup.disabled.clear();
    world.loaded("older");
}

#[test]
fn an_engine_that_is_nowhere_is_said_to_be_looked_for() {
    let world = World::without_probe();
    world.refused("elsewhere", State::Missing, &["no engine elsewhere", "plugins/context_engine/elsewhere"]);
    for name in ["../older", "a/b", "Older", "öl", "nul"] {
        world.refused(name, State::Invalid, &["context.engine is", name]);
    }
}

#[test]
fn bytes_that_nobody_approved_are_not_loaded() {
    let world = World::without_probe();
    let older = bytes(Fixture::Older);
    let folder = stage(&world.engines(), "older", &older, &manifest("older")).unwrap();
    world.refused("older", State::Untrusted, &["nobody approved it yet", "sha256", "--trust"]);
    approve(world.home(), &folder).unwrap();
    world.loaded("older");

    let library = folder.join(library_file("older"));
    fs::write(&library, patched(&older, " summary of ", " SUMMARY of ")).unwrap();
    world.refused("older", State::Untrusted, &["its library is not the approved one"]);
    fs::write(&library, &older).unwrap();
    world.loaded("older");

    fs::write(folder.join("plugin.yaml"), format!("{}license: MIT\n", manifest("older"))).unwrap();
    world.refused("older", State::Untrusted, &["its plugin.yaml is not the approved one"]);
}

#[test]
fn a_library_that_changes_after_it_was_looked_at_is_not_loaded() {
    let world = World::without_probe();
    let older = bytes(Fixture::Older);
    let folder = world.put("older", &older);
    let registry = world.registry();
    fs::write(folder.join(library_file("older")), patched(&older, " summary of ", " SUMMARY of ")).unwrap();
    let resolved = registry.resolve("older", &|_| engine_api::json::json!({})).unwrap();
    let fault = resolved.fallback.unwrap();
    assert_eq!(resolved.name, "compressor");
    assert!(fault.why.contains("approved was"), "{}", fault.why);
}

#[cfg(unix)]
#[test]
fn links_and_files_that_others_can_change_are_refused() {
    let world = World::without_probe();
    let folder = world.put("older", &bytes(Fixture::Older));
    let library = folder.join(library_file("older"));

    for (path, mode) in [(&library, 0o777), (&library, 0o775), (&folder, 0o777), (&folder.join("plugin.yaml"), 0o666)] {
        let before = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777;
        set_mode(path, mode).unwrap();
        let who = if mode & 0o002 != 0 { "everyone" } else { "its group" };
        world.refused("older", State::Untrusted, &[who, &format!("{mode:o}"), "chmod go-w"]);
        set_mode(path, before).unwrap();
    }
    world.loaded("older");

    let outside = world.home().with_file_name("outside.so");
    fs::rename(&library, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &library).unwrap();
    world.refused("older", State::Untrusted, &["leads out of the plugins folder", "outside.so"]);
    fs::remove_file(&library).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all.so", &library).unwrap();
    world.refused("older", State::Untrusted, &["leads out of the plugins folder"]);
    fs::remove_file(&library).unwrap();
    world.refused("older", State::Missing, &["does not exist"]);
}
