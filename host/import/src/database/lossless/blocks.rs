//! Writes the blocks of a lossless-claw message as OpenAI chat messages.
//!
//! The store keeps each block twice: in columns, and whole in the member `raw` of its metadata. Texts, arguments and
//! signatures are taken as they stand. Signed and encrypted reasoning goes into `reasoning_details`, which has a place for
//! it; plain reasoning into `reasoning_content`.

use super::super::row::{At, ObjectWriter, json_text};
use super::super::table::Cells;
use crate::build::{Piece, content};
use crate::formats::walk::pieces;
use crate::json::{self, pick, quote, text};
use crate::problems::Problems;
use std::borrow::Cow;

pub(super) const COLUMNS: [&str; 8] =
    ["part_type", "text_content", "tool_call_id", "tool_name", "tool_input", "tool_output", "tool_error", "metadata"];
const CALL_TYPES: [&str; 7] =
    ["toolCall", "tool_use", "toolUse", "tool-use", "tool_call", "functionCall", "function_call"];
const RESULT_TYPES: [&str; 4] = ["toolResult", "tool_result", "function_call_output", "tool_use_result"];
const REASONING_TYPES: [&str; 3] = ["thinking", "redacted_thinking", "reasoning"];

/// The messages of one row.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// OpenAI chat messages.
    pub(super) messages: Vec<String>,
    /// User messages with the pictures of its results, which have no place in a result.
    pub(super) pictures: Vec<String>,
    /// Whether it is a tool's answer.
    pub(super) is_result: bool,
}

struct CallBlock {
    id: String,
    name: String,
    arguments: String,
}

struct ResultBlock {
    id: String,
    name: String,
    pieces: Vec<Piece>,
}

/// The blocks of one row, sorted out.
pub(super) struct Blocks {
    role: String,
    said: Vec<Piece>,
    reasoning: Vec<String>,
    /// JSON objects.
    details: Vec<String>,
    calls: Vec<CallBlock>,
    results: Vec<ResultBlock>,
}

impl Blocks {
    pub(super) fn of(row: i64, role: &str, stored: String, parts: Vec<Cells>, problems: &mut Problems) -> Self {
        let mut blocks = Blocks {
            role: role.to_owned(),
            said: Vec::new(),
            reasoning: Vec::new(),
            details: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
        };
        let at = At { table: "messages", row };
        let has_parts = !parts.is_empty();
        for part in parts {
            blocks.part(at, part, problems);
        }
        if !has_parts && !stored.is_empty() {
            blocks.said.push(Piece::Text(stored));
        }
        if blocks.role == "tool" && blocks.results.is_empty() {
            // Rows from before the parts were kept do not say which call they answer; the program sends them as the model's words.
            problems.warn(None, || format!("{at} is a tool's result that names no call; read as the assistant's text"));
            blocks.role = "assistant".to_owned();
        }
        blocks
    }

    fn part(&mut self, at: At, mut cells: Cells, problems: &mut Problems) {
        let metadata = cells.text("metadata").unwrap_or_default();
        let keys = ["originalRole", "toolCallId", "toolName", "rawType", "raw", "topLevelReasoningContent"];
        let [original, top_id, top_name, raw_type, raw, top_reasoning] = match metadata.as_str() {
            "" => [None; 6],
            metadata => pick(metadata, keys).unwrap_or_else(|error| {
                problems.warn(None, || {
                    format!("{at} has a part whose metadata cannot be read, its columns are used: {error}")
                });
                [None; 6]
            }),
        };
        if let Some(original) = text(original) {
            self.role = match original.as_ref() {
                "toolResult" | "tool" => "tool".to_owned(),
                "user" | "assistant" | "system" => original.into_owned(),
                _ => std::mem::take(&mut self.role),
            };
        }
        self.reasoning.extend(text(top_reasoning).filter(|text| !text.is_empty()).map(Cow::into_owned));
        let block = Block::of(raw);
        let part_type = cells.text("part_type").unwrap_or_default();
        let kind = text(raw_type).or_else(|| text(block.kind)).map(Cow::into_owned).unwrap_or_default();
        let words = cells.take("text_content").into_text();
        let is_one_of = |types: &[&str]| types.contains(&kind.as_str());
        let is_tool = part_type == "tool" && kind.is_empty();
        let mut first = |column: &str, others: [Option<&str>; 3]| {
            let own = cells.text(column);
            own.or_else(|| {
                others.into_iter().find_map(|one| text(one).filter(|one| !one.is_empty())).map(Cow::into_owned)
            })
            .unwrap_or_default()
        };
        let id = first("tool_call_id", [block.call_id, block.id, top_id]);
        let name = first("tool_name", [block.name, top_name, None]);
        if is_one_of(&RESULT_TYPES) || (self.role == "tool" && !is_one_of(&CALL_TYPES) && (is_tool || !id.is_empty())) {
            self.result(id, name, words, &block, &mut cells);
        } else if is_one_of(&CALL_TYPES) || is_tool {
            let arguments = cells.text("tool_input").or_else(|| block.input.map(str::to_owned));
            self.calls.push(CallBlock { id, name, arguments: unquoted(arguments.unwrap_or_default()) });
        } else if is_one_of(&REASONING_TYPES) || part_type == "reasoning" {
            self.reasoning_block(words, &block);
        } else if let Some(words) = words.filter(|words| !words.is_empty()) {
            self.said.push(Piece::Text(words));
        } else if let Some(raw) = raw {
            self.said.extend(json::value(raw).map(|raw| pieces(&raw)).unwrap_or_default());
        }
    }

    // Several parts may hold one result.
    fn result(&mut self, id: String, name: String, words: Option<String>, block: &Block<'_>, cells: &mut Cells) {
        let output = cells.text("tool_output").or_else(|| block.output.or(block.content).map(str::to_owned));
        let said = match (output, words.filter(|words| !words.is_empty())) {
            // An object is no list of blocks; its text is the answer.
            (Some(output), _) if output.starts_with('{') => vec![Piece::Text(output)],
            (Some(output), _) => match json::value(&output) {
                Ok(output) => pieces(&output),
                Err(_) => vec![Piece::Text(output)],
            },
            (None, Some(words)) => vec![Piece::Text(words)],
            (None, None) => match cells.text("tool_error") {
                Some(error) => vec![Piece::Text(error)],
                // A picture, or an empty text.
                None => block
                    .whole
                    .filter(|_| block.is_picture())
                    .and_then(|raw| json::value(raw).ok())
                    .map(|raw| pieces(&raw))
                    .unwrap_or_default(),
            },
        };
        match self.results.iter_mut().find(|result| result.id == id) {
            Some(result) => result.pieces.extend(said),
            None => self.results.push(ResultBlock { id, name, pieces: said }),
        }
    }

    fn reasoning_block(&mut self, words: Option<String>, block: &Block<'_>) {
        let own = text(block.thinking).or_else(|| text(block.text)).map(Cow::into_owned);
        let words = words.or(own).unwrap_or_default();
        let signature = text(block.thinking_signature).or_else(|| text(block.signature)).unwrap_or_default();
        // OpenClaw keeps an item of the Responses API in the place of the signature.
        let item = json_text(&signature, "{").map(str::to_owned);
        let item = item.or_else(|| block.encrypted.and(block.whole).map(str::to_owned));
        let parsed = item.as_deref().and_then(|item| pick(item, ["id", "encrypted_content"]).ok());
        if let Some([id, Some(encrypted)]) = parsed {
            let id = id.map(|id| format!(",\"id\":{id}")).unwrap_or_default();
            self.details.push(format!("{{\"type\":\"reasoning.encrypted\",\"data\":{encrypted}{id}}}"));
            self.reasoning.extend(Some(words).filter(|words| !words.is_empty()));
        } else if let Some(data) = block.data.filter(|_| words.is_empty()) {
            self.details.push(format!("{{\"type\":\"reasoning.encrypted\",\"data\":{data}}}"));
        } else if !signature.is_empty() && item.is_none() {
            self.details.push(format!(
                "{{\"type\":\"reasoning.text\",\"text\":{},\"signature\":{}}}",
                quote(&words),
                quote(&signature)
            ));
        } else if !words.is_empty() {
            self.reasoning.push(words);
        }
    }

    /// Writes the messages: results first, since they answer the message before.
    pub(super) fn write(self) -> Written {
        let mut written = Written { is_result: !self.results.is_empty(), ..Written::default() };
        for result in self.results {
            let (pictures, texts): (Vec<Piece>, Vec<Piece>) =
                result.pieces.into_iter().partition(|piece| matches!(piece, Piece::Image(_)));
            let mut raw = ObjectWriter::new("tool");
            raw.text("tool_call_id", &result.id);
            raw.json("content", &content(&texts).unwrap_or_else(|| quote("")));
            if !result.name.is_empty() {
                raw.text("name", &result.name);
            }
            written.messages.push(raw.finish());
            if let Some(pictures) = content(&pictures) {
                written.pictures.push(format!("{{\"role\":\"user\",\"content\":{pictures}}}"));
            }
        }
        let is_assistant = self.role == "assistant";
        if written.is_result && self.said.is_empty() && self.calls.is_empty() {
            return written;
        }
        let role = match self.role.as_str() {
            "assistant" => "assistant",
            "system" => "system",
            _ => "user",
        };
        let mut raw = ObjectWriter::new(role);
        let said = content(&self.said);
        let empty = if is_assistant && !self.calls.is_empty() { "null".to_owned() } else { quote("") };
        raw.json("content", &said.unwrap_or(empty));
        if is_assistant {
            if !self.reasoning.is_empty() {
                raw.text("reasoning_content", &self.reasoning.join("\n"));
            }
            if !self.details.is_empty() {
                raw.json("reasoning_details", &format!("[{}]", self.details.join(",")));
            }
            if !self.calls.is_empty() {
                let calls: Vec<String> = self.calls.iter().map(CallBlock::write).collect();
                raw.json("tool_calls", &format!("[{}]", calls.join(",")));
            }
        }
        written.messages.push(raw.finish());
        written
    }
}

impl CallBlock {
    fn write(&self) -> String {
        let name = if self.name.is_empty() { "unknown" } else { &self.name };
        let arguments = if self.arguments.is_empty() { "{}" } else { &self.arguments };
        format!(
            "{{\"id\":{},\"type\":\"function\",\"function\":{{\"name\":{},\"arguments\":{}}}}}",
            quote(&self.id),
            quote(name),
            quote(arguments)
        )
    }
}

// Arguments are JSON; those that were a string are a JSON string of it.
fn unquoted(arguments: String) -> String {
    match json::string(&arguments) {
        Some(inner) => inner.into_owned(),
        None => arguments,
    }
}

/// Members of the block itself, as exact texts.
#[derive(Default)]
struct Block<'t> {
    whole: Option<&'t str>,
    kind: Option<&'t str>,
    id: Option<&'t str>,
    call_id: Option<&'t str>,
    name: Option<&'t str>,
    input: Option<&'t str>,
    output: Option<&'t str>,
    content: Option<&'t str>,
    text: Option<&'t str>,
    thinking: Option<&'t str>,
    thinking_signature: Option<&'t str>,
    signature: Option<&'t str>,
    encrypted: Option<&'t str>,
    data: Option<&'t str>,
    mime: Option<&'t str>,
}

impl<'t> Block<'t> {
    fn of(raw: Option<&'t str>) -> Self {
        let Some(whole) = raw.filter(|raw| raw.starts_with('{')) else { return Block::default() };
        let keys = [
            "type",
            "id",
            "call_id",
            "toolCallId",
            "tool_call_id",
            "tool_use_id",
            "name",
            "input",
            "arguments",
            "output",
            "content",
            "text",
            "thinking",
            "thinkingSignature",
            "signature",
            "encrypted_content",
            "data",
            "mimeType",
        ];
        let Ok(found) = pick(whole, keys) else { return Block { whole: raw, ..Block::default() } };
        let [
            kind,
            id,
            c1,
            c2,
            c3,
            c4,
            name,
            input,
            arguments,
            output,
            content,
            text,
            thinking,
            ts,
            signature,
            encrypted,
            data,
            mime,
        ] = found;
        Block {
            whole: raw,
            kind,
            id,
            call_id: c1.or(c2).or(c3).or(c4),
            name,
            input: input.or(arguments),
            output,
            content,
            text,
            thinking,
            thinking_signature: ts,
            signature,
            encrypted,
            data,
            mime,
        }
    }

    fn is_picture(&self) -> bool {
        self.mime.is_some() || text(self.kind).is_some_and(|kind| kind.contains("image"))
    }
}
