//! Writes turns as the messages of a dialect.

use engine_api::{Dialect, Role};

use super::Losses;
use super::lift::{Answer, Call, IMAGE_TEXT, Piece, Turn};
use super::pair::is_id_char;
use crate::author::failure_text;
use crate::classify::HOST_MARK;
use crate::json::{self, quote};

/// Longest tool name that all dialects accept.
const NAME_MAX: usize = 64;

/// Returns a tool's name in characters that every API takes.
pub(super) fn tool_name(name: &str) -> String {
    let clean: String = name.chars().map(|c| if is_id_char(c) { c } else { '_' }).take(NAME_MAX).collect();
    if clean.is_empty() { "tool".to_owned() } else { clean }
}

/// Returns the texts of a turn, a blank line between them.
fn joined_text(pieces: &[Piece]) -> String {
    let texts: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Picture(_) => Some(IMAGE_TEXT),
            Piece::Call(_) | Piece::Answer(_) => None,
        })
        .collect();
    texts.join("\n\n")
}

fn calls(pieces: &[Piece]) -> impl Iterator<Item = &Call> {
    pieces.iter().filter_map(|piece| if let Piece::Call(call) = piece { Some(call) } else { None })
}

/// Answers without a call: they come first, where an answer would be looked for.
fn orphans(pieces: &[Piece]) -> impl Iterator<Item = &Answer> {
    pieces.iter().filter_map(|piece| if let Piece::Answer(answer) = piece { Some(answer) } else { None })
}

/// Returns the text or picture parts of a turn, written by the given functions.
fn parts(pieces: &[Piece], text: impl Fn(&str) -> String, picture: impl Fn(&str) -> Option<String>) -> Vec<String> {
    pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(words) => Some(text(words)),
            Piece::Picture(address) => Some(picture(address).unwrap_or_else(|| text(IMAGE_TEXT))),
            Piece::Call(_) | Piece::Answer(_) => None,
        })
        .collect()
}

fn count_pictures(pieces: &[Piece]) -> usize {
    pieces.iter().filter(|piece| matches!(piece, Piece::Picture(_))).count()
}

// ---- Chat Completions

pub(super) fn openai(turns: Vec<Turn>, losses: &mut Losses) -> Vec<String> {
    let mut messages = Vec::with_capacity(turns.len());
    let tool = |answer: &Answer, losses: &mut Losses| {
        losses.pictures += answer.picture_count();
        losses.failures += usize::from(answer.is_error);
        let (id, text) = (quote(&answer.id), quote(&answer.text()));
        format!("{{\"role\":\"tool\",\"tool_call_id\":{id},\"content\":{text}}}")
    };
    for turn in &turns {
        messages.extend(orphans(&turn.pieces).map(|answer| tool(answer, losses)));
        let (role, has_pictures) = match turn.role {
            Role::System => ("system", false),
            Role::Developer => ("developer", false),
            Role::Assistant => ("assistant", false),
            _ => ("user", true),
        };
        let content = openai_content(&turn.pieces, has_pictures, losses);
        let calls: Vec<String> = calls(&turn.pieces).map(openai_call).collect();
        match (content, calls.is_empty()) {
            (Some(content), true) => messages.push(format!("{{\"role\":\"{role}\",\"content\":{content}}}")),
            (None, true) => {}
            (content, false) => {
                let content = content.unwrap_or_else(|| "null".to_owned());
                let calls = calls.join(",");
                messages.push(format!("{{\"role\":\"{role}\",\"content\":{content},\"tool_calls\":[{calls}]}}"));
            }
        }
        messages.extend(turn.answers.iter().map(|answer| tool(answer, losses)));
    }
    messages
}

fn openai_content(pieces: &[Piece], has_pictures: bool, losses: &mut Losses) -> Option<String> {
    let text = |words: &str| format!("{{\"type\":\"text\",\"text\":{}}}", quote(words));
    let picture = |address: &str| {
        has_pictures.then(|| format!("{{\"type\":\"image_url\",\"image_url\":{{\"url\":{}}}}}", quote(address)))
    };
    if !has_pictures {
        losses.pictures += count_pictures(pieces);
    }
    let parts = parts(pieces, text, picture);
    match (parts.len(), count_pictures(pieces)) {
        (0, _) => None,
        // Many hosts of this dialect take only a string, so an array is written where it says more.
        (1, 0) => Some(quote(&joined_text(pieces))),
        _ => Some(format!("[{}]", parts.join(","))),
    }
}

fn openai_call(call: &Call) -> String {
    let (id, name) = (quote(&call.id), quote(&tool_name(&call.name)));
    if call.is_free_text {
        let input = quote(&call.arguments);
        return format!("{{\"id\":{id},\"type\":\"custom\",\"custom\":{{\"name\":{name},\"input\":{input}}}}}");
    }
    let arguments = quote(arguments_text(call));
    format!("{{\"id\":{id},\"type\":\"function\",\"function\":{{\"name\":{name},\"arguments\":{arguments}}}}}")
}

/// Returns a call's arguments as text; none at all are an empty object.
fn arguments_text(call: &Call) -> &str {
    if call.arguments.trim().is_empty() { "{}" } else { &call.arguments }
}

// ---- Anthropic

pub(super) fn anthropic(turns: Vec<Turn>, losses: &mut Losses) -> (Option<String>, Vec<String>) {
    let mut system = Vec::new();
    // Neighbours of one role are joined, as the API would do it.
    let mut joined: Vec<(&'static str, Vec<Block>)> = Vec::with_capacity(turns.len());
    let mut push = |role: &'static str, blocks: Vec<Block>| {
        if blocks.is_empty() {
            return;
        }
        match joined.last_mut() {
            Some((last, old)) if *last == role => old.extend(blocks),
            _ => joined.push((role, blocks)),
        }
    };
    for turn in turns {
        match turn.role {
            Role::System | Role::Developer => {
                losses.pictures += count_pictures(&turn.pieces);
                system.extend(turn.pieces.into_iter().filter_map(|piece| match piece {
                    Piece::Text(text) => Some(text),
                    _ => None,
                }));
            }
            Role::Assistant => {
                losses.pictures += count_pictures(&turn.pieces);
                let mut blocks: Vec<Block> =
                    parts(&turn.pieces, str::to_owned, |_| None).into_iter().map(Block::Text).collect();
                for call in calls(&turn.pieces) {
                    blocks.push(Block::Raw(anthropic_call(call, losses)));
                }
                push("assistant", blocks);
            }
            _ => {
                let mut blocks: Vec<Block> =
                    orphans(&turn.pieces).map(|answer| Block::Raw(anthropic_result(answer, losses))).collect();
                for piece in turn.pieces {
                    match piece {
                        Piece::Text(text) => blocks.push(Block::Text(text)),
                        Piece::Picture(address) => blocks.push(anthropic_picture(&address, losses)),
                        Piece::Call(_) | Piece::Answer(_) => {}
                    }
                }
                push("user", blocks);
            }
        }
        push("user", turn.answers.iter().map(|answer| Block::Raw(anthropic_result(answer, losses))).collect());
    }
    if joined.first().is_none_or(|(role, _)| *role != "user") {
        losses.added_openings += 1;
        joined.insert(0, ("user", vec![Block::Text(format!("{HOST_MARK} the conversation begins here]"))]));
    }
    // The API refuses a prefilled reply that ends in white space.
    if let Some(("assistant", blocks)) = joined.last_mut()
        && let Some(Block::Text(text)) = blocks.last_mut()
    {
        text.truncate(text.trim_end().len());
    }
    let messages = joined.into_iter().map(|(role, blocks)| anthropic_message(role, &blocks)).collect();
    let system = match system.as_slice() {
        [] => None,
        [only] => Some(quote(only)),
        several => {
            let blocks: Vec<String> = several.iter().map(|text| text_block(text)).collect();
            Some(format!("[{}]", blocks.join(",")))
        }
    };
    (system, messages)
}

enum Block {
    Text(String),
    Raw(String),
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", quote(text))
}

fn anthropic_message(role: &str, blocks: &[Block]) -> String {
    let content = match blocks {
        [Block::Text(only)] => quote(only),
        several => {
            let raws: Vec<String> = several
                .iter()
                .map(|block| match block {
                    Block::Text(text) => text_block(text),
                    Block::Raw(raw) => raw.clone(),
                })
                .collect();
            format!("[{}]", raws.join(","))
        }
    };
    format!("{{\"role\":\"{role}\",\"content\":{content}}}")
}

fn anthropic_call(call: &Call, losses: &mut Losses) -> String {
    let (id, name) = (quote(&call.id), quote(&tool_name(&call.name)));
    let input = if call.is_free_text {
        format!("{{\"input\":{}}}", quote(&call.arguments))
    } else {
        let arguments = arguments_text(call);
        losses.wrapped_arguments += usize::from(!json::is_object(arguments));
        crate::anthropic::input(arguments)
    };
    format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}}}")
}

fn anthropic_result(answer: &Answer, losses: &mut Losses) -> String {
    let id = quote(&answer.id);
    let content = if answer.picture_count() == 0 {
        let text = answer.text();
        quote(if answer.is_error { failure_text(&text) } else { &text })
    } else {
        let blocks: Vec<String> = answer
            .content
            .iter()
            .filter_map(|piece| match piece {
                Piece::Text(text) => Some(text_block(text)),
                Piece::Picture(address) => Some(match anthropic_picture(address, losses) {
                    Block::Text(text) => text_block(&text),
                    Block::Raw(raw) => raw,
                }),
                Piece::Call(_) | Piece::Answer(_) => None,
            })
            .collect();
        format!("[{}]", blocks.join(","))
    };
    let error = if answer.is_error { ",\"is_error\":true" } else { "" };
    format!("{{\"type\":\"tool_result\",\"tool_use_id\":{id},\"content\":{content}{error}}}")
}

fn anthropic_picture(address: &str, losses: &mut Losses) -> Block {
    let source = match address.strip_prefix("data:") {
        Some(data) => data.split_once(";base64,").filter(|(_, data)| !data.is_empty()).map(|(media_type, data)| {
            let (media_type, data) = (quote(media_type), quote(data));
            format!("{{\"type\":\"base64\",\"media_type\":{media_type},\"data\":{data}}}")
        }),
        None => Some(format!("{{\"type\":\"url\",\"url\":{}}}", quote(address))),
    };
    match source {
        Some(source) => Block::Raw(format!("{{\"type\":\"image\",\"source\":{source}}}")),
        None => {
            losses.pictures += 1;
            Block::Text(IMAGE_TEXT.to_owned())
        }
    }
}

// ---- Responses

/// Writes items; the instructions of a dialect that has them beside its messages stay beside them.
pub(super) fn responses(turns: Vec<Turn>, from: Dialect, losses: &mut Losses) -> (Option<String>, Vec<String>) {
    let mut items = Vec::with_capacity(turns.len());
    let mut instructions = None;
    for (at, turn) in turns.iter().enumerate() {
        if at == 0 && turn.role == Role::System && from == Dialect::Anthropic {
            instructions = Some(quote(&joined_text(&turn.pieces)));
            continue;
        }
        items.extend(orphans(&turn.pieces).map(|answer| responses_output(answer, losses)));
        let (role, text_type, has_pictures) = match turn.role {
            Role::System => ("system", "input_text", false),
            Role::Developer => ("developer", "input_text", false),
            Role::Assistant => ("assistant", "output_text", false),
            _ => ("user", "input_text", true),
        };
        if !has_pictures {
            losses.pictures += count_pictures(&turn.pieces);
        }
        let text = |words: &str| format!("{{\"type\":\"{text_type}\",\"text\":{}}}", quote(words));
        let content = parts(&turn.pieces, text, |address| has_pictures.then(|| input_image(address)));
        if !content.is_empty() {
            let content = content.join(",");
            items.push(format!("{{\"type\":\"message\",\"role\":\"{role}\",\"content\":[{content}]}}"));
        }
        items.extend(calls(&turn.pieces).map(responses_call));
        items.extend(turn.answers.iter().map(|answer| responses_output(answer, losses)));
    }
    (instructions, items)
}

fn input_image(address: &str) -> String {
    format!("{{\"type\":\"input_image\",\"image_url\":{}}}", quote(address))
}

fn responses_call(call: &Call) -> String {
    let (kind, key, value) = match call.is_free_text {
        true => ("custom_tool_call", "input", call.arguments.as_str()),
        false => ("function_call", "arguments", arguments_text(call)),
    };
    let (id, name) = (quote(&call.id), quote(&tool_name(&call.name)));
    format!("{{\"type\":\"{kind}\",\"call_id\":{id},\"name\":{name},\"{key}\":{}}}", quote(value))
}

fn responses_output(answer: &Answer, losses: &mut Losses) -> String {
    losses.failures += usize::from(answer.is_error);
    let kind = if answer.is_free_text { "custom_tool_call_output" } else { "function_call_output" };
    let output = if answer.picture_count() == 0 {
        quote(&answer.text())
    } else {
        let text = |words: &str| format!("{{\"type\":\"input_text\",\"text\":{}}}", quote(words));
        format!("[{}]", parts(&answer.content, text, |address| Some(input_image(address))).join(","))
    };
    format!("{{\"type\":\"{kind}\",\"call_id\":{},\"output\":{output}}}", quote(&answer.id))
}
