//! Plugin libraries for the tests of the loader, built when they are asked for, and folders to put them in.
//!
//! Cargo builds each library once; a copy is kept under the target folder, since cargo may put another in its place.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX, EXE_SUFFIX};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A library, or a program, that tests load or run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fixture {
    /// The engine `older`, built against the contract's first version.
    Older,
    /// The engine `newer`, built against a version later than this one.
    Newer,
    /// As [`Fixture::Newer`], but a field of a message has another type.
    OtherField,
    /// As [`Fixture::Newer`], but two methods of a session stand in another order.
    SwappedMethods,
    /// As [`Fixture::Newer`], but of the next major version.
    OtherMajor,
    /// The general plugin `bad`: engines that misbehave, and the engine `sound`.
    Bad,
    /// The engine `crash`, which ends the process when it is made.
    Crash,
    /// The engine `crash`, which ends the process when its library is opened.
    CrashAtOpen,
    /// The engine `crash`, which ends the process with success.
    CrashWithSuccess,
    /// The engine `crash`, which calls itself otherwise.
    Misnamed,
    /// The engine `lcm`.
    Lcm,
    /// The program that tries libraries for the host.
    Runner,
    /// The program `palimpsest`.
    Program,
}

/// Set for a program that uses the copies which another one made a moment ago, and asks cargo nothing.
pub const AS_BUILT: &str = "HOST_TESTS_AS_BUILT";

impl Fixture {
    /// Returns where it is, built now or before.
    ///
    /// # Panics
    /// If it cannot be built, with what cargo said.
    pub fn path(self) -> PathBuf {
        static BUILT: Mutex<BTreeMap<Fixture, PathBuf>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = built.get(&self) {
            return path.clone();
        }
        let path = self.build().unwrap_or_else(|error| panic!("could not build the fixture {self:?}: {error}"));
        built.insert(self, path.clone());
        path
    }

    fn build(self) -> io::Result<PathBuf> {
        let target = target_folder()?;
        let copies = target.join("fixtures");
        let (prefix, suffix) = if self == Fixture::Runner { ("", EXE_SUFFIX) } else { (DLL_PREFIX, DLL_SUFFIX) };
        let copy = copies.join(format!("{prefix}{self:?}{suffix}").to_lowercase());
        if std::env::var_os(AS_BUILT).is_some() && copy.exists() {
            return Ok(copy);
        }
        fs::create_dir_all(&copies)?;
        // Another test program may build the same package with other features.
        let lock = File::create(copies.join("lock"))?;
        lock.lock()?;
        let arguments = match self {
            Fixture::Older => frozen(&target, root().join("tests/frozen/1.0")),
            Fixture::Newer => frozen(&target, root().join("tests/frozen/1.2")),
            Fixture::OtherField => {
                let edit =
                    ("src/ffi.rs", "pub tokens: u32,\n    pub part_count", "pub tokens: u64,\n    pub part_count");
                frozen(&target, variant(&target, "other-field", &[edit])?)
            }
            Fixture::SwappedMethods => {
                let usage = "    fn update_from_response(&self, usage_json: RStr<'_>) -> RawResult<()>;\n";
                let model = "    fn update_model(&self, model_json: RStr<'_>) -> RawResult<()>;\n";
                let edit = ("src/ffi.rs", &*format!("{usage}{model}"), &*format!("{model}{usage}"));
                frozen(&target, variant(&target, "swapped-methods", &[edit])?)
            }
            Fixture::OtherMajor => {
                let name = "name = \"engine-api\"\nversion = ";
                let (old, new) = (format!("{name}\"1.2.0\""), format!("{name}\"2.0.0\""));
                let edits = [("Cargo.toml", &*old, &*new), ("Cargo.lock", &*old, &*new)];
                frozen(&target, variant(&target, "other-major", &edits)?)
            }
            // Only this build makes a library of it; see its manifest.
            Fixture::Bad => words("rustc -p fixture-bad --lib --features plugin --crate-type cdylib"),
            Fixture::Crash | Fixture::CrashAtOpen | Fixture::CrashWithSuccess | Fixture::Misnamed => {
                words("build -p fixture-crash")
            }
            Fixture::Lcm => words("build -p engine-lcm --features plugin"),
            Fixture::Runner => words("build -p host-tests --example probe-runner"),
            Fixture::Program => words("build -p host-cli --bin palimpsest"),
        };
        let suffix = if matches!(self, Fixture::Runner | Fixture::Program) { EXE_SUFFIX } else { DLL_SUFFIX };
        let made = run_cargo(&arguments, suffix)?;
        let copy = copies.join(format!("{DLL_PREFIX}{self:?}{suffix}").to_lowercase());
        // A copy that is in use stays what it is; a new one takes its name.
        let fresh = copy.with_extension("fresh");
        let way = match self {
            Fixture::CrashAtOpen => Some("crash-way=starts"),
            Fixture::CrashWithSuccess => Some("crash-way=leaves"),
            Fixture::Misnamed => Some("crash-way=rename"),
            _ => None,
        };
        match way {
            Some(way) => fs::write(&fresh, patched(&fs::read(&made)?, "crash-way=aborts", way))?,
            None => fs::copy(&made, &fresh).map(drop)?,
        }
        fs::rename(&fresh, &copy)?;
        Ok(copy)
    }
}

/// Returns the root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests folder is in the workspace").to_owned()
}

/// Returns the folder that this program was built in; cargo marks it.
fn target_folder() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    let missing = || io::Error::other(format!("{} is in no target folder of cargo's", program.display()));
    marked.map(Path::to_owned).ok_or_else(missing)
}

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

/// Frozen packages have a target folder of their own: their dependencies are built with other settings.
fn frozen(target: &Path, package: PathBuf) -> Vec<OsString> {
    let mut arguments = words("build --locked --manifest-path");
    arguments.push(package.join("Cargo.toml").into());
    arguments.push("--target-dir".into());
    arguments.push(target.join("frozen").into());
    arguments
}

/// Copies the frozen 1.2 with some texts replaced, and returns the folder.
///
/// The library gets a name of its own: packages that differ only in their folder would share one file.
fn variant(target: &Path, name: &str, edits: &[(&str, &str, &str)]) -> io::Result<PathBuf> {
    let from = root().join("tests/frozen/1.2");
    let to = target.join("frozen/sources").join(name);
    fs::create_dir_all(to.join("src"))?;
    for file in ["Cargo.toml", "Cargo.lock", "src/lib.rs", "src/ffi.rs"] {
        let mut text = fs::read_to_string(from.join(file))?;
        if file == "Cargo.toml" {
            text = text.replace("fixture_newer", &format!("fixture_{}", name.replace('-', "_")));
        }
        for (_, old, new) in edits.iter().filter(|(of, _, _)| *of == file) {
            if text.matches(old).count() != 1 {
                return Err(io::Error::other(format!("{file} does not hold {old:?} once")));
            }
            text = text.replace(old, new);
        }
        // Written only where it differs, or cargo would build it again each time.
        if fs::read_to_string(to.join(file)).ok().as_ref() != Some(&text) {
            fs::write(to.join(file), text)?;
        }
    }
    Ok(to)
}

/// Runs cargo and returns the file it made that ends in `suffix`.
fn run_cargo(arguments: &[OsString], suffix: &str) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("cargo {arguments:?}\n{}", String::from_utf8_lossy(&output.stderr))));
    }
    let mut found = None;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let is_macro = message.pointer("/target/kind/0").and_then(Value::as_str) == Some("proc-macro");
        let is_script = message.pointer("/target/kind/0").and_then(Value::as_str) == Some("custom-build");
        if is_macro || is_script {
            continue;
        }
        let executable = message.get("executable").and_then(Value::as_str);
        let mut files =
            message.get("filenames").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let wanted =
            |file: &&str| if suffix == EXE_SUFFIX { Some(*file) == executable } else { file.ends_with(suffix) };
        // What was asked for is made last.
        found = files.rfind(wanted).map(PathBuf::from).or(found);
    }
    found.ok_or_else(|| io::Error::other(format!("cargo {arguments:?} made no file that ends in {suffix:?}")))
}

/// Returns the manifest of an engine of this name.
pub fn manifest(name: &str) -> String {
    format!("manifest: 1\nname: {name}\nversion: \"0.1.0\"\nengine_api: \">=1.0, <2\"\n")
}

/// Returns the manifest of a general plugin that registers these engines.
pub fn general_manifest(name: &str, engines: &[&str]) -> String {
    format!("{}kind: general\nengines: [{}]\n", manifest(name), engines.join(", "))
}

/// Lays a plugin's folder `name` into `area` (`<plugins>/context_engine`, or `<plugins>` for a general plugin) and returns it.
///
/// Modes are set whatever the mask of who runs the tests: a plugin that others can change is refused.
pub fn stage(area: &Path, name: &str, library: &[u8], manifest: &str) -> io::Result<PathBuf> {
    let folder = area.join(name);
    fs::create_dir_all(&folder)?;
    for path in [area.parent(), Some(area), Some(&*folder)].into_iter().flatten() {
        set_mode(path, 0o755)?;
    }
    let files = [("plugin.yaml".to_owned(), manifest.as_bytes(), 0o644), (library_file(name), library, 0o755)];
    for (file, bytes, mode) in files {
        let path = folder.join(file);
        fs::write(&path, bytes)?;
        set_mode(&path, mode)?;
    }
    Ok(folder)
}

/// Returns the file name that a manifest means where it names no library.
pub fn library_file(name: &str) -> String {
    format!("{DLL_PREFIX}{}{DLL_SUFFIX}", name.replace('-', "_"))
}

/// Approves a staged plugin as it is now: writes `engines.lock` in the program's home.
pub fn approve(home: &Path, folder: &Path) -> io::Result<()> {
    let name =
        folder.file_name().and_then(|name| name.to_str()).ok_or_else(|| io::Error::other("a folder without a name"))?;
    let file = home.join("engines.lock");
    let mut lock = match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes)?,
        Err(_) => json!({ "form": 1, "engines": {} }),
    };
    let library = fs::read(folder.join(library_file(name)))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    lock["engines"][name] = json!({
        "library": sha256(&library),
        "manifest": sha256(&fs::read(folder.join("plugin.yaml"))?),
        "approved": now,
        "size": library.len(),
        "source": folder,
    });
    fs::create_dir_all(home)?;
    fs::write(&file, serde_json::to_vec_pretty(&lock)?)?;
    set_mode(&file, 0o600)
}

/// Sets the mode of a file or folder, where there are modes.
#[cfg(unix)]
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

/// Sets the mode of a file or folder, where there are modes.
#[cfg(not(unix))]
pub fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// Replaces every occurrence of a text in a library by another of the same length.
///
/// # Panics
/// If the lengths differ, or it does not occur: a test that changes nothing tests nothing.
pub fn patched(library: &[u8], old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len(), "{old:?} and {new:?} have another length");
    let mut bytes = library.to_vec();
    let mut count = 0;
    for at in 0..library.len().saturating_sub(old.len()) + 1 {
        if library[at..].starts_with(old.as_bytes()) {
            bytes[at..at + old.len()].copy_from_slice(new.as_bytes());
            count += 1;
        }
    }
    assert!(count > 0, "the library does not hold {old:?}");
    bytes
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
