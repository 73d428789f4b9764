//! A stretch of conversation as plain text, for the prompt of a summariser.

use crate::text::{clip, push_ends, without_reasoning};
use engine_api::{Conversation, MessageView, PartKind, PartView, Role};
use std::borrow::Cow;
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

/// Times that the bytes of a message are lowered so that all fit.
const CAP_TRIES_MAX: usize = 4;

/// A block's label, the gap before it, and the line that says what is missing.
const FRAME_BYTES: usize = 120;
/// The same in tokens.
const FRAME_TOKENS: u64 = 30;
/// Characters of a tool's name and of a call's id.
const NAME_CHARS: usize = 80;
const ID_CHARS: usize = 64;

/// Gives a part of a message another text: by the position of the message and of the part.
pub type Shortened<'a> = dyn Fn(usize, usize) -> Option<String> + 'a;

/// Returns the messages at these positions as blocks with a blank line between them.
///
/// Reasoning is left out: it may not be shown to another model in some dialects, and what came of it is in the text.
pub fn render(conversation: &Conversation<'_>, positions: &[usize], limits: &Limits) -> String {
    render_with(conversation, positions, limits, &|_, _| None).text
}

/// A rendered stretch, and what it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendered {
    /// The blocks.
    pub text: String,
    /// Tokens by the counts of the parts: of each the share that is shown, and the frames.
    pub tokens_estimate: u64,
}

/// Returns the messages as [`render`] does, with other texts for the results that `shortened` gives one.
pub fn render_with(
    conversation: &Conversation<'_>,
    positions: &[usize],
    limits: &Limits,
    shortened: &Shortened<'_>,
) -> Rendered {
    let mut blocks: Vec<Block<'_>> = Vec::with_capacity(positions.len());
    for &position in positions {
        let Some(message) = conversation.get(position) else { continue };
        let results = message.parts().enumerate().filter(|(_, part)| part.kind() == PartKind::ToolResult);
        let results = results.filter_map(|(index, _)| Some((index, shortened(position, index)?))).collect();
        blocks.push(Block { message, results });
    }
    let claims: Vec<u64> =
        blocks.iter().map(|block| block.bytes_max(limits.message_bytes, limits.argument_bytes) as u64).collect();
    let cap = usize::try_from(crate::shares::level(&claims, limits.total_bytes as u64)).unwrap_or(usize::MAX);
    let least = MESSAGE_BYTES_MIN.min(limits.message_bytes);
    let mut message_bytes = cap.saturating_sub(FRAME_BYTES).clamp(least, limits.message_bytes);
    // A message of several parts may come to more than the cap.
    for _ in 0..CAP_TRIES_MAX {
        let total: usize =
            blocks.iter().map(|block| block.bytes_max(message_bytes, limits.argument_bytes.min(message_bytes))).sum();
        if total <= limits.total_bytes || message_bytes == least {
            break;
        }
        let fitting = message_bytes as u128 * limits.total_bytes as u128 / total as u128;
        message_bytes =
            usize::try_from(fitting).unwrap_or(least).clamp(least, message_bytes.saturating_sub(1).max(least));
    }
    let argument_bytes = limits.argument_bytes.min(message_bytes);

    // Newest first, so that what does not fit is the oldest.
    let mut total = 0usize;
    let fitting = blocks.iter().rev().take_while(|block| {
        total = total.saturating_add(block.bytes_max(message_bytes, argument_bytes));
        total <= limits.total_bytes
    });
    let first = blocks.len() - fitting.count().max(1).min(blocks.len());
    let mut out = String::with_capacity(total.min(limits.total_bytes));
    if first > 0 {
        // Writing to a string cannot fail.
        let _ = write!(out, "[{first} older messages left out]");
    }
    let mut tokens_estimate = 0u64;
    for block in blocks.iter().skip(first) {
        block.push(&mut out, message_bytes, argument_bytes);
        tokens_estimate += block.tokens_estimate(message_bytes, argument_bytes);
    }
    Rendered { text: out, tokens_estimate }
}

/// A message, and other texts for some of its results.
struct Block<'a> {
    message: MessageView<'a>,
    results: Vec<(usize, String)>,
}

impl<'a> Block<'a> {
    /// The text of a result.
    fn result<'b>(&'b self, index: usize, part: &PartView<'a>) -> &'b str {
        self.results.iter().find(|(at, _)| *at == index).map_or(part.text(), |(_, text)| text)
    }

    /// The bytes that the block may come to.
    fn bytes_max(&self, message_bytes: usize, argument_bytes: usize) -> usize {
        let name = |name: &str, chars: usize| name.len().min(chars * 4);
        let bytes = |(index, part): (usize, PartView<'a>)| match part.kind() {
            PartKind::Text => part.text().len().min(message_bytes) + FRAME_BYTES,
            PartKind::ToolCall => {
                part.text().len().min(argument_bytes) + name(part.tool_name(), NAME_CHARS) + FRAME_BYTES
            }
            PartKind::ToolResult => {
                self.result(index, &part).len().min(message_bytes) + name(part.call_id(), ID_CHARS) + FRAME_BYTES
            }
            _ => FRAME_BYTES,
        };
        self.message.parts().enumerate().map(bytes).sum()
    }

    fn tokens_estimate(&self, message_bytes: usize, argument_bytes: usize) -> u64 {
        let shown = |(index, part): (usize, PartView<'a>)| {
            let (text, bytes_max) = match part.kind() {
                PartKind::Text => (part.text(), message_bytes),
                PartKind::ToolCall => (part.text(), argument_bytes),
                PartKind::ToolResult => (self.result(index, &part), message_bytes),
                _ => return FRAME_TOKENS,
            };
            let bytes = text.len().min(bytes_max) as u128;
            let tokens = u128::from(part.tokens()) * bytes / part.text().len().max(1) as u128;
            u64::try_from(tokens).unwrap_or(u64::MAX).saturating_add(FRAME_TOKENS)
        };
        self.message.parts().enumerate().map(shown).sum()
    }

    fn push(&self, out: &mut String, message_bytes: usize, argument_bytes: usize) {
        // Three parts of the beginning to one of the end, near Hermes' 4,000 and 1,500 of 6,000.
        let (head, tail) = (message_bytes / 4 * 3, message_bytes / 4);
        let mut texts = Vec::new();
        let mut has_calls = false;
        for (index, part) in self.message.parts().enumerate() {
            match part.kind() {
                PartKind::Text if self.message.role() == Role::Assistant => texts.push(without_reasoning(part.text())),
                PartKind::Text => texts.push(Cow::Borrowed(part.text())),
                PartKind::Image => texts.push(Cow::Borrowed("[image]")),
                PartKind::ToolCall => has_calls = true,
                PartKind::ToolResult => {
                    let _ = write!(out, "{}[TOOL RESULT {}]: ", gap(out), clip(part.call_id(), ID_CHARS));
                    push_ends(out, self.result(index, &part), head, tail);
                }
                _ => {}
            }
        }
        if texts.iter().any(|text| !text.trim().is_empty()) || has_calls {
            let _ = write!(out, "{}[{}]: ", gap(out), label(&self.message));
            match texts.as_slice() {
                [text] => push_ends(out, text, head, tail),
                several => push_ends(out, &several.join("\n"), head, tail),
            }
        }
        if has_calls {
            out.push_str("\n[Tool calls:");
            for part in self.message.calls() {
                let _ = write!(out, "\n  {}(", clip(part.tool_name(), NAME_CHARS));
                push_ends(out, part.text(), argument_bytes / 5 * 4, 0);
                out.push(')');
            }
            out.push_str("\n]");
        }
    }
}

fn gap(before: &str) -> &'static str {
    if before.is_empty() { "" } else { "\n\n" }
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
        assert!(tiny.len() <= 5_000 + 200, "{}", tiny.len());
        assert!(tiny.len() < 6_000 && tiny.starts_with("[1"), "{tiny:.60}");
    }
    #[test]
    fn results_can_be_shown_shorter_and_the_estimate_follows() {
        let messages = [
            calls(1, &[("a", "bash", "{}")]),
            result(2, "a", "bash", &"long output\n".repeat(1_000)),
            assistant(3, "<think>secret plan</think>Done."),
        ];
        let table = ViewTable::new(1, &messages);
        let with =
            |shortened: &Shortened<'_>| render_with(&table.conversation(), &[0, 1, 2], &Limits::default(), shortened);
        let whole = with(&|_, _| None);
        let short = with(&|position, part| Some(format!("[line {position}.{part}]")));
        assert!(short.text.contains("[TOOL RESULT a]: [line 1.0]\n\n[ASSISTANT]: Done."), "{}", short.text);
        assert!(!whole.text.contains("secret plan"));
        for rendered in [whole, short] {
            let tokens = rendered.text.len() as u64 / 4;
            assert!(rendered.tokens_estimate >= tokens, "{} of {tokens}", rendered.tokens_estimate);
            assert!(rendered.tokens_estimate <= tokens + 3 * 40, "{} of {tokens}", rendered.tokens_estimate);
        }
    }
}
