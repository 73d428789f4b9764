//! Writes pi's messages in the dialect of the session.

use super::{is_excluded, prompt_tokens};
use crate::build::{Builder, Call, Mark, Piece};
use crate::formats::walk::{arguments, pieces};
use crate::json::{self, get_str, pick, quote};
use crate::problems::Problems;
use engine_api::Dialect;
use serde_json::Value;
use std::collections::HashSet;

/// How the program words a summary for the model.
const SUMMARY_BEFORE: &str =
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n";
const SUMMARY_AFTER: &str = "\n</summary>";

pub(super) struct Writer<'s> {
    pub(super) builder: Builder,
    pub(super) prompt_tokens: Option<u64>,
    dialect: Dialect,
    is_live: bool,
    answered: &'s HashSet<String>,
}

impl<'s> Writer<'s> {
    pub(super) fn new(builder: Builder, dialect: Dialect, is_live: bool, answered: &'s HashSet<String>) -> Self {
        Writer { builder, prompt_tokens: None, dialect, is_live, answered }
    }

    pub(super) fn summary(&mut self, summary: &str) {
        self.builder.user_text(&format!("{SUMMARY_BEFORE}{summary}{SUMMARY_AFTER}"), Mark::Summary, None);
    }

    pub(super) fn injected(&mut self, text: &str, line: u64) {
        self.builder.user_text(text, Mark::Injected, Some(line));
    }

    pub(super) fn message(&mut self, raw: &str, line: u64, problems: &mut Problems) {
        let message = match json::value(raw) {
            Ok(message) => message,
            Err(error) => {
                problems.lost(Some(line), || format!("a message that cannot be read; left out: {error}"));
                return;
            }
        };
        let null = Value::Null;
        let content = message.get("content").unwrap_or(&null);
        match get_str(&message, "role").unwrap_or_default() {
            "user" => self.user(content, line),
            "assistant" => {
                if let Ok([Some(usage)]) = pick(raw, ["usage"]) {
                    self.prompt_tokens = prompt_tokens(usage).or(self.prompt_tokens);
                }
                self.assistant(&message, content, line);
            }
            "toolResult" => {
                let id = get_str(&message, "toolCallId").unwrap_or_default();
                if self.dialect == Dialect::Anthropic {
                    let is_error = message.get("isError") == Some(&Value::Bool(true));
                    let body = result_block(id, content, is_error);
                    self.builder.answer(id, body, Some(line), problems);
                } else {
                    self.builder.result(id, &pieces(content), Some(line), problems);
                }
            }
            "bashExecution" if !is_excluded(raw) => {
                self.builder.user_text(&shell_text(&message), Mark::Injected, Some(line))
            }
            "bashExecution" => {}
            role => problems.warn(Some(line), || format!("a message of role {role:?}; left out")),
        }
    }

    fn user(&mut self, content: &Value, line: u64) {
        let said = pieces(content);
        if self.dialect != Dialect::Anthropic {
            self.builder.user(&said, Mark::AsRead, Some(line));
        } else if let Some(content) = anthropic_content(&said) {
            self.builder.message(format!("{{\"role\":\"user\",\"content\":{content}}}"), Mark::AsRead, Some(line));
        }
    }

    fn assistant(&mut self, message: &Value, content: &Value, line: u64) {
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_broken_off = matches!(get_str(message, "stopReason"), Some("error" | "aborted"));
        let is_answered = |block: &&Value| get_str(block, "id").is_some_and(|id| self.answered.contains(id));
        let calls: Vec<&Value> = blocks.iter().filter(|block| get_str(block, "type") == Some("toolCall")).collect();
        // A message that broke off is not sent again, unless one of its calls was run.
        if is_broken_off && self.is_live && !calls.iter().any(is_answered) {
            return;
        }
        // Calls of it that were never run are half-written.
        let is_sent =
            |block: &Value| !is_broken_off || get_str(block, "type") != Some("toolCall") || is_answered(&block);
        let sent: Vec<&Value> = blocks.iter().filter(|block| is_sent(block)).collect();
        if self.dialect == Dialect::Anthropic {
            self.anthropic(&sent, line);
        } else {
            self.openai(content, &sent, line);
        }
    }

    fn openai(&mut self, content: &Value, sent: &[&Value], line: u64) {
        let join = |kind: &str, key: &str| {
            let texts = sent
                .iter()
                .filter(|block| get_str(block, "type") == Some(kind))
                .filter_map(|block| get_str(block, key));
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        };
        let text = content.as_str().map(str::to_owned).unwrap_or_else(|| join("text", "text"));
        let calls = sent.iter().filter(|block| get_str(block, "type") == Some("toolCall")).map(|block| Call {
            id: get_str(block, "id").unwrap_or_default().to_owned(),
            name: get_str(block, "name").unwrap_or_default().to_owned(),
            arguments: arguments(block.get("arguments")),
        });
        self.builder.assistant(&text, &join("thinking", "thinking"), calls.collect(), Some(line));
    }

    fn anthropic(&mut self, sent: &[&Value], line: u64) {
        let mut ids = Vec::new();
        let mut written: Vec<String> = Vec::new();
        let mut says_something = false;
        for block in sent {
            let field = |key: &str| get_str(block, key).unwrap_or_default();
            let text = |text: &str| format!("{{\"type\":\"text\",\"text\":{}}}", quote(text));
            match field("type") {
                "text" if !field("text").trim().is_empty() => {
                    says_something = true;
                    written.push(text(field("text")));
                }
                "thinking" if !field("thinkingSignature").is_empty() => written.push(format!(
                    "{{\"type\":\"thinking\",\"thinking\":{},\"signature\":{}}}",
                    quote(field("thinking")),
                    quote(field("thinkingSignature"))
                )),
                // Thinking that broke off has no signature and goes as plain text.
                "thinking" if !field("thinking").trim().is_empty() => written.push(text(field("thinking"))),
                "toolCall" => {
                    says_something = true;
                    let input = block
                        .get("arguments")
                        .filter(|input| input.is_object())
                        .map_or_else(|| "{}".to_owned(), Value::to_string);
                    written.push(format!(
                        "{{\"type\":\"tool_use\",\"id\":{},\"name\":{},\"input\":{input}}}",
                        quote(field("id")),
                        quote(field("name"))
                    ));
                    ids.push((field("id").to_owned(), field("id").to_owned()));
                }
                _ => {}
            }
        }
        if says_something {
            let raw = format!("{{\"role\":\"assistant\",\"content\":[{}]}}", written.join(","));
            self.builder.calling(raw, ids, Some(line));
        }
    }
}

fn result_block(id: &str, content: &Value, is_error: bool) -> String {
    let content = anthropic_content(&pieces(content)).unwrap_or_else(|| quote(if is_error { "error" } else { "" }));
    let error = if is_error { ",\"is_error\":true" } else { "" };
    format!("{{\"type\":\"tool_result\",\"tool_use_id\":{},\"content\":{content}{error}}}", quote(id))
}

fn anthropic_content(pieces: &[Piece]) -> Option<String> {
    let kept: Vec<&Piece> =
        pieces.iter().filter(|piece| !matches!(piece, Piece::Text(text) if text.trim().is_empty())).collect();
    if let [Piece::Text(text)] = kept.as_slice() {
        return Some(quote(text));
    }
    let blocks = kept.iter().map(|piece| match piece {
        Piece::Text(text) => format!("{{\"type\":\"text\",\"text\":{}}}", quote(text)),
        Piece::Image(url) => match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((mime, data)) => format!(
                "{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":{},\"data\":{}}}}}",
                quote(mime),
                quote(data)
            ),
            None => format!("{{\"type\":\"image\",\"source\":{{\"type\":\"url\",\"url\":{}}}}}", quote(url)),
        },
    });
    Some(format!("[{}]", blocks.collect::<Vec<_>>().join(","))).filter(|_| !kept.is_empty())
}

// How the program tells the model of a command that the person ran.
fn shell_text(message: &Value) -> String {
    let mut text = format!("Ran `{}`\n", get_str(message, "command").unwrap_or_default());
    match get_str(message, "output").unwrap_or_default() {
        "" => text.push_str("(no output)"),
        output => text.push_str(&format!("```\n{output}\n```")),
    }
    if message.get("cancelled") == Some(&Value::Bool(true)) {
        text.push_str("\n\n(command cancelled)");
    } else if let Some(code) = message.get("exitCode").and_then(Value::as_i64).filter(|code| *code != 0) {
        text.push_str(&format!("\n\nCommand exited with code {code}"));
    }
    text
}
