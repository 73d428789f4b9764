//! The summariser client against a provider that follows a script: what it sends, what it rejects, when it stops.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

mod bounds;
mod failures;
mod pieces;
mod prefix;
mod world;
