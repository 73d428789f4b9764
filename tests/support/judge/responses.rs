//! Rules of the Responses API's input items.

use super::{Report, is_set, short, short_value, text_of, type_name};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Items that call a tool, and the item that answers each.
const CALL_ITEMS: [(&str, &str); 7] = [
    ("function_call", "function_call_output"),
    ("custom_tool_call", "custom_tool_call_output"),
    ("local_shell_call", "local_shell_call_output"),
    ("computer_call", "computer_call_output"),
    ("shell_call", "shell_call_output"),
    ("apply_patch_call", "apply_patch_call_output"),
    ("tool_search_call", "tool_search_output"),
];

/// Items that need no partner; `message` and `reasoning` have rules of their own.
const SELF_CONTAINED_ITEMS: [&str; 14] = [
    "web_search_call",
    "file_search_call",
    "image_generation_call",
    "code_interpreter_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "item_reference",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "additional_tools",
    "ghost_snapshot",
];

#[derive(Default)]
struct Pairs<'a> {
    /// Calls in the order in which they first came: item type, call id, index.
    calls: Vec<(&'static str, &'a str, usize)>,
    /// First position of each call and each answer, by item type and call id.
    first: HashMap<(&'static str, &'a str), usize>,
}

pub(super) fn check(items: &[Value], report: &mut Report) {
    let mut pairs = Pairs::default();
    let mut item_ids: HashMap<&str, usize> = HashMap::new();
    for (i, item) in items.iter().enumerate() {
        let Some(fields) = item.as_object() else {
            report.error(i, "not_an_object", type_name(Some(item)));
            continue;
        };
        if let Some(id) = text_of(fields.get("id")) {
            if let Some(before) = item_ids.get(id) {
                report.error(i, "duplicate_id", format!("item id {} also at {before}", short(id)));
            }
            item_ids.entry(id).or_insert(i);
        }
        // An item with a role and without a type is a message; one whose type is null is nothing.
        let kind = match fields.get("type") {
            Some(Value::Null) => None,
            None => fields.contains_key("role").then_some("message"),
            Some(Value::String(kind)) => Some(kind.as_str()),
            Some(other) => {
                report.warn(i, "unknown_item", short_value(Some(other)));
                continue;
            }
        };
        let Some(kind) = kind else {
            report.error(i, "not_an_item", short_value(Some(item)));
            continue;
        };
        if let Some(&(call, _)) = CALL_ITEMS.iter().find(|(call, _)| *call == kind) {
            check_call(call, fields, i, &mut pairs, report);
        } else if let Some(&(call, answer)) = CALL_ITEMS.iter().find(|(_, answer)| *answer == kind) {
            check_answer(call, answer, fields, i, &mut pairs, report);
        } else if kind == "message" {
            check_message(fields, i, report);
        } else if kind == "reasoning" {
            if items.get(i + 1).is_none_or(Value::is_null) {
                report.warn(i, "reasoning_last", "a reasoning item with nothing after it");
            }
        } else if !SELF_CONTAINED_ITEMS.contains(&kind) {
            report.warn(i, "unknown_item", short(kind));
        }
    }
    for &(kind, id, i) in &pairs.calls {
        let answer = CALL_ITEMS.iter().find(|(call, _)| *call == kind).map_or("", |(_, answer)| answer);
        match pairs.first.get(&(answer, id)) {
            None => report.error(i, "missing_result", format!("{kind} {} has no output", short(id))),
            Some(&at) if at < i => report.error(i, "result_before_call", short(id)),
            Some(_) => {}
        }
    }
}

/// Tells whether an item was run by the provider, which then gives it no call id.
fn is_by_server(fields: &Map<String, Value>) -> bool {
    fields.get("execution").and_then(Value::as_str) == Some("server")
}

fn check_call<'a>(
    kind: &'static str,
    fields: &'a Map<String, Value>,
    i: usize,
    pairs: &mut Pairs<'a>,
    report: &mut Report,
) {
    let Some(id) = text_of(fields.get("call_id")) else {
        if !(kind == "tool_search_call" && is_by_server(fields)) {
            report.error(i, "call_without_id", kind);
        }
        return;
    };
    match pairs.first.get(&(kind, id)) {
        Some(before) => report.error(i, "duplicate_id", format!("call_id {} also at {before}", short(id))),
        None => {
            pairs.first.insert((kind, id), i);
            pairs.calls.push((kind, id, i));
        }
    }
    if kind == "function_call" {
        if !is_set(fields.get("name")) {
            report.error(i, "call_without_name", "");
        }
        if !matches!(fields.get("arguments"), Some(Value::String(_))) {
            report.error(i, "arguments_type", type_name(fields.get("arguments")));
        }
    }
}

fn check_answer<'a>(
    call: &'static str,
    kind: &'static str,
    fields: &'a Map<String, Value>,
    i: usize,
    pairs: &mut Pairs<'a>,
    report: &mut Report,
) {
    let Some(id) = text_of(fields.get("call_id")) else {
        if !(kind == "tool_search_output" && is_by_server(fields)) {
            report.error(i, "result_without_id", kind);
        }
        return;
    };
    if let Some(before) = pairs.first.get(&(kind, id)) {
        report.error(i, "duplicate_result", format!("call_id {} also at {before}", short(id)));
    }
    pairs.first.entry((kind, id)).or_insert(i);
    if !pairs.first.contains_key(&(call, id)) {
        report.error(i, "orphan_result", format!("{kind} {}: no earlier call", short(id)));
    }
    if kind == "function_call_output" && fields.get("output").is_none_or(Value::is_null) {
        report.error(i, "null_content", "output missing");
    }
}

fn check_message(fields: &Map<String, Value>, i: usize, report: &mut Report) {
    let role = fields.get("role");
    if !matches!(role.and_then(Value::as_str), Some("user" | "assistant" | "system" | "developer")) {
        report.error(i, "bad_role", short_value(role));
    }
    let is_assistant = role.and_then(Value::as_str) == Some("assistant");
    match fields.get("content") {
        None | Some(Value::Null) => report.error(i, "empty_content", format!("role {}", short_value(role))),
        Some(Value::Array(parts)) if parts.is_empty() => {
            report.error(i, "empty_content", format!("role {}", short_value(role)));
        }
        Some(Value::Array(parts)) => {
            for (k, part) in parts.iter().enumerate() {
                let kind = part.get("type");
                let is_fine = match kind.and_then(Value::as_str) {
                    Some("text") => true,
                    Some("output_text" | "refusal") => is_assistant,
                    Some("input_text" | "input_image" | "input_file" | "input_audio") => !is_assistant,
                    _ => false,
                };
                if !is_fine {
                    let detail = format!("part {k}: {} in role {}", short_value(kind), short_value(role));
                    report.error(i, "block_in_role", detail);
                }
            }
        }
        // A string is content; other types are for the API's schema to refuse.
        Some(_) => {}
    }
}
