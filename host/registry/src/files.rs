//! Opens files of plugins safely: inside their root, regular, of a bounded size, and changeable by nobody else.
//!
//! What is checked here is read here, once, from one handle: hashing a path and opening it again would leave a gap in
//! which the file could change.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use crate::state::State;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// There is none.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A link or a `..` leads somewhere else.
    #[error("{} leads out of the plugins folder, to {}", path.display(), target.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A folder, a pipe, a device.
    #[error("{} is not a regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// Other users could change it.
    #[error("{} {problem}", path.display())]
    Unsafe {
        /// The file or the folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Above its bound.
    #[error("{} has more than {max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        max: u64,
    },
    /// Replaced between the check and the opening.
    #[error("{} changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The system said no.
    #[error("could not read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl FileFault {
    /// Returns how an engine with this fault stands.
    pub fn state(&self) -> State {
        match self {
            FileFault::Missing { .. } => State::Missing,
            FileFault::Outside { .. } | FileFault::Unsafe { .. } | FileFault::Changed { .. } => State::Untrusted,
            FileFault::NotRegular { .. } | FileFault::TooLarge { .. } | FileFault::Io { .. } => State::Unreadable,
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> String {
        match self {
            FileFault::Missing { .. } => "build the engine and copy its library there".to_owned(),
            FileFault::Outside { .. } => "copy the file into the plugin's folder instead of linking to it".to_owned(),
            FileFault::NotRegular { .. } => "put the file itself there".to_owned(),
            FileFault::Unsafe { path, .. } => {
                format!("make it your own and closed to others: `chown $(id -u) {0}; chmod go-w {0}`", path.display())
            }
            FileFault::TooLarge { .. } => "build it in release mode and strip it".to_owned(),
            FileFault::Changed { .. } => "try again when nothing writes to it".to_owned(),
            FileFault::Io { .. } => "see whether you may read it".to_owned(),
        }
    }
}

/// Whether the owner and the permissions of a file matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The file will be loaded from here, so nobody else may be able to change it.
    Checked,
    /// The bytes are copied and their hash is shown to the user, wherever they come from.
    Any,
}

/// Reads `relative` below `root`, which must be canonical.
pub(crate) fn read_below(root: &Path, relative: &Path, max: u64, owner: Owner) -> Result<Vec<u8>, FileFault> {
    let path = root.join(relative);
    if !relative.components().all(|step| matches!(step, Component::Normal(_))) {
        return Err(FileFault::Outside { target: path.clone(), path });
    }
    let target = match fs::canonicalize(&path) {
        Ok(target) => target,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere is there, its target is not.
            return Err(match fs::read_link(&path) {
                Ok(target) => FileFault::Outside { path, target },
                Err(_) => FileFault::Missing { path },
            });
        }
        Err(source) => return Err(FileFault::Io { path, source }),
    };
    if !target.starts_with(root) {
        return Err(FileFault::Outside { path, target });
    }
    if owner == Owner::Checked {
        for step in target.ancestors().take_while(|step| step.starts_with(root)) {
            let about = fs::symlink_metadata(step).map_err(|source| FileFault::Io { path: step.to_owned(), source })?;
            check_owner(step, &about)?;
        }
        check_parents(root)?;
    }
    read_regular(&target, max, owner)
}

/// Reads one file whose place is not checked. A link as the last step is refused.
pub(crate) fn read_regular(path: &Path, max: u64, owner: Owner) -> Result<Vec<u8>, FileFault> {
    let io_fault = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FileFault::Missing { path: path.to_owned() },
        _ => FileFault::Io { path: path.to_owned(), source },
    };
    let seen = fs::symlink_metadata(path).map_err(io_fault)?;
    // Opening a pipe would wait for its other end.
    if !seen.is_file() {
        return Err(FileFault::NotRegular { path: path.to_owned() });
    }
    let file = open_at_once(path).map_err(io_fault)?;
    let opened = file.metadata().map_err(io_fault)?;
    if !is_same(&seen, &opened) {
        return Err(FileFault::Changed { path: path.to_owned() });
    }
    if owner == Owner::Checked {
        check_owner(path, &opened)?;
    }
    let too_large = || FileFault::TooLarge { path: path.to_owned(), max };
    if opened.len() > max {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(opened.len()).unwrap_or(0));
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(io_fault)?;
    if bytes.len() as u64 > max { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(unix)]
fn open_at_once(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // `O_NONBLOCK`: should a pipe have taken the file's place since it was looked at, opening it does not wait.
    const NO_WAIT: i32 = if cfg!(target_vendor = "apple") { 0x4 } else { 0o4000 };
    fs::OpenOptions::new().read(true).custom_flags(NO_WAIT).open(path)
}

#[cfg(not(unix))]
fn open_at_once(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    a.len() == b.len()
}

/// Refuses what another user owns or can write to.
#[cfg(unix)]
pub(crate) fn check_owner(path: &Path, about: &Metadata) -> Result<(), FileFault> {
    use std::os::unix::fs::MetadataExt;
    let fault = |problem: String| Err(FileFault::Unsafe { path: path.to_owned(), problem });
    if about.uid() != 0 && Some(about.uid()) != own_uid() {
        return fault(format!("belongs to user {}, not to you or root", about.uid()));
    }
    match about.mode() & 0o022 {
        0 => Ok(()),
        writable => {
            let who = if writable & 0o002 != 0 { "everyone" } else { "its group" };
            fault(format!("can be changed by {who} (mode {:o})", about.mode() & 0o7777))
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn check_owner(_: &Path, _: &Metadata) -> Result<(), FileFault> {
    Ok(())
}

/// Refuses a root whose parents let anyone swap it. A sticky folder such as `/tmp` does not.
#[cfg(unix)]
fn check_parents(root: &Path) -> Result<(), FileFault> {
    use std::os::unix::fs::MetadataExt;
    for parent in root.ancestors().skip(1) {
        let about = fs::symlink_metadata(parent).map_err(|source| FileFault::Io { path: parent.to_owned(), source })?;
        if about.mode() & 0o002 != 0 && about.mode() & 0o1000 == 0 {
            let problem = format!("lets everyone replace what is in it (mode {:o})", about.mode() & 0o7777);
            return Err(FileFault::Unsafe { path: parent.to_owned(), problem });
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_parents(_: &Path) -> Result<(), FileFault> {
    Ok(())
}

/// Returns the user this process acts as, or nothing where that cannot be told: then only root's files are trusted.
#[cfg(unix)]
fn own_uid() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    use std::sync::OnceLock;
    static UID: OnceLock<Option<u32>> = OnceLock::new();
    *UID.get_or_init(|| {
        let process = fs::metadata("/proc/self").ok().map(|about| about.uid());
        // Elsewhere than on Linux: whoever creates a file owns it.
        process.or_else(|| tempfile::tempfile().and_then(|file| file.metadata()).ok().map(|about| about.uid()))
    })
}
