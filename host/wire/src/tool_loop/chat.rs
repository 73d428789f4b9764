//! Following replies of Chat Completions.

use super::{Fate, Follow, ReplyCall, Round, append, text};
use engine_api::Usage;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};

/// Members of a message that hold reasoning; some providers want them back with the calls.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning_details", "reasoning"];

#[derive(Default)]
pub(super) struct Chat {
    /// The first reply's id, time and model, which all events carry.
    head: Option<Map<String, Value>>,
    round: u32,
    message: Map<String, Value>,
    calls: BTreeMap<u64, Call>,
    /// The index that the client knows each of this reply's calls by.
    shown: BTreeMap<u64, u64>,
    next_index: u64,
    finish: Option<String>,
    has_usage: bool,
    /// What the client has seen of all replies, for a whole body.
    content: String,
    visible: Vec<Value>,
}

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Chat {
    fn headed(&self, value: &mut Value) {
        if let (Some(head), Some(map)) = (&self.head, value.as_object_mut()) {
            map.extend(head.clone());
        }
    }

    fn hear_delta(&mut self, delta: &Map<String, Value>) {
        for (key, value) in delta {
            match (key.as_str(), value) {
                ("tool_calls" | "role", _) | (_, Value::Null) => {}
                (_, Value::String(piece)) => append(&mut self.message, key, piece),
                (_, Value::Array(more)) => match self.message.get_mut(key) {
                    Some(Value::Array(before)) => before.extend(more.iter().cloned()),
                    _ => drop(self.message.insert(key.clone(), value.clone())),
                },
                _ => drop(self.message.insert(key.clone(), value.clone())),
            }
        }
    }

    /// Takes the pieces of calls; returns those that the client may see, and whether any was left out or renumbered.
    fn hear_calls(&mut self, pieces: Vec<Value>, is_host: &dyn Fn(&str) -> bool) -> (Vec<Value>, bool) {
        let (mut seen, mut is_changed) = (Vec::new(), false);
        for mut piece in pieces {
            let index = piece.get("index").and_then(Value::as_u64).unwrap_or(self.calls.len() as u64);
            let call = self.calls.entry(index).or_default();
            if !text(&piece, "/id").is_empty() {
                text(&piece, "/id").clone_into(&mut call.id);
            }
            call.name.push_str(text(&piece, "/function/name"));
            call.arguments.push_str(text(&piece, "/function/arguments"));
            if is_host(&call.name) {
                is_changed = true;
                continue;
            }
            let next = self.next_index;
            let shown = *self.shown.entry(index).or_insert(next);
            self.next_index = self.next_index.max(shown + 1);
            if shown != index
                && let Some(map) = piece.as_object_mut()
            {
                map.insert("index".to_owned(), Value::from(shown));
                is_changed = true;
            }
            seen.push(piece);
        }
        (seen, is_changed)
    }

    fn chunk(&self, choices: Value, usage: Option<Value>) -> String {
        let mut chunk = json!({ "object": "chat.completion.chunk", "choices": choices });
        if let (Some(usage), Some(map)) = (usage, chunk.as_object_mut()) {
            map.insert("usage".to_owned(), usage);
        }
        self.headed(&mut chunk);
        format!("data: {chunk}\n\n")
    }
}

impl Follow for Chat {
    fn event(&mut self, value: &mut Value, is_host: &dyn Fn(&str) -> bool) -> Fate {
        if self.head.is_none() {
            let keys = ["id", "created", "model", "system_fingerprint", "provider"];
            let known = keys.iter().filter_map(|key| Some(((*key).to_owned(), value.get(*key)?.clone())));
            self.head = Some(known.collect());
        }
        if value.get("error").is_some() {
            return Fate::Pass;
        }
        let is_later = self.round > 0;
        let has_usage = value.get("usage").is_some_and(Value::is_object);
        self.has_usage |= has_usage;
        let Some(choice) = value.pointer_mut("/choices/0").and_then(Value::as_object_mut) else {
            return if has_usage { Fate::Hold } else { Fate::Pass };
        };
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        let ends = choice.get("finish_reason").is_some_and(Value::is_string) || has_usage;
        let mut is_changed = is_later;
        let mut is_empty = false;
        if let Some(delta) = choice.get_mut("delta").and_then(Value::as_object_mut) {
            let delta_heard = delta.clone();
            self.hear_delta(&delta_heard);
            if let Some(Value::Array(pieces)) = delta.get("tool_calls") {
                let (seen, changed) = self.hear_calls(pieces.clone(), is_host);
                is_changed |= changed;
                if seen.is_empty() {
                    delta.remove("tool_calls");
                } else {
                    delta.insert("tool_calls".to_owned(), Value::Array(seen));
                }
            }
            if is_later {
                delta.remove("role");
            }
            let is_blank = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
            is_empty = delta.iter().all(|(key, value)| key == "role" || is_blank(value));
        }
        if ends {
            // Its own text, if it has any, comes with the end; it is a moment away.
            return Fate::Hold;
        }
        if !is_changed {
            return Fate::Pass;
        }
        if is_empty {
            return Fate::Drop;
        }
        self.headed(value);
        Fate::Change(value.to_string())
    }

    fn body(&mut self, value: &Value, _is_host: &dyn Fn(&str) -> bool) {
        self.finish = value.pointer("/choices/0/finish_reason").and_then(Value::as_str).map(str::to_owned);
        if self.head.is_none() {
            let keys = ["id", "created", "model"];
            self.head =
                Some(keys.iter().filter_map(|key| Some(((*key).to_owned(), value.get(*key)?.clone()))).collect());
        }
        let Some(message) = value.pointer("/choices/0/message").and_then(Value::as_object) else { return };
        self.message = message.clone();
        for (index, call) in (0..).zip(message.get("tool_calls").and_then(Value::as_array).into_iter().flatten()) {
            let of = |pointer| text(call, pointer).to_owned();
            let call = Call { id: of("/id"), name: of("/function/name"), arguments: of("/function/arguments") };
            self.calls.insert(index, call);
        }
    }

    fn end_round(&mut self, is_host: &dyn Fn(&str) -> bool) -> Round {
        self.round += 1;
        self.shown.clear();
        let mut round = Round::default();
        let mut written = Vec::new();
        for call in std::mem::take(&mut self.calls).into_values() {
            let raw = json!({ "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments } });
            let heard = ReplyCall { call_id: call.id, name: call.name, arguments: call.arguments };
            if is_host(&heard.name) {
                round.host_calls.push(heard);
            } else {
                round.client_calls.push(heard);
                self.visible.push(raw.clone());
            }
            written.push(raw);
        }
        let mut message = std::mem::take(&mut self.message);
        message.remove("tool_calls");
        self.content.push_str(message.get("content").and_then(Value::as_str).unwrap_or_default());
        let mut item = Map::new();
        item.insert("role".to_owned(), Value::from("assistant"));
        item.insert("content".to_owned(), message.remove("content").unwrap_or(Value::Null));
        item.extend(message.into_iter().filter(|(key, _)| REASONING.contains(&key.as_str())));
        if !written.is_empty() {
            item.insert("tool_calls".to_owned(), Value::Array(written));
        }
        round.items.push(Value::Object(item).to_string());
        round
    }

    fn closing(&mut self, usage: &Usage) -> String {
        let mut out = self.chunk(json!([{ "index": 0, "delta": {}, "finish_reason": self.end() }]), None);
        if self.has_usage {
            out.push_str(&self.chunk(json!([]), Some(usage_of(usage))));
        }
        out.push_str("data: [DONE]\n\n");
        out
    }

    fn merged(&mut self, mut last: Value, usage: &Usage) -> Value {
        self.headed(&mut last);
        let (end, content, visible) = (self.end(), self.content.clone(), self.visible.clone());
        if let Some(choice) = last.pointer_mut("/choices/0").and_then(Value::as_object_mut) {
            choice.insert("finish_reason".to_owned(), end);
            if let Some(message) = choice.get_mut("message").and_then(Value::as_object_mut) {
                let content =
                    if content.is_empty() && !visible.is_empty() { Value::Null } else { Value::from(content) };
                message.insert("content".to_owned(), content);
                message.remove("tool_calls");
                if !visible.is_empty() {
                    message.insert("tool_calls".to_owned(), Value::Array(visible));
                }
            }
        }
        if let Some(told) = last.get_mut("usage").filter(|told| told.is_object()) {
            *told = usage_of(usage);
        }
        last
    }
}

impl Chat {
    /// Returns how the reply ends for the client: with calls only if it saw any.
    fn end(&self) -> Value {
        let end = match self.finish.as_deref() {
            _ if !self.visible.is_empty() => "tool_calls",
            Some("tool_calls" | "function_call") | None => "stop",
            Some(other) => other,
        };
        Value::from(end)
    }
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cache_read_tokens },
    })
}

/// Returns an assistant message with these calls only; none if it has none of them.
pub(super) fn only(mut value: Value, ids: &HashSet<&str>) -> Option<Value> {
    let message = value.as_object_mut()?;
    let calls = message.get_mut("tool_calls")?.as_array_mut()?;
    calls.retain(|call| ids.contains(text(call, "/id")));
    if calls.is_empty() {
        return None;
    }
    // The text is in the reply that the client got.
    message.insert("content".to_owned(), Value::Null);
    Some(value)
}
