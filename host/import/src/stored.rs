//! What a database says of a conversation beside its messages: the session, the state of each row, and summary nodes.

/// A session as its database describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportedSession {
    /// Its id in the program that wrote the database.
    pub id: String,
    /// Its title; empty where it has none.
    pub title: String,
    /// The session it continues or was started by.
    pub parent: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started_ms: Option<i64>,
    /// Where it was held (`cli`, `telegram`, a session key); empty where that is not known.
    pub platform: String,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RowState {
    /// Part of the conversation.
    #[default]
    Live,
    /// Replaced by a summary, and still to be found by a search.
    Compacted,
    /// Taken back by the person.
    Rewound,
}

/// Where a message comes from in its database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportedRow {
    /// Number of the row; none for a message that no row holds, as a system prompt kept with its session.
    pub row: Option<i64>,
    /// When it was written, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// What became of it.
    pub state: RowState,
    /// The text that was sent in place of the content, where the program kept it apart.
    pub sent: Option<String>,
}

/// A summary and what it was made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportedNode {
    /// Its id in the database.
    pub id: String,
    /// How many levels of summaries lie under it, as the database states it.
    pub depth: u32,
    /// The summary, byte for byte.
    pub text: String,
    /// The messages it was made of, as positions in the conversation.
    pub messages: Vec<usize>,
    /// The nodes it was made of, as positions in the node list; they stand before it.
    pub nodes: Vec<usize>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: Option<i64>,
}

/// What a database says of one conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stored {
    /// The session.
    pub session: ImportedSession,
    /// One a message of the conversation, in its order.
    pub rows: Vec<ImportedRow>,
    /// Its summaries, each behind those it was made of; only with [`History::Full`](crate::History::Full), since the
    /// live history leaves out the messages they stand for.
    pub nodes: Vec<ImportedNode>,
}
