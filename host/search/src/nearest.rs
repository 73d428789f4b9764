//! For a search that found nothing: indexed words near those asked for.

use crate::api::{SearchError, Source};
use crate::candidates::Scope;
use crate::segment::Tables;
use crate::terms::Term;
use crate::tokens::{Kind, tokens};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Words returned.
const NEAREST_MAX: usize = 5;
/// Words of the query that are looked at.
const ASKED_MAX: usize = 4;
/// Indexed words compared with each: about 10 ms.
const COMPARED_MAX: u32 = 20_000;
/// Texts of the tail whose words are compared; words of older texts are in a table.
const TAIL_TEXTS_MAX: usize = 200;
/// Letters of a word that are compared; longer ones are no misspelt words.
const LETTERS_MAX: usize = 32;

/// Returns indexed words near those of a query, the nearest first. They may stand outside the query's restrictions.
pub(crate) fn nearest(
    tables: Tables<'_>,
    source: &dyn Source,
    scope: &Scope<'_>,
    terms: &[Term],
) -> Result<Vec<String>, SearchError> {
    let mut found: BTreeSet<(usize, String)> = BTreeSet::new();
    let fresh = tail_words(source, scope)?;
    for term in terms.iter().filter(|term| term.counts).take(ASKED_MAX) {
        let asked: Vec<char> = term.word.chars().take(LETTERS_MAX + 1).collect();
        let (Some(first), true) = (asked.first(), (3..=LETTERS_MAX).contains(&asked.len())) else { continue };
        let mut compare = |word: &str| {
            if let Some(distance) = distance(&asked, word).filter(|_| word != term.word) {
                found.insert((distance, word.to_owned()));
            }
        };
        fresh.iter().for_each(|word| compare(word));
        let mut statement = tables.conn.prepare_cached(&format!(
            "SELECT w FROM {}_word WHERE w >= ? AND w < ? ORDER BY w LIMIT ?",
            tables.prefix
        ))?;
        // Few people miss the first letter; the second narrows where there are very many words.
        let end = char::from_u32(u32::from(*first) + 1).unwrap_or(char::MAX);
        let mut rows = statement.query(rusqlite::params![first.to_string(), end.to_string(), COMPARED_MAX])?;
        while let Some(row) = rows.next()? {
            let word = row.get_ref(0)?.as_str().map_err(|_| crate::postings::damaged("a word kept for suggestions"))?;
            compare(word);
        }
    }
    Ok(found.into_iter().take(NEAREST_MAX).map(|(_, word)| word).collect())
}

fn tail_words(source: &dyn Source, scope: &Scope<'_>) -> Result<BTreeSet<String>, SearchError> {
    let mut words = BTreeSet::new();
    let mut newest = scope.tail.docs().rev().take(TAIL_TEXTS_MAX).map(|doc| doc.id);
    let Some(last) = newest.next() else { return Ok(words) };
    let first = newest.last().unwrap_or(last);
    source.scan(first..=last, true, &mut |_, text| {
        tokens(text, &mut |token| {
            if matches!(token.kind, Kind::Run) && words.len() < COMPARED_MAX as usize {
                words.insert(token.word.to_owned());
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(words)
}

/// Returns how many letters differ (two swapped neighbours count once), if that is a third of the word at most; a word
/// that goes on after the one asked for is as near as one wrong letter.
fn distance(asked: &[char], word: &str) -> Option<usize> {
    let most = (asked.len() / 3).clamp(1, 3);
    // A character has one to four bytes.
    let too_short = word.len() + most < asked.len();
    if too_short
        || word.len() > LETTERS_MAX * 4
        || (word.is_ascii() && word.len() > asked.len() + most && asked.len() < 4)
    {
        return None;
    }
    let word: Vec<char> = word.chars().collect();
    if asked.len() >= 4 && word.len() > asked.len() && word.starts_with(asked) {
        return Some(1);
    }
    if word.len().abs_diff(asked.len()) > most {
        return None;
    }
    let mut two_before: Vec<usize> = Vec::new();
    let mut before: Vec<usize> = (0..=word.len()).collect();
    for (row, asked_letter) in asked.iter().enumerate() {
        let mut here = Vec::with_capacity(word.len() + 1);
        here.push(row + 1);
        for (column, letter) in word.iter().enumerate() {
            let at = |list: &[usize], at: usize| list.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut least = (at(&before, column) + usize::from(letter != asked_letter))
                .min(at(&before, column + 1) + 1)
                .min(at(&here, column) + 1);
            let swapped = row > 0
                && column > 0
                && asked.get(row - 1) == Some(letter)
                && word.get(column - 1) == Some(asked_letter);
            if swapped {
                least = least.min(at(&two_before, column - 1) + 1);
            }
            here.push(least);
        }
        if here.iter().all(|&distance| distance > most) {
            return None;
        }
        two_before = std::mem::replace(&mut before, here);
    }
    before.last().copied().filter(|&distance| distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_told_from_far_ones() {
        let of = |asked: &str, word: &str| distance(&asked.chars().collect::<Vec<_>>(), word);
        assert_eq!(of("migraton", "migration"), Some(1));
        assert_eq!(of("migratoin", "migration"), Some(1));
        assert_eq!(of("migra", "migration"), Some(1));
        assert_eq!(of("cat", "dog"), None);
        assert_eq!(of("databse", "database"), Some(1));
        assert_eq!(of("köln", "kölm"), Some(1));
    }
}
