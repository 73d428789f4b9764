//! What a summariser reads: messages, earlier summaries, and of those that no model has written their messages.

use super::is_pending;
use crate::drafts::Draft;
use crate::patterns::MessagePatterns;
use engine_api::{Conversation, HostServices, NodeId, RecallRequest, Role};
use engine_kit::render::{Limits, render};
use engine_kit::text::{clip, ends, prefix};

/// Summaries before a stretch that are shown, and bytes of each.
const BEFORE_MAX: usize = 2;
const BEFORE_BYTES: usize = 1_500;
/// Messages before a stretch that are looked through for them.
const BEFORE_REACH: usize = 64;
/// Messages of a summary that are asked of the host at once, and in all.
const PAGE: u64 = 100;
const MESSAGES_MAX: u64 = 400;
/// Bytes of one such message.
const MESSAGE_BYTES: usize = 4_000;

/// The positions that summaries speak of.
pub(super) fn shown(conversation: &Conversation<'_>, positions: &[usize], ignored: &MessagePatterns) -> Vec<usize> {
    let is_shown = |position: &usize| conversation.get(*position).is_some_and(|message| !ignored.leaves_out(&message));
    positions.iter().copied().filter(is_shown).collect()
}

/// The newest summaries before a leaf's stretch.
pub(super) fn before(conversation: &Conversation<'_>, draft: &Draft) -> String {
    if draft.depth > 0 {
        return String::new();
    }
    let first = draft.positions.first().copied().unwrap_or(0);
    let mut found: Vec<String> = (first.saturating_sub(BEFORE_REACH)..first)
        .rev()
        .filter_map(|position| conversation.get(position))
        .filter(|message| message.is_summary())
        .take(BEFORE_MAX)
        .map(|message| ends(message.text().trim(), BEFORE_BYTES / 2, BEFORE_BYTES / 2))
        .collect();
    found.reverse();
    found.join("\n\n")
}

/// The material of a draft in at most about `bytes_max` bytes.
pub(super) fn of(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    draft: &Draft,
    ignored: &MessagePatterns,
    bytes_max: usize,
) -> String {
    let shown = shown(conversation, &draft.positions, ignored);
    let is_unwritten = |position: usize| conversation.get(position).is_some_and(|message| is_pending(&message));
    // Each summary that no model has written gets the share of a message's tokens at least.
    let share = bytes_max / shown.iter().filter(|&&position| is_unwritten(position)).count().saturating_add(1).max(2);
    let mut out = String::new();
    let runs = shown.chunk_by(|&a, &b| is_unwritten(a) == is_unwritten(b));
    for run in runs {
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        let left = bytes_max.saturating_sub(out.len());
        if run.first().is_some_and(|&position| is_unwritten(position)) {
            for &position in run {
                let node = conversation.get(position).and_then(|message| message.node());
                let whole = node.map(|node| messages_of(services, node, share)).unwrap_or_default();
                if whole.is_empty() {
                    let limits = Limits { message_bytes: share, total_bytes: share, ..Limits::default() };
                    out.push_str(&render(conversation, &[position], &limits));
                } else {
                    out.push_str(&whole);
                }
            }
        } else {
            // Every message is shown whole while all fit; then the longest are cut first.
            let limits = Limits { message_bytes: left, argument_bytes: left / 4, total_bytes: left };
            out.push_str(&render(conversation, run, &limits));
        }
    }
    out
}

/// The messages below a summary as blocks, as many as fit.
fn messages_of(services: &dyn HostServices, node: NodeId, bytes_max: usize) -> String {
    let mut out = String::new();
    let mut offset = 0;
    while offset < MESSAGES_MAX && out.len() < bytes_max {
        let Ok(reply) = services.recall(&RecallRequest::expand(node, offset, PAGE)) else { break };
        if reply.hits.is_empty() {
            break;
        }
        for hit in &reply.hits {
            let label = match hit.role {
                Some(Role::Tool) => format!("TOOL RESULT {}", clip(&hit.tool, 40)),
                Some(role) => role.as_str().to_uppercase(),
                None => "EARLIER SUMMARY".to_string(),
            };
            let room = bytes_max.saturating_sub(out.len());
            if room < 80 {
                break;
            }
            let text = ends(&hit.text, MESSAGE_BYTES / 4 * 3, MESSAGE_BYTES / 4);
            out.push_str(&format!("{}[{label}]: {}", if out.is_empty() { "" } else { "\n\n" }, prefix(&text, room)));
        }
        offset += reply.hits.len() as u64;
        if offset >= reply.total {
            break;
        }
    }
    out
}
