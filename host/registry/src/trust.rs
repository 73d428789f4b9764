//! `engines.lock`: which bytes the user approved, for each engine.
//!
//! Nothing is trusted on first sight, and reading never fails: a damaged file means that nothing is approved, with the
//! reason, and the engines fall back.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::files::{FileFault, Owner, read_regular};
use crate::name::EngineName;

/// Name of the file in the program's home folder.
pub const TRUST_FILE: &str = "engines.lock";

/// Thousands of approvals; a larger file is not ours.
const BYTES_MAX: u64 = 1024 * 1024;
const FORM: u32 = 1;

/// What was approved for one engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Hash of the library.
    pub library: Digest,
    /// Hash of the manifest.
    pub manifest: Digest,
    /// When, in seconds since 1970.
    pub approved: u64,
    /// Size of the library in bytes.
    pub size: u64,
    /// Where it came from.
    pub source: PathBuf,
    /// What a later version wrote beside it.
    #[serde(flatten)]
    extra: serde_json::Map<String, serde_json::Value>,
}

impl Approval {
    /// Makes an approval.
    pub fn new(library: Digest, manifest: Digest, approved: u64, size: u64, source: impl Into<PathBuf>) -> Approval {
        Approval { library, manifest, approved, size, source: source.into(), extra: serde_json::Map::new() }
    }
}

/// How a library stands against the approvals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// These bytes were approved.
    Trusted,
    /// Nothing was approved under this name.
    Unknown,
    /// Other bytes were approved: of the library, or else of the manifest.
    Changed {
        /// Hash that was approved.
        was: Digest,
        /// Hash that is there.
        now: Digest,
    },
}

/// Why an approval could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The system said no.
    #[error("could not write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file there is not understood, so it is not replaced.
    #[error("{problem}; it was not replaced, move it away to start anew")]
    Damaged {
        /// What is wrong.
        problem: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Document {
    form: u32,
    engines: BTreeMap<String, Approval>,
}

/// The approvals, as they were when the file was read.
#[derive(Debug, Clone)]
pub struct TrustFile {
    path: PathBuf,
    engines: BTreeMap<String, Approval>,
    problem: Option<String>,
}

impl TrustFile {
    /// Reads the file. What cannot be read approves nothing; see [`TrustFile::problem`].
    pub fn load(path: impl Into<PathBuf>) -> TrustFile {
        let path = path.into();
        match read(&path) {
            Ok(engines) => TrustFile { path, engines, problem: None },
            Err(problem) => TrustFile { path, engines: BTreeMap::new(), problem: Some(problem) },
        }
    }

    /// Returns why the file was not used, where it was not.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what was approved under a name.
    pub fn get(&self, name: &EngineName) -> Option<&Approval> {
        self.engines.get(name.as_str())
    }

    /// Returns all approvals by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Approval)> {
        self.engines.iter().map(|(name, approval)| (name.as_str(), approval))
    }

    /// Compares what is there with what was approved.
    pub fn check(&self, name: &EngineName, library: &Digest, manifest: &Digest) -> Trust {
        let Some(approval) = self.get(name) else {
            return Trust::Unknown;
        };
        for (was, now) in [(approval.library, *library), (approval.manifest, *manifest)] {
            if was != now {
                return Trust::Changed { was, now };
            }
        }
        Trust::Trusted
    }

    /// Approves an engine's bytes, and writes the file.
    pub fn approve(&mut self, name: &EngineName, approval: Approval) -> Result<(), TrustError> {
        self.change(|engines| {
            engines.insert(name.as_str().to_owned(), approval);
            true
        })?;
        Ok(())
    }

    /// Takes an approval back, and writes the file. Returns whether there was one.
    pub fn revoke(&mut self, name: &EngineName) -> Result<bool, TrustError> {
        self.change(|engines| engines.remove(name.as_str()).is_some())
    }

    /// Reads the file again, changes it and writes it, alone: another process may have approved something meanwhile.
    fn change(&mut self, edit: impl FnOnce(&mut BTreeMap<String, Approval>) -> bool) -> Result<bool, TrustError> {
        let write_error = |source: io::Error| TrustError::Write { path: self.path.clone(), source };
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(write_error)?;
        // Empty, and never removed: who removes it could free a file that another process waits for.
        let mut options = OpenOptions::new();
        let guard = options.create(true).write(true).truncate(false).open(self.path.with_extension("lock.busy"));
        let guard = guard.map_err(write_error)?;
        guard.lock().map_err(write_error)?;
        let mut engines = read(&self.path).map_err(|problem| TrustError::Damaged { problem })?;
        let is_changed = edit(&mut engines);
        if is_changed {
            write(folder, &self.path, &engines).map_err(write_error)?;
        }
        self.engines = engines;
        self.problem = None;
        Ok(is_changed)
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, Approval>, String> {
    // Whoever can write this file decides which code runs.
    let bytes = match read_regular(path, BYTES_MAX, Owner::Checked) {
        Ok(bytes) => bytes,
        Err(FileFault::Missing { .. }) => return Ok(BTreeMap::new()),
        Err(fault) => return Err(format!("{fault} ({})", fault.hint())),
    };
    let document: Document =
        serde_json::from_slice(&bytes).map_err(|error| format!("{} is damaged: {error}", path.display()))?;
    if document.form != FORM {
        return Err(format!("{} has form {}, this host reads form {FORM}", path.display(), document.form));
    }
    // A name that is not one could never be asked for, but it would be listed.
    Ok(document.engines.into_iter().filter(|(name, _)| EngineName::parse(name).is_ok()).collect())
}

fn write(folder: &Path, path: &Path, engines: &BTreeMap<String, Approval>) -> io::Result<()> {
    let document = Document { form: FORM, engines: engines.clone() };
    // A temporary file has mode 0600 from the start, and keeps it.
    let mut file = tempfile::Builder::new().prefix(".engines-").tempfile_in(folder)?;
    serde_json::to_writer_pretty(&mut file, &document)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> EngineName {
        EngineName::parse(text).unwrap()
    }

    fn approval(seed: &str) -> Approval {
        Approval::new(Digest::of(seed.as_bytes()), Digest::of(b"manifest"), 1_700_000_000, 7, "plugins/lcm")
    }

    #[test]
    fn an_approval_holds_until_the_bytes_change() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(TRUST_FILE);
        let mut trust = TrustFile::load(&path);
        let (one, two, manifest) = (Digest::of(b"one"), Digest::of(b"two"), Digest::of(b"manifest"));
        assert_eq!(trust.check(&name("lcm"), &one, &manifest), Trust::Unknown);
        trust.approve(&name("lcm"), approval("one")).unwrap();

        let trust = TrustFile::load(&path);
        assert_eq!(trust.problem(), None);
        assert_eq!(trust.check(&name("lcm"), &one, &manifest), Trust::Trusted);
        assert_eq!(trust.check(&name("lcm"), &two, &manifest), Trust::Changed { was: one, now: two });
        assert_eq!(trust.check(&name("lcm"), &one, &two), Trust::Changed { was: manifest, now: two });
        assert_eq!(trust.check(&name("other"), &one, &manifest), Trust::Unknown);
    }

    #[test]
    fn two_writers_lose_nothing_of_each_other() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep/er").join(TRUST_FILE);
        let (mut first, mut second) = (TrustFile::load(&path), TrustFile::load(&path));
        first.approve(&name("one"), approval("1")).unwrap();
        second.approve(&name("two"), approval("2")).unwrap();
        let names: Vec<String> = TrustFile::load(&path).iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["one", "two"]);
        assert!(first.revoke(&name("one")).unwrap());
        assert!(!first.revoke(&name("one")).unwrap());
        assert!(first.get(&name("two")).is_some());
    }

    #[test]
    fn a_damaged_file_approves_nothing_and_is_not_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(TRUST_FILE);
        for damage in ["", "{", "[]", r#"{"form":2,"engines":{}}"#, "\u{0}", r#"{"form":1,"engines":{"a":{}}}"#] {
            fs::write(&path, damage).unwrap();
            close_to_others(&path);
            let mut trust = TrustFile::load(&path);
            assert!(trust.problem().is_some(), "{damage:?}");
            assert!(trust.approve(&name("lcm"), approval("x")).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), damage);
        }
    }

    #[test]
    fn what_a_later_version_wrote_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(TRUST_FILE);
        let mut trust = TrustFile::load(&path);
        trust.approve(&name("lcm"), approval("x")).unwrap();
        let text = fs::read_to_string(&path).unwrap().replacen("\"size\"", "\"signer\": \"me\",\n\"size\"", 1);
        fs::write(&path, text).unwrap();
        trust.approve(&name("two"), approval("y")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("signer"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_write_approves_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(TRUST_FILE);
        TrustFile::load(&path).approve(&name("lcm"), approval("x")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let trust = TrustFile::load(&path);
        assert!(trust.problem().unwrap().contains("everyone"), "{:?}", trust.problem());
        assert!(trust.get(&name("lcm")).is_none());
    }

    fn close_to_others(path: &Path) {
        #[cfg(unix)]
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        #[cfg(not(unix))]
        let _ = path;
    }
}
