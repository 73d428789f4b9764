//! What can go wrong when a conversation is read or changed.

use engine_api::Dialect;

/// Why a text could not be read as a conversation, or a message could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The text is no JSON.
    #[error("{what} is not JSON: {problem} at byte {at}; send one complete JSON value")]
    NotJson {
        /// What was read: "request body", "message", ...
        what: &'static str,
        /// What the reader expected.
        problem: &'static str,
        /// Where, in bytes from the start of that text.
        at: usize,
    },
    /// The text is JSON, but holds no list of messages.
    #[error("request body has no message list: {problem}; send an array, or an object with `messages` or `input`")]
    NoMessages {
        /// What was found instead.
        problem: &'static str,
    },
    /// The text is JSON, but of another kind than the one that was asked for.
    #[error("{what} is not {wanted}; found {found}")]
    WrongKind {
        /// What was read.
        what: &'static str,
        /// What it should be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// An edit names a part that the message does not have.
    #[error("could not edit part {part} of the {dialect} message: it has {count} parts")]
    NoSuchPart {
        /// The message's dialect.
        dialect: Dialect,
        /// The index that was asked for.
        part: usize,
        /// How many parts the message has.
        count: usize,
    },
    /// An edit names a part that cannot be changed in that way.
    #[error("could not {wanted} part {part} of the {dialect} message: {problem}")]
    BadEdit {
        /// The message's dialect.
        dialect: Dialect,
        /// The part that was to be changed.
        part: usize,
        /// What was to be done to it.
        wanted: &'static str,
        /// Why it cannot be done.
        problem: &'static str,
    },
}
