//! The store as a whole: processes that die, processes side by side, histories that grow, and what must be found again.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

mod crash;
mod growth;
mod mix;
mod needles;
mod shapes;
mod state;
mod two;
mod worker;
