//! Tells a summary from what a model gives in its place: nothing, a refusal, half a text, the prompt again.

use engine_api::Completion;
use engine_kit::text::{prefix, without_reasoning};

/// How refusals begin, in lower case.
const REFUSALS: [&str; 9] =
    ["i'm sorry", "i’m sorry", "i am sorry", "i cannot", "i can't", "i can’t", "i'm unable", "i am unable", "as an ai"];
/// A refusal is short; a longer text that begins like one may be a summary.
const REFUSAL_CHARS_MAX: usize = 600;
/// A text that begins with so many bytes of its own prompt is an echo.
const ECHO_BYTES: usize = 240;

/// Returns the text, or why it is none.
pub(crate) fn usable(answer: &Completion, prompt: &str) -> Result<String, String> {
    let text = without_reasoning(&answer.text);
    let text = text.trim();
    let text = text.strip_prefix("<template>").unwrap_or(text);
    let text = text.strip_suffix("</template>").unwrap_or(text).trim();
    if text.is_empty() {
        return Err("the summariser gave an empty text".to_string());
    }
    if matches!(answer.finish_reason.as_str(), "length" | "max_tokens" | "content_filter" | "refusal") {
        return Err(format!("the summariser's text was cut off ({})", answer.finish_reason));
    }
    if text.chars().nth(REFUSAL_CHARS_MAX).is_none() {
        let lower = text.to_lowercase();
        if REFUSALS.iter().any(|refusal| lower.starts_with(refusal)) {
            return Err("the summariser refused".to_string());
        }
    }
    let start = prefix(text, ECHO_BYTES);
    if text.len() >= ECHO_BYTES && prompt.contains(start) {
        return Err("the summariser repeated its prompt".to_string());
    }
    Ok(text.to_string())
}
