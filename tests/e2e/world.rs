//! A home, plugins folders and a registry over them, with libraries that were really built.

use engine_api::json::json;
use host_registry::{Registry, Resolved, Setup, State};
use std::fs;
use std::path::{Path, PathBuf};
use support::fixtures::{Fixture, approve, manifest, stage};
use tempfile::TempDir;

/// Everything a registry looks at, gone when the value is dropped.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) setup: Setup,
}

impl World {
    /// Makes an empty world in which each library is tried in a process of its own first.
    pub(crate) fn new() -> World {
        let dir = tempfile::Builder::new().prefix("host-tests").tempdir().unwrap();
        let setup = Setup {
            roots: vec![dir.path().join("plugins")],
            home: dir.path().join("home"),
            runner: Some(Fixture::Runner.path()),
            ..Setup::default()
        };
        fs::create_dir_all(&setup.roots[0]).unwrap();
        World { dir, setup }
    }

    /// Makes one in which libraries are opened at once.
    pub(crate) fn without_probe() -> World {
        let mut world = World::new();
        world.setup.runner = None;
        world
    }

    pub(crate) fn home(&self) -> &Path {
        &self.setup.home
    }

    /// Returns the folder of the context engines.
    pub(crate) fn engines(&self) -> PathBuf {
        self.setup.roots[0].join("context_engine")
    }

    /// Returns another plugins folder, which comes after those before.
    pub(crate) fn add_root(&mut self) -> PathBuf {
        let root = self.dir.path().join(format!("plugins{}", self.setup.roots.len()));
        self.setup.roots.push(root.clone());
        root
    }

    /// Puts an engine into its folder and approves it.
    pub(crate) fn put(&self, name: &str, library: &[u8]) -> PathBuf {
        let folder = stage(&self.engines(), name, library, &manifest(name)).unwrap();
        approve(self.home(), &folder).unwrap();
        folder
    }

    /// Puts a general plugin into its folder and approves it.
    pub(crate) fn put_general(&self, name: &str, library: &[u8], manifest: &str) -> PathBuf {
        let folder = stage(&self.setup.roots[0], name, library, manifest).unwrap();
        approve(self.home(), &folder).unwrap();
        folder
    }

    pub(crate) fn registry(&self) -> Registry {
        Registry::open(self.setup.clone())
    }

    /// Resolves an engine as the settings' `context.engine` would.
    pub(crate) fn resolve(&self, name: &str) -> Resolved {
        self.registry().resolve(name, &|_| json!({})).unwrap()
    }

    /// Resolves an engine that must load.
    #[track_caller]
    pub(crate) fn loaded(&self, name: &str) -> Resolved {
        let resolved = self.resolve(name);
        let fault = resolved.fallback.as_ref().map(|fault| format!("{}: {}", fault.state, fault.why));
        assert_eq!((resolved.name.as_str(), fault), (name, None));
        resolved
    }

    /// Resolves an engine that must not load: the built-in compressor is used, the fault has this state and these words.
    #[track_caller]
    pub(crate) fn refused(&self, name: &str, state: State, words: &[&str]) -> String {
        let resolved = self.resolve(name);
        assert_eq!((resolved.name.as_str(), resolved.engine.info().name.as_str()), ("compressor", "compressor"));
        let fault = resolved.fallback.expect("a reason for the fallback");
        let seen = format!("{}: {} ({})", fault.state, fault.why, fault.hint);
        assert_eq!(fault.state, state, "{seen}");
        for word in words {
            assert!(seen.contains(word), "{word:?} is not said: {seen}");
        }
        assert!(!fault.hint.is_empty(), "no hint: {seen}");
        assert!(!fault.why.contains('\n'), "more than one line: {seen}");
        seen
    }
}

/// Reads a fixture's bytes.
pub(crate) fn bytes(fixture: Fixture) -> Vec<u8> {
    fs::read(fixture.path()).unwrap()
}
