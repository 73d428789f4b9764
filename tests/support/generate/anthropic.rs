//! Writes the steps of a conversation as Messages API messages.

use super::common::Maker;
use super::json::{Json, object};
use super::{Step, text};

pub(super) fn write(maker: &mut Maker<'_>, step: Step) {
    // The list begins with a user's message, whatever the story begins with.
    let step = match step {
        Step::Answer | Step::Server if maker.out.is_empty() => Step::User,
        Step::Tools(_) if maker.out.is_empty() => {
            user(maker);
            step
        }
        _ => step,
    };
    match step {
        Step::Rules | Step::Reminder => {
            let text = maker.injected_text();
            let content = if maker.rng.one_in(2) { Json::from(text) } else { vec![text_block(maker, text)].into() };
            maker.out.push(object! { "role": "user", "content": content });
        }
        Step::User => user(maker),
        Step::Answer => answer(maker),
        Step::Tools(count) => tools(maker, count),
        Step::Server => server(maker),
    }
}

/// Ends the list as the API wants it: the last text of the model must not end in white space.
pub(super) fn finish(maker: &mut Maker<'_>) {
    let Some(last) = maker.out.last_mut().filter(|last| last.text("role") == Some("assistant")) else { return };
    if maker.rng.one_in(16) {
        // A prefill may be empty, nowhere else may content be.
        last.set("content", if maker.rng.one_in(2) { Json::from("") } else { Vec::new().into() });
        return;
    }
    let trimmed = |value: &Json| match value {
        Json::Text(text) => Json::from(text::trim_end(text)),
        other => other.clone(),
    };
    match last.get_mut("content") {
        Some(Json::List(blocks)) => {
            if let Some(text) = blocks.last_mut().and_then(|block| block.get_mut("text")) {
                *text = trimmed(text);
            }
        }
        Some(content) => *content = trimmed(content),
        None => {}
    }
}

fn text_block(maker: &mut Maker<'_>, text: String) -> Json {
    let mut block = object! { "type": "text", "text": text };
    maker.add_cache_mark(&mut block);
    block
}

fn user(maker: &mut Maker<'_>) {
    let content: Json = if maker.rng.one_in(2) {
        maker.user_text().into()
    } else {
        let mut blocks = Vec::new();
        for _ in 0..maker.rng.between(1, 4) {
            let block = user_block(maker);
            blocks.push(block);
        }
        blocks.into()
    };
    let mut message = object! { "role": "user", "content": content };
    maker.add_odd_fields(&mut message);
    maker.out.push(message);
}

fn user_block(maker: &mut Maker<'_>) -> Json {
    match maker.rng.below(12) {
        0..=1 => picture_block(maker),
        2 => {
            let source = match maker.rng.below(4) {
                0 => object! { "type": "text", "media_type": "text/plain", "data": "" },
                1 => object! { "type": "file", "file_id": "file_01" },
                2 => object! { "type": "content", "content": "words" },
                _ => object! { "type": "base64", "media_type": "application/pdf", "data": "JVBERi0=" },
            };
            object! { "type": "document", "source": source, "title": "notes" }
        }
        3 => object! {
            "type": "search_result",
            "source": "https://example.com/",
            "title": "Example",
            "content": vec![object! { "type": "text", "text": "found" }],
        },
        4 => object! { "type": "container_upload", "file_id": "file_01" },
        5 => object! { "type": "hologram", "text": "not a text block", "tool_use_id": "a" },
        _ => {
            let text = maker.user_text();
            text_block(maker, text)
        }
    }
}

fn picture_block(maker: &mut Maker<'_>) -> Json {
    let source = if maker.rng.one_in(4) {
        object! { "type": "url", "url": "https://example.com/shot.png" }
    } else {
        let data = maker.picture();
        object! { "type": "base64", "media_type": "image/png", "data": data }
    };
    let mut block = object! { "type": "image", "source": source };
    maker.add_cache_mark(&mut block);
    block
}

fn thinking(maker: &mut Maker<'_>, blocks: &mut Vec<Json>) {
    if !maker.rng.one_in(3) {
        return;
    }
    for _ in 0..maker.rng.between(1, 2) {
        let block = match maker.rng.below(5) {
            0 => object! { "type": "redacted_thinking", "data": "EmwKAhgBEgy" },
            // Kept sessions often hold a thought without words, with its signature.
            1 => object! { "type": "thinking", "thinking": "", "signature": "ErUBCkYIBRgC" },
            _ => {
                let text = maker.text();
                object! { "type": "thinking", "thinking": text, "signature": "ErUBCkYIBRgC" }
            }
        };
        blocks.push(block);
    }
}

fn answer(maker: &mut Maker<'_>) {
    let content: Json = if maker.rng.one_in(3) {
        maker.text().into()
    } else {
        let mut blocks = Vec::new();
        thinking(maker, &mut blocks);
        for _ in 0..maker.rng.between(1, 3) {
            let text = maker.text();
            let block = text_block(maker, text);
            blocks.push(block);
        }
        blocks.into()
    };
    let mut message = object! { "role": "assistant", "content": content };
    maker.add_odd_fields(&mut message);
    maker.out.push(message);
}

fn tools(maker: &mut Maker<'_>, wanted: usize) {
    // Calls and answers of a group are two messages, however many they are.
    let count = maker.group_size(wanted, 2, 0);
    let ids: Vec<String> = (0..count).map(|_| maker.call_id()).collect();
    let mut blocks = Vec::new();
    thinking(maker, &mut blocks);
    if maker.rng.one_in(2) {
        let text = maker.text();
        let block = text_block(maker, text);
        blocks.push(block);
    }
    for id in &ids {
        let name = maker.tool_name();
        let input = Json::Raw(maker.arguments(false));
        let mut block = object! { "type": "tool_use", "id": id.as_str(), "name": name, "input": input };
        if maker.rng.one_in(10) {
            block.push("caller", object! { "type": "direct" });
        }
        maker.add_cache_mark(&mut block);
        blocks.push(block);
        if maker.rng.one_in(12) {
            blocks.extend(search_blocks(maker));
        }
    }
    push_in_pieces(maker, "assistant", blocks);

    let mut order = ids;
    if maker.rng.one_in(3) {
        maker.rng.shuffle(&mut order);
    }
    let mut blocks: Vec<Json> = order.iter().map(|id| result_block(maker, id)).collect();
    if maker.rng.one_in(5) {
        let text = if maker.rng.one_in(2) { maker.user_text() } else { maker.injected_text() };
        let block = text_block(maker, text);
        blocks.push(block);
        if maker.rng.one_in(4) {
            let block = picture_block(maker);
            blocks.push(block);
        }
    }
    push_in_pieces(maker, "user", blocks);
}

/// Writes blocks as one message, or as several of the same role, as clients keep them that write what comes at once.
fn push_in_pieces(maker: &mut Maker<'_>, role: &str, blocks: Vec<Json>) {
    let is_split = maker.rng.one_in(8);
    let mut piece = Vec::new();
    let last = blocks.len().saturating_sub(1);
    for (k, block) in blocks.into_iter().enumerate() {
        // A message that ends in a thought is refused, so a thought stays with what follows.
        let is_thought = matches!(block.text("type"), Some("thinking" | "redacted_thinking"));
        piece.push(block);
        if k == last || (is_split && !is_thought && maker.rng.one_in(2)) {
            let mut message = object! { "role": role, "content": std::mem::take(&mut piece) };
            maker.add_odd_fields(&mut message);
            maker.out.push(message);
        }
    }
}

fn result_block(maker: &mut Maker<'_>, id: &str) -> Json {
    let mut block = object! { "type": "tool_result", "tool_use_id": id };
    let is_error = maker.rng.one_in(8);
    match maker.rng.below(12) {
        0 if !is_error => {}
        1 if !is_error => block.push("content", Json::null()),
        2 if !is_error => block.push("content", ""),
        3 if !is_error => block.push("content", Vec::new()),
        4..=6 => {
            let mut parts = Vec::new();
            for _ in 0..maker.rng.between(1, 3) {
                let part = match maker.rng.below(6) {
                    0 => {
                        let data = maker.picture();
                        let source = object! { "type": "base64", "media_type": "image/png", "data": data };
                        object! { "type": "image", "source": source }
                    }
                    1 => object! { "type": "tool_reference", "tool_name": "mcp__github__list_issues" },
                    _ => {
                        let text = maker.text();
                        object! { "type": "text", "text": text }
                    }
                };
                parts.push(part);
            }
            block.push("content", parts);
        }
        _ => {
            let text = maker.text();
            block.push("content", text);
        }
    }
    if is_error {
        block.push("is_error", true);
    } else if maker.rng.one_in(4) {
        block.push("is_error", false);
    }
    maker.add_cache_mark(&mut block);
    block
}

/// Returns a search that the provider ran: call and answer in one message, with an id that no user answers.
fn search_blocks(maker: &mut Maker<'_>) -> Vec<Json> {
    let id = maker.item_id("srvtoolu");
    let hit = object! { "type": "web_search_result", "url": "https://example.com/", "encrypted_content": "EpMC" };
    vec![
        object! { "type": "server_tool_use", "id": id.as_str(), "name": "web_search", "input": object! { "query": "q" } },
        object! { "type": "web_search_tool_result", "tool_use_id": id.as_str(), "content": vec![hit] },
    ]
}

fn server(maker: &mut Maker<'_>) {
    let mut blocks = match maker.rng.below(5) {
        0 => vec![object! { "type": "compaction", "content": "What was said before." }],
        1 => {
            let id = maker.item_id("mcptoolu");
            vec![
                object! { "type": "mcp_tool_use", "id": id.as_str(), "name": "f", "server_name": "s", "input": object! {} },
                object! { "type": "mcp_tool_result", "tool_use_id": id.as_str(), "content": Vec::new() },
            ]
        }
        2 => vec![object! { "type": "hologram", "id": "a", "tool_use_id": "a" }],
        _ => search_blocks(maker),
    };
    if maker.rng.one_in(2) {
        let text = maker.text();
        blocks.push(object! { "type": "text", "text": text });
    }
    maker.out.push(object! { "role": "assistant", "content": blocks });
}
