//! Puts a plugin into a plugins folder, and takes it out again.
//!
//! Everything is read and checked first; then the finished folder takes the place of the old one by a rename, so a reader
//! sees the old plugin or the new one. No code of the plugin runs.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::candidate::{EngineFault, candidate_at, check_api, examine, library_fault, read_manifest};
use crate::digest::Digest;
use crate::discover::ENGINES_FOLDER;
use crate::files::{FileFault, Owner, read_regular};
use crate::manifest::{Kind, MANIFEST_FILE, Manifest, host_platform, is_plain_file_name};
use crate::name::EngineName;
use crate::precheck::{LIBRARY_BYTES_MAX, Precheck, precheck};
use crate::trust::{Trust, TrustError, TrustFile};
use crate::version::ApiVersion;

/// Why a plugin was not installed or not removed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The plugin is not usable here.
    #[error(transparent)]
    Plugin(#[from] EngineFault),
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] FileFault),
    /// The system said no.
    #[error("could not write {}: {source}", path.display())]
    Write {
        /// The file or the folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The folder of the engines leads somewhere else.
    #[error("{} leads out of the plugins folder, to {}", path.display(), target.display())]
    Outside {
        /// The folder.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The approval could not be written.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// There is no such plugin.
    #[error("no plugin {name} in {}", root.display())]
    NotInstalled {
        /// Its name.
        name: EngineName,
        /// The plugins folder.
        root: PathBuf,
    },
    /// The folder holds more than a plugin.
    #[error("{} holds folders of its own; it is not removed, since it may be a source checkout", path.display())]
    NotOnlyAPlugin {
        /// The folder.
        path: PathBuf,
    },
}

/// What an installation did.
#[derive(Debug)]
pub struct Installed {
    /// Name of the plugin.
    pub name: EngineName,
    /// Where it is now.
    pub dir: PathBuf,
    /// Whether a plugin of that name was there before.
    pub was_there: bool,
    /// Hash of the library.
    pub library_sha256: Digest,
    /// Hash of the manifest.
    pub manifest_sha256: Digest,
    /// What the library's bytes tell.
    pub precheck: Precheck,
    /// How it stands against the approvals now.
    pub trust: Trust,
    /// What was odd but not wrong.
    pub warnings: Vec<String>,
}

/// What will be written.
struct Package {
    manifest: Manifest,
    manifest_bytes: Vec<u8>,
    library_file_name: String,
    library_bytes: Vec<u8>,
    precheck: Precheck,
    warnings: Vec<String>,
    /// The folder it comes from, where it comes from one.
    source: Option<PathBuf>,
}

/// Installs the plugin in a folder, or a library alone, into the plugins folder `root`.
///
/// With `approve` its bytes are approved. A plugin that lies where it would be installed is only checked and approved.
pub fn install(
    path: &Path,
    root: &Path,
    trust: &mut TrustFile,
    approve: bool,
    host: ApiVersion,
) -> Result<Installed, InstallError> {
    let package = read_package(path, host)?;
    create_folders(root)?;
    let root = fs::canonicalize(root).map_err(|source| write_error(root, source))?;
    let area = match package.manifest.kind {
        Kind::ContextEngine => area_folder(&root)?,
        Kind::General => root.clone(),
    };
    let name = package.manifest.name.clone();
    let dir = area.join(name.as_str());
    let was_there = fs::symlink_metadata(&dir).is_ok();
    let is_in_place = package.source.is_some() && package.source == fs::canonicalize(&dir).ok();
    if !is_in_place {
        write_package(&package, &area, &dir)?;
    }
    let library_sha256 = Digest::of(&package.library_bytes);
    let manifest_sha256 = Digest::of(&package.manifest_bytes);
    let mut warnings = package.warnings;
    // Seen once more as a listing will see it: the place itself may be open to others.
    let relative = dir.strip_prefix(&root).unwrap_or(&dir);
    match candidate_at(&root, relative, name.clone(), package.manifest.kind, trust, host) {
        Ok(candidate) if approve && candidate.library_sha256 == library_sha256 => {
            trust.approve(&name, candidate.approval())?;
        }
        Ok(_) => {}
        Err(fault) => warnings.push(format!("{}: {} ({})", fault.state, fault.why, fault.hint)),
    }
    let trust = trust.check(&name, &library_sha256, &manifest_sha256);
    Ok(Installed { name, dir, was_there, library_sha256, manifest_sha256, precheck: package.precheck, trust, warnings })
}

/// Removes a plugin's folder from the plugins folder `root`, and takes its approval back.
pub fn remove(name: &EngineName, root: &Path, trust: &mut TrustFile) -> Result<PathBuf, InstallError> {
    let not_installed = || InstallError::NotInstalled { name: name.clone(), root: root.to_owned() };
    let canonical = fs::canonicalize(root).map_err(|_| not_installed())?;
    let engine = canonical.join(ENGINES_FOLDER).join(name.as_str());
    let general = canonical.join(name.as_str());
    let dir = match (fs::symlink_metadata(&engine), fs::symlink_metadata(general.join(MANIFEST_FILE))) {
        (Ok(_), _) => engine,
        (Err(_), Ok(_)) if name.as_str() != ENGINES_FOLDER => general,
        _ => return Err(not_installed()),
    };
    let about = fs::symlink_metadata(&dir).map_err(|source| write_error(&dir, source))?;
    if !about.is_dir() {
        // A link: what it leads to is not ours.
        fs::remove_file(&dir).map_err(|source| write_error(&dir, source))?;
    } else {
        let area = dir.parent().unwrap_or(&canonical);
        let target = fs::canonicalize(area).map_err(|source| write_error(area, source))?;
        if !target.starts_with(&canonical) {
            return Err(InstallError::Outside { path: area.to_owned(), target });
        }
        let entries = fs::read_dir(&dir).map_err(|source| write_error(&dir, source))?;
        if entries.flatten().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            return Err(InstallError::NotOnlyAPlugin { path: dir });
        }
        fs::remove_dir_all(&dir).map_err(|source| write_error(&dir, source))?;
    }
    trust.revoke(name)?;
    Ok(dir)
}

fn read_package(path: &Path, host: ApiVersion) -> Result<Package, InstallError> {
    let read_error = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FileFault::Missing { path: path.to_owned() },
        _ => FileFault::Io { path: path.to_owned(), source },
    };
    let path = fs::canonicalize(path).map_err(read_error)?;
    if path.is_dir() {
        return read_folder(path, host);
    }
    if path.file_name().is_some_and(|name| name == MANIFEST_FILE) {
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        return read_folder(folder, host);
    }
    read_library(&path, host)
}

fn read_folder(folder: PathBuf, host: ApiVersion) -> Result<Package, InstallError> {
    let here = Path::new("");
    let manifest = read_manifest(&folder, here, Owner::Any)?;
    let examined = examine(&folder, here, manifest, host, Owner::Any)?;
    Ok(Package {
        manifest: examined.manifest,
        manifest_bytes: examined.manifest_bytes,
        library_file_name: examined.library_file_name,
        library_bytes: examined.library_bytes,
        precheck: examined.precheck,
        warnings: examined.warnings,
        source: Some(folder),
    })
}

/// Reads a library alone and writes the manifest that its note implies.
fn read_library(path: &Path, host: ApiVersion) -> Result<Package, InstallError> {
    let library_bytes = read_regular(path, LIBRARY_BYTES_MAX, Owner::Any)?;
    let precheck = precheck(&library_bytes).map_err(|error| library_fault(path, &error))?;
    let note = &precheck.note;
    check_api(path, note.engine_api, host)?;
    let found = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut text = format!(
        "# Written when the library was installed without a manifest.\nmanifest: 1\nname: {}\nversion: \"{}\"\n\
         engine_api: \"{}.{}\"\nkind: {}\n",
        note.name,
        note.version,
        note.engine_api.major,
        note.engine_api.minor,
        Kind::ContextEngine.as_str()
    );
    if is_plain_file_name(&found) {
        text.push_str(&format!("library:\n  {}: \"{found}\"\n", host_platform()));
    }
    let manifest = Manifest::parse(&text, &path.with_file_name(MANIFEST_FILE)).map_err(EngineFault::from)?;
    let library_file_name = manifest.library_for(&host_platform()).unwrap_or(found);
    Ok(Package {
        manifest,
        manifest_bytes: text.into_bytes(),
        library_file_name,
        library_bytes,
        precheck,
        warnings: Vec::new(),
        source: None,
    })
}

fn create_folders(path: &Path) -> Result<(), InstallError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    // Whatever the user's mask: a plugins folder that its group can change is refused.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.create(path).map_err(|source| write_error(path, source))
}

fn area_folder(root: &Path) -> Result<PathBuf, InstallError> {
    let area = root.join(ENGINES_FOLDER);
    create_folders(&area)?;
    let target = fs::canonicalize(&area).map_err(|source| write_error(&area, source))?;
    if target.starts_with(root) { Ok(area) } else { Err(InstallError::Outside { path: area, target }) }
}

fn write_package(package: &Package, area: &Path, dir: &Path) -> Result<(), InstallError> {
    let error = |source: io::Error| write_error(dir, source);
    // Hidden, so that no listing takes an unfinished folder for a plugin; removed again if anything fails.
    let staging = tempfile::Builder::new().prefix(".installing-").tempdir_in(area).map_err(error)?;
    let fresh = staging.path().join("new");
    create_folders(&fresh)?;
    write_file(&fresh.join(MANIFEST_FILE), &package.manifest_bytes, 0o644).map_err(error)?;
    write_file(&fresh.join(&package.library_file_name), &package.library_bytes, 0o755).map_err(error)?;
    let old = staging.path().join("old");
    let has_old = match fs::rename(dir, &old) {
        Ok(()) => true,
        Err(source) if source.kind() == io::ErrorKind::NotFound => false,
        Err(source) => return Err(error(source)),
    };
    if let Err(source) = fs::rename(&fresh, dir) {
        if has_old {
            // The old plugin goes back to its place; if even that fails, the first error is the one to tell.
            let _ = fs::rename(&old, dir);
        }
        return Err(error(source));
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    #[cfg(not(unix))]
    let _ = mode;
    file.sync_all()
}

fn write_error(path: &Path, source: io::Error) -> InstallError {
    InstallError::Write { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
