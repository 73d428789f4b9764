//! When to prepare a compaction, when to make one, and how much it leaves.
//!
//! Three marks in tokens of the whole request. At the soft one a plan is prepared in the background, at the hard one it
//! is applied, and it lands at the low-water mark, so that one compaction buys many turns.

use crate::settings::Settings;
use engine_api::{CompressRequest, Decision, ModelInfo, PromptTokens};

/// Where neither the settings nor the host state a threshold: this share of the window.
const THRESHOLD_DEFAULT: f64 = 0.75;
/// Room left to the answer where the client reserves none.
const ANSWER_PART: u64 = 16;
/// After a compaction that ended near or over the threshold, this part of it must be added before the next one.
const GROWTH_PART: u64 = 20;
/// From this share of the window on a compaction is asked for whatever came of the last one.
const LAST_RESORT: (u64, u64) = (19, 20);

/// The marks of a model's window; all zero where neither window nor threshold is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
    pub(crate) window: u64,
}

impl Marks {
    pub(crate) fn of(settings: &Settings, model: &ModelInfo) -> Marks {
        let window = model.context_length;
        let share = |share: f64, of: u64| (of as f64 * share) as u64;
        let wanted = match (settings.context_threshold > 0.0 && window > 0, model.threshold_tokens) {
            (true, _) => share(settings.context_threshold, window),
            (false, 0) => share(THRESHOLD_DEFAULT, window),
            (false, stated) => stated,
        };
        let most = match window {
            0 => wanted,
            _ => window.saturating_sub(model.max_tokens.max(window / ANSWER_PART).min(window / 2)),
        };
        let hard = wanted.min(most);
        Marks { soft: share(settings.soft_threshold, hard), hard, window }
    }

    /// Decides on a count. `floor` is what the last compaction ended at.
    pub(crate) fn decide(&self, count: u64, floor: u64) -> Decision {
        if self.hard == 0 {
            return Decision::host_decides();
        }
        let (soft, hard) = (self.soft, self.hard);
        if count >= hard {
            let again = floor.saturating_add(hard / GROWTH_PART);
            let is_last_resort = self.window > 0 && count >= self.window / LAST_RESORT.1 * LAST_RESORT.0;
            if floor > 0 && count < again && !is_last_resort {
                let why = format!("{count} tokens, and the last compaction ended at {floor}: none before {again}");
                return Decision::keep(hard, why);
            }
            return Decision::compress(hard, format!("{count} tokens reach the threshold of {hard}"));
        }
        if count >= soft && count >= floor.saturating_add(hard / GROWTH_PART) {
            return Decision::prepare(hard, format!("{count} tokens reach {soft}; the threshold is {hard}"));
        }
        Decision::keep(hard, format!("{count} of {hard} tokens"))
    }
}

/// Returns where a compaction lands, in tokens of the whole request, if that is lower than what the request asks for.
/// Without a window nothing is known of the turns to come, so what the host asks for stands.
pub(crate) fn low_water(settings: &Settings, request: &CompressRequest) -> Option<u64> {
    let marks = Marks::of(settings, &request.model);
    if marks.window == 0 || marks.hard == 0 {
        return None;
    }
    let filled = (marks.hard.saturating_sub(request.overhead_tokens) as f64 * settings.low_water) as u64;
    let mark = request.overhead_tokens.saturating_add(filled);
    (request.target_tokens == 0 || mark < request.target_tokens).then_some(mark)
}

/// Decides by the marks of the model.
pub(crate) fn decide(settings: &Settings, model: &ModelInfo, prompt: PromptTokens, floor: u64) -> Decision {
    Marks::of(settings, model).decide(prompt.count, floor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::Basis;

    fn model(context_length: u64, threshold_tokens: u64) -> ModelInfo {
        let mut model = ModelInfo::default();
        model.context_length = context_length;
        model.threshold_tokens = threshold_tokens;
        model
    }

    fn word(settings: &Settings, model: &ModelInfo, count: u64, floor: u64) -> &'static str {
        let decision = decide(settings, model, PromptTokens { count, basis: Basis::Reported }, floor);
        match (decision.host_decides, decision.compress, decision.prepare) {
            (true, ..) => "host",
            (_, true, _) => "compress",
            (_, _, true) => "prepare",
            _ => "keep",
        }
    }

    #[test]
    fn a_plan_is_prepared_at_the_soft_mark_and_applied_at_the_hard_one() {
        let settings = Settings::default();
        let model = model(128_000, 96_000);
        for (count, floor, want) in [
            (0, 0, "keep"),
            (76_799, 0, "keep"),
            (76_800, 0, "prepare"),
            (95_999, 0, "prepare"),
            (96_000, 0, "compress"),
            (u64::MAX, 0, "compress"),
            (97_000, 95_500, "keep"),
            (101_000, 95_500, "compress"),
            (122_000, 121_000, "compress"),
            (80_000, 79_000, "keep"),
        ] {
            assert_eq!(word(&settings, &model, count, floor), want, "{count} after {floor}");
        }
        assert_eq!(word(&settings, &ModelInfo::default(), 1_000_000, 0), "host");
    }

    #[test]
    fn marks_leave_room_for_the_answer_in_every_window() {
        for window in [8_000, 32_000, 128_000, 1_000_000] {
            for threshold in [0, window, window * 3] {
                for max_tokens in [0, window / 4, window * 2] {
                    let mut model = model(window, threshold);
                    model.max_tokens = max_tokens;
                    let marks = Marks::of(&Settings::default(), &model);
                    assert!(marks.hard <= window - max_tokens.min(window / 2) && marks.hard > 0, "{window} {marks:?}");
                    assert!(marks.soft < marks.hard);
                }
            }
        }
        let settings = Settings { context_threshold: 0.35, ..Settings::default() };
        assert_eq!(Marks::of(&settings, &model(128_000, 96_000)).hard, 44_800);
    }

    #[test]
    fn a_compaction_lands_at_the_low_water_mark() {
        let settings = Settings::default();
        let mut request = CompressRequest::default();
        request.target_tokens = 96_000;
        assert_eq!(low_water(&settings, &request), None);
        request.model = model(128_000, 96_000);
        request.overhead_tokens = 6_000;
        assert_eq!(low_water(&settings, &request), Some(33_000));
        request.target_tokens = 20_000;
        assert_eq!(low_water(&settings, &request), None);
    }
}
