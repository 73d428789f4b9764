//! Writes the steps of a conversation as Chat Completions messages.

use super::Step;
use super::common::Maker;
use super::json::{Json, object};

pub(super) fn write(maker: &mut Maker<'_>, step: Step) {
    match step {
        Step::Rules => rules(maker),
        Step::User => user(maker),
        Step::Reminder => {
            let text = maker.injected_text();
            let role = if maker.rng.one_in(8) { "developer" } else { "user" };
            maker.out.push(object! { "role": role, "content": text });
        }
        Step::Answer => answer(maker),
        Step::Tools(_) if maker.rng.one_in(16) => function(maker),
        Step::Tools(count) => tools(maker, count),
        Step::Server => search_model_answer(maker),
    }
}

fn rules(maker: &mut Maker<'_>) {
    let role = maker.rng.pick(&["system", "system", "developer"]);
    let content = text_content(maker, 12);
    let mut message = object! { "role": role, "content": content };
    if maker.rng.one_in(10) {
        message.push("name", "example_user");
    }
    maker.add_odd_fields(&mut message);
    maker.out.push(message);
}

/// Returns a text as a string or as parts; empty once in `empty_in` times.
fn text_content(maker: &mut Maker<'_>, empty_in: usize) -> Json {
    if maker.rng.one_in(empty_in) {
        return Json::from("");
    }
    if !maker.rng.one_in(5) {
        return maker.text().into();
    }
    let mut parts = Vec::new();
    for _ in 0..maker.rng.between(1, 4) {
        let text = if maker.rng.one_in(12) { String::new() } else { maker.text() };
        let mut part = object! { "type": "text", "text": text };
        maker.add_cache_mark(&mut part);
        parts.push(part);
    }
    parts.into()
}

fn user(maker: &mut Maker<'_>) {
    let content: Json = match maker.rng.below(10) {
        0 => {
            let mut parts = Vec::new();
            for _ in 0..maker.rng.between(1, 4) {
                let part = user_part(maker);
                parts.push(part);
            }
            parts.into()
        }
        1 => text_content(maker, 6),
        _ => maker.user_text().into(),
    };
    let mut message = object! { "role": "user", "content": content };
    if maker.rng.one_in(12) {
        message.push("name", "dev3");
    }
    maker.add_odd_fields(&mut message);
    maker.out.push(message);
}

fn user_part(maker: &mut Maker<'_>) -> Json {
    match maker.rng.below(8) {
        0 => object! { "type": "input_audio", "input_audio": object! { "data": "UklGRg==", "format": "wav" } },
        1 => object! { "type": "file", "file": object! { "file_id": "file-abc123" } },
        2 => object! { "type": "hologram", "hologram": object! { "text": "not a text part" } },
        3..=5 => {
            let url = maker.picture_url();
            object! { "type": "image_url", "image_url": object! { "url": url, "detail": "high" } }
        }
        _ => {
            let text = maker.user_text();
            object! { "type": "text", "text": text }
        }
    }
}

fn answer(maker: &mut Maker<'_>) {
    let mut message = match maker.rng.below(20) {
        0 => object! { "role": "assistant", "content": Json::null(), "refusal": "I can't help with that." },
        1 => object! { "role": "assistant", "content": Json::null(), "audio": object! { "id": "audio_1" } },
        2 => object! {
            "role": "assistant",
            "content": vec![object! { "type": "refusal", "refusal": "No." }],
        },
        _ => {
            let content = text_content(maker, 20);
            object! { "role": "assistant", "content": content }
        }
    };
    add_reasoning(maker, &mut message);
    match maker.rng.below(12) {
        0 => message.push("tool_calls", Json::null()),
        1 => message.push("function_call", Json::null()),
        2 => message.push("annotations", Vec::new()),
        3 if message.get("refusal").is_none() => message.push("refusal", Json::null()),
        _ => {}
    }
    maker.add_odd_fields(&mut message);
    maker.out.push(message);
}

fn add_reasoning(maker: &mut Maker<'_>, message: &mut Json) {
    if !maker.rng.one_in(4) {
        return;
    }
    let text = maker.text();
    match maker.rng.below(4) {
        0 => message.push("reasoning", text),
        1 => {
            let detail = object! { "type": "reasoning.encrypted", "data": "gAAAAABo", "format": "openai-responses-v1" };
            message.push("reasoning_details", vec![detail]);
        }
        _ => message.push("reasoning_content", text),
    }
}

fn tools(maker: &mut Maker<'_>, wanted: usize) {
    let count = maker.group_size(wanted, 1, 1);
    maker.begin_group();
    let ids: Vec<String> = (0..count).map(|_| maker.call_id()).collect();
    let calls: Vec<Json> = ids.iter().map(|id| call(maker, id)).collect();
    let mut message = object! { "role": "assistant" };
    match maker.rng.below(8) {
        0 => {}
        1 => message.push("content", ""),
        2..=4 => {
            let content = text_content(maker, 10);
            message.push("content", content);
        }
        _ => message.push("content", Json::null()),
    }
    add_reasoning(maker, &mut message);
    message.push("tool_calls", calls);
    maker.add_odd_fields(&mut message);
    maker.out.push(message);

    let mut order = ids;
    if maker.rng.one_in(3) {
        maker.rng.shuffle(&mut order);
    }
    if maker.rng.one_in(40) {
        // The same answer twice, as clients that retry send it; hosts may refuse it, the first-party API does not.
        let again = maker.rng.pick_ref(&order).clone();
        order.push(again);
    }
    for id in order {
        let content: Json = match maker.rng.below(12) {
            0 => "".into(),
            1 => {
                let text = maker.text();
                vec![object! { "type": "text", "text": text }].into()
            }
            _ => maker.text().into(),
        };
        let mut message = object! { "role": "tool", "tool_call_id": id, "content": content };
        if maker.rng.one_in(4) {
            let name = maker.tool_name();
            message.push("name", name);
        }
        maker.add_odd_fields(&mut message);
        maker.out.push(message);
    }
}

fn call(maker: &mut Maker<'_>, id: &str) -> Json {
    let name = maker.tool_name();
    if maker.rng.one_in(16) {
        let input = maker.text();
        return object! { "id": id, "type": "custom", "custom": object! { "name": name, "input": input } };
    }
    let arguments = maker.arguments(true);
    let name = if maker.rng.one_in(20) { "ns/tool with space" } else { name };
    let mut call = object! { "id": id };
    if !maker.rng.one_in(10) {
        call.push("type", "function");
    }
    call.push("function", object! { "name": name, "arguments": arguments });
    if maker.rng.one_in(6) {
        let index = maker.rng.below(12);
        call.push("index", index);
    }
    call
}

/// Writes a call in the form that came before `tool_calls`.
fn function(maker: &mut Maker<'_>) {
    let name = maker.tool_name();
    let arguments = maker.arguments(true);
    maker.out.push(object! {
        "role": "assistant",
        "content": Json::null(),
        "function_call": object! { "name": name, "arguments": arguments },
    });
    let name = match maker.rng.below(12) {
        // Without its answer, or with another's: first-party APIs let both pass.
        0 => return,
        1 => "other_name",
        _ => name,
    };
    let content = if maker.rng.one_in(8) { Json::null() } else { maker.text().into() };
    maker.out.push(object! { "role": "function", "name": name, "content": content });
}

/// Writes an answer of a model that searches by itself: its sources are annotations, not calls.
fn search_model_answer(maker: &mut Maker<'_>) {
    let text = maker.text();
    let citation = object! { "url": "https://example.com/", "title": "Example", "start_index": 0usize };
    maker.out.push(object! {
        "role": "assistant",
        "content": text,
        "annotations": vec![object! { "type": "url_citation", "url_citation": citation }],
    });
}
