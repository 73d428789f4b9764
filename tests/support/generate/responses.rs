//! Writes the steps of a conversation as Responses API input items.

use super::Step;
use super::common::Maker;
use super::json::{Json, object};

pub(super) fn write(maker: &mut Maker<'_>, step: Step) {
    if !maker.later.is_empty() && maker.rng.one_in(2) {
        flush(maker);
    }
    match step {
        Step::Rules => {
            let role = maker.rng.pick(&["developer", "developer", "system"]);
            let text = maker.text();
            push_message(maker, role, text);
        }
        Step::User if maker.rng.one_in(8) => user_with_parts(maker),
        Step::User => {
            let text = if maker.rng.one_in(16) { String::new() } else { maker.user_text() };
            push_message(maker, "user", text);
        }
        Step::Reminder => {
            let text = maker.injected_text();
            push_message(maker, "user", text);
        }
        Step::Answer => answer(maker),
        Step::Tools(count) => tools(maker, count),
        Step::Server => server(maker),
    }
}

/// Writes the answers that were put off.
pub(super) fn finish(maker: &mut Maker<'_>) {
    flush(maker);
}

fn flush(maker: &mut Maker<'_>) {
    let later = std::mem::take(&mut maker.later);
    maker.out.extend(later);
}

fn push_message(maker: &mut Maker<'_>, role: &str, text: String) {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    let content: Json = match maker.rng.below(6) {
        0..=1 => text.into(),
        2 => vec![object! { "type": "text", "text": text }].into(),
        _ => {
            let mut part = object! { "type": kind, "text": text };
            if role == "assistant" {
                part.push("annotations", Vec::new());
            }
            vec![part].into()
        }
    };
    let mut item = object! {};
    // A message may do without its type.
    if !maker.rng.one_in(4) {
        item.push("type", "message");
    }
    item.push("role", role);
    if role == "assistant" && maker.rng.one_in(2) {
        let id = maker.item_id("msg");
        item.push("id", id);
        item.push("status", "completed");
    }
    item.push("content", content);
    if maker.rng.one_in(8) {
        item.push("phase", "commentary");
    }
    maker.add_odd_fields(&mut item);
    maker.out.push(item);
}

fn user_with_parts(maker: &mut Maker<'_>) {
    let mut parts = Vec::new();
    for _ in 0..maker.rng.between(1, 4) {
        let part = match maker.rng.below(6) {
            0..=1 => {
                let url = maker.picture_url();
                object! { "type": "input_image", "image_url": url, "detail": "auto" }
            }
            2 => object! { "type": "input_file", "file_id": "file-abc123" },
            _ => {
                let text = maker.user_text();
                object! { "type": "input_text", "text": text }
            }
        };
        parts.push(part);
    }
    maker.out.push(object! { "type": "message", "role": "user", "content": parts });
}

fn reasoning(maker: &mut Maker<'_>) {
    if !maker.rng.one_in(3) {
        return;
    }
    let mut item = object! { "type": "reasoning" };
    if maker.rng.one_in(2) {
        let id = maker.item_id("rs");
        item.push("id", id);
    }
    let summary = if maker.rng.one_in(2) {
        let text = maker.text();
        vec![object! { "type": "summary_text", "text": text }]
    } else {
        Vec::new()
    };
    item.push("summary", summary);
    match maker.rng.below(4) {
        0 => item.push("content", Json::null()),
        1 => item.push("encrypted_content", "REDACTED"),
        2 => item.push("encrypted_content", "gAAAAABo".repeat(40)),
        _ => {}
    }
    maker.out.push(item);
}

fn answer(maker: &mut Maker<'_>) {
    reasoning(maker);
    if maker.rng.one_in(16) {
        let part = object! { "type": "refusal", "refusal": "I can't help with that." };
        maker.out.push(object! { "type": "message", "role": "assistant", "content": vec![part] });
        return;
    }
    let text = maker.text();
    push_message(maker, "assistant", text);
}

fn tools(maker: &mut Maker<'_>, wanted: usize) {
    reasoning(maker);
    let count = maker.group_size(wanted, 0, 2);
    let mut calls = Vec::new();
    let mut outputs = Vec::new();
    for _ in 0..count {
        let id = maker.call_id();
        let (call, output) = pair(maker, &id);
        calls.push(call);
        outputs.push(output);
    }
    match maker.rng.below(6) {
        0 => {
            for (call, output) in calls.into_iter().zip(outputs) {
                maker.out.extend([call, output]);
            }
        }
        1 => {
            maker.rng.shuffle(&mut outputs);
            maker.out.extend(calls);
            maker.out.extend(outputs);
        }
        2 => {
            // One tool takes its time: its answer comes after other items.
            let late = outputs.pop();
            maker.out.extend(calls);
            maker.out.extend(outputs);
            maker.later.extend(late);
        }
        _ => {
            maker.out.extend(calls);
            maker.out.extend(outputs);
        }
    }
}

fn output_content(maker: &mut Maker<'_>) -> Json {
    match maker.rng.below(12) {
        0 => "".into(),
        1 => Vec::new().into(),
        2 => {
            let text = maker.text();
            let url = maker.picture_url();
            vec![object! { "type": "input_text", "text": text }, object! { "type": "input_image", "image_url": url }]
                .into()
        }
        3 => "{\"output\":\"ok\\n\",\"metadata\":{\"exit_code\":0,\"duration_seconds\":0.1}}".into(),
        _ => maker.text().into(),
    }
}

fn pair(maker: &mut Maker<'_>, id: &str) -> (Json, Json) {
    let (mut call, mut output) = match maker.rng.below(24) {
        0..=2 => {
            let input = maker.text();
            let content = output_content(maker);
            (
                object! { "type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": input },
                object! { "type": "custom_tool_call_output", "call_id": id, "output": content },
            )
        }
        3 => {
            let action = object! { "type": "exec", "command": vec![Json::from("ls")], "env": object! {} };
            let text = maker.text();
            (
                object! { "type": "local_shell_call", "call_id": id, "action": action, "status": "completed" },
                object! { "type": "local_shell_call_output", "call_id": id, "output": text },
            )
        }
        4 => {
            let url = maker.picture_url();
            let shot = object! { "type": "computer_screenshot", "image_url": url };
            (
                object! { "type": "computer_call", "call_id": id, "action": object! { "type": "screenshot" } },
                object! { "type": "computer_call_output", "call_id": id, "output": shot },
            )
        }
        5 => {
            let text = maker.text();
            let action = object! { "commands": vec![Json::from("ls -l")] };
            (
                object! { "type": "shell_call", "call_id": id, "action": action },
                object! { "type": "shell_call_output", "call_id": id, "output": vec![object! { "stdout": text }] },
            )
        }
        6 => (
            object! { "type": "apply_patch_call", "call_id": id, "operation": object! { "type": "delete_file" } },
            object! { "type": "apply_patch_call_output", "call_id": id, "status": "failed" },
        ),
        7 => (
            object! { "type": "tool_search_call", "call_id": id, "execution": "client", "arguments": object! {} },
            object! { "type": "tool_search_output", "call_id": id, "tools": Vec::new() },
        ),
        _ => {
            let name = maker.tool_name();
            let arguments = maker.arguments(true);
            let content = output_content(maker);
            (
                object! { "type": "function_call", "name": name, "arguments": arguments, "call_id": id },
                object! { "type": "function_call_output", "call_id": id, "output": content },
            )
        }
    };
    if maker.rng.one_in(2) {
        let id = maker.item_id("fc");
        call.push("id", id);
        call.push("status", "completed");
    }
    maker.add_odd_fields(&mut call);
    maker.add_odd_fields(&mut output);
    (call, output)
}

fn server(maker: &mut Maker<'_>) {
    let id = maker.item_id("ws");
    let item = match maker.rng.below(10) {
        0..=2 => object! {
            "type": "web_search_call",
            "id": id,
            "status": "completed",
            "action": object! { "type": "search", "query": "how" },
        },
        3 => object! { "type": "code_interpreter_call", "id": id, "code": "print(1)", "outputs": Json::null() },
        4 => object! { "type": "image_generation_call", "id": id, "result": "iVBORw0KGgo=" },
        5 => {
            object! { "type": "mcp_call", "id": id, "name": "f", "arguments": "{}", "output": "r", "server_label": "s" }
        }
        6 => object! { "type": "item_reference", "id": id },
        7 => object! { "type": "compaction", "encrypted_content": "gAAAAABo" },
        8 => {
            object! { "type": "tool_search_call", "execution": "server", "call_id": Json::null(), "status": "completed" }
        }
        _ => object! { "type": "hologram_call", "id": id, "call_id": "a", "output": "r" },
    };
    maker.out.push(item);
}
