//! Answers in the form of each API, whole and as event streams.

use super::{Api, Seen, ToolUse};
use serde_json::{Value, json};

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Whole,
    /// At a limit.
    Cut,
    /// With a refusal.
    Refused,
    /// With a tool call.
    Called,
}

/// What the model says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    pub(super) end: End,
    /// The calls, where it ends with any; one of `read`, if they are not named.
    pub(super) calls: &'a [ToolUse],
    pub(super) prompt_tokens: u64,
    pub(super) answer_tokens: u64,
}

impl<'a> Said<'a> {
    pub(super) fn text(text: &'a str) -> Self {
        Said { text, end: End::Whole, calls: &[], prompt_tokens: 10, answer_tokens: 5 }
    }
}

/// Returns the error of a prompt that is too long.
pub(super) fn overflow(api: Api, window: u64) -> String {
    let error = match api {
        Api::Chat | Api::Responses => json!({"error": {
            "message": format!("This model's maximum context length is {window} tokens. However, your messages resulted in {} tokens.", window * 2),
            "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
        }}),
        Api::Messages => json!({"type": "error", "error": {
            "type": "invalid_request_error",
            "message": format!("prompt is too long: {} tokens > {window} maximum", window * 2),
        }}),
    };
    error.to_string()
}

/// Returns the body of an answer in one piece.
pub(super) fn whole(seen: &Seen, said: &Said<'_>) -> String {
    value(seen, said).to_string()
}

/// Returns an id that differs from request to request of one conversation, which only grows or is compacted.
fn message_id(seen: &Seen) -> String {
    format!("msg_{}", seen.body.len())
}

/// Returns the calls that an answer ends with.
fn calls(said: &Said<'_>) -> Vec<ToolUse> {
    if said.calls.is_empty() {
        return vec![ToolUse { id: "call_1".to_owned(), name: "read".to_owned(), input: json!({}) }];
    }
    said.calls.to_vec()
}

fn value(seen: &Seen, said: &Said<'_>) -> Value {
    let total = said.prompt_tokens + said.answer_tokens;
    match seen.api {
        Api::Chat => {
            let mut message = json!({"role": "assistant", "content": said.text, "refusal": null});
            let finish = match said.end {
                End::Whole => "stop",
                End::Cut => "length",
                End::Refused => {
                    message["content"] = Value::Null;
                    message["refusal"] = json!("I cannot help with that.");
                    "stop"
                }
                End::Called => {
                    if said.text.is_empty() {
                        message["content"] = Value::Null;
                    }
                    let calls = calls(said).into_iter().map(|call| {
                        json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.input.to_string()}})
                    });
                    message["tool_calls"] = calls.collect();
                    "tool_calls"
                }
            };
            json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": seen.model(),
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": said.prompt_tokens, "completion_tokens": said.answer_tokens, "total_tokens": total}})
        }
        Api::Messages => {
            let mut content = json!([{"type": "text", "text": said.text}]);
            let stop = match said.end {
                End::Whole => "end_turn",
                End::Cut => "max_tokens",
                End::Refused => "refusal",
                End::Called => {
                    let calls = calls(said)
                        .into_iter()
                        .map(|call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}));
                    let text = (!said.text.is_empty()).then(|| json!({"type": "text", "text": said.text}));
                    content = text.into_iter().chain(calls).collect();
                    "tool_use"
                }
            };
            if said.text.is_empty() && said.end != End::Called {
                content = json!([]);
            }
            json!({"id": message_id(seen), "type": "message", "role": "assistant", "model": seen.model(), "content": content,
                "stop_reason": stop, "stop_sequence": null,
                "usage": {"input_tokens": said.prompt_tokens, "output_tokens": said.answer_tokens}})
        }
        Api::Responses => {
            let part = if said.end == End::Refused {
                json!({"type": "refusal", "refusal": "I cannot help with that."})
            } else {
                json!({"type": "output_text", "text": said.text, "annotations": []})
            };
            let message = json!({"type": "message", "id": message_id(seen), "role": "assistant", "status": "completed", "content": [part]});
            let items: Vec<Value> = if said.end == End::Called {
                let calls = calls(said).into_iter().map(|call| match &call.input {
                    Value::String(input) => json!({"type": "custom_tool_call", "id": format!("ctc_{}", call.id), "call_id": call.id, "name": call.name, "input": input, "status": "completed"}),
                    input => json!({"type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id, "name": call.name, "arguments": input.to_string(), "status": "completed"}),
                });
                (!said.text.is_empty()).then_some(message).into_iter().chain(calls).collect()
            } else {
                vec![message]
            };
            let is_cut = said.end == End::Cut;
            json!({"id": "resp_1", "object": "response", "created_at": 1, "model": seen.model(), "error": null,
                "status": if is_cut { "incomplete" } else { "completed" },
                "incomplete_details": if is_cut { json!({"reason": "max_output_tokens"}) } else { Value::Null },
                "output": items,
                "usage": {"input_tokens": said.prompt_tokens, "output_tokens": said.answer_tokens, "total_tokens": total}})
        }
    }
}

/// Returns an answer as an event stream: the shortest that the API's own clients read.
pub(super) fn stream(seen: &Seen, said: &Said<'_>) -> String {
    let whole = value(seen, said);
    match seen.api {
        Api::Chat => {
            let choice = &whole["choices"][0];
            let mut delta = choice["message"].clone();
            let calls = delta.get_mut("tool_calls").and_then(Value::as_array_mut);
            for (index, call) in calls.into_iter().flatten().enumerate() {
                call["index"] = json!(index);
            }
            let chunk = |choices: Value, usage: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": seen.model(), "choices": choices, "usage": usage});
            let wants_usage = seen.json["stream_options"]["include_usage"] == json!(true);
            let mut events = vec![
                chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null),
                chunk(json!([{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]), Value::Null),
            ];
            if wants_usage {
                events.push(chunk(json!([]), whole["usage"].clone()));
            }
            let mut out: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            out.push_str("data: [DONE]\n\n");
            out
        }
        Api::Messages => {
            let mut start = whole.clone();
            start["content"] = json!([]);
            start["stop_reason"] = Value::Null;
            start["usage"]["output_tokens"] = json!(1);
            let mut events = vec![json!({"type": "message_start", "message": start})];
            for (index, block) in whole["content"].as_array().into_iter().flatten().enumerate() {
                let (empty, delta) = if block["type"] == "text" {
                    (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": block["text"]}))
                } else {
                    let mut empty = block.clone();
                    empty["input"] = json!({});
                    (empty, json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}))
                };
                events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
                events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
                events.push(json!({"type": "content_block_stop", "index": index}));
            }
            let stop = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
            let usage = json!({"output_tokens": said.answer_tokens});
            events.push(json!({"type": "message_delta", "delta": stop, "usage": usage}));
            events.push(json!({"type": "message_stop"}));
            named(&events)
        }
        Api::Responses => {
            let mut created = whole.clone();
            created["output"] = json!([]);
            created["status"] = json!("in_progress");
            created["usage"] = Value::Null;
            let mut events = vec![json!({"type": "response.created", "response": created})];
            for (index, item) in whole["output"].as_array().into_iter().flatten().enumerate() {
                events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
                if item["type"] == "message" && !said.text.is_empty() {
                    events.push(
                        json!({"type": "response.output_text.delta", "item_id": message_id(seen), "output_index": index,
                        "content_index": 0, "delta": said.text}),
                    );
                }
                events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
            }
            let end = if said.end == End::Cut { "response.incomplete" } else { "response.completed" };
            events.push(json!({"type": end, "response": whole}));
            for (number, event) in events.iter_mut().enumerate() {
                event["sequence_number"] = json!(number);
            }
            named(&events)
        }
    }
}

fn named(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
        .collect()
}
