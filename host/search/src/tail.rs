//! Documents that are in no segment yet: one small row each, with the keys of its words and facts.

use crate::api::{Doc, SearchError};
use crate::filter::{Filter, fact_keys};
use crate::postings::damaged;
use crate::tokens::{Kind, Token, key_of, tokens};
use std::ops::Range;

/// Buckets that neighbouring words are counted in. A pair of words is in about one document of 1,600 by chance, so that
/// two pairs and the words themselves leave few documents to read for a phrase.
pub(crate) const PAIR_BUCKETS: u64 = 1 << 16;

/// A document as the index sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    pub(crate) at_ms: u64,
    /// Words in the text.
    pub(crate) length: u32,
    /// Bytes of the text.
    pub(crate) bytes: u64,
    /// Keys of words and facts, rising, each with how often it occurs.
    pub(crate) keys: Vec<(u64, u32)>,
    /// Buckets of neighbouring words, rising.
    pub(crate) pairs: Vec<u32>,
}

/// Follows the tokens of a text and tells which neighbours make a pair.
#[derive(Debug, Default)]
pub(crate) struct PairFinder {
    before: Option<(u64, Range<usize>)>,
}

impl PairFinder {
    /// Takes the next token; returns the bucket of the pair that it ends, and where the pair begins.
    pub(crate) fn next(&mut self, token: &Token<'_>) -> Option<u32> {
        if token.kind != Kind::Run {
            // Parts and wholes stand beside their runs; glyphs and symbols come between two runs.
            if matches!(token.kind, Kind::Glyph | Kind::Symbol) {
                self.before = None;
            }
            return None;
        }
        let before = self.before.replace((token.key, token.range.clone()));
        before.map(|(key, _)| pair_bucket(key, token.key))
    }
}

/// Returns the bucket of two words that follow each other.
pub(crate) fn pair_bucket(first: u64, second: u64) -> u32 {
    let mut bytes = [0; 16];
    let (left, right) = bytes.split_at_mut(8);
    left.copy_from_slice(&first.to_le_bytes());
    right.copy_from_slice(&second.to_le_bytes());
    (key_of(u8::MAX, &bytes) % PAIR_BUCKETS) as u32
}

impl Row {
    /// Reads a document.
    pub(crate) fn new(doc: &Doc<'_>) -> Row {
        let mut keys = Vec::with_capacity(doc.text.len() / 4 + 8);
        let mut pairs = Vec::with_capacity(doc.text.len() / 6 + 2);
        let mut length = 0_u32;
        let mut finder = PairFinder::default();
        tokens(doc.text, &mut |token| {
            keys.push(token.key);
            length =
                length.saturating_add(u32::from(!matches!(token.kind, Kind::Part | Kind::Whole | Kind::GlyphPair)));
            pairs.extend(finder.next(token));
        });
        fact_keys(doc, &mut |key| keys.push(key));
        keys.sort_unstable();
        pairs.sort_unstable();
        pairs.dedup();
        let mut counted: Vec<(u64, u32)> = Vec::with_capacity(keys.len());
        for key in keys {
            match counted.last_mut() {
                Some((last, times)) if *last == key => *times = times.saturating_add(1),
                _ => counted.push((key, 1)),
            }
        }
        Row { at_ms: doc.at_ms.max(0).unsigned_abs(), length, bytes: doc.text.len() as u64, keys: counted, pairs }
    }

    /// Returns the bytes of the row.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.keys.len() * KEY_BYTES + self.pairs.len() * PAIR_BYTES);
        out.extend(self.at_ms.to_le_bytes());
        out.extend(self.bytes.to_le_bytes());
        out.extend(self.length.to_le_bytes());
        out.extend((self.keys.len() as u32).to_le_bytes());
        for &(key, times) in &self.keys {
            let number = key << TIMES_BITS | u64::from(times.min(TIMES_MAX));
            out.extend(number.to_be_bytes().iter().skip(2));
        }
        for &pair in &self.pairs {
            out.extend((pair as u16).to_be_bytes());
        }
        out
    }
}

/// A row as it stands in the database: numbers of one width, so that a key is looked up without reading the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowBytes<'a> {
    pub(crate) at_ms: u64,
    pub(crate) bytes: u64,
    pub(crate) length: u32,
    keys: &'a [[u8; KEY_BYTES]],
    pairs: &'a [[u8; PAIR_BYTES]],
}

/// Bytes before the keys: time, bytes of the text, its length in words, number of keys.
const HEAD_BYTES: usize = 24;
/// Bytes of a key: 43 bits, and five for how often the word occurs.
const KEY_BYTES: usize = 6;
const TIMES_BITS: u32 = 5;
/// Occurrences that are counted; by then one more hardly changes a score.
pub(crate) const TIMES_MAX: u32 = (1 << TIMES_BITS) - 1;
/// Bytes of the bucket of a pair.
const PAIR_BYTES: usize = 2;

fn number_of(key: &[u8; KEY_BYTES]) -> u64 {
    key.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl<'a> RowBytes<'a> {
    /// Reads the bytes of a row.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<RowBytes<'a>, SearchError> {
        RowBytes::read(bytes).ok_or_else(|| damaged("a row of the tail"))
    }

    fn read(bytes: &'a [u8]) -> Option<RowBytes<'a>> {
        let (at_ms, rest) = bytes.split_first_chunk()?;
        let (text_bytes, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (key_count, rest) = rest.split_first_chunk()?;
        let key_bytes = (u32::from_le_bytes(*key_count) as usize).checked_mul(KEY_BYTES)?;
        let (keys, rest) = rest.split_at_checked(key_bytes)?;
        let ((keys, _), (pairs, [])) = (keys.as_chunks(), rest.as_chunks()) else { return None };
        Some(RowBytes {
            at_ms: u64::from_le_bytes(*at_ms),
            bytes: u64::from_le_bytes(*text_bytes),
            length: u32::from_le_bytes(*length),
            keys,
            pairs,
        })
    }

    /// Returns keys with how often they occur, rising.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = (u64, u32)> + 'a {
        self.keys.iter().map(|key| {
            let number = number_of(key);
            (number >> TIMES_BITS, (number & u64::from(TIMES_MAX)) as u32)
        })
    }

    /// Returns the buckets of neighbouring words, rising.
    pub(crate) fn pairs(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair)))
    }

    /// Returns how often a key occurs.
    pub(crate) fn times(&self, key: u64) -> u32 {
        let at = self.keys.binary_search_by_key(&key, |held| number_of(held) >> TIMES_BITS);
        at.ok().and_then(|at| self.keys.get(at)).map_or(0, |held| (number_of(held) & u64::from(TIMES_MAX)) as u32)
    }

    /// Returns whether neighbouring words of that bucket occur.
    pub(crate) fn has_pair(&self, bucket: u32) -> bool {
        self.pairs.binary_search_by_key(&bucket, |pair| u32::from(u16::from_be_bytes(*pair))).is_ok()
    }

    /// Returns whether a query's restrictions allow the document.
    pub(crate) fn passes(&self, filter: &Filter<'_>) -> bool {
        filter.time_allows(self.at_ms) && filter.groups.iter().all(|group| group.iter().any(|&key| self.times(key) > 0))
    }

    /// Returns whether it is the row of a document.
    pub(crate) fn is(&self, row: &Row) -> bool {
        let keys = row.keys.iter().map(|&(key, times)| (key, times.min(TIMES_MAX)));
        self.length == row.length && self.keys().eq(keys) && self.pairs().eq(row.pairs.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::Role;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_back(text in any::<String>(), session: i64, at_ms: i64) {
            let row = Row::new(&Doc { id: 1, session, role: Role::User, tools: &["bash"], depth: 0, at_ms, text: &text });
            let bytes = row.to_bytes();
            let back = RowBytes::new(&bytes).unwrap();
            prop_assert!(back.is(&row));
            prop_assert_eq!((back.at_ms, back.bytes), (row.at_ms, row.bytes));
            for &(key, times) in &row.keys {
                prop_assert_eq!(back.times(key), times.min(TIMES_MAX));
            }
            prop_assert!(row.pairs.iter().all(|&pair| back.has_pair(pair)));
            prop_assert_eq!(back.times(0), 0);
        }

        #[test]
        fn damaged_rows_are_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(row) = RowBytes::new(&bytes) {
                row.times(1);
                row.has_pair(1);
            }
        }
    }
}
