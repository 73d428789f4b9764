//! Keeps conversations: every message as it came, the views a model saw of them, summaries, receipts, engine state.
//!
//! One SQLite file. Messages are only ever added; a compaction adds a *view* (an ordered list of ids) and the summary
//! nodes between. What follows a view on its branch belongs to it without being listed, so neither an appended message
//! nor a compaction rewrites what is there. One thread writes, in groups; any number of connections read, in this and
//! in other processes.

mod align;
mod append;
mod backup;
mod bodies;
mod branches;
mod browse;
mod commit;
mod error;
mod export;
mod gc;
mod lease;
mod load;
mod nodes;
mod recall;
mod roots;
mod rotate;
mod runs;
mod schema;
mod sessions;
mod state;
mod store;
mod verify;
mod views;
mod writer;

pub use align::{Alignment, Change};
pub use append::searchable;
pub use browse::{FileFacts, Sides};
pub use commit::{Commit, Committed, Item, NewNode};
pub use error::StoreError;
pub use export::Carried;
pub use gc::Swept;
pub use lease::{LEASE, Lease};
pub use load::{Loaded, Row, RowState};
pub use nodes::NodeRow;
pub use recall::{HITS_DEFAULT, HITS_MAX, cut};
pub use roots::KnownPrefix;
pub use rotate::{Child, Kinship};
pub use sessions::{NewSession, SessionFilter, SessionRow};
pub use state::{PinRow, ReceiptRow, UsageRow};
pub use store::{Reader, Store};
pub use verify::Verified;
pub use views::ViewRow;
pub use writer::UNFILLED_MAX;

#[cfg(test)]
mod tests;
