//! Rules of Chat Completions messages.

use super::{Report, is_plain_name, is_set, short, short_value, text_of, type_name};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The assistant turn whose calls may be answered now.
#[derive(Default)]
struct OpenTurn<'a> {
    /// Index of the assistant message; none where no calls are open.
    at: Option<usize>,
    calls: Vec<&'a str>,
    pending: HashSet<&'a str>,
    answered: HashSet<&'a str>,
}

impl OpenTurn<'_> {
    /// Ends the turn: calls without an answer are refused.
    fn close(&mut self, next: usize, report: &mut Report) {
        let turn = std::mem::take(self);
        let Some(at) = turn.at else { return };
        for id in turn.calls.into_iter().filter(|id| !turn.answered.contains(id)) {
            let detail = format!("tool_call {} has no tool message before message {next}", short(id));
            report.error(at, "missing_result", detail);
        }
    }
}

pub(super) fn check(messages: &[Value], report: &mut Report) {
    let mut open = OpenTurn::default();
    // Name of the legacy function_call that waits for its function message.
    let mut legacy: Option<&Value> = None;
    let mut seen_ids: HashMap<&str, usize> = HashMap::new();
    let mut has_begun = false;

    for (i, message) in messages.iter().enumerate() {
        let Some(message) = message.as_object() else {
            report.error(i, "not_an_object", type_name(Some(message)));
            continue;
        };
        let role = match message.get("role").and_then(Value::as_str) {
            Some(role @ ("system" | "developer" | "user" | "assistant" | "tool" | "function")) => role,
            _ => {
                report.error(i, "bad_role", short_value(message.get("role")));
                open.close(i, report);
                continue;
            }
        };
        check_content(message, role, i, report);
        if role == "tool" {
            check_answer(message, i, &mut open, report);
            continue;
        }
        open.close(i, report);
        if role == "function" {
            check_function(message, legacy.take(), i, report);
            continue;
        }
        if let Some(name) = legacy.take() {
            let detail = format!("function_call {} has no function message", short_value(Some(name)));
            report.warn(i, "missing_result", detail);
        }
        if matches!(role, "system" | "developer") {
            if has_begun {
                report.warn(i, "late_system", format!("{role} message after the conversation began"));
            }
        } else {
            if !has_begun && role == "assistant" {
                report.warn(i, "assistant_first", "first turn is the assistant's");
            }
            has_begun = true;
        }
        if role != "assistant" {
            if is_set(message.get("tool_calls")) {
                report.error(i, "calls_in_role", format!("tool_calls in role {role}"));
            }
            continue;
        }
        check_calls(message, i, &mut open, &mut seen_ids, report);
        if let Some(Value::Object(call)) = message.get("function_call") {
            // A call without a name still waits for an answer; a null never equals the answer's name.
            legacy = Some(call.get("name").filter(|name| is_set(Some(name))).unwrap_or(&Value::Null));
        }
    }
    open.close(messages.len(), report);
}

fn check_answer<'a>(message: &'a Map<String, Value>, i: usize, open: &mut OpenTurn<'a>, report: &mut Report) {
    let Some(id) = text_of(message.get("tool_call_id")) else {
        report.error(i, "tool_without_id", "");
        return;
    };
    let Some(at) = open.at else {
        let detail = format!("tool_call_id {}: no assistant tool_calls right before", short(id));
        report.error(i, "orphan_result", detail);
        return;
    };
    if !open.pending.contains(id) {
        let detail = format!("tool_call_id {} is not among the calls of message {at}", short(id));
        report.error(i, "orphan_result", detail);
    } else if !open.answered.insert(id) {
        report.warn(i, "duplicate_result", format!("tool_call_id {} answered twice", short(id)));
    }
}

fn check_function(message: &Map<String, Value>, legacy: Option<&Value>, i: usize, report: &mut Report) {
    let name = message.get("name");
    if !is_set(name) {
        report.error(i, "function_without_name", "");
    }
    match legacy {
        None => report.error(i, "orphan_result", "role function without a function_call right before"),
        Some(called) if called.is_null() || name != Some(called) => {
            let detail = format!("{} answers {}", short_value(name), short_value(Some(called)));
            report.warn(i, "function_name_mismatch", detail);
        }
        Some(_) => {}
    }
}

fn check_calls<'a>(
    message: &'a Map<String, Value>,
    i: usize,
    open: &mut OpenTurn<'a>,
    seen_ids: &mut HashMap<&'a str, usize>,
    report: &mut Report,
) {
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => return,
        Some(Value::Array(calls)) => calls,
        Some(other) => {
            report.error(i, "bad_tool_calls", type_name(Some(other)));
            return;
        }
    };
    if calls.is_empty() {
        report.error(i, "empty_tool_calls", "an empty tool_calls array");
    }
    let mut local: HashSet<&str> = HashSet::new();
    for (k, call) in calls.iter().enumerate() {
        let Some(call) = call.as_object() else {
            report.error(i, "bad_tool_calls", format!("call {k} is {}", type_name(Some(call))));
            continue;
        };
        let Some(id) = text_of(call.get("id")) else {
            report.error(i, "call_without_id", format!("call {k}"));
            continue;
        };
        if !local.insert(id) {
            report.error(i, "duplicate_id", format!("{} twice in one message", short(id)));
        } else if let Some(before) = seen_ids.get(id) {
            report.warn(i, "duplicate_id", format!("{} also used in message {before}", short(id)));
        }
        seen_ids.entry(id).or_insert(i);
        check_call_body(call, k, i, report);
        if open.pending.insert(id) {
            open.calls.push(id);
        }
    }
    if !open.pending.is_empty() {
        open.at = Some(i);
    }
}

fn check_call_body(call: &Map<String, Value>, k: usize, i: usize, report: &mut Report) {
    let kind = call.get("type").filter(|kind| !kind.is_null());
    let name = if kind.and_then(Value::as_str) == Some("custom") {
        call.get("custom").and_then(|body| body.get("name"))
    } else {
        match kind {
            Some(Value::String(kind)) if kind == "function" => {}
            Some(other) => report.error(i, "call_type", format!("call {k}: {}", short_value(Some(other)))),
            None => report.warn(i, "call_type", format!("call {k}: null")),
        }
        let body = call.get("function").and_then(Value::as_object);
        if body.is_none() {
            report.error(i, "bad_tool_calls", format!("call {k}: no function object"));
        }
        match body.and_then(|body| body.get("arguments")) {
            Some(Value::String(arguments)) => {
                if !arguments.is_empty() && !is_json(arguments) {
                    report.warn(i, "arguments_json", format!("call {k}: arguments is not JSON"));
                }
            }
            other => {
                let detail = format!("call {k}: arguments is {}, not a string", type_name(other));
                report.error(i, "arguments_type", detail);
            }
        }
        body.and_then(|body| body.get("name"))
    };
    match text_of(name) {
        None => report.error(i, "call_without_name", format!("call {k}")),
        Some(name) if !is_plain_name(name, "_.-", 64) => {
            report.warn(i, "call_name", format!("call {k}: {}", short(name)));
        }
        Some(_) => {}
    }
}

/// Tells whether a text is JSON; nothing is built, so neither depth nor the size of numbers matters.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn check_content(message: &Map<String, Value>, role: &str, i: usize, report: &mut Report) {
    let has_call = is_set(message.get("tool_calls")) || matches!(message.get("function_call"), Some(Value::Object(_)));
    let parts = match message.get("content") {
        None | Some(Value::Null) => {
            match role {
                "assistant" => {
                    if !has_call && !is_set(message.get("refusal")) && !is_set(message.get("audio")) {
                        report.error(i, "null_content", "assistant without content, tool_calls or refusal");
                    }
                }
                "function" => {}
                _ => report.error(i, "null_content", format!("role {role}")),
            }
            return;
        }
        Some(Value::String(text)) => {
            if text.is_empty() {
                if role == "assistant" && !has_call {
                    report.warn(i, "empty_content", "assistant with an empty string and no call");
                } else if matches!(role, "user" | "system" | "developer") {
                    report.warn(i, "empty_content", format!("role {role}"));
                }
            }
            return;
        }
        Some(Value::Array(parts)) => parts,
        Some(other) => {
            let detail = format!("{} where a string or an array is wanted", type_name(Some(other)));
            report.error(i, "content_type", detail);
            return;
        }
    };
    if parts.is_empty() {
        report.error(i, "empty_content", "empty array");
    }
    for (k, part) in parts.iter().enumerate() {
        let Some(kind) = part.as_object().and_then(|part| part.get("type")) else {
            report.error(i, "bad_part", format!("part {k} has no type"));
            continue;
        };
        match kind.as_str() {
            Some("text") => {
                if !part["text"].is_string() {
                    report.error(i, "bad_part", format!("part {k}: text missing"));
                }
            }
            Some("image_url") => {
                if text_of(part["image_url"].get("url")).is_none() {
                    report.error(i, "bad_part", format!("part {k}: image_url.url missing"));
                }
                if role != "user" {
                    report.warn(i, "image_in_role", format!("image in role {role}"));
                }
            }
            Some(kind @ ("input_audio" | "file")) => {
                if role != "user" {
                    report.error(i, "bad_part", format!("part {k}: {kind} in role {role}"));
                }
            }
            Some("refusal") => {
                if role != "assistant" {
                    report.error(i, "bad_part", format!("part {k}: refusal in role {role}"));
                }
            }
            Some(kind @ ("tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image")) => {
                report.error(i, "foreign_part", format!("part {k}: {kind} is not a Chat Completions part"));
            }
            _ => report.warn(i, "unknown_part", format!("part {k}: {}", short_value(Some(kind)))),
        }
    }
}
