//! Finds the configuration file, reads it, and writes it so that a crash leaves the old or the new one, never half.

use crate::parse::{FILE_BYTES_MAX, Loaded, parse, refused};
use crate::{Config, ConfigError};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Names the configuration file.
pub const CONFIG_VARIABLE: &str = "PALIMPSEST_CONFIG";
/// Names the home folder.
pub const HOME_VARIABLE: &str = "PALIMPSEST_HOME";
/// Name of the file in the current and in the home folder.
pub const FILE_NAME: &str = "config.yaml";

/// Where the configuration is, and where it was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The file to read. One that was asked for by name is given even when it does not exist: using another one
    /// silently would be worse than the error.
    pub path: Option<PathBuf>,
    /// Every place looked at, in order.
    pub searched: Vec<PathBuf>,
}

/// Returns the home folder: `$PALIMPSEST_HOME`, else `.palimpsest` in the user's own.
pub fn home_dir(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(HOME_VARIABLE)
        .or_else(|| Some(set("HOME").or_else(|| set("USERPROFILE"))?.join(".palimpsest")))
        .unwrap_or_else(|| PathBuf::from(".palimpsest"))
}

/// Finds the configuration: the path asked for, `$PALIMPSEST_CONFIG`, `./config.yaml`, then the home folder.
pub fn locate(explicit: Option<&Path>, env: &dyn Fn(&str) -> Option<String>, cwd: &Path) -> Located {
    let variable = env(CONFIG_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = explicit.map(Path::to_path_buf).or(variable) {
        let path = cwd.join(named);
        return Located { path: Some(path.clone()), searched: vec![path] };
    }
    let searched = vec![cwd.join(FILE_NAME), cwd.join(home_dir(env)).join(FILE_NAME)];
    Located { path: searched.iter().find(|path| path.is_file()).cloned(), searched }
}

/// Reads the file that was found; without one, everything has its default.
pub fn load(located: &Located) -> Loaded {
    match &located.path {
        Some(path) => load_file(path),
        None => Loaded { config: Config::default(), diagnostics: Vec::new() },
    }
}

/// Reads a file. Like `parse` it never fails: a file that cannot be read is reported and the defaults stand in.
pub fn load_file(path: &Path) -> Loaded {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    // One byte over the limit is enough to know, and keeps a device or a huge file out of memory.
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return refused(&name, None, format!("could not be read: {error}"), None);
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text, &name),
        // The cut at the limit may split a character; the size is what is wrong then.
        Err(_) if bytes.len() > FILE_BYTES_MAX => {
            refused(&name, None, format!("the file has more than {FILE_BYTES_MAX} bytes"), None)
        }
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
            refused(&name, Some(line), "the file is not UTF-8 text".to_owned(), Some("save it as UTF-8".to_owned()))
        }
    }
}

/// Writes a file as a whole: a temporary one beside it is filled, synced and renamed over it.
///
/// The mode of an existing file is kept and a link is followed. A new file can be read by its owner only, as it may
/// come to hold a credential.
pub fn write_atomically(path: &Path, text: &str) -> Result<(), ConfigError> {
    write(path, text).map_err(|source| ConfigError::Write { path: path.to_path_buf(), source })
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    // Renaming over a link would replace the link and leave the file it names as it was.
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => path.to_path_buf(),
        Err(error) => return Err(error),
    };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".config-").suffix(".tmp").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    match fs::metadata(&target) {
        Ok(old) => file.as_file().set_permissions(old.permissions())?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.as_file().sync_all()?;
    file.persist(&target).map_err(|error| error.error)?;
    // The rename itself is durable once the folder is; not every system can sync one.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_looked_for_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (cwd, home) = (folder.path().join("work"), folder.path().join("home"));
        fs::create_dir_all(&cwd).unwrap();
        fs::create_dir_all(&home).unwrap();
        let named = home.to_str().unwrap().to_owned();
        let plain = |name: &str| (name == HOME_VARIABLE).then(|| named.clone());
        let with_file = |name: &str| if name == CONFIG_VARIABLE { Some("other.yaml".to_owned()) } else { plain(name) };

        let nowhere = locate(None, &plain, &cwd);
        assert_eq!(nowhere.path, None);
        assert_eq!(nowhere.searched, [cwd.join(FILE_NAME), home.join(FILE_NAME)]);
        assert!(load(&nowhere).diagnostics.is_empty());

        fs::write(home.join(FILE_NAME), "").unwrap();
        assert_eq!(locate(None, &plain, &cwd).path, Some(home.join(FILE_NAME)));
        fs::write(cwd.join(FILE_NAME), "").unwrap();
        assert_eq!(locate(None, &plain, &cwd).path, Some(cwd.join(FILE_NAME)));
        assert_eq!(locate(None, &with_file, &cwd).path, Some(cwd.join("other.yaml")), "named, so not passed over");
        assert_eq!(locate(Some(Path::new("/x.yaml")), &with_file, &cwd).path, Some(PathBuf::from("/x.yaml")));
    }

    #[test]
    fn the_home_folder_has_a_default() {
        let env = |name: &str| match name {
            "PALIMPSEST_HOME" => Some(String::new()),
            "HOME" => Some("/home/u".to_owned()),
            _ => None,
        };
        assert_eq!(home_dir(&env), Path::new("/home/u/.palimpsest"));
        assert_eq!(home_dir(&|_| None), Path::new(".palimpsest"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.yaml");
        let check = |expected: &str| {
            let loaded = load_file(&path);
            assert!(loaded.is_unusable() && loaded.config == Config::default());
            let shown = loaded.diagnostics[0].to_string();
            assert!(loaded.diagnostics.len() == 1 && shown.contains(expected), "{shown}");
        };
        check("could not be read");
        fs::write(&path, b"a: 1\nb: \xff\xfe\n").unwrap();
        check("c.yaml:2: the file is not UTF-8 text; using the defaults");
        fs::write(&path, vec![b' '; FILE_BYTES_MAX + 1]).unwrap();
        check("more than 1048576");
        fs::write(&path, "é".repeat(FILE_BYTES_MAX)).unwrap();
        check("more than 1048576");
        assert!(load_file(folder.path()).is_unusable());
    }

    #[test]
    fn a_written_file_is_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("c.yaml");
        write_atomically(&path, "a: 1\n").unwrap();
        write_atomically(&path, "a: 2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a: 2\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let error = write_atomically(folder.path(), "x").unwrap_err().to_string();
        assert!(error.starts_with("could not write"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn mode_and_link_survive_a_write() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real.yaml"), folder.path().join("link.yaml"));
        write_atomically(&file, "").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        write_atomically(&link, "b: 1\n").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "b: 1\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
