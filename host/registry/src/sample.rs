//! Small libraries and plugin folders for tests, made of bytes: no compiler and no file of the system is needed.

use std::fs;
use std::path::{Path, PathBuf};

use abi_stable::library::ROOT_MODULE_LOADER_NAME;

use crate::manifest::host_platform;
use crate::version::ApiVersion;

pub(crate) const HOST: ApiVersion = ApiVersion::new(1, 1, 0);

const PAGE: usize = 0x1000;

/// An ELF shared library with as much in it as the checks look at.
#[derive(Clone)]
pub(crate) struct Library {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) api: String,
    pub(crate) needed: Vec<String>,
    pub(crate) runpath: Option<String>,
    pub(crate) has_entry: bool,
    pub(crate) has_note: bool,
    pub(crate) is_program: bool,
    pub(crate) machine: u16,
}

impl Library {
    pub(crate) fn named(name: &str) -> Library {
        Library {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            api: "1.1.0".to_owned(),
            needed: vec!["libgcc_s.so.1".to_owned(), "libc.so.6".to_owned(), "ld-linux-x86-64.so.2".to_owned()],
            runpath: None,
            has_entry: true,
            has_note: true,
            is_program: false,
            machine: if cfg!(target_arch = "aarch64") { 183 } else { 62 },
        }
    }

    fn note(&self) -> Vec<u8> {
        let text = format!(
            "CTXENGINE/1\nname={}\nversion={}\nengine_api={}\npanic=unwind\nrustc=1.95.0\n",
            self.name, self.version, self.api
        );
        let mut bytes = text.into_bytes();
        bytes.resize(crate::NOTE_BYTES, 0);
        bytes
    }

    /// Writes: header, two program headers, strings, symbols, dynamic table, note, section names, section table.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut string = |text: &str| {
            let at = strings.len() as u64;
            strings.extend(text.as_bytes());
            strings.push(0);
            at
        };
        let symbol = string(if self.has_entry { ROOT_MODULE_LOADER_NAME } else { "something_else" });
        let mut dynamic: Vec<(u64, u64)> = self.needed.iter().map(|library| (1, string(library))).collect();
        if let Some(path) = &self.runpath {
            dynamic.push((29, string(path)));
        }
        if self.is_program {
            dynamic.push((0x6fff_fffb, 0x0800_0000));
        }
        let names = b"\0.dynstr\0.dynsym\0.dynamic\0.ctxengine\0.other\0.shstrtab\0";
        let name_of = |name: &str| {
            let at =
                names.windows(name.len() + 1).position(|w| w[..name.len()] == *name.as_bytes() && w[name.len()] == 0);
            at.unwrap() as u64
        };

        let mut file = vec![0u8; 64 + 2 * 56];
        let strings_at = append(&mut file, &strings);
        dynamic.extend([(5, strings_at), (10, strings.len() as u64), (0, 0)]);
        let symbols: Vec<u8> = [[0u64, 0, 0], [symbol | 0x12 << 32 | 1 << 48, PAGE as u64, 8]]
            .concat()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let symbols_at = append(&mut file, &symbols);
        let dynamic: Vec<u8> =
            dynamic.iter().flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat()).collect();
        let dynamic_at = append(&mut file, &dynamic);
        let note_at = append(&mut file, &self.note());
        let names_at = append(&mut file, names);
        let sections = [
            ("", 0, 0, 0, 0, 0),
            (".dynstr", 3, strings_at, strings.len(), 0, 0),
            (".dynsym", 11, symbols_at, symbols.len(), 1, 24),
            (".dynamic", 6, dynamic_at, dynamic.len(), 1, 16),
            (if self.has_note { ".ctxengine" } else { ".other" }, 1, note_at, crate::NOTE_BYTES, 0, 0),
            (".shstrtab", 3, names_at, names.len(), 0, 0),
        ];
        let table: Vec<u8> = sections
            .iter()
            .flat_map(|(name, kind, at, size, link, entry)| {
                let name = if name.is_empty() { 0 } else { name_of(name) };
                [name | (*kind as u64) << 32, 2, *at, *at, *size as u64, *link as u64, 8, *entry as u64]
            })
            .flat_map(u64::to_le_bytes)
            .collect();
        let table_at = append(&mut file, &table);
        let size = file.len() as u64;

        put(&mut file, 0, b"\x7fELF\x02\x01\x01");
        put(&mut file, 16, &3u16.to_le_bytes());
        put(&mut file, 18, &self.machine.to_le_bytes());
        put(&mut file, 20, &1u32.to_le_bytes());
        put(&mut file, 32, &64u64.to_le_bytes());
        put(&mut file, 40, &table_at.to_le_bytes());
        let sizes = [64u16, 56, 2, 64, sections.len() as u16, 5];
        put(&mut file, 52, &sizes.iter().flat_map(|size| size.to_le_bytes()).collect::<Vec<_>>());
        let segment = |kind: u64, at: u64, size: u64| -> Vec<u8> {
            [kind | 5 << 32, at, at, at, size, size, 8].iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        put(&mut file, 64, &segment(1, 0, size));
        put(&mut file, 120, &segment(2, dynamic_at, dynamic.len() as u64));
        file
    }
}

fn append(file: &mut Vec<u8>, bytes: &[u8]) -> u64 {
    file.resize(file.len().next_multiple_of(8), 0);
    let at = file.len() as u64;
    file.extend_from_slice(bytes);
    at
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes a plugin's folder and returns it. Modes are set, whatever the mask of who runs the tests.
pub(crate) fn plugin(root: &Path, place: &str, manifest: &str, library: &[u8]) -> PathBuf {
    let dir = root.join(place);
    folder(root, place);
    file(&dir.join("plugin.yaml"), manifest.as_bytes());
    file(&dir.join("libsample.so"), library);
    dir
}

/// Writes a context engine that is sound.
pub(crate) fn engine(root: &Path, name: &str) -> PathBuf {
    plugin(root, &format!("context_engine/{name}"), &manifest(name), &Library::named(name).bytes())
}

pub(crate) fn manifest(name: &str) -> String {
    let platform = host_platform();
    format!(
        "manifest: 1\nname: {name}\nversion: \"0.1.0\"\nengine_api: \"1.1\"\nlibrary:\n  {platform}: libsample.so\n"
    )
}

pub(crate) fn folder(root: &Path, place: &str) {
    let mut path = root.to_owned();
    for step in Path::new(place).components() {
        path.push(step);
        if !path.exists() {
            fs::create_dir(&path).unwrap();
            mode(&path, 0o755);
        }
    }
}

pub(crate) fn file(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    mode(path, 0o644);
}

#[cfg(unix)]
pub(crate) fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
pub(crate) fn mode(_: &Path, _: u32) {}
