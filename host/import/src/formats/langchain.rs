//! LangChain messages: `dumpd` constructors, `message_to_dict` pairs of type and data, or either in a graph's state.

use super::walk::{Place, arguments, each_value, take_value, top};
use crate::build::{Builder, Call, Mark, Piece};
use crate::input::Input;
use crate::json::get_str;
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::{Map, Value};

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut builder = Builder::new(Dialect::OpenAiChat);
    let mut prompt_tokens = None;
    let mut id = String::new();
    // A message a line: its members come one by one.
    let mut loose = Map::new();
    let mut add = |line: u64, value: &Value, problems: &mut Problems| {
        prompt_tokens = message(&mut builder, line, value, problems).or(prompt_tokens);
    };
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Begin => {
            add(0, &Value::Object(std::mem::take(&mut loose)), problems);
            Ok(())
        }
        Place::Element => {
            let line = scanner.line();
            if let Some(value) = take_value(scanner, problems)? {
                add(line, &value, problems);
            }
            Ok(())
        }
        Place::Member("messages") => {
            each_value(scanner, problems, &mut |line, value, problems| add(line, &value, problems))
        }
        Place::Member("values" | "channel_values") => scanner
            .object(&mut |key, scanner| match key {
                "messages" => each_value(scanner, problems, &mut |line, value, problems| add(line, &value, problems)),
                _ => scanner.skip(),
            })
            .map(|_| ()),
        Place::Member("config") => {
            let thread = take_value(scanner, problems)?;
            let thread =
                thread.as_ref().and_then(|config| config.pointer("/configurable/thread_id")).and_then(Value::as_str);
            id = thread.unwrap_or_default().to_owned();
            Ok(())
        }
        Place::Member(key @ ("lc" | "type" | "id" | "kwargs" | "data")) => {
            let key = key.to_owned();
            if let Some(value) = take_value(scanner, problems)? {
                loose.insert(key, value);
            }
            Ok(())
        }
        Place::Member(_) => scanner.skip(),
    })?;
    add(0, &Value::Object(loose), &mut context.problems);
    let messages = builder.finish(&mut context.problems);
    let mut made = conversation(id, "", Kind::Main, Dialect::OpenAiChat, Vec::new(), messages);
    made.reported_tokens = prompt_tokens;
    Ok(vec![made])
}

// Adds one message; gives its prompt tokens if it states them.
fn message(builder: &mut Builder, line: u64, value: &Value, problems: &mut Problems) -> Option<u64> {
    let line = Some(line).filter(|line| *line > 0);
    let body = value.get("kwargs").or_else(|| value.get("data")).unwrap_or(value);
    let class = value.get("id").and_then(Value::as_array).and_then(|path| path.last()).and_then(Value::as_str);
    let kind = match class {
        Some(class) => class.trim_end_matches("Chunk").trim_end_matches("Message").to_lowercase(),
        None => get_str(value, "type").or_else(|| get_str(body, "type")).unwrap_or_default().to_lowercase(),
    };
    let kind = if kind == "chat" { get_str(body, "role").unwrap_or_default().to_owned() } else { kind };
    let null = Value::Null;
    let content = pieces(body.get("content").unwrap_or(&null));
    match kind.trim_end_matches("messagechunk") {
        "system" | "developer" => builder.system(&texts(&content)),
        "human" | "user" => builder.user(&content, Mark::AsRead, line),
        "ai" | "assistant" => {
            let reasoning =
                body.pointer("/additional_kwargs/reasoning_content").and_then(Value::as_str).unwrap_or_default();
            builder.assistant(&texts(&content), reasoning, calls(body), line);
        }
        "tool" => builder.result(get_str(body, "tool_call_id").unwrap_or_default(), &content, line, problems),
        "function" => {
            let name = crate::json::quote(get_str(body, "name").unwrap_or_default());
            let content = crate::json::quote(&texts(&content));
            builder.message(
                format!("{{\"role\":\"function\",\"name\":{name},\"content\":{content}}}"),
                Mark::AsRead,
                line,
            );
        }
        "" if value.as_object().is_none_or(Map::is_empty) => {}
        other => problems.warn(line, || format!("a message of type {other:?}; left out")),
    }
    body.pointer("/usage_metadata/input_tokens").and_then(Value::as_u64).filter(|tokens| *tokens > 0)
}

// Calls in content are listed under tool_calls again; thinking is signed for another dialect.
fn pieces(content: &Value) -> Vec<Piece> {
    let is_said = |part: &&Value| {
        !matches!(
            get_str(part, "type"),
            Some("tool_use" | "tool_call" | "thinking" | "redacted_thinking" | "reasoning")
        )
    };
    match content {
        Value::Array(parts) => parts.iter().filter(is_said).flat_map(super::walk::pieces).collect(),
        other => super::walk::pieces(other),
    }
}

fn texts(pieces: &[Piece]) -> String {
    let texts: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Image(_) => None,
        })
        .collect();
    texts.join("\n")
}

fn calls(body: &Value) -> Vec<Call> {
    let list = |pointer: &str| body.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut calls: Vec<&Value> = list("/tool_calls").iter().chain(list("/invalid_tool_calls")).collect();
    if calls.is_empty() {
        calls = list("/additional_kwargs/tool_calls").iter().collect();
    }
    let call = |call: &&Value| Call {
        id: get_str(call, "id").unwrap_or_default().to_owned(),
        name: get_str(call, "name")
            .or_else(|| call.pointer("/function/name").and_then(Value::as_str))
            .unwrap_or_default()
            .to_owned(),
        arguments: match call.get("args").or_else(|| call.pointer("/function/arguments")) {
            // Arguments that were no JSON are sent back as the model wrote them.
            Some(Value::String(text)) => text.clone(),
            other => arguments(other),
        },
    };
    calls.iter().map(call).collect()
}
