//! Checks a library's bytes before anything is loaded: no code of it runs here.
//!
//! Opening a damaged library can end the process (a file cut short raises SIGBUS), and the loader's own messages rarely
//! say what is wrong, so what can be told from the bytes is told first. A library that passes is whole and meant for this
//! host; whether it is the approved one only its hash tells.

mod elf;
mod other;

use crate::note::{Note, NoteError};
use crate::state::State;

/// Largest library that is read.
pub const LIBRARY_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Longest piece of a foreign file that a message repeats.
const QUOTED_CHARS_MAX: usize = 120;

/// What the bytes of a sound library tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Precheck {
    /// What the library says of itself.
    pub note: Note,
    /// Libraries it needs, all of them on the allow-list.
    pub needed: Vec<String>,
    /// Its architecture, as `std::env::consts::ARCH` writes it.
    pub arch: &'static str,
    /// Its size in bytes.
    pub size: u64,
}

/// The platform a library must be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    format: Format,
    arch: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Elf,
    Pe,
    MachO,
}

impl Format {
    const fn words(self) -> &'static str {
        match self {
            Format::Elf => "an ELF file (Linux)",
            Format::Pe => "a PE file (Windows)",
            Format::MachO => "a Mach-O file (macOS)",
        }
    }
}

impl Target {
    /// Returns the platform of this process.
    pub const fn host() -> Target {
        let format = if cfg!(windows) {
            Format::Pe
        } else if cfg!(target_vendor = "apple") {
            Format::MachO
        } else {
            Format::Elf
        };
        Target { format, arch: std::env::consts::ARCH }
    }
}

/// Why a file is not an engine's library for this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrecheckError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// Above [`LIBRARY_BYTES_MAX`].
    #[error("the file has {size} bytes, at most {LIBRARY_BYTES_MAX} are read")]
    TooLarge {
        /// Its size.
        size: u64,
    },
    /// Text or script.
    #[error("it is a text file, not a shared library")]
    Text,
    /// No format that is known.
    #[error("it is not a shared library: its first bytes belong to no known format")]
    Unknown,
    /// For another kind of system, or an archive.
    #[error("it is {found}, this host loads {wanted}")]
    Format {
        /// What it is.
        found: &'static str,
        /// What this host loads.
        wanted: &'static str,
    },
    /// For another machine.
    #[error("built for {found}, this host is {host}")]
    Arch {
        /// Its machine.
        found: String,
        /// This machine.
        host: &'static str,
    },
    /// Not a shared library.
    #[error("it is {found}, not a shared library")]
    Kind {
        /// What it is.
        found: &'static str,
    },
    /// Shorter than its headers say.
    #[error("the file is cut short: its headers describe {needs} bytes, it has {size}")]
    Truncated {
        /// Bytes that the headers describe.
        needs: u64,
        /// Bytes that are there.
        size: u64,
    },
    /// Headers that contradict themselves.
    #[error("the file is damaged: {problem}")]
    Damaged {
        /// What is wrong.
        problem: String,
    },
    /// A search path of its own.
    #[error("it brings a library search path of its own ({path:?})")]
    SearchPath {
        /// The path.
        path: String,
    },
    /// A library that engines may not need.
    #[error("it needs {library:?}, which an engine may not load")]
    Needed {
        /// The library.
        library: String,
    },
    /// A library, but no engine.
    #[error("it exports no engine entry point")]
    NoEntry,
    /// An entry point without a note.
    #[error("it carries no engine note")]
    NoNote,
    /// A note that cannot be read.
    #[error(transparent)]
    Note(#[from] NoteError),
}

impl PrecheckError {
    /// Returns how an engine with this fault stands.
    pub fn state(&self) -> State {
        match self {
            PrecheckError::Empty
            | PrecheckError::TooLarge { .. }
            | PrecheckError::Text
            | PrecheckError::Unknown
            | PrecheckError::Format { .. }
            | PrecheckError::Arch { .. }
            | PrecheckError::Truncated { .. }
            | PrecheckError::Damaged { .. } => State::Unreadable,
            PrecheckError::Kind { .. }
            | PrecheckError::NoEntry
            | PrecheckError::NoNote
            | PrecheckError::Note(NoteError::Damaged { .. }) => State::NotAnEngine,
            PrecheckError::Note(NoteError::Form { .. }) => State::Incompatible,
            PrecheckError::SearchPath { .. } | PrecheckError::Needed { .. } => State::Untrusted,
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            PrecheckError::Empty | PrecheckError::Truncated { .. } | PrecheckError::Damaged { .. } => {
                "copy or build the library again; the copy did not finish or the disk has a fault"
            }
            PrecheckError::TooLarge { .. } => "build it in release mode and strip it",
            PrecheckError::Text | PrecheckError::Unknown => {
                "name the built library (`crate-type = [\"cdylib\"]`), not its source or an archive"
            }
            PrecheckError::Format { .. } | PrecheckError::Arch { .. } => {
                "build it on this platform, or take the file made for it"
            }
            PrecheckError::Kind { .. } => "build the crate with `crate-type = [\"cdylib\"]`",
            PrecheckError::SearchPath { .. } => {
                "link it without RPATH or RUNPATH; approval does not lift this, since other files would be loaded with it"
            }
            PrecheckError::Needed { .. } => {
                "link that library statically; approval does not lift this, since its bytes are not checked"
            }
            PrecheckError::NoEntry | PrecheckError::NoNote => "export the engine with the macro of `engine-api`",
            PrecheckError::Note(NoteError::Form { .. }) => "take a later host, or build the engine against this one",
            PrecheckError::Note(NoteError::Damaged { .. }) => "build the engine again with the macro of `engine-api`",
        }
    }
}

/// Checks a library for this host.
pub fn precheck(bytes: &[u8]) -> Result<Precheck, PrecheckError> {
    precheck_for(bytes, Target::host())
}

/// Checks a library for a given platform.
pub fn precheck_for(bytes: &[u8], target: Target) -> Result<Precheck, PrecheckError> {
    let size = bytes.len() as u64;
    if bytes.is_empty() {
        return Err(PrecheckError::Empty);
    }
    if size > LIBRARY_BYTES_MAX {
        return Err(PrecheckError::TooLarge { size });
    }
    let found = sniff(bytes)?;
    if found != target.format {
        return Err(PrecheckError::Format { found: found.words(), wanted: target.format.words() });
    }
    let Parts { note, needed } = match found {
        Format::Elf => elf::read(bytes, target.arch)?,
        Format::Pe | Format::MachO => other::read(bytes, found, target.arch)?,
    };
    let note = Note::parse(note)?;
    if let Some(library) = needed.iter().find(|library| !is_allowed(library, target.format)) {
        return Err(PrecheckError::Needed { library: library.clone() });
    }
    Ok(Precheck { note, needed, arch: target.arch, size })
}

/// What the reader of a format finds.
struct Parts<'a> {
    note: &'a [u8],
    needed: Vec<String>,
}

fn sniff(bytes: &[u8]) -> Result<Format, PrecheckError> {
    let wrong = |found| PrecheckError::Format { found, wanted: Target::host().format.words() };
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => Ok(Format::Elf),
        [b'M', b'Z', ..] => Ok(Format::Pe),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xfe, 0xed, 0xfa, 0xcf | 0xce, ..] => Ok(Format::MachO),
        [0xca, 0xfe, 0xba, 0xbe | 0xbf, ..] => Err(wrong("a universal Mach-O file of several machines")),
        [b'!', b'<', b'a', b'r', b'c', b'h', b'>', ..] => Err(wrong("a static archive")),
        [0, b'a', b's', b'm', ..] => Err(wrong("a WebAssembly module")),
        [b'P', b'K', 3, 4, ..] | [0x1f, 0x8b, ..] => Err(wrong("a packed archive")),
        _ => {
            let head = bytes.get(..512).unwrap_or(bytes);
            let is_text = head.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..));
            Err(
                if is_text
                    && std::str::from_utf8(head).map_or_else(|error| error.valid_up_to() + 4 > head.len(), |_| true)
                {
                    PrecheckError::Text
                } else {
                    PrecheckError::Unknown
                },
            )
        }
    }
}

/// Tells whether an engine may need this library: the ones every process of the platform has loaded anyway.
fn is_allowed(library: &str, format: Format) -> bool {
    match format {
        Format::Elf => {
            // The whole name must match: with a slash in it the loader would take it as a path.
            let Some((stem, version)) = library.split_once(".so") else { return false };
            (version.is_empty() || version.starts_with('.'))
                && version.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())
                && stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
                && (matches!(stem, "libc" | "libm" | "libgcc_s" | "libdl" | "libpthread" | "librt")
                    || ["ld-linux", "ld-musl-", "libc.musl-"].iter().any(|start| stem.starts_with(start)))
        }
        Format::MachO => {
            matches!(library, "/usr/lib/libSystem.B.dylib" | "/usr/lib/libiconv.2.dylib" | "/usr/lib/libobjc.A.dylib")
                || library.starts_with("/System/Library/Frameworks/CoreFoundation.framework/")
                || library.starts_with("/System/Library/Frameworks/Security.framework/")
        }
        Format::Pe => {
            let library = library.to_ascii_lowercase();
            library.starts_with("api-ms-win-")
                || matches!(
                    library.as_str(),
                    "kernel32.dll"
                        | "kernelbase.dll"
                        | "ntdll.dll"
                        | "advapi32.dll"
                        | "bcrypt.dll"
                        | "bcryptprimitives.dll"
                        | "ws2_32.dll"
                        | "userenv.dll"
                        | "shell32.dll"
                        | "ole32.dll"
                        | "user32.dll"
                        | "msvcrt.dll"
                        | "ucrtbase.dll"
                        | "vcruntime140.dll"
                        | "vcruntime140_1.dll"
                )
        }
    }
}

/// Makes bytes of a foreign file fit for a message.
fn quoted(bytes: &[u8]) -> String {
    let head = bytes.get(..QUOTED_CHARS_MAX * 4).unwrap_or(bytes);
    String::from_utf8_lossy(head).chars().take(QUOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
