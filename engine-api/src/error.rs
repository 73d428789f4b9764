//! The one error an engine and its host exchange: flat, stable across versions, decidable by its kind.

use crate::message::coded_enum;
use serde::{Deserialize, Serialize};

coded_enum! {
    /// Why an engine or a host service could not do what was asked. The host decides on it what happens next.
    ErrorKind, unknown = Internal {
        /// The engine panicked; its session is not used again.
        Panicked = 1 / "panicked",
        /// Anything without a kind of its own. The host falls back for this turn.
        Internal = 2 / "internal",
        /// The call was cancelled.
        Cancelled = 3 / "cancelled",
        /// This engine or this host does not do that. The host takes its own default.
        Unsupported = 4 / "unsupported",
        /// The deadline passed.
        TimedOut = 5 / "timed_out",
        /// A host service failed.
        Service = 6 / "service",
        /// The session is in another call (re-entrant or concurrent).
        Busy = 7 / "busy",
        /// The engine's settings are wrong; the message names the setting.
        Config = 8 / "config",
        /// The call speaks of a conversation that has moved on.
        Stale = 9 / "stale",
        /// The engine finds nothing to compact. The host asks its own compressor before it keeps the conversation as it is.
        NothingToCompact = 10 / "nothing_to_compact",
        /// No model answered; another try later may succeed.
        Summariser = 11 / "summariser",
        /// State could not be read or written.
        Storage = 12 / "storage",
        /// What was passed in makes no sense to the callee.
        Input = 13 / "input",
    }
}

/// An error that crosses the plugin boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EngineError {
    /// Decides what the host does.
    pub kind: ErrorKind,
    /// What happened: lower-case, no full stop, names the thing.
    pub message: String,
    /// What a person can do about it; empty where there is nothing.
    #[serde(default)]
    pub hint: String,
    /// Tells that the same call may succeed after this many milliseconds; 0 means that a retry will not help.
    #[serde(default)]
    pub retry_after_ms: u64,
}

impl EngineError {
    /// Makes an error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        EngineError { kind, message: message.into(), hint: String::new(), retry_after_ms: 0 }
    }
    /// Makes an error without a kind of its own.
    pub fn internal(message: impl Into<String>) -> Self {
        EngineError::new(ErrorKind::Internal, message)
    }
    /// Says that `what` is not done by this engine or host.
    pub fn unsupported(what: impl std::fmt::Display) -> Self {
        EngineError::new(ErrorKind::Unsupported, format!("{} is not supported", what))
    }
    /// Says that there is nothing to compact, and why.
    pub fn nothing_to_compact(why: impl Into<String>) -> Self {
        EngineError::new(ErrorKind::NothingToCompact, why)
    }
    /// Adds what a person can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
    /// Adds when a retry may succeed.
    #[must_use]
    pub fn retry_after_ms(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = milliseconds;
        self
    }
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for EngineError {}

impl From<serde_json::Error> for EngineError {
    fn from(error: serde_json::Error) -> Self {
        EngineError::new(ErrorKind::Input, format!("could not read JSON: {}", error))
    }
}
impl From<String> for EngineError {
    fn from(message: String) -> Self {
        EngineError::internal(message)
    }
}
impl From<&str> for EngineError {
    fn from(message: &str) -> Self {
        EngineError::internal(message)
    }
}
