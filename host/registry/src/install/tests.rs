//! Installing from a folder and from a library alone, replacing, refusing, and removing.

use super::*;
use crate::discover::Discovery;
use crate::sample::{HOST, Library, engine, file, folder, manifest, mode, plugin};
use crate::state::State;
use tempfile::TempDir;

struct World {
    home: TempDir,
    root: PathBuf,
    trust: TrustFile,
}

fn world() -> World {
    let home = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(home.path()).unwrap().join("plugins");
    let trust = TrustFile::load(home.path().join("engines.lock"));
    World { home, root, trust }
}

impl World {
    fn install(&mut self, path: &Path, approve: bool) -> Result<Installed, InstallError> {
        install(path, &self.root, &mut self.trust, approve, HOST)
    }

    fn usable(&self) -> Vec<String> {
        let trust = TrustFile::load(self.trust.path());
        let discovery = Discovery::scan(std::slice::from_ref(&self.root), &trust, HOST);
        discovery.found.iter().map(|candidate| candidate.plugin.to_string()).collect()
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.root.join(ENGINES_FOLDER)).map_or(true, |mut entries| entries.next().is_none())
    }
}

fn name(text: &str) -> EngineName {
    EngineName::parse(text).unwrap()
}

#[cfg(target_os = "linux")]
mod on_linux {
    use super::*;

    #[test]
    fn a_folder_is_installed_and_approved() {
        let mut world = world();
        let from = tempfile::tempdir().unwrap();
        let source = engine(from.path(), "lcm");
        let done = world.install(&source, false).unwrap();
        assert_eq!((done.name.as_str(), done.was_there, done.trust), ("lcm", false, Trust::Unknown));
        assert_eq!(done.dir, world.root.join("context_engine/lcm"));
        assert!(done.warnings.is_empty(), "{:?}", done.warnings);
        assert!(world.usable().is_empty());

        let done = world.install(&source.join("plugin.yaml"), true).unwrap();
        assert_eq!((done.was_there, done.trust), (true, Trust::Trusted));
        assert_eq!(world.usable(), ["lcm"]);
        assert_eq!(fs::read(done.dir.join("libsample.so")).unwrap(), Library::named("lcm").bytes());
        let left: Vec<_> = fs::read_dir(world.root.join(ENGINES_FOLDER)).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing unfinished is left behind");
    }

    #[test]
    fn a_library_alone_gets_a_manifest_from_its_note() {
        let mut world = world();
        let library = world.home.path().join("libmy engine.so");
        let mut sample = Library::named("my-engine");
        sample.version = "1.10".to_owned();
        file(&library, &sample.bytes());
        let done = world.install(&library, true).unwrap();
        assert_eq!(done.trust, Trust::Trusted);
        assert_eq!(world.usable(), ["my-engine"]);
        assert!(done.dir.join("libmy_engine.so").exists());
        let text = fs::read_to_string(done.dir.join("plugin.yaml")).unwrap();
        assert!(text.contains("version: \"1.10\""), "{text}");
    }

    #[test]
    fn approving_in_place_keeps_what_else_is_there() {
        let mut world = world();
        folder(world.home.path(), "plugins");
        let dir = engine(&world.root, "lcm");
        file(&dir.join("README.md"), b"read me");
        let done = world.install(&dir, true).unwrap();
        assert_eq!((done.was_there, done.trust), (true, Trust::Trusted));
        assert!(dir.join("README.md").exists());
        assert_eq!(world.usable(), ["lcm"]);
    }

    #[test]
    fn a_new_version_replaces_the_old_one_and_needs_approval_again() {
        let mut world = world();
        let from = tempfile::tempdir().unwrap();
        let source = engine(from.path(), "lcm");
        world.install(&source, true).unwrap();
        let mut library = Library::named("lcm");
        library.version = "0.2.0".to_owned();
        file(&source.join("libsample.so"), &library.bytes());
        let done = world.install(&source, false).unwrap();
        assert!(matches!(done.trust, Trust::Changed { .. }));
        assert!(done.warnings[0].contains("version 0.2.0"), "{:?}", done.warnings);
        assert!(world.usable().is_empty());
    }

    #[test]
    fn what_is_not_usable_is_not_installed() {
        let mut world = world();
        let from = tempfile::tempdir().unwrap();
        let state = |error: InstallError| match error {
            InstallError::Plugin(fault) => fault.state,
            other => panic!("{other}"),
        };
        let bytes = Library::named("lcm").bytes();
        let cut = plugin(from.path(), "cut", &manifest("lcm"), &bytes[..bytes.len() / 2]);
        assert_eq!(state(world.install(&cut, true).unwrap_err()), State::Unreadable);
        let mut newer = Library::named("lcm");
        newer.api = "2.0.0".to_owned();
        file(&from.path().join("newer.so"), &newer.bytes());
        assert_eq!(state(world.install(&from.path().join("newer.so"), true).unwrap_err()), State::Incompatible);
        let other = plugin(from.path(), "other", &manifest("lcm"), &Library::named("x").bytes());
        assert_eq!(state(world.install(&other, true).unwrap_err()), State::Invalid);
        file(&from.path().join("text.so"), b"hello\n");
        assert_eq!(state(world.install(&from.path().join("text.so"), true).unwrap_err()), State::Unreadable);
        assert!(matches!(world.install(&from.path().join("none"), true), Err(InstallError::File(_))));
        let linked = plugin(from.path(), "linked", &manifest("lcm"), &bytes);
        fs::rename(linked.join("libsample.so"), from.path().join("away.so")).unwrap();
        std::os::unix::fs::symlink(from.path().join("away.so"), linked.join("libsample.so")).unwrap();
        assert_eq!(state(world.install(&linked, true).unwrap_err()), State::Untrusted);
        assert!(world.is_empty() && world.trust.iter().next().is_none());
    }

    #[test]
    fn an_open_plugins_folder_is_told_and_nothing_in_it_is_approved() {
        let mut world = world();
        let from = tempfile::tempdir().unwrap();
        let source = engine(from.path(), "lcm");
        folder(world.home.path(), "plugins");
        mode(&world.root, 0o775);
        let done = world.install(&source, true).unwrap();
        assert_eq!(done.trust, Trust::Unknown);
        assert!(done.warnings[0].contains("its group"), "{:?}", done.warnings);
    }

    #[test]
    fn a_general_plugin_goes_beside_the_engines_folder() {
        let mut world = world();
        let from = tempfile::tempdir().unwrap();
        let text = manifest("suite").replace("version:", "kind: general\nengines: [acme]\nversion:");
        let source = plugin(from.path(), "any", &text, &Library::named("suite").bytes());
        let done = world.install(&source, true).unwrap();
        assert_eq!((done.name.as_str(), done.dir), ("suite", world.root.join("suite")));
        assert_eq!(world.usable(), ["suite"]);
        remove(&name("suite"), &world.root, &mut world.trust).unwrap();
        assert!(world.trust.get(&name("suite")).is_none());
        assert!(world.usable().is_empty());
    }

    #[test]
    fn removing_takes_the_folder_and_the_approval() {
        let mut world = world();
        let from = tempfile::tempdir().unwrap();
        let source = engine(from.path(), "lcm");
        world.install(&source, true).unwrap();
        let dir = remove(&name("lcm"), &world.root, &mut world.trust).unwrap();
        assert!(!dir.exists() && world.trust.get(&name("lcm")).is_none());
        let again = remove(&name("lcm"), &world.root, &mut world.trust);
        assert!(matches!(again, Err(InstallError::NotInstalled { .. })));
    }

    #[test]
    fn a_checkout_is_not_removed_and_a_link_is_removed_alone() {
        let mut world = world();
        folder(world.home.path(), "plugins");
        let dir = engine(&world.root, "lcm");
        folder(&dir, "src");
        let refused = remove(&name("lcm"), &world.root, &mut world.trust);
        assert!(matches!(refused, Err(InstallError::NotOnlyAPlugin { .. })));
        assert!(dir.join("plugin.yaml").exists());

        std::os::unix::fs::symlink(&dir, world.root.join("context_engine/alias")).unwrap();
        remove(&name("alias"), &world.root, &mut world.trust).unwrap();
        assert!(dir.join("plugin.yaml").exists());
    }
}

#[test]
fn nothing_is_removed_where_nothing_is() {
    let mut world = world();
    let outcome = remove(&name("lcm"), &world.root, &mut world.trust);
    assert!(matches!(outcome, Err(InstallError::NotInstalled { .. })));
    let none = world.home.path().join("none");
    assert!(world.install(&none, true).is_err() && world.is_empty());
}
