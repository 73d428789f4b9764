//! What a real provider would refuse in a request, and what a test must never send.

use super::{Api, Seen};
use crate::judge::{self, Dialect};
use serde_json::Value;

/// Returns the API that a path belongs to.
pub(super) fn api(path: &str) -> Option<Api> {
    [("/chat/completions", Api::Chat), ("/messages", Api::Messages), ("/responses", Api::Responses)]
        .into_iter()
        .find(|(end, _)| path.ends_with(end))
        .map(|(_, api)| api)
}

/// Which key a request must bring.
pub(super) struct Key<'a> {
    /// This one; none if there must be none.
    pub(super) wanted: Option<&'a str>,
    /// Or any at all.
    pub(super) is_any: bool,
}

/// Lists what is wrong with a request.
pub(super) fn check(seen: &Seen, method: &str, key: &Key<'_>, forbidden: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut fault = |is_fault: bool, what: &str| {
        if is_fault {
            problems.push(format!("{}: {what}", seen.path));
        }
    };
    fault(method != "POST", "the method is not POST");
    let content_type = seen.header("content-type").unwrap_or_default();
    fault(!content_type.starts_with("application/json"), "the content type is not JSON");
    let (header, wanted) = match seen.api {
        Api::Messages => ("x-api-key", key.wanted.map(str::to_owned)),
        Api::Chat | Api::Responses => ("authorization", key.wanted.map(|key| format!("Bearer {key}"))),
    };
    let other = if header == "authorization" { "x-api-key" } else { "authorization" };
    if !key.is_any {
        fault(seen.header(header) != wanted.as_deref(), "the key is missing, wrong, or not wanted");
        fault(seen.header(other).is_some(), "a key in a header of another API");
    }
    for text in forbidden {
        fault(seen.body.contains(text.as_str()), "the body holds a text that must not leave");
        fault(
            seen.headers.iter().any(|(_, value)| value.contains(text.as_str())),
            "a header holds a text that must not leave",
        );
    }

    let body = &seen.json;
    fault(!body.is_object(), "the body is no JSON object");
    fault(seen.model().is_empty(), "no model is named");
    let is_stream = body.get("stream") == Some(&Value::Bool(true));
    fault(body.get("stream").is_some_and(|stream| !stream.is_boolean()), "stream is no boolean");
    let is_set = |key: &str| body.get(key).is_some_and(|value| !value.is_null());
    fault(is_set("stream_options") && !is_stream, "stream_options without stream");
    let has_tools = body.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
    // Codex says how tools are chosen where it offers none.
    fault(is_set("tool_choice") && !has_tools && !key.is_any, "tool_choice without tools");
    let limits: &[&str] = match seen.api {
        Api::Chat => &["max_tokens", "max_completion_tokens"],
        Api::Messages => &["max_tokens"],
        Api::Responses => &["max_output_tokens"],
    };
    for key in limits {
        fault(is_set(key) && body.get(*key).and_then(Value::as_u64).is_none_or(|n| n == 0), "a limit that is no count");
    }
    if seen.api == Api::Messages {
        fault(!is_set("max_tokens"), "max_tokens is missing");
        fault(seen.header("anthropic-version").is_none(), "anthropic-version is missing");
    }
    let (dialect, key) = match seen.api {
        Api::Chat => (Dialect::OpenAi, "messages"),
        Api::Messages => (Dialect::Anthropic, "messages"),
        Api::Responses => (Dialect::Responses, "input"),
    };
    match body.get(key) {
        Some(Value::Array(messages)) => {
            let findings = judge::check(messages, dialect, body.get("system"));
            problems
                .extend(findings.iter().filter(|finding| finding.is_error()).map(|f| format!("{}: {f}", seen.path)));
        }
        Some(Value::String(text)) if seen.api == Api::Responses && !text.is_empty() => {}
        _ => problems.push(format!("{}: {key} is no list", seen.path)),
    }
    problems
}

/// Returns the text of the newest message.
pub(super) fn newest_text(seen: &Seen) -> String {
    let key = if seen.api == Api::Responses { "input" } else { "messages" };
    let content = match seen.json.get(key) {
        Some(Value::Array(messages)) => messages.last().and_then(|message| message.get("content")),
        other => other,
    };
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
