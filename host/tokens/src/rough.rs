//! Hermes' rough estimates: a quarter of the characters of a text, of messages as Python prints them, of a request.
//!
//! They see messages as JSON values, because what they measure is how Python would print the parsed message. They are a
//! fifth too low on agent conversations; they are here because Hermes' rules for the tail and for the check before a
//! request are stated in them.

use std::io;

use serde_json::Value;

mod printed;

pub use crate::estimate::rough_text as text;

/// Tokens of one picture in an estimate of messages.
const PICTURE_TOKENS: u64 = 1_500;
/// Characters that one picture stands for in the walk over the tail.
const PICTURE_CHARS: u64 = 6_400;
/// Tokens of a message's role and keys in the walk over the tail.
const TAIL_MESSAGE_TOKENS: u64 = 10;
/// What stands in place of a picture's data when a message is printed.
const PICTURE_STUB: &str = "[stripped]";
/// Fields that go back to the provider with every request and are no content.
const REPLAY_FIELDS: [&str; 5] =
    ["reasoning", "reasoning_content", "reasoning_details", "codex_reasoning_items", "codex_message_items"];

/// Estimates the tokens of some messages, for the check before a request.
pub fn messages(messages: &[Value]) -> u64 {
    let mut tally = Tally::default();
    messages.iter().for_each(|message| tally.add(message));
    tally.tokens()
}

/// Gathers the estimate of many messages, of which only one need be held at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    chars: u64,
    pictures: u64,
}

impl Tally {
    /// Adds a message.
    pub fn add(&mut self, message: &Value) {
        self.chars += message_chars(message);
        self.pictures += pictures(message);
    }

    /// Adds a message in its JSON; what is no JSON counts as the text it is.
    pub fn add_json(&mut self, raw: &str) {
        match serde_json::from_str(raw) {
            Ok(message) => self.add(&message),
            Err(_) => self.chars += chars(raw),
        }
    }

    /// Adds what another gathered.
    pub fn add_all(&mut self, other: Tally) {
        self.chars += other.chars;
        self.pictures += other.pictures;
    }

    /// Returns the tokens, rounded up once for all messages.
    pub fn tokens(&self) -> u64 {
        self.chars.div_ceil(4) + PICTURE_TOKENS * self.pictures
    }
}

/// Estimates the tokens of a whole request: the instructions, the messages, and the tools' names and schemas.
pub fn request(instructions: &str, messages: &[Value], tools: &[Value]) -> u64 {
    text(instructions) + self::messages(messages) + self::tools(tools)
}

/// Estimates the tokens of tools: names, descriptions, and parameters as compact JSON.
pub fn tools(tools: &[Value]) -> u64 {
    let chars: u64 = tools.iter().filter(|tool| tool.is_object()).map(tool_chars).sum();
    chars.div_ceil(4)
}

fn tool_chars(tool: &Value) -> u64 {
    let of = tool.get("function").filter(|function| function.is_object()).unwrap_or(tool);
    let string = |key: &str| of.get(key).and_then(Value::as_str).map_or(0, chars);
    let parameters = match of.get("parameters") {
        Some(parameters) if !printed::is_empty(parameters) => compact_json_chars(parameters),
        // Absent parameters count as an empty object.
        _ => 2,
    };
    string("name") + string("description") + parameters
}

/// Returns the characters of a message as the estimate of messages counts them.
pub fn message_chars(message: &Value) -> u64 {
    let fields = match message {
        Value::Object(fields) => fields,
        // What is no message is printed as it is, and a text without quotes.
        Value::String(text) => return chars(text),
        other => return printed::chars(other),
    };
    let mut shown = printed::Object::default();
    for (key, value) in fields {
        match (key.as_str(), value) {
            // A copy of the content for one provider's wire.
            ("_anthropic_content_blocks", _) => {}
            ("content", Value::Array(parts)) => {
                let mut list = printed::List::default();
                for part in parts {
                    list.add(picture_kind(part).map_or_else(|| printed::chars(part), stub_chars));
                }
                shown.add(key, list.chars());
            }
            ("content", Value::Object(content)) if is_multimodal(value) => {
                shown.add(key, content.get("text_summary").map_or(2, printed::chars));
            }
            _ => shown.add(key, printed::chars(value)),
        }
    }
    shown.chars()
}

/// Estimates the tokens of one message in the walk over the tail.
pub fn tail_message(message: &Value) -> u64 {
    let content = message.get("content").map_or(0, content_chars);
    let calls = message.get("tool_calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let calls: u64 = calls.iter().filter(|call| call.is_object()).map(|call| printed::chars(call) / 4).sum();
    let replay: u64 =
        REPLAY_FIELDS.iter().filter_map(|field| message.get(*field)).map(|value| replay_chars(value) / 4).sum();
    content / 4 + TAIL_MESSAGE_TOKENS + calls + replay
}

/// Returns the characters of a message's content as the walk over the tail counts them.
pub fn content_chars(content: &Value) -> u64 {
    let part_chars = |part: &Value| match part {
        Value::String(part) => chars(part),
        Value::Object(fields) => match picture_kind(part) {
            Some(_) => PICTURE_CHARS,
            None => match fields.get("text") {
                Some(Value::String(text)) => chars(text),
                _ => 0,
            },
        },
        other => printed::chars(other),
    };
    match content {
        Value::String(text) => chars(text),
        Value::Array(parts) => parts.iter().map(part_chars).sum(),
        // Nothing, zero and an empty object print as nothing here.
        other if printed::is_empty(other) => 0,
        other => printed::chars(other),
    }
}

fn replay_chars(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::String(text) => chars(text),
        other => printed::spaced_json_chars(other),
    }
}

fn pictures(message: &Value) -> u64 {
    let count = |parts: Option<&Value>, kinds: &[&str]| {
        let parts = parts.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        parts.iter().filter(|part| picture_kind(part).is_some_and(|kind| kinds.contains(&kind))).count() as u64
    };
    let content = message.get("content");
    let in_result = content.filter(|content| is_multimodal(content)).and_then(|content| content.get("content"));
    count(content, &["image", "image_url", "input_image"])
        + count(message.get("_anthropic_content_blocks"), &["image"])
        + count(in_result, &["image", "image_url"])
}

fn picture_kind(part: &Value) -> Option<&str> {
    part.get("type").and_then(Value::as_str).filter(|kind| ["image", "image_url", "input_image"].contains(kind))
}

fn stub_chars(kind: &str) -> u64 {
    let mut stub = printed::Object::default();
    stub.add("type", printed::string_chars(kind));
    stub.add("image", printed::string_chars(PICTURE_STUB));
    stub.chars()
}

fn is_multimodal(content: &Value) -> bool {
    content.get("_multimodal").is_some_and(|mark| !printed::is_empty(mark))
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

/// Counts the characters of compact JSON without writing it anywhere.
fn compact_json_chars(value: &Value) -> u64 {
    struct Count(u64);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Every character has one byte that is no continuation of another.
            self.0 += bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A value always has its JSON, and counting never fails.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests;
