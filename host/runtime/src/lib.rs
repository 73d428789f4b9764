//! The spine: a conversation comes in, an engine proposes, the host disposes, a conversation goes out.
//!
//! [`LiveSession`] holds one conversation and its engine's session. It asks the engine on a thread of its own, takes
//! the proposal down the host's ladder, and gives back the message list with a receipt.

mod adopt;
mod compaction;
mod completions;
mod events;
mod fits;
mod live;
mod mend;
mod pins;
mod prepare;
mod recall;
mod request;
mod scribe;
mod services;
pub mod session_search;
mod stored;

pub use adopt::{Adopted, adopt};
pub use events::{CompressEvent, Subscriber};
pub use fits::Pins;
pub use live::{Canceller, LiveSession, Options, RuntimeError, settings_of};
pub use mend::mend;
pub use pins::PinRule;
pub use recall::{HITS_DEFAULT, HITS_MAX, RecallBook};
pub use scribe::WireScribe;
pub use stored::WireReader;
