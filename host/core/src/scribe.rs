//! The hand that writes in the session's dialect, so that this crate need not know any.

use engine_api::{Dialect, Message, Role};

/// A change of one part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartChange {
    /// The part gets this text: of a tool's answer, or the arguments of a call as a JSON object.
    Text(String),
    /// The part goes.
    Remove,
}

/// Writes and counts messages of one dialect. What it returns is parsed and counted.
pub trait Scribe {
    /// Returns the dialect.
    fn dialect(&self) -> Dialect;
    /// Changes parts of a message; `Ok(None)` if nothing of it is left. Untouched bytes stay.
    fn edit(&self, message: &Message, changes: &[(usize, PartChange)]) -> Result<Option<Message>, String>;
    /// Writes a message of plain text.
    fn text(&self, role: Role, text: &str) -> Result<Message, String>;
    /// Writes answers to these calls (positions of parts) of a message.
    fn answer(&self, calling: &Message, calls: &[usize], text: &str) -> Result<Vec<Message>, String>;
    /// Writes these answers (positions of parts) of a message as messages of their own, byte for byte.
    fn extract(&self, message: &Message, results: &[usize]) -> Result<Vec<Message>, String>;
    /// Counts the tokens of a text.
    fn count(&self, text: &str) -> u64;
}
