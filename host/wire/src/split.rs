//! Splits a message list into messages, and a message into its parts with their places in the text.

use std::borrow::Cow;
use std::collections::HashMap;

use engine_api::{Dialect, Flags, Message, MessageId, Part, PartKind, Role};

use crate::json::{self, Kind, Object};
use crate::{WireError, anthropic, classify, openai_chat, openai_responses};

/// Where a part stands in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is the whole message.
    Whole,
    /// It is the value of this member.
    Member(usize),
    /// It is this element of the array that is the value of this member.
    Element { member: usize, index: usize },
}

/// One part of a message and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Spot<'a> {
    pub(crate) part: Part,
    pub(crate) place: Place,
    /// The JSON text at that place.
    pub(crate) raw: &'a str,
}

/// A message as a dialect understands it.
#[derive(Debug, Clone)]
pub(crate) struct Parsed<'a> {
    pub(crate) role: Role,
    pub(crate) spots: Vec<Spot<'a>>,
    /// The message's members; none if it is no object.
    pub(crate) object: Option<Object<'a>>,
}

impl<'a> Parsed<'a> {
    /// A message that is only its bytes.
    pub(crate) fn opaque(raw: &'a str, object: Option<Object<'a>>) -> Parsed<'a> {
        let spot = Spot { part: Part::new(PartKind::Opaque, ""), place: Place::Whole, raw };
        Parsed { role: Role::Other, spots: vec![spot], object }
    }
}

/// Reads a message's parts. `raw` is one JSON value without white space around it.
pub(crate) fn locate(dialect: Dialect, raw: &str) -> Parsed<'_> {
    let Some(object) = Object::parse(raw) else { return Parsed::opaque(raw, None) };
    match dialect {
        Dialect::Anthropic => anthropic::parse(raw, object),
        Dialect::Responses => openai_responses::parse(raw, object),
        _ => openai_chat::parse(raw, object),
    }
}

/// Understands one raw message or item.
///
/// Never fails on odd content: what is not understood becomes an opaque part, an unknown role becomes `Other`. The
/// message keeps `raw` as it is; its id, tokens and the tool names of its results are filled in later.
///
/// # Errors
/// [`WireError::NotJson`] if `raw` is not one JSON value.
pub fn parse_message(dialect: Dialect, raw: &str) -> Result<Message, WireError> {
    let value = json::value(raw, "message")?;
    Ok(message(dialect, value, raw))
}

/// Makes a message of a value that is known to be JSON.
pub(crate) fn message(dialect: Dialect, value: &str, raw: &str) -> Message {
    let parsed = locate(dialect, value);
    let parts: Vec<Part> = parsed.spots.into_iter().map(|spot| spot.part).collect();
    let flags = classify::flags(parsed.role, &parts);
    Message { flags, ..Message::new(parsed.role, raw, parts) }
}

/// Numbers messages from 1 in their order, and gives each result without a tool name the one of its call.
///
/// Some clients use a call id again in later turns, so a result belongs to the newest call of that id before it.
pub fn number(messages: &mut [Message]) {
    // Ids of different families are different ids.
    let mut names: HashMap<(u32, String), String> = HashMap::new();
    for (id, message) in (1..).zip(messages) {
        message.id = MessageId(id);
        for part in &mut message.parts {
            match part.kind {
                PartKind::ToolCall if !part.call_id.is_empty() => {
                    names.insert((part.flags.family(), part.call_id.clone()), part.tool_name.clone());
                }
                PartKind::ToolResult if part.tool_name.is_empty() => {
                    if let Some(name) = names.get(&(part.flags.family(), part.call_id.clone())) {
                        part.tool_name.clone_from(name);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Splits a JSON array's text into the exact texts of its elements.
///
/// # Errors
/// [`WireError::NotJson`] if the text is no JSON, [`WireError::WrongKind`] if it is another value.
pub fn split_array(text: &str) -> Result<Vec<&str>, WireError> {
    let raw = json::value(text, "message list")?;
    let found = json::kind(raw).described();
    json::elements(raw).ok_or(WireError::WrongKind { what: "message list", wanted: "an array", found })
}

/// Recognition stops once one dialect has this many more signs than each other.
const CLEAR_LEAD: usize = 8;

/// Recognises the dialect of a message list by its content; without any sign it is Chat Completions.
pub fn detect(value_messages: &[&str]) -> Dialect {
    let (mut openai, mut anthropic, mut responses) = (0_usize, 0_usize, 0_usize);
    for object in value_messages.iter().filter_map(|raw| Object::parse(raw)) {
        let kind = object.text("type").unwrap_or_default();
        let role = object.text("role").unwrap_or_default();
        let is_item = openai_responses::is_item_type(&kind) && (kind != "message" || object.get("role").is_some());
        responses += usize::from(is_item);
        let has_calls = object.get("tool_calls").or(object.get("function_call")).is_some_and(|raw| raw != "null");
        openai += usize::from(has_calls || matches!(&*role, "tool" | "system" | "developer" | "function"));
        let content = object.get("content").filter(|raw| json::kind(raw) == Kind::Array).and_then(json::elements);
        for block in content.unwrap_or_default().into_iter().filter_map(Object::parse) {
            match &*block.text("type").unwrap_or_default() {
                "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image" | "document" => anthropic += 1,
                "image_url" => openai += 1,
                "input_text" | "output_text" | "input_image" => responses += 1,
                _ => {}
            }
        }
        let mut ranking = [openai, anthropic, responses];
        ranking.sort_unstable();
        if ranking[2] - ranking[1] >= CLEAR_LEAD {
            break;
        }
    }
    if responses > openai && responses >= anthropic {
        Dialect::Responses
    } else if anthropic > openai {
        Dialect::Anthropic
    } else {
        Dialect::OpenAiChat
    }
}

/// Reads a content member that is a string or an array of parts; null and an empty string give no part.
pub(crate) fn content_spots<'a>(
    spots: &mut Vec<Spot<'a>>,
    member: usize,
    raw: &'a str,
    part_of: fn(&Object<'_>) -> Part,
) {
    match json::kind(raw) {
        Kind::Null => {}
        Kind::String => {
            let text = json::decode(raw).unwrap_or_default();
            if !text.is_empty() {
                let part = Part::new(PartKind::Text, text);
                spots.push(Spot { part, place: Place::Member(member), raw });
            }
        }
        Kind::Array => {
            for (index, element) in json::elements(raw).unwrap_or_default().into_iter().enumerate() {
                let part = match json::decode(element) {
                    Some(text) => Part::new(PartKind::Text, text),
                    None => or_opaque(Object::parse(element).map(|object| part_of(&object))),
                };
                spots.push(Spot { part, place: Place::Element { member, index }, raw: element });
            }
        }
        Kind::Bool | Kind::Number | Kind::Object => {
            spots.push(Spot { part: Part::new(PartKind::Opaque, ""), place: Place::Member(member), raw });
        }
    }
}

/// Turns what could not be read into an opaque part.
pub(crate) fn or_opaque(part: Option<Part>) -> Part {
    part.unwrap_or_else(|| Part::new(PartKind::Opaque, ""))
}

/// Reads an element of a content array of either OpenAI dialect.
pub(crate) fn typed_part(object: &Object<'_>) -> Part {
    let kind = object.text("type").unwrap_or_default();
    let text = match &*kind {
        "text" | "input_text" | "output_text" => object.text("text"),
        "refusal" => object.text("refusal"),
        kind if is_image_type(kind) => return Part::new(PartKind::Image, ""),
        _ => None,
    };
    or_opaque(text.map(|text| Part::new(PartKind::Text, text)))
}

/// One element of a tool's answer.
pub(crate) enum AnswerPiece<'a> {
    Text(Cow<'a, str>),
    Image(Object<'a>),
    /// A file's bytes; they are no text.
    File,
}

/// Reads an element of a tool's answer. What no API knows is kept as its JSON text: some clients store results of a
/// shape of their own, and their words would be lost.
pub(crate) fn answer_piece(raw: &str) -> AnswerPiece<'_> {
    if let Some(text) = json::decode(raw) {
        return AnswerPiece::Text(text);
    }
    let Some(object) = Object::parse(raw) else { return AnswerPiece::Text(raw.into()) };
    let kind = object.text("type").unwrap_or_default();
    if is_image_type(&kind) {
        return AnswerPiece::Image(object);
    }
    if matches!(&*kind, "document" | "file" | "input_file" | "input_audio" | "container_upload") {
        return AnswerPiece::File;
    }
    AnswerPiece::Text(object.text("text").unwrap_or(raw.into()))
}

/// Reads a tool's answer that is a string or an array of parts: its text, and whether it holds a picture.
pub(crate) fn answer_text(raw: Option<&str>) -> (String, Flags) {
    let Some(raw) = raw else { return (String::new(), Flags::default()) };
    match json::kind(raw) {
        Kind::Null => (String::new(), Flags::default()),
        Kind::String => (json::decode(raw).unwrap_or_default().into_owned(), Flags::default()),
        Kind::Array => {
            let mut flags = Flags::default();
            let mut texts: Vec<Cow<'_, str>> = Vec::new();
            for element in json::elements(raw).unwrap_or_default() {
                match answer_piece(element) {
                    AnswerPiece::Text(text) => texts.push(text),
                    AnswerPiece::Image(_) => flags = flags.with(Flags::HAS_IMAGE),
                    AnswerPiece::File => {}
                }
            }
            (texts.join("\n"), flags)
        }
        Kind::Bool | Kind::Number | Kind::Object => (raw.to_owned(), Flags::default()),
    }
}

/// Tells whether a part of this type is a picture, in any of the dialects.
pub(crate) fn is_image_type(kind: &str) -> bool {
    matches!(kind, "image" | "image_url" | "input_image" | "computer_screenshot")
}

#[cfg(test)]
mod tests;
