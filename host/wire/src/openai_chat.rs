//! The Chat Completions dialect: content, `tool_calls` and reasoning as members, tool answers as messages.

use engine_api::{Part, PartKind, Role};

use crate::json::{self, Kind, Object};
use crate::split::{Parsed, Place, Spot, answer_text, content_spots, or_opaque, typed_part};

/// Members that hold parts. `reasoning*` are written by DeepSeek, vLLM and OpenRouter and replayed by clients.
const PART_MEMBERS: [&str; 8] = [
    "content",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "tool_calls",
    "function_call",
    "refusal",
    "audio",
];

pub(crate) fn role(name: &str) -> Role {
    match name {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => Role::Other,
    }
}

pub(crate) fn parse<'a>(raw: &'a str, object: Object<'a>) -> Parsed<'a> {
    let role = role(&object.text("role").unwrap_or_default());
    if role == Role::Tool {
        let spot = Spot { part: result_part(&object), place: Place::Whole, raw };
        return Parsed { role, spots: vec![spot], object: Some(object) };
    }
    let mut members: Vec<(usize, &str)> =
        PART_MEMBERS.into_iter().filter_map(|key| Some((object.position(key)?, key))).collect();
    members.sort_unstable();
    let mut spots = Vec::new();
    let mut has_reasoning_text = false;
    for (member, key) in members {
        let Some(value) = object.members().get(member).map(|member| member.value) else { continue };
        let place = Place::Member(member);
        match (key, json::kind(value)) {
            ("content", _) => content_spots(&mut spots, member, value, typed_part),
            ("reasoning_content" | "reasoning", Kind::String) => {
                let text = json::decode(value).unwrap_or_default();
                if !text.is_empty() {
                    has_reasoning_text = true;
                    spots.push(Spot { part: Part::new(PartKind::Reasoning, text), place, raw: value });
                }
            }
            ("reasoning_details", Kind::Array) if value != "[]" => {
                // The same words stand in `reasoning` where that is present; they are counted once.
                let text = if has_reasoning_text { String::new() } else { details_text(value) };
                spots.push(Spot { part: Part::new(PartKind::Reasoning, text), place, raw: value });
            }
            ("refusal", Kind::String) if value != "\"\"" => {
                let text = json::decode(value).unwrap_or_default();
                spots.push(Spot { part: Part::new(PartKind::Text, text), place, raw: value });
            }
            ("audio", Kind::Object) => {
                spots.push(Spot { part: Part::new(PartKind::Opaque, ""), place, raw: value });
            }
            // A legacy call has no id; it pairs with the message of role `function` that follows.
            ("function_call", Kind::Object) => {
                let part = or_opaque(Object::parse(value).map(|body| function_part("", &body)));
                spots.push(Spot { part, place, raw: value });
            }
            ("tool_calls", Kind::Array) => {
                for (index, call) in json::elements(value).unwrap_or_default().into_iter().enumerate() {
                    let part = or_opaque(Object::parse(call).map(|call| call_part(&call)));
                    spots.push(Spot { part, place: Place::Element { member, index }, raw: call });
                }
            }
            _ => {}
        }
    }
    Parsed { role, spots, object: Some(object) }
}

fn call_part(call: &Object<'_>) -> Part {
    let id = call.text("id").unwrap_or_default();
    let body = |key| call.get(key).and_then(Object::parse);
    if let Some(custom) = body("custom") {
        let name = custom.text("name").unwrap_or_default();
        return Part::call(id, name, custom.text("input").unwrap_or_default());
    }
    match body("function") {
        Some(function) => function_part(&id, &function),
        None => Part::call(id, call.text("name").unwrap_or_default(), ""),
    }
}

fn function_part(id: &str, function: &Object<'_>) -> Part {
    let arguments = match function.get("arguments") {
        // Some clients store the arguments as an object; the API wants its text.
        Some(raw) => json::decode(raw).unwrap_or(raw.into()).into_owned(),
        None => String::new(),
    };
    Part::call(id, function.text("name").unwrap_or_default(), arguments)
}

fn result_part(message: &Object<'_>) -> Part {
    let (text, flags) = answer_text(message.get("content"));
    let mut part = Part::result(message.text("tool_call_id").unwrap_or_default(), text);
    part.tool_name = message.text("name").unwrap_or_default().into_owned();
    part.flags = flags;
    part
}

/// Returns the words of `reasoning_details`, a list of texts, summaries and encrypted blobs.
fn details_text(raw: &str) -> String {
    let details = json::elements(raw).unwrap_or_default();
    let texts: Vec<_> = details
        .into_iter()
        .filter_map(Object::parse)
        .filter_map(|detail| detail.text("text").or(detail.text("summary")))
        .collect();
    texts.join("\n")
}

/// Writes a part anew with another text; the message is of role `tool` where the part is the whole of it.
pub(crate) fn with_text(spot: &Spot<'_>, key: &str, text: &str) -> Option<String> {
    let quoted = json::quote(text);
    match (spot.part.kind, spot.place) {
        (PartKind::ToolResult, _) => Some(Object::parse(spot.raw)?.with_value("content", quoted)),
        (PartKind::ToolCall, Place::Member(_)) => Some(Object::parse(spot.raw)?.with_value("arguments", quoted)),
        (PartKind::ToolCall, _) => {
            let call = Object::parse(spot.raw)?;
            let (body, member) = match call.get("custom") {
                Some(custom) => ("custom", Object::parse(custom)?.with_value("input", quoted)),
                None => match call.get("function").and_then(Object::parse) {
                    Some(function) => ("function", function.with_value("arguments", quoted)),
                    None => ("function", format!("{{\"arguments\":{quoted}}}")),
                },
            };
            Some(call.with_value(body, member))
        }
        (PartKind::Text, Place::Element { .. }) => text_element(spot.raw, quoted),
        (PartKind::Text, Place::Member(_)) if key == "content" || key == "refusal" => Some(quoted),
        _ => None,
    }
}

/// Writes a text part of a content array anew.
pub(crate) fn text_element(raw: &str, quoted: String) -> Option<String> {
    let Some(object) = Object::parse(raw) else { return Some(quoted) };
    let key = if object.text("type").as_deref() == Some("refusal") { "refusal" } else { "text" };
    Some(object.with_value(key, quoted))
}
