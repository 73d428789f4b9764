//! Lifts messages of any dialect into turns that know none.

use engine_api::{Dialect, Flags, Part, PartKind, Role};

use super::Losses;
use crate::Document;
use crate::document::instruction_texts;
use crate::json::{self, Kind, Object};
use crate::split::{AnswerPiece, Spot, answer_piece, locate};

/// Stands for a picture that cannot be carried over.
pub(super) const IMAGE_TEXT: &str = "[image]";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// A picture by its address, which may be a `data:` URL.
    Picture(String),
    Call(Call),
    Answer(Answer),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) family: u32,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Its arguments are free text by design, not JSON.
    pub(super) is_free_text: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) family: u32,
    /// Texts and pictures.
    pub(super) content: Vec<Piece>,
    pub(super) is_error: bool,
    /// It answers a call with free text.
    pub(super) is_free_text: bool,
}

impl Answer {
    /// Returns the texts, with a word in place of each picture.
    pub(super) fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                _ => IMAGE_TEXT,
            })
            .collect();
        texts.join("\n")
    }
    pub(super) fn picture_count(&self) -> usize {
        self.content.iter().filter(|piece| matches!(piece, Piece::Picture(_))).count()
    }
}

/// What one speaker says before another does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) role: Role,
    pub(super) pieces: Vec<Piece>,
    /// Answers to the calls of this turn, once they are paired.
    pub(super) answers: Vec<Answer>,
}

impl Turn {
    fn has_calls(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Call(_)))
    }
}

/// Reads a document's instructions and messages.
pub(super) fn turns(document: &Document, losses: &mut Losses) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::with_capacity(document.messages.len());
    for key in ["system", "instructions"] {
        let texts = document.member(key).map(instruction_texts).unwrap_or_default();
        if !texts.is_empty() {
            let pieces = texts.into_iter().map(Piece::Text).collect();
            turns.push(Turn { role: Role::System, pieces, answers: Vec::new() });
        }
    }
    let dialect = document.dialect();
    for message in &document.messages {
        let Ok(value) = json::value(&message.raw, "message") else { continue };
        let parsed = locate(dialect, value);
        let pieces: Vec<Piece> = parsed.spots.iter().filter_map(|spot| piece(dialect, spot, losses)).collect();
        if pieces.is_empty() {
            continue;
        }
        let role = match parsed.role {
            // Only the model calls tools, whatever role the message claims.
            _ if pieces.iter().any(|piece| matches!(piece, Piece::Call(_))) => Role::Assistant,
            Role::Other => {
                losses.unknown_roles += 1;
                Role::User
            }
            role => role,
        };
        let turn = Turn { role, pieces, answers: Vec::new() };
        // Neighbours around a call are one reply of the model: so they stand in Responses, and so Anthropic reads them.
        match turns.last_mut() {
            Some(last)
                if role == Role::Assistant
                    && last.role == role
                    && dialect != Dialect::OpenAiChat
                    && (last.has_calls() || turn.has_calls()) =>
            {
                last.pieces.extend(turn.pieces);
            }
            _ => turns.push(turn),
        }
    }
    turns
}

fn piece(dialect: Dialect, spot: &Spot<'_>, losses: &mut Losses) -> Option<Piece> {
    match spot.part.kind {
        PartKind::Text if spot.part.text.trim().is_empty() => None,
        PartKind::Text => Some(Piece::Text(spot.part.text.clone())),
        PartKind::Reasoning => {
            losses.reasoning += 1;
            None
        }
        PartKind::Image => Some(picture_or_text(Object::parse(spot.raw).as_ref(), losses)),
        PartKind::ToolCall => {
            let part = &spot.part;
            let is_free_text = Object::parse(spot.raw)
                .is_some_and(|raw| raw.get("custom").is_some() || raw.get("type") == Some("\"custom_tool_call\""));
            Some(Piece::Call(Call {
                id: part.call_id.clone(),
                family: part.flags.family(),
                name: part.tool_name.clone(),
                arguments: part.text.clone(),
                is_free_text,
            }))
        }
        PartKind::ToolResult => Some(Piece::Answer(answer(dialect, spot, losses))),
        _ => {
            losses.opaque += 1;
            None
        }
    }
}

fn answer(dialect: Dialect, spot: &Spot<'_>, losses: &mut Losses) -> Answer {
    let Part { flags, text, call_id, .. } = &spot.part;
    let object = Object::parse(spot.raw);
    let key = if dialect == Dialect::Responses { "output" } else { "content" };
    let raw = object.as_ref().and_then(|object| object.get(key));
    let mut content = Vec::new();
    match raw.map(json::kind) {
        Some(Kind::Array) if flags.has(Flags::HAS_IMAGE) => {
            for element in raw.and_then(json::elements).unwrap_or_default() {
                match answer_piece(element) {
                    AnswerPiece::Image(picture) => content.push(picture_or_text(Some(&picture), losses)),
                    AnswerPiece::Text(text) if !text.is_empty() => content.push(Piece::Text(text.into_owned())),
                    AnswerPiece::Text(_) => {}
                    AnswerPiece::File => losses.opaque += 1,
                }
            }
        }
        Some(Kind::Object) if flags.has(Flags::HAS_IMAGE) => {
            content.push(picture_or_text(raw.and_then(Object::parse).as_ref(), losses));
        }
        _ if text.is_empty() => {}
        _ => content.push(Piece::Text(text.clone())),
    }
    Answer {
        id: call_id.clone(),
        family: flags.family(),
        content,
        is_error: flags.has(Flags::ERROR),
        is_free_text: false,
    }
}

fn picture_or_text(object: Option<&Object<'_>>, losses: &mut Losses) -> Piece {
    if let Some(address) = object.and_then(address).filter(|address| !address.is_empty()) {
        return Piece::Picture(address);
    }
    losses.pictures += 1;
    Piece::Text(IMAGE_TEXT.to_owned())
}

/// Returns a picture's address; one that is only known by a file's id has none.
fn address(picture: &Object<'_>) -> Option<String> {
    if let Some(raw) = picture.get("image_url") {
        let url = json::decode(raw).or_else(|| Object::parse(raw)?.text("url"))?;
        return Some(url.into_owned());
    }
    let source = picture.get("source").and_then(Object::parse)?;
    if source.text("type").as_deref() == Some("base64") {
        let data = source.text("data").filter(|data| !data.is_empty())?;
        return Some(format!("data:{};base64,{data}", source.text("media_type")?));
    }
    source.text("url").map(|url| url.into_owned())
}
