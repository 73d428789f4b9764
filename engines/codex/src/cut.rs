//! Cutting a text in its middle, as Codex does: both ends stay, and a mark says how much is gone.

use engine_kit::text::{prefix, suffix};

/// What the mark takes.
const MARK_TOKENS: u64 = 12;
/// Times that a cut over its budget is made again.
const TRIES_MAX: usize = 4;

/// Returns a text of at most `budget` tokens: beginning and end, and between them how many of its `tokens` are gone. A
/// text that fits is returned as it is; `None` where the budget is too small for any of it.
pub(crate) fn middle_cut(text: &str, tokens: u64, budget: u64, count: &dyn Fn(&str) -> u64) -> Option<String> {
    if tokens <= budget {
        return Some(text.to_string());
    }
    let mut room = budget.saturating_sub(MARK_TOKENS);
    for _ in 0..TRIES_MAX {
        let bytes = u128::from(room) * text.len() as u128 / u128::from(tokens.max(1));
        let half = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
        if half < 4 || half >= text.len() / 2 {
            return None;
        }
        let gone = tokens.saturating_sub(room);
        let cut = format!("{}…{gone} tokens truncated…{}", prefix(text, half), suffix(text, half));
        let cost = count(&cut);
        if cost <= budget {
            return Some(cut);
        }
        // What it is over, and a little more, so that few tries are needed.
        room = room.saturating_sub(cost - budget).saturating_sub(room / 20 + 1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_kit::testing::count;

    #[test]
    fn both_ends_stay_and_the_mark_tells_what_is_gone() {
        let text = format!("BEGIN {}END", "word ".repeat(6_480));
        let cut = middle_cut(&text, count(&text), 3_700, &count).unwrap();
        assert!(cut.starts_with("BEGIN ") && cut.ends_with("END"), "{cut:.40}");
        assert!(count(&cut) <= 3_700 && count(&cut) > 3_600, "{}", count(&cut));
        assert!(cut.contains("…4418 tokens truncated…"), "{}", cut.len());
        assert_eq!(middle_cut("short", 5, 5, &count).as_deref(), Some("short"));
    }

    #[test]
    fn no_character_is_split_and_no_budget_is_passed() {
        for text in ["ü".repeat(5_000), "日本語".repeat(2_000), " ".repeat(9_000)] {
            for budget in [0, 1, 5, 13, 20, 100, 1_000, 100_000] {
                if let Some(cut) = middle_cut(&text, count(&text), budget, &count) {
                    assert!(count(&cut) <= budget.max(count(&text).min(budget)), "{budget}");
                }
            }
        }
    }
}
