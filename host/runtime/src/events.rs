//! What the host tells others about a session.

use serde::Serialize;
use std::sync::Arc;

/// `session:compress`: a compaction is in effect. Fields and their names are Hermes', with what the receipt says besides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompressEvent {
    /// `session:compress`.
    pub event: &'static str,
    /// The client's platform, where it is known.
    pub platform: String,
    /// The session's id from now on.
    pub session_id: String,
    /// The id before a rotation; empty if the session kept its own.
    pub old_session_id: String,
    /// Whether the session kept its id.
    pub in_place: bool,
    /// Compactions of this session so far.
    pub compression_count: u64,
    /// The engine whose plan is in use.
    pub engine: String,
    /// Tokens of the request before.
    pub tokens_before: u64,
    /// Tokens of the request after.
    pub tokens_after: u64,
}

impl CompressEvent {
    /// The event's name.
    pub const NAME: &'static str = "session:compress";
}

/// Hears of compactions. It is called on the session's thread, so what takes time belongs on another.
pub type Subscriber = Arc<dyn Fn(&CompressEvent) + Send + Sync>;
