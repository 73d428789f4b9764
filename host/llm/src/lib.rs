//! The client of language models: it answers the completions that engines ask for.
//!
//! [`Client`] is the host's `Summariser`. It makes no request before one is asked for, at most two for each, takes
//! secrets out of all that leaves, and leaves an endpoint that failed alone for a while, across restarts.

mod answer;
mod chunk;
mod client;
mod cooldown;
mod endpoint;
mod failure;
pub mod net;
mod prices;
mod request;
mod route;
mod send;
mod splice;

pub use client::Client;
pub use failure::{Failure, Kind, of_status};
pub use prices::{Price, Prices, Tier};
