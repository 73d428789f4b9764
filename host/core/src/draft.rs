//! A conversation in the making: real messages in the session's dialect, each with where it came from.

use crate::session::Node;
use engine_api::{InsertKind, Message, NodeId};
use std::sync::Arc;

/// Text that the host or an engine wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// A summary.
    Summary(NodeId),
    /// The user's earlier messages, quoted.
    Words,
    /// A message of the engine's own.
    Insert(InsertKind),
    /// The user's first or last word where a dialect asks for one.
    Bracket,
}

/// Where a message of a draft comes from. Positions are those of the conversation that the plan was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The message at this position, byte for byte.
    Kept(usize),
    /// The message at this position, with parts changed.
    Edited(usize),
    /// Answers that stood in the message at this position.
    Moved(usize),
    /// An answer of the host's to calls of the message at this position.
    Answer(usize),
    /// Written by the host or the engine.
    Written(Written),
}

impl Origin {
    /// Tells whether the message is byte for byte one of the conversation's.
    pub fn is_kept(&self) -> bool {
        matches!(self, Origin::Kept(_))
    }
    /// Returns the position that it stands for in the conversation, if it does.
    pub fn source(&self) -> Option<usize> {
        match self {
            Origin::Kept(position) | Origin::Edited(position) | Origin::Moved(position) => Some(*position),
            Origin::Answer(_) | Origin::Written(_) => None,
        }
    }
}

/// One message of a draft.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where it comes from.
    pub origin: Origin,
    /// The message.
    pub message: Arc<Message>,
}

/// What became of a conversation's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the draft, as it was or edited.
    Present,
    /// A summary stands for it.
    Covered(NodeId),
    /// It is left out, for this reason.
    Dropped(String),
}

/// A conversation in the making.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The messages, oldest first.
    pub entries: Vec<Entry>,
    /// The summary nodes that the plan adds.
    pub nodes: Vec<Node>,
    /// What became of each message of the conversation, by position.
    pub outcomes: Vec<Outcome>,
    /// What the host had to mend, for the receipt.
    pub repairs: Vec<String>,
}

impl Draft {
    /// Returns the tokens of its messages.
    pub fn tokens(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.message.tokens)).sum()
    }
}
