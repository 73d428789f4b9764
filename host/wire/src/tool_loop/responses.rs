//! Following replies of the Responses API.

use super::{Fate, Follow, ReplyCall, Round, text};
use engine_api::Usage;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Events that open a stream.
const OPENING: [&str; 3] = ["response.created", "response.queued", "response.in_progress"];
/// Events that end one.
const ENDING: [&str; 3] = ["response.completed", "response.incomplete", "response.done"];

#[derive(Default)]
pub(super) struct Responses {
    round: u32,
    id: Option<Value>,
    /// This reply's items.
    items: BTreeMap<u64, Value>,
    hidden: BTreeSet<u64>,
    shown: BTreeMap<u64, u64>,
    next_index: u64,
    /// The number of the last event that the client got.
    sequence: u64,
    last: Option<Value>,
    visible: Vec<Value>,
}

impl Responses {
    /// Numbers an event as the client counts; returns whether that changes it.
    fn number(&mut self, value: &mut Value) -> bool {
        let Some(sequence) = value.get("sequence_number").and_then(Value::as_u64) else { return false };
        let next = self.sequence;
        self.sequence += 1;
        if sequence == next {
            return false;
        }
        value["sequence_number"] = Value::from(next);
        true
    }

    fn changed(&mut self, value: &mut Value, is_changed: bool) -> Fate {
        if self.number(value) | is_changed { Fate::Change(value.to_string()) } else { Fate::Pass }
    }

    fn told(usage: &Usage, value: &mut Value) {
        if let Some(told) = value.get_mut("usage").filter(|told| told.is_object()) {
            told["output_tokens"] = Value::from(usage.completion_tokens);
            told["total_tokens"] = Value::from(usage.total_tokens);
        }
    }
}

fn is_call_of_host(item: &Value, is_host: &dyn Fn(&str) -> bool) -> bool {
    text(item, "/type") == "function_call" && is_host(text(item, "/name"))
}

impl Follow for Responses {
    fn event(&mut self, value: &mut Value, is_host: &dyn Fn(&str) -> bool) -> Fate {
        let kind = text(value, "/type").to_owned();
        if OPENING.contains(&kind.as_str()) {
            if self.id.is_none() {
                self.id = value.pointer("/response/id").cloned();
            }
            return if self.round == 0 { self.changed(value, false) } else { Fate::Drop };
        }
        if ENDING.contains(&kind.as_str()) {
            self.last = Some(value.clone());
            // Some servers tell of items only here.
            for (index, item) in
                (0..).zip(value.pointer("/response/output").and_then(Value::as_array).into_iter().flatten())
            {
                self.items.entry(index).or_insert_with(|| item.clone());
            }
            return Fate::Hold;
        }
        let Some(index) = value.get("output_index").and_then(Value::as_u64) else { return self.changed(value, false) };
        if let Some(item) = value.get("item") {
            if is_call_of_host(item, is_host) {
                self.hidden.insert(index);
            }
            if kind == "response.output_item.done" {
                self.items.insert(index, item.clone());
            }
        }
        if self.hidden.contains(&index) {
            return Fate::Drop;
        }
        let next = self.next_index;
        let shown = *self.shown.entry(index).or_insert(next);
        self.next_index = self.next_index.max(shown + 1);
        let is_moved = shown != index;
        if is_moved {
            value["output_index"] = Value::from(shown);
        }
        self.changed(value, is_moved)
    }

    fn body(&mut self, value: &Value, _is_host: &dyn Fn(&str) -> bool) {
        if self.id.is_none() {
            self.id = value.get("id").cloned();
        }
        for (index, item) in (0..).zip(value.get("output").and_then(Value::as_array).into_iter().flatten()) {
            self.items.insert(index, item.clone());
        }
    }

    fn end_round(&mut self, is_host: &dyn Fn(&str) -> bool) -> Round {
        self.round += 1;
        self.hidden.clear();
        self.shown.clear();
        let mut round = Round::default();
        for item in std::mem::take(&mut self.items).into_values() {
            let is_call = matches!(text(&item, "/type"), "function_call" | "custom_tool_call" | "local_shell_call");
            if is_call {
                let arguments = [text(&item, "/arguments"), text(&item, "/input")].concat();
                let call = ReplyCall {
                    call_id: text(&item, "/call_id").to_owned(),
                    name: text(&item, "/name").to_owned(),
                    arguments,
                };
                if is_call_of_host(&item, is_host) {
                    round.host_calls.push(call)
                } else {
                    round.client_calls.push(call)
                }
            }
            if !is_call_of_host(&item, is_host) {
                self.visible.push(item.clone());
            }
            round.items.push(item.to_string());
        }
        round
    }

    fn closing(&mut self, usage: &Usage) -> String {
        let mut last = self.last.take().unwrap_or_else(|| json!({ "type": "response.completed", "response": {} }));
        let kind = text(&last, "/type").to_owned();
        last["response"]["output"] = Value::Array(self.visible.clone());
        if let Some(id) = &self.id {
            last["response"]["id"] = id.clone();
        }
        if let Some(response) = last.get_mut("response") {
            Responses::told(usage, response);
        }
        self.number(&mut last);
        format!("event: {kind}\ndata: {last}\n\n")
    }

    fn merged(&mut self, mut last: Value, usage: &Usage) -> Value {
        last["output"] = Value::Array(self.visible.clone());
        if let Some(id) = &self.id {
            last["id"] = id.clone();
        }
        Responses::told(usage, &mut last);
        last
    }
}

/// Returns an item that is one of these calls, or the reasoning before one; none if it is another.
pub(super) fn only(value: Value, ids: &HashSet<&str>) -> Option<Value> {
    let is_kept = match text(&value, "/type") {
        "function_call" => ids.contains(text(&value, "/call_id")),
        "reasoning" => true,
        _ => false,
    };
    is_kept.then_some(value)
}
