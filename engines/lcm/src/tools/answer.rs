//! The text that goes back to the model: bounded, JSON or Markdown.

use super::{Found, args, markdown};
use engine_api::json::{Value, json};
use engine_kit::text::{clip, prefix};

/// Characters of an answer at most; hermes-lcm has the same.
pub(super) const CHARS_MAX: usize = 64_000;
/// Lists that give way when an answer is too long, and what is said of it.
const LISTS: [&str; 8] = ["results", "groups", "messages", "expanded", "expansions", "evidence", "rows", "matches"];
/// Times that a list is halved.
const HALVINGS_MAX: usize = 16;

/// Writes an answer.
pub(super) fn written(tool: &str, found: Found, is_openclaw: bool) -> String {
    let value = match found {
        Ok(value) => bounded(value),
        // An error is JSON in both dialects, so that a client can tell it.
        Err(error) => return json!({ "error": clip(&error, 2_000) }).to_string(),
    };
    if is_openclaw {
        return prefix(&markdown::written(tool, &value), CHARS_MAX).to_string();
    }
    value.to_string()
}

/// Takes entries off the end of the longest list until the answer fits; what was taken off is said.
fn bounded(mut value: Value) -> Value {
    for _ in 0..HALVINGS_MAX {
        if value.to_string().chars().count() <= CHARS_MAX {
            return value;
        }
        let longest = LISTS
            .into_iter()
            .filter(|key| value.get(*key).and_then(Value::as_array).is_some_and(|list| list.len() > 1))
            .max_by_key(|key| value.get(*key).map_or(0, |list| list.to_string().len()));
        let Some(key) = longest else { break };
        if let Some(list) = value.get_mut(key).and_then(Value::as_array_mut) {
            let keep = list.len() / 2;
            list.truncate(keep);
            let said = format!("only the first {keep} of \"{key}\" fit; ask for fewer or go on from there");
            args::add(&mut value, "response_truncated", said);
        }
    }
    if value.to_string().chars().count() <= CHARS_MAX {
        return value;
    }
    json!({ "error": format!("the answer is over {CHARS_MAX} characters; ask for less of it") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_bounded_and_says_what_is_missing() {
        let rows: Vec<String> = (0..2_000).map(|at| format!("{at} {}", "x".repeat(100))).collect();
        let text = written("lcm_grep", Ok(json!({ "results": rows })), false);
        assert!(text.chars().count() <= CHARS_MAX && text.contains("only the first"), "{}", text.len());
        let text = written("lcm_grep", Ok(json!({ "huge": "x".repeat(100_000) })), false);
        assert!(text.contains("over 64000 characters"));
        assert_eq!(written("x", Err("no".to_string()), true), r#"{"error":"no"}"#);
    }
}
