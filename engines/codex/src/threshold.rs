//! When to compact, and when to prepare a handoff while the work goes on.

use crate::settings::Settings;
use engine_api::{Decision, ModelInfo, PromptTokens};

/// The program compacts at this share of the window, whatever limit is set above it.
const AUTO_SHARE: (u64, u64) = (9, 10);
/// The program fills this share of the window at most.
const USABLE_SHARE: (u64, u64) = (19, 20);
/// The program's asynchronous compaction was seen to start at this share of its limit.
const PREPARE_SHARE: (u64, u64) = (4, 5);
/// After a compaction that ended near or over the limit, this part of it must be added before the next one.
const GROWTH_PART: u64 = 20;

fn share(tokens: u64, (of, all): (u64, u64)) -> u64 {
    (u128::from(tokens) * u128::from(of) / u128::from(all.max(1))) as u64
}

/// Returns the prompt tokens at which to compact; 0 where nothing is known.
pub(crate) fn limit(settings: &Settings, model: &ModelInfo) -> u64 {
    let window = model.context_length;
    let own = share(window, AUTO_SHARE);
    let answer = window.saturating_sub(model.max_tokens.min(window / 2));
    let bounds = if settings.as_original {
        [own, settings.auto_compact_tokens, 0]
    } else {
        // What the client reserves for the answer is no room for the prompt; the program does not look at it.
        let stated = if model.threshold_tokens > 0 { model.threshold_tokens } else { own };
        [stated, settings.auto_compact_tokens, if window > 0 { answer } else { 0 }]
    };
    bounds.into_iter().filter(|bound| *bound > 0).min().unwrap_or(0)
}

/// Decides on a count. `floor` is what the last compaction ended at, 0 for none.
pub(crate) fn decide(settings: &Settings, model: &ModelInfo, prompt: PromptTokens, floor: u64) -> Decision {
    let limit = limit(settings, model);
    if limit == 0 {
        return Decision::host_decides();
    }
    let count = prompt.count;
    let again = if floor == 0 { 0 } else { floor.saturating_add(limit / GROWTH_PART) };
    if count >= limit {
        let usable = share(model.context_length, USABLE_SHARE);
        if count < again && (usable == 0 || count < usable) {
            let why = format!("{count} tokens, and the last compaction ended at {floor}: none before {again}");
            return Decision::keep(limit, why);
        }
        return Decision::compress(limit, format!("{count} tokens reach the limit of {limit}"));
    }
    let early = share(limit, PREPARE_SHARE);
    if settings.prepare && count >= early && count >= again {
        return Decision::prepare(limit, format!("{count} tokens reach {early}; the limit is {limit}"));
    }
    Decision::keep(limit, format!("{count} of {limit} tokens"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::Basis;

    fn word(settings: &Settings, window: u64, threshold: u64, count: u64, floor: u64) -> &'static str {
        let mut model = ModelInfo::default();
        model.context_length = window;
        model.threshold_tokens = threshold;
        let decision = decide(settings, &model, PromptTokens { count, basis: Basis::Reported }, floor);
        match (decision.host_decides, decision.compress, decision.prepare) {
            (true, ..) => "host",
            (_, true, _) => "compress",
            (_, _, true) => "prepare",
            _ => "keep",
        }
    }

    #[test]
    fn the_program_s_limit_is_clamped_to_nine_tenths_of_the_window() {
        let of = |tokens| Settings { auto_compact_tokens: tokens, ..Settings::original() };
        for (settings, window, count, want) in [
            // 59,500 set on 60,000: seen to stay at 52,800 and to compact at 55,400.
            (of(59_500), 60_000, 52_800, "keep"),
            (of(59_500), 60_000, 55_400, "compress"),
            (of(50_000), 60_000, 50_000, "compress"),
            (of(0), 272_000, 244_800, "compress"),
            (of(0), 272_000, 244_799, "keep"),
            (of(0), 0, 1_000_000, "host"),
            (of(0), u64::MAX, 1, "keep"),
        ] {
            assert_eq!(word(&settings, window, 0, count, 0), want, "{window} {count}");
        }
    }

    #[test]
    fn a_handoff_is_prepared_early_and_never_twice_without_growth() {
        let settings = Settings::default();
        assert_eq!(word(&settings, 100_000, 50_000, 39_999, 0), "keep");
        assert_eq!(word(&settings, 100_000, 50_000, 40_600, 0), "prepare");
        assert_eq!(word(&settings, 100_000, 50_000, 50_000, 0), "compress");
        assert_eq!(word(&settings, 100_000, 50_000, 50_000, 49_000), "keep", "a floor over the limit must not loop");
        assert_eq!(word(&settings, 100_000, 50_000, 52_000, 49_000), "compress");
        assert_eq!(word(&settings, 100_000, 50_000, 95_000, 94_000), "compress", "the window is all but full");
        let settings = Settings { prepare: false, ..settings };
        assert_eq!(word(&settings, 100_000, 50_000, 40_600, 0), "keep");
    }

    #[test]
    fn what_the_answer_needs_is_no_room_for_the_prompt() {
        let mut model = ModelInfo::default();
        model.context_length = 32_768;
        model.max_tokens = 32_768;
        assert_eq!(limit(&Settings::default(), &model), 16_384);
        assert_eq!(limit(&Settings::original(), &model), 29_491);
    }
}
