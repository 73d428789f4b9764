//! Engines as real libraries, loaded into this process: what loads, what is refused and why, and what a bad one can do.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

mod files;
mod loader;
mod misbehaving;
mod order;
mod world;
