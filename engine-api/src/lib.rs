//! The contract between a context engine and the host that runs it.
mod message;
pub use message::{Dialect, Flags, Message, MessageId, NodeId, Part, PartKind, Role};
