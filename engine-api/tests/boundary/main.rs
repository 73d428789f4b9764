//! The whole contract across the plugin boundary, both sides in one program: what goes in comes out unchanged.
//!
//! Everything but the system's loader is in the way: the exported module, the raw traits, the lent services.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

mod errors;
mod faults;
mod host;
mod methods;
mod plans;
mod services;
mod wire;
