//! What there is room for: the tail, and the pieces of a summary.

use crate::settings::{Settings, TailMode};
use engine_api::{CompressRequest, Conversation};
use engine_kit::layout::SUMMARY_FRAME_TOKENS;
use engine_kit::regions::room;

/// A summary's share of what it replaces, and its shortest useful length; both are Hermes'.
const SUMMARY_PART: u64 = 5;
const SUMMARY_TOKENS_MIN: u64 = 2_000;
/// The longest summary where the host states none.
const SUMMARY_TOKENS_MAX: u64 = 10_000;
/// The sections take no more than this part of the room, for the tail needs the rest.
const SUMMARY_ROOM_PART: u64 = 4;
/// The session log of a lean summary: Hermes' figure, and no more than these parts of what it tells of and of the room.
const LOG_TOKENS_MAX: u64 = 4_000;
const LOG_PART: u64 = 10;
const LOG_ROOM_PART: u64 = 10;
/// A shorter log would repeat the sections and say nothing beside them.
const LOG_TOKENS_MIN: u64 = 400;
/// Bytes of the index of identifiers: Hermes' figure for its lean tail, and less where the tail itself is long.
const LEAN_INDEX_BYTES: u64 = 7_000;
const LEGACY_INDEX_BYTES: u64 = 2_000;
/// Paths and numbers come to about three bytes a token.
const INDEX_BYTES_PER_TOKEN: u64 = 3;
/// The index takes no more than this part of the room.
const INDEX_ROOM_PART: u64 = 20;

/// What there is room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// For all messages, kept and new.
    pub(crate) room: u64,
    /// For the tail.
    pub(crate) tail: u64,
    pub(crate) tail_mode: TailMode,
    summary_max: u64,
}

/// Tokens of a summary by its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SummaryTokens {
    /// The sections of the template.
    pub(crate) sections: u64,
    /// The session log; 0 for none.
    pub(crate) log: u64,
    /// The index of identifiers.
    pub(crate) index: u64,
}

impl SummaryTokens {
    /// What a model is asked to write.
    pub(crate) fn written(&self) -> u64 {
        self.sections.saturating_add(self.log)
    }
    /// Everything, with what the host puts around it.
    pub(crate) fn framed(&self) -> u64 {
        self.written().saturating_add(self.index).saturating_add(SUMMARY_FRAME_TOKENS)
    }
}

impl Budget {
    pub(crate) fn of(conversation: &Conversation<'_>, request: &CompressRequest, settings: &Settings) -> Budget {
        let model = &request.model;
        let room = room(conversation, request);
        let threshold = if model.threshold_tokens > 0 { model.threshold_tokens } else { room };
        let tail = if model.tail_budget_tokens > 0 {
            model.tail_budget_tokens
        } else {
            // The ratio is between 0.1 and 0.8 and tokens are far below 2^52, so nothing is lost.
            (threshold as f64 * settings.target_ratio) as u64
        };
        let summary_max = if model.summary_tokens_max > 0 { model.summary_tokens_max } else { SUMMARY_TOKENS_MAX };
        // Half of the room at most, or the ceiling would leave nothing for a summary.
        Budget { room, tail: tail.min(room / 2), tail_mode: settings.tail_mode, summary_max }
    }

    /// Returns what a summary of so many tokens should come to.
    pub(crate) fn summary(&self, covered_tokens: u64) -> SummaryTokens {
        let wanted = (covered_tokens / SUMMARY_PART).max(SUMMARY_TOKENS_MIN).min(self.summary_max.max(1));
        let sections = wanted.min(self.room / SUMMARY_ROOM_PART);
        let log = LOG_TOKENS_MAX.min(covered_tokens / LOG_PART).min(self.room / LOG_ROOM_PART);
        let has_log = self.tail_mode == TailMode::Lean && log >= LOG_TOKENS_MIN;
        let index_bytes = match self.tail_mode {
            TailMode::Lean => LEAN_INDEX_BYTES,
            TailMode::Legacy => LEGACY_INDEX_BYTES,
        };
        let index =
            (index_bytes / INDEX_BYTES_PER_TOKEN).min(self.room / INDEX_ROOM_PART).min(covered_tokens / LOG_PART);
        SummaryTokens { sections, log: if has_log { log } else { 0 }, index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(room: u64, tail_mode: TailMode) -> Budget {
        Budget { room, tail: room / 5, tail_mode, summary_max: 10_000 }
    }

    #[test]
    fn a_summary_has_hermes_length_and_a_log_where_the_tail_is_lean() {
        for (room, covered, mode, want) in [
            // 200,000 tokens of window: 150,000 of room.
            (150_000, 500_000, TailMode::Lean, (10_000, 4_000, 2_333)),
            (150_000, 500_000, TailMode::Legacy, (10_000, 0, 666)),
            (150_000, 20_000, TailMode::Lean, (4_000, 2_000, 2_000)),
            (150_000, 1_000, TailMode::Lean, (2_000, 0, 100)),
            (6_000, 50_000, TailMode::Lean, (1_500, 600, 300)),
            (100, 50_000, TailMode::Legacy, (25, 0, 5)),
            (0, 0, TailMode::Lean, (0, 0, 0)),
        ] {
            let got = budget(room, mode).summary(covered);
            assert_eq!((got.sections, got.log, got.index), want, "{room} {covered} {mode:?}");
        }
    }
}
