//! Replies in rounds: what the client sees is one reply, and nothing of the host's.

use super::*;
use crate::SseParser;

const DIALECTS: [Dialect; 3] = [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses];

/// One reply of a model: a text and calls.
struct Said<'a> {
    text: &'a str,
    calls: &'a [&'a str],
}

/// Writes a reply as a provider streams it; `nth` makes ids differ.
fn stream(dialect: Dialect, nth: usize, said: &Said<'_>) -> String {
    let mut out = String::new();
    let mut event = |name: &str, data: Value| {
        if !name.is_empty() {
            out.push_str(&format!("event: {name}\n"));
        }
        out.push_str(&format!("data: {data}\n\n"));
    };
    match dialect {
        Dialect::Anthropic => {
            event(
                "message_start",
                json!({"type": "message_start", "message": {"id": format!("m{nth}"), "role": "assistant", "content": [], "usage": {"input_tokens": 100 * nth, "output_tokens": 1}}}),
            );
            let mut index = 0;
            if !said.text.is_empty() {
                event(
                    "content_block_start",
                    json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
                );
                event(
                    "content_block_delta",
                    json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": said.text}}),
                );
                event("content_block_stop", json!({"type": "content_block_stop", "index": index}));
                index += 1;
            }
            for name in said.calls {
                event(
                    "content_block_start",
                    json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": format!("{name}_{nth}"), "name": name, "input": {}}}),
                );
                for piece in ["{\"q\":", "\"x\"}"] {
                    event(
                        "content_block_delta",
                        json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": piece}}),
                    );
                }
                event("content_block_stop", json!({"type": "content_block_stop", "index": index}));
                index += 1;
            }
            let stop = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
            event(
                "message_delta",
                json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 10}}),
            );
            event("message_stop", json!({"type": "message_stop"}));
        }
        Dialect::Responses => {
            let mut number = 0;
            let mut send = |mut data: Value| {
                data["sequence_number"] = json!(number);
                number += 1;
                let name = data["type"].as_str().unwrap().to_owned();
                event(&name, data);
            };
            send(json!({"type": "response.created", "response": {"id": format!("r{nth}"), "output": []}}));
            let mut items = Vec::new();
            if !said.text.is_empty() {
                let item = json!({"type": "message", "id": format!("i{nth}"), "role": "assistant", "content": [{"type": "output_text", "text": said.text}]});
                send(json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
                send(json!({"type": "response.output_text.delta", "output_index": 0, "delta": said.text}));
                send(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
                items.push(item);
            }
            for name in said.calls {
                let index = items.len();
                let item = json!({"type": "function_call", "id": format!("f{nth}{name}"), "call_id": format!("{name}_{nth}"), "name": name, "arguments": "{\"q\":\"x\"}"});
                send(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
                send(
                    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": "{\"q\":\"x\"}"}),
                );
                send(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
                items.push(item);
            }
            send(
                json!({"type": "response.completed", "response": {"id": format!("r{nth}"), "status": "completed", "output": items, "usage": {"input_tokens": 100 * nth, "output_tokens": 10, "total_tokens": 0}}}),
            );
        }
        _ => {
            let chunk = |choices: Value| json!({"id": format!("c{nth}"), "object": "chat.completion.chunk", "created": nth, "model": "m", "choices": choices});
            let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
            event("", delta(json!({"role": "assistant", "content": ""})));
            if !said.text.is_empty() {
                event("", delta(json!({"content": said.text})));
            }
            for (index, name) in said.calls.iter().enumerate() {
                event(
                    "",
                    delta(
                        json!({"tool_calls": [{"index": index, "id": format!("{name}_{nth}"), "type": "function", "function": {"name": name, "arguments": ""}}]}),
                    ),
                );
                for piece in ["{\"q\":", "\"x\"}"] {
                    event("", delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})));
                }
            }
            let finish = if said.calls.is_empty() { "stop" } else { "tool_calls" };
            event("", chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}])));
            let mut usage = chunk(json!([]));
            usage["usage"] = json!({"prompt_tokens": 100 * nth, "completion_tokens": 10, "total_tokens": 0});
            event("", usage);
            out.push_str("data: [DONE]\n\n");
        }
    }
    out
}

/// Takes replies through a loop in which `recall` is the host's; returns what the client gets and the rounds.
fn follow(dialect: Dialect, replies: &[Said<'_>]) -> (String, Vec<Round>) {
    let mut tools = ToolLoop::new(dialect, HashSet::from(["recall".to_owned()]));
    let (mut out, mut rounds) = (Vec::new(), Vec::new());
    for (nth, said) in (1..).zip(replies) {
        let mut parser = SseParser::default();
        for piece in stream(dialect, nth, said).as_bytes().chunks(7) {
            parser.feed(piece, &mut |event| tools.event(event, &mut out)).unwrap();
        }
        rounds.push(tools.end_round());
    }
    tools.finish(rounds.last().unwrap(), &mut out);
    (String::from_utf8(out).unwrap(), rounds)
}

/// Reads what the client got: the reply as it would send it back, and the last round.
fn as_a_client(dialect: Dialect, text: &str) -> (Round, Vec<Value>) {
    let mut tools = ToolLoop::new(dialect, HashSet::new());
    let (mut parser, mut events, mut out) = (SseParser::default(), Vec::new(), Vec::new());
    parser
        .feed(text.as_bytes(), &mut |event| {
            events.extend(serde_json::from_str::<Value>(&event.data));
            tools.event(event, &mut out);
        })
        .unwrap();
    (tools.end_round(), events)
}

#[test]
fn without_a_call_of_the_hosts_every_byte_passes() {
    for dialect in DIALECTS {
        for said in [Said { text: "hello", calls: &[] }, Said { text: "", calls: &["read", "write"] }] {
            let (out, rounds) = follow(dialect, &[Said { ..said }]);
            assert_eq!(out, stream(dialect, 1, &said), "{dialect}");
            assert_eq!((rounds[0].host_calls.len(), rounds[0].client_calls.len()), (0, said.calls.len()));
            assert_eq!(rounds[0].usage.as_ref().map(|usage| usage.prompt_tokens), Some(100));
        }
    }
}

#[test]
fn a_recall_call_and_its_round_become_one_reply() {
    for dialect in DIALECTS {
        let replies =
            [Said { text: "Let me look. ", calls: &["recall"] }, Said { text: "It was 42.", calls: &["read"] }];
        let (out, rounds) = follow(dialect, &replies);
        assert_eq!(
            rounds[0].host_calls,
            [ReplyCall { call_id: "recall_1".into(), name: "recall".into(), arguments: "{\"q\":\"x\"}".into() }]
        );
        assert!(!out.contains("recall"), "{dialect}: {out}");
        let (seen, events) = as_a_client(dialect, &out);
        assert_eq!(
            seen.client_calls.iter().map(|call| call.call_id.as_str()).collect::<Vec<_>>(),
            ["read_2"],
            "{dialect}"
        );
        assert!(seen.items.concat().contains("Let me look."), "{dialect}");
        assert!(seen.items.concat().contains("It was 42."), "{dialect}");
        let usage = seen.usage.unwrap();
        assert_eq!(usage.completion_tokens, 20, "{dialect}");
        let indexes: Vec<u64> = events
            .iter()
            .filter_map(|event| event.get("output_index").or_else(|| event.get("index")).and_then(Value::as_u64))
            .collect();
        assert!(indexes.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1), "{dialect}: {indexes:?}");
        let numbers: Vec<u64> =
            events.iter().filter_map(|event| event.get("sequence_number").and_then(Value::as_u64)).collect();
        assert!(numbers.iter().enumerate().all(|(at, number)| *number == at as u64), "{dialect}: {numbers:?}");
        let ids: HashSet<&str> = events.iter().filter_map(|event| event.get("id").and_then(Value::as_str)).collect();
        assert!(ids.len() <= 1, "{dialect}: {ids:?}");
    }
}

#[test]
fn of_mixed_calls_the_client_gets_its_own() {
    for dialect in DIALECTS {
        let (out, rounds) = follow(dialect, &[Said { text: "", calls: &["recall", "read", "recall", "write"] }]);
        assert_eq!((rounds[0].host_calls.len(), rounds[0].client_calls.len()), (2, 2));
        let (seen, _) = as_a_client(dialect, &out);
        let names: Vec<&str> = seen.client_calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["read", "write"], "{dialect}: {out}");
        assert!(out.contains("tool_use") || out.contains("tool_calls") || dialect == Dialect::Responses);
    }
}

#[test]
fn where_rounds_end_without_calls_of_the_client_the_reply_ends_its_turn() {
    for dialect in DIALECTS {
        let (out, _) = follow(dialect, &[Said { text: "Looking.", calls: &["recall"] }]);
        let (seen, _) = as_a_client(dialect, &out);
        assert!(seen.client_calls.is_empty(), "{dialect}");
        assert!(!out.contains("\"tool_use\"") && !out.contains("\"finish_reason\":\"tool_calls\""), "{dialect}: {out}");
    }
}

#[test]
fn whole_bodies_are_merged_likewise() {
    let chat = |nth: u64, text: &str, calls: &[&str]| {
        let calls: Vec<Value> = calls.iter().map(|name| json!({"id": format!("{name}_{nth}"), "type": "function", "function": {"name": name, "arguments": "{}"}})).collect();
        let mut message = json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        json!({"id": format!("c{nth}"), "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": nth, "completion_tokens": 1}}).to_string()
    };
    let mut tools = ToolLoop::new(Dialect::OpenAiChat, HashSet::from(["recall".to_owned()]));
    let body = chat(1, "hi", &[]);
    tools.body(&body);
    let round = tools.end_round();
    assert_eq!(tools.merged_body(&round), body);

    let mut tools = ToolLoop::new(Dialect::OpenAiChat, HashSet::from(["recall".to_owned()]));
    tools.body(&chat(1, "a ", &["recall"]));
    assert_eq!(tools.end_round().host_calls.len(), 1);
    tools.body(&chat(2, "b", &["read"]));
    let round = tools.end_round();
    let merged: Value = serde_json::from_str(&tools.merged_body(&round)).unwrap();
    assert_eq!(merged["id"], "c1");
    assert_eq!(merged["choices"][0]["message"]["content"], "a b");
    assert_eq!(merged["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(merged["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn later_requests_tell_of_the_call_and_its_answer_in_pairs() {
    for dialect in DIALECTS {
        let (_, rounds) = follow(dialect, &[Said { text: "t", calls: &["recall", "read"] }]);
        let raws = exchange(dialect, &rounds[0].items, &rounds[0].host_calls, &["found \"it\"".to_owned()]);
        assert_eq!(raws.len(), 2, "{dialect}: {raws:?}");
        let call = crate::parse_message(dialect, &raws[0]).unwrap();
        let answer = crate::parse_message(dialect, &raws[1]).unwrap();
        assert_eq!((call.parts.len(), answer.parts.len()), (1, 1), "{dialect}: {raws:?}");
        assert_eq!((call.parts[0].call_id.as_str(), answer.parts[0].call_id.as_str()), ("recall_1", "recall_1"));
        assert_eq!(answer.parts[0].text, "found \"it\"");
    }
}

#[test]
fn tools_are_offered_behind_the_clients_own() {
    let schema = |name: &str| ToolSchema::new(name, "d", json!({"type": "object"}));
    let own = "[ {\"type\":\"function\",\"function\":{\"name\":\"read\"}} ]";
    let (tools, names) = offer_tools(Some(own), Dialect::OpenAiChat, &[schema("recall"), schema("read")]);
    assert_eq!(names, ["recall"]);
    assert!(tools.starts_with("[ {\"type\":\"function\",\"function\":{\"name\":\"read\"}} ,{"), "{tools}");
    assert_eq!(serde_json::from_str::<Vec<Value>>(&tools).unwrap().len(), 2);
    let (tools, _) = offer_tools(Some("[]"), Dialect::Anthropic, &[schema("recall")]);
    assert!(serde_json::from_str::<Vec<Value>>(&tools).unwrap()[0].get("input_schema").is_some());
    let namespace = "[{\"type\":\"namespace\",\"name\":\"functions\",\"tools\":[{\"name\":\"recall\"}]}]";
    assert!(offer_tools(Some(namespace), Dialect::Responses, &[schema("recall")]).1.is_empty());
}
