//! The atomic groups of a conversation: what a cut must not take apart.
//!
//! Providers refuse a result without its call and a call without its result, and signed reasoning belongs to the
//! item after it. So a message with calls, everything up to its last result, and the reasoning before it make one
//! *unit*; a message with no such ties is a unit of its own. Units follow each other without gaps, and where one
//! starts is the only place to cut.

use engine_api::{Conversation, Flags, MessageView, PartKind, Role};
use std::collections::HashMap;
use std::ops::Range;

/// How far a result may stand from its call once a later call has come between them.
/// The Responses dialect allows calls and outputs to interleave, and real streams do so within a few items. Without
/// a bound, one result that a faulty history carries at its end would tie the whole history into one unit.
const INTERLEAVED_MESSAGES_MAX: usize = 32;

/// How many neighbouring messages of the model can be tied together by reasoning alone.
const REASONING_RUN_MAX: usize = 32;

/// Returns the units of a conversation, oldest first: every position in exactly one, in order.
///
/// A call that has no result before the person speaks again, before its id is used by another call, or within a
/// bounded reach after later calls counts as unanswered and ties nothing.
pub fn units(conversation: &Conversation<'_>) -> Vec<Range<usize>> {
    // reach[i]: the last position that the message at i is tied to.
    let mut reach: Vec<usize> = (0..conversation.len()).collect();
    tie_results(conversation, &mut reach);
    tie_reasoning(conversation, &mut reach);

    let mut units = Vec::new();
    let mut start = 0;
    let mut last = 0;
    for (position, &end) in reach.iter().enumerate() {
        if position > last {
            units.push(start..position);
            start = position;
        }
        last = last.max(end).max(position);
    }
    if start < reach.len() {
        units.push(start..reach.len());
    }
    units
}

/// Returns the start of the unit that holds `position`, or `position` itself past the end.
pub fn align_down(units: &[Range<usize>], position: usize) -> usize {
    let index = units.partition_point(|unit| unit.end <= position);
    units.get(index).map_or(position, |unit| unit.start)
}

/// Returns `position` if a unit starts there, and the end of the unit that holds it otherwise.
pub fn align_up(units: &[Range<usize>], position: usize) -> usize {
    let index = units.partition_point(|unit| unit.end <= position);
    units.get(index).map_or(position, |unit| if unit.start == position { position } else { unit.end })
}

/// Ties each call to its result.
fn tie_results(conversation: &Conversation<'_>, reach: &mut [usize]) {
    // Open calls by id: where they were made, and in which round. A round ends where calls follow results.
    // Only members of one family pair: dialects with several kinds of calls may use an id once for each.
    let mut open: HashMap<(u32, &str), (usize, usize)> = HashMap::new();
    let mut round = 0;
    let mut has_results = false;
    for (position, message) in conversation.iter().enumerate() {
        for part in message.results().filter(|part| !part.flags().has(Flags::SELF_CONTAINED)) {
            has_results = true;
            let Some((call_position, call_round)) = open.remove(&(part.flags().family(), part.call_id())) else {
                continue;
            };
            if call_round < round && position - call_position > INTERLEAVED_MESSAGES_MAX {
                continue;
            }
            if let Some(end) = reach.get_mut(call_position) {
                *end = (*end).max(position);
            }
        }
        // In the Anthropic dialect results stand at the head of the person's message, so they were taken first.
        if message.is_real_user() {
            open.clear();
        }
        for part in message.calls().filter(|part| !part.flags().has(Flags::SELF_CONTAINED)) {
            if has_results {
                has_results = false;
                round += 1;
            }
            open.insert((part.flags().family(), part.call_id()), (position, round));
        }
    }
}

/// Ties reasoning that stands alone to the model's items after it, up to the calls it led to.
fn tie_reasoning(conversation: &Conversation<'_>, reach: &mut [usize]) {
    let mut run_start: Option<usize> = None;
    for (position, message) in conversation.iter().enumerate() {
        if message.role() != Role::Assistant || message.is_summary() {
            run_start = None;
            continue;
        }
        run_start = run_start.filter(|start| position - start <= REASONING_RUN_MAX);
        if let Some(end) = run_start.and_then(|start| reach.get_mut(start)) {
            *end = (*end).max(position);
        }
        if message.calls().next().is_some() {
            run_start = None;
        } else if run_start.is_none() && is_reasoning_only(&message) {
            run_start = Some(position);
        }
    }
}

fn is_reasoning_only(message: &MessageView<'_>) -> bool {
    message.part_count() > 0 && message.parts().all(|part| part.kind() == PartKind::Reasoning)
}

#[cfg(test)]
mod tests;
