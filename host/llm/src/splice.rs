//! Appends an instruction to a live request body and leaves every other byte as it is, so that the provider's cache of
//! the prefix still holds.
//!
//! Only what would spoil the answer is changed beside it: streaming is switched off, OpenAI's dialects are told to call
//! no tools, and a limit on the answer that no summary fits in is lifted. Anthropic's `tool_choice` is left alone unless
//! it forces a call: changing it would drop the cached messages.

use crate::endpoint::Api;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Answers shorter than this are no room for a summary and the reasoning before it.
const ANSWER_TOKENS_MIN: u64 = 8_192;

/// A body ready to be sent, and the model it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spliced {
    pub(crate) body: String,
    pub(crate) model: String,
}

/// Members of a body as they stand in its text.
type Members<'a> = HashMap<String, &'a RawValue>;

/// Appends the instruction as one user message; the error says why the body cannot carry it.
pub(crate) fn append(body: &str, api: Api, instruction: &str) -> Result<Spliced, String> {
    let members: Members<'_> =
        serde_json::from_str(body).map_err(|_| "the live request is not a JSON object".to_owned())?;
    let list_key = if api == Api::Responses { "input" } else { "messages" };
    let list = members.get(list_key).ok_or_else(|| format!("the live request has no {list_key}"))?;
    let model = text_of(&members, "model").ok_or("the live request names no model")?;
    refuse(&members)?;

    let message = message(api, instruction);
    let mut edits = Vec::new();
    let raw = list.get();
    if let Some(inside) = raw.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        closed(raw)?;
        let end = span(body, raw)?.end.saturating_sub(1);
        let comma = if inside.trim().is_empty() { "" } else { "," };
        edits.push((end..end, format!("{comma}{message}")));
    } else if api == Api::Responses && raw.starts_with('"') {
        // A text in place of a list is one user message, and reaches the model as the same tokens.
        let first = format!("[{{\"type\":\"message\",\"role\":\"user\",\"content\":{raw}}},{message}]");
        edits.push((span(body, raw)?, first));
    } else {
        return Err(format!("{list_key} of the live request is not a list"));
    }
    settle(body, &members, api, &mut edits)?;

    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(body.len() + instruction.len() + 256);
    let mut copied = 0;
    for (range, text) in &edits {
        out.push_str(body.get(copied..range.start).unwrap_or_default());
        out.push_str(text);
        copied = range.end;
    }
    out.push_str(body.get(copied..).unwrap_or_default());
    Ok(Spliced { body: out, model })
}

/// Names what makes a body unusable for a question of our own.
fn refuse(members: &Members<'_>) -> Result<(), String> {
    // A summary that is forced into another form is none; without the form the cached prefix would be another.
    let format = |key: &str, path: &str| {
        let value: Value = members.get(key).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let format = if path.is_empty() { value } else { value.get(path).cloned().unwrap_or_default() };
        !format.is_null() && format.get("type").and_then(Value::as_str) != Some("text")
    };
    if format("response_format", "")
        || format("text", "format")
        || format("output_config", "format")
        || format("output_format", "")
    {
        return Err("the live request asks for an answer in a fixed form".to_owned());
    }
    for key in ["conversation", "compaction"] {
        // The provider would add our question to the client's own conversation.
        if members.get(key).is_some_and(|raw| raw.get() != "null") {
            return Err(format!("the live request has a {key:?} that the question would change"));
        }
    }
    Ok(())
}

/// Collects the changes beside the message.
fn settle(body: &str, members: &Members<'_>, api: Api, edits: &mut Vec<(Range<usize>, String)>) -> Result<(), String> {
    let mut set = |key: &str, wanted: &str| -> Result<(), String> {
        if let Some(raw) = members.get(key).filter(|raw| raw.get() != wanted) {
            edits.push((span(body, raw.get())?, wanted.to_owned()));
        }
        Ok(())
    };
    set("stream", "false")?;
    match api {
        Api::Chat => {
            set("stream_options", "null")?;
            set("n", "1")?;
        }
        Api::Responses => set("background", "false")?,
        Api::Messages => {}
    }
    let limits: &[&str] = match api {
        Api::Chat => &["max_tokens", "max_completion_tokens"],
        Api::Responses => &["max_output_tokens"],
        Api::Messages => &["max_tokens"],
    };
    for key in limits {
        let limit = members.get(*key).and_then(|raw| raw.get().parse::<u64>().ok());
        if limit.is_some_and(|limit| limit < ANSWER_TOKENS_MIN) {
            // Anthropic needs a limit, the others take none.
            let wanted = if api == Api::Messages { ANSWER_TOKENS_MIN.to_string() } else { "null".to_owned() };
            set(key, &wanted)?;
        }
    }
    let has_tools = members.get("tools").is_some_and(|raw| !matches!(raw.get(), "null" | "[]"));
    match api {
        Api::Chat | Api::Responses if !has_tools => {}
        Api::Chat | Api::Responses if members.contains_key("tool_choice") => set("tool_choice", "\"none\"")?,
        Api::Chat | Api::Responses => {
            let end = body.trim_end().len().saturating_sub(1);
            edits.push((end..end, ",\"tool_choice\":\"none\"".to_owned()));
        }
        Api::Messages => {
            let choice: Value =
                members.get("tool_choice").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
            if matches!(choice.get("type").and_then(Value::as_str), Some("any" | "tool")) {
                set("tool_choice", "{\"type\":\"none\"}")?;
            }
        }
    }
    Ok(())
}

/// Checks that every call in the list has its answer: a message after an open call is refused.
fn closed(list: &str) -> Result<(), String> {
    let items: Vec<&RawValue> = serde_json::from_str(list).map_err(|_| "the live request cannot be read".to_owned())?;
    if items.is_empty() {
        return Err("the live request is empty".to_owned());
    }
    let mut open: HashSet<String> = HashSet::new();
    for item in items {
        let item: Value = match serde_json::from_str(item.get()) {
            Ok(item) => item,
            // Half a surrogate pair is no reason to look away: APIs take it, but we cannot say what it calls.
            Err(_) => return Err("a message of the live request cannot be read".to_owned()),
        };
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "compaction_trigger" {
            return Err("the live request asks for a compaction itself".to_owned());
        }
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(id) = text(&item, "call_id") {
            if kind.ends_with("_output") {
                open.remove(&id)
            } else {
                open.insert(id)
            };
        }
        for call in item.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            open.extend(text(call, "id"));
        }
        if let Some(id) = text(&item, "tool_call_id") {
            open.remove(&id);
        }
        for block in item.get("content").and_then(Value::as_array).into_iter().flatten() {
            match block.get("type").and_then(Value::as_str) {
                Some("tool_use") => open.extend(text(block, "id")),
                Some("tool_result") => drop(text(block, "tool_use_id").map(|id| open.remove(&id))),
                _ => {}
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err("the live request ends in calls without answers".to_owned()) }
}

fn message(api: Api, instruction: &str) -> String {
    let content = match api {
        Api::Chat => json!(instruction),
        Api::Messages => json!([{"type": "text", "text": instruction}]),
        Api::Responses => json!([{"type": "input_text", "text": instruction}]),
    };
    let mut message = Map::new();
    if api == Api::Responses {
        message.insert("type".to_owned(), json!("message"));
    }
    message.insert("role".to_owned(), json!("user"));
    message.insert("content".to_owned(), content);
    Value::Object(message).to_string()
}

fn text_of(members: &Members<'_>, key: &str) -> Option<String> {
    let text: String = serde_json::from_str(members.get(key)?.get()).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

/// Returns where a member's text stands in the body that it was read from.
fn span(body: &str, raw: &str) -> Result<Range<usize>, String> {
    let start = (raw.as_ptr() as usize).checked_sub(body.as_ptr() as usize);
    let range = start.and_then(|start| Some(start..start.checked_add(raw.len())?));
    range
        .filter(|range| body.get(range.clone()) == Some(raw))
        .ok_or_else(|| "the live request cannot be read".to_owned())
}

#[cfg(test)]
#[path = "splice/tests.rs"]
mod tests;
