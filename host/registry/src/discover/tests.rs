//! Whole plugins folders: sound, faulty and hostile ones.

use super::*;
use crate::sample::{HOST, Library, engine, file, folder, manifest, mode, plugin};
use tempfile::TempDir;

struct World {
    home: TempDir,
    root: PathBuf,
}

fn world() -> World {
    let home = tempfile::tempdir().unwrap();
    folder(home.path(), "plugins");
    let root = fs::canonicalize(home.path().join("plugins")).unwrap();
    World { home, root }
}

impl World {
    fn trust(&self) -> TrustFile {
        TrustFile::load(self.home.path().join("engines.lock"))
    }

    fn scan(&self) -> Discovery {
        Discovery::scan(std::slice::from_ref(&self.root), &self.trust(), HOST)
    }

    /// Approves whatever only waits for approval.
    fn approve_all(&self) {
        let mut trust = self.trust();
        for skipped in self.scan().skipped {
            if let (State::Untrusted, Some(candidate)) = (skipped.state, skipped.candidate) {
                trust.approve(&candidate.plugin, candidate.approval()).unwrap();
            }
        }
    }

    /// Returns how each skipped plugin stands and why.
    fn skipped(&self) -> Vec<(String, State, String)> {
        let discovery = self.scan();
        assert_eq!(discovery.found.len(), 0);
        discovery
            .skipped
            .into_iter()
            .map(|skipped| {
                assert!(!skipped.hint.is_empty());
                (skipped.name, skipped.state, skipped.why)
            })
            .collect()
    }

    fn only(&self, state: State, why: &str) {
        let skipped = self.skipped();
        assert_eq!(skipped.len(), 1, "{skipped:?}");
        assert_eq!(skipped[0].1, state, "{skipped:?}");
        assert!(skipped[0].2.contains(why), "{skipped:?}");
    }
}

fn names(discovery: &Discovery) -> Vec<&str> {
    discovery.found.iter().map(|candidate| candidate.plugin.as_str()).collect()
}

#[cfg(target_os = "linux")]
mod on_linux {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_engine_is_usable_once_it_is_approved() {
        let world = world();
        engine(&world.root, "lcm");
        world.only(State::Untrusted, "nobody approved it yet");
        world.approve_all();
        let discovery = world.scan();
        assert_eq!(names(&discovery), ["lcm"]);
        assert!(discovery.skipped.is_empty() && discovery.notices.is_empty());
        let lcm = discovery.find("lcm").unwrap();
        assert_eq!(lcm.trust, Trust::Trusted);
        assert_eq!(lcm.library_file_name(), "libsample.so");
        assert_eq!(lcm.read_library().unwrap(), Library::named("lcm").bytes());
    }

    #[test]
    fn changed_bytes_are_no_longer_approved() {
        let world = world();
        let dir = engine(&world.root, "lcm");
        world.approve_all();
        let found = world.scan().found.remove(0);
        let mut library = Library::named("lcm");
        library.version = "0.1.1".to_owned();
        file(&dir.join("libsample.so"), &library.bytes());
        world.only(State::Untrusted, "its library is not the approved one");
        assert!(found.read_library().is_err());
        file(&dir.join("libsample.so"), &Library::named("lcm").bytes());
        file(&dir.join("plugin.yaml"), format!("{}license: MIT\n", manifest("lcm")).as_bytes());
        world.only(State::Untrusted, "its plugin.yaml is not the approved one");
    }

    #[test]
    fn names_must_agree() {
        let world = world();
        plugin(&world.root, "context_engine/one", &manifest("two"), &Library::named("one").bytes());
        plugin(&world.root, "context_engine/three", &manifest("three"), &Library::named("other").bytes());
        let skipped = world.skipped();
        assert!(skipped.iter().all(|(_, state, _)| *state == State::Invalid), "{skipped:?}");
        assert!(skipped[0].2.contains("the folder is one"), "{skipped:?}");
        assert!(skipped[1].2.contains("says it is other"), "{skipped:?}");
    }

    #[test]
    fn odd_folder_names_are_explained_and_hidden_ones_are_not_listed() {
        let world = world();
        for name in ["con", "compressor", "über", "a b", "..."] {
            folder(&world.root, &format!("context_engine/{name}"));
        }
        folder(&world.root, "context_engine/.git");
        folder(&world.root, "context_engine/__pycache__");
        engine(&world.root, "lcm");
        plugin(&world.root, "context_engine/LCM", &manifest("lcm"), &Library::named("lcm").bytes());
        world.approve_all();
        let discovery = world.scan();
        assert_eq!(names(&discovery), ["lcm"]);
        let why = |name: &str| discovery.why_not(name).unwrap_or_else(|| panic!("{name} is not listed")).why.clone();
        assert!(why("LCM").contains("only in case"));
        assert!(why("con").contains("device"));
        assert!(why("compressor").contains("reserved"));
        assert!(why("über").contains("U+00FC"));
        assert!(why("a b").contains("only a-z"));
        assert_eq!(discovery.skipped.len(), 5);
    }

    #[test]
    fn versions_of_another_major_are_incompatible_and_both_are_told() {
        let world = world();
        let mut library = Library::named("lcm");
        library.api = "2.0.0".to_owned();
        plugin(&world.root, "context_engine/lcm", &manifest("lcm"), &library.bytes());
        world.only(State::Incompatible, "built for engine API 2.0.0, this host has 1.1.0");
        file(
            &world.root.join("context_engine/lcm/plugin.yaml"),
            manifest("lcm").replace("\"1.1\"", "\">=1.4, <2\"").as_bytes(),
        );
        world.only(State::Incompatible, "asks for engine API >=1.4, <2, this host has 1.1.0");
        let elsewhere = manifest("lcm").replace(&crate::host_platform(), "windows-x86_64");
        file(&world.root.join("context_engine/lcm/plugin.yaml"), elsewhere.as_bytes());
        if !cfg!(windows) {
            world.only(State::Incompatible, "only for windows-x86_64");
        }
    }

    #[test]
    fn missing_and_damaged_files_are_told_apart() {
        let world = world();
        let dir = engine(&world.root, "lcm");
        let library = Library::named("lcm").bytes();
        file(&dir.join("libsample.so"), &library[..library.len() / 2]);
        world.only(State::Unreadable, "cut short");
        file(&dir.join("libsample.so"), b"");
        world.only(State::Unreadable, "empty");
        fs::remove_file(dir.join("libsample.so")).unwrap();
        world.only(State::Missing, "does not exist");
        fs::create_dir(dir.join("libsample.so")).unwrap();
        mode(&dir.join("libsample.so"), 0o755);
        world.only(State::Unreadable, "not a regular file");
        file(&dir.join("plugin.yaml"), b"\xff\xfe");
        world.only(State::Invalid, "not UTF-8");
        file(&dir.join("plugin.yaml"), b"name: weather\n");
        world.only(State::NotAnEngine, "missing key `manifest`");
        fs::remove_file(dir.join("plugin.yaml")).unwrap();
        world.only(State::Invalid, "plugin.yaml does not exist");
    }

    #[test]
    fn a_pipe_in_place_of_a_library_does_not_block() {
        let world = world();
        let dir = engine(&world.root, "lcm");
        fs::remove_file(dir.join("libsample.so")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(dir.join("libsample.so")).status();
        if made.is_ok_and(|status| status.success()) {
            mode(&dir.join("libsample.so"), 0o644);
            world.only(State::Unreadable, "not a regular file");
        }
    }

    #[test]
    fn links_out_of_the_root_are_refused_and_links_within_are_followed() {
        let world = world();
        let outside = tempfile::tempdir().unwrap();
        file(&outside.path().join("lib.so"), &Library::named("lcm").bytes());
        let dir = engine(&world.root, "lcm");
        fs::remove_file(dir.join("libsample.so")).unwrap();
        symlink(outside.path().join("lib.so"), dir.join("libsample.so")).unwrap();
        world.only(State::Untrusted, "leads out of the plugins folder");
        fs::remove_file(dir.join("libsample.so")).unwrap();
        symlink("nowhere.so", dir.join("libsample.so")).unwrap();
        world.only(State::Untrusted, "nowhere.so");
        fs::remove_file(dir.join("libsample.so")).unwrap();
        file(&world.root.join("context_engine/real"), &Library::named("lcm").bytes());
        symlink("../real", dir.join("libsample.so")).unwrap();
        world.only(State::Untrusted, "nobody approved it yet");

        let linked = tempfile::tempdir().unwrap();
        engine(outside.path(), "lcm");
        symlink(outside.path().join("context_engine"), linked.path().join("context_engine")).unwrap();
        let discovery = Discovery::scan(&[linked.path().to_owned()], &world.trust(), HOST);
        assert!(discovery.found.is_empty() && discovery.skipped.is_empty());
        assert!(discovery.notices[0].contains("leads out"), "{:?}", discovery.notices);
    }

    #[test]
    fn what_others_can_change_is_untrusted_whichever_part_it_is() {
        let world = world();
        let dir = engine(&world.root, "lcm");
        world.approve_all();
        for (path, closed) in [
            (dir.join("libsample.so"), 0o644),
            (dir.join("plugin.yaml"), 0o644),
            (dir.clone(), 0o755),
            (world.root.join("context_engine"), 0o755),
            (world.root.clone(), 0o755),
        ] {
            for (open, who) in [(0o020, "its group"), (0o002, "everyone")] {
                mode(&path, closed | open);
                world.only(State::Untrusted, who);
                mode(&path, closed);
            }
        }
        mode(world.home.path(), 0o777);
        let skipped = world.scan().skipped.remove(0);
        assert!(skipped.why.contains("lets everyone replace"), "{}", skipped.why);
        mode(world.home.path(), 0o700);
        assert_eq!(names(&world.scan()), ["lcm"]);
    }

    #[test]
    fn an_earlier_root_comes_first_and_only_a_usable_engine_shadows() {
        let (world, other) = (world(), world_beside());
        engine(&world.root, "lcm");
        engine(&other.root, "lcm");
        engine(&other.root, "acme");
        let roots = [world.home.path().join("missing"), world.root.clone(), other.root.clone(), world.root.clone()];
        let mut trust = world.trust();
        for skipped in Discovery::scan(&roots, &trust, HOST).skipped {
            let candidate = skipped.candidate.unwrap();
            trust.approve(&candidate.plugin, candidate.approval()).unwrap();
        }
        let discovery = Discovery::scan(&roots, &trust, HOST);
        assert_eq!(names(&discovery), ["lcm", "acme"]);
        assert_eq!(discovery.skipped.len(), 1);
        assert_eq!(discovery.skipped[0].state, State::Shadowed);
        assert!(discovery.skipped[0].candidate.is_some());

        let mut library = Library::named("lcm");
        library.version = "6.6.6".to_owned();
        file(&world.root.join("context_engine/lcm/libsample.so"), &library.bytes());
        let discovery = Discovery::scan(&roots, &trust, HOST);
        assert_eq!(discovery.find("lcm").unwrap().root, other.root);
        assert_eq!(discovery.why_not("lcm").unwrap().state, State::Untrusted);
    }

    #[test]
    fn general_plugins_come_after_the_engines_folder_and_are_found_by_their_engines() {
        let world = world();
        let general = |name: &str, engines: &str| {
            manifest(name).replace("version:", &format!("kind: general\nengines: {engines}\nversion:"))
        };
        plugin(&world.root, "acme", &general("acme", "[lcm, anvil]"), &Library::named("acme").bytes());
        engine(&world.root, "lcm");
        plugin(&world.root, "weather", "name: weather\nversion: 1.0.0\n", b"");
        mode(&world.root.join("weather/plugin.yaml"), 0o666);
        folder(&world.root, "docs");
        let waiting = world.scan();
        assert_eq!(waiting.why_not("anvil").unwrap().name, "acme");
        assert_eq!(waiting.skipped.len(), 2);
        world.approve_all();
        let discovery = world.scan();
        assert_eq!(names(&discovery), ["lcm", "acme"]);
        assert_eq!(discovery.find("lcm").unwrap().kind, Kind::ContextEngine);
        assert_eq!(discovery.find("anvil").unwrap().kind, Kind::General);
        assert!(discovery.find("acme").is_none());
        assert!(discovery.skipped.is_empty(), "{:?}", discovery.skipped);
    }

    #[test]
    fn a_plugin_in_the_wrong_place_is_told_where_it_belongs() {
        let world = world();
        plugin(&world.root, "lcm", &manifest("lcm"), &Library::named("lcm").bytes());
        file(&world.root.join("plain.txt"), b"");
        world.only(State::Invalid, "belongs in context_engine/lcm");
    }

    #[test]
    fn a_bare_library_is_told_how_to_be_installed() {
        let world = world();
        folder(&world.root, "context_engine");
        file(&world.root.join("context_engine/libx.so"), b"x");
        file(&world.root.join("context_engine/README.md"), b"x");
        world.only(State::Invalid, "a library alone");
    }
}

fn world_beside() -> World {
    world()
}

#[test]
fn a_crowded_folder_is_cut_with_a_notice() {
    let world = world();
    folder(&world.root, "context_engine");
    for number in 0..=ENTRIES_MAX {
        fs::write(world.root.join(format!("context_engine/{number}")), b"").unwrap();
    }
    let discovery = world.scan();
    assert!(discovery.notices[0].contains("over 1000 entries"), "{:?}", discovery.notices);
}

#[test]
fn a_damaged_approval_file_is_told() {
    let world = world();
    file(&world.home.path().join("engines.lock"), b"{");
    assert!(world.scan().notices[0].contains("no engine is approved"));
}

#[test]
fn roots_that_are_files_or_missing_are_passed_over() {
    let world = world();
    file(&world.home.path().join("plain"), b"");
    let roots = [world.home.path().join("plain"), world.home.path().join("none"), PathBuf::new()];
    let discovery = Discovery::scan(&roots, &world.trust(), HOST);
    assert!(discovery.found.is_empty() && discovery.skipped.is_empty());
}
