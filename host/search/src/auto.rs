//! Decides how a pattern is read, searches, and makes the page.

use crate::api::{Hit, Page, Query, SearchError, Source};
use crate::by_time;
use crate::candidates::Scope;
use crate::filter::Filter;
use crate::nearest;
use crate::pattern::{PATTERN_BYTES_MAX, Pattern};
use crate::rank::{self, Ranked};
use crate::reading::{self, Matches};
use crate::segment::Tables;
use crate::snippet;
use crate::terms::{Term, terms};
use crate::tokens::is_glyph;
use engine_api::{SearchMode, SearchSort};

/// Characters of a run without blanks that is looked for as it stands, before its parts are.
const GLYPHS_AS_ONE_MAX: usize = 8;

/// Searches.
pub(crate) fn search(tables: Tables<'_>, source: &dyn Source, query: &Query<'_>) -> Result<Page, SearchError> {
    let written = query.pattern.trim();
    if written.is_empty() {
        return Ok(Page { not_covered: "the pattern is empty; name a word to look for".into(), ..Page::default() });
    }
    let scope = Scope::read(tables, Filter::new(query))?;
    let search = Search { tables, source, query, scope: &scope };
    let mut page = match query.mode {
        SearchMode::Regex => search.pattern(&Pattern::regex(written)?)?,
        SearchMode::Substring => search.pattern(&Pattern::substring(query.pattern)?)?,
        SearchMode::Phrase => search.phrase(unquoted(written).unwrap_or(written))?,
        SearchMode::Words => search.words(written)?,
        _ => search.auto(written)?,
    };
    if page.total == 0 && page.not_covered.is_empty() {
        page.nearest = nearest::nearest(tables, source, &scope, &terms(written))?;
    }
    Ok(page)
}

struct Search<'a> {
    tables: Tables<'a>,
    source: &'a dyn Source,
    query: &'a Query<'a>,
    scope: &'a Scope<'a>,
}

impl Search<'_> {
    /// Reads the pattern the way it looks, and as words if nothing is found that way.
    fn auto(&self, written: &str) -> Result<Page, SearchError> {
        if let Some(phrase) = unquoted(written) {
            return self.phrase(phrase);
        }
        if let Some(phrase) = quoted_part(written) {
            return self.words_with_phrase(written, phrase);
        }
        let read = match () {
            () if looks_like_regex(written) => Pattern::regex(written).ok(),
            () if stands_as_it_is(written) => Pattern::substring(written).ok(),
            () => None,
        };
        let Some(pattern) = read else { return self.words(written) };
        let page = self.pattern(&pattern)?;
        // What a search without time left did not see may well be there: words would say otherwise.
        if page.total > 0 || !page.not_covered.is_empty() {
            return Ok(page);
        }
        self.words(written)
    }

    fn phrase(&self, phrase: &str) -> Result<Page, SearchError> {
        let pattern = Pattern::phrase(phrase)?;
        // Punctuation alone is no word that could stand between others.
        if pattern.keys.is_empty() { self.pattern(&Pattern::substring(phrase)?) } else { self.pattern(&pattern) }
    }

    fn pattern(&self, pattern: &Pattern) -> Result<Page, SearchError> {
        let found = reading::matches(self.tables, self.source, self.query, self.scope, pattern)?;
        self.page_of_matches(found, pattern)
    }

    fn words(&self, written: &str) -> Result<Page, SearchError> {
        let terms = terms(written);
        if terms.is_empty() {
            let end = written.floor_char_boundary(PATTERN_BYTES_MAX / 2);
            return self.pattern(&Pattern::substring(written.get(..end).unwrap_or(written))?);
        }
        let ranked = match self.query.sort {
            SearchSort::Newest | SearchSort::Oldest => by_time::by_time(self.tables, self.query, self.scope, &terms)?,
            _ => rank::ranked(self.tables, self.source, self.query, self.scope, &terms)?,
        };
        self.page_of_words(ranked, &terms)
    }

    /// Ranks by all words what holds a phrase.
    fn words_with_phrase(&self, written: &str, phrase: &str) -> Result<Page, SearchError> {
        let pattern = Pattern::phrase(phrase)?;
        let wide = Query { offset: 0, limit: crate::api::LIMIT_MAX, ..*self.query };
        let found = reading::matches(self.tables, self.source, &wide, self.scope, &pattern)?;
        if found.hits.is_empty() {
            let mut page = self.words(written)?;
            if page.total > 0 {
                page.not_covered = format!("no text holds the phrase \"{phrase}\"; these have its words");
            }
            return Ok(page);
        }
        let mut ids: Vec<i64> = found.hits.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let within = |id: i64| ids.binary_search(&id).is_ok();
        let query = Query { within: Some(&within), mode: SearchMode::Words, ..*self.query };
        let scope = Scope::read(self.tables, Filter::new(&query))?;
        let search = Search { tables: self.tables, source: self.source, query: &query, scope: &scope };
        let mut page = search.words(written)?;
        page.scanned = found.scanned;
        page.total_is_least |= found.has_more;
        if found.has_more {
            page.not_covered = format!("ranked among {} texts with the phrase; there are more", ids.len());
        }
        Ok(page)
    }

    fn page_of_words(&self, ranked: Ranked, terms: &[Term]) -> Result<Page, SearchError> {
        let mut hits = Vec::with_capacity(ranked.hits.len());
        for scored in ranked.hits {
            let Some(text) = self.source.text(scored.id)? else { continue };
            let place = snippet::around_words(&text, terms);
            hits.push(Hit {
                id: scored.id,
                snippet: text.get(place.clone()).unwrap_or_default().to_owned(),
                snippet_offset: place.start as u64,
                score: scored.score,
                why: scored.why,
            });
        }
        Ok(Page {
            hits,
            total: ranked.total,
            total_is_least: ranked.total_is_least,
            scanned: 0,
            not_covered: ranked.not_covered,
            has_more: ranked.has_more,
            nearest: Vec::new(),
        })
    }

    fn page_of_matches(&self, found: Matches, pattern: &Pattern) -> Result<Page, SearchError> {
        let order = if self.query.sort == SearchSort::Oldest { "oldest" } else { "newest" };
        let mut hits = Vec::with_capacity(found.hits.len());
        for (id, place) in found.hits {
            let Some(text) = self.source.text(id)? else { continue };
            let place = snippet::around(&text, place);
            hits.push(Hit {
                id,
                snippet: text.get(place.clone()).unwrap_or_default().to_owned(),
                snippet_offset: place.start as u64,
                score: 0.0,
                why: format!("{}, {order} first", pattern.name),
            });
        }
        Ok(Page {
            hits,
            total: found.total,
            total_is_least: found.total_is_least,
            scanned: found.scanned,
            not_covered: found.not_covered,
            has_more: found.has_more,
            nearest: Vec::new(),
        })
    }
}

/// Returns what stands between two quotes that enclose the whole pattern.
fn unquoted(written: &str) -> Option<&str> {
    let inside = written.strip_prefix('"')?.strip_suffix('"')?;
    (!inside.trim().is_empty() && !inside.contains('"')).then_some(inside)
}

/// Returns the first quoted part of a pattern, if it has several words or marks.
fn quoted_part(written: &str) -> Option<&str> {
    let mut parts = written.split('"');
    parts.next()?;
    let inside = parts.next()?;
    parts.next()?;
    (inside.trim().contains(|c: char| !c.is_alphanumeric())).then_some(inside.trim())
}

/// Returns whether a pattern is looked for as it stands first: one word with punctuation (an identifier, a path, a
/// version), or a short run of a script without blanks.
fn stands_as_it_is(written: &str) -> bool {
    if written.contains(char::is_whitespace) {
        return false;
    }
    if written.chars().all(is_glyph) {
        return written.chars().count() <= GLYPHS_AS_ONE_MAX;
    }
    // A final mark of a sentence does not make an identifier.
    let word = written.trim_end_matches(['.', ',', '?', '!', ';', ':']);
    word.chars().any(|c| c.is_ascii_punctuation()) && word.chars().any(char::is_alphanumeric)
}

/// Returns whether a pattern plainly is a regular expression: it reads as one, and has signs that make no sense in words.
fn looks_like_regex(written: &str) -> bool {
    let bytes = written.as_bytes();
    let drive = bytes.first().is_some_and(u8::is_ascii_alphabetic) && written.get(1..3) == Some(":\\");
    if drive || written.len() > PATTERN_BYTES_MAX {
        return false;
    }
    let class = ["\\d", "\\w", "\\s", "\\b", "\\D", "\\W", "\\S", "\\.", "\\[", "\\(", "\\{", "\\p{", "\\x"];
    let wild = [".*", ".+", ".{", "]+", "]*", "]{", ")+", ")*", ")?", "){", "[^", "(?"];
    let signs = class.iter().chain(&wild).any(|sign| written.contains(sign));
    let range = written.split('[').skip(1).any(|rest| {
        rest.split_once(']')
            .is_some_and(|(inside, _)| ["a-z", "A-Z", "0-9", "a-f", "A-F"].iter().any(|range| inside.contains(range)))
    });
    let choice = !written.contains(char::is_whitespace)
        && written.split('|').count() > 1
        && written.split('|').all(|part| part.chars().any(char::is_alphanumeric));
    let anchored = (written.starts_with('^') || written.ends_with('$')) && written.len() > 2;
    (signs || range || choice || anchored) && regex_syntax::Parser::new().parse(written).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_regexes_are_told_from_words() {
        for regex in
            [r"E-\d{4}-QX", "commit [0-9a-f]{40}", "foo.*bar", "error|warning", r"\bfn\b", "^fn main", "(foo)+"]
        {
            assert!(looks_like_regex(regex), "{regex}");
        }
        for words in [
            "what is foo?",
            "C++",
            "my-app.config.ts",
            r"C:\dev\src",
            "foo (bar) baz",
            "P2.2",
            "a | b",
            "f(x) [1]",
            "price: $5",
            "AND",
            "array[0]",
            "?",
            "{}",
            "main()",
            "(a",
        ] {
            assert!(!looks_like_regex(words), "{words}");
        }
    }

    #[test]
    fn identifiers_and_short_glyph_runs_stand_as_they_are() {
        for word in ["my-app.config.ts", "C++", "数据库迁移", "P2.2", "src/main.rs", "read_file"] {
            assert!(stands_as_it_is(word), "{word}");
        }
        for word in ["hello", "hello?", "two words", "数据库迁移为什么会阻塞读者"] {
            assert!(!stands_as_it_is(word), "{word}");
        }
    }

    #[test]
    fn quotes_make_phrases() {
        assert_eq!(unquoted("\"a b\""), Some("a b"));
        assert_eq!(unquoted("\""), None);
        assert_eq!(unquoted("\"a\" b \"c\""), None);
        assert_eq!(quoted_part("x \"a b\" y"), Some("a b"));
        assert_eq!(quoted_part("x \"a b y"), None);
    }
}
