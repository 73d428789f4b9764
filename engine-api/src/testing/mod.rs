//! For the tests of engines: messages in a line each, and a host that answers from a script.

use crate::error::{EngineError, ErrorKind};
use crate::message::{Flags, Message, MessageId, Part, PartKind, Role};
use crate::services::{Completion, CompletionRequest, HostServices, LogLevel, RecallReply, RecallRequest};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::sync::Mutex;

/// Four bytes a token, as a stand-in for a real count.
fn tokens(text: &str) -> u32 {
    (text.len() / 4 + 4).min(u32::MAX as usize) as u32
}

fn message(id: u64, role: Role, raw: Value, parts: Vec<Part>) -> Message {
    let mut message = Message::new(role, raw.to_string(), parts);
    message.id = MessageId(id);
    for part in &mut message.parts {
        part.tokens = tokens(&part.text);
    }
    message.tokens = message.parts.iter().map(|part| part.tokens).sum::<u32>() + 4;
    message
}

/// Makes a system message.
pub fn system(id: u64, text: &str) -> Message {
    message(id, Role::System, json!({ "role": "system", "content": text }), vec![Part::new(PartKind::Text, text)])
}

/// Makes a message of a person.
pub fn user(id: u64, text: &str) -> Message {
    let mut made =
        message(id, Role::User, json!({ "role": "user", "content": text }), vec![Part::new(PartKind::Text, text)]);
    made.flags = Flags::REAL_USER;
    made
}

/// Makes a message of the model.
pub fn assistant(id: u64, text: &str) -> Message {
    let raw = json!({ "role": "assistant", "content": text });
    message(id, Role::Assistant, raw, vec![Part::new(PartKind::Text, text)])
}

/// Makes a message of the model that calls tools: `(call id, tool, arguments)`.
pub fn calls(id: u64, list: &[(&str, &str, &str)]) -> Message {
    let raw: Vec<Value> = list
        .iter()
        .map(|(call, tool, arguments)| {
            json!({ "id": call, "type": "function", "function": { "name": tool, "arguments": arguments } })
        })
        .collect();
    let parts = list.iter().map(|(call, tool, arguments)| Part::call(*call, *tool, *arguments)).collect();
    message(id, Role::Assistant, json!({ "role": "assistant", "content": null, "tool_calls": raw }), parts)
}

/// Makes a tool's answer.
pub fn result(id: u64, call: &str, tool: &str, text: &str) -> Message {
    let mut part = Part::result(call, text);
    part.tool_name = tool.to_string();
    message(id, Role::Tool, json!({ "role": "tool", "tool_call_id": call, "content": text }), vec![part])
}

/// A host in memory: completions come from a script, state is a map, nothing is written anywhere.
#[derive(Default)]
pub struct FakeHost {
    /// Answers to completions, first one first; when it is empty, completions fail.
    pub completions: Mutex<Vec<Result<String, EngineError>>>,
    /// The completions that were asked for.
    pub asked: Mutex<Vec<CompletionRequest>>,
    /// The engine's state.
    pub state: Mutex<HashMap<String, Vec<u8>>>,
    /// The engine's settings.
    pub settings: Value,
    /// What recall answers.
    pub recall: RecallReply,
    /// Whether the call is cancelled.
    pub cancelled: bool,
    /// Log lines.
    pub log: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl HostServices for FakeHost {
    fn complete(&self, request: &CompletionRequest) -> Result<Completion, EngineError> {
        lock(&self.asked).push(request.clone());
        let mut script = lock(&self.completions);
        if script.is_empty() {
            return Err(EngineError::new(ErrorKind::Summariser, "the script has no more completions"));
        }
        let text = script.remove(0)?;
        Ok(Completion { text, model: "scripted".to_string(), ..Completion::default() })
    }
    fn count_tokens(&self, text: &str) -> u64 {
        u64::from(tokens(text))
    }
    fn recall(&self, _request: &RecallRequest) -> Result<RecallReply, EngineError> {
        Ok(self.recall.clone())
    }
    fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(lock(&self.state).get(key).cloned())
    }
    fn state_put(&self, key: &str, value: &[u8]) -> Result<(), EngineError> {
        lock(&self.state).insert(key.to_string(), value.to_vec());
        Ok(())
    }
    fn settings(&self) -> Value {
        self.settings.clone()
    }
    fn redact(&self, text: &str) -> String {
        text.to_string()
    }
    fn log(&self, level: LogLevel, message: &str, _fields: &Value) {
        lock(&self.log).push(format!("{}: {}", level, message));
    }
    fn now_unix_ms(&self) -> u64 {
        1_700_000_000_000
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn cancelled(&self) -> bool {
        self.cancelled
    }
}
