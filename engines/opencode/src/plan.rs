//! The strategy: hide old results; if that is not enough, keep the newest and let one summary stand for the rest.

use crate::budget::Budget;
use crate::hide::hidden;
use crate::settings::Settings;
use crate::summary::{Source, Summary, summarise};
use engine_api::{
    CompactionPlan, CompressRequest, Conversation, EngineError, HostServices, InsertKind, RecallRequest, Role, Step,
    SummaryKind, SummaryStep, Trigger, json,
};
use engine_kit::fit::Fit;
use engine_kit::layout::{Layout, SUMMARY_FRAME_TOKENS, spans};
use engine_kit::pairs::{align_down, units};
use engine_kit::prune::CallTable;
use engine_kit::regions::{Limits, Regions, is_asked_for, leading, must_keep, newest_user, regions};
use std::ops::Range;

/// The program's question before its summary, and its push to go on in the middle of a turn.
const LEAD_IN: &str = "What did we do so far?";
const CONTINUE: &str = "Go on with the next step if there is one; stop and ask if you are not sure.";
/// What either comes to, the host's frame included.
const LEAD_IN_TOKENS: u64 = 40 + SUMMARY_FRAME_TOKENS;
/// Hiding alone will do where it leaves this part of the room free, or the next compaction would be at once.
const ROOMY: (u64, u64) = (4, 5);
/// A first request or a replay with more than this part of the room is not held on to.
const REQUEST_PART: u64 = 8;
/// The least room for a summary where the kept messages leave none.
const SUMMARY_TOKENS_LEAST: u64 = 300;

/// Proposes a smaller conversation.
pub(crate) fn propose(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    request: &CompressRequest,
    settings: &Settings,
) -> Result<CompactionPlan, EngineError> {
    let budget = Budget::of(conversation, request, settings);
    let mut layout = Layout::new(*conversation);
    layout.shorten(hidden(conversation, &budget, settings), &|texts| services.count_tokens_batch(texts));
    let is_asked = is_asked_for(request) || !request.focus_topic.is_empty();
    if !is_asked && layout.is_shortened() && layout.kept_tokens() <= budget.room / ROOMY.1 * ROOMY.0 {
        let mut plan = layout.into_plan(Vec::new());
        plan.report.notes.push("hiding old tool results was enough".to_string());
        return Ok(plan);
    }

    let units = units(conversation);
    let must_keep = must_keep(conversation, &units);
    let costs: Vec<u64> = (0..conversation.len()).map(|position| layout.cost(position)).collect();
    let found = divide(conversation, &units, &costs, &budget, settings, request);
    layout.cover(found.middle.clone());
    found.gaps.iter().for_each(|gap| layout.cover(gap.clone()));
    let original = original_request(conversation, &units, &costs, &budget, settings);
    layout.keep(original.clone());
    cover_stale_summaries(conversation, &units, &mut layout);
    must_keep.iter().for_each(|unit| layout.keep(unit.clone()));

    let replayed = replayed(conversation, request, settings, &budget);
    let replay_tokens = replayed.map_or(0, |position| costs.get(position).copied().unwrap_or(0) + LEAD_IN_TOKENS);
    let lead_in_tokens = if settings.as_original { 2 * LEAD_IN_TOKENS } else { 0 };
    let room = budget.room.saturating_sub(replay_tokens).saturating_sub(lead_in_tokens);
    let exchanges_start = if request.keep_exchanges == 0 { conversation.len() } else { found.tail.start };
    let fit = Fit {
        units: &units,
        head_end: original.end.max(leading(conversation)),
        must_keep: &must_keep,
        exchanges_start,
        room,
        reserve: &|covered| if covered == 0 { 0 } else { budget.summary(covered) + SUMMARY_FRAME_TOKENS },
    };
    fit.apply(&mut layout, conversation, &CallTable::new(conversation), &|text| services.count_tokens(text));

    let mut positions = layout.covered();
    let mut summary = Summary::default();
    if !positions.is_empty() {
        let tokens: u64 = tokens_of(conversation, &positions);
        let wanted = budget.summary(tokens);
        let left = room.saturating_sub(layout.kept_tokens()).saturating_sub(SUMMARY_FRAME_TOKENS);
        // Less than half of the reserve means that the kept messages could not be made to fit, so nothing will.
        let least = if left < wanted / 2 { SUMMARY_TOKENS_LEAST } else { 0 };
        let tokens_max = left.max(least).min(tokens.saturating_sub(SUMMARY_FRAME_TOKENS + lead_in_tokens + 1));
        if tokens_max > 0 {
            summary = summarise(&Source {
                services,
                conversation: *conversation,
                request,
                settings,
                positions: positions.clone(),
                wanted: wanted.min(tokens_max),
                tokens_max,
            });
        }
        if summary.text.trim().is_empty() {
            // So little is covered that no text would be shorter.
            layout.keep(positions.drain(..));
        }
    }
    let has_summary = !positions.is_empty();
    let replayed = replayed.filter(|user| positions.iter().any(|position| position > user));
    let mut after = layout.kept_tokens();
    if has_summary {
        after += summary.tokens + SUMMARY_FRAME_TOKENS + lead_in_tokens;
    }
    if replayed.is_some() {
        after += replay_tokens;
    }
    if after >= conversation.tokens() {
        return Err(EngineError::nothing_to_compact(why_not(conversation, &must_keep, &budget)));
    }
    let steps = if has_summary {
        vec![SummaryStep {
            text: std::mem::take(&mut summary.text),
            covers: spans(&positions),
            nodes: Vec::new(),
            depth: depth(services, conversation, &positions),
            kind: SummaryKind::Iterative,
        }]
    } else {
        Vec::new()
    };
    let mut plan = layout.into_plan(steps);
    if settings.as_original && has_summary {
        lead_in(&mut plan, conversation, replayed.is_some());
    }
    if let Some(message) = replayed {
        let text = String::new();
        plan.steps.push(Step::Insert { role: Role::User, kind: InsertKind::Replay, message: Some(message), text });
    }
    plan.report.completions = summary.completions;
    plan.report.fallback = summary.fallback;
    if after > budget.room {
        plan.report.notes.push(why_not(conversation, &must_keep, &budget));
    }
    Ok(plan)
}

/// Proposes to hide old results, and nothing else.
pub(crate) fn propose_hiding(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    request: &CompressRequest,
    settings: &Settings,
) -> Result<CompactionPlan, EngineError> {
    let budget = Budget::of(conversation, request, settings);
    let mut layout = Layout::new(*conversation);
    layout.shorten(hidden(conversation, &budget, settings), &|texts| services.count_tokens_batch(texts));
    if !layout.is_shortened() {
        let why = format!(
            "hiding would free no more than {} tokens of results older than {} turns and the newest {} tokens",
            budget.minimum, settings.prune_protect_turns, budget.protect
        );
        return Err(EngineError::nothing_to_compact(why));
    }
    Ok(layout.into_plan(Vec::new()))
}

/// Divides the conversation: the newest units within the tail's tokens stay, whole turns first and then as much of one
/// more as fits.
fn divide(
    conversation: &Conversation<'_>,
    units: &[Range<usize>],
    costs: &[u64],
    budget: &Budget,
    settings: &Settings,
    request: &CompressRequest,
) -> Regions {
    let limits = Limits {
        head_messages: 0,
        head_tokens: 0,
        tail_tokens: budget.tail,
        tail_messages_min: 1,
        user_messages_min: 1,
        exchanges: usize::try_from(request.keep_exchanges).unwrap_or(usize::MAX),
    };
    let cost = |position: usize| costs.get(position).copied().unwrap_or(0);
    let mut found = regions(conversation, units, &cost, &limits);
    if found.middle.is_empty() && found.gaps.is_empty() && is_asked_for(request) {
        found = regions(conversation, units, &cost, &Limits { tail_tokens: 0, ..limits });
    }
    if let Some(last) = settings.tail_turns.checked_sub(1).filter(|_| request.keep_exchanges == 0) {
        let mut users = (0..conversation.len())
            .rev()
            .filter(|&position| conversation.get(position).is_some_and(|message| message.is_real_user()));
        if let Some(user) = users.nth(last) {
            let start = align_down(units, user);
            if start > found.tail.start {
                found.middle.end = start.max(found.middle.start);
                found.tail.start = found.middle.end;
                found.gaps.clear();
            }
        }
    }
    found
}

/// Returns the unit of the first request, if it is to stay and is not too large; an empty range otherwise.
fn original_request(
    conversation: &Conversation<'_>,
    units: &[Range<usize>],
    costs: &[u64],
    budget: &Budget,
    settings: &Settings,
) -> Range<usize> {
    let first = conversation.iter().position(|message| message.is_real_user());
    let Some(first) = first.filter(|_| settings.keep_original_request) else { return 0..0 };
    let index = units.partition_point(|unit| unit.end <= first);
    let Some(unit) = units.get(index) else { return 0..0 };
    let tokens: u64 = costs.get(unit.clone()).unwrap_or_default().iter().sum();
    if tokens > budget.room / REQUEST_PART { 0..0 } else { unit.clone() }
}

/// Gives every earlier summary, and every text of the host's own, to the new one, wherever it stands: a superseded one
/// in the tail would be read as the newer. Nothing is done while nothing else is covered and there is one at most.
fn cover_stale_summaries(conversation: &Conversation<'_>, units: &[Range<usize>], layout: &mut Layout<'_>) {
    let is_single = |position: usize| {
        let index = units.partition_point(|unit| unit.end <= position);
        units.get(index).is_some_and(|unit| unit.len() == 1)
    };
    let positions = leading(conversation)..conversation.len();
    let stale: Vec<usize> = positions
        .filter(|&position| {
            let Some(message) = conversation.get(position) else { return false };
            let is_written = message.is_summary()
                || message.flags().has(engine_api::Flags::SYNTHETIC) && message.role() == Role::User;
            is_written && !message.is_real_user() && !message.is_pinned() && is_single(position)
        })
        .collect();
    let summaries = stale.iter().filter_map(|&position| conversation.get(position)).filter(|m| m.is_summary()).count();
    if summaries > 1 || !layout.covered().is_empty() {
        layout.cover(stale);
    }
}

/// Returns the request to say again: after an overflow in the middle of its turn. A finished turn has nothing to go on
/// with, and a request that is the last message stands where it should.
fn replayed(
    conversation: &Conversation<'_>,
    request: &CompressRequest,
    settings: &Settings,
    budget: &Budget,
) -> Option<usize> {
    let user = newest_user(conversation)?;
    let tokens = conversation.get(user)?.tokens();
    let is_wanted = settings.replay && request.trigger == Some(Trigger::Overflow);
    (is_wanted && is_in_turn(conversation) && tokens <= budget.room / REQUEST_PART).then_some(user)
}

/// Tells whether the last message is a tool's answer that the model has not answered yet.
fn is_in_turn(conversation: &Conversation<'_>) -> bool {
    let last = conversation.iter().next_back();
    last.is_some_and(|message| !message.is_real_user() && message.results().next().is_some())
}

/// Puts the program's question before the summary and, within a turn, its push to go on behind everything.
fn lead_in(plan: &mut CompactionPlan, conversation: &Conversation<'_>, is_replayed: bool) {
    let insert =
        |kind: InsertKind, text: &str| Step::Insert { role: Role::User, kind, message: None, text: text.to_string() };
    if let Some(at) = plan.steps.iter().position(|step| matches!(step, Step::Summary(_))) {
        plan.steps.insert(at, insert(InsertKind::LeadIn, LEAD_IN));
    }
    if is_in_turn(conversation) && !is_replayed {
        plan.steps.push(insert(InsertKind::Note, CONTINUE));
    }
}

/// Says why a result is over its room, with numbers.
fn why_not(conversation: &Conversation<'_>, must_keep: &[Range<usize>], budget: &Budget) -> String {
    let tokens = |range: Range<usize>| -> u64 {
        range.filter_map(|position| conversation.get(position)).map(|message| message.tokens()).sum()
    };
    let first = leading(conversation);
    let stays: u64 = must_keep.iter().map(|unit| tokens(unit.start.max(first)..unit.end.max(first))).sum();
    format!(
        "instructions of {} tokens and {stays} of the newest request, pinned messages and the last exchange have to stay \
         in room for {}; everything else is recent or short already",
        tokens(0..first),
        budget.room
    )
}

fn tokens_of(conversation: &Conversation<'_>, positions: &[usize]) -> u64 {
    positions.iter().filter_map(|&position| conversation.get(position)).map(|message| message.tokens()).sum()
}

/// One more than the deepest summary among the positions; 0 if there is none.
fn depth(services: &dyn HostServices, conversation: &Conversation<'_>, positions: &[usize]) -> u32 {
    let messages = positions.iter().filter_map(|&position| conversation.get(position));
    let nodes = messages.filter_map(|message| message.node());
    let depths = nodes.map(|node| match services.recall(&RecallRequest::describe(node)) {
        Ok(reply) => reply.node.get("depth").and_then(json::Value::as_u64).unwrap_or(0),
        Err(_) => 0,
    });
    depths.max().map_or(0, |depth| u32::try_from(depth).unwrap_or(u32::MAX - 1).saturating_add(1))
}
