//! The second phase: which messages stay.

use crate::budget::Budget;
use crate::settings::{Settings, TailMode};
use engine_api::{CompressRequest, Conversation, Role};
use engine_kit::pairs::align_down;
use engine_kit::regions::{Limits, Regions, is_asked_for, leading, must_keep, regions};
use std::ops::Range;

/// Hermes lets the legacy tail pass its budget by half before it cuts.
const TAIL_CEILING: (u64, u64) = (3, 2);
/// Messages that the tail has at least, and the most that `protect_last_n` asks of it; both are Hermes'.
const TAIL_MESSAGES: (usize, usize) = (3, 8);
/// Messages that a short conversation leaves for the summary; Hermes' figure.
const SUMMARISED_MESSAGES_MIN: usize = 2;
/// The first messages are dropped from the head where they take more than this part of the room.
const HEAD_PART: u64 = 4;
/// The newest answer of the model is kept where the tail comes to this many times its budget at most.
const ANSWER_REACH: u64 = 2;

/// The regions, and what must not be covered whatever it costs.
pub(crate) struct Boundaries {
    pub(crate) regions: Regions,
    /// The newest real user message and pinned messages, each with its whole unit; ascending.
    pub(crate) must_keep: Vec<Range<usize>>,
    /// Where the exchanges that a person asked to keep begin; the conversation's length if none.
    pub(crate) exchanges_start: usize,
}

/// Finds the regions. `cost` gives what a message comes to once old results are lines.
pub(crate) fn boundaries(
    conversation: &Conversation<'_>,
    units: &[Range<usize>],
    cost: &dyn Fn(usize) -> u64,
    budget: &Budget,
    settings: &Settings,
    request: &CompressRequest,
) -> Boundaries {
    let is_later = conversation.iter().any(|message| message.is_summary() && !message.is_real_user());
    // After the first compaction the summary tells what the first messages said.
    let head_messages = if is_later { 0 } else { settings.protect_first_n };
    // A short conversation has a shorter tail, or a summary would stand for next to nothing.
    let available = conversation.len().saturating_sub(leading(conversation).saturating_add(head_messages));
    let most = available.saturating_sub(SUMMARISED_MESSAGES_MIN + 1).max(TAIL_MESSAGES.0);
    let tail_messages = settings.protect_last_n.clamp(TAIL_MESSAGES.0, TAIL_MESSAGES.1).min(most);
    let limits = Limits {
        head_messages,
        head_tokens: budget.room / HEAD_PART,
        tail_tokens: match settings.tail_mode {
            TailMode::Legacy => budget.tail.saturating_mul(TAIL_CEILING.0) / TAIL_CEILING.1,
            TailMode::Lean => budget.tail,
        },
        tail_messages_min: tail_messages,
        user_messages_min: settings.min_tail_user_messages,
        exchanges: usize::try_from(request.keep_exchanges).unwrap_or(usize::MAX),
    };
    let mut found = regions(conversation, units, cost, &limits);
    if is_empty(&found) {
        found = regions(conversation, units, cost, &Limits { tail_tokens: budget.tail, ..limits });
    }
    if is_empty(&found) && is_asked_for(request) {
        found = regions(conversation, units, cost, &Limits { tail_tokens: 0, ..limits });
    }
    if found.gaps.is_empty() {
        keep_newest_answer(conversation, units, cost, budget, &mut found);
    }

    let must_keep = must_keep(conversation, units);
    let exchanges_start = if limits.exchanges == 0 { conversation.len() } else { found.tail.start };
    Boundaries { regions: found, must_keep, exchanges_start }
}

fn is_empty(regions: &Regions) -> bool {
    regions.middle.is_empty() && regions.gaps.is_empty()
}

/// Moves the tail's start back to the newest text of the model, if there is none in the tail and it is not far.
fn keep_newest_answer(
    conversation: &Conversation<'_>,
    units: &[Range<usize>],
    cost: &dyn Fn(usize) -> u64,
    budget: &Budget,
    found: &mut Regions,
) {
    let is_answer = |position: &usize| {
        conversation.get(*position).is_some_and(|message| {
            message.role() == Role::Assistant && !message.is_summary() && !message.text().trim().is_empty()
        })
    };
    if found.tail.clone().any(|position| is_answer(&position)) {
        return;
    }
    let Some(answer) = found.middle.clone().rev().find(is_answer) else { return };
    let start = align_down(units, answer).max(found.middle.start);
    let tokens: u64 = (start..conversation.len()).map(cost).sum();
    if tokens <= budget.tail.saturating_mul(ANSWER_REACH) {
        found.middle.end = start;
        found.tail.start = start;
    }
}
