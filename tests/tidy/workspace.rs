//! Finds and reads the files of the workspace that are its own.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no sources of this workspace: build output, copies of released contracts, recordings.
const FOREIGN_FOLDERS: [&str; 4] = ["target", ".git", "tests/frozen", "tests/transcripts"];

/// A file with its path from the root of the workspace, in forward slashes.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests folder is in the workspace").to_owned()
}

/// Reads all own files with one of these extensions, sorted by path.
pub(crate) fn files(extensions: &[&str]) -> Vec<File> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &root, &mut paths);
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let extension = Path::new(&path).extension().and_then(|extension| extension.to_str()).unwrap_or("");
        if extensions.contains(&extension) {
            let text =
                fs::read_to_string(root.join(&path)).unwrap_or_else(|error| panic!("could not read {path}: {error}"));
            files.push(File { path, text });
        }
    }
    assert!(!files.is_empty(), "no {extensions:?} files under {}", root.display());
    files
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("could not list {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder that could be listed").path();
        let name = path.strip_prefix(root).expect("walked from the root").to_string_lossy().replace('\\', "/");
        if FOREIGN_FOLDERS.contains(&name.as_str()) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            // A build output of its own, such as that of a frozen contract, may be anywhere.
            if !path.join("CACHEDIR.TAG").exists() {
                walk(root, &path, paths);
            }
        } else {
            paths.push(name);
        }
    }
}
