//! What was wrong in a file, where, and what is used instead.

use serde::Serialize;
use std::fmt;

/// How much a diagnostic matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Read as meant; worth knowing.
    Notice,
    /// One setting is not what the file says.
    Warning,
    /// The file as a whole is not used.
    Error,
}

/// One remark about a file. It never shows a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub file: String,
    /// Line of the key itself, from 1.
    pub line: Option<usize>,
    /// Dotted path; empty for a remark about the whole file.
    pub key: String,
    /// What would have been right; empty where `found` says it all.
    pub expected: String,
    pub found: String,
    /// What stands in for it; empty where nothing has to.
    pub used: String,
    pub severity: Severity,
    pub hint: Option<String>,
}

/// Longest excerpt of a value in a message.
const EXCERPT_CHARS_MAX: usize = 48;

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        if self.expected.is_empty() {
            f.write_str(&self.found)?;
        } else {
            write!(f, "expected {}, found {}", self.expected, self.found)?;
        }
        if !self.used.is_empty() {
            write!(f, "; using {}", self.used)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// Shows a text in quotes on one line, cut to a readable length.
pub(crate) fn excerpt(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(EXCERPT_CHARS_MAX).collect();
    if chars.next().is_some() { format!("{start:?}…") } else { format!("{start:?}") }
}
