//! The wire dialects: what a conversation's bytes mean, and how to change them without touching the rest.
//!
//! Pure: text in, text out. A [`Document`] is a request body or message list over the client's own bytes; each of its
//! messages keeps its exact text beside the parts understood of it. What is not understood passes through untouched.
//! Three dialects are known: Chat Completions, Anthropic Messages and Responses.

mod anthropic;
mod author;
mod classify;
mod convert;
mod document;
mod edit;
mod error;
mod identity;
mod json;
mod openai_chat;
mod openai_responses;
mod split;

pub use author::{answer_calls, extract_results, text_message};
pub use classify::{HOST_MARK, HOST_SUMMARY_MARK};
pub use convert::{Converted, convert};
pub use document::{Document, Envelope};
pub use edit::{PartEdit, edit_message};
pub use error::WireError;
pub use identity::identity;
pub use split::{detect, number, parse_message, split_array};
