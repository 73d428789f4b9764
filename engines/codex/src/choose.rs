//! What stays: instructions, rules and environment, the user's messages under their budget, the newest work.

use crate::budget::Budget;
use crate::canonical::canonical;
use crate::cut::middle_cut;
use crate::prune::cut_results;
use crate::settings::Settings;
use engine_api::{Conversation, Flags, MessageView, PartKind};
use engine_kit::layout::{Layout, SUMMARY_FRAME_TOKENS};
use engine_kit::pairs::align_down;
use engine_kit::prune::CallTable;
use engine_kit::regions::{leading, newest_user};
use std::collections::HashSet;
use std::ops::Range;

/// Begins a message of the user's that was cut in its middle, and by which such a one is known again.
pub(crate) const CUT_LEAD: &str = "The user wrote this earlier; its middle was left out:";
/// A cut message with less would be a mark and no message.
const CUT_TOKENS_MIN: u64 = 96;
/// Messages that are cut at most: each halves what is left, so after eight there is nothing to cut to.
const CUTS_MAX: usize = 8;
/// The first request may take this part of the users' budget before the newest ones.
const TASK_PART: u64 = 4;
/// Results are cut to this first; only when that is not enough do they become lines.
const EXCERPT_TOKENS: u64 = 256;

/// What the choice is made from.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a, 'c> {
    pub(crate) conversation: Conversation<'a>,
    pub(crate) units: &'c [Range<usize>],
    /// Units that no plan may cover.
    pub(crate) must_keep: &'c [Range<usize>],
    pub(crate) budget: &'c Budget,
    pub(crate) settings: &'c Settings,
    /// The newest exchanges that a person asked to keep whole.
    pub(crate) exchanges: usize,
    pub(crate) table: &'c CallTable<'a>,
    pub(crate) count: &'c dyn Fn(&str) -> u64,
}

/// A message of the user's that stays with its middle left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) position: usize,
    pub(crate) text: String,
    pub(crate) tokens: u64,
}

/// What stays; the layout covers all else.
pub(crate) struct Chosen<'a> {
    pub(crate) layout: Layout<'a>,
    /// Ascending; the messages themselves are covered.
    pub(crate) cuts: Vec<Cut>,
}

/// Units that may go when what must stay is too much, in the order in which they go.
#[derive(Default)]
struct Going {
    tail: Vec<Range<usize>>,
    context: Vec<Range<usize>>,
    users: Vec<Range<usize>>,
    task: Vec<Range<usize>>,
    rules: Vec<Range<usize>>,
}

/// Chooses what stays.
pub(crate) fn choose<'a>(case: &Case<'a, '_>) -> Chosen<'a> {
    let conversation = &case.conversation;
    let first = leading(conversation);
    let mut chosen = Chosen { layout: Layout::new(*conversation), cuts: Vec::new() };
    chosen.layout.cover(first..conversation.len());
    case.must_keep.iter().for_each(|unit| chosen.layout.keep(unit.clone()));
    let reserve = case.budget.reserve(conversation.tokens());
    let mut free = case.budget.room.saturating_sub(reserve).saturating_sub(chosen.layout.kept_tokens());
    let mut going = Going::default();

    free = free.saturating_sub(keep_canonical(case, &mut chosen.layout, first, free / 2, &mut going));
    free = free.saturating_sub(keep_tail(case, &mut chosen.layout, first, free, &mut going));
    keep_users(case, &mut chosen, first, free, &mut going);
    chosen.cuts.sort_by_key(|cut| cut.position);
    make_fit(case, &mut chosen, first, going);
    chosen
}

fn cost(layout: &Layout<'_>, unit: &Range<usize>) -> u64 {
    unit.clone().map(|position| layout.cost(position)).fold(0, u64::saturating_add)
}

/// Keeps rules first, then the newest of the rest; returns what they take.
fn keep_canonical(case: &Case<'_, '_>, layout: &mut Layout<'_>, first: usize, room: u64, going: &mut Going) -> u64 {
    let mut list = canonical(&case.conversation, first);
    list.sort_by_key(|one| (!one.is_rules, std::cmp::Reverse(one.position)));
    let mut spent = 0u64;
    for one in list {
        let unit = one.position..one.position + 1;
        let is_alone = align_down(case.units, one.position) == one.position
            && align_down(case.units, one.position + 1) == one.position + 1;
        let after = spent.saturating_add(cost(layout, &unit));
        if layout.is_kept(one.position) || !is_alone || after > room {
            continue;
        }
        layout.keep(unit.clone());
        spent = after;
        if one.is_rules { going.rules.push(unit) } else { going.context.push(unit) }
    }
    spent
}

/// Keeps the newest units; returns what they take. An earlier summary ends the tail, for the handoff replaces it.
fn keep_tail(case: &Case<'_, '_>, layout: &mut Layout<'_>, first: usize, free: u64, going: &mut Going) -> u64 {
    let conversation = &case.conversation;
    let users = (first..conversation.len())
        .rev()
        .filter(|&position| conversation.get(position).is_some_and(|message| message.is_real_user()));
    let whole_from = match case.exchanges.checked_sub(1).and_then(|nth| users.take(nth + 1).last()) {
        Some(user) => align_down(case.units, user),
        None => conversation.len(),
    };
    let tail_max = case.budget.tail.min(free / 2);
    let mut spent = 0u64;
    for unit in case.units.iter().rev().take_while(|unit| unit.start >= first) {
        if layout.is_kept(unit.start) {
            continue;
        }
        let is_whole = unit.start >= whole_from;
        if !is_whole {
            cut_results(conversation, layout, unit.clone(), case.settings.tool_output_tokens, case.count);
        }
        let after = spent.saturating_add(cost(layout, unit));
        let is_written = |position: usize| {
            let message = conversation.get(position);
            message.is_some_and(|message| message.is_summary() || message.flags().has(Flags::SYNTHETIC))
        };
        if after > (if is_whole { free } else { tail_max }) || unit.clone().any(is_written) {
            break;
        }
        layout.keep(unit.clone());
        spent = after;
        going.tail.push(unit.clone());
    }
    going.tail.reverse();
    spent
}

/// Keeps the user's messages, newest first; cuts the one that crosses the budget.
fn keep_users(case: &Case<'_, '_>, chosen: &mut Chosen<'_>, first: usize, free: u64, going: &mut Going) {
    let conversation = &case.conversation;
    let is_original = case.settings.as_original;
    let mut left = case.budget.users;
    if is_original {
        // The program counts the newest message too.
        let newest = newest_user(conversation).map_or(0, |position| chosen.layout.cost(position));
        left = left.saturating_sub(newest);
    }
    left = left.min(free);
    let units: Vec<&Range<usize>> =
        case.units.iter().filter(|unit| unit.start >= first && !chosen.layout.is_kept(unit.start)).collect();
    let candidates = units.into_iter().filter_map(|unit| Some((unit, words_at(conversation, unit)?)));
    let mut candidates: Vec<(&Range<usize>, usize)> = candidates.collect();
    let task = conversation.iter().position(|message| message.is_real_user());

    if !is_original && candidates.first().is_some_and(|(_, position)| task.is_none_or(|task| *position <= task)) {
        let (unit, position) = candidates.remove(0);
        let share = left / TASK_PART;
        let wanted = cost(&chosen.layout, unit);
        if wanted <= share {
            chosen.layout.keep(unit.clone());
            going.task.push(unit.clone());
            left -= wanted;
        } else {
            left = left.saturating_sub(cut_message(case, chosen, position, share));
        }
    }
    for (unit, position) in candidates.into_iter().rev() {
        let wanted = cost(&chosen.layout, unit);
        if wanted <= left {
            chosen.layout.keep(unit.clone());
            going.users.push(unit.clone());
            left -= wanted;
            continue;
        }
        // The program gives all that is left to the message that crosses the budget, and nothing to older ones.
        let share = if is_original { left } else { left / 2 };
        left = left.saturating_sub(cut_message(case, chosen, position, share));
        if is_original || chosen.cuts.len() >= CUTS_MAX || left < CUT_TOKENS_MIN {
            break;
        }
    }
    going.users.reverse();
}

/// Returns the position of a message in the unit that holds the user's words: a message of theirs, or a cut one.
fn words_at(conversation: &Conversation<'_>, unit: &Range<usize>) -> Option<usize> {
    unit.clone().find(|&position| {
        conversation
            .get(position)
            .is_some_and(|message| !message.is_summary() && (message.is_real_user() || is_carried_cut(&message)))
    })
}

fn is_carried_cut(message: &MessageView<'_>) -> bool {
    message.flags().has(Flags::SYNTHETIC) && message.parts().any(|part| carried(part.text()).is_some())
}

/// What an earlier compaction left of a message.
fn carried(text: &str) -> Option<&str> {
    // The host's own mark stands before it on a line of its own.
    let text = if text.starts_with('[') { text.split_once('\n')?.1 } else { text };
    text.trim_start().strip_prefix(CUT_LEAD)
}

/// Cuts a message in its middle; returns what that takes.
fn cut_message(case: &Case<'_, '_>, chosen: &mut Chosen<'_>, position: usize, budget: u64) -> u64 {
    let Some(message) = case.conversation.get(position) else { return 0 };
    let frame = SUMMARY_FRAME_TOKENS.saturating_add((case.count)(CUT_LEAD));
    let room = budget.saturating_sub(frame);
    if room < CUT_TOKENS_MIN {
        return 0;
    }
    let mut text = message.text();
    if message.flags().has(Flags::SYNTHETIC) {
        text = carried(&text).map(|text| text.trim().to_string()).unwrap_or(text);
    }
    if message.parts().any(|part| part.kind() == PartKind::Image) {
        text.push_str("\n[a picture stood here]");
    }
    let tokens = (case.count)(&text);
    let Some(cut) = middle_cut(&text, tokens, room, case.count) else { return 0 };
    let text = format!("{CUT_LEAD}\n{cut}");
    let tokens = (case.count)(&text).saturating_add(SUMMARY_FRAME_TOKENS);
    // With pictures and results left out, the whole text may fit and still not stay as the message that it was.
    if cut.trim().is_empty() || tokens > budget {
        return 0;
    }
    chosen.cuts.push(Cut { position, text, tokens });
    tokens
}

/// Makes what stays leave room for the handoff: results first, then the oldest work, and the task and the rules last.
fn make_fit(case: &Case<'_, '_>, chosen: &mut Chosen<'_>, first: usize, going: Going) {
    let layout = &mut chosen.layout;
    let room = case.budget.room.saturating_sub(case.budget.reserve(case.conversation.tokens()));
    let cuts: u64 = chosen.cuts.iter().map(|cut| cut.tokens).sum();
    if layout.kept_tokens().saturating_add(cuts) <= room {
        return;
    }
    let demote = |layout: &mut Layout<'_>, tokens_min: u64| {
        let positions: Vec<usize> = layout.kept().into_iter().filter(|position| *position >= first).collect();
        let theirs: u64 = positions.iter().map(|position| layout.cost(*position)).sum();
        let others = layout.kept_tokens().saturating_sub(theirs);
        layout.demote(&positions, room.saturating_sub(others), tokens_min, case.table, case.count);
    };
    demote(layout, EXCERPT_TOKENS);
    chosen.cuts.clear();
    let must: HashSet<usize> = case.must_keep.iter().map(|unit| unit.start).collect();
    let order = [going.tail, going.context, going.users, going.task, going.rules].concat();
    let mut kept = layout.kept_tokens();
    for unit in order.iter().filter(|unit| !must.contains(&unit.start)) {
        if kept <= room {
            return;
        }
        kept = kept.saturating_sub(cost(layout, unit));
        layout.cover(unit.clone());
    }
    demote(layout, 0);
}
