//! Cutting large tool results in their middle, as Codex does when it records them.

use crate::budget::Budget;
use crate::cut::middle_cut;
use crate::settings::Settings;
use engine_api::{CompactionPlan, CompressRequest, Conversation, EngineError, Flags, HostServices};
use engine_kit::layout::{Layout, RECALL_TOKENS};
use engine_kit::pairs::units;
use engine_kit::prune::Rewrite;
use engine_kit::regions::{leading, must_keep};

/// Results older than the tail are cut to this part of what a new one may have: what mattered of them has been said.
const OLD_PART: u64 = 10;
/// A result cut to less would say nothing.
const CUT_TOKENS_MIN: u64 = 128;

/// Cuts results of these positions to `tokens_max`; 0 cuts none.
pub(crate) fn cut_results(
    conversation: &Conversation<'_>,
    layout: &mut Layout<'_>,
    positions: impl IntoIterator<Item = usize>,
    tokens_max: u64,
    count: &dyn Fn(&str) -> u64,
) {
    if tokens_max == 0 {
        return;
    }
    let tokens_max = tokens_max.max(CUT_TOKENS_MIN);
    let untouched = [Flags::HAS_IMAGE, Flags::DEMOTED, Flags::SELF_CONTAINED];
    let mut rewrites = Vec::new();
    for position in positions {
        let Some(message) = conversation.get(position).filter(|message| !message.is_pinned()) else { continue };
        for (index, part) in message.parts().enumerate() {
            let is_result = part.kind() == engine_api::PartKind::ToolResult;
            if !is_result || part.tokens() <= tokens_max || untouched.iter().any(|flag| part.flags().has(*flag)) {
                continue;
            }
            let budget = tokens_max.saturating_sub(RECALL_TOKENS);
            if let Some(text) = middle_cut(part.text(), part.tokens(), budget, count) {
                rewrites.push(Rewrite { message: position, part: index, text });
            }
        }
    }
    layout.shorten(rewrites, &|texts| texts.iter().map(|text| count(text)).collect());
}

/// Proposes cuts of large results, and nothing else.
pub(crate) fn propose_pruning(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    request: &CompressRequest,
    settings: &Settings,
) -> Result<CompactionPlan, EngineError> {
    let count = |text: &str| services.count_tokens(text);
    let budget = Budget::of(conversation, request, settings);
    let units = units(conversation);
    let must = must_keep(conversation, &units);
    let mut layout = Layout::new(*conversation);
    let mut tail_start = conversation.len();
    let mut tail_tokens = 0u64;
    for unit in units.iter().rev() {
        tail_tokens = tail_tokens.saturating_add(unit.clone().map(|position| layout.cost(position)).sum());
        if tail_tokens > budget.tail {
            break;
        }
        tail_start = unit.start;
    }
    let limit = settings.tool_output_tokens;
    let old_limit = if settings.as_original { limit } else { limit / OLD_PART };
    let first = leading(conversation);
    for unit in units.iter().filter(|unit| unit.start >= first && !must.contains(unit)) {
        let limit = if unit.start >= tail_start { limit } else { old_limit };
        cut_results(conversation, &mut layout, unit.clone(), limit, &count);
    }
    if !layout.is_shortened() {
        return Err(EngineError::nothing_to_compact("no tool result is long enough to cut"));
    }
    Ok(layout.into_plan(Vec::new()))
}
