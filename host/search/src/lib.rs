//! Finds messages and summaries by text: a word index, a trigram index, and the ranking over both.
//!
//! An [`Index`] lives in tables of its own in the caller's SQLite database and changes only within the caller's
//! transactions. New documents go to a *tail* of small rows that hold their words; [`Index::fill`] turns the oldest of
//! them into immutable *segments* of posting lists and merges small segments into greater ones. Every search looks at
//! both, so a document is found as soon as its transaction is committed. Texts are not copied: where an answer needs
//! them (phrases, regular expressions, snippets) they are read through [`Source`].

mod api;
mod auto;
mod build;
mod by_time;
mod candidates;
mod check;
mod filter;
mod index;
mod nearest;
mod pattern;
mod postings;
mod rank;
mod reading;
mod segment;
mod snippet;
mod tail;
mod terms;
mod tokens;
mod trigrams;

pub use api::{Doc, Facts, Hit, LIMIT_DEFAULT, LIMIT_MAX, Page, Query, SearchError, Source};
pub use build::FILL_FROM;
pub use index::Index;
