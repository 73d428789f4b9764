//! The bodies of requests in the three wire formats.

use crate::endpoint::{Api, Target, Vendor};
use serde_json::{Map, Value, json};

/// What an answer of Anthropic may have at least; it must be stated there, and reasoning counts too.
const ANSWER_TOKENS: u64 = 16_384;
/// What it may have at most: Anthropic's own clients refuse longer answers that are not streamed.
const ANSWER_TOKENS_MAX: u64 = 21_333;
/// Names that turn reasoning off, which Anthropic does where nothing is said.
const EFFORT_OFF: [&str; 3] = ["none", "off", "disabled"];

/// A question to a model, without secrets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) system: &'a str,
    pub(crate) prompt: &'a str,
    pub(crate) tokens_hint: u64,
    pub(crate) schema: Option<&'a Value>,
}

/// Writes the body of a request.
///
/// No limit is put on the answer where the API can do without one: a model that reasons would spend it before it writes.
pub(crate) fn body(target: &Target, question: &Question<'_>) -> String {
    let mut body = match target.api {
        Api::Chat => chat(target, question),
        Api::Messages => messages(target, question),
        Api::Responses => responses(target, question),
    };
    for (key, value) in &target.extra_body {
        // The answer is read as one JSON value, so what is set here stands.
        if key != "stream" && key != "stream_options" {
            merge(&mut body, key, value);
        }
    }
    Value::Object(body).to_string()
}

/// Adds a member; objects are merged one level deep, so that `reasoning: {exclude: true}` keeps the effort.
fn merge(body: &mut Map<String, Value>, key: &str, value: &Value) {
    match (body.get_mut(key), value) {
        (Some(Value::Object(there)), Value::Object(more)) => there.extend(more.clone()),
        _ => drop(body.insert(key.to_owned(), value.clone())),
    }
}

fn chat(target: &Target, question: &Question<'_>) -> Map<String, Value> {
    let mut messages = Vec::new();
    if !question.system.is_empty() {
        messages.push(json!({"role": "system", "content": question.system}));
    }
    messages.push(json!({"role": "user", "content": question.prompt}));
    let mut body = object(json!({"model": target.model, "messages": messages, "stream": false}));
    if !target.reasoning_effort.is_empty() {
        match target.vendor {
            Vendor::OpenRouter | Vendor::Nous => {
                body.insert("reasoning".to_owned(), json!({"effort": target.reasoning_effort}));
            }
            Vendor::OpenAi | Vendor::Anthropic | Vendor::Custom => {
                body.insert("reasoning_effort".to_owned(), json!(target.reasoning_effort));
            }
        }
    }
    if let Some(schema) = question.schema {
        let schema = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
        body.insert("response_format".to_owned(), schema);
    }
    body
}

fn messages(target: &Target, question: &Question<'_>) -> Map<String, Value> {
    let wanted = question.tokens_hint.saturating_mul(2).clamp(ANSWER_TOKENS, ANSWER_TOKENS_MAX);
    let limit = if target.output_max > 0 { wanted.min(target.output_max) } else { wanted };
    let mut body = object(json!({"model": target.model, "max_tokens": limit}));
    if !question.system.is_empty() {
        body.insert("system".to_owned(), json!(question.system));
    }
    body.insert("messages".to_owned(), json!([{"role": "user", "content": question.prompt}]));
    let mut output = Map::new();
    if !target.reasoning_effort.is_empty() && !EFFORT_OFF.contains(&target.reasoning_effort.as_str()) {
        output.insert("effort".to_owned(), json!(target.reasoning_effort));
    }
    if let Some(schema) = question.schema {
        output.insert("format".to_owned(), json!({"type": "json_schema", "schema": schema}));
    }
    if !output.is_empty() {
        body.insert("output_config".to_owned(), Value::Object(output));
    }
    body
}

fn responses(target: &Target, question: &Question<'_>) -> Map<String, Value> {
    let mut body = object(json!({"model": target.model, "stream": false, "store": false}));
    if !question.system.is_empty() {
        body.insert("instructions".to_owned(), json!(question.system));
    }
    let content = json!([{"type": "input_text", "text": question.prompt}]);
    body.insert("input".to_owned(), json!([{"type": "message", "role": "user", "content": content}]));
    if !target.reasoning_effort.is_empty() {
        body.insert("reasoning".to_owned(), json!({"effort": target.reasoning_effort}));
    }
    if let Some(schema) = question.schema {
        let format = json!({"type": "json_schema", "name": "answer", "schema": schema});
        body.insert("text".to_owned(), json!({"format": format}));
    }
    body
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
