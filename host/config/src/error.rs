//! What can go wrong when a configuration is changed or written. Reading one never fails.

use std::path::PathBuf;

/// Why a setting could not be changed, expanded or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("unknown setting {key:?}{}", .hint.as_deref().map(|h| format!("; {h}")).unwrap_or_default())]
    UnknownKey { key: String, hint: Option<String> },
    #[error("{key}: expected {expected}, found {found}")]
    BadValue { key: String, expected: String, found: String },
    #[error("the file cannot be edited: {reason}")]
    Unreadable { reason: String },
    #[error("{key} was not changed: {reason}; edit the file by hand")]
    EditRefused { key: String, reason: String },
    #[error("environment variable {name} is not set, but the configuration refers to it")]
    MissingVariable { name: String },
    #[error("could not write {}: {source}", .path.display())]
    Write { path: PathBuf, source: std::io::Error },
}
