//! Hiding old tool results: which ones, and by what text. The data stay with the host.

use crate::budget::Budget;
use crate::settings::Settings;
use engine_api::{Conversation, Flags, PartKind};
use engine_kit::layout::RECALL_TOKENS;
use engine_kit::prune::Rewrite;

/// What the program shows in place of a hidden result; models know the words.
pub(crate) const NOTICE: &str = "[Old tool result content cleared]";
/// The notice and the host's line behind it.
const NOTICE_TOKENS: u64 = 12 + RECALL_TOKENS;

/// Returns what to hide; nothing unless it frees enough.
///
/// Seen from the newest message back: the last turns are passed over, then results up to the protected amount, and
/// every older one is hidden. A summary, or a result hidden before, ends the walk: what lies behind was decided then.
pub(crate) fn hidden(conversation: &Conversation<'_>, budget: &Budget, settings: &Settings) -> Vec<Rewrite> {
    if !settings.prune {
        return Vec::new();
    }
    let mut rewrites = Vec::new();
    let (mut turns, mut seen, mut freed) = (0usize, 0u64, 0u64);
    'messages: for position in (0..conversation.len()).rev() {
        let Some(message) = conversation.get(position) else { continue };
        if message.is_summary() {
            break;
        }
        let is_old = turns >= settings.prune_protect_turns;
        turns += usize::from(message.is_real_user());
        if !is_old {
            continue;
        }
        for (index, part) in message.parts().enumerate().rev() {
            let is_result = part.kind() == PartKind::ToolResult && !part.flags().has(Flags::SELF_CONTAINED);
            if !is_result || settings.prune_exempt_tools.iter().any(|tool| tool == part.tool_name()) {
                continue;
            }
            if part.flags().has(Flags::DEMOTED) {
                // Other engines and an overflow shorten single results, so this alone says nothing of what is behind.
                if part.text().starts_with(NOTICE) {
                    break 'messages;
                }
                continue;
            }
            seen = seen.saturating_add(part.tokens());
            let gain = part.tokens().saturating_sub(NOTICE_TOKENS);
            if seen > budget.protect && gain > 0 && !message.is_pinned() {
                freed = freed.saturating_add(gain);
                rewrites.push(Rewrite { message: position, part: index, text: NOTICE.to_string() });
            }
        }
    }
    if freed <= budget.minimum {
        return Vec::new();
    }
    rewrites
}
