//! Whole sessions against a provider that measures, refuses, says nothing or lies: every turn is answered or ends with a
//! stated reason, nothing grows, nothing runs in circles.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

mod agent;
mod long;
mod odd;
mod stored;
mod summariser;
mod switch;
mod trace;
