//! Documents that are in no segment yet: one small row each, with the keys of its words and facts.

use crate::api::{Doc, SearchError};
use crate::filter::{Filter, fact_keys};
use crate::postings::{damaged, put, take};
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
        let mut out = Vec::with_capacity(self.keys.len() * 6 + self.pairs.len() * 2 + 16);
        put(&mut out, self.at_ms);
        put(&mut out, u64::from(self.length));
        put(&mut out, self.bytes);
        put(&mut out, self.keys.len() as u64);
        let mut before = 0;
        for &(key, times) in &self.keys {
            put(&mut out, (key - before) << 1 | u64::from(times > 1));
            if times > 1 {
                put(&mut out, u64::from(times));
            }
            before = key;
        }
        let mut before = 0;
        for &pair in &self.pairs {
            put(&mut out, u64::from(pair - before));
            before = pair;
        }
        out
    }

    /// Reads the bytes of a row.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Row, SearchError> {
        Row::read(bytes).ok_or_else(|| damaged("a row of the tail"))
    }

    fn read(mut bytes: &[u8]) -> Option<Row> {
        let at_ms = take(&mut bytes)?;
        let length = u32::try_from(take(&mut bytes)?).ok()?;
        let text_bytes = take(&mut bytes)?;
        let key_count = usize::try_from(take(&mut bytes)?).ok()?;
        let mut keys = Vec::with_capacity(key_count.min(bytes.len()));
        let mut key = 0_u64;
        for _ in 0..key_count {
            let value = take(&mut bytes)?;
            let times = if value & 1 == 1 { u32::try_from(take(&mut bytes)?).ok()? } else { 1 };
            key = key.checked_add(value >> 1)?;
            keys.push((key, times));
        }
        let mut pairs = Vec::with_capacity(bytes.len() / 2);
        let mut pair = 0_u64;
        while !bytes.is_empty() {
            pair = pair.checked_add(take(&mut bytes)?)?;
            pairs.push(u32::try_from(pair).ok().filter(|&pair| u64::from(pair) < PAIR_BUCKETS)?);
        }
        Some(Row { at_ms, length, bytes: text_bytes, keys, pairs })
    }

    /// Returns how often a key occurs.
    pub(crate) fn times(&self, key: u64) -> u32 {
        let at = self.keys.binary_search_by_key(&key, |&(key, _)| key);
        at.ok().and_then(|at| self.keys.get(at)).map_or(0, |&(_, times)| times)
    }

    /// Returns whether neighbouring words of that bucket occur.
    pub(crate) fn has_pair(&self, bucket: u32) -> bool {
        self.pairs.binary_search(&bucket).is_ok()
    }

    /// Returns whether a query's restrictions allow the document.
    pub(crate) fn passes(&self, filter: &Filter<'_>) -> bool {
        filter.time_allows(self.at_ms) && filter.groups.iter().all(|group| group.iter().any(|&key| self.times(key) > 0))
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
            prop_assert_eq!(Row::from_bytes(&row.to_bytes()).unwrap(), row);
        }

        #[test]
        fn damaged_rows_are_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Row::from_bytes(&bytes);
        }
    }
}
