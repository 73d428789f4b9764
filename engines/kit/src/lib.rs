//! What engines have in common: pure functions over a borrowed conversation.
//!
//! Nothing here asks the host for anything but a token count, keeps state or fails. Every function is linear in the
//! text it looks at, and looks at a bounded share of a huge message. An engine that wants to do better replaces the
//! one function it has a better idea for.

pub mod anchors;
pub mod fit;
pub mod layout;
pub mod outline;
pub mod pairs;
pub mod picture;
pub mod prune;
pub mod regions;
pub mod render;
pub mod shares;
pub mod testing;
pub mod text;
