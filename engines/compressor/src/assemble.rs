//! The fourth phase: what stays is made to fit, and everything becomes a plan.

use crate::boundaries::boundaries;
use crate::budget::{Budget, SummaryTokens};
use crate::prune::{Old, shorten};
use crate::settings::Settings;
use crate::summary::{Source, Summary, summarise};
use engine_api::{
    CompactionPlan, CompressRequest, Conversation, EngineError, HostServices, RecallRequest, SummaryKind, SummaryStep,
    json,
};
use engine_kit::fit::Fit;
use engine_kit::layout::{Layout, SUMMARY_FRAME_TOKENS, spans};
use engine_kit::pairs::units;
use engine_kit::prune::CallTable;
use engine_kit::regions::{is_asked_for, leading, newest_user};
use std::ops::Range;

/// The least room for a summary where the kept messages leave none.
const SUMMARY_TOKENS_LEAST: u64 = 300;
/// Below this part of the room what a summary would stand for is not worth a summary, if all fits without.
const WORTH_PART: u64 = 10;
/// Without a summary, the messages may take this much of the room, so that the next compaction is not at once.
const ROOMY: (u64, u64) = (4, 5);

/// Proposes a smaller conversation.
pub(crate) fn propose(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    request: &CompressRequest,
    settings: &Settings,
) -> Result<CompactionPlan, EngineError> {
    let count = |text: &str| services.count_tokens(text);
    let count_all = |texts: &[&str]| services.count_tokens_batch(texts);
    let budget = Budget::of(conversation, request, settings);
    let units = units(conversation);
    let table = CallTable::new(conversation);
    let old = Old::of(conversation, &budget, settings);
    let cost = |position: usize| old.cost(conversation, position);
    let found = boundaries(conversation, &units, &cost, &budget, settings, request);

    // The exchanges that a person asked to keep stay as they are, large results and all, as long as there is room.
    let old = old.before(found.exchanges_start);

    let mut layout = Layout::new(*conversation);
    layout.cover(found.regions.middle.clone());
    found.regions.gaps.iter().for_each(|gap| layout.cover(gap.clone()));
    found.must_keep.iter().for_each(|unit| layout.keep(unit.clone()));
    shorten(conversation, &mut layout, &table, old, &count_all);

    let is_asked_for = is_asked_for(request) || !request.focus_topic.is_empty();
    if !is_asked_for && is_not_worth_a_summary(&mut layout, conversation, &table, old, &budget, &count_all) {
        layout.keep(0..conversation.len());
    }
    let fit = Fit {
        units: &units,
        head_end: found.regions.head.end,
        must_keep: &found.must_keep,
        exchanges_start: found.exchanges_start,
        room: budget.room,
        reserve: &|covered| if covered == 0 { 0 } else { budget.summary(covered).framed() },
    };
    fit.apply(&mut layout, conversation, &table, &count);

    let mut positions = layout.covered();
    let mut summary = None;
    if !positions.is_empty() {
        let tokens = tokens_of(conversation, &positions);
        let wanted = budget.summary(tokens);
        let left = budget.room.saturating_sub(layout.kept_tokens()).saturating_sub(SUMMARY_FRAME_TOKENS);
        // Less than half of the reserve means that the kept messages could not be made to fit, so nothing will.
        let least = if left < wanted.sections / 2 { SUMMARY_TOKENS_LEAST } else { 0 };
        let tokens_max = left.max(least).min(tokens.saturating_sub(SUMMARY_FRAME_TOKENS + 1));
        let sections = wanted.sections.min(tokens_max);
        let source = Source {
            conversation: *conversation,
            positions: positions.clone(),
            tokens,
            wanted: SummaryTokens { sections, log: wanted.log.min(tokens_max - sections), ..wanted },
            tokens_max,
            tail_mode: settings.tail_mode,
            old_end: old.end,
            table: &table,
        };
        let written = if tokens_max > 0 { Some(summarise(&source, request, services)) } else { None };
        match written.filter(|summary| !summary.text.trim().is_empty()) {
            Some(written) => summary = Some(written),
            // So little is covered that no text would be shorter.
            None => {
                layout.keep(positions.drain(..));
            }
        }
    }
    let summary_tokens = summary.as_ref().map_or(0, |summary| summary.tokens.saturating_add(SUMMARY_FRAME_TOKENS));
    let after = layout.kept_tokens().saturating_add(summary_tokens);
    let floor =
        if after > budget.room { what_must_stay(conversation, &found.must_keep, &budget) } else { String::new() };
    if after >= conversation.tokens() {
        let reason = if floor.is_empty() { "everything is recent, pinned or short already" } else { &floor };
        return Err(EngineError::nothing_to_compact(reason));
    }
    let mut plan = written_down(services, conversation, layout, &positions, summary);
    if !floor.is_empty() {
        plan.report.notes.push(floor);
    }
    Ok(plan)
}

/// Says why a result is over its room, with numbers.
fn what_must_stay(conversation: &Conversation<'_>, must_keep: &[Range<usize>], budget: &Budget) -> String {
    let tokens = |position: usize| conversation.get(position).map_or(0, |message| message.tokens());
    let first = leading(conversation);
    let instructions: u64 = (0..first).map(tokens).sum();
    let request = newest_user(conversation).map_or(0, tokens);
    let pinned: u64 = conversation.iter().filter(|message| message.is_pinned()).map(|message| message.tokens()).sum();
    let all: u64 =
        instructions + must_keep.iter().flat_map(|unit| unit.start.max(first)..unit.end).map(tokens).sum::<u64>();
    format!(
        "{all} tokens have to stay where there is room for {}: instructions {instructions}, the newest request {request}, \
         pinned messages {pinned}, and the last exchange with the model; only their tool results can be shortened",
        budget.room
    )
}

/// Proposes lines for old results, and nothing else.
pub(crate) fn propose_pruning(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    request: &CompressRequest,
    settings: &Settings,
) -> Result<CompactionPlan, EngineError> {
    let budget = Budget::of(conversation, request, settings);
    let table = CallTable::new(conversation);
    let mut layout = Layout::new(*conversation);
    let old = Old::of(conversation, &budget, settings);
    shorten(conversation, &mut layout, &table, old, &|texts| services.count_tokens_batch(texts));
    if !layout.is_shortened() {
        return Err(EngineError::nothing_to_compact("no old tool result is long enough to shorten"));
    }
    Ok(layout.into_plan(Vec::new()))
}

fn written_down(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    layout: Layout<'_>,
    positions: &[usize],
    summary: Option<Summary>,
) -> CompactionPlan {
    let Some(summary) = summary else { return layout.into_plan(Vec::new()) };
    let step = SummaryStep {
        text: summary.text,
        covers: spans(positions),
        nodes: Vec::new(),
        depth: depth(services, conversation, positions),
        kind: SummaryKind::Iterative,
    };
    let mut plan = layout.into_plan(vec![step]);
    plan.report.completions = summary.completions;
    plan.report.fallback = summary.fallback;
    plan.report.notes = summary.notes;
    plan
}

/// One more than the deepest summary among the positions; 0 if there is none.
fn depth(services: &dyn HostServices, conversation: &Conversation<'_>, positions: &[usize]) -> u32 {
    let nodes =
        positions.iter().filter_map(|&position| conversation.get(position)).filter_map(|message| message.node());
    let depths = nodes.map(|node| match services.recall(&RecallRequest::describe(node)) {
        Ok(reply) => reply.node.get("depth").and_then(json::Value::as_u64).unwrap_or(0),
        Err(_) => 0,
    });
    depths.max().map_or(0, |depth| u32::try_from(depth).unwrap_or(u32::MAX - 1).saturating_add(1))
}

fn tokens_of(conversation: &Conversation<'_>, positions: &[usize]) -> u64 {
    positions.iter().filter_map(|&position| conversation.get(position)).map(|message| message.tokens()).sum()
}

/// Tells whether all fits well without a summary, once old results are lines; then what was covered is shortened too.
fn is_not_worth_a_summary(
    layout: &mut Layout<'_>,
    conversation: &Conversation<'_>,
    table: &CallTable<'_>,
    old: Old,
    budget: &Budget,
    count: &dyn Fn(&[&str]) -> Vec<u64>,
) -> bool {
    let covered = layout.covered();
    if tokens_of(conversation, &covered) > budget.room / WORTH_PART {
        return false;
    }
    layout.keep(covered.iter().copied());
    shorten(conversation, layout, table, old, count);
    let is_roomy = layout.kept_tokens() <= budget.room / ROOMY.1 * ROOMY.0;
    if !is_roomy {
        layout.cover(covered);
    }
    is_roomy
}
