//! What the host decides, as pure code: when to compact, what a plan comes to, whether the result may be used.
//!
//! An engine proposes and this crate disposes. A plan becomes a [`Draft`] ([`apply`]), the draft is made
//! legal for its dialect ([`repair`]), the user's words are seen to ([`words`]), it is counted and judged
//! ([`validate`]), and where it fails the next step of the [`ladder`] is tried. Only [`validate`] makes a [`Context`].
//! There is no IO here; whatever depends on the shape of a dialect's JSON is asked of a [`Scribe`].

pub mod apply;
pub mod breaker;
pub mod draft;
pub mod economy;
pub mod frame;
pub mod grammar;
pub mod ladder;
pub mod manual;
pub mod outgoing;
pub mod policy;
pub mod pressure;
pub mod receipt;
pub mod repair;
pub mod rules;
#[cfg(test)]
mod sample;
mod scribe;
mod session;
pub mod shrink;
pub mod summariser;
pub mod survival;
pub mod validate;
pub mod words;

pub use apply::Rejection;
pub use breaker::Breaker;
pub use draft::{Draft, Entry, Origin, Outcome, Written};
pub use pressure::Pressure;
pub use receipt::{Fate, Receipt};
pub use scribe::{PartChange, Scribe};
pub use session::{Node, Session};
pub use survival::Survival;
pub use validate::Context;
