//! Engines of this host: which there are, whether they may run, and how they are loaded.
mod candidate;
mod digest;
mod discover;
mod dylib;
mod files;
mod guard;
mod install;
mod linked;
mod manifest;
mod name;
mod note;
mod precheck;
mod probe;
mod registry;
mod state;
mod store;
mod trust;
mod version;

#[cfg(test)]
mod sample;

pub use candidate::{Candidate, EngineFault};
pub use digest::Digest;
pub use discover::{Discovery, ENGINES_FOLDER, ENTRIES_MAX, Skipped};
pub use dylib::{Library, LoadError};
pub use files::FileFault;
pub use guard::{GuardedSession, STRIKES_MAX};
pub use install::{InstallError, Installed, install, remove};
pub use linked::{LinkedEngine, built_in, linked};
pub use manifest::{Kind, MANIFEST_FILE, Manifest, ManifestError, ModeHint, Problem, ToolNotice, host_platform};
pub use name::{BUILTIN_NAME, EngineName, NAME_BYTES_MAX, NameError};
pub use note::{NOTE_BYTES, NOTE_SECTION_ELF, NOTE_SECTION_MACHO, NOTE_SECTION_PE, Note, NoteError, PanicMode};
pub use precheck::{LIBRARY_BYTES_MAX, Precheck, PrecheckError, Target, precheck, precheck_for};
pub use probe::{ProbeReport, ProbedEngine, own_program, probe, probe_here};
pub use registry::{Listing, Registry, Resolved, Setup, Source};
pub use state::State;
pub use store::{STORE_FOLDER, StoreError, verified_copy};
pub use trust::{Approval, TRUST_FILE, Trust, TrustError, TrustFile};
pub use version::{ApiRequirement, ApiVersion};

#[doc(hidden)]
pub use inventory;
