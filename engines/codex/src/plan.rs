//! The plan: what stays, the cut messages in their places, and the handoff after all that it stands for.

use crate::budget::Budget;
use crate::choose::{Case, Cut, choose};
use crate::settings::Settings;
use crate::summary::{Source, Summary, summarise};
use engine_api::{
    CompactionPlan, CompressRequest, Conversation, EngineError, HostServices, InsertKind, RecallRequest, Role, Step,
    SummaryKind, SummaryStep, json,
};
use engine_kit::layout::{Layout, SUMMARY_FRAME_TOKENS, spans};
use engine_kit::pairs::units;
use engine_kit::prune::CallTable;
use engine_kit::regions::{leading, must_keep};

/// The least room for a handoff where the kept messages leave none.
const SUMMARY_TOKENS_LEAST: u64 = 300;

/// Proposes a smaller conversation.
pub(crate) fn propose(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    request: &CompressRequest,
    settings: &Settings,
) -> Result<CompactionPlan, EngineError> {
    let count = |text: &str| services.count_tokens(text);
    let budget = Budget::of(conversation, request, settings);
    let units = units(conversation);
    let must = must_keep(conversation, &units);
    let table = CallTable::new(conversation);
    let case = Case {
        conversation: *conversation,
        units: &units,
        must_keep: &must,
        budget: &budget,
        settings,
        exchanges: usize::try_from(request.keep_exchanges).unwrap_or(usize::MAX),
        table: &table,
        count: &count,
    };
    let mut chosen = choose(&case);
    let mut positions = chosen.layout.covered();
    let mut summary = None;
    if !positions.is_empty() {
        let tokens = tokens_of(conversation, &positions);
        let cuts: u64 = chosen.cuts.iter().map(|cut| cut.tokens).sum();
        let taken = chosen.layout.kept_tokens().saturating_add(cuts).saturating_add(SUMMARY_FRAME_TOKENS);
        let left = budget.room.saturating_sub(taken);
        let wanted = budget.summary(tokens);
        // Less than half of the reserve means that what must stay could not be made to fit, so nothing will.
        let least = if left < wanted / 2 { SUMMARY_TOKENS_LEAST } else { 0 };
        // A handoff may be longer than was asked for, but not so long that the next compaction is near.
        let tokens_max = left.max(least).min(wanted.saturating_mul(2).max(least));
        let tokens_max = tokens_max.min(tokens.saturating_sub(SUMMARY_FRAME_TOKENS + 1));
        let source = Source {
            conversation: *conversation,
            positions: &positions,
            tokens,
            wanted: wanted.min(tokens_max),
            tokens_max,
            settings,
        };
        summary = if tokens_max > 0 { summarise(&source, request, services) } else { None };
        if summary.is_none() {
            // So little is covered that no text would be shorter.
            chosen.layout.keep(positions.drain(..));
            chosen.cuts.clear();
        }
    }
    let cuts: u64 = chosen.cuts.iter().map(|cut| cut.tokens).sum();
    let text = summary.as_ref().map_or(0, |summary| summary.tokens.saturating_add(SUMMARY_FRAME_TOKENS));
    let after = chosen.layout.kept_tokens().saturating_add(cuts).saturating_add(text);
    let is_over = after > budget.room;
    if after >= conversation.tokens() {
        let why = "everything is recent, the user's own or short already".to_string();
        return Err(EngineError::nothing_to_compact(if is_over { what_must_stay(&case) } else { why }));
    }
    let mut plan = written_down(services, conversation, chosen.layout, &positions, &chosen.cuts, summary);
    if is_over {
        plan.report.notes.push(what_must_stay(&case));
    }
    Ok(plan)
}

/// Says why a result is over its room, with numbers.
fn what_must_stay(case: &Case<'_, '_>) -> String {
    let first = leading(&case.conversation);
    let tokens = |position: usize| case.conversation.get(position).map_or(0, |message| message.tokens());
    let must = case.must_keep.iter().flat_map(|unit| unit.start.max(first)..unit.end);
    let all: u64 = (0..first).chain(must).map(tokens).sum();
    format!(
        "{all} tokens have to stay where there is room for {}: instructions, the newest request, pinned messages and the \
         last exchange with the model; only their tool results can be shortened",
        case.budget.room
    )
}

fn written_down(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    layout: Layout<'_>,
    positions: &[usize],
    cuts: &[Cut],
    summary: Option<Summary>,
) -> CompactionPlan {
    let steps = layout.into_plan(Vec::new()).steps;
    let mut plan = CompactionPlan::new(conversation.revision());
    let Some(summary) = summary else {
        plan.steps = steps;
        return plan;
    };
    let is_summary = |position: &usize| conversation.get(*position).is_some_and(|message| message.is_summary());
    let kind = if positions.iter().any(is_summary) { SummaryKind::Iterative } else { SummaryKind::Leaf };
    let step = Step::Summary(SummaryStep {
        text: summary.text,
        covers: spans(positions),
        nodes: Vec::new(),
        depth: depth(services, conversation, positions),
        kind,
    });
    // The handoff stands where the last of its messages stood: after the user's words, before the work that goes on.
    let end = positions.last().map_or(0, |last| last + 1);
    let mut additions: Vec<(usize, Step)> = cuts
        .iter()
        .map(|cut| {
            let text = cut.text.clone();
            (cut.position, Step::Insert { role: Role::User, kind: InsertKind::Restored, message: None, text })
        })
        .collect();
    additions.push((end, step));
    let mut additions = additions.into_iter().peekable();
    for step in steps {
        if let Step::Keep(span) = &step {
            while let Some((_, addition)) = additions.next_if(|(position, _)| *position <= span.first) {
                plan.steps.push(addition);
            }
        }
        plan.steps.push(step);
    }
    plan.steps.extend(additions.map(|(_, addition)| addition));
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
