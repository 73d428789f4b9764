//! What becomes of each message, gathered before it is written down as a plan.
//!
//! A layout starts with everything kept. An engine covers what a summary will stand for, shortens parts, and asks
//! what the kept messages come to; the layout sees to it that the plan is valid: steps in order, every message once,
//! new texts only for tool results and calls of messages that are kept and not pinned.

use crate::prune::{CallTable, Rewrite, emptied_arguments, excerpt, one_line_result, trim_arguments};
use crate::text::fit;
use engine_api::{CompactionPlan, Conversation, Flags, MessageId, PartKind, PartView, Span, Step, SummaryStep};
use std::collections::BTreeMap;

/// What the host appends to a shortened result, so that the whole can be had back: a line of about 25 tokens.
pub const RECALL_TOKENS: u64 = 32;
/// What the host puts around a summary: two lines of about 20 tokens each, and the message itself.
pub const SUMMARY_FRAME_TOKENS: u64 = 64;
/// A part with fewer tokens is not worth an excerpt: a line says as much.
const EXCERPT_TOKENS_MIN: u64 = 80;
/// Times that all parts are looked at again: lines have a least size, so the first cap may not suffice.
const DEMOTE_PASSES_MAX: usize = 4;

/// Writes the line that ends a shortened result of a message.
pub type Pointer = fn(MessageId) -> String;

/// What becomes of each message.
#[derive(Debug)]
pub struct Layout<'a> {
    conversation: Conversation<'a>,
    is_kept: Vec<bool>,
    /// Tokens of each message with its new texts.
    costs: Vec<u64>,
    /// New texts and their tokens, by message and part.
    rewrites: BTreeMap<(usize, usize), (String, u64)>,
    /// Ends each shortened result, and what it costs at most.
    pointer: Option<(Pointer, u64)>,
}

impl<'a> Layout<'a> {
    /// Starts with everything kept as it is.
    pub fn new(conversation: Conversation<'a>) -> Self {
        Layout {
            conversation,
            is_kept: vec![true; conversation.len()],
            costs: conversation.iter().map(|message| message.tokens()).collect(),
            rewrites: BTreeMap::new(),
            pointer: None,
        }
    }
    /// Ends each shortened result with a line of the engine's own, such as the call that returns the whole; it has
    /// `tokens_max` at most.
    #[must_use]
    pub fn with_pointer(mut self, pointer: Pointer, tokens_max: u64) -> Self {
        self.pointer = Some((pointer, tokens_max));
        self
    }
    /// Gives these positions to a summary.
    pub fn cover(&mut self, positions: impl IntoIterator<Item = usize>) {
        self.mark(positions, false);
    }
    /// Keeps these positions.
    pub fn keep(&mut self, positions: impl IntoIterator<Item = usize>) {
        self.mark(positions, true);
    }
    fn mark(&mut self, positions: impl IntoIterator<Item = usize>, is_kept: bool) {
        for position in positions {
            if let Some(mark) = self.is_kept.get_mut(position) {
                *mark = is_kept;
            }
        }
    }
    /// Tells whether a position is kept.
    pub fn is_kept(&self, position: usize) -> bool {
        self.is_kept.get(position).copied().unwrap_or(false)
    }
    /// Returns the kept positions.
    pub fn kept(&self) -> Vec<usize> {
        (0..self.is_kept.len()).filter(|&position| self.is_kept(position)).collect()
    }
    /// Returns the covered positions.
    pub fn covered(&self) -> Vec<usize> {
        (0..self.is_kept.len()).filter(|&position| !self.is_kept(position)).collect()
    }
    /// Returns the tokens of a message with its new texts.
    pub fn cost(&self, position: usize) -> u64 {
        self.costs.get(position).copied().unwrap_or(0)
    }
    /// Returns the tokens of all kept messages.
    pub fn kept_tokens(&self) -> u64 {
        self.costs.iter().zip(&self.is_kept).filter(|(_, is_kept)| **is_kept).map(|(cost, _)| *cost).sum()
    }
    /// Tells whether a new text was given to any kept message.
    pub fn is_shortened(&self) -> bool {
        self.rewrites.keys().any(|(message, _)| self.is_kept(*message))
    }

    /// Tells whether any part of a message has a new text.
    pub fn has_new_text(&self, position: usize) -> bool {
        self.rewrites.range((position, 0)..(position.saturating_add(1), 0)).next().is_some()
    }

    /// Takes new texts over, where they save tokens; returns how many were taken.
    pub fn shorten(&mut self, rewrites: Vec<Rewrite>, count: &dyn Fn(&[&str]) -> Vec<u64>) -> usize {
        let counts = count(&rewrites.iter().map(|rewrite| rewrite.text.as_str()).collect::<Vec<_>>());
        let mut taken = 0;
        for (rewrite, tokens) in rewrites.into_iter().zip(counts) {
            taken += usize::from(self.set_text(rewrite, tokens));
        }
        taken
    }

    fn set_text(&mut self, rewrite: Rewrite, tokens: u64) -> bool {
        let place = (rewrite.message, rewrite.part);
        let Some(message) = self.conversation.get(rewrite.message).filter(|message| !message.is_pinned()) else {
            return false;
        };
        let Some(part) = message.part(rewrite.part).filter(is_shortenable) else { return false };
        let mut rewrite = rewrite;
        let mut tokens = tokens.saturating_add(RECALL_TOKENS);
        if let Some((pointer, tokens_max)) = self.pointer.filter(|_| part.kind() == PartKind::ToolResult) {
            rewrite.text.push('\n');
            rewrite.text.push_str(&pointer(message.id()));
            tokens = tokens.saturating_add(tokens_max);
        }
        let before = self.rewrites.get(&place).map_or(part.tokens(), |(_, tokens)| *tokens);
        let Some(cost) = self.costs.get_mut(rewrite.message).filter(|_| tokens < before) else { return false };
        *cost = cost.saturating_sub(before).saturating_add(tokens);
        self.rewrites.insert(place, (rewrite.text, tokens));
        true
    }

    /// Shortens results and arguments of these positions, largest first, until their messages come to `budget_tokens`
    /// or nothing more can be had; returns what they come to then. No part is cut below `part_tokens_min`.
    pub fn demote(
        &mut self,
        positions: &[usize],
        budget_tokens: u64,
        part_tokens_min: u64,
        table: &CallTable<'_>,
        count: &dyn Fn(&str) -> u64,
    ) -> u64 {
        let mut cap_before = u64::MAX;
        for _ in 0..DEMOTE_PASSES_MAX {
            let total: u64 = positions.iter().map(|&position| self.cost(position)).sum();
            if total <= budget_tokens {
                return total;
            }
            let parts = self.shortenable(positions);
            let claims: Vec<u64> = parts.iter().map(|(_, _, tokens)| *tokens).collect();
            let fixed = total.saturating_sub(claims.iter().sum());
            let mut cap = crate::shares::level(&claims, budget_tokens.saturating_sub(fixed)).max(part_tokens_min);
            if cap >= cap_before && cap > part_tokens_min {
                // Some parts could not follow the last cap; the others must make up for it.
                cap = (cap_before / 2).max(part_tokens_min);
            }
            cap_before = cap;
            for (place, part, tokens) in parts {
                let text = if tokens > cap { shorter(table, place, part, cap, count) } else { None };
                if let Some(text) = text {
                    let tokens = count(&text);
                    self.set_text(Rewrite { message: place.0, part: place.1, text }, tokens);
                }
            }
            if cap <= part_tokens_min {
                break;
            }
        }
        positions.iter().map(|&position| self.cost(position)).sum()
    }

    /// Results and calls of these positions with the tokens they have now.
    fn shortenable(&self, positions: &[usize]) -> Vec<((usize, usize), PartView<'a>, u64)> {
        let mut parts = Vec::new();
        for &position in positions {
            let Some(message) = self.conversation.get(position).filter(|message| !message.is_pinned()) else {
                continue;
            };
            for (index, part) in message.parts().enumerate().filter(|(_, part)| is_shortenable(part)) {
                let place = (position, index);
                let tokens = self.rewrites.get(&place).map_or(part.tokens(), |(_, tokens)| *tokens);
                parts.push((place, part, tokens));
            }
        }
        parts
    }

    /// Writes the plan. `summaries` stand in the order of their first message and cover exactly what is covered here.
    pub fn into_plan(self, summaries: Vec<SummaryStep>) -> CompactionPlan {
        let mut plan = CompactionPlan::new(self.conversation.revision());
        let mut summaries = summaries.into_iter().peekable();
        let mut run_start = None;
        for position in 0..=self.is_kept.len() {
            let first = summaries.peek().and_then(|summary| summary.covers.first()).map(|span| span.first);
            let is_kept = self.is_kept(position);
            if let Some(start) = run_start.take_if(|_| !is_kept) {
                self.write_run(&mut plan, start..position);
            }
            if first == Some(position) {
                plan.steps.extend(summaries.next().map(Step::Summary));
            }
            if is_kept && run_start.is_none() {
                run_start = Some(position);
            }
        }
        plan
    }

    fn write_run(&self, plan: &mut CompactionPlan, run: std::ops::Range<usize>) {
        plan.keep(run.clone());
        for ((message, part), (text, _)) in self.rewrites.range((run.start, 0)..(run.end, 0)) {
            plan.rewrite(*message, *part, text.clone());
        }
    }
}

/// Returns ascending positions as spans.
pub fn spans(positions: &[usize]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for &position in positions {
        match spans.last_mut() {
            Some(span) if span.last + 1 == position => span.last = position,
            _ => spans.push(Span { first: position, last: position }),
        }
    }
    spans
}

fn is_shortenable(part: &PartView<'_>) -> bool {
    if part.flags().has(Flags::SELF_CONTAINED) {
        return false;
    }
    match part.kind() {
        PartKind::ToolResult => true,
        // Arguments that are no object cannot be replaced by one: the tool takes free text.
        PartKind::ToolCall => part.text().trim_start().starts_with('{'),
        _ => false,
    }
}

/// A text of at most about `cap` tokens, recall line included; the shortest there is where that cannot be.
fn shorter(
    table: &CallTable<'_>,
    place: (usize, usize),
    part: PartView<'_>,
    cap: u64,
    count: &dyn Fn(&str) -> u64,
) -> Option<String> {
    let room = cap.saturating_sub(RECALL_TOKENS);
    let text = part.text();
    if part.kind() == PartKind::ToolCall {
        // The strings are cut to a third of the room at first, for there may be several.
        let chars = usize::try_from(room).unwrap_or(usize::MAX / 4);
        return [chars, 40]
            .into_iter()
            .filter_map(|chars| trim_arguments(text, chars))
            .find(|trimmed| count(trimmed) <= room)
            .or_else(|| Some(emptied_arguments(text)));
    }
    if room >= EXCERPT_TOKENS_MIN && !part.flags().has(Flags::HAS_IMAGE) && !text.is_empty() {
        let bytes_per_token = (text.len() as u64 / part.tokens().max(1)).clamp(1, 8);
        let mut bytes = usize::try_from(room.saturating_mul(bytes_per_token)).unwrap_or(usize::MAX);
        for _ in 0..4 {
            let cut = excerpt(text, bytes);
            if cut.len() < text.len() && count(&cut) <= room {
                return Some(cut);
            }
            bytes = bytes / 4 * 3;
        }
        return Some(fit(&excerpt(text, bytes), room, count));
    }
    Some(one_line_result(table.call_of(place.0, place.1), part))
}

#[cfg(test)]
mod tests;
