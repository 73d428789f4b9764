//! Calls of the host's own tools, taken out of a reply on its way: the client sees one whole reply, whichever rounds with
//! the model it took, and never a call that it cannot answer.
//!
//! As long as no such call comes, every byte passes as it came. What is held back are the events of such calls and the
//! events that end a reply, since another round may follow; texts are never held.

mod chat;
mod messages;
mod responses;

use crate::author;
use crate::sse::SseEvent;
use crate::usage::UsageReader;
use engine_api::{Dialect, ToolSchema, Usage};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// A call of a tool in a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCall {
    /// Its id.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
}

/// What one reply of the model came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Round {
    /// Calls that the host answers.
    pub host_calls: Vec<ReplyCall>,
    /// Calls that the client answers.
    pub client_calls: Vec<ReplyCall>,
    /// The reply in the form in which a client would send it back, with all calls.
    pub items: Vec<String>,
    /// What the provider reported.
    pub usage: Option<Usage>,
}

/// Follows the replies to one request of a client.
pub struct ToolLoop {
    dialect: Dialect,
    inner: Box<dyn Follow + Send>,
    host_tools: HashSet<String>,
    usage: UsageReader,
    /// Tokens of all answers so far.
    answered: u64,
    /// Events that end the reply, held back; the exact bytes.
    held: Vec<u8>,
    /// Anything of the host's was taken out, or more than one reply was needed.
    is_changed: bool,
    rounds: u32,
    /// The whole body of the last reply, where it is not streamed.
    body: String,
}

/// What an event is to the client.
enum Fate {
    /// It passes as it is.
    Pass,
    /// It passes in this form.
    Change(String),
    /// It ends the reply, and is held.
    Hold,
    /// It is none of the client's business.
    Drop,
}

/// One dialect's way of following.
trait Follow {
    /// Says what becomes of an event, whose data is this value.
    fn event(&mut self, value: &mut Value, is_host: &dyn Fn(&str) -> bool) -> Fate;
    /// Takes a whole body.
    fn body(&mut self, value: &Value, is_host: &dyn Fn(&str) -> bool);
    /// Ends the reply that was followed: its calls, and it in the form of a request.
    fn end_round(&mut self, is_host: &dyn Fn(&str) -> bool) -> Round;
    /// Writes the events that end the reply for the client.
    fn closing(&mut self, usage: &Usage) -> String;
    /// Writes the whole body for the client; `last` is the body of the last reply.
    fn merged(&mut self, last: Value, usage: &Usage) -> Value;
}

impl ToolLoop {
    /// Follows replies in a dialect, in which these tools are the host's.
    pub fn new(dialect: Dialect, host_tools: HashSet<String>) -> ToolLoop {
        let inner: Box<dyn Follow + Send> = match dialect {
            Dialect::Anthropic => Box::new(messages::Messages::default()),
            Dialect::Responses => Box::new(responses::Responses::default()),
            _ => Box::new(chat::Chat::default()),
        };
        ToolLoop {
            dialect,
            inner,
            host_tools,
            usage: UsageReader::new(dialect),
            answered: 0,
            held: Vec::new(),
            is_changed: false,
            rounds: 0,
            body: String::new(),
        }
    }

    /// Takes an event of the provider's and writes what the client gets of it.
    pub fn event(&mut self, event: &SseEvent<'_>, out: &mut Vec<u8>) {
        self.usage.event(event);
        if event.data.trim() == "[DONE]" {
            self.held.extend_from_slice(event.raw);
            return;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&event.data) else {
            // A comment, or something that we know nothing of.
            out.extend_from_slice(event.raw);
            return;
        };
        let host_tools = &self.host_tools;
        match self.inner.event(&mut value, &|name| host_tools.contains(name)) {
            Fate::Pass => out.extend_from_slice(event.raw),
            Fate::Change(data) => {
                self.is_changed = true;
                if !event.name.is_empty() {
                    out.extend_from_slice(format!("event: {}\n", event.name).as_bytes());
                }
                out.extend_from_slice(format!("data: {data}\n\n").as_bytes());
            }
            Fate::Hold => self.held.extend_from_slice(event.raw),
            Fate::Drop => self.is_changed = true,
        }
    }

    /// Takes a whole body of the provider's.
    pub fn body(&mut self, body: &str) {
        body.clone_into(&mut self.body);
        let Ok(value) = serde_json::from_str::<Value>(body) else { return };
        self.usage.value(&value);
        let host_tools = &self.host_tools;
        self.inner.body(&value, &|name| host_tools.contains(name));
    }

    /// Ends a reply of the model. With calls of the host's and none of the client's, the caller asks the model again and
    /// has the next reply follow here; otherwise it finishes.
    pub fn end_round(&mut self) -> Round {
        self.rounds += 1;
        let host_tools = &self.host_tools;
        let mut round = self.inner.end_round(&|name| host_tools.contains(name));
        round.usage = self.usage.usage();
        self.usage = UsageReader::new(self.dialect);
        self.answered += round.usage.as_ref().map_or(0, |usage| usage.completion_tokens);
        if !round.host_calls.is_empty() {
            self.is_changed = true;
        }
        if self.is_changed {
            self.held.clear();
        }
        round
    }

    /// Writes the events that end the reply.
    ///
    /// Usage is that of the last request, which is the one that the conversation goes on from, with the tokens of all
    /// answers.
    pub fn finish(&mut self, last: &Round, out: &mut Vec<u8>) {
        if self.is_changed {
            let usage = self.told(last);
            out.extend_from_slice(self.inner.closing(&usage).as_bytes());
        } else {
            out.append(&mut self.held);
        }
    }

    /// Returns the whole body that the client gets.
    pub fn merged_body(&mut self, last: &Round) -> String {
        if !self.is_changed && self.rounds == 1 {
            return std::mem::take(&mut self.body);
        }
        let usage = self.told(last);
        match serde_json::from_str::<Value>(&self.body) {
            Ok(value) => self.inner.merged(value, &usage).to_string(),
            Err(_) => std::mem::take(&mut self.body),
        }
    }

    fn told(&self, last: &Round) -> Usage {
        let mut usage = last.usage.clone().unwrap_or_default();
        usage.completion_tokens = self.answered;
        usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
        usage
    }
}

/// Returns the messages by which later requests tell the model of host calls and their answers.
pub fn exchange(dialect: Dialect, items: &[String], calls: &[ReplyCall], results: &[String]) -> Vec<String> {
    let ids: HashSet<&str> = calls.iter().map(|call| call.call_id.as_str()).collect();
    let calling: Vec<String> = items
        .iter()
        .filter_map(|item| {
            let value: Value = serde_json::from_str(item).ok()?;
            let kept = match dialect {
                Dialect::Anthropic => messages::only(value, &ids),
                Dialect::Responses => responses::only(value, &ids),
                _ => chat::only(value, &ids),
            };
            kept.map(|value| value.to_string())
        })
        .collect();
    let answers: Vec<(&str, &str)> =
        calls.iter().map(|call| call.call_id.as_str()).zip(results.iter().map(String::as_str)).collect();
    calling.into_iter().chain(author::answers(dialect, &answers)).collect()
}

/// Returns a `tools` member with the host's tools behind the client's own, whose bytes stay, and the names of those that
/// were added: a name that the client has already is the client's.
pub fn offer_tools(own: Option<&str>, dialect: Dialect, tools: &[ToolSchema]) -> (String, Vec<String>) {
    let own = own.map(str::trim).filter(|own| own.starts_with('[') && own.ends_with(']')).unwrap_or("[]");
    let taken: HashSet<String> =
        serde_json::from_str::<Vec<Value>>(own).unwrap_or_default().iter().flat_map(names).collect();
    let added: Vec<&ToolSchema> = tools.iter().filter(|tool| !taken.contains(&tool.name)).collect();
    let written: Vec<String> = added.iter().map(|tool| definition(dialect, tool).to_string()).collect();
    let inside = own.get(1..own.len().saturating_sub(1)).unwrap_or_default();
    let all = if inside.trim().is_empty() {
        written.join(",")
    } else {
        [&[inside.to_owned()], &written[..]].concat().join(",")
    };
    (format!("[{all}]"), added.iter().map(|tool| tool.name.clone()).collect())
}

/// Returns the names of a tool definition: of a function, or of all in a namespace.
fn names(tool: &Value) -> Vec<String> {
    let name = |value: &Value| {
        value.pointer("/function/name").or_else(|| value.get("name")).and_then(Value::as_str).map(str::to_owned)
    };
    let inner = tool.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(name);
    name(tool).into_iter().chain(inner).collect()
}

fn definition(dialect: Dialect, tool: &ToolSchema) -> Value {
    let ToolSchema { name, description, parameters, .. } = tool;
    match dialect {
        Dialect::Anthropic => json!({ "name": name, "description": description, "input_schema": parameters }),
        Dialect::Responses => {
            json!({ "type": "function", "name": name, "description": description, "parameters": parameters, "strict": false })
        }
        _ => {
            json!({ "type": "function", "function": { "name": name, "description": description, "parameters": parameters } })
        }
    }
}

/// Returns a member as a text; empty if it is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Adds a piece to a text member.
fn append(map: &mut Map<String, Value>, key: &str, piece: &str) {
    match map.get_mut(key) {
        Some(Value::String(before)) => before.push_str(piece),
        _ => drop(map.insert(key.to_owned(), Value::from(piece))),
    }
}

#[cfg(test)]
mod tests;
