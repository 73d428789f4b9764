//! What the tests of the whole workspace share: an independent judge of message lists, a generator of histories, real
//! transcripts, plugin libraries to load, a clean place to run the program in, and a model provider that follows a script.
//!
//! Nothing here uses the crates under test, so a mistake of theirs cannot hide in the thing that looks for it.

pub mod agent;
pub mod corpus;
pub mod env;
pub mod fixtures;
pub mod generate;
pub mod judge;
pub mod meter;
pub mod provider;
