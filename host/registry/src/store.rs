//! Private copies of libraries, each in a folder named after its hash: what was hashed is what is loaded.
//!
//! The plugin's own file may be replaced at any time, even while it is in use; these copies never change.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::files::{FileFault, Owner, check_owner, read_regular};
use crate::manifest::is_plain_file_name;
use crate::precheck::LIBRARY_BYTES_MAX;

/// Folder of the copies in the program's home folder.
pub const STORE_FOLDER: &str = "engines";

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Not the bytes that were approved.
    #[error("the library's hash is {now}, approved was {was}")]
    Mismatch {
        /// Hash that was asked for.
        was: Digest,
        /// Hash of the bytes.
        now: Digest,
    },
    /// A file name that could lead elsewhere.
    #[error("{file_name:?} is not a plain file name")]
    FileName {
        /// The name.
        file_name: String,
    },
    /// The store itself is not safe.
    #[error(transparent)]
    Unsafe(#[from] FileFault),
    /// The system said no.
    #[error("could not write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// Returns the path of a private copy of `bytes`, written now or before, and verified now.
pub fn verified_copy(bytes: &[u8], sha256: &Digest, home: &Path, file_name: &str) -> Result<PathBuf, StoreError> {
    let now = Digest::of(bytes);
    if now != *sha256 {
        return Err(StoreError::Mismatch { was: *sha256, now });
    }
    if !is_plain_file_name(file_name) {
        return Err(StoreError::FileName { file_name: file_name.to_owned() });
    }
    let home = home_folder(home)?;
    let store = private_folder(home.join(STORE_FOLDER))?;
    let folder = private_folder(store.join(sha256.to_string()))?;
    let path = folder.join(file_name);
    if is_intact(&path, sha256) {
        return Ok(path);
    }
    write_copy(&folder, &path, bytes).map_err(|source| StoreError::Write { path: path.clone(), source })?;
    // Read back, since a full disk or a faulty one would otherwise be noticed by a crash in the loader.
    let written = read_regular(&path, LIBRARY_BYTES_MAX, Owner::Checked)?;
    match Digest::of(&written) {
        now if now == *sha256 => Ok(path),
        now => Err(StoreError::Mismatch { was: *sha256, now }),
    }
}

/// Creates the home folder where needed, closed to others, and resolves links in its path.
fn home_folder(home: &Path) -> Result<PathBuf, StoreError> {
    let fault = |source| StoreError::Write { path: home.to_owned(), source };
    create_private(home, true).map_err(fault)?;
    fs::canonicalize(home).map_err(fault)
}

fn private_folder(path: PathBuf) -> Result<PathBuf, StoreError> {
    match create_private(&path, false) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => return Err(StoreError::Write { path, source }),
        _ => {}
    }
    let about = fs::symlink_metadata(&path).map_err(|source| StoreError::Write { path: path.clone(), source })?;
    if !about.is_dir() {
        let problem = "is not a folder".to_owned();
        return Err(FileFault::Unsafe { path, problem }.into());
    }
    check_owner(&path, &about)?;
    Ok(path)
}

fn create_private(path: &Path, with_parents: bool) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(with_parents);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn is_intact(path: &Path, sha256: &Digest) -> bool {
    read_regular(path, LIBRARY_BYTES_MAX, Owner::Checked).is_ok_and(|bytes| Digest::of(&bytes) == *sha256)
}

fn write_copy(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".copy-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    close_to_writing(file.as_file())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(unix)]
fn close_to_writing(file: &File) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o500))
}

#[cfg(not(unix))]
fn close_to_writing(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] = b"the library's bytes";

    #[test]
    fn a_copy_is_made_once_and_found_again() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().join("new/home");
        let digest = Digest::of(BYTES);
        let path = verified_copy(BYTES, &digest, &home, "libx.so").unwrap();
        assert!(path.ends_with(format!("engines/{digest}/libx.so")));
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(verified_copy(BYTES, &digest, &home, "libx.so").unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        assert_eq!(fs::read(&path).unwrap(), BYTES);
    }

    #[test]
    fn a_changed_copy_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let digest = Digest::of(BYTES);
        let path = verified_copy(BYTES, &digest, home.path(), "libx.so").unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"something else").unwrap();
        assert_eq!(verified_copy(BYTES, &digest, home.path(), "libx.so").unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), BYTES);
    }

    #[test]
    fn other_bytes_and_odd_names_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let digest = Digest::of(BYTES);
        assert!(matches!(verified_copy(b"x", &digest, home.path(), "libx.so"), Err(StoreError::Mismatch { .. })));
        for name in ["", "..", "../x", "a/b", ".hidden", "a\\b", "a\0b", "C:x"] {
            let refused = verified_copy(BYTES, &digest, home.path(), name);
            assert!(matches!(refused, Err(StoreError::FileName { .. })), "{name:?}");
        }
        assert!(!home.path().join(STORE_FOLDER).exists());
    }

    #[cfg(unix)]
    #[test]
    fn the_store_is_private_and_a_link_in_its_place_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let digest = Digest::of(BYTES);
        let path = verified_copy(BYTES, &digest, home.path(), "libx.so").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o500, 0o700));

        let linked = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), linked.path().join(STORE_FOLDER)).unwrap();
        assert!(matches!(verified_copy(BYTES, &digest, linked.path(), "libx.so"), Err(StoreError::Unsafe(_))));

        fs::set_permissions(home.path().join(STORE_FOLDER), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(verified_copy(BYTES, &digest, home.path(), "libx.so"), Err(StoreError::Unsafe(_))));
    }
}
