//! Breaks lists the way broken clients, recorders and crashes break them.

use super::Shape;
use super::json::{Fields, Json, object};
use super::rng::Rng;
use crate::judge::Dialect;

/// Fields that pair a call with its answer.
const ID_FIELDS: [&str; 4] = ["id", "tool_call_id", "tool_use_id", "call_id"];

/// Breaks a list in one to four ways.
pub(super) fn spoil(rng: &mut Rng, dialect: Dialect, shape: &Shape, messages: &mut Vec<Json>) {
    let count = match rng.below(4) {
        0..=1 => 1,
        2 => 2,
        _ => 4,
    };
    for _ in 0..count {
        if rng.one_in(3) {
            match dialect {
                Dialect::OpenAi => spoil_openai(rng, messages),
                Dialect::Anthropic => spoil_anthropic(rng, messages),
                Dialect::Responses => spoil_responses(rng, messages),
            }
        } else {
            spoil_any(rng, dialect, shape, messages);
        }
    }
}

/// Faults of lists of every dialect.
fn spoil_any(rng: &mut Rng, dialect: Dialect, shape: &Shape, messages: &mut Vec<Json>) {
    let at = rng.below(messages.len());
    let has_some = !messages.is_empty();
    match rng.below(16) {
        // Lost, doubled and moved messages.
        0..=1 if has_some => {
            messages.remove(at);
        }
        2 if has_some => messages.insert(at, messages[at].clone()),
        3 if has_some => {
            let message = messages.remove(at);
            messages.insert(rng.below(messages.len() + 1), message);
        }
        4 if messages.len() > 1 => {
            let at = rng.below(messages.len() - 1);
            messages.swap(at, at + 1);
        }
        5 => messages.truncate(at + 1),
        6 => {
            messages.drain(..at);
        }
        7 if rng.one_in(4) => rng.shuffle(messages),
        8 if rng.one_in(8) => messages.clear(),
        // Whole messages of the wrong kind.
        9 => insert(rng, messages, |rng| {
            let raw =
                rng.pick(&["null", "7", "\"text\"", "[]", "true", "{}", "[{\"role\":\"user\",\"content\":\"hi\"}]"]);
            Json::Raw(raw.to_owned())
        }),
        10 => insert(rng, messages, |rng| {
            let role = rng.pick(&["exit", "model", "", "User", "tool", "system", "assistant ", "human"]);
            object! { "role": role, "content": "x" }
        }),
        11 if has_some => {
            let role = rng.pick(&["user", "assistant", "system", "tool"]);
            let field = rng.pick(&["role", "type", "content"]);
            messages[at].push(field, role);
        }
        12 => {
            let others: Vec<Dialect> = Dialect::ALL.into_iter().filter(|other| *other != dialect).collect();
            let other = rng.pick(&others);
            let mut foreign = super::make(rng, other, &Shape { max_messages: 4, ..*shape });
            insert(rng, messages, |rng| foreign.swap_remove(rng.below(foreign.len())));
        }
        13 => copy_id(rng, messages),
        // Single fields.
        14 => with_field(rng, messages, |_, fields, k| {
            fields.remove(k);
        }),
        _ => with_field(rng, messages, |rng, fields, k| {
            let raw =
                rng.pick(&["null", "[]", "{}", "0", "7.5", "true", "\"\"", "\" \"", "\"x\"", "[null]", "[{}]", "[[]]"]);
            fields[k].1 = Json::Raw(raw.to_owned());
        }),
    }
}

fn spoil_openai(rng: &mut Rng, messages: &mut Vec<Json>) {
    match rng.below(8) {
        0 => {
            let call =
                object! { "id": "c", "type": "function", "function": object! { "name": "f", "arguments": "{}" } };
            insert(rng, messages, |_| object! { "role": "user", "content": "x", "tool_calls": vec![call] });
        }
        1 => insert(rng, messages, |rng| match rng.below(3) {
            0 => object! { "role": "function", "content": "r" },
            1 => object! { "role": "function", "name": "f", "content": "r" },
            _ => object! { "role": "tool", "name": "f", "content": "r" },
        }),
        2 => {
            // Someone speaks between a call and its answer.
            let answer = messages.iter().position(|message| message.text("role") == Some("tool"));
            let text = object! { "role": "user", "content": "stop" };
            messages.insert(answer.unwrap_or(messages.len()), text);
        }
        3 => edit_list(rng, messages, "tool_calls", |rng, calls| {
            let again = rng.pick_ref(calls).clone();
            calls.push(again);
        }),
        4 => edit_list(rng, messages, "tool_calls", |rng, calls| {
            let at = rng.below(calls.len());
            calls[at].set("type", "mcp");
        }),
        5 => edit_list(rng, messages, "tool_calls", |_, calls| calls.clear()),
        6 => edit_list(rng, messages, "tool_calls", |rng, calls| {
            let at = rng.below(calls.len());
            calls[at].set("id", "");
        }),
        _ => edit_list(rng, messages, "tool_calls", |rng, calls| {
            let at = rng.below(calls.len());
            if let Some(body) = calls[at].get_mut("function") {
                body.set("arguments", object! { "x": 1usize });
            }
        }),
    }
}

fn spoil_anthropic(rng: &mut Rng, messages: &mut Vec<Json>) {
    let thought = object! { "type": "thinking", "thinking": "hm", "signature": "s" };
    match rng.below(10) {
        0 => {
            let mark = object! { "type": "ephemeral" };
            let block = object! { "type": "text", "text": "x", "cache_control": mark };
            insert(rng, messages, |_| object! { "role": "user", "content": vec![block; 5] });
        }
        1 => {
            let marked = thought.with("cache_control", object! { "type": "ephemeral" });
            let text = object! { "type": "text", "text": "x" };
            insert(rng, messages, |_| object! { "role": "assistant", "content": vec![marked, text] });
        }
        2 => messages.push(object! { "role": "assistant", "content": "ends in white space \n" }),
        3 => edit_list(rng, messages, "content", |rng, blocks| {
            let blank = rng.pick(&["", " ", "\n\t", "\u{3000}"]);
            blocks.insert(rng.below(blocks.len() + 1), object! { "type": "text", "text": blank });
        }),
        4 => edit_list(rng, messages, "content", |_, blocks| {
            blocks.insert(0, object! { "type": "text", "text": "before the answers" });
        }),
        5 => edit_list(rng, messages, "content", |_, blocks| blocks.push(thought)),
        6 => edit_list(rng, messages, "content", |rng, blocks| {
            let at = rng.below(blocks.len());
            blocks[at].set("is_error", true);
            blocks[at].set("content", Vec::new());
        }),
        7 => insert(rng, messages, |_| object! { "role": "user", "content": " \n" }),
        8 => edit_list(rng, messages, "content", |rng, blocks| {
            let again = rng.pick_ref(blocks).clone();
            blocks.push(again);
        }),
        _ => edit_list(rng, messages, "content", |rng, blocks| {
            let source = rng.pick(&["{}", "{\"type\":\"base64\",\"data\":\"\"}", "{\"type\":\"url\"}"]);
            blocks.push(object! { "type": "image", "source": Json::Raw(source.to_owned()) });
            blocks.push(object! { "type": "tool_use", "id": "not an id", "name": "not a name", "input": "{}" });
        }),
    }
}

fn spoil_responses(rng: &mut Rng, messages: &mut Vec<Json>) {
    match rng.below(5) {
        0 => {
            // The answer before its call.
            let call = object! { "type": "function_call", "call_id": "early", "name": "f", "arguments": "{}" };
            let output = object! { "type": "function_call_output", "call_id": "early", "output": "r" };
            messages.insert(rng.below(messages.len() + 1), output);
            messages.push(call);
        }
        1 => {
            // One id for two kinds of call: each pair is whole, and yet the id is no longer enough to tell them apart.
            for kind in ["function_call", "custom_tool_call"] {
                messages.push(object! { "type": kind, "call_id": "both", "name": "f", "arguments": "{}", "input": "" });
            }
            for kind in ["custom_tool_call_output", "function_call_output"] {
                messages.push(object! { "type": kind, "call_id": "both", "output": "r" });
            }
        }
        2 => insert(rng, messages, |rng| {
            let kind = rng.pick(&["function_call_output", "custom_tool_call_output", "tool_search_output"]);
            object! { "type": kind, "call_id": "nobody", "output": Json::null() }
        }),
        3 => insert(rng, messages, |_| object! { "type": Json::null(), "role": "user", "content": "hi" }),
        _ => insert(rng, messages, |_| object! { "type": "message", "role": "assistant", "content": Vec::new() }),
    }
}

fn insert(rng: &mut Rng, messages: &mut Vec<Json>, make: impl FnOnce(&mut Rng) -> Json) {
    let at = rng.below(messages.len() + 1);
    let message = make(rng);
    messages.insert(at, message);
}

/// Edits a list that is a field of some message, where there is one with something in it.
fn edit_list(rng: &mut Rng, messages: &mut [Json], field: &str, edit: impl FnOnce(&mut Rng, &mut Vec<Json>)) {
    let mut lists: Vec<&mut Vec<Json>> =
        messages.iter_mut().filter_map(|message| message.items_mut(field)).filter(|items| !items.is_empty()).collect();
    if lists.is_empty() {
        return;
    }
    let at = rng.below(lists.len());
    edit(rng, lists.swap_remove(at));
}

/// Edits one field of one object anywhere in one message.
fn with_field(rng: &mut Rng, messages: &mut [Json], edit: impl Fn(&mut Rng, &mut Fields, usize)) {
    if messages.is_empty() {
        return;
    }
    let at = rng.below(messages.len());
    let message = &mut messages[at];
    let mut object_count = 0;
    message.objects_mut(&mut |_| object_count += 1);
    // Fields of the message itself matter most, so they are chosen as often as all those below.
    let mut left = if rng.one_in(2) { 0 } else { rng.below(object_count) };
    message.objects_mut(&mut |fields| {
        if left == 0 && !fields.is_empty() {
            let k = rng.below(fields.len());
            edit(rng, fields, k);
        }
        // Below zero it never comes to zero again, whatever the edit did to the number of objects.
        left = left.wrapping_sub(1);
    });
}

/// Gives one pairing field the value of another: used-again ids, answers without calls, answers given twice.
fn copy_id(rng: &mut Rng, messages: &mut [Json]) {
    let mut ids = Vec::new();
    for message in messages.iter_mut() {
        message.objects_mut(&mut |fields| {
            for (key, value) in fields.iter() {
                if ID_FIELDS.contains(&key.as_str()) {
                    ids.push(value.clone());
                }
            }
        });
    }
    if ids.is_empty() {
        return;
    }
    let mut left = rng.below(ids.len());
    let value = rng.pick_ref(&ids).clone();
    for message in messages.iter_mut() {
        message.objects_mut(&mut |fields| {
            for (_, old) in fields.iter_mut().filter(|(key, _)| ID_FIELDS.contains(&key.as_str())) {
                if left == 0 {
                    *old = value.clone();
                }
                left = left.wrapping_sub(1);
            }
        });
    }
}
