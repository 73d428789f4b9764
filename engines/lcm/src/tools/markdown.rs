//! Answers as lossless-claw gives them: Markdown for the model, and a last line of details.

use engine_api::json::{Value, json};
use engine_kit::text::{clip, one_line};
use std::fmt::Write;

/// Characters of a snippet; lossless-claw has the same.
const SNIPPET_CHARS: usize = 200;
/// Levels of a value that are written as lists.
const DEPTH_MAX: usize = 5;
/// Keys whose lists are text already and not repeated in the details.
const TEXTS: [&str; 12] = [
    "results",
    "groups",
    "messages",
    "expanded",
    "expansions",
    "evidence",
    "rows",
    "matches",
    "content",
    "answer",
    "checks",
    "depths",
];

/// Writes an answer of a tool.
pub(super) fn written(tool: &str, value: &Value) -> String {
    let mut out = String::new();
    match tool {
        "lcm_grep" => grep(&mut out, value),
        "lcm_describe" if value.get("node_id").is_some() => describe(&mut out, value),
        "lcm_expand" => expand(&mut out, value),
        "lcm_expand_query" => {
            let answer = value.get("answer").and_then(Value::as_str);
            out.push_str(answer.unwrap_or("No model answered."));
            for piece in list(value, "evidence") {
                let _ = write!(out, "\n\n[{}]\n{}", text(piece, "id"), text(piece, "text"));
            }
        }
        _ => tree(&mut out, value, 0),
    }
    let mut details = json!({});
    for (key, member) in value.as_object().into_iter().flatten() {
        if !TEXTS.contains(&key.as_str()) {
            super::args::add(&mut details, key, member.clone());
        }
    }
    match tool {
        "lcm_grep" => {
            let count = |kind: &str| results(value).iter().filter(|hit| text(hit, "type") == kind).count();
            super::args::add(&mut details, "messageCount", count("message"));
            super::args::add(&mut details, "summaryCount", count("summary"));
            super::args::add(&mut details, "totalMatches", value.get("total_results").cloned().unwrap_or_default());
        }
        "lcm_expand_query" => {
            super::args::add(&mut details, "citedIds", value.get("cited_ids").cloned().unwrap_or(json!([])));
            super::args::add(&mut details, "expandedSummaryCount", list(value, "node_ids").len());
            super::args::add(&mut details, "truncated", value.get("context_truncated").cloned().unwrap_or_default());
        }
        "lcm_expand" => {
            let count = list(value, "expanded").len().max(list(value, "expansions").len());
            super::args::add(&mut details, "expansionCount", count);
        }
        _ => {}
    }
    let _ = write!(out, "\n\ndetails: {details}");
    out
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn results(value: &Value) -> Vec<&Value> {
    let grouped = list(value, "groups").iter().flat_map(|group| list(group, "results"));
    list(value, "results").iter().chain(grouped).collect()
}

fn grep(out: &mut String, value: &Value) {
    let _ = writeln!(out, "## Search: {} ({} matches)", text(value, "query"), plain(value.get("total_matches")));
    for hit in results(value) {
        let snippet = one_line(text(hit, "snippet"), SNIPPET_CHARS);
        let session = clip(text(hit, "session_id"), 80);
        let _ = match hit.get("store_id") {
            Some(id) => write!(
                out,
                "\n- [conv={session} msg#{id}] ({}, {}): {snippet}",
                text(hit, "role"),
                plain(hit.get("timestamp"))
            ),
            None => {
                let kind = if text(hit, "depth") == "d0" { "leaf" } else { "condensed" };
                write!(out, "\n- [conv={session} sum_{}] ({kind}): {snippet}", plain(hit.get("node_id")))
            }
        };
    }
    for key in ["note", "mode_note", "next_cursor"] {
        if let Some(said) = value.get(key).and_then(Value::as_str) {
            let _ = write!(out, "\n\n{key}: {said}");
        }
    }
    let nearest: Vec<&str> = list(value, "nearest").iter().filter_map(Value::as_str).collect();
    if !nearest.is_empty() {
        let _ = write!(out, "\n\nnearest: {}", nearest.join(", "));
    }
}

fn describe(out: &mut String, value: &Value) {
    let _ = writeln!(out, "LCM_SUMMARY sum_{}", plain(value.get("node_id")));
    let _ = writeln!(
        out,
        "meta conv={} kind={} depth={} tok={} messages={} range={}-{}",
        clip(text(value, "session_id"), 80),
        text(value, "kind"),
        plain(value.get("depth")),
        plain(value.get("token_count")),
        plain(value.get("messages")),
        plain(value.get("first_message")),
        plain(value.get("last_message")),
    );
    let children: Vec<String> = list(value, "children").iter().map(|child| format!("sum_{child}")).collect();
    let _ = write!(out, "children {}\n\n{}", children.join(" "), text(value, "content"));
}

fn expand(out: &mut String, value: &Value) {
    let mut entry = |entry: &Value| {
        let name = match entry.get("store_id") {
            Some(id) => format!("msg#{id} ({})", text(entry, "role")),
            None => format!("sum_{}", plain(entry.get("node_id"))),
        };
        let body = if entry.get("content").is_some() { text(entry, "content") } else { text(entry, "summary") };
        let _ = write!(out, "### {name}\n{body}\n\n");
    };
    if value.get("content").is_some() {
        entry(value);
    }
    list(value, "expanded").iter().for_each(&mut entry);
    list(value, "expansions").iter().flat_map(|one| list(one, "expanded")).for_each(&mut entry);
    if value.get("rows").is_some() || value.get("evidence").is_some() {
        tree(out, value, 0);
    }
}

/// Any value as nested lists.
fn tree(out: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let is_leaf = |value: &Value| depth + 1 >= DEPTH_MAX || !(value.is_array() || value.is_object());
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if is_leaf(member) {
                    let _ = write!(out, "\n{indent}- {key}: {}", plain(Some(member)));
                } else {
                    let _ = write!(out, "\n{indent}- {key}:");
                    tree(out, member, depth + 1);
                }
            }
        }
        Value::Array(members) => {
            for member in members {
                if is_leaf(member) {
                    let _ = write!(out, "\n{indent}- {}", plain(Some(member)));
                } else {
                    tree(out, member, depth);
                }
            }
        }
        other => out.push_str(&plain(Some(other))),
    }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
