//! The wire dialects: what a conversation's bytes mean, and how to change them without touching the rest.
//!
//! Pure: text in, text out. A [`Document`] is a request body or message list over the client's own bytes; each of its
//! messages keeps its exact text beside the parts understood of it. What is not understood passes through untouched.
//! Three dialects are known: Chat Completions, Anthropic Messages and Responses.

mod anthropic;
mod author;
mod cache_marks;
mod classify;
mod client;
mod convert;
mod document;
mod edit;
mod error;
mod identity;
mod json;
mod openai_chat;
mod openai_responses;
mod opening;
mod own;
mod refusal;
mod split;
mod sse;
mod tool_loop;
mod usage;

pub use author::{answer_calls, extract_results, text_message};
pub use cache_marks::{CacheLayout, MarkTtl, Marked, cache_layout, caching_line, place_marks};
pub use classify::{HOST_MARK, HOST_SUMMARY_MARK};
pub use client::{
    ClientCall, ClientCompaction, Headers, SessionHint, begins_with_client_summary, compaction_handle, is_instruction,
    is_side_call, recognise, session_hint,
};
pub use convert::{Converted, convert};
pub use document::{Document, Envelope};
pub use edit::{PartEdit, edit_message};
pub use error::WireError;
pub use identity::identity;
pub use opening::{Begins, Opening};
pub use own::{OwnReply, compact_body, own_json, own_stream};
pub use refusal::{RefusalKind, refusal_body, refusal_event, refusal_retry_after};
pub use split::{detect, number, parse_message, split_array};
pub use sse::{SseEvent, SseParser, StreamError};
pub use tool_loop::{ReplyCall, Round, ToolLoop, exchange, offer_tools};
pub use usage::UsageReader;
