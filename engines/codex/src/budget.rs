//! What there is room for: the handoff, the user's messages, the newest work.

use crate::settings::Settings;
use engine_api::{CompressRequest, Conversation};
use engine_kit::layout::SUMMARY_FRAME_TOKENS;
use engine_kit::regions::room;

/// A handoff's share of what it stands for, its shortest useful length, and its longest where the host states none.
/// Codex sets no length; its handoffs come to a few hundred or thousand tokens.
const SUMMARY_PART: u64 = 8;
const SUMMARY_TOKENS_MIN: u64 = 1_200;
const SUMMARY_TOKENS_MAX: u64 = 10_000;
/// The handoff takes no more than this part of the room.
const SUMMARY_ROOM_PART: u64 = 4;
/// The newest work, where the host states no tail, and at most.
const TAIL_PART: u64 = 5;
const TAIL_ROOM_PART: u64 = 3;

/// Tokens for each piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// All messages, kept and new.
    pub(crate) room: u64,
    /// The user's messages, the newest one apart.
    pub(crate) users: u64,
    /// The newest work; 0 for the last exchange alone.
    pub(crate) tail: u64,
    summary_max: u64,
}

impl Budget {
    pub(crate) fn of(conversation: &Conversation<'_>, request: &CompressRequest, settings: &Settings) -> Budget {
        let model = &request.model;
        let room = room(conversation, request);
        let window = [model.context_length, model.threshold_tokens, room].into_iter().find(|tokens| *tokens > 0);
        let users = match settings.user_messages_tokens {
            // A share below 1 of a number far below 2^52: nothing is lost.
            0 => (window.unwrap_or(0) as f64 * settings.user_messages_share) as u64,
            stated => stated,
        };
        let tail = match (settings.tail_tokens, model.tail_budget_tokens) {
            (None, _) => 0,
            (Some(0), 0) => room / TAIL_PART,
            (Some(0), host) => host,
            (Some(stated), _) => stated,
        };
        let summary_max = if model.summary_tokens_max > 0 { model.summary_tokens_max } else { SUMMARY_TOKENS_MAX };
        Budget { room, users, tail: tail.min(room / TAIL_ROOM_PART), summary_max }
    }

    /// Returns the tokens that a handoff of so many tokens should come to.
    pub(crate) fn summary(&self, covered_tokens: u64) -> u64 {
        let wanted = (covered_tokens / SUMMARY_PART).max(SUMMARY_TOKENS_MIN).min(self.summary_max);
        wanted.min(self.room / SUMMARY_ROOM_PART)
    }
    /// The same with what the host puts around it.
    pub(crate) fn reserve(&self, covered_tokens: u64) -> u64 {
        if covered_tokens == 0 { 0 } else { self.summary(covered_tokens).saturating_add(SUMMARY_FRAME_TOKENS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::ViewTable;

    #[test]
    fn pieces_follow_the_window() {
        let table = ViewTable::new(1, &[]);
        for (window, settings, want) in [
            (8_000u64, Settings::default(), (2_000, 1_187)),
            (200_000, Settings::default(), (50_000, 29_699)),
            (1_000_000, Settings::default(), (250_000, 148_499)),
            (200_000, Settings::original(), (20_000, 0)),
        ] {
            let mut request = CompressRequest::default();
            request.target_tokens = window / 4 * 3;
            request.model.context_length = window;
            let budget = Budget::of(&table.conversation(), &request, &settings);
            assert_eq!((budget.users, budget.tail), want, "{window}");
            assert!(budget.reserve(window) <= budget.room / 4 + SUMMARY_FRAME_TOKENS);
        }
    }
}
