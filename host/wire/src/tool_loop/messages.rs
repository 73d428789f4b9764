//! Following replies of Anthropic's Messages.

use super::{Fate, Follow, ReplyCall, Round, append, text};
use engine_api::Usage;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};

#[derive(Default)]
pub(super) struct Messages {
    round: u32,
    /// This reply's blocks, as they grow, and the input of calls before it is whole.
    blocks: BTreeMap<u64, (Map<String, Value>, String)>,
    /// The blocks that are the host's affair.
    hidden: BTreeSet<u64>,
    shown: BTreeMap<u64, u64>,
    next_index: u64,
    /// The members of the event that ends the reply.
    last_delta: Option<Value>,
    stop: Option<String>,
    /// What the client has seen of all replies.
    visible: Vec<Value>,
    has_calls: bool,
    id: Option<Value>,
}

impl Messages {
    fn grow(&mut self, index: u64, delta: &Value) {
        let Some((block, input)) = self.blocks.get_mut(&index) else { return };
        match text(delta, "/type") {
            "text_delta" => append(block, "text", text(delta, "/text")),
            "thinking_delta" => append(block, "thinking", text(delta, "/thinking")),
            "signature_delta" => append(block, "signature", text(delta, "/signature")),
            "input_json_delta" => input.push_str(text(delta, "/partial_json")),
            _ => {}
        }
    }

    fn stop(&self) -> Value {
        let stop = match self.stop.as_deref() {
            _ if self.has_calls => "tool_use",
            Some("tool_use") | None => "end_turn",
            Some(other) => other,
        };
        Value::from(stop)
    }
}

fn is_call_of_host(block: &Value, is_host: &dyn Fn(&str) -> bool) -> bool {
    text(block, "/type") == "tool_use" && is_host(text(block, "/name"))
}

impl Follow for Messages {
    fn event(&mut self, value: &mut Value, is_host: &dyn Fn(&str) -> bool) -> Fate {
        let index = value.get("index").and_then(Value::as_u64);
        match (text(value, "/type"), index) {
            ("message_start", _) => return if self.round == 0 { Fate::Pass } else { Fate::Drop },
            ("message_delta", _) => {
                self.stop = value.pointer("/delta/stop_reason").and_then(Value::as_str).map(str::to_owned);
                self.last_delta = Some(value.clone());
                return Fate::Hold;
            }
            ("message_stop", _) => return Fate::Hold,
            ("content_block_start", Some(index)) => {
                let block = value.get("content_block").cloned().unwrap_or_default();
                if is_call_of_host(&block, is_host) {
                    self.hidden.insert(index);
                } else {
                    self.shown.insert(index, self.next_index);
                    self.next_index += 1;
                }
                self.blocks.insert(index, (block.as_object().cloned().unwrap_or_default(), String::new()));
            }
            ("content_block_delta", Some(index)) => {
                let delta = value.get("delta").cloned().unwrap_or_default();
                self.grow(index, &delta);
            }
            ("content_block_stop", Some(_)) => {}
            _ => return Fate::Pass,
        }
        let Some(index) = index else { return Fate::Pass };
        if self.hidden.contains(&index) {
            return Fate::Drop;
        }
        match self.shown.get(&index) {
            Some(shown) if *shown != index => {
                value["index"] = Value::from(*shown);
                Fate::Change(value.to_string())
            }
            _ => Fate::Pass,
        }
    }

    fn body(&mut self, value: &Value, _is_host: &dyn Fn(&str) -> bool) {
        self.stop = value.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
        if self.id.is_none() {
            self.id = value.get("id").cloned();
        }
        for (index, block) in (0..).zip(value.get("content").and_then(Value::as_array).into_iter().flatten()) {
            self.blocks.insert(index, (block.as_object().cloned().unwrap_or_default(), String::new()));
        }
    }

    fn end_round(&mut self, is_host: &dyn Fn(&str) -> bool) -> Round {
        self.round += 1;
        self.hidden.clear();
        self.shown.clear();
        let mut round = Round::default();
        let mut content = Vec::new();
        for (mut block, input) in std::mem::take(&mut self.blocks).into_values() {
            if !input.is_empty() {
                // Input that is no JSON is the model's fault; the answer to the call says so.
                let parsed = serde_json::from_str(&input).unwrap_or_else(|_| json!({}));
                block.insert("input".to_owned(), parsed);
            }
            let block = Value::Object(block);
            let is_call = text(&block, "/type") == "tool_use";
            if is_call {
                let arguments =
                    if input.is_empty() { block.get("input").map(Value::to_string).unwrap_or_default() } else { input };
                let call = ReplyCall {
                    call_id: text(&block, "/id").to_owned(),
                    name: text(&block, "/name").to_owned(),
                    arguments,
                };
                if is_host(&call.name) { round.host_calls.push(call) } else { round.client_calls.push(call) }
            }
            if !is_call_of_host(&block, is_host) {
                self.has_calls |= is_call;
                self.visible.push(block.clone());
            }
            // A text without any letter is refused when it is sent back.
            if text(&block, "/type") != "text" || !text(&block, "/text").is_empty() {
                content.push(block);
            }
        }
        round.items.push(json!({ "role": "assistant", "content": content }).to_string());
        round
    }

    fn closing(&mut self, usage: &Usage) -> String {
        let mut delta = self.last_delta.take().unwrap_or_else(|| json!({ "type": "message_delta" }));
        delta["delta"]["stop_reason"] = self.stop();
        if delta["delta"].get("stop_sequence").is_none() {
            delta["delta"]["stop_sequence"] = Value::Null;
        }
        delta["usage"]["output_tokens"] = Value::from(usage.completion_tokens);
        format!("event: message_delta\ndata: {delta}\n\nevent: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n")
    }

    fn merged(&mut self, mut last: Value, usage: &Usage) -> Value {
        last["content"] = Value::Array(self.visible.clone());
        last["stop_reason"] = self.stop();
        if let Some(id) = &self.id {
            last["id"] = id.clone();
        }
        if last.get("usage").is_some_and(Value::is_object) {
            last["usage"]["output_tokens"] = Value::from(usage.completion_tokens);
        }
        last
    }
}

/// Returns an assistant message with these calls and the thinking that led to them; none if it has none of them.
pub(super) fn only(mut value: Value, ids: &HashSet<&str>) -> Option<Value> {
    let blocks = value.get_mut("content")?.as_array_mut()?;
    blocks.retain(|block| match text(block, "/type") {
        "tool_use" => ids.contains(text(block, "/id")),
        "thinking" | "redacted_thinking" => true,
        _ => false,
    });
    blocks.iter().any(|block| text(block, "/type") == "tool_use").then_some(value)
}
