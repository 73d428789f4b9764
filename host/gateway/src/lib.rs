//! The gateway: a proxy between agents and providers that keeps conversations within their windows.
//!
//! A request comes in any of three dialects, its conversation is found and stored, the engine is asked where a compaction
//! may be near, and what leaves is the client's own bytes or the compacted view of them. The reply goes back as it comes.

mod access;
mod app;
mod body;
mod control;
mod conversation;
mod dress;
mod exchange;
mod flight;
mod history;
mod keeper;
mod metrics;
mod native;
mod reload;
mod reply;
mod route;
mod serve;
mod sessions;
mod settings;
mod setup;
mod turn;
mod upstream;
mod windows;

pub use serve::{Gateway, GatewayError};
pub use settings::{KEY_BYTES_MIN, SettingsError};
pub use setup::Parts;
