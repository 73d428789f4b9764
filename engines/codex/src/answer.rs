//! Tells a handoff from what a model gives in its place: nothing, a call, a refusal, half a text, its prompt.

use engine_api::{Completion, EngineError};
use engine_kit::text::{prefix, without_reasoning};

/// How refusals begin, in lower case.
const REFUSALS: [&str; 8] =
    ["i'm sorry", "i’m sorry", "i am sorry", "i cannot", "i can't", "i can’t", "i'm unable", "i am unable"];
/// A refusal is short; a longer text that begins like one may well be a handoff.
const REFUSAL_CHARS_MAX: usize = 600;
/// How a call of a tool begins where a model writes it as text.
const CALLS: [&str; 6] =
    ["<tool_call", "<function_call", "<invoke", "{\"tool_calls\"", "{\"function_call\"", "[TOOL_CALLS]"];
/// A text that begins with so many bytes of its own prompt is an echo.
const ECHO_BYTES: usize = 240;
/// Why a provider stopped, where the text is not whole.
const UNFINISHED: [&str; 4] = ["length", "max_tokens", "max_output_tokens", "content_filter"];
/// What errors say of a prompt that was too long, in lower case.
const TOO_LONG: [&str; 5] = ["context", "too long", "too large", "maximum", "token limit"];

/// Why there is no handoff, and whether asking again with less could give one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) why: String,
    pub(crate) may_ask_again: bool,
}

fn again(why: impl Into<String>) -> Unusable {
    Unusable { why: why.into(), may_ask_again: true }
}

/// Returns the text, or why it is none.
pub(crate) fn usable(answer: Result<Completion, EngineError>, prompt: &str) -> Result<String, Unusable> {
    let answer = answer.map_err(|error| {
        let lower = error.message.to_lowercase();
        let may_ask_again = TOO_LONG.iter().any(|words| lower.contains(words));
        Unusable { why: format!("the summariser failed: {}", error.message), may_ask_again }
    })?;
    let text = without_reasoning(&answer.text);
    let text = text.trim();
    if text.is_empty() {
        return Err(again("the summariser gave an empty text"));
    }
    if UNFINISHED.contains(&answer.finish_reason.as_str()) {
        return Err(again(format!("the summariser's text was cut off ({})", answer.finish_reason)));
    }
    if CALLS.iter().any(|start| text.starts_with(start)) {
        return Err(again("the summariser called a tool in place of an answer"));
    }
    if text.chars().nth(REFUSAL_CHARS_MAX).is_none() {
        let lower = text.to_lowercase();
        if answer.finish_reason == "refusal" || REFUSALS.iter().any(|refusal| lower.starts_with(refusal)) {
            return Err(again("the summariser refused"));
        }
    }
    let start = prefix(text, ECHO_BYTES);
    if start.len() + 4 > ECHO_BYTES && prompt.contains(start) {
        return Err(again("the summariser repeated its prompt"));
    }
    Ok(text.to_string())
}
