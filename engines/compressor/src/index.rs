//! What is added to a summary without a model: the index of identifiers, and where the whole text is.

use crate::budget::SummaryTokens;
use crate::settings::TailMode;
use crate::summary::Source;
use engine_api::PartKind;
use engine_kit::anchors::{Reach, anchors_within};
use std::borrow::Cow;
use std::fmt::Write;

pub(crate) const INDEX_HEADING: &str = "Anchor Index (exact)";
pub(crate) const RECOVERY_HEADING: &str = "Context Recovery";
/// Bytes searched for identifiers in all: what is said and called first, and of each result a like share of the rest.
/// A legacy tail's short index is filled from fewer.
const SEARCHED_BYTES: usize = 320 * 1024;
const SEARCHED_BYTES_LEGACY: usize = 96 * 1024;
/// Bytes of a text or of a call's arguments that are searched, and with many texts at least.
const TEXT_BYTES: usize = 4 * 1024;
const TEXT_BYTES_MIN: usize = 256;
/// Bytes of a result: its first lines and its last ones say what it is about.
const RESULT_BYTES: (usize, usize) = (256, 16 * 1024);
/// An index is tried in this many lengths, each half of the one before.
const TRIES_MAX: usize = 3;

/// Appends the identifiers and the pointer to a text of so many tokens, as far as there is room; returns the tokens of
/// all. The person's words need no place here: the host quotes them.
pub(crate) fn add(text: &mut String, tokens: u64, source: &Source<'_>, count: &dyn Fn(&str) -> u64) -> u64 {
    let SummaryTokens { index, .. } = source.wanted;
    let has_pointer = source.tail_mode == TailMode::Lean;
    let mut room = source.tokens_max.min(source.tokens / 2).saturating_sub(tokens).min(index);
    let mut tokens = tokens;
    let pointer = if has_pointer { pointer(source) } else { String::new() };
    let pointer_tokens = count(&pointer);
    let has_pointer = !pointer.is_empty() && pointer_tokens <= room / 2;
    if has_pointer {
        room -= pointer_tokens;
        tokens += pointer_tokens;
    }
    let found = anchors_within(&source.conversation, &source.positions, &reach(source));
    // Identifiers take more tokens than prose of the same length.
    let mut bytes = usize::try_from(room.saturating_mul(4)).unwrap_or(usize::MAX);
    for _ in 0..TRIES_MAX {
        let index = found.render(bytes);
        if index.is_empty() {
            break;
        }
        let section = format!("\n\n## {INDEX_HEADING}\n{index}");
        let section_tokens = count(&section);
        if section_tokens <= room {
            text.push_str(&section);
            tokens += section_tokens;
            break;
        }
        bytes /= 2;
    }
    if has_pointer {
        text.push_str(&pointer);
    }
    tokens
}

/// How much of each part is searched, so that the whole stretch is and not its newest end only.
fn reach(source: &Source<'_>) -> Reach {
    let (mut texts, mut results) = (0usize, 0usize);
    for message in source.positions.iter().filter_map(|&position| source.conversation.get(position)) {
        for part in message.parts() {
            match part.kind() {
                PartKind::Text | PartKind::ToolCall => texts += part.text().len().min(TEXT_BYTES),
                PartKind::ToolResult => results += 1,
                _ => {}
            }
        }
    }
    let total = match source.tail_mode {
        TailMode::Lean => SEARCHED_BYTES,
        TailMode::Legacy => SEARCHED_BYTES_LEGACY,
    };
    // At most half for the texts, so that there is something for the results in a long stretch.
    let text_bytes = if texts > total / 2 { TEXT_BYTES * (total / 2) / texts } else { TEXT_BYTES };
    let share = total.saturating_sub(texts.min(total / 2)) / results.max(1);
    Reach {
        text_bytes: text_bytes.max(TEXT_BYTES_MIN),
        result_bytes: share.clamp(RESULT_BYTES.0, RESULT_BYTES.1),
        total_bytes: total,
    }
}

/// Says where the messages are that the summary stands for. It names no tool: whether one is offered is the host's to
/// say, and a call that does not exist is worse than none.
fn pointer(source: &Source<'_>) -> String {
    let messages = || source.positions.iter().filter_map(|&position| source.conversation.get(position));
    let ids = || messages().filter(|message| !message.is_summary() && message.id().0 > 0).map(|message| message.id().0);
    let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return String::new() };
    let mut out = format!("\n\n## {RECOVERY_HEADING}\n- The transcript keeps messages {first} to {last} whole");
    let nodes: Vec<String> = messages().filter_map(|message| message.node()).map(|node| node.0.to_string()).collect();
    if !nodes.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(out, ", and those that summary {} stood for", nodes.join(" and "));
    }
    out.push_str(
        "; a shortened result names the message that holds it. Where an exact text matters that is missing here, read the \
         file or run the command again, or ask the person.",
    );
    out
}

/// Returns a summary without what was added to it: it is added anew, and a model need not copy it.
pub(crate) fn without(text: &str) -> Cow<'_, str> {
    let is_added = |line: &str| {
        let heading = line.strip_prefix("## ").map(str::trim_end);
        heading.is_some_and(|heading| heading == INDEX_HEADING || heading == RECOVERY_HEADING)
    };
    if !text.lines().any(is_added) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut is_left_out = false;
    for line in text.split_inclusive('\n') {
        // The host's line that ends a summary is no part of a section.
        if line.starts_with("## ") || line.starts_with("[palimpsest:") {
            is_left_out = is_added(line);
        }
        if !is_left_out {
            out.push_str(line);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_taken_out_again() {
        let text = "[palimpsest: summary 3]\n## Goal\nx\n\n## Anchor Index (exact)\n- Files: a.rs\n\n## Context Recovery\n\
                    - The transcript\n[palimpsest: end of summary]";
        assert_eq!(without(text), "[palimpsest: summary 3]\n## Goal\nx\n\n[palimpsest: end of summary]");
        assert_eq!(
            without("## Goal\nsee the ## Anchor Index (exact) below"),
            "## Goal\nsee the ## Anchor Index (exact) below"
        );
        assert_eq!(without("## Context Recovery"), "");
    }
}
