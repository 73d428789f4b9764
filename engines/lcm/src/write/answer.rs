//! Tells a summary from what a model gives in its place: nothing, its reasoning, a refusal, half a text, its prompt.

use engine_api::{Completion, EngineError};
use engine_kit::text::{prefix, without_reasoning};

/// How refusals begin, in lower case.
const REFUSALS: [&str; 10] = [
    "i'm sorry",
    "i’m sorry",
    "i am sorry",
    "sorry, ",
    "i cannot",
    "i can't",
    "i can’t",
    "i'm unable",
    "i am unable",
    "as an ai",
];
/// A refusal is short; a longer text that begins like one may well be a summary.
const REFUSAL_CHARS_MAX: usize = 600;
/// A text that begins with so many bytes of its own prompt is an echo.
const ECHO_BYTES: usize = 240;

/// Returns the text, or why it is none.
pub(super) fn usable(answer: Result<Completion, EngineError>, prompt: &str) -> Result<String, String> {
    let answer = answer.map_err(|error| format!("the summariser failed: {}", error.message))?;
    let text = without_reasoning(&answer.text);
    let text = text.trim();
    if text.is_empty() {
        return Err("the summariser gave an empty text".to_string());
    }
    if matches!(answer.finish_reason.as_str(), "length" | "max_tokens" | "content_filter") {
        return Err(format!("the summariser's text was cut off ({})", answer.finish_reason));
    }
    if text.chars().nth(REFUSAL_CHARS_MAX).is_none() {
        let lower = text.to_lowercase();
        if REFUSALS.iter().any(|refusal| lower.starts_with(refusal)) {
            return Err("the summariser refused".to_string());
        }
    }
    let start = prefix(text, ECHO_BYTES);
    if start.len() + 4 > ECHO_BYTES && prompt.contains(start) {
        return Err("the summariser repeated its prompt".to_string());
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_summary_is_one() {
        let prompt = format!("You write one leaf.\n\nMATERIAL:\n{}", "a line of the log, number one\n".repeat(40));
        for (text, reason, want) in [
            ("The build was mended.", "stop", None),
            ("", "stop", Some("empty")),
            (" \n", "stop", Some("empty")),
            ("<think>let me see", "stop", Some("empty")),
            ("<think>hm</think>Done.", "stop", None),
            ("Half a sen", "length", Some("cut off")),
            ("I'm sorry, but I can't help with that.", "stop", Some("refused")),
            ("I cannot do this.", "", Some("refused")),
            ("Sorry state of the parser: three bugs.", "stop", None),
            (prompt.as_str(), "stop", Some("repeated")),
            (&"a line of the log, number one\n".repeat(20), "stop", Some("repeated")),
        ] {
            let mut answer = Completion::default();
            answer.text = text.to_string();
            answer.finish_reason = reason.to_string();
            let got = usable(Ok(answer), &prompt);
            match want {
                None => assert!(got.is_ok(), "{text}: {got:?}"),
                Some(word) => assert!(got.as_ref().is_err_and(|why| why.contains(word)), "{text:.40}: {got:?}"),
            }
        }
    }
}
