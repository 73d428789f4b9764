//! Whole replies that the host writes itself, where it answers in place of a model.

use crate::json::quote;
use engine_api::{Dialect, Usage};

/// A reply of our own.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnReply {
    /// The model that was asked.
    pub model: String,
    /// Its text; empty where there is an item.
    pub text: String,
    /// What it is said to have cost.
    pub usage: Usage,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// For Responses: an output item in place of a text.
    pub item: Option<String>,
}

/// Returns the reply as one JSON body.
pub fn own_json(dialect: Dialect, reply: &OwnReply) -> String {
    match dialect {
        Dialect::Anthropic => {
            anthropic(reply, &format!("[{}]", text_block(&reply.text)), "\"end_turn\"", &anthropic_usage(reply))
        }
        Dialect::Responses => response(reply, "completed", &item(reply), Some(&responses_usage(&reply.usage))),
        _ => format!(
            "{{\"id\":\"{}\",\"object\":\"chat.completion\",\"created\":{},\"model\":{},\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":{}}},\"finish_reason\":\"stop\"}}],\"usage\":{}}}",
            id(reply, "chatcmpl"),
            reply.created,
            quote(&reply.model),
            quote(&reply.text),
            chat_usage(&reply.usage)
        ),
    }
}

/// Returns the reply as a whole event stream.
pub fn own_stream(dialect: Dialect, reply: &OwnReply) -> String {
    match dialect {
        Dialect::Anthropic => anthropic_stream(reply),
        Dialect::Responses => responses_stream(reply),
        _ => chat_stream(reply),
    }
}

/// Returns the body that answers `POST /responses/compact`: the whole new window.
pub fn compact_body(items: &[String], usage: &Usage, created: u64) -> String {
    format!(
        "{{\"id\":\"resp_palimpsest_{created}\",\"object\":\"response.compaction\",\"created_at\":{created},\"output\":[{}],\"usage\":{}}}",
        items.join(","),
        responses_usage(usage)
    )
}

fn chat_stream(reply: &OwnReply) -> String {
    let (id, created, model) = (id(reply, "chatcmpl"), reply.created, quote(&reply.model));
    let chunk = |choices: &str, usage: &str| {
        format!(
            "data: {{\"id\":\"{id}\",\"object\":\"chat.completion.chunk\",\"created\":{created},\"model\":{model},\"choices\":[{choices}]{usage}}}\n\n"
        )
    };
    let delta = |delta: String, finish: &str| format!("{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}");
    [
        chunk(&delta("{\"role\":\"assistant\",\"content\":\"\"}".to_owned(), "null"), ""),
        chunk(&delta(format!("{{\"content\":{}}}", quote(&reply.text)), "null"), ""),
        chunk(&delta("{}".to_owned(), "\"stop\""), ""),
        chunk("", &format!(",\"usage\":{}", chat_usage(&reply.usage))),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

fn anthropic_stream(reply: &OwnReply) -> String {
    let mut start = reply.clone();
    start.usage.completion_tokens = 0;
    let start_usage = anthropic_usage(&start);
    let message = anthropic(reply, "[]", "null", &start_usage);
    let event = |name: &str, rest: String| format!("event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n");
    [
        event("message_start", format!(",\"message\":{message}")),
        event("content_block_start", format!(",\"index\":0,\"content_block\":{}", text_block(""))),
        event(
            "content_block_delta",
            format!(",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":{}}}", quote(&reply.text)),
        ),
        event("content_block_stop", ",\"index\":0".to_owned()),
        event(
            "message_delta",
            format!(
                ",\"delta\":{{\"stop_reason\":\"end_turn\",\"stop_sequence\":null}},\"usage\":{{\"output_tokens\":{}}}",
                reply.usage.completion_tokens
            ),
        ),
        event("message_stop", String::new()),
    ]
    .concat()
}

fn responses_stream(reply: &OwnReply) -> String {
    let item = item(reply);
    let mut events = vec![
        ("response.created", format!(",\"response\":{}", response(reply, "in_progress", "", None))),
        ("response.in_progress", format!(",\"response\":{}", response(reply, "in_progress", "", None))),
    ];
    if reply.item.is_none() {
        let id = id(reply, "msg");
        let place = format!(",\"item_id\":\"{id}\",\"output_index\":0,\"content_index\":0");
        let opened = format!(
            "{{\"type\":\"message\",\"id\":\"{id}\",\"status\":\"in_progress\",\"role\":\"assistant\",\"content\":[]}}"
        );
        events.push(("response.output_item.added", format!(",\"output_index\":0,\"item\":{opened}")));
        events.push(("response.content_part.added", format!("{place},\"part\":{}", output_text(""))));
        events.push(("response.output_text.delta", format!("{place},\"delta\":{}", quote(&reply.text))));
        events.push(("response.output_text.done", format!("{place},\"text\":{}", quote(&reply.text))));
        events.push(("response.content_part.done", format!("{place},\"part\":{}", output_text(&reply.text))));
    } else {
        events.push(("response.output_item.added", format!(",\"output_index\":0,\"item\":{item}")));
    }
    events.push(("response.output_item.done", format!(",\"output_index\":0,\"item\":{item}")));
    let usage = responses_usage(&reply.usage);
    events.push(("response.completed", format!(",\"response\":{}", response(reply, "completed", &item, Some(&usage)))));
    let numbered = events.iter().enumerate().map(|(nth, (name, rest))| {
        format!("event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{nth}{rest}}}\n\n")
    });
    numbered.collect()
}

fn anthropic(reply: &OwnReply, content: &str, stop: &str, usage: &str) -> String {
    format!(
        "{{\"id\":\"{}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{},\"content\":{content},\"stop_reason\":{stop},\"stop_sequence\":null,\"usage\":{usage}}}",
        id(reply, "msg"),
        quote(&reply.model)
    )
}

fn response(reply: &OwnReply, status: &str, output: &str, usage: Option<&str>) -> String {
    format!(
        "{{\"id\":\"{}\",\"object\":\"response\",\"created_at\":{},\"status\":\"{status}\",\"error\":null,\"incomplete_details\":null,\"model\":{},\"output\":[{output}],\"usage\":{}}}",
        id(reply, "resp"),
        reply.created,
        quote(&reply.model),
        usage.unwrap_or("null")
    )
}

fn item(reply: &OwnReply) -> String {
    reply.item.clone().unwrap_or_else(|| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{}\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{}]}}",
            id(reply, "msg"),
            output_text(&reply.text)
        )
    })
}

fn output_text(text: &str) -> String {
    format!("{{\"type\":\"output_text\",\"text\":{},\"annotations\":[]}}", quote(text))
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", quote(text))
}

fn chat_usage(usage: &Usage) -> String {
    let (prompt, answer) = (usage.prompt_tokens, usage.completion_tokens);
    format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":{answer},\"total_tokens\":{}}}", prompt + answer)
}

fn responses_usage(usage: &Usage) -> String {
    let (prompt, answer) = (usage.prompt_tokens, usage.completion_tokens);
    format!(
        "{{\"input_tokens\":{prompt},\"input_tokens_details\":{{\"cached_tokens\":0}},\"output_tokens\":{answer},\"output_tokens_details\":{{\"reasoning_tokens\":0}},\"total_tokens\":{}}}",
        prompt + answer
    )
}

fn anthropic_usage(reply: &OwnReply) -> String {
    let (prompt, answer) = (reply.usage.prompt_tokens, reply.usage.completion_tokens);
    format!(
        "{{\"input_tokens\":{prompt},\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":{answer}}}"
    )
}

/// The same reply has the same id, so that a repeated request is answered alike.
fn id(reply: &OwnReply, prefix: &str) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (&reply.model, &reply.text, &reply.item).hash(&mut hasher);
    format!("{prefix}_palimpsest_{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn reply(item: Option<&str>) -> OwnReply {
        let mut usage = Usage::default();
        (usage.prompt_tokens, usage.completion_tokens) = (100, 7);
        OwnReply {
            model: "m".into(),
            text: "a \"text\"\nof ours".into(),
            usage,
            created: 1,
            item: item.map(str::to_owned),
        }
    }

    #[test]
    fn what_we_write_is_read_as_a_whole_reply() {
        for dialect in [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses] {
            let mut usage = crate::UsageReader::new(dialect);
            usage.body(&own_json(dialect, &reply(None)));
            assert_eq!(
                usage.usage().map(|usage| (usage.prompt_tokens, usage.completion_tokens)),
                Some((100, 7)),
                "{dialect}"
            );
            let (mut usage, mut parser) = (crate::UsageReader::new(dialect), crate::SseParser::default());
            let stream = own_stream(dialect, &reply(None));
            parser.feed(stream.as_bytes(), &mut |event| usage.event(event)).unwrap();
            assert_eq!(
                usage.usage().map(|usage| (usage.prompt_tokens, usage.completion_tokens)),
                Some((100, 7)),
                "{dialect}"
            );
            assert!(stream.contains("a \\\"text\\\"\\nof ours"));
        }
    }

    #[test]
    fn an_item_stands_in_for_the_text_in_responses() {
        let item = "{\"type\":\"compaction\",\"encrypted_content\":\"x\"}";
        let json: Value = serde_json::from_str(&own_json(Dialect::Responses, &reply(Some(item)))).unwrap();
        assert_eq!(json["output"][0]["type"], "compaction");
        let stream = own_stream(Dialect::Responses, &reply(Some(item)));
        assert_eq!(stream.matches("event: response.output_item.done").count(), 1);
        assert!(!stream.contains("output_text.delta"));
        let body: Value = serde_json::from_str(&compact_body(&[item.to_owned()], &Usage::default(), 1)).unwrap();
        assert_eq!(
            (body["object"].as_str(), body["output"].as_array().map(Vec::len)),
            (Some("response.compaction"), Some(1))
        );
    }
}
