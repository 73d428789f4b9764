//! Reads PE and Mach-O libraries, with the same questions as for ELF.

use abi_stable::library::ROOT_MODULE_LOADER_NAME;
use object::read::macho::LoadCommandVariant;
use object::{Architecture, File, FileKind, Object, ObjectKind, ObjectSection, ObjectSegment};

use super::{Format, Parts, PrecheckError, quoted};
use crate::note::{NOTE_SECTION_MACHO, NOTE_SECTION_PE};

/// Imports of one file that are looked at; a library of the platform's own size has a few thousand.
const IMPORTS_MAX: usize = 100_000;

pub(super) fn read<'a>(bytes: &'a [u8], format: Format, arch: &'static str) -> Result<Parts<'a>, PrecheckError> {
    let size = bytes.len() as u64;
    let bits_32 = || PrecheckError::Arch { found: "a 32-bit machine".to_owned(), host: arch };
    match FileKind::parse(bytes) {
        Ok(FileKind::Pe64 | FileKind::MachO64) => {}
        Ok(FileKind::Pe32 | FileKind::MachO32) => return Err(bits_32()),
        Ok(_) | Err(_) => {
            return Err(PrecheckError::Damaged { problem: "its header is not complete".to_owned() });
        }
    }
    let file = File::parse(bytes).map_err(damaged)?;
    let found = match file.architecture() {
        Architecture::X86_64 => "x86_64".to_owned(),
        Architecture::Aarch64 => "aarch64".to_owned(),
        other => format!("{other:?}").to_ascii_lowercase(),
    };
    if found != arch {
        return Err(PrecheckError::Arch { found, host: arch });
    }
    match file.kind() {
        ObjectKind::Dynamic => {}
        ObjectKind::Executable => return Err(PrecheckError::Kind { found: "a program" }),
        ObjectKind::Relocatable => return Err(PrecheckError::Kind { found: "an object file that is not linked yet" }),
        _ => return Err(PrecheckError::Kind { found: "a binary file of another kind" }),
    }
    for segment in file.segments() {
        let (start, length) = segment.file_range();
        let needs = start.saturating_add(length);
        if needs > size {
            return Err(PrecheckError::Truncated { needs, size });
        }
    }
    let needed = needed(&file)?;
    let exports = file.exports().map_err(damaged)?;
    // Mach-O puts an underscore before the names of C.
    let is_entry = |name: &[u8]| {
        let name = if format == Format::MachO { name.strip_prefix(b"_").unwrap_or(name) } else { name };
        name == ROOT_MODULE_LOADER_NAME.as_bytes()
    };
    if !exports.iter().any(|export| is_entry(export.name())) {
        return Err(PrecheckError::NoEntry);
    }
    let section = if format == Format::MachO { NOTE_SECTION_MACHO } else { NOTE_SECTION_PE };
    let note = file.section_by_name(section).ok_or(PrecheckError::NoNote)?.data().map_err(damaged)?;
    Ok(Parts { note, needed })
}

fn needed(file: &File<'_>) -> Result<Vec<String>, PrecheckError> {
    let mut needed: Vec<String> = Vec::new();
    if let File::MachO64(file) = file {
        let endian = file.endian();
        let mut commands = file.macho_load_commands().map_err(damaged)?;
        while let Some(command) = commands.next().map_err(damaged)? {
            match command.variant().map_err(damaged)? {
                LoadCommandVariant::Dylib(library) => {
                    needed.push(quoted(command.string(endian, library.dylib.name).map_err(damaged)?));
                }
                LoadCommandVariant::Rpath(path) => {
                    let path = quoted(command.string(endian, path.path).map_err(damaged)?);
                    return Err(PrecheckError::SearchPath { path });
                }
                _ => {}
            }
        }
        return Ok(needed);
    }
    for import in file.imports().map_err(damaged)?.iter().take(IMPORTS_MAX) {
        let library = quoted(import.library());
        if needed.last() != Some(&library) {
            needed.push(library);
        }
    }
    needed.sort();
    needed.dedup();
    Ok(needed)
}

fn damaged(error: object::read::Error) -> PrecheckError {
    PrecheckError::Damaged { problem: error.to_string() }
}
