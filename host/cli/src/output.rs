//! Writes a conversation to a file: the whole of it or nothing.

use crate::error::CliError;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Tells whether two paths lead to the same file.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Refuses a place that could not be written, before any work is done.
pub(crate) fn check(path: &Path) -> Result<(), CliError> {
    if path.is_dir() {
        return Err(
            CliError::user(format!("could not write {}: it is a directory", path.display())).hint("name a file in it")
        );
    }
    let folder = folder_of(path);
    if folder.is_dir() {
        return Ok(());
    }
    Err(CliError::user(format!("could not write {}: there is no folder {}", path.display(), folder.display()))
        .hint("make the folder first"))
}

/// Writes a file as a whole: a temporary one beside it is filled and renamed over it.
///
/// The mode of an existing file is kept and a link is followed. Devices and pipes are written to directly.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    write_with(path, &mut |file| file.write_all(text.as_bytes()))
}

/// Writes a file as a whole from what fills it; if that fails, the file is as it was.
pub(crate) fn write_with(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), CliError> {
    write_whole(path, fill).map_err(|error| CliError::io("write", path, &error))
}

fn write_whole(path: &Path, fill: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
        Err(error) => return Err(error),
    };
    let old = fs::metadata(&target).ok();
    if old.as_ref().is_some_and(|about| !about.is_file()) {
        // Renaming over a device would replace the device.
        return fill(&mut OpenOptions::new().write(true).open(&target)?);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".palimpsest-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder_of(&target))?;
    fill(&mut file)?;
    if let Some(old) = old {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&target).map_err(|error| error.error)?;
    Ok(())
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(check(folder.path()).is_err());
        assert!(check(&folder.path().join("none").join("out.json")).is_err());
        assert!(write(&folder.path().join("none").join("out.json"), "x").is_err());
        assert!(check(Path::new("out.json")).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn mode_and_link_survive_and_a_device_stays_one() {
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        assert!(is_same_file(&file, &link));
        write(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        write(Path::new("/dev/null"), "x").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
