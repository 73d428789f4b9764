//! Loads a plugin library into this process: the only unsafe code of the host.
//!
//! abi_stable's own loading keeps one library per root type for the whole process, and refuses engines of an older
//! minor. So the library is opened here, its header and layout are checked here, with the roles of the two sides
//! swapped where the engine is the older one, and it is never closed: the layout checker keeps references into it.
#![allow(unsafe_code)]

use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{AbiInstabilityErrors, check_layout_compatibility};
use abi_stable::library::{AbiHeaderRef, ROOT_MODULE_LOADER_NAME_WITH_NUL, RootModule};
use abi_stable::sabi_types::VersionNumber;
use abi_stable::type_layout::TLFieldOrFunction;
use engine_api::ffi::{EngineModRef, ModuleInfo, module_info};
use engine_api::{ContextEngine, EngineError, json::Value};
use std::path::{Path, PathBuf};

/// Characters of one difference between two layouts that are worth reading.
const DIFFERENCE_CHARS_MAX: usize = 200;

/// Why a library is not an engine of this host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The system's loader refused it.
    #[error("could not open {}: {problem}", path.display())]
    Open {
        /// The library.
        path: PathBuf,
        /// The loader's words.
        problem: String,
    },
    /// It has no entry point.
    #[error("{} exports no engine entry point", path.display())]
    NoEntry {
        /// The library.
        path: PathBuf,
    },
    /// Its entry point is not what it seems.
    #[error("{} has an entry point that is not an engine's: {problem}", path.display())]
    NotEngine {
        /// The library.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// It speaks another major version of the contract.
    #[error("{} was built for engine API {engine}, this host speaks {host}", path.display())]
    Version {
        /// The library.
        path: PathBuf,
        /// The engine's.
        engine: String,
        /// The host's.
        host: String,
    },
    /// A type that crosses the boundary has another layout.
    #[error("{} was built for engine API {engine} with another layout than this host's {host}: {difference}", path.display())]
    Layout {
        /// The library.
        path: PathBuf,
        /// The engine's version.
        engine: String,
        /// The host's version.
        host: String,
        /// The first difference.
        difference: String,
    },
    /// It could not say who it is.
    #[error("{} could not be asked who it is: {source}", path.display())]
    Info {
        /// The library.
        path: PathBuf,
        /// Its error.
        source: EngineError,
    },
}

/// A plugin library in this process.
#[derive(Clone)]
pub struct Library {
    module: EngineModRef,
    info: ModuleInfo,
}

impl Library {
    /// Opens a library and checks that it is an engine of this host.
    ///
    /// Its initialisers run. Open only what was approved, checked as a file and tried in another process.
    pub fn open(path: &Path) -> Result<Library, LoadError> {
        let handle = open_now(path)?;
        // From here on its code has run and may be referred to from anywhere, so it stays until the process ends.
        let handle: &'static libloading::Library = Box::leak(Box::new(handle));
        // SAFETY: the symbol is looked up, not called. Its type is read as abi_stable's header, whose magic and
        // version are checked by `is_valid` before anything else of it is used.
        let header: AbiHeaderRef = unsafe {
            let symbol = handle.get::<AbiHeaderRef>(ROOT_MODULE_LOADER_NAME_WITH_NUL.as_bytes());
            *symbol.map_err(|_| LoadError::NoEntry { path: path.to_owned() })?
        };
        let not_engine = |problem: String| LoadError::NotEngine { path: path.to_owned(), problem };
        if !header.is_valid() {
            return Err(not_engine("its header is not abi_stable 0.11's".to_owned()));
        }
        let header = header.upgrade().map_err(|error| not_engine(first_line(&error.to_string())))?;
        let version = |strings| VersionNumber::new(strings).map_err(|error| not_engine(first_line(&error.to_string())));
        let host = version(EngineModRef::VERSION_STRINGS)?;
        let engine = version(header.version_strings())?;
        if host.major != engine.major {
            return Err(LoadError::Version {
                path: path.to_owned(),
                engine: engine.to_string(),
                host: host.to_string(),
            });
        }
        let theirs = header.layout().ok_or_else(|| not_engine("it was built without its layout".to_owned()))?;
        let ours = <EngineModRef as StableAbi>::LAYOUT;
        // The checker asks that the second has at least what the first has. An engine of an older minor has less.
        let checked = if engine.minor < host.minor {
            check_layout_compatibility(theirs, ours)
        } else {
            check_layout_compatibility(ours, theirs)
        };
        checked.map_err(|errors| LoadError::Layout {
            path: path.to_owned(),
            engine: engine.to_string(),
            host: host.to_string(),
            difference: first_difference(&errors),
        })?;
        // SAFETY: the layouts agree as far as the older side reaches; what lies beyond is reached only through
        // accessors that look at the number of fields stored in the value.
        let module = unsafe { header.unchecked_layout::<EngineModRef>() }
            .map_err(|error| not_engine(first_line(&format!("{error:?}"))))?;
        let info = module_info(module).map_err(|source| LoadError::Info { path: path.to_owned(), source })?;
        Ok(Library { module, info })
    }

    /// Returns what the library says of itself.
    pub fn info(&self) -> &ModuleInfo {
        &self.info
    }

    /// Makes one of its engines.
    pub fn engine(&self, name: &str, settings: &Value) -> Result<Box<dyn ContextEngine>, EngineError> {
        engine_api::ffi::foreign_engine(self.module, name, settings)
    }
}

/// Opens with every symbol resolved: a lazily missing one would end the process at its first call.
fn open_now(path: &Path) -> Result<libloading::Library, LoadError> {
    let failed = |error: libloading::Error| LoadError::Open { path: path.to_owned(), problem: loader_text(&error) };
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: the caller vouches for the file: its initialisers run here.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into).map_err(failed)
    }
    #[cfg(not(unix))]
    {
        // SAFETY: the caller vouches for the file: its initialisers run here.
        unsafe { libloading::Library::new(path) }.map_err(failed)
    }
}

fn loader_text(error: &libloading::Error) -> String {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text = source.to_string();
    }
    first_line(&text)
}

fn first_line(text: &str) -> String {
    cut(text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no further information").trim())
}

fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(DIFFERENCE_CHARS_MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Names the first place where two layouts differ; the checker's own report runs to thousands of lines.
fn first_difference(errors: &AbiInstabilityErrors) -> String {
    // The deepest place names the field; the places above it only say that something below differs.
    let deepest =
        errors.errors.iter().filter(|error| !error.errs.is_empty()).max_by_key(|error| error.stack_trace.len());
    let Some(error) = deepest else {
        return "no difference was named".to_owned();
    };
    let place: Vec<String> = error
        .stack_trace
        .iter()
        .map(|step| match &step.found {
            TLFieldOrFunction::Field(field) => field.name().to_owned(),
            TLFieldOrFunction::Function(_) => "fn()".to_owned(),
        })
        .collect();
    let what = error.errs.iter().next().map(|difference| format!("{difference:?}")).unwrap_or_default();
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("at {}: {}", if place.is_empty() { "the root module".to_owned() } else { place.join(".") }, cut(&what))
}
