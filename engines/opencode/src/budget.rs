//! What there is room for, from the live window: the usable part, the tail, the protected results, the summary.

use crate::settings::Settings;
use engine_api::{CompressRequest, Conversation, ModelInfo};
use engine_kit::regions::room;

/// The program's longest answer, and what it reserves where none is stated.
const OUTPUT_TOKENS_MAX: u64 = 32_000;
/// With a reserve above this part of the window every step would compact, as it does where output equals the window.
const RESERVE_PART: u64 = 2;
/// The program's tail: a quarter of the usable window, within these bounds.
const TAIL_PART: u64 = 4;
const TAIL_TOKENS: (u64, u64) = (2_000, 15_000);
/// The figures for hiding suit a window of 200,000; in a smaller one they are the same shares of it.
const PROTECT_PART: u64 = 5;
const MINIMUM_PART: u64 = 10;
/// A summary takes a fifth of what it stands for, but at least this where that is little.
const SUMMARY_PART: u64 = 5;
const SUMMARY_TOKENS_MIN: u64 = 1_000;
/// And no more than this part of the room.
const SUMMARY_ROOM_PART: u64 = 4;

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// For all messages, kept and new.
    pub(crate) room: u64,
    /// For the tail.
    pub(crate) tail: u64,
    /// Newest results that are not hidden.
    pub(crate) protect: u64,
    /// What hiding must free.
    pub(crate) minimum: u64,
    summary_max: u64,
}

/// Returns the prompt tokens that the window leaves beside the answer; 0 where the window is not known.
pub(crate) fn usable(model: &ModelInfo) -> u64 {
    let output = if model.max_tokens > 0 { model.max_tokens.min(OUTPUT_TOKENS_MAX) } else { OUTPUT_TOKENS_MAX };
    model.context_length - output.min(model.context_length / RESERVE_PART)
}

impl Budget {
    pub(crate) fn of(conversation: &Conversation<'_>, request: &CompressRequest, settings: &Settings) -> Budget {
        let model = &request.model;
        let room = room(conversation, request);
        let usable = match usable(model) {
            0 => room,
            usable => usable,
        };
        let original = (usable / TAIL_PART).clamp(TAIL_TOKENS.0, TAIL_TOKENS.1);
        let tail = match (settings.preserve_recent_tokens, model.tail_budget_tokens) {
            (0, 0) => original,
            (0, _) if settings.as_original => original,
            (0, host) => host,
            (set, _) => set,
        };
        let (protect, minimum) = if settings.as_original {
            (settings.prune_protect_tokens, settings.prune_minimum_tokens)
        } else {
            let window = if model.context_length > 0 { model.context_length } else { room };
            (
                settings.prune_protect_tokens.min(window / PROTECT_PART),
                settings.prune_minimum_tokens.min(window / MINIMUM_PART),
            )
        };
        let host = if model.summary_tokens_max > 0 { model.summary_tokens_max } else { u64::MAX };
        // Half of the room at most, or the tail would leave nothing for a summary.
        Budget { room, tail: tail.min(room / 2), protect, minimum, summary_max: settings.summary_tokens.min(host) }
    }

    /// Returns the tokens of a summary that stands for so many.
    pub(crate) fn summary(&self, covered_tokens: u64) -> u64 {
        let wanted = (covered_tokens / SUMMARY_PART).max(SUMMARY_TOKENS_MIN);
        wanted.min(self.summary_max.max(1)).min(self.room / SUMMARY_ROOM_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usable_window_is_never_nothing_where_there_is_a_window() {
        for (context_length, max_tokens, want) in [
            (60_000, 8_000, 52_000),
            (200_000, 0, 168_000),
            (200_000, 64_000, 168_000),
            (32_768, 32_768, 16_384),
            (8_000, 0, 4_000),
            (1_000_000, 32_000, 968_000),
            (0, 0, 0),
        ] {
            let mut model = ModelInfo::default();
            (model.context_length, model.max_tokens) = (context_length, max_tokens);
            assert_eq!(usable(&model), want, "{context_length} {max_tokens}");
        }
    }
}
