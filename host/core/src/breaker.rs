//! Keeps compactions from running in circles: judged by what the provider measured, closed again by growth.
//!
//! A compaction's own estimate of what it saved is not believed. The first usage that the provider reports after it
//! tells whether the request really came below the threshold.

/// Compactions without effect after which no further one is started by itself; Hermes uses the same.
pub const INEFFECTIVE_MAX: u32 = 2;
/// Growth since it opened after which one more compaction is tried, as a part of the tokens at that time: one in this
/// many. Without it a session that keeps growing would never be compacted again.
const HALF_OPEN_GROWTH: u64 = 4;

/// The breaker of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breaker {
    ineffective: u32,
    awaits_usage: bool,
    opened_at_tokens: u64,
}

impl Breaker {
    /// Hears that a compaction was applied. Its effect is judged by the next usage.
    pub fn compacted(&mut self) {
        self.awaits_usage = true;
    }

    /// Hears that a compaction found nothing smaller: that is a verdict at once.
    pub fn found_nothing(&mut self, prompt_tokens: u64) {
        self.count(prompt_tokens);
    }

    /// Hears the prompt tokens that the provider measured.
    pub fn measured(&mut self, prompt_tokens: u64, threshold_tokens: u64) {
        let awaited = std::mem::take(&mut self.awaits_usage);
        if prompt_tokens < threshold_tokens {
            *self = Breaker::default();
        } else if awaited {
            self.count(prompt_tokens);
        }
    }

    /// Returns why no compaction may start by itself now, if it may not.
    pub fn blocks(&self, prompt_tokens: u64) -> Option<String> {
        if self.ineffective < INEFFECTIVE_MAX {
            return None;
        }
        let again_at = self.opened_at_tokens.saturating_add(self.opened_at_tokens / HALF_OPEN_GROWTH);
        if prompt_tokens >= again_at {
            return None;
        }
        Some(format!(
            "the last {} compactions did not bring the request below its threshold; the next try is at {again_at} tokens",
            self.ineffective
        ))
    }

    fn count(&mut self, prompt_tokens: u64) {
        self.ineffective = self.ineffective.saturating_add(1);
        self.awaits_usage = false;
        if self.ineffective >= INEFFECTIVE_MAX {
            self.opened_at_tokens = prompt_tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the breaker, with numbers.
    use super::*;

    fn after_useless(compactions: u32) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..compactions {
            breaker.compacted();
            breaker.measured(160_000, 150_000);
        }
        breaker
    }

    #[test]
    fn two_useless_compactions_open_it() {
        assert_eq!(after_useless(1).blocks(160_000), None);
        assert!(after_useless(2).blocks(160_000).is_some());
    }

    #[test]
    fn growth_by_a_quarter_allows_one_more_try() {
        let mut breaker = after_useless(2);
        assert!(breaker.blocks(199_999).is_some());
        assert_eq!(breaker.blocks(200_000), None);
        breaker.compacted();
        breaker.measured(201_000, 150_000);
        assert!(breaker.blocks(201_000).is_some());
    }

    #[test]
    fn a_measured_effect_closes_it() {
        let mut breaker = after_useless(2);
        breaker.measured(149_999, 150_000);
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn usage_without_a_compaction_is_no_verdict() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.measured(160_000, 150_000);
        }
        assert_eq!(breaker.blocks(160_000), None);
    }
}
