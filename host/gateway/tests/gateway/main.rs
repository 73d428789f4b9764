//! The gateway as clients and providers see it: requests go in, what leaves is looked at, replies come back.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

mod captures;
mod compaction;
mod dialects;
mod edges;
mod native;
mod plain;
mod recall;
mod world;
