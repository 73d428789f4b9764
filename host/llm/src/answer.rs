//! Reads a model's answer and rejects what is no answer.

use crate::endpoint::Api;
use crate::failure::{self, Failure, Kind};
use engine_api::{Completion, Usage};
use serde_json::Value;

/// Tags around reasoning that some models write before their answer.
const REASONING_TAGS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>")];

/// What was read from a body, before it is judged.
#[derive(Debug, Default)]
struct Read {
    text: String,
    model: String,
    finish: String,
    usage: Usage,
    has_calls: bool,
    refusal: Option<String>,
    is_cut: bool,
}

/// Reads the body of a successful response.
pub(crate) fn read(api: Api, body: &str) -> Result<Completion, Failure> {
    let trimmed = body.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if trimmed.is_empty() {
        return Err(Failure::new(Kind::Empty, "the body is empty"));
    }
    if failure::is_markup(body) {
        return Err(Failure::new(Kind::Garbage, "a web page came in place of an answer"));
    }
    if ["data:", "event:", "id:", ":"].iter().any(|start| trimmed.starts_with(start)) {
        return Err(Failure::new(Kind::Garbage, "an event stream came although none was asked for"));
    }
    let value: Value = serde_json::from_str(trimmed).map_err(|error| {
        // The position tells a cut body from a wrong one; the words of the body are left out.
        Failure::new(Kind::NotJson, &format!("the body cannot be read at byte {}", error.column()))
    })?;
    if let Some(failure) = hidden_error(&value) {
        return Err(failure);
    }
    let read = match api {
        Api::Chat => chat(&value),
        Api::Messages => messages(&value),
        Api::Responses => responses(&value),
    };
    judge(read.ok_or_else(|| Failure::new(Kind::Garbage, "the answer has another form than this API's"))?)
}

/// Finds an error that came with a status of success, as routers send it.
fn hidden_error(value: &Value) -> Option<Failure> {
    let choice = value.get("choices").and_then(|choices| choices.get(0));
    let holder = [Some(value), choice].into_iter().flatten().find(|holder| {
        holder
            .get("error")
            .is_some_and(|error| error.is_string() || error.as_object().is_some_and(|map| !map.is_empty()))
    })?;
    let code = holder.get("error")?.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = code.filter(|code| (300..600).contains(code)).unwrap_or(500);
    let mut failure = failure::of_status(status, None, &holder.to_string());
    if code.is_none() {
        // The status was our guess.
        failure.status = None;
    }
    Some(failure)
}

fn judge(read: Read) -> Result<Completion, Failure> {
    if let Some(refusal) = read.refusal {
        return Err(Failure::new(Kind::Refusal, &refusal));
    }
    let text = without_reasoning(&read.text);
    if read.is_cut {
        return Err(Failure::new(Kind::Truncated, &format!("it ended with {:?}", read.finish)));
    }
    if text.is_empty() {
        let kind = if read.has_calls { Kind::ToolOnly } else { Kind::Empty };
        return Err(Failure::new(kind, ""));
    }
    let mut completion = Completion::default();
    completion.text = host_redact::redact(text);
    completion.model = read.model;
    completion.finish_reason = read.finish;
    completion.usage = read.usage;
    Ok(completion)
}

fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Joins the texts of content parts, or takes the content where it is a text.
fn joined(content: &Value, kinds: &[&str]) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts =
                parts.iter().filter(|part| kinds.contains(&text_at(part, "type"))).map(|part| text_at(part, "text"));
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn chat(value: &Value) -> Option<Read> {
    let choices = value.get("choices")?.as_array()?;
    let Some(choice) = choices.first() else { return Some(Read { usage: chat_usage(value), ..Read::default() }) };
    let message = choice.get("message")?;
    let finish = text_at(choice, "finish_reason");
    let refusal = message.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty());
    let is_filtered = finish == "content_filter";
    let calls = message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
    Some(Read {
        text: joined(message.get("content").unwrap_or(&Value::Null), &["text", "output_text"]),
        model: text_at(value, "model").to_owned(),
        finish: finish.to_owned(),
        usage: chat_usage(value),
        has_calls: calls || message.get("function_call").is_some_and(Value::is_object),
        refusal: refusal
            .map(str::to_owned)
            .or_else(|| is_filtered.then(|| "a content filter ended the answer".to_owned())),
        is_cut: finish == "length",
    })
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or(0)
}

fn chat_usage(value: &Value) -> Usage {
    let Some(usage) = value.get("usage") else { return Usage::default() };
    let detail = |group: &str, key: &str| number(usage.get(group).and_then(|group| group.get(key)));
    let mut out = Usage::default();
    out.prompt_tokens = number(usage.get("prompt_tokens"));
    out.completion_tokens = number(usage.get("completion_tokens"));
    out.total_tokens = out.prompt_tokens.saturating_add(out.completion_tokens);
    out.cache_read_tokens = detail("prompt_tokens_details", "cached_tokens");
    out.cache_write_tokens = detail("prompt_tokens_details", "cache_write_tokens");
    out.reasoning_tokens = detail("completion_tokens_details", "reasoning_tokens");
    out
}

fn messages(value: &Value) -> Option<Read> {
    let content = value.get("content")?;
    let blocks = content.as_array()?;
    let finish = text_at(value, "stop_reason");
    let mut out = Usage::default();
    if let Some(usage) = value.get("usage") {
        out.cache_read_tokens = number(usage.get("cache_read_input_tokens"));
        out.cache_write_tokens = number(usage.get("cache_creation_input_tokens"));
        // Here the cached tokens are not part of the input tokens.
        let cached = out.cache_read_tokens.saturating_add(out.cache_write_tokens);
        out.prompt_tokens = number(usage.get("input_tokens")).saturating_add(cached);
        out.completion_tokens = number(usage.get("output_tokens"));
        out.total_tokens = out.prompt_tokens.saturating_add(out.completion_tokens);
    }
    Some(Read {
        text: joined(content, &["text"]),
        model: text_at(value, "model").to_owned(),
        finish: finish.to_owned(),
        usage: out,
        has_calls: blocks.iter().any(|block| text_at(block, "type").ends_with("tool_use")),
        refusal: (finish == "refusal").then(|| "the model refused".to_owned()),
        is_cut: matches!(finish, "max_tokens" | "model_context_window_exceeded"),
    })
}

fn responses(value: &Value) -> Option<Read> {
    let items = value.get("output")?.as_array()?;
    let reason = value.get("incomplete_details").map(|details| text_at(details, "reason")).unwrap_or_default();
    let status = text_at(value, "status");
    let mut texts = Vec::new();
    let mut refusal = (reason == "content_filter").then(|| "a content filter ended the answer".to_owned());
    for item in items.iter().filter(|item| text_at(item, "type") == "message") {
        let content = item.get("content").unwrap_or(&Value::Null);
        texts.push(joined(content, &["output_text", "text"]));
        for part in content.as_array().into_iter().flatten().filter(|part| text_at(part, "type") == "refusal") {
            refusal = Some(text_at(part, "refusal").to_owned());
        }
    }
    texts.retain(|text| !text.is_empty());
    let mut out = Usage::default();
    if let Some(usage) = value.get("usage") {
        let detail = |group: &str, key: &str| number(usage.get(group).and_then(|group| group.get(key)));
        out.prompt_tokens = number(usage.get("input_tokens"));
        out.completion_tokens = number(usage.get("output_tokens"));
        out.total_tokens = out.prompt_tokens.saturating_add(out.completion_tokens);
        out.cache_read_tokens = detail("input_tokens_details", "cached_tokens");
        out.cache_write_tokens = detail("input_tokens_details", "cache_write_tokens");
        out.reasoning_tokens = detail("output_tokens_details", "reasoning_tokens");
    }
    let is_cut = status == "incomplete" && reason != "content_filter";
    Some(Read {
        text: texts.join("\n"),
        model: text_at(value, "model").to_owned(),
        finish: if is_cut { "length".to_owned() } else { "stop".to_owned() },
        usage: out,
        has_calls: items.iter().any(|item| text_at(item, "type").ends_with("_call")),
        refusal,
        is_cut,
    })
}

/// Returns the answer behind visible reasoning; reasoning without an end is all there is.
fn without_reasoning(text: &str) -> &str {
    let text = text.trim();
    for (open, close) in REASONING_TAGS {
        if let Some(inside) = text.strip_prefix(open) {
            return inside.split_once(close).map_or("", |(_, answer)| answer.trim());
        }
    }
    text
}

#[cfg(test)]
#[path = "answer/tests.rs"]
mod tests;
