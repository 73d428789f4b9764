//! The first phase: old tool results become lines, old arguments lose the inside of their strings.

use crate::boundaries::Budget;
use crate::settings::{Settings, TailMode};
use engine_api::{Conversation, Flags, MessageView, PartKind, PartView};
use engine_kit::layout::{Layout, RECALL_TOKENS};
use engine_kit::prune::{ARGUMENT_BYTES_MIN, CallTable, RESULT_BYTES_MIN, Rewrite, duplicate_line, duplicates, prune};
use engine_kit::regions::leading;

/// With a lean tail, results before the newest rounds are shortened from this size on; both are Hermes'.
const LEAN_ROUNDS: usize = 6;
const LEAN_RESULT_BYTES_MIN: usize = 1_500;
/// What a line is taken to cost before it is written.
const LINE_TOKENS: u64 = 45;

/// Returns where old results end: before the newest messages within the tail's budget, but for so many at least.
pub(crate) fn boundary(conversation: &Conversation<'_>, budget: &Budget, settings: &Settings) -> usize {
    let mut tokens = 0u64;
    let mut count = 0;
    for message in conversation.iter().rev() {
        tokens = tokens.saturating_add(message.tokens());
        if tokens > budget.tail && count >= settings.protect_last_n {
            break;
        }
        count += 1;
    }
    conversation.len() - count
}

/// Estimates what a message comes to once it is pruned; only messages before `boundary` are.
pub(crate) fn pruned_cost(message: &MessageView<'_>, position: usize, boundary: usize) -> u64 {
    if position >= boundary || message.is_pinned() {
        return message.tokens();
    }
    let saved = |part: PartView<'_>| match part.kind() {
        PartKind::ToolResult if part.text().len() > RESULT_BYTES_MIN && !part.flags().has(Flags::DEMOTED) => {
            part.tokens().saturating_sub(LINE_TOKENS + RECALL_TOKENS)
        }
        // Much of long arguments is text, and a fifth of it stays.
        PartKind::ToolCall if part.text().len() > ARGUMENT_BYTES_MIN => part.tokens() / 5 * 3,
        _ => 0,
    };
    message.tokens().saturating_sub(message.parts().map(saved).sum())
}

/// Shortens the kept messages: those before the boundary, with a lean tail large results before the newest rounds, and
/// older copies of equal results.
pub(crate) fn shorten(
    conversation: &Conversation<'_>,
    layout: &mut Layout<'_>,
    table: &CallTable<'_>,
    boundary: usize,
    settings: &Settings,
    count: &dyn Fn(&[&str]) -> Vec<u64>,
) {
    let first = leading(conversation);
    let old: Vec<usize> = layout.kept().into_iter().filter(|position| (first..boundary).contains(position)).collect();
    layout.shorten(prune(conversation, old, table), count);

    if settings.tail_mode == TailMode::Lean {
        let large = large_before_newest_rounds(conversation, layout, boundary.max(first), settings);
        layout.shorten(prune(conversation, large, table), count);
    }

    // Only where the newer copy stays whole, or the line would point at nothing.
    let whole: Vec<usize> = layout.kept().into_iter().filter(|position| !layout.has_new_text(*position)).collect();
    let line = |(message, part): (usize, usize)| {
        let text = duplicate_line(conversation.get(message)?.part(part)?.text());
        Some(Rewrite { message, part, text })
    };
    layout.shorten(duplicates(conversation, whole).into_iter().filter_map(line).collect(), count);
}

fn large_before_newest_rounds(
    conversation: &Conversation<'_>,
    layout: &Layout<'_>,
    start: usize,
    settings: &Settings,
) -> Vec<usize> {
    let rounds: Vec<usize> = (start..conversation.len())
        .filter(|&position| conversation.get(position).is_some_and(|message| message.calls().next().is_some()))
        .collect();
    let newest = rounds.len().checked_sub(LEAN_ROUNDS).and_then(|index| rounds.get(index)).copied().unwrap_or(start);
    let end = newest.min(conversation.len().saturating_sub(settings.protect_last_n));
    let is_large = |position: &usize| {
        let message = conversation.get(*position);
        message.is_some_and(|message| message.results().any(|part| part.text().len() >= LEAN_RESULT_BYTES_MIN))
    };
    (start..end).filter(|&position| layout.is_kept(position)).filter(is_large).collect()
}
