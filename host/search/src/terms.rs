//! The words of a query: what is left of it without the words that nearly every text has.

use crate::tokens::{Kind, tokens};
use std::ops::Range;

/// Words of a query that count; further ones are passed over. A bit of a mask stands for each.
pub(crate) const TERMS_MAX: usize = 32;

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) key: u64,
    pub(crate) word: String,
    /// Whether it is one of the words that a text should have; parts and wholes only add to the score.
    pub(crate) counts: bool,
    /// Whether it says half as much as other words that are as rare.
    pub(crate) weak: bool,
}

/// Words that say little about what is looked for: of grammar, of questions, of asking. In folded form, sorted.
const STOP: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "before", "being",
    "both", "but", "by", "can", "could", "d", "did", "do", "does", "doing", "done", "during", "each", "either", "ever",
    "few", "find", "for", "from", "get", "gets", "give", "gives", "go", "goes", "got", "had", "has", "have", "having",
    "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "kind",
    "kinds", "like", "ll", "long", "m", "made", "make", "makes", "many", "may", "me", "might", "mine", "more", "most",
    "much", "must", "my", "no", "nor", "not", "of", "off", "often", "on", "one", "only", "or", "other", "our", "ours",
    "out", "over", "please", "re", "s", "said", "same", "say", "says", "shall", "she", "should", "show", "since", "so",
    "some", "such", "t", "take", "takes", "tell", "than", "that", "the", "their", "theirs", "them", "then", "there",
    "these", "they", "this", "those", "to", "too", "took", "type", "types", "under", "until", "up", "us", "ve", "very",
    "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "whose", "why", "will", "with",
    "without", "would", "you", "your", "yours",
];

/// Returns whether a word says little.
pub(crate) fn is_stop(word: &str) -> bool {
    STOP.binary_search(&word).is_ok()
}

/// Words of order, number and use: a question has them, its answer often says the same otherwise. Sorted.
const WEAK: &[&str] = &[
    "another",
    "current",
    "currently",
    "first",
    "gave",
    "gone",
    "last",
    "least",
    "less",
    "new",
    "old",
    "onto",
    "recent",
    "recently",
    "three",
    "told",
    "two",
    "use",
    "used",
    "uses",
    "using",
    "went",
];

fn is_weak(word: &str) -> bool {
    WEAK.binary_search(&word).is_ok()
}

/// Returns the words of a query, each once, in its order. If all of them say little, all are returned.
pub(crate) fn terms(pattern: &str) -> Vec<Term> {
    let informative = gather(pattern, &|word| !is_stop(word));
    if informative.iter().any(|term| term.counts) { informative } else { gather(pattern, &|_| true) }
}

fn gather(pattern: &str, keep: &dyn Fn(&str) -> bool) -> Vec<Term> {
    let mut out: Vec<Term> = Vec::new();
    // A glyph alone is a word; within a run of glyphs the pairs are.
    let mut lone_glyph: Option<(Term, Range<usize>)> = None;
    tokens(pattern, &mut |token| {
        let term = Term { key: token.key, word: token.word.to_owned(), counts: true, weak: is_weak(token.word) };
        match token.kind {
            Kind::Glyph => {
                let follows = lone_glyph.as_ref().is_some_and(|(_, range)| range.end == token.range.start);
                let before = lone_glyph.replace((term, token.range.clone()));
                // Whether the one before was alone is known when this one does not follow it; a pair clears it below.
                if let Some((term, _)) = before.filter(|_| !follows) {
                    push(&mut out, term);
                }
            }
            Kind::GlyphPair => {
                lone_glyph = None;
                push(&mut out, term);
            }
            Kind::Part | Kind::Whole => push(&mut out, Term { counts: false, ..term }),
            Kind::Run | Kind::Symbol => {
                if keep(token.word) {
                    push(&mut out, term);
                }
            }
        }
    });
    if let Some((term, _)) = lone_glyph {
        push(&mut out, term);
    }
    out
}

fn push(out: &mut Vec<Term>, term: Term) {
    if let Some(known) = out.iter_mut().find(|known| known.key == term.key) {
        known.counts |= term.counts;
    } else if out.len() < TERMS_MAX {
        out.push(term);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(pattern: &str) -> Vec<String> {
        terms(pattern).into_iter().map(|term| term.word).collect()
    }

    #[test]
    fn stop_words_are_sorted_so_that_they_are_found() {
        assert!(STOP.is_sorted() && WEAK.is_sorted());
    }

    #[test]
    fn questions_lose_their_grammar_and_their_repetitions() {
        assert_eq!(words("When did Caroline's painting of the painting win?"), ["caroline", "painting", "win"]);
        assert_eq!(words("who is it"), ["who", "is", "it"]);
        assert_eq!(words("foo AND NOT bar OR"), ["foo", "bar"]);
    }

    #[test]
    fn glyphs_are_pairs_or_alone() {
        assert_eq!(words("数据库"), ["数据", "据库"]);
        assert_eq!(words("数 x"), ["x", "数"]);
    }

    proptest! {
        #[test]
        fn any_query_gives_few_terms_and_no_panic(pattern in any::<String>()) {
            prop_assert!(terms(&pattern).len() <= TERMS_MAX);
        }
    }
}
