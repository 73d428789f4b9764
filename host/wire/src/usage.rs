//! What providers report of a request's size, in replies of each dialect, whole and streamed.

use crate::sse::SseEvent;
use engine_api::{Dialect, Usage};
use serde_json::Value;

/// Reads a reply's usage and nothing else of it.
#[derive(Debug, Clone)]
pub struct UsageReader {
    dialect: Dialect,
    found: Option<Usage>,
}

impl UsageReader {
    /// Reads replies of a dialect.
    pub fn new(dialect: Dialect) -> UsageReader {
        UsageReader { dialect, found: None }
    }

    /// Reads an event of a stream. Only those that speak of usage are looked into.
    pub fn event(&mut self, event: &SseEvent<'_>) {
        if event.data.contains("\"usage\"") {
            self.body(&event.data);
        }
    }

    /// Reads a whole reply, or an event's data.
    pub fn body(&mut self, text: &str) {
        let Ok(value) = serde_json::from_str::<Value>(text) else { return };
        self.value(&value);
    }

    pub(crate) fn value(&mut self, value: &Value) {
        let usage = [value.get("usage"), value.pointer("/message/usage"), value.pointer("/response/usage")]
            .into_iter()
            .flatten()
            .find(|usage| usage.is_object());
        if let Some(usage) = usage {
            let newer = read(self.dialect, usage, self.found.take());
            self.found = Some(newer);
        }
    }

    /// Returns the usage; none if none was reported.
    pub fn usage(&self) -> Option<Usage> {
        self.found.clone().filter(|usage| usage.prompt_tokens > 0 || usage.completion_tokens > 0)
    }
}

/// Reads a `usage` member. Prompt tokens are those of the whole prompt, cached ones included. A stream of Anthropic's tells
/// of the prompt at its start and of the answer at its end, so what an event does not tell stays as it was told before.
fn read(dialect: Dialect, usage: &Value, before: Option<Usage>) -> Usage {
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let before = before.unwrap_or_default();
    let mut out = Usage::default();
    if dialect == Dialect::Anthropic {
        let (read, write) = (number("/cache_read_input_tokens"), number("/cache_creation_input_tokens"));
        out.cache_read_tokens = read.unwrap_or(before.cache_read_tokens);
        out.cache_write_tokens = write.unwrap_or(before.cache_write_tokens);
        let uncached = before.prompt_tokens.saturating_sub(before.cache_read_tokens + before.cache_write_tokens);
        // Some servers repeat the field as 0 at the end.
        let input = number("/input_tokens").filter(|input| *input > 0 || before.prompt_tokens == 0).unwrap_or(uncached);
        out.prompt_tokens = input + out.cache_read_tokens + out.cache_write_tokens;
        out.completion_tokens = number("/output_tokens").unwrap_or(before.completion_tokens);
    } else {
        out.prompt_tokens =
            number("/prompt_tokens").or_else(|| number("/input_tokens")).unwrap_or(before.prompt_tokens);
        out.completion_tokens =
            number("/completion_tokens").or_else(|| number("/output_tokens")).unwrap_or(before.completion_tokens);
        let detail = |name: &str| {
            ["prompt_tokens_details", "input_tokens_details"]
                .iter()
                .find_map(|details| number(&format!("/{details}/{name}")))
                .or_else(|| number(&format!("/{name}")))
        };
        out.cache_read_tokens =
            detail("cached_tokens").or_else(|| number("/prompt_cache_hit_tokens")).unwrap_or_default();
        out.cache_write_tokens = detail("cache_write_tokens").unwrap_or_default();
        out.reasoning_tokens = number("/completion_tokens_details/reasoning_tokens")
            .or_else(|| number("/output_tokens_details/reasoning_tokens"))
            .unwrap_or_default();
    }
    out.total_tokens = out.prompt_tokens + out.completion_tokens;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dialect: Dialect, texts: &[&str]) -> [u64; 4] {
        let mut reader = UsageReader::new(dialect);
        texts.iter().for_each(|text| reader.body(text));
        let usage = reader.usage().unwrap();
        [usage.prompt_tokens, usage.completion_tokens, usage.cache_read_tokens, usage.cache_write_tokens]
    }

    #[test]
    fn the_prompt_is_counted_whole_in_each_dialect() {
        let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}}"#;
        let end = r#"{"type":"message_delta","usage":{"output_tokens":9}}"#;
        assert_eq!(of(Dialect::Anthropic, &[start, end]), [123, 9, 100, 20]);
        let zeros = r#"{"type":"message_delta","usage":{"input_tokens":0,"output_tokens":9}}"#;
        assert_eq!(of(Dialect::Anthropic, &[start, zeros]), [123, 9, 100, 20]);
        let chat = r#"{"usage":{"prompt_tokens":50,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":5}}}"#;
        assert_eq!(of(Dialect::OpenAiChat, &[chat]), [50, 4, 40, 5]);
        let responses = r#"{"type":"response.completed","response":{"usage":{"input_tokens":60,"output_tokens":2,"input_tokens_details":{"cached_tokens":30}}}}"#;
        assert_eq!(of(Dialect::Responses, &[responses]), [60, 2, 30, 0]);
    }

    #[test]
    fn no_usage_is_none_and_garbage_is_passed_over() {
        let mut reader = UsageReader::new(Dialect::OpenAiChat);
        for text in ["", "[DONE]", "{\"usage\":null}", "{\"usage\":{\"prompt_tokens\":\"many\"}}", "{\"usage\":[]}"] {
            reader.body(text);
            assert_eq!(reader.usage(), None, "{text}");
        }
    }
}
