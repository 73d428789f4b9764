//! A stretch of conversation as plain text, for the prompt of a summariser.

use crate::text::{clip, ends};
use engine_api::{Conversation, MessageView, PartKind, Role};
use std::fmt::Write;

/// How much of each message is shown.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a message's text or a result; of a longer one the first two thirds and the end are shown.
    pub message_bytes: usize,
    /// Bytes of a call's arguments.
    pub argument_bytes: usize,
    /// Bytes in all: with more, every message is shown shorter, and the oldest are left out last.
    pub total_bytes: usize,
}

impl Default for Limits {
    /// Hermes' 6,000 characters for a message and 1,500 for arguments; in all, what a million tokens hold.
    fn default() -> Self {
        Limits { message_bytes: 6_000, argument_bytes: 1_500, total_bytes: 4_000_000 }
    }
}

/// No message is shown shorter than this on the way to the limit for all.
const MESSAGE_BYTES_MIN: usize = 200;

/// A block's label, and the line that says what is missing.
const FRAME_BYTES: u64 = 120;

/// Returns the messages at these positions as blocks with a blank line between them.
///
/// Reasoning is left out: it may not be shown to another model in some dialects, and what came of it is in the text.
pub fn render(conversation: &Conversation<'_>, positions: &[usize], limits: &Limits) -> String {
    let sizes: Vec<u64> = positions
        .iter()
        .filter_map(|&position| conversation.get(position))
        .map(|message| {
            message.parts().map(|part| part.text().len().min(limits.message_bytes) as u64 + FRAME_BYTES).sum()
        })
        .collect();
    let cap = crate::shares::level(&sizes, limits.total_bytes as u64);
    let message_bytes = usize::try_from(cap.saturating_sub(FRAME_BYTES))
        .unwrap_or(usize::MAX)
        .clamp(MESSAGE_BYTES_MIN, limits.message_bytes.max(MESSAGE_BYTES_MIN));
    let argument_bytes = limits.argument_bytes.min(message_bytes);

    // Newest first, so that what does not fit is the oldest.
    let mut blocks = Vec::new();
    let mut total = 0usize;
    let mut left_out = 0u64;
    for message in positions.iter().rev().filter_map(|&position| conversation.get(position)) {
        let block = block(&message, message_bytes, argument_bytes);
        if block.is_empty() {
            continue;
        }
        if total + block.len() > limits.total_bytes && !blocks.is_empty() {
            left_out += 1;
            continue;
        }
        total += block.len() + 2;
        blocks.push(block);
    }
    if left_out > 0 {
        blocks.push(format!("[{left_out} older messages left out]"));
    }
    blocks.reverse();
    blocks.join("\n\n")
}

fn block(message: &MessageView<'_>, message_bytes: usize, argument_bytes: usize) -> String {
    let mut out = String::new();
    let mut body = String::new();
    let mut calls = String::new();
    for part in message.parts() {
        // Writing to a string cannot fail.
        match part.kind() {
            PartKind::Text => {
                if !body.is_empty() {
                    body.push('\n');
                }
                body.push_str(part.text());
            }
            PartKind::ToolCall => {
                let _ = write!(
                    calls,
                    "\n  {}({})",
                    clip(part.tool_name(), 80),
                    ends(part.text(), argument_bytes / 5 * 4, 0)
                );
            }
            PartKind::ToolResult => {
                let _ = write!(
                    out,
                    "{}[TOOL RESULT {}]: {}",
                    gap(&out),
                    clip(part.call_id(), 64),
                    shown(part.text(), message_bytes)
                );
            }
            PartKind::Image => {
                let _ = write!(body, "{}[image]", if body.is_empty() { "" } else { "\n" });
            }
            _ => {}
        }
    }
    if !body.trim().is_empty() || !calls.is_empty() {
        let _ = write!(out, "{}[{}]: {}", gap(&out), label(message), shown(&body, message_bytes));
    }
    if !calls.is_empty() {
        let _ = write!(out, "\n[Tool calls:{calls}\n]");
    }
    out
}

fn gap(before: &str) -> &'static str {
    if before.is_empty() { "" } else { "\n\n" }
}

fn shown(text: &str, bytes_max: usize) -> String {
    // Three parts of the beginning to one of the end, near Hermes' 4,000 and 1,500 of 6,000.
    ends(text, bytes_max / 4 * 3, bytes_max / 4)
}

fn label(message: &MessageView<'_>) -> &'static str {
    if message.is_summary() && !message.is_real_user() {
        return "EARLIER SUMMARY";
    }
    match message.role() {
        Role::User if message.is_real_user() => "USER",
        Role::User => "CLIENT",
        Role::Assistant => "ASSISTANT",
        Role::System => "SYSTEM",
        Role::Developer => "DEVELOPER",
        Role::Tool => "TOOL",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::ViewTable;
    use engine_api::testing::{assistant, calls, result, system, user};

    #[test]
    fn messages_become_labelled_blocks() {
        let messages = [
            system(1, "be brief"),
            user(2, "list it"),
            calls(3, &[("a", "bash", "{\"command\":\"ls\"}")]),
            result(4, "a", "bash", "one\ntwo"),
            assistant(5, "Two files."),
        ];
        let table = ViewTable::new(1, &messages);
        let got = render(&table.conversation(), &[0, 1, 2, 3, 4, 9], &Limits::default());
        let want = "[SYSTEM]: be brief\n\n[USER]: list it\n\n[ASSISTANT]: \n[Tool calls:\n  bash({\"command\":\"ls\"})\n]\n\n\
                    [TOOL RESULT a]: one\ntwo\n\n[ASSISTANT]: Two files.";
        assert_eq!(got, want);
    }

    #[test]
    fn the_text_is_bounded_per_message_and_in_all() {
        let long = "word ".repeat(10_000);
        let messages: Vec<_> = (1..=200).map(|id| result(id, "c", "bash", &long)).collect();
        let table = ViewTable::new(1, &messages);
        let positions: Vec<usize> = (0..200).collect();
        let render =
            |total_bytes| render(&table.conversation(), &positions, &Limits { total_bytes, ..Limits::default() });
        assert!(render(4_000_000).len() < 200 * 6_200);
        let small = render(100_000);
        assert!(small.len() <= 110_000, "{}", small.len());
        assert_eq!(small.matches("[TOOL RESULT").count(), 200, "all are shown, each shorter");
        let tiny = render(5_000);
        assert!(tiny.len() < 6_000 && tiny.starts_with("[1"), "{tiny:.60}");
    }
}
