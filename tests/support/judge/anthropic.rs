//! Rules of Messages API messages.

use super::{Report, is_plain_name, is_set, is_space, short, short_value, text_of, type_name};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Blocks that only an assistant message may hold.
const ASSISTANT_BLOCKS: [&str; 14] = [
    "tool_use",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "fallback",
    "compaction",
];
/// Blocks that only a user message may hold.
const USER_BLOCKS: [&str; 5] = ["image", "document", "tool_result", "search_result", "tool_reference"];
/// Blocks that either may hold.
const SHARED_BLOCKS: [&str; 2] = ["text", "container_upload"];
/// Parts of the OpenAI dialects: no role may hold them here.
const FOREIGN_BLOCKS: [&str; 3] = ["image_url", "input_text", "output_text"];
/// Most cache marks that a request may carry.
const CACHE_MARKS_MAX: usize = 4;

/// A content block that has a type. A string as content counts as one block of text.
enum Block<'a> {
    Text(&'a str),
    Object { kind: &'a str, fields: &'a Map<String, Value> },
}

impl<'a> Block<'a> {
    fn kind(&self) -> &'a str {
        match self {
            Block::Text(_) => "text",
            Block::Object { kind, .. } => kind,
        }
    }
    fn get(&self, field: &str) -> Option<&'a Value> {
        match self {
            Block::Text(_) => None,
            Block::Object { fields, .. } => fields.get(field),
        }
    }
    fn text(&self) -> Option<&'a str> {
        match self {
            Block::Text(text) => Some(text),
            Block::Object { fields, .. } => fields.get("text").and_then(Value::as_str),
        }
    }
    /// Returns an id in a form that can be compared, also where it is missing or not a string.
    fn id_key(&self, field: &str) -> String {
        self.get(field).unwrap_or(&Value::Null).to_string()
    }
}

/// Neighbouring messages of one role, which the API joins.
struct Turn<'a> {
    role: &'a str,
    blocks: Vec<(usize, Block<'a>)>,
}

#[derive(Default)]
struct Seen<'a> {
    uses: HashMap<&'a str, usize>,
    results: HashMap<&'a str, usize>,
    cache_marks: usize,
}

pub(super) fn check(messages: &[Value], system: Option<&Value>, report: &mut Report) {
    let mut seen = Seen::default();
    check_system(system, &mut seen, report);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let Some(message) = message.as_object() else {
            report.error(i, "not_an_object", type_name(Some(message)));
            continue;
        };
        let Some(role @ ("user" | "assistant")) = message.get("role").and_then(Value::as_str) else {
            report.error(i, "bad_role", short_value(message.get("role")));
            continue;
        };
        let is_last = i + 1 == messages.len();
        let blocks = blocks_of(message, role, is_last, i, report);
        if turns.is_empty() && role != "user" {
            report.error(i, "first_not_user", "the first message must be the user's");
        }
        let is_joined = turns.last().is_some_and(|turn| turn.role == role);
        if is_joined {
            let detail = format!("two {role} messages in a row (joined into one turn by the API)");
            report.warn(i, "same_role", detail);
        }
        for (k, block) in blocks.iter().enumerate() {
            let is_final_text = role == "assistant" && is_last && k + 1 == blocks.len();
            check_block(block, role, is_final_text, k, i, &mut seen, report);
        }
        if role == "assistant" && matches!(blocks.last().map(Block::kind), Some("thinking" | "redacted_thinking")) {
            report.error(i, "thinking_last", "the final block of an assistant message is thinking");
        }
        let blocks = blocks.into_iter().map(|block| (i, block));
        match turns.last_mut() {
            Some(turn) if is_joined => turn.blocks.extend(blocks),
            _ => turns.push(Turn { role, blocks: blocks.collect() }),
        }
    }
    if seen.cache_marks > CACHE_MARKS_MAX {
        let detail = format!("{} cache_control marks, {CACHE_MARKS_MAX} at most", seen.cache_marks);
        report.list_error("cache_control", detail);
    }
    check_pairs(&turns, report);
}

fn check_system(system: Option<&Value>, seen: &mut Seen<'_>, report: &mut Report) {
    match system {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(Value::Array(blocks)) => {
            for (k, block) in blocks.iter().enumerate() {
                if block.get("type").and_then(Value::as_str) != Some("text") || !is_set(block.get("text")) {
                    report.list_error("system_block", format!("block {k}"));
                }
                seen.cache_marks += usize::from(is_set(block.get("cache_control")));
            }
        }
        Some(other) => report.list_error("system_type", type_name(Some(other))),
    }
}

fn blocks_of<'a>(
    message: &'a Map<String, Value>,
    role: &str,
    is_last: bool,
    i: usize,
    report: &mut Report,
) -> Vec<Block<'a>> {
    // The last message of an assistant is a prefill, which may be empty.
    let may_be_empty = is_last && role == "assistant";
    match message.get("content") {
        None | Some(Value::Null) => {
            report.error(i, "null_content", "");
            Vec::new()
        }
        Some(Value::String(text)) if text.chars().all(is_space) => {
            if !(may_be_empty && text.is_empty()) {
                report.error(i, "empty_content", "empty or blank string");
            }
            Vec::new()
        }
        Some(Value::String(text)) => vec![Block::Text(text)],
        Some(Value::Array(blocks)) => {
            if blocks.is_empty() && !may_be_empty {
                report.error(i, "empty_content", "empty array");
            }
            let mut out = Vec::with_capacity(blocks.len());
            for (k, block) in blocks.iter().enumerate() {
                let fields = block.as_object();
                match fields.and_then(|fields| Some((fields, fields.get("type")?.as_str()?))) {
                    Some((fields, kind)) => out.push(Block::Object { kind, fields }),
                    None => report.error(i, "bad_block", format!("block {k} has no type")),
                }
            }
            out
        }
        Some(other) => {
            report.error(i, "content_type", type_name(Some(other)));
            Vec::new()
        }
    }
}

fn check_block<'a>(
    block: &Block<'a>,
    role: &str,
    is_final_text: bool,
    k: usize,
    i: usize,
    seen: &mut Seen<'a>,
    report: &mut Report,
) {
    let kind = block.kind();
    if is_set(block.get("cache_control")) {
        seen.cache_marks += 1;
        if matches!(kind, "thinking" | "redacted_thinking") {
            report.error(i, "cache_on_thinking", format!("block {k}"));
        }
    }
    if kind == "text" {
        match block.text() {
            None => report.error(i, "bad_block", format!("block {k}: text missing")),
            Some("") => report.error(i, "empty_text", format!("block {k}")),
            Some(text) if text.chars().all(is_space) => report.error(i, "blank_text", format!("block {k}")),
            Some(text) if is_final_text && text.ends_with(is_space) => {
                report.error(i, "trailing_space", "the last assistant text ends in white space");
            }
            Some(_) => {}
        }
    }
    let own = if role == "assistant" { ASSISTANT_BLOCKS.as_slice() } else { USER_BLOCKS.as_slice() };
    if !own.contains(&kind) && !SHARED_BLOCKS.contains(&kind) {
        let is_known =
            ASSISTANT_BLOCKS.contains(&kind) || USER_BLOCKS.contains(&kind) || FOREIGN_BLOCKS.contains(&kind);
        if is_known {
            report.error(i, "block_in_role", format!("block {k}: {kind} in role {role}"));
        } else {
            report.warn(i, "unknown_block", format!("block {k}: {}", short(kind)));
        }
    }
    match kind {
        "image" | "document" if !has_source(block.get("source")) => {
            report.error(i, "bad_source", format!("block {k}: {kind} without a usable source"));
        }
        "thinking" => {
            if !matches!(block.get("thinking"), Some(Value::String(_))) {
                report.error(i, "bad_block", format!("block {k}: thinking missing"));
            }
            if !is_set(block.get("signature")) {
                report.error(i, "unsigned_thinking", format!("block {k}"));
            }
        }
        "redacted_thinking" if !is_set(block.get("data")) => {
            report.error(i, "bad_block", format!("block {k}: redacted_thinking without data"));
        }
        "tool_use" => check_use(block, k, i, seen, report),
        "tool_result" => check_result(block, k, i, seen, report),
        _ => {}
    }
}

fn check_use<'a>(block: &Block<'a>, k: usize, i: usize, seen: &mut Seen<'a>, report: &mut Report) {
    match block.get("id").and_then(Value::as_str).filter(|id| is_plain_name(id, "_-", usize::MAX)) {
        None => report.error(i, "bad_id", format!("block {k}: tool_use id {}", short_value(block.get("id")))),
        Some(id) => {
            if let Some(before) = seen.uses.get(id) {
                report.error(i, "duplicate_id", format!("tool_use {} also in message {before}", short(id)));
            }
            seen.uses.entry(id).or_insert(i);
        }
    }
    if !matches!(block.get("input"), Some(Value::Object(_))) {
        report.error(i, "input_type", format!("block {k}: input is {}", type_name(block.get("input"))));
    }
    let name = block.get("name");
    if !name.and_then(Value::as_str).is_some_and(|name| is_plain_name(name, "_-", 128)) {
        report.error(i, "bad_name", format!("block {k}: {}", short_value(name)));
    }
}

fn check_result<'a>(block: &Block<'a>, k: usize, i: usize, seen: &mut Seen<'a>, report: &mut Report) {
    match text_of(block.get("tool_use_id")) {
        None => report.error(i, "result_without_id", format!("block {k}")),
        Some(id) => {
            if let Some(before) = seen.results.get(id) {
                report.error(i, "duplicate_result", format!("{} also answered in message {before}", short(id)));
            }
            seen.results.entry(id).or_insert(i);
        }
    }
    let content = block.get("content").filter(|content| !content.is_null());
    let is_empty = match content {
        None => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(parts)) => parts.is_empty(),
        Some(_) => false,
    };
    if is_empty && is_set(block.get("is_error")) {
        report.error(i, "empty_error_result", format!("block {k}"));
    }
    match content {
        None | Some(Value::String(_)) => {}
        Some(Value::Array(parts)) => {
            for (q, part) in parts.iter().enumerate() {
                check_result_part(part, (k, q), i, report);
            }
        }
        Some(other) => {
            let detail = format!("block {k}: tool_result content is {}", type_name(Some(other)));
            report.error(i, "content_type", detail);
        }
    }
}

fn check_result_part(part: &Value, (k, q): (usize, usize), i: usize, report: &mut Report) {
    match part.get("type").and_then(Value::as_str) {
        Some("text") => match part.get("text") {
            Some(Value::String(text)) if text.is_empty() => {
                report.error(i, "empty_text", format!("block {k}, part {q} of a tool_result"));
            }
            Some(Value::String(_)) => {}
            _ => report.error(i, "bad_result_part", format!("block {k}, part {q}: text missing")),
        },
        Some("image" | "document") => {
            if !has_source(part.get("source")) {
                report.error(i, "bad_source", format!("block {k}, part {q}"));
            }
        }
        Some("search_result" | "tool_reference") => {}
        _ => {
            let detail = format!("block {k}, part {q}: {}", short_value(part.get("type")));
            report.error(i, "bad_result_part", detail);
        }
    }
}

fn has_source(source: Option<&Value>) -> bool {
    let Some(source) = source.and_then(Value::as_object) else { return false };
    match source.get("type").and_then(Value::as_str) {
        Some("base64") => text_of(source.get("data")).is_some() && is_set(source.get("media_type")),
        Some("url") => is_set(source.get("url")),
        Some("file") => is_set(source.get("file_id")),
        Some("text") => matches!(source.get("data"), Some(Value::String(_))),
        Some("content") => is_set(source.get("content")),
        _ => false,
    }
}

/// Checks calls against answers, on turns: an answer stands in the user turn right after its call, before other content.
fn check_pairs(turns: &[Turn<'_>], report: &mut Report) {
    for (t, turn) in turns.iter().enumerate() {
        if turn.role == "assistant" {
            let answers: Option<HashSet<String>> = turns.get(t + 1).map(|next| ids(next, "tool_result", "tool_use_id"));
            for (i, block) in turn.blocks.iter().filter(|(_, block)| block.kind() == "tool_use") {
                let Some(id) = block.get("id").and_then(Value::as_str) else { continue };
                match &answers {
                    None => {
                        let detail = format!("tool_use {} ends the conversation unanswered", short(id));
                        report.error(*i, "missing_result", detail);
                    }
                    Some(answers) if !answers.contains(&block.id_key("id")) => {
                        let detail = format!("tool_use {} is not answered in the next user turn", short(id));
                        report.error(*i, "missing_result", detail);
                    }
                    Some(_) => {}
                }
            }
        } else {
            let before = t.checked_sub(1).and_then(|before| turns.get(before));
            let calls = before.map(|before| ids(before, "tool_use", "id")).unwrap_or_default();
            let mut has_other = false;
            for (i, block) in &turn.blocks {
                if block.kind() != "tool_result" {
                    has_other = true;
                } else if !calls.contains(&block.id_key("tool_use_id")) {
                    let id = short_value(block.get("tool_use_id"));
                    let detail = format!("tool_result {id}: no such tool_use in the turn before");
                    report.error(*i, "orphan_result", detail);
                } else if has_other {
                    let detail = "tool_result after other content of the same user turn";
                    report.error(*i, "result_not_first", detail);
                }
            }
        }
    }
}

fn ids(turn: &Turn<'_>, kind: &str, field: &str) -> HashSet<String> {
    turn.blocks.iter().filter(|(_, block)| block.kind() == kind).map(|(_, block)| block.id_key(field)).collect()
}
