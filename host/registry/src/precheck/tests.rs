//! Sound libraries, every kind of wrong one, and bytes changed at random.

use super::*;
use crate::sample::Library;
use proptest::prelude::*;

/// The samples are ELF files, so they are checked for Linux wherever the tests run.
const LINUX: Target = Target { format: Format::Elf, arch: std::env::consts::ARCH };

fn refused(bytes: &[u8]) -> PrecheckError {
    let error = precheck_for(bytes, LINUX).unwrap_err();
    assert!(!error.hint().is_empty());
    error
}

fn changed(change: impl FnOnce(&mut Library)) -> Vec<u8> {
    let mut library = Library::named("lcm");
    change(&mut library);
    library.bytes()
}

#[test]
fn a_sound_library_tells_what_it_is() {
    let bytes = changed(|_| {});
    let found = precheck_for(&bytes, LINUX).unwrap();
    assert_eq!(found.note.name.as_str(), "lcm");
    assert_eq!(found.note.engine_api.to_string(), "1.1.0");
    assert_eq!(found.needed, ["libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"]);
    assert_eq!((found.arch, found.size), (std::env::consts::ARCH, bytes.len() as u64));
}

#[test]
fn what_is_no_library_is_named() {
    assert_eq!(refused(b""), PrecheckError::Empty);
    assert_eq!(refused(b"#!/bin/sh\necho hello\n"), PrecheckError::Text);
    assert_eq!(refused("日本語のテキスト".as_bytes()), PrecheckError::Text);
    assert_eq!(refused(&[0, 1, 2, 3, 0xff, 0xfe]), PrecheckError::Unknown);
    for other in [&b"MZ\x90\0"[..], b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"!<arch>\n", b"\0asm\x01", b"PK\x03\x04"]
    {
        let error = refused(other);
        assert!(matches!(error, PrecheckError::Format { .. }), "{error}");
        assert_eq!(error.state(), State::Unreadable);
    }
}

#[test]
fn a_library_for_another_machine_says_which() {
    let (own, other, words) =
        if cfg!(target_arch = "aarch64") { ("aarch64", 62, "x86_64") } else { ("x86_64", 183, "aarch64") };
    let error = refused(&changed(|library| library.machine = other));
    assert_eq!(error.to_string(), format!("built for {words}, this host is {own}"));
    let mut narrow = changed(|_| {});
    narrow[4] = 1;
    assert!(matches!(refused(&narrow), PrecheckError::Arch { .. }));
    let mut swapped = changed(|_| {});
    swapped[5] = 2;
    swapped[18..20].reverse();
    assert!(matches!(refused(&swapped), PrecheckError::Arch { .. }));
    assert!(matches!(refused(&changed(|library| library.machine = 4)), PrecheckError::Arch { .. }));
}

#[test]
fn every_shortening_is_noticed() {
    let whole = changed(|_| {});
    for length in 0..whole.len() {
        let error = refused(&whole[..length]);
        match length {
            0 => assert_eq!(error, PrecheckError::Empty),
            1..4 => assert_eq!(error.state(), State::Unreadable),
            _ => assert!(matches!(error, PrecheckError::Truncated { .. }), "{length} bytes: {error}"),
        }
    }
}

#[test]
fn a_program_is_not_a_library() {
    assert_eq!(refused(&changed(|library| library.is_program = true)), PrecheckError::Kind { found: "a program" });
    for kind in [1u8, 2, 4, 9] {
        let mut other = changed(|_| {});
        other[16] = kind;
        let error = refused(&other);
        assert!(matches!(error, PrecheckError::Kind { .. }), "{error}");
        assert_eq!(error.state(), State::NotAnEngine);
    }
}

#[test]
fn a_search_path_and_a_foreign_library_are_refused() {
    let error = refused(&changed(|library| library.runpath = Some("$ORIGIN/../lib".to_owned())));
    assert_eq!(error.to_string(), r#"it brings a library search path of its own ("$ORIGIN/../lib")"#);
    for library in ["libm.so.6", "libc.musl-x86_64.so.1", "ld-linux.so.2", "libdl.so"] {
        assert!(precheck_for(&changed(|sample| sample.needed.push(library.to_owned())), LINUX).is_ok(), "{library}");
    }
    for library in [
        "libssl.so.3",
        "libc",
        "/tmp/libc.so.6",
        "libcurl.so.4",
        "",
        "libc.evil.so",
        "libc.so.evil",
        "libc.so6",
        "ld-linux/../x.so.2",
    ] {
        let error = refused(&changed(|sample| sample.needed.push(library.to_owned())));
        assert_eq!(error, PrecheckError::Needed { library: library.to_owned() });
        assert_eq!(error.state(), State::Untrusted);
    }
}

#[test]
fn a_library_that_is_no_engine_is_told_apart() {
    assert_eq!(refused(&changed(|library| library.has_entry = false)), PrecheckError::NoEntry);
    assert_eq!(refused(&changed(|library| library.has_note = false)), PrecheckError::NoNote);
    assert!(matches!(refused(&changed(|library| library.name = "../x".to_owned())), PrecheckError::Note(_)));
    assert_eq!(PrecheckError::NoEntry.state(), State::NotAnEngine);
}

#[cfg(target_os = "linux")]
#[test]
fn real_files_of_the_system_are_refused_for_the_right_reason() {
    let own = std::fs::read("/proc/self/exe").unwrap();
    assert_eq!(refused(&own), PrecheckError::Kind { found: "a program" });
    // The C library this process runs with is a sound library, and no engine.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().filter_map(|line| line.split_whitespace().last()).find(|path| path.contains("/libc."));
    if let Some(library) = library {
        let bytes = std::fs::read(library).unwrap();
        assert_eq!(refused(&bytes), PrecheckError::NoEntry, "{library}");
        for length in [4096, 65_536, bytes.len() / 2, bytes.len() - 100] {
            assert!(
                matches!(refused(&bytes[..length]), PrecheckError::Truncated { .. }),
                "{length} bytes of {library}"
            );
        }
    }
}

#[test]
fn strings_without_an_end_do_not_make_it_slow() {
    // A string table of 16 MiB without a single zero, and names that start all over it.
    let mut bytes = changed(|_| {});
    let table_at = bytes.len() as u64;
    bytes.resize(bytes.len() + (16 << 20), b'x');
    let section = |bytes: &[u8], index: usize| {
        let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        table + 64 * index
    };
    for index in [1, 5] {
        let at = section(&bytes, index);
        bytes[at + 24..at + 32].copy_from_slice(&table_at.to_le_bytes());
        bytes[at + 32..at + 40].copy_from_slice(&(16u64 << 20).to_le_bytes());
    }
    assert_eq!(refused(&bytes), PrecheckError::NoEntry);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24), cut in any::<prop::sample::Index>()) {
        let mut bytes = changed(|_| {});
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = precheck_for(&bytes, LINUX);
        bytes.truncate(cut.index(bytes.len()));
        let _ = precheck_for(&bytes, LINUX);
    }

    #[test]
    fn headers_of_other_formats_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..2048), is_pe in any::<bool>()) {
        let magic: &[u8] = if is_pe { b"MZ" } else { b"\xcf\xfa\xed\xfe" };
        bytes.splice(0..0, magic.iter().copied());
        let format = if is_pe { Format::Pe } else { Format::MachO };
        let _ = precheck_for(&bytes, Target { format, arch: "x86_64" });
    }
}
