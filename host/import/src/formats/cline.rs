//! Cline's message store: Anthropic messages with members and blocks of its own, which the API does not know.
//!
//! Content that the API knows keeps its bytes; file blocks and structured result parts become text, as the program sends them.

use super::walk::{Place, take_string, top};
use crate::build::{Mark, parse};
use crate::input::Input;
use crate::json::{self, elements, number, pick, quote, text};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::{Dialect, Message};

/// Parts of a result the API knows.
const RESULT_PARTS: [&str; 5] = ["text", "image", "document", "search_result", "tool_reference"];

#[derive(Default)]
struct Store {
    id: String,
    system: Option<String>,
    model: Option<String>,
    messages: Vec<Message>,
    prompt_tokens: Option<u64>,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let is_live = context.is_live();
    let mut store = Store::default();
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Begin => Ok(()),
        Place::Member("sessionId") => {
            store.id = take_string(scanner, problems)?.unwrap_or_default();
            Ok(())
        }
        Place::Member("system_prompt") => {
            store.system = scanner.take(problems)?.filter(|raw| raw.starts_with('"') && raw != "\"\"");
            Ok(())
        }
        Place::Member("messages") => scanner
            .array(&mut |scanner| {
                let line = scanner.line();
                if let Some(record) = scanner.take(problems)? {
                    store.message(line, &record, is_live, problems);
                }
                Ok(())
            })
            .map(|_| ()),
        Place::Element => {
            let line = scanner.line();
            if let Some(record) = scanner.take(problems)? {
                store.message(line, &record, is_live, problems);
            }
            Ok(())
        }
        Place::Member(_) => scanner.skip(),
    })?;
    host_wire::number(&mut store.messages);
    let model = store.model.map(|model| ("model".to_owned(), quote(&model)));
    let members = model.into_iter().chain(store.system.map(|system| ("system".to_owned(), system))).collect();
    let mut made = conversation(store.id, "", Kind::Main, Dialect::Anthropic, members, store.messages);
    made.reported_tokens = store.prompt_tokens;
    Ok(vec![made])
}

impl Store {
    fn message(&mut self, line: u64, record: &str, is_live: bool, problems: &mut Problems) {
        let Ok([role, content, metadata, model, metrics]) =
            pick(record, ["role", "content", "metadata", "modelInfo", "metrics"])
        else {
            problems.lost(Some(line), || "a message that is no JSON object; left out".to_owned());
            return;
        };
        let (Some(role), Some(content)) = (role, content) else {
            problems.warn(Some(line), || "a message without a role or content; left out".to_owned());
            return;
        };
        let kind = metadata.and_then(|metadata| pick(metadata, ["kind"]).ok()).and_then(|[kind]| text(kind));
        let is_summary = kind.is_some_and(|kind| kind.contains("compaction"));
        if is_summary && !is_live {
            return;
        }
        if let Some(Ok([Some(id)])) = model.map(|model| pick(model, ["id"])) {
            self.model = json::string(id).map(|id| id.into_owned());
        }
        if let Some(Ok(counts)) = metrics.map(|metrics| pick(metrics, ["inputTokens"])) {
            self.prompt_tokens = number(counts[0]).filter(|tokens| *tokens > 0).or(self.prompt_tokens);
        }
        let blocks = elements(content);
        let sent: Vec<String> = blocks.iter().map(|block| as_sent(block)).collect();
        let is_same = sent.iter().zip(&blocks).all(|(sent, block)| sent == block);
        let content = if is_same { content.to_owned() } else { format!("[{}]", sent.join(",")) };
        let mark = if is_summary { Mark::Summary } else { Mark::AsRead };
        let raw = format!("{{\"role\":{role},\"content\":{content}}}");
        self.messages.extend(parse(Dialect::Anthropic, &raw, mark, Some(line), problems));
    }
}

fn as_sent(block: &str) -> String {
    let Ok([kind, path, content]) = pick(block, ["type", "path", "content"]) else { return block.to_owned() };
    match text(kind).as_deref() {
        Some("file") => {
            let path = text(path).unwrap_or_default();
            let body = text(content).unwrap_or_default();
            let shown = format!("<file_content path=\"{path}\">\n{body}\n</file_content>");
            format!("{{\"type\":\"text\",\"text\":{}}}", quote(&shown))
        }
        Some("tool_result") => {
            let keep = |key: &str| matches!(key, "type" | "tool_use_id" | "content" | "is_error" | "cache_control");
            let Some(all) = json::members(block) else { return block.to_owned() };
            let members = all.iter().filter(|(key, _)| keep(key)).map(|(key, raw)| {
                let raw = if key == "content" { result_content(raw) } else { (*raw).to_owned() };
                format!("{}:{raw}", quote(key))
            });
            let rebuilt = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
            let is_known = all.iter().all(|(key, raw)| keep(key) && (key != "content" || result_content(raw) == *raw));
            if is_known { block.to_owned() } else { rebuilt }
        }
        _ => block.to_owned(),
    }
}

fn result_content(raw: &str) -> String {
    let parts = elements(raw);
    let kind = |part: &str| pick(part, ["type"]).ok().and_then(|[kind]| text(kind).map(|kind| kind.into_owned()));
    let is_known = |part: &str| kind(part).is_some_and(|kind| RESULT_PARTS.contains(&kind.as_str()));
    if raw.starts_with('"') || !raw.starts_with('{') && parts.iter().all(|part| is_known(part)) {
        return raw.to_owned();
    }
    if parts.is_empty() {
        return quote(raw);
    }
    let written = parts.iter().map(|part| match is_known(part) {
        true => (*part).to_owned(),
        false => format!("{{\"type\":\"text\",\"text\":{}}}", quote(part)),
    });
    format!("[{}]", written.collect::<Vec<_>>().join(","))
}
