//! Gemini CLI sessions: a model's message holds its calls and their results. Info, warning and error lines are the interface's.

use super::walk::{Place, arguments, each_value, pieces, take_string, take_value, top};
use crate::build::{Builder, Call, Mark, Piece};
use crate::input::Input;
use crate::json::{get_str, quote};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::Value;

#[derive(Default)]
struct Session {
    id: String,
    title: String,
    model: Option<String>,
    prompt_tokens: Option<u64>,
    interface_lines: u64,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut session = Session::default();
    let mut builder = Builder::new(Dialect::OpenAiChat);
    // Newer files hold a message a line behind a first line about the session; its members come one by one.
    let mut loose: serde_json::Map<String, Value> = serde_json::Map::new();
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Begin => {
            session.message(0, &Value::Object(std::mem::take(&mut loose)), &mut builder, problems);
            Ok(())
        }
        Place::Member("sessionId") => {
            session.id = take_string(scanner, problems)?.unwrap_or_default();
            Ok(())
        }
        Place::Member("summary") => {
            session.title = take_string(scanner, problems)?.unwrap_or_default();
            Ok(())
        }
        Place::Member("messages") => each_value(scanner, problems, &mut |line, value, problems| {
            session.message(line, &value, &mut builder, problems)
        }),
        Place::Member(key @ ("type" | "content" | "toolCalls" | "thoughts" | "tokens" | "model")) => {
            let key = key.to_owned();
            if let Some(value) = take_value(scanner, problems)? {
                loose.insert(key, value);
            }
            Ok(())
        }
        Place::Member(_) | Place::Element => scanner.skip(),
    })?;
    session.message(0, &Value::Object(loose), &mut builder, &mut context.problems);
    if session.interface_lines > 0 {
        let count = session.interface_lines;
        context
            .problems
            .note(None, || format!("{count} info, warning and error lines are the interface's and were left out"));
    }
    let members = session.model.map(|model| ("model".to_owned(), quote(&model))).into_iter().collect();
    let messages = builder.finish(&mut context.problems);
    let mut made = conversation(session.id, session.title, Kind::Main, Dialect::OpenAiChat, members, messages);
    made.reported_tokens = session.prompt_tokens;
    Ok(vec![made])
}

impl Session {
    fn message(&mut self, line: u64, message: &Value, builder: &mut Builder, problems: &mut Problems) {
        let line = Some(line).filter(|line| *line > 0);
        let null = Value::Null;
        let content = message.get("content").unwrap_or(&null);
        match get_str(message, "type").unwrap_or_default() {
            "user" => builder.user(&pieces(content), Mark::AsRead, line),
            "gemini" | "model" | "assistant" => {
                let list =
                    |key: &str| message.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let thoughts = list("thoughts").iter().map(|thought| {
                    let part = |key: &str| get_str(thought, key).unwrap_or_default();
                    [part("subject"), part("description")]
                        .into_iter()
                        .filter(|text| !text.is_empty())
                        .collect::<Vec<_>>()
                        .join(": ")
                });
                let thoughts = thoughts.collect::<Vec<_>>().join("\n");
                let calls = list("toolCalls").iter().map(|call| Call {
                    id: get_str(call, "id").unwrap_or_default().to_owned(),
                    name: get_str(call, "name").unwrap_or_default().to_owned(),
                    arguments: arguments(call.get("args")),
                });
                builder.assistant(&super::walk::text_of(content), &thoughts, calls.collect(), line);
                for call in list("toolCalls") {
                    if let Some(result) = result(call) {
                        builder.result(get_str(call, "id").unwrap_or_default(), &result, line, problems);
                    }
                }
                if let Some(model) = get_str(message, "model") {
                    self.model = Some(model.to_owned());
                }
                self.prompt_tokens =
                    message.pointer("/tokens/input").and_then(Value::as_u64).filter(|t| *t > 0).or(self.prompt_tokens);
            }
            "info" | "warning" | "error" => self.interface_lines += 1,
            _ => {}
        }
    }
}

// A call that was cancelled before it ran has no result.
fn result(call: &Value) -> Option<Vec<Piece>> {
    let parts = match call.get("result") {
        Some(Value::Array(parts)) if !parts.is_empty() => parts.as_slice(),
        Some(Value::String(text)) => return Some(vec![Piece::Text(text.clone())]),
        _ => {
            let display = get_str(call, "resultDisplay").filter(|text| !text.is_empty())?;
            return Some(vec![Piece::Text(display.to_owned())]);
        }
    };
    let mut out = Vec::new();
    for part in parts {
        match part.pointer("/functionResponse/response") {
            Some(response) => {
                let text = get_str(response, "output").or_else(|| get_str(response, "error"));
                out.push(Piece::Text(text.map_or_else(|| response.to_string(), str::to_owned)));
            }
            None => out.extend(pieces(part)),
        }
    }
    Some(out)
}
