//! What of the conversation stays, what of it is shortened, and the summaries of the rest.

use crate::drafts::{Draft, Ground, LEAF_PART, drafts};
use crate::settings::Settings;
use crate::threshold::low_water;
use crate::write::pointer;
use engine_api::{CompressRequest, Conversation, EngineError, Flags, HostServices, PartKind};
use engine_kit::fit::Fit;
use engine_kit::layout::{Layout, SUMMARY_FRAME_TOKENS};
use engine_kit::pairs::units;
use engine_kit::prune::{CallTable, Rewrite, excerpt, one_line_result};
use engine_kit::regions::{Limits, is_asked_for, must_keep, newest_user, regions, room};

/// Of the room, kept free for summaries while the tail is made to fit.
pub(crate) const RESERVE_PART: u64 = 4;
/// Without pressure the messages may take this much of the room before anything is done.
const ROOMY: (u64, u64) = (4, 5);
/// Where neither the settings nor the host state a tail: its share of the room.
const TAIL_PART: u64 = 5;
/// A leaf stands for this part of the window, within these bounds; hermes-lcm and lossless-claw have 20,000 tokens
/// whatever the window, which an 8K window does not hold.
const CHUNK_PART: u64 = 6;
const CHUNK_TOKENS: (u64, u64) = (1_000, 40_000);
const CHUNK_TOKENS_DEFAULT: u64 = 20_000;
/// Bytes of a large result that its stub shows: enough to see what it is.
const STUB_BYTES: usize = 1_200;
/// The line of [`pointer()`] has at most so many tokens.
const POINTER_TOKENS: u64 = 24;

/// What is kept and what is to be summarised.
pub(crate) struct Tree<'a> {
    pub(crate) layout: Layout<'a>,
    pub(crate) drafts: Vec<Draft>,
    /// Tokens that the messages may come to.
    pub(crate) room: u64,
}

/// What a compaction is to do beside fitting.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish {
    /// Every earlier summary becomes one.
    pub(crate) is_rotation: bool,
    /// Tokens that messages of the engine's own will take.
    pub(crate) insert_tokens: u64,
}

/// Divides the conversation into what stays and the summaries of the rest.
pub(crate) fn grow<'a>(
    services: &dyn HostServices,
    conversation: &Conversation<'a>,
    request: &CompressRequest,
    settings: &Settings,
    wish: Wish,
) -> Result<Tree<'a>, EngineError> {
    let mut request = request.clone();
    if let Some(target) = low_water(settings, &request) {
        request.target_tokens = target;
    }
    let room = room(conversation, &request).saturating_sub(wish.insert_tokens);
    let units = units(conversation);
    let must_keep = must_keep(conversation, &units);
    let stated = [settings.fresh_tail_tokens, request.model.tail_budget_tokens].into_iter().find(|tokens| *tokens > 0);
    let limits = Limits {
        head_messages: 0,
        head_tokens: 0,
        tail_tokens: stated.unwrap_or(room / TAIL_PART).min(room / 2),
        tail_messages_min: settings.fresh_tail_messages_min,
        user_messages_min: 1,
        exchanges: usize::try_from(request.keep_exchanges).unwrap_or(usize::MAX),
    };
    let cost = |position: usize| conversation.get(position).map_or(0, |message| message.tokens());
    let is_asked_for = is_asked_for(&request) || wish.is_rotation;
    let mut found = regions(conversation, &units, &cost, &limits);
    if found.middle.is_empty() && found.gaps.is_empty() && is_asked_for {
        found = regions(conversation, &units, &cost, &Limits { tail_tokens: 0, ..limits });
    }

    let calls = CallTable::new(conversation);
    let mut layout = Layout::new(*conversation).with_pointer(pointer, POINTER_TOKENS);
    layout.cover(found.middle.clone());
    found.gaps.iter().for_each(|gap| layout.cover(gap.clone()));
    must_keep.iter().for_each(|unit| layout.keep(unit.clone()));
    stub_large(services, conversation, settings, &calls, &mut layout);
    let fit = Fit {
        units: &units,
        head_end: found.head.end,
        must_keep: &must_keep,
        exchanges_start: if limits.exchanges == 0 { conversation.len() } else { found.tail.start },
        room,
        reserve: &|covered| {
            if covered == 0 { 0 } else { (covered / LEAF_PART).min(room / RESERVE_PART) + SUMMARY_FRAME_TOKENS }
        },
    };
    fit.apply(&mut layout, conversation, &calls, &|text| services.count_tokens(text));

    let covered = layout.covered();
    let is_pressed = is_asked_for || conversation.tokens() > room / ROOMY.1 * ROOMY.0;
    let covered_tokens: u64 = covered.iter().map(|&position| cost(position)).sum();
    let chunk_tokens = chunk_tokens(settings, &request, room);
    if !is_pressed && covered_tokens < chunk_tokens && !layout.is_shortened() {
        return Err(EngineError::nothing_to_compact("there is room left, and too little for a leaf"));
    }
    let ground = Ground {
        services,
        conversation,
        units: &units,
        covered: &covered,
        room,
        settings,
        chunk_tokens,
        completions_max: request.completions_max,
        is_rotation: wish.is_rotation,
    };
    let drafts = drafts(&ground, &mut layout);
    Ok(Tree { layout, drafts, room })
}

/// Makes the chunk of a leaf fit the window and the summariser's window.
fn chunk_tokens(settings: &Settings, request: &CompressRequest, room: u64) -> u64 {
    let derived = match (settings.leaf_chunk_tokens, request.model.context_length) {
        (0, 0) => CHUNK_TOKENS_DEFAULT,
        (0, window) => (window / CHUNK_PART).clamp(CHUNK_TOKENS.0, CHUNK_TOKENS.1),
        (stated, _) => stated,
    };
    let summariser = match request.completion_window {
        0 => u64::MAX,
        window => (window / 2).max(CHUNK_TOKENS.0),
    };
    derived.min(summariser).min(room.max(CHUNK_TOKENS.0))
}

/// Gives large results that stay a stub, unless they belong to the newest exchange.
fn stub_large(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    settings: &Settings,
    calls: &CallTable<'_>,
    layout: &mut Layout<'_>,
) {
    if settings.large_result_tokens == 0 {
        return;
    }
    let newest = newest_user(conversation).unwrap_or(conversation.len());
    let mut rewrites = Vec::new();
    for (position, message) in conversation.iter().enumerate().take(newest).filter(|(at, _)| layout.is_kept(*at)) {
        for (index, part) in message.parts().enumerate() {
            let is_large = part.kind() == PartKind::ToolResult
                && part.tokens() > settings.large_result_tokens
                && !part.flags().has(Flags::HAS_IMAGE);
            if is_large {
                let line = one_line_result(calls.call_of(position, index), part);
                let text = format!("{line}\n{}", excerpt(part.text(), STUB_BYTES));
                rewrites.push(Rewrite { message: position, part: index, text });
            }
        }
    }
    layout.shorten(rewrites, &|texts| services.count_tokens_batch(texts));
}
