//! The first phase: old tool results become lines, old arguments lose the inside of their strings.

use crate::budget::Budget;
use crate::settings::{Settings, TailMode};
use engine_api::{Conversation, Flags, PartKind, PartView};
use engine_kit::layout::{Layout, RECALL_TOKENS};
use engine_kit::prune::{ARGUMENT_BYTES_MIN, CallTable, RESULT_BYTES_MIN, Rewrite, duplicate_line, duplicates, prune};
use engine_kit::regions::leading;

/// With a lean tail, results before the newest rounds are shortened from this size on; both are Hermes'.
const LEAN_ROUNDS: usize = 6;
const LEAN_RESULT_BYTES_MIN: usize = 1_500;
/// What a line is taken to cost before it is written.
const LINE_TOKENS: u64 = 45;

/// Where results are old.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Old {
    /// Before this position all but short ones become lines.
    pub(crate) end: usize,
    /// Before this one the large ones do; no smaller than `end`.
    pub(crate) large_end: usize,
    /// From this one on no copy of an equal result becomes a line.
    whole_from: usize,
}

impl Old {
    /// Finds where: before the newest messages within the tail's budget, but for `protect_last_n` at least; with a lean
    /// tail, large ones before the newest rounds of calls.
    pub(crate) fn of(conversation: &Conversation<'_>, budget: &Budget, settings: &Settings) -> Old {
        let mut tokens = 0u64;
        let mut count = 0;
        // The message that passes the budget is not old yet, as with Hermes.
        for message in conversation.iter().rev() {
            tokens = tokens.saturating_add(message.tokens());
            count += 1;
            if tokens > budget.tail && count >= settings.protect_last_n {
                break;
            }
        }
        let end = conversation.len() - count;
        let large_end = match settings.tail_mode {
            TailMode::Legacy => end,
            TailMode::Lean => newest_rounds(conversation).max(end),
        };
        Old { end, large_end, whole_from: conversation.len() }
    }

    /// Leaves everything from this position on as it is.
    pub(crate) fn before(self, position: usize) -> Old {
        Old { end: self.end.min(position), large_end: self.large_end.min(position), whole_from: position }
    }

    /// Estimates what a message comes to once it is pruned.
    pub(crate) fn cost(&self, conversation: &Conversation<'_>, position: usize) -> u64 {
        let Some(message) = conversation.get(position) else { return 0 };
        if position >= self.large_end || message.is_pinned() {
            return message.tokens();
        }
        let is_old = position < self.end;
        let bytes_min = if is_old { RESULT_BYTES_MIN + 1 } else { LEAN_RESULT_BYTES_MIN };
        let saved = |part: PartView<'_>| match part.kind() {
            PartKind::ToolResult if part.text().len() >= bytes_min && !part.flags().has(Flags::DEMOTED) => {
                part.tokens().saturating_sub(LINE_TOKENS + RECALL_TOKENS)
            }
            // Much of long arguments is text, and a fifth of it stays.
            PartKind::ToolCall if is_old && part.text().len() > ARGUMENT_BYTES_MIN => part.tokens() / 5 * 3,
            _ => 0,
        };
        message.tokens().saturating_sub(message.parts().map(saved).sum())
    }
}

/// Returns where the newest rounds of calls begin; 0 if there are no more.
fn newest_rounds(conversation: &Conversation<'_>) -> usize {
    let mut rounds = 0;
    let mut is_in_round = false;
    for position in (0..conversation.len()).rev() {
        let has_calls = conversation.get(position).is_some_and(|message| message.calls().next().is_some());
        // Calls in neighbouring messages are one round: some dialects give each call an item of its own.
        if has_calls && !is_in_round {
            rounds += 1;
        }
        if is_in_round && !has_calls && rounds == LEAN_ROUNDS {
            return position + 1;
        }
        is_in_round = has_calls;
    }
    0
}

/// Shortens the kept messages: old results and arguments, large results before the newest rounds, and older copies of
/// equal results.
pub(crate) fn shorten(
    conversation: &Conversation<'_>,
    layout: &mut Layout<'_>,
    table: &CallTable<'_>,
    old: Old,
    count: &dyn Fn(&[&str]) -> Vec<u64>,
) {
    let first = leading(conversation);
    let kept = layout.kept();
    let within = |range: std::ops::Range<usize>| kept.iter().copied().filter(move |position| range.contains(position));
    let mut rewrites = prune(conversation, within(first..old.end), table);
    let is_large = |rewrite: &Rewrite| {
        let part = conversation.get(rewrite.message).and_then(|message| message.part(rewrite.part));
        part.is_some_and(|part| part.kind() == PartKind::ToolResult && part.text().len() >= LEAN_RESULT_BYTES_MIN)
    };
    let large = prune(conversation, within(old.end.max(first)..old.large_end), table);
    rewrites.extend(large.into_iter().filter(is_large));
    layout.shorten(rewrites, count);

    // Only where the newer copy stays whole, or the line would point at nothing.
    let whole: Vec<usize> = kept.into_iter().filter(|position| !layout.has_new_text(*position)).collect();
    let line = |(message, part): (usize, usize)| {
        if message >= old.whole_from {
            return None;
        }
        let text = duplicate_line(conversation.get(message)?.part(part)?.text());
        Some(Rewrite { message, part, text })
    };
    layout.shorten(duplicates(conversation, whole).into_iter().filter_map(line).collect(), count);
}
