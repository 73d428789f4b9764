//! What the host does itself where no plan gets the conversation under its target: shorten the largest tool results,
//! and, last, keep only what must stay.

use crate::apply;
use crate::draft::{Draft, Entry, Origin};
use crate::frame;
use crate::scribe::{PartChange, Scribe};
use crate::session::Session;
use crate::words;
use engine_api::{
    CompactionPlan, Conversation, Flags, MessageId, PartKind, Role, Span, Step, SummaryKind, SummaryStep,
};
use engine_kit::{outline, pairs};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes that a shortened result keeps of its start and end.
const EXCERPT_BYTES: usize = 1_200;
/// Bytes that shortened arguments keep.
const ARGUMENTS_BYTES: usize = 400;
/// Parts of fewer tokens are not worth shortening: the note about it costs about 30.
const WORTH_TOKENS: u32 = 450;
/// Tokens of the outline in the smallest context at most.
const SMALLEST_OUTLINE_TOKENS: u64 = 2_000;

/// Shortens tool results, largest first and the newest unit's last, then arguments, until the draft's messages have
/// at most `messages_tokens`.
pub fn demote(session: &Session, draft: &mut Draft, messages_tokens: u64, scribe: &dyn Scribe) {
    for kind in [PartKind::ToolResult, PartKind::ToolCall] {
        let excess = draft.tokens().saturating_sub(messages_tokens);
        if excess == 0 {
            return;
        }
        demote_kind(session, draft, kind, excess, scribe);
    }
}

fn demote_kind(session: &Session, draft: &mut Draft, kind: PartKind, excess: u64, scribe: &dyn Scribe) {
    // What the model is about to answer matters most, so the newest calls and results go last.
    let newest = draft.entries.iter().rposition(|entry| entry.message.role == Role::Assistant).unwrap_or(0);
    let mut candidates: Vec<(bool, u32, usize, usize)> = Vec::new();
    for (at, entry) in draft.entries.iter().enumerate() {
        let untouchable = entry.origin.source().is_none() || entry.message.flags.has(Flags::PINNED);
        if untouchable {
            continue;
        }
        for (part_at, part) in entry.message.parts.iter().enumerate() {
            let shortened = part.flags.has(Flags::DEMOTED) || part.flags.has(Flags::SELF_CONTAINED);
            if part.kind == kind && part.tokens >= WORTH_TOKENS && !shortened {
                candidates.push((at >= newest, part.tokens, at, part_at));
            }
        }
    }
    candidates.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut chosen: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut saved = 0u64;
    for (_, tokens, at, part) in candidates {
        if saved >= excess {
            break;
        }
        saved += u64::from(tokens - WORTH_TOKENS.min(tokens));
        chosen.entry(at).or_default().push(part);
    }
    for (at, parts) in chosen {
        let Some(entry) = draft.entries.get_mut(at) else { continue };
        shorten(session, entry, &parts, scribe);
    }
}

fn shorten(session: &Session, entry: &mut Entry, parts: &[usize], scribe: &dyn Scribe) {
    let id: MessageId = session.original(entry.message.id);
    let changes: Vec<(usize, PartChange)> = parts
        .iter()
        .filter_map(|at| entry.message.parts.get(*at).map(|part| (*at, part)))
        .map(|(at, part)| {
            let text = if part.kind == PartKind::ToolCall {
                serde_json::json!({ "_shortened": words::clip(&part.text, ARGUMENTS_BYTES) }).to_string()
            } else {
                format!(
                    "{}{}",
                    words::clip(&part.text, EXCERPT_BYTES),
                    frame::shortened(id, u64::from(part.tokens), session.recall_tool)
                )
            };
            (at, PartChange::Text(text))
        })
        .collect();
    // Some kinds of answers have a fixed shape that no text fits; they stay whole.
    let Ok(Some(mut edited)) = scribe.edit(&entry.message, &changes) else { return };
    // Dense text can come out no shorter; then the original is the better one.
    if edited.tokens >= entry.message.tokens {
        return;
    }
    apply::carry(&entry.message, &mut edited);
    if let Origin::Kept(at) = entry.origin {
        entry.origin = Origin::Edited(at);
    }
    entry.message = Arc::new(edited);
}

/// Plans the smallest legal context: leading instructions, pinned messages, the user's newest message, the newest
/// unit, as many newer units as half of what is left holds, and an outline of everything else.
pub fn smallest_plan(
    session: &Session,
    conversation: &Conversation<'_>,
    target_tokens: u64,
    scribe: &dyn Scribe,
) -> CompactionPlan {
    let units = pairs::units(conversation);
    let length = session.view.len();
    let tokens = |range: std::ops::Range<usize>| -> u64 {
        range.filter_map(|at| session.view.get(at)).map(|message| u64::from(message.tokens)).sum()
    };
    let head = session.view.iter().take_while(|message| is_instruction(message.role)).count();
    let mut keep: BTreeSet<usize> = (0..head).collect();
    keep.extend((head..length).filter(|at| session.view.get(*at).is_some_and(|one| one.flags.has(Flags::PINNED))));
    keep.extend(words::newest_user(&session.view));
    if let Some(last) = units.last() {
        keep.extend(last.clone());
    }
    let fixed: u64 = keep.iter().map(|at| tokens(*at..*at + 1)).sum();
    let room = target_tokens.saturating_sub(session.overhead_tokens).saturating_sub(fixed);
    let mut tail = 0;
    for unit in units.iter().rev().skip(1).take_while(|unit| unit.start >= head) {
        tail += tokens(unit.clone());
        if tail > room / 2 {
            break;
        }
        keep.extend(unit.clone());
    }
    let gone: Vec<usize> = (head..length).filter(|at| !keep.contains(at)).collect();
    let mut plan = CompactionPlan::new(conversation.revision());
    plan.keep(0..head);
    if !gone.is_empty() {
        let source: u64 = gone.iter().map(|at| tokens(*at..*at + 1)).sum();
        let budget = SMALLEST_OUTLINE_TOKENS.min(room / 4).min(source / 2).max(1);
        let count = |text: &str| scribe.count(text);
        let options = outline::Options::default();
        let mut text = outline::outline(conversation, gone.iter().copied(), budget, &count, &options);
        if text.trim().is_empty() || scribe.count(&text) > source {
            text = format!("{} messages", gone.len());
        }
        let depth = gone.iter().filter_map(|at| conversation.get(*at)).filter(|one| one.node().is_some()).count();
        plan.steps.push(Step::Summary(SummaryStep {
            text,
            covers: spans(&gone),
            nodes: Vec::new(),
            depth: u32::from(depth > 0),
            kind: if depth > 0 { SummaryKind::Iterative } else { SummaryKind::Leaf },
        }));
    }
    let kept: Vec<usize> = keep.into_iter().filter(|at| *at >= head).collect();
    plan.steps.extend(spans(&kept).into_iter().map(Step::Keep));
    plan
}

fn is_instruction(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

/// Joins neighbouring positions, which stand in order.
fn spans(positions: &[usize]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for at in positions {
        match spans.last_mut() {
            Some(span) if span.last + 1 == *at => span.last = *at,
            _ => spans.push(Span { first: *at, last: *at }),
        }
    }
    spans
}
