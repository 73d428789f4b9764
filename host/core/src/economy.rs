//! When a compaction pays for itself: what it costs, what each later turn saves, and how many turns that takes.
//!
//! Pure numbers, in units of one uncached prompt token. The formulas weigh what a provider's cache reads and writes cost:
//! a shorter prompt saves little on a warm cache, and much on a cold one.

use serde::Serialize;

/// Turns that a conversation is expected to have left; a longer one saves more.
///
/// With ten, a session of 100 turns cost 1.16 times as much as none where reads cost 0.1 and writes 1.25: it ended before its
/// compactions had paid (`cargo xtask bench cost`).
pub const TURNS_EXPECTED: f64 = 5.0;
/// Tokens of the question that asks for a summary behind the live prefix.
const QUESTION_TOKENS: f64 = 600.0;

/// What a model's tokens cost, each as a multiple of an uncached prompt token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Terms {
    /// A prompt token that the cache holds.
    pub read: f64,
    /// A prompt token that is written to the cache.
    pub write: f64,
    /// A token of the answer.
    pub output: f64,
}

/// What a compaction would do to a request, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outlook {
    /// The request as it is.
    pub prompt: u64,
    /// What stays at its start untouched.
    pub kept: u64,
    /// The summary.
    pub summary: u64,
    /// What stays at its end, and is sent anew behind the summary.
    pub tail: u64,
    /// The provider's cache still holds the request.
    pub is_warm: bool,
    /// A model is asked for the summary.
    pub is_asked: bool,
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum Worth {
    /// It pays at once: the request has to be paid in full anyway.
    AtOnce,
    /// It pays after so many turns.
    After(f64),
    /// It never pays.
    Never,
}

impl Worth {
    /// Tells whether it pays within the turns that are expected.
    pub fn is_good(self) -> bool {
        match self {
            Worth::AtOnce => true,
            Worth::After(turns) => turns <= TURNS_EXPECTED,
            Worth::Never => false,
        }
    }
}

/// Weighs a compaction.
pub fn weigh(terms: Terms, outlook: Outlook) -> Worth {
    // Tokens are far below 2^52, so nothing is lost.
    let [prompt, kept, summary, tail] = [outlook.prompt, outlook.kept, outlook.summary, outlook.tail].map(|n| n as f64);
    let saved = prompt - (kept + summary + tail);
    if saved <= 0.0 {
        return Worth::Never;
    }
    let of_prompt = if outlook.is_warm { terms.read } else { terms.write };
    let asked = if outlook.is_asked {
        of_prompt * prompt + terms.write * QUESTION_TOKENS + terms.output * summary
    } else {
        0.0
    };
    if !outlook.is_warm {
        // What is left out need not be written to the cache again.
        return if saved * terms.write > asked {
            Worth::AtOnce
        } else {
            later(asked - saved * terms.write, saved, terms)
        };
    }
    later(asked + (summary + tail) * (terms.write - terms.read).max(0.0), saved, terms)
}

fn later(cost: f64, saved: f64, terms: Terms) -> Worth {
    let turns = cost / (saved * terms.read);
    if turns.is_finite() { Worth::After(turns) } else { Worth::Never }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example: 100,000 tokens, of which 15,000 stay cached, a summary of 4,000 and a tail of 20,000.
    fn outlook() -> Outlook {
        Outlook { prompt: 100_000, kept: 15_000, summary: 4_000, tail: 20_000, is_warm: true, is_asked: true }
    }

    fn turns(read: f64, write: f64, output: f64) -> f64 {
        match weigh(Terms { read, write, output }, outlook()) {
            Worth::After(turns) => turns,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn break_even_is_where_the_published_examples_have_it() {
        assert!((turns(1.0, 1.0, 5.0) - 2.0).abs() < 0.2, "no caching: {}", turns(1.0, 1.0, 5.0));
        assert!((turns(0.1, 1.25, 5.0) - 9.4).abs() < 0.5, "Sonnet 4.6: {}", turns(0.1, 1.25, 5.0));
        assert!((turns(0.05, 1.25, 5.0) - 17.6).abs() < 1.0, "Opus 5.5: {}", turns(0.05, 1.25, 5.0));
        assert!((turns(0.02, 1.0, 4.0) - 34.0).abs() < 2.0, "DeepSeek V4 Flash: {}", turns(0.02, 1.0, 4.0));
    }

    #[test]
    fn a_cold_cache_pays_at_once_and_nothing_saved_pays_never() {
        let terms = Terms { read: 0.1, write: 1.25, output: 5.0 };
        let cold = Outlook { is_warm: false, is_asked: false, ..outlook() };
        assert_eq!(weigh(terms, cold), Worth::AtOnce);
        assert_eq!(weigh(terms, Outlook { tail: 90_000, ..outlook() }), Worth::Never);
        assert_eq!(weigh(Terms { read: 0.0, ..terms }, outlook()), Worth::Never);
    }
}
