//! A pattern that is looked for in the text itself: a regular expression, a substring, a phrase.

use crate::api::SearchError;
use crate::tail::PairFinder;
use crate::terms::TERMS_MAX;
use crate::tokens::{Kind, is_glyph, tokens};
use crate::trigrams::{Needs, needs};
use regex::{Regex, RegexBuilder};
use std::ops::Range;

/// Bytes of a pattern.
pub(crate) const PATTERN_BYTES_MAX: usize = 1_024;
/// Bytes of a compiled pattern.
const SIZE_MAX: usize = 1 << 20;
/// Bytes that matching may keep.
const DFA_SIZE_MAX: usize = 8 << 20;
/// Groups nested in a pattern.
const NEST_MAX: u32 = 50;

/// What a text is matched against, and what the indexes say about it beforehand.
pub(crate) struct Pattern {
    regex: Regex,
    /// Whether letters and digits beside a match make it another word.
    bounded: bool,
    pub(crate) needs: Needs,
    /// Keys that a document must have.
    pub(crate) keys: Vec<u64>,
    /// Buckets of neighbouring words that it must have.
    pub(crate) pairs: Vec<u32>,
    /// How it was read, for `why`.
    pub(crate) name: &'static str,
}

impl Pattern {
    /// Reads a regular expression.
    pub(crate) fn regex(pattern: &str) -> Result<Pattern, SearchError> {
        let regex = compile(pattern, pattern)?;
        let needs = needs_of(pattern);
        Ok(Pattern { regex, bounded: false, needs, keys: Vec::new(), pairs: Vec::new(), name: "regex" })
    }

    /// Reads characters to be found anywhere, in any letter case.
    pub(crate) fn substring(pattern: &str) -> Result<Pattern, SearchError> {
        let written = format!("(?i){}", regex::escape(pattern));
        let regex = compile(pattern, &written)?;
        let needs = needs_of(&written);
        Ok(Pattern { regex, bounded: false, needs, keys: Vec::new(), pairs: Vec::new(), name: "substring" })
    }

    /// Reads words in their order; between them may stand blanks and punctuation. Punctuation of the phrase itself must
    /// be there as well.
    pub(crate) fn phrase(pattern: &str) -> Result<Pattern, SearchError> {
        let mut written = String::from("(?i)");
        let mut gap = false;
        for c in pattern.trim().chars() {
            if c.is_whitespace() {
                gap = true;
                continue;
            }
            if gap {
                written.push_str(r"[^\p{L}\p{N}]+?");
                gap = false;
            }
            written.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
        let regex = compile(pattern, &written)?;
        let (mut keys, mut pairs) = (Vec::new(), Vec::new());
        let mut finder = PairFinder::default();
        tokens(pattern.trim(), &mut |token| {
            // A whole may be part of a greater one in the text, and a text in other letter case has no parts.
            if !matches!(token.kind, Kind::Whole | Kind::Part) && keys.len() < TERMS_MAX {
                keys.push(token.key);
            }
            pairs.extend(finder.next(token));
        });
        keys.sort_unstable();
        keys.dedup();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.truncate(TERMS_MAX);
        let needs = needs_of(&written);
        Ok(Pattern { regex, bounded: true, needs, keys, pairs, name: "phrase" })
    }

    /// Returns where a text matches first.
    pub(crate) fn find(&self, text: &str) -> Option<Range<usize>> {
        let mut from = 0;
        // Every turn begins one character further on.
        while from <= text.len() {
            let found = self.regex.find_at(text, from)?.range();
            if !self.bounded || is_word(text, &found) {
                return Some(found);
            }
            from = text.ceil_char_boundary(found.start + 1);
        }
        None
    }
}

/// Returns whether no letter or digit goes on on either side of a match.
fn is_word(text: &str, found: &Range<usize>) -> bool {
    let goes_on = |inside: Option<char>, outside: Option<char>| match (inside, outside) {
        (Some(inside), Some(outside)) => {
            inside.is_alphanumeric() && outside.is_alphanumeric() && !is_glyph(inside) && !is_glyph(outside)
        }
        _ => false,
    };
    let (before, rest) = text.split_at(found.start);
    let (inside, after) = rest.split_at(found.end - found.start);
    !goes_on(inside.chars().next(), before.chars().next_back())
        && !goes_on(inside.chars().next_back(), after.chars().next())
}

fn needs_of(written: &str) -> Needs {
    regex_syntax::ParserBuilder::new()
        .nest_limit(NEST_MAX)
        .build()
        .parse(written)
        .map_or(Needs::Nothing, |hir| needs(&hir))
}

fn compile(pattern: &str, written: &str) -> Result<Regex, SearchError> {
    let refuse = |reason: String| {
        let end = pattern.floor_char_boundary(80);
        let short = pattern.get(..end).unwrap_or_default();
        SearchError::Pattern { pattern: short.to_owned(), reason }
    };
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(refuse(format!(
            "it has {} bytes and {PATTERN_BYTES_MAX} are allowed; name a shorter part",
            pattern.len()
        )));
    }
    RegexBuilder::new(written)
        .size_limit(SIZE_MAX)
        .dfa_size_limit(DFA_SIZE_MAX)
        .nest_limit(NEST_MAX)
        .build()
        .map_err(|error| refuse(explain(pattern, &error)))
}

/// Says what is wrong with a regular expression, and what to do.
fn explain(pattern: &str, error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(bytes) = error {
        return format!("it needs more than {bytes} bytes compiled; use smaller repetition counts");
    }
    if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|group| pattern.contains(group)) {
        return "look-around is not supported, since matching is linear-time; search for the part to match and leave out the condition".into();
    }
    let text = error.to_string();
    if text.contains("backreference") {
        return "back-references are not supported, since matching is linear-time; write the repeated text out".into();
    }
    // The last line of the parser's message is the reason; those before draw an arrow.
    let reason = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it is not a regular expression");
    let reason = reason.trim().trim_start_matches("error: ");
    format!("{reason}; to look for these very characters, use mode \"substring\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn phrases_stand_between_other_words() {
        let phrase = Pattern::phrase("keep the log").unwrap();
        assert_eq!(phrase.find("Keep the\n log."), Some(0..13));
        assert_eq!(phrase.find("upkeep the log; keep the log"), Some(16..28));
        assert_eq!(phrase.find("keep the logs"), None);
        assert_eq!(phrase.find("keep the old log"), None);
        assert!(Pattern::phrase("C++").unwrap().find("in C++ it").is_some());
        assert!(Pattern::phrase("C++").unwrap().find("in C it").is_none());
        assert!(Pattern::phrase("压缩").unwrap().find("上下文压缩检索").is_some());
    }

    #[test]
    fn refused_patterns_say_why_and_what_to_do() {
        let reason = |pattern: &str| Pattern::regex(pattern).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(reason("(?=a)b").contains("look-around"), "{}", reason("(?=a)b"));
        assert!(reason(r"(a)\1").contains("back-references"), "{}", reason(r"(a)\1"));
        assert!(reason("(a").contains("substring"), "{}", reason("(a"));
        assert!(reason("(?:a{1000}){1000}").contains("smaller"), "{}", reason("(?:a{1000}){1000}"));
        assert!(reason(&"x".repeat(2_000)).contains("2000 bytes"), "{}", reason(&"x".repeat(2_000)));
    }

    proptest! {
        #[test]
        fn no_pattern_and_no_text_panics(pattern in any::<String>(), text in any::<String>()) {
            for pattern in [Pattern::regex(&pattern), Pattern::substring(&pattern), Pattern::phrase(&pattern)].into_iter().flatten() {
                if let Some(found) = pattern.find(&text) {
                    prop_assert!(text.get(found).is_some());
                }
            }
        }

        #[test]
        fn what_stands_in_a_text_is_found_in_it(before in any::<String>(), middle in any::<String>(), after in any::<String>()) {
            let text = format!("{before}{middle}{after}");
            prop_assert!(Pattern::substring(&middle).unwrap().find(&text).is_some());
        }
    }
}
