//! What a query may find at all: the segments and the tail, and which of their documents its restrictions allow.

use crate::api::SearchError;
use crate::filter::Filter;
use crate::postings::each_doc;
use crate::segment::{Segment, Store, Tables};
use crate::tail::RowBytes;
use std::ops::Range;

/// A set of documents or blocks of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(crate) fn none(count: u32) -> Bits {
        Bits { words: vec![0; (count as usize).div_ceil(64)] }
    }

    pub(crate) fn all(count: u32) -> Bits {
        let mut bits = Bits { words: vec![u64::MAX; (count as usize).div_ceil(64)] };
        if let Some(last) = bits.words.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last = (1 << (count % 64)) - 1;
        }
        bits
    }

    #[inline]
    pub(crate) fn set(&mut self, at: u32) {
        if let Some(word) = self.words.get_mut(at as usize / 64) {
            *word |= 1 << (at % 64);
        }
    }

    #[inline]
    pub(crate) fn has(&self, at: u32) -> bool {
        self.words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    pub(crate) fn and(&mut self, other: &Bits) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    pub(crate) fn or(&mut self, other: &Bits) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns the members, rising.
    pub(crate) fn members(&self) -> Vec<u32> {
        let mut out = Vec::new();
        for (at, &word) in self.words.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                out.push(at as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        out
    }
}

/// A document of the tail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailDoc<'a> {
    pub(crate) id: i64,
    pub(crate) row: RowBytes<'a>,
    /// Whether the query's restrictions allow it.
    pub(crate) allowed: bool,
}

/// The documents that are in no segment.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The rows, one after the other.
    bytes: Vec<u8>,
    docs: Vec<(i64, Range<usize>, bool)>,
    words: u64,
}

impl Tail {
    fn read(tables: Tables<'_>, filter: &Filter<'_>) -> Result<Tail, SearchError> {
        let mut statement =
            tables.conn.prepare_cached(&format!("SELECT id, d FROM {}_tail ORDER BY id", tables.prefix))?;
        let mut rows = statement.query([])?;
        let mut tail = Tail::default();
        while let Some(found) = rows.next()? {
            let bytes = found.get_ref(1)?.as_blob().map_err(|_| crate::postings::damaged("a row of the tail"))?;
            let row = RowBytes::new(bytes)?;
            tail.words += u64::from(row.length);
            let start = tail.bytes.len();
            tail.bytes.extend_from_slice(bytes);
            tail.docs.push((found.get(0)?, start..tail.bytes.len(), row.passes(filter)));
        }
        Ok(tail)
    }

    pub(crate) fn len(&self) -> usize {
        self.docs.len()
    }

    /// Returns the documents, oldest first.
    pub(crate) fn docs(&self) -> impl DoubleEndedIterator<Item = TailDoc<'_>> {
        self.docs.iter().filter_map(|doc| self.view(doc))
    }

    pub(crate) fn doc(&self, id: i64) -> Option<TailDoc<'_>> {
        let at = self.docs.binary_search_by_key(&id, |doc| doc.0).ok()?;
        self.docs.get(at).and_then(|doc| self.view(doc))
    }

    fn view(&self, (id, range, allowed): &(i64, Range<usize>, bool)) -> Option<TailDoc<'_>> {
        // Every row was read once, so none is lost here.
        let row = RowBytes::new(self.bytes.get(range.clone())?).ok()?;
        Some(TailDoc { id: *id, row, allowed: *allowed })
    }
}

/// A segment with documents that a query may find.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) segment: Segment,
    /// Which documents; none for all.
    pub(crate) allowed: Option<Bits>,
}

/// What a query may find.
pub(crate) struct Scope<'a> {
    /// Oldest first, without those in which nothing is allowed.
    pub(crate) segments: Vec<Part>,
    pub(crate) tail: Tail,
    pub(crate) filter: Filter<'a>,
}

impl<'a> Scope<'a> {
    pub(crate) fn read(tables: Tables<'_>, filter: Filter<'a>) -> Result<Scope<'a>, SearchError> {
        let mut segments = Vec::new();
        for segment in tables.segments()? {
            let allowed = allowed(tables, &segment, &filter)?;
            if allowed.as_ref().is_none_or(|allowed| !allowed.is_empty()) {
                segments.push(Part { segment, allowed });
            }
        }
        let tail = Tail::read(tables, &filter)?;
        Ok(Scope { segments, tail, filter })
    }

    /// Returns how many documents the segments of the scope and the tail have.
    pub(crate) fn doc_count(&self) -> u64 {
        self.segments.iter().map(|part| u64::from(part.segment.docs)).sum::<u64>() + self.tail.len() as u64
    }

    /// Returns the mean length of a text, in words.
    pub(crate) fn mean_length(&self) -> f32 {
        let words = self.segments.iter().map(|part| part.segment.words).sum::<u64>() + self.tail.words;
        words as f32 / self.doc_count().max(1) as f32
    }
}

/// Returns which documents of a segment the restrictions allow; none for all.
fn allowed(tables: Tables<'_>, segment: &Segment, filter: &Filter<'_>) -> Result<Option<Bits>, SearchError> {
    let mut out: Option<Bits> = None;
    let mut narrow = |bits: Bits| match &mut out {
        Some(out) => out.and(&bits),
        None => out = Some(bits),
    };
    for group in &filter.groups {
        let mut bits = Bits::none(segment.docs);
        for &key in group {
            tables.lookup(Store::Words, segment.number, key, |entry| {
                each_doc(entry.list, segment.docs, |doc, _| bits.set(doc))
            })?;
        }
        let nothing = bits.is_empty();
        narrow(bits);
        if nothing {
            return Ok(out);
        }
    }
    let inside = filter.time_allows(segment.since_ms) && filter.time_allows(segment.until_ms);
    if filter.is_timed() && !inside {
        let mut bits = Bits::none(segment.docs);
        for (doc, at_ms) in tables.times(segment)?.all().enumerate() {
            if filter.time_allows(at_ms) {
                bits.set(doc as u32);
            }
        }
        narrow(bits);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_know_their_members() {
        let mut bits = Bits::none(130);
        bits.set(0);
        bits.set(129);
        assert_eq!(bits.members(), [0, 129]);
        assert_eq!(Bits::all(130).count(), 130);
        assert_eq!(Bits::all(128).count(), 128);
        bits.and(&Bits::none(130));
        assert!(bits.is_empty());
    }
}
