//! Tells commands and local web servers of what happened to a session, without ever delaying it.
//!
//! Entries of the settings become [`Hook`]s. [`Hooks`] takes events into a bounded queue and delivers them on one thread
//! of its own; what goes wrong is a warning, never an error of the session.

mod command;
mod entry;
mod post;
mod queue;

pub use entry::{Hook, TIMEOUT_DEFAULT, TIMEOUT_MAX, read};
pub use queue::{Drained, Hooks, QUEUE_MAX};

#[cfg(test)]
mod tests;
