//! Reads an ELF library the way the loader does: by its segments, and by its section table for symbols and the note.
//!
//! Every step is linear in the file: names are compared in place, never searched for their end.

use abi_stable::library::ROOT_MODULE_LOADER_NAME;
use object::Endianness;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64, Sym64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};

use super::{Parts, PrecheckError, quoted};
use crate::note::NOTE_SECTION_ELF;

/// More than any real library has; the loop over them stays short.
const SECTIONS_MAX: usize = 4096;
const NEEDED_MAX: usize = 256;
/// Longest name of a needed library or of a search path.
const NAME_BYTES_MAX: usize = 4096;
/// Bytes of an ELF header on 64-bit machines.
const HEADER_BYTES: u64 = 64;

/// `DF_1_PIE`: a program linked like a library. The C library refuses to load one.
const FLAG_PIE: u64 = 0x0800_0000;

type Header = FileHeader64<Endianness>;
type Segment = ProgramHeader64<Endianness>;
type Section = SectionHeader64<Endianness>;

pub(super) fn read<'a>(bytes: &'a [u8], arch: &'static str) -> Result<Parts<'a>, PrecheckError> {
    let size = bytes.len() as u64;
    let &[_, _, _, _, width, order, ..] = bytes else {
        return Err(PrecheckError::Truncated { needs: HEADER_BYTES, size });
    };
    check_machine(bytes, width, order, arch)?;
    if size < HEADER_BYTES {
        return Err(PrecheckError::Truncated { needs: HEADER_BYTES, size });
    }
    let header = Header::parse(bytes).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    match header.e_type(endian) {
        elf::ET_DYN => {}
        elf::ET_EXEC => return Err(PrecheckError::Kind { found: "a program" }),
        elf::ET_REL => return Err(PrecheckError::Kind { found: "an object file that is not linked yet" }),
        elf::ET_CORE => return Err(PrecheckError::Kind { found: "a memory dump" }),
        _ => return Err(PrecheckError::Kind { found: "an ELF file of an unknown kind" }),
    }
    let sections_end = table_end(header.e_shoff(endian), header.e_shnum(endian), header.e_shentsize(endian));
    let segments_end = table_end(header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian));
    inside(sections_end.max(segments_end), size)?;
    let segments = header.program_headers(endian, bytes).map_err(damaged)?;
    for segment in segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD) {
        inside(segment.p_offset(endian).saturating_add(segment.p_filesz(endian)), size)?;
    }
    let needed = dynamic(segments, endian, bytes)?;
    let sections = header.section_headers(endian, bytes).map_err(damaged)?;
    if sections.len() > SECTIONS_MAX {
        return Err(PrecheckError::Damaged { problem: format!("it claims {} sections", sections.len()) });
    }
    if !has_entry(sections, endian, bytes) {
        return Err(PrecheckError::NoEntry);
    }
    let names = header
        .shstrndx(endian, bytes)
        .ok()
        .and_then(|index| sections.get(usize::try_from(index).ok()?))
        .and_then(|section| section.data(endian, bytes).ok())
        .ok_or(PrecheckError::NoNote)?;
    let note = sections
        .iter()
        .find(|section| is_name(names, section.sh_name(endian), NOTE_SECTION_ELF))
        .ok_or(PrecheckError::NoNote)?;
    let note = note.data(endian, bytes).map_err(damaged)?;
    Ok(Parts { note, needed })
}

fn damaged(error: object::read::Error) -> PrecheckError {
    PrecheckError::Damaged { problem: error.to_string() }
}

fn inside(needs: u64, size: u64) -> Result<(), PrecheckError> {
    if needs > size { Err(PrecheckError::Truncated { needs, size }) } else { Ok(()) }
}

fn table_end(start: u64, count: u16, entry_bytes: u16) -> u64 {
    if count == 0 { 0 } else { start.saturating_add(u64::from(count) * u64::from(entry_bytes)) }
}

/// Compares the machine before anything else is read, so that a foreign library is named as such.
fn check_machine(bytes: &[u8], width: u8, order: u8, arch: &'static str) -> Result<(), PrecheckError> {
    let machine = match bytes.get(18..20) {
        Some(&[low, high]) if order == elf::ELFDATA2MSB => u16::from_be_bytes([low, high]),
        Some(&[low, high]) => u16::from_le_bytes([low, high]),
        _ => return Err(PrecheckError::Truncated { needs: HEADER_BYTES, size: bytes.len() as u64 }),
    };
    let big_endian = order == elf::ELFDATA2MSB;
    let is_wide = width == elf::ELFCLASS64;
    let found = match machine {
        elf::EM_X86_64 if is_wide => "x86_64".to_owned(),
        elf::EM_X86_64 => "x86_64 with 32-bit addresses".to_owned(),
        elf::EM_AARCH64 if big_endian => "aarch64 in big-endian order".to_owned(),
        elf::EM_AARCH64 => "aarch64".to_owned(),
        elf::EM_386 => "x86 (32-bit)".to_owned(),
        elf::EM_ARM => "arm (32-bit)".to_owned(),
        elf::EM_RISCV if is_wide => "riscv64".to_owned(),
        elf::EM_RISCV => "riscv32".to_owned(),
        elf::EM_PPC64 => "powerpc64".to_owned(),
        elf::EM_S390 => "s390x".to_owned(),
        elf::EM_LOONGARCH => "loongarch64".to_owned(),
        other => format!("machine number {other}"),
    };
    let native_order = if cfg!(target_endian = "big") { elf::ELFDATA2MSB } else { elf::ELFDATA2LSB };
    if found == arch && is_wide && order == native_order {
        return Ok(());
    }
    Err(PrecheckError::Arch { found, host: arch })
}

/// Returns the needed libraries; refuses a search path and a program.
fn dynamic(segments: &[Segment], endian: Endianness, bytes: &[u8]) -> Result<Vec<String>, PrecheckError> {
    let mut entries = None;
    for segment in segments {
        if let Some(found) = segment.dynamic(endian, bytes).map_err(damaged)? {
            entries = Some(found);
        }
    }
    let Some(entries) = entries else {
        return Err(PrecheckError::Kind { found: "an ELF file without anything to load dynamically" });
    };
    let end = entries.iter().position(|entry| entry.d_tag(endian) == u64::from(elf::DT_NULL));
    let entries = entries.get(..end.unwrap_or(entries.len())).unwrap_or_default();
    let value = |tag: u32| entries.iter().find(|entry| entry.d_tag(endian) == u64::from(tag)).map(|e| e.d_val(endian));
    if value(elf::DT_FLAGS_1).is_some_and(|flags| flags & FLAG_PIE != 0) {
        return Err(PrecheckError::Kind { found: "a program" });
    }
    let strings = value(elf::DT_STRTAB).and_then(|address| file_offset(segments, endian, address));
    let text = |offset: u64| -> Result<&[u8], PrecheckError> {
        let bad =
            || PrecheckError::Damaged { problem: "the name of a needed library lies outside the file".to_owned() };
        let start = strings.and_then(|strings| strings.checked_add(offset)).ok_or_else(bad)?;
        let rest = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).ok_or_else(bad)?;
        let rest = rest.get(..NAME_BYTES_MAX).unwrap_or(rest);
        let end = rest.iter().position(|byte| *byte == 0).ok_or_else(bad)?;
        rest.get(..end).ok_or_else(bad)
    };
    let mut needed = Vec::new();
    for entry in entries {
        match u32::try_from(entry.d_tag(endian)) {
            Ok(elf::DT_RPATH | elf::DT_RUNPATH) => {
                return Err(PrecheckError::SearchPath { path: quoted(text(entry.d_val(endian))?) });
            }
            // These two name a library of their own to load beside the engine.
            Ok(elf::DT_NEEDED | elf::DT_AUXILIARY | elf::DT_FILTER) => {
                if needed.len() == NEEDED_MAX {
                    return Err(PrecheckError::Damaged { problem: format!("it needs over {NEEDED_MAX} libraries") });
                }
                needed.push(quoted(text(entry.d_val(endian))?));
            }
            _ => {}
        }
    }
    Ok(needed)
}

/// Returns where in the file an address of the loaded library comes from.
fn file_offset(segments: &[Segment], endian: Endianness, address: u64) -> Option<u64> {
    segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(endian))?;
        (within < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(within)).flatten()
    })
}

fn has_entry(sections: &[Section], endian: Endianness, bytes: &[u8]) -> bool {
    let Some(table) = sections.iter().find(|section| section.sh_type(endian) == elf::SHT_DYNSYM) else {
        return false;
    };
    let Ok(symbols) = table.data_as_array::<Sym64<Endianness>, _>(endian, bytes) else {
        return false;
    };
    let names = usize::try_from(table.sh_link(endian)).ok().and_then(|index| sections.get(index));
    let Some(Ok(names)) = names.map(|section| section.data(endian, bytes)) else {
        return false;
    };
    symbols.iter().any(|symbol| {
        symbol.st_shndx(endian) != elf::SHN_UNDEF && is_name(names, symbol.st_name(endian), ROOT_MODULE_LOADER_NAME)
    })
}

/// Tells whether the string at `offset` of a string table is exactly `name`.
fn is_name(table: &[u8], offset: u32, name: &str) -> bool {
    let found = usize::try_from(offset).ok().and_then(|start| table.get(start..start.checked_add(name.len() + 1)?));
    found.and_then(|found| found.split_last()).is_some_and(|(end, text)| *end == 0 && text == name.as_bytes())
}
