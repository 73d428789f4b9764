//! Examines one plugin's folder: manifest, library, and whether they belong together and to this host.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::digest::Digest;
use crate::discover::ENGINES_FOLDER;
use crate::files::{FileFault, Owner, read_below};
use crate::manifest::{Kind, MANIFEST_BYTES_MAX, MANIFEST_FILE, Manifest, ManifestError, host_platform};
use crate::name::EngineName;
use crate::precheck::{LIBRARY_BYTES_MAX, Precheck, PrecheckError, precheck};
use crate::state::State;
use crate::store::StoreError;
use crate::trust::{Approval, Trust, TrustFile};
use crate::version::ApiVersion;

/// A plugin whose folder is sound: what there is to know of it without running it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Name that manifest and library agree on: of the engine, or of the general plugin that registers engines.
    pub name: EngineName,
    /// Name of the plugin's folder, by which approvals go. Always equal to `name`: a plugin whose names differ is refused.
    pub plugin: EngineName,
    /// What the plugin is.
    pub kind: Kind,
    /// The plugins folder it was found in, without links.
    pub root: PathBuf,
    /// The plugin's folder.
    pub dir: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Hash of the manifest's bytes.
    pub manifest_sha256: Digest,
    /// Path of its library. For loading use [`Candidate::read_library`], never this path.
    pub library: PathBuf,
    /// Hash of the library's bytes.
    pub library_sha256: Digest,
    /// What the library's bytes tell.
    pub precheck: Precheck,
    /// How it stands against the approvals.
    pub trust: Trust,
    /// What was odd but not wrong.
    pub warnings: Vec<String>,
}

/// Why a plugin is not usable: how it stands, the reason, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct EngineFault {
    /// How it stands.
    pub state: State,
    /// The reason, in words for the user.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

impl Candidate {
    /// Reads the library again and hands out its bytes only if they are still those that were examined.
    pub fn read_library(&self) -> Result<Vec<u8>, StoreError> {
        let relative = self.library.strip_prefix(&self.root).unwrap_or(&self.library);
        let bytes = read_below(&self.root, relative, LIBRARY_BYTES_MAX, Owner::Checked)?;
        match Digest::of(&bytes) {
            now if now == self.library_sha256 => Ok(bytes),
            now => Err(StoreError::Mismatch { was: self.library_sha256, now }),
        }
    }

    /// Returns the library's file name.
    pub fn library_file_name(&self) -> String {
        self.library.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Makes the approval of exactly these bytes, dated now.
    pub fn approval(&self) -> Approval {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Approval::new(self.library_sha256, self.manifest_sha256, now, self.precheck.size, &self.dir)
    }
}

impl EngineFault {
    pub(crate) fn new(state: State, why: impl Into<String>, hint: impl Into<String>) -> EngineFault {
        EngineFault { state, why: why.into(), hint: hint.into() }
    }
}

impl From<FileFault> for EngineFault {
    fn from(fault: FileFault) -> EngineFault {
        EngineFault::new(fault.state(), fault.to_string(), fault.hint())
    }
}

impl From<ManifestError> for EngineFault {
    fn from(error: ManifestError) -> EngineFault {
        let state = if error.is_foreign { State::NotAnEngine } else { State::Invalid };
        EngineFault::new(state, error.to_string(), error.hint)
    }
}

pub(crate) fn library_fault(path: &Path, error: &PrecheckError) -> EngineFault {
    EngineFault::new(error.state(), format!("{}: {error}", path.display()), error.hint())
}

/// Reads the plugin that lies in `relative` below the canonical `root`, in a folder named `folder`.
pub(crate) fn candidate_at(
    root: &Path,
    relative: &Path,
    folder: EngineName,
    kind: Kind,
    trust: &TrustFile,
    host: ApiVersion,
) -> Result<Candidate, EngineFault> {
    let (manifest, bytes) = read_manifest(root, relative, Owner::Checked)?;
    if manifest.kind != kind {
        let (right, hint) = match manifest.kind {
            Kind::ContextEngine => (format!("{ENGINES_FOLDER}/{folder}"), "move the folder"),
            Kind::General => (folder.to_string(), "move the folder, or write `kind: context_engine`"),
        };
        let why = format!("plugin.yaml says `kind: {}`, which belongs in {right}", manifest.kind.as_str());
        return Err(EngineFault::new(State::Invalid, why, hint));
    }
    if manifest.name != folder {
        let why = format!("plugin.yaml says `name: {}`, the folder is {folder}", manifest.name);
        return Err(EngineFault::new(State::Invalid, why, "give both the same name"));
    }
    let examined = examine(root, relative, (manifest, bytes), host, Owner::Checked)?;
    let library_sha256 = Digest::of(&examined.library_bytes);
    let manifest_sha256 = Digest::of(&examined.manifest_bytes);
    let dir = root.join(relative);
    Ok(Candidate {
        trust: trust.check(&folder, &library_sha256, &manifest_sha256),
        name: folder.clone(),
        plugin: folder,
        kind,
        root: root.to_owned(),
        library: dir.join(&examined.library_file_name),
        dir,
        manifest: examined.manifest,
        manifest_sha256,
        library_sha256,
        precheck: examined.precheck,
        warnings: examined.warnings,
    })
}

/// A plugin as its files say, before anyone asks what is approved.
pub(crate) struct Examined {
    pub(crate) manifest: Manifest,
    pub(crate) manifest_bytes: Vec<u8>,
    pub(crate) library_file_name: String,
    pub(crate) library_bytes: Vec<u8>,
    pub(crate) precheck: Precheck,
    pub(crate) warnings: Vec<String>,
}

/// Reads the manifest of the plugin in folder `relative` of the canonical `root`.
pub(crate) fn read_manifest(root: &Path, relative: &Path, owner: Owner) -> Result<(Manifest, Vec<u8>), EngineFault> {
    let file = relative.join(MANIFEST_FILE);
    let bytes = read_below(root, &file, MANIFEST_BYTES_MAX, owner).map_err(|fault| match fault {
        FileFault::Missing { path } => {
            let why = format!("{} does not exist", path.display());
            EngineFault::new(State::Invalid, why, "a plugin's folder holds plugin.yaml and the library")
        }
        other => other.into(),
    })?;
    let path = root.join(&file);
    let text = std::str::from_utf8(&bytes).map_err(|_| {
        EngineFault::new(State::Invalid, format!("{} is not UTF-8", path.display()), "save it as UTF-8")
    })?;
    let manifest = Manifest::parse(text, &path)?;
    Ok((manifest, bytes))
}

/// Examines the library that a manifest describes, and whether the two agree with each other and with the host.
pub(crate) fn examine(
    root: &Path,
    relative: &Path,
    (manifest, manifest_bytes): (Manifest, Vec<u8>),
    host: ApiVersion,
    owner: Owner,
) -> Result<Examined, EngineFault> {
    if !manifest.engine_api.allows(host) {
        let why = format!("plugin.yaml asks for engine API {}, this host has {host}", manifest.engine_api);
        return Err(EngineFault::new(State::Incompatible, why, "take a version of the plugin made for this host"));
    }
    let platform = host_platform();
    let library_file_name = manifest.library_for(&platform).ok_or_else(|| {
        let others = manifest.library.keys().cloned().collect::<Vec<_>>().join(", ");
        let why = format!("plugin.yaml names no library for {platform}, only for {others}");
        EngineFault::new(State::Incompatible, why, "build it on this platform and add its file under `library`")
    })?;
    let file = relative.join(&library_file_name);
    let library_bytes = read_below(root, &file, LIBRARY_BYTES_MAX, owner)?;
    let path = root.join(&file);
    let precheck = precheck(&library_bytes).map_err(|error| library_fault(&path, &error))?;
    let note = &precheck.note;
    check_api(&path, note.engine_api, host)?;
    let mut warnings: Vec<String> = manifest
        .warnings
        .iter()
        .map(|warning| match warning.line {
            Some(line) => format!("plugin.yaml:{line}: {}", warning.text),
            None => format!("plugin.yaml: {}", warning.text),
        })
        .collect();
    if manifest.name != note.name {
        let why = format!("{} says it is {}, plugin.yaml says {}", path.display(), note.name, manifest.name);
        return Err(EngineFault::new(
            State::Invalid,
            why,
            "give the plugin one name in its code, plugin.yaml and folder",
        ));
    }
    if note.version != manifest.version {
        warnings.push(format!("the library has version {}, plugin.yaml says {}", note.version, manifest.version));
    }
    Ok(Examined { manifest, manifest_bytes, library_file_name, library_bytes, precheck, warnings })
}

pub(crate) fn check_api(path: &Path, engine: ApiVersion, host: ApiVersion) -> Result<(), EngineFault> {
    if host.loads(engine) {
        return Ok(());
    }
    let why = format!("{} was built for engine API {engine}, this host has {host}", path.display());
    let hint = format!("build it against engine-api {}.{}", host.major, host.minor);
    Err(EngineFault::new(State::Incompatible, why, hint))
}
