//! The Anthropic Messages dialect: everything is a content block; tool answers stand in the next user message.

use engine_api::{Flags, Part, PartKind, Role};

use crate::json::{self, Kind, Object};
use crate::split::{Parsed, Place, Spot, answer_text, content_spots, or_opaque};

/// Text in place of a failed tool's empty answer, which the API refuses.
pub(crate) const EMPTY_FAILURE: &str = "(no output)";

pub(crate) fn role(name: &str) -> Role {
    match name {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::Other,
    }
}

pub(crate) fn parse<'a>(raw: &'a str, object: Object<'a>) -> Parsed<'a> {
    let role = role(&object.text("role").unwrap_or_default());
    if role == Role::Other && object.get("content").is_none() {
        return Parsed::opaque(raw, Some(object));
    }
    let mut spots = Vec::new();
    if let (Some(member), Some(content)) = (object.position("content"), object.get("content")) {
        content_spots(&mut spots, member, content, block_part);
    }
    Parsed { role, spots, object: Some(object) }
}

fn block_part(block: &Object<'_>) -> Part {
    match &*block.text("type").unwrap_or_default() {
        "text" => or_opaque(block.text("text").map(|text| Part::new(PartKind::Text, text))),
        "thinking" => Part::new(PartKind::Reasoning, block.text("thinking").unwrap_or_default()),
        "redacted_thinking" => Part::new(PartKind::Reasoning, ""),
        "image" => Part::new(PartKind::Image, ""),
        "tool_use" => Part::call(
            block.text("id").unwrap_or_default(),
            block.text("name").unwrap_or_default(),
            block.get("input").unwrap_or_default(),
        ),
        "tool_result" => {
            let (text, mut flags) = answer_text(block.get("content"));
            if block.get("is_error") == Some("true") {
                flags = flags.with(Flags::ERROR);
            }
            Part { flags, ..Part::result(block.text("tool_use_id").unwrap_or_default(), text) }
        }
        // The provider ran these itself, and both halves stand in the assistant's message.
        kind if matches!(kind, "server_tool_use" | "mcp_tool_use") || kind.ends_with("_tool_result") => {
            Part { flags: Flags::SELF_CONTAINED, ..Part::new(PartKind::Opaque, "") }
        }
        _ => Part::new(PartKind::Opaque, ""),
    }
}

/// Writes a part anew with another text.
pub(crate) fn with_text(spot: &Spot<'_>, text: &str) -> Option<String> {
    if let Place::Member(_) = spot.place {
        return (spot.part.kind == PartKind::Text).then(|| json::quote(text));
    }
    let Some(block) = Object::parse(spot.raw) else { return Some(json::quote(text)) };
    match spot.part.kind {
        PartKind::Text => Some(block.with_value("text", json::quote(text))),
        PartKind::ToolCall => Some(block.with_value("input", input(text))),
        PartKind::ToolResult => {
            let is_refused = text.is_empty() && spot.part.flags.has(Flags::ERROR);
            Some(block.with_value("content", json::quote(if is_refused { EMPTY_FAILURE } else { text })))
        }
        _ => None,
    }
}

/// Returns a tool's input: the text itself if it is a JSON object, else an object around it.
pub(crate) fn input(arguments: &str) -> String {
    match json::value(arguments, "arguments") {
        Ok(raw) if json::kind(raw) == Kind::Object => raw.to_owned(),
        _ => format!("{{\"_\":{}}}", json::quote(arguments)),
    }
}
