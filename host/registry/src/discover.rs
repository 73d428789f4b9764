//! Finds engines in the plugins folders. It never fails and never runs a plugin's code.
//!
//! Whatever is not usable is listed with the reason and what to do; a silent omission would send the user searching.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::candidate::{Candidate, EngineFault, candidate_at, read_manifest};
use crate::files::Owner;
use crate::manifest::{Kind, MANIFEST_FILE};
use crate::name::{EngineName, NameError};
use crate::state::State;
use crate::trust::{Trust, TrustFile};
use crate::version::ApiVersion;

/// Folder of the context engines in a plugins folder.
pub const ENGINES_FOLDER: &str = "context_engine";
/// Entries of one folder that are looked at.
pub const ENTRIES_MAX: usize = 1_000;

/// What was found in the plugins folders.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Engines that can be selected, in search order: context engines of every root first, then general plugins.
    pub found: Vec<Candidate>,
    /// What is there and cannot be selected.
    pub skipped: Vec<Skipped>,
    /// What concerns a folder as a whole.
    pub notices: Vec<String>,
}

/// Something that is there and cannot be selected.
#[derive(Debug)]
pub struct Skipped {
    /// Name of its folder, made fit for printing.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// How it stands.
    pub state: State,
    /// The reason.
    pub why: String,
    /// What to do about it.
    pub hint: String,
    /// All that is known, where only approval or the search order stands in the way.
    pub candidate: Option<Box<Candidate>>,
}

impl Discovery {
    /// Searches the plugins folders in their order; one that does not exist is passed over.
    ///
    /// Context engines come before general plugins, an earlier root before a later one. Only a usable plugin shadows another
    /// of its name: an unapproved copy in a project cannot switch off the approved one.
    pub fn scan(roots: &[PathBuf], trust: &TrustFile, host: ApiVersion) -> Discovery {
        let mut discovery = Discovery::default();
        if let Some(problem) = trust.problem() {
            discovery.notices.push(format!("no engine is approved: {problem}"));
        }
        let mut seen = BTreeSet::new();
        let roots: Vec<PathBuf> = roots
            .iter()
            .filter_map(|root| discovery.canonical(root))
            .filter(|root| seen.insert(root.clone()))
            .collect();
        let mut scan = Scan { trust, host, discovery };
        for kind in [Kind::ContextEngine, Kind::General] {
            for root in &roots {
                scan.area(root, kind);
            }
        }
        scan.discovery
    }

    /// Finds the first usable plugin that offers an engine of this name.
    pub fn find(&self, engine: &str) -> Option<&Candidate> {
        self.found.iter().find(|candidate| offers(candidate, engine))
    }

    /// Finds why no plugin of this name, or with an engine of this name, is usable.
    pub fn why_not(&self, name: &str) -> Option<&Skipped> {
        let offers = |skipped: &&Skipped| skipped.candidate.as_deref().is_some_and(|candidate| offers(candidate, name));
        self.skipped.iter().find(|skipped| skipped.name == name).or_else(|| self.skipped.iter().find(offers))
    }

    fn canonical(&mut self, root: &Path) -> Option<PathBuf> {
        match fs::canonicalize(root) {
            Ok(root) => Some(root),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                self.notices.push(format!("could not search {}: {error}", root.display()));
                None
            }
        }
    }
}

struct Scan<'a> {
    trust: &'a TrustFile,
    host: ApiVersion,
    discovery: Discovery,
}

/// One entry of a folder.
struct Entry {
    name: String,
    relative: PathBuf,
    is_folder: bool,
}

impl Scan<'_> {
    fn area(&mut self, root: &Path, kind: Kind) {
        let area = match kind {
            Kind::ContextEngine => Path::new(ENGINES_FOLDER),
            Kind::General => Path::new(""),
        };
        let entries = self.entries(root, area);
        let names: BTreeSet<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        for entry in entries {
            let path = root.join(&entry.relative);
            let outcome = match kind {
                Kind::ContextEngine if entry.is_folder => self.plugin(root, &entry, &names, kind),
                Kind::ContextEngine if is_library_name(&entry.name) => Err(EngineFault::new(
                    State::Invalid,
                    "a library alone is not a plugin; a plugin is a folder with plugin.yaml",
                    format!("run `palimpsest engines install {}`", path.display()),
                )),
                // Other programs keep their plugins here too; only what has our manifest is ours.
                Kind::General if entry.is_folder && entry.name != ENGINES_FOLDER && has_manifest(&path) => {
                    self.plugin(root, &entry, &names, kind)
                }
                Kind::ContextEngine | Kind::General => continue,
            };
            match outcome {
                Ok(candidate) => self.place(entry.name, path, candidate),
                Err(fault) if kind == Kind::General && fault.state == State::NotAnEngine => {}
                Err(fault) => self.skip(entry.name, path, fault, None),
            }
        }
    }

    /// Lists a folder in the order of names, hidden entries left out.
    fn entries(&mut self, root: &Path, area: &Path) -> Vec<Entry> {
        let folder = root.join(area);
        let notice = |text: String| format!("{} was not searched: {text}", folder.display());
        match fs::canonicalize(&folder) {
            Ok(target) if target.starts_with(root) => {}
            Ok(target) => {
                let text = format!("it leads out of the plugins folder, to {}", target.display());
                self.discovery.notices.push(notice(text));
                return Vec::new();
            }
            Err(_) => return Vec::new(),
        }
        let listing = match fs::read_dir(&folder) {
            Ok(listing) => listing,
            Err(error) => {
                self.discovery.notices.push(notice(error.to_string()));
                return Vec::new();
            }
        };
        let mut entries = Vec::new();
        for (index, entry) in listing.enumerate() {
            if index == ENTRIES_MAX {
                let text = format!("{} has over {ENTRIES_MAX} entries; the rest was not searched", folder.display());
                self.discovery.notices.push(text);
                break;
            }
            let Ok(entry) = entry else { continue };
            let file_name = entry.file_name();
            if file_name.as_encoded_bytes().starts_with(b".") || file_name.as_encoded_bytes().starts_with(b"_") {
                continue;
            }
            let is_folder = fs::metadata(entry.path()).is_ok_and(|about| about.is_dir());
            entries.push(Entry { name: printable(&file_name), relative: area.join(&file_name), is_folder });
        }
        entries.sort_by(|a, b| a.relative.cmp(&b.relative));
        entries
    }

    fn plugin(
        &self,
        root: &Path,
        entry: &Entry,
        beside: &BTreeSet<String>,
        kind: Kind,
    ) -> Result<Candidate, EngineFault> {
        if kind == Kind::General {
            // In the shared folder neither a name nor a permission is a fault before the manifest says it is ours.
            read_manifest(root, &entry.relative, Owner::Any)?;
        }
        let folder = EngineName::parse(&entry.name).map_err(|error| name_fault(&error, beside))?;
        candidate_at(root, &entry.relative, folder, kind, self.trust, self.host)
    }

    /// Puts a sound plugin where it belongs: usable, not approved, or behind another.
    fn place(&mut self, entry_name: String, path: PathBuf, candidate: Candidate) {
        let approve = format!("look at it, then run `palimpsest engines install {} --trust`", path.display());
        let fault = match candidate.trust {
            Trust::Unknown => {
                let why = format!("nobody approved it yet (sha256 {})", candidate.library_sha256);
                Some(EngineFault::new(State::Untrusted, why, approve))
            }
            Trust::Changed { was, now } => {
                let what = if now == candidate.library_sha256 { "library" } else { "plugin.yaml" };
                let why = format!("its {what} is not the approved one (sha256 {now}, approved {was})");
                Some(EngineFault::new(State::Untrusted, why, approve))
            }
            Trust::Trusted => {
                let earlier = self.discovery.found.iter().find(|earlier| earlier.plugin == candidate.plugin);
                earlier.map(|earlier| {
                    let why = format!("{} of {} comes first", earlier.plugin, earlier.dir.display());
                    EngineFault::new(State::Shadowed, why, "remove or rename one of them")
                })
            }
        };
        match fault {
            None => self.discovery.found.push(candidate),
            Some(fault) => self.skip(entry_name, path, fault, Some(Box::new(candidate))),
        }
    }

    fn skip(&mut self, name: String, path: PathBuf, fault: EngineFault, candidate: Option<Box<Candidate>>) {
        let EngineFault { state, why, hint } = fault;
        self.discovery.skipped.push(Skipped { name, path, state, why, hint, candidate });
    }
}

fn offers(candidate: &Candidate, engine: &str) -> bool {
    candidate.manifest.engines.iter().any(|name| *name == *engine)
}

fn name_fault(error: &NameError, beside: &BTreeSet<String>) -> EngineFault {
    match error {
        NameError::UpperCase { name, suggestion } if beside.contains(suggestion) => EngineFault::new(
            State::Invalid,
            format!("folder {name:?} differs from `{suggestion}` beside it only in case; `{suggestion}` is used"),
            "remove or rename one of them",
        ),
        other => EngineFault::new(State::Invalid, other.to_string(), "rename the folder and the engine"),
    }
}

fn has_manifest(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join(MANIFEST_FILE)).is_ok()
}

fn is_library_name(name: &str) -> bool {
    [".so", ".dylib", ".dll"].iter().any(|ending| name.ends_with(ending))
}

/// Makes a file's name fit for a terminal and for a name check. What is not UTF-8 stays recognisable as such.
fn printable(name: &OsStr) -> String {
    const CHARS_MAX: usize = 80;
    name.to_string_lossy()
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .take(CHARS_MAX)
        .collect()
}

#[cfg(test)]
mod tests;
