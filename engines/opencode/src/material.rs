//! The older part as plain text, as the program shows it to its summariser: results are cut.
//!
//! Results hidden by an earlier compaction appear as their notice, for that is what the conversation holds of them.

use engine_api::{Conversation, MessageView, PartKind, Role};
use engine_kit::shares::level;
use engine_kit::text::{clip, ends, prefix, without_reasoning};
use std::fmt::Write;

/// Bytes of a call's arguments: a written file is in its result's effect, not in the summary.
const ARGUMENT_BYTES: usize = 2_000;
/// No message is cut shorter than this; where even that is too much, the oldest are left out.
const MESSAGE_BYTES_MIN: usize = 200;
/// Characters of a tool's name.
const NAME_CHARS: usize = 80;

/// Returns the messages at these positions as text of about `bytes_max` bytes at most.
pub(crate) fn render(
    conversation: &Conversation<'_>,
    positions: &[usize],
    result_chars: usize,
    bytes_max: usize,
) -> String {
    let blocks: Vec<String> = positions
        .iter()
        .filter_map(|&position| conversation.get(position))
        .map(|message| block(&message, result_chars, bytes_max))
        .filter(|block| !block.is_empty())
        .collect();
    let claims: Vec<u64> = blocks.iter().map(|block| block.len() as u64 + 2).collect();
    let cap = usize::try_from(level(&claims, bytes_max as u64)).unwrap_or(usize::MAX).max(MESSAGE_BYTES_MIN);
    let shown: Vec<String> = blocks
        .iter()
        .map(|block| if block.len() > cap { ends(block, cap / 4 * 3, cap / 4) } else { block.clone() })
        .collect();
    let mut total = 0usize;
    let fitting = shown.iter().rev().take_while(|block| {
        total = total.saturating_add(block.len() + 2);
        total <= bytes_max
    });
    let first = shown.len() - fitting.count();
    let mut out = if first > 0 { format!("[{first} older messages left out]\n\n") } else { String::new() };
    out.push_str(shown.get(first..).unwrap_or_default().join("\n\n").as_str());
    out
}

fn block(message: &MessageView<'_>, result_chars: usize, bytes_max: usize) -> String {
    let label = match message.role() {
        Role::Assistant => "Assistant",
        Role::System | Role::Developer => "System",
        _ if message.is_real_user() => "User",
        _ => "Client",
    };
    let mut lines = Vec::new();
    for part in message.parts() {
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = match part.kind() {
            PartKind::Text if message.role() == Role::Assistant => {
                let said = without_reasoning(part.text());
                let said = said.trim();
                if said.is_empty() { Ok(()) } else { write!(line, "[{label}]: {}", prefix(said, bytes_max)) }
            }
            PartKind::Text if part.text().trim().is_empty() => Ok(()),
            PartKind::Text => write!(line, "[{label}]: {}", prefix(part.text(), bytes_max)),
            PartKind::ToolCall => {
                let name = clip(part.tool_name(), NAME_CHARS);
                write!(line, "[Assistant tool call]: {name}({})", cut(part.text(), ARGUMENT_BYTES))
            }
            PartKind::ToolResult => write!(line, "[Tool result]: {}", cut(part.text(), result_chars)),
            PartKind::Image => write!(line, "[{label}]: [image]"),
            _ => Ok(()),
        };
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines.join("\n")
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}\n[truncated]", text.get(..end).unwrap_or_default()),
        None => text.to_string(),
    }
}
