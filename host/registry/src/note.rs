//! The note an engine's library carries about itself, readable without running any of its code.

use crate::name::EngineName;
use crate::version::{ApiVersion, is_version_text};

/// Section of the note in an ELF file.
pub const NOTE_SECTION_ELF: &str = ".ctxengine";
/// Section of the note in a PE file, whose section names have eight bytes.
pub const NOTE_SECTION_PE: &str = ".ctxeng";
/// Section of the note in a Mach-O file, in segment `__DATA`.
pub const NOTE_SECTION_MACHO: &str = "__ctxengine";
/// Bytes of a note, filled up with zeros.
pub const NOTE_BYTES: usize = 512;

/// First line of every note, up to the note's own version.
const NOTE_MAGIC: &str = "CTXENGINE/";
/// A linker may pad a section; more than this is no padding.
const SECTION_BYTES_MAX: usize = 4096;

/// What becomes of a panic in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanicMode {
    /// It is caught and becomes an error.
    Unwind,
    /// It ends the process, so the engine may only run in a process of its own.
    Abort,
}

/// What an engine's library says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Name of the plugin; of the engine, where the library is one.
    pub name: EngineName,
    /// Version of the plugin.
    pub version: String,
    /// Contract version it was built against.
    pub engine_api: ApiVersion,
    /// What becomes of a panic.
    pub panic: PanicMode,
    /// Compiler that built it; empty where the note has none.
    pub rustc: String,
}

/// What is wrong with a note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// A note of a later form.
    #[error("its note has form {found}, this host reads form 1")]
    Form {
        /// The form it claims.
        found: String,
    },
    /// Not a note, or a damaged one.
    #[error("its note is damaged: {problem}")]
    Damaged {
        /// What is wrong.
        problem: String,
    },
}

impl Note {
    /// Reads the bytes of a note section.
    pub fn parse(section: &[u8]) -> Result<Note, NoteError> {
        let damaged = |problem: &str| NoteError::Damaged { problem: problem.to_owned() };
        if section.len() > SECTION_BYTES_MAX {
            return Err(damaged("its section is larger than a note"));
        }
        let end = section.iter().position(|byte| *byte == 0).unwrap_or(section.len());
        let (text, padding) = section.split_at_checked(end).unwrap_or((section, &[]));
        if padding.iter().any(|byte| *byte != 0) {
            return Err(damaged("its section holds more than one note; a library is one plugin"));
        }
        let text = std::str::from_utf8(text).map_err(|_| damaged("it is not UTF-8"))?;
        if text.chars().any(|c| c.is_control() && c != '\n') {
            return Err(damaged("it has control characters"));
        }
        let mut lines = text.lines();
        match lines.next().and_then(|line| line.strip_prefix(NOTE_MAGIC)) {
            Some("1") => {}
            Some(form) => return Err(NoteError::Form { found: form.chars().take(16).collect() }),
            None => return Err(damaged("it does not start with `CTXENGINE/`")),
        }
        let (mut name, mut version, mut engine_api, mut panic, mut rustc) = (None, None, None, None, None);
        for line in lines {
            // A later host may write keys that this one does not know.
            match line.split_once('=') {
                Some(("name", value)) => name = Some(value),
                Some(("version", value)) => version = Some(value),
                Some(("engine_api", value)) => engine_api = Some(value),
                Some(("panic", value)) => panic = Some(value),
                Some(("rustc", value)) => rustc = Some(value),
                _ => {}
            }
        }
        let name = name.ok_or_else(|| damaged("it has no `name`"))?;
        let name = EngineName::parse(name).map_err(|error| NoteError::Damaged { problem: error.to_string() })?;
        let version = version.filter(|text| is_version_text(text)).ok_or_else(|| damaged("it has no `version`"))?;
        let engine_api =
            engine_api.and_then(ApiVersion::parse).ok_or_else(|| damaged("it has no readable `engine_api`"))?;
        let panic = match panic {
            Some("unwind") => PanicMode::Unwind,
            Some("abort") => PanicMode::Abort,
            _ => return Err(damaged("its `panic` is neither `unwind` nor `abort`")),
        };
        let (version, rustc) = (version.to_owned(), rustc.unwrap_or_default().to_owned());
        Ok(Note { name, version, engine_api, panic, rustc })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(NOTE_BYTES, 0);
        bytes
    }

    #[test]
    fn a_note_is_read_with_its_padding() {
        let note = Note::parse(&padded(
            "CTXENGINE/1\nname=lcm\nversion=0.3.1\nengine_api=1.1.0\npanic=unwind\nrustc=1.95.0\nlater=x\n",
        ))
        .unwrap();
        assert_eq!(note.name.as_str(), "lcm");
        assert_eq!((note.engine_api, note.panic), (ApiVersion::new(1, 1, 0), PanicMode::Unwind));
        assert_eq!((note.version.as_str(), note.rustc.as_str()), ("0.3.1", "1.95.0"));
    }

    #[test]
    fn a_damaged_note_says_what_is_wrong() {
        let whole = "CTXENGINE/1\nname=lcm\nversion=1\nengine_api=1.1.0\npanic=abort\n";
        let problem = |bytes: &[u8]| Note::parse(bytes).unwrap_err().to_string();
        assert!(problem(b"").contains("does not start"));
        assert!(problem(&padded("CTXENGINE/2\n")).contains("form 2"));
        assert!(problem(&padded(&whole.replace("lcm", "../x"))).contains("leads out"));
        assert!(problem(&padded(&whole.replace("lcm", "compressor"))).contains("reserved"));
        assert!(problem(&padded(&whole.replace("1.1.0", "one"))).contains("engine_api"));
        assert!(problem(&padded(&whole.replace("abort", "maybe"))).contains("panic"));
        assert!(problem(&padded(&whole.replace("=1\n", "=\u{1b}[2J\n"))).contains("control"));
        assert!(problem(&[padded(whole), padded(whole)].concat()).contains("more than one note"));
        assert!(problem(&[0xff; 16]).contains("UTF-8"));
        assert!(problem(&vec![0; 9000]).contains("larger"));
    }
}
