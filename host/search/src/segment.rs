//! Immutable segments: posting lists of consecutive documents, in rows of one table.
//!
//! A row's number is made of what it holds (words, pairs, trigrams, columns), the segment, and the first key of the page,
//! so that one lookup by number finds the page of a key. Documents of a segment are numbered from 0 in rising order of
//! their ids. Every segment holds a multiple of [`GROUP`] documents, so that blocks of merged segments fall together.

use crate::api::SearchError;
use crate::postings::{Entries, Entry, damaged};
use crate::tokens::KEY_BITS;
use rusqlite::{Connection, OptionalExtension, params};

/// Documents that a segment is a multiple of; the greatest block.
pub(crate) const GROUP: usize = 16;
/// Number of the greatest segment.
const SEGMENT_MAX: i64 = (1 << 18) - 1;
/// Bit from which a row's number tells the kind.
const KIND_SHIFT: u32 = KEY_BITS + 18;

/// What a row of the table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Words = 0,
    Pairs = 1,
    Trigrams = 2,
    Columns = 3,
}

/// Columns of a segment, as keys of [`Store::Columns`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    /// Ids from the first on, in four bytes each, or eight; absent where they follow each other.
    Ids = 0,
    /// Lengths in words, a byte each, see [`length_byte`].
    Lengths = 1,
    /// Times since the segment's earliest, in [`TIME_BYTES`] each, so that one is read without the others.
    Times = 2,
}

/// Returns the number of a row.
pub(crate) fn row_number(store: Store, segment: i64, key: u64) -> i64 {
    (store as i64) << KIND_SHIFT | segment << KEY_BITS | (key & ((1 << KEY_BITS) - 1)) as i64
}

/// What the list of segments says of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: i64,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) docs: u32,
    /// Words of all documents.
    pub(crate) words: u64,
    /// Bytes of all texts.
    pub(crate) bytes: u64,
    /// Documents of a block, as a power of two.
    pub(crate) shift: u32,
    pub(crate) since_ms: u64,
    pub(crate) until_ms: u64,
}

impl Segment {
    /// Returns how many blocks there are.
    pub(crate) fn blocks(&self) -> u32 {
        self.docs.div_ceil(1 << self.shift)
    }

    /// Returns whether ids follow each other without a gap.
    pub(crate) fn is_run(&self) -> bool {
        self.last.checked_sub(self.first) == Some(i64::from(self.docs) - 1)
    }
}

/// The tables of an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) prefix: &'static str,
}

impl<'a> Tables<'a> {
    pub(crate) fn create(&self) -> Result<(), SearchError> {
        let p = self.prefix;
        self.conn.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {p}_tail (id INTEGER PRIMARY KEY, d BLOB NOT NULL);
             CREATE TABLE IF NOT EXISTS {p}_segment (n INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL,
                docs INTEGER NOT NULL, words INTEGER NOT NULL, bytes INTEGER NOT NULL, shift INTEGER NOT NULL,
                since_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL);
             CREATE TABLE IF NOT EXISTS {p}_post (k INTEGER PRIMARY KEY, d BLOB NOT NULL);
             CREATE TABLE IF NOT EXISTS {p}_word (w TEXT PRIMARY KEY) WITHOUT ROWID;"
        ))?;
        Ok(())
    }

    pub(crate) fn drop(&self) -> Result<(), SearchError> {
        let p = self.prefix;
        self.conn.execute_batch(&format!(
            "DROP TABLE IF EXISTS {p}_tail; DROP TABLE IF EXISTS {p}_segment; DROP TABLE IF EXISTS {p}_post; DROP TABLE IF EXISTS {p}_word;"
        ))?;
        Ok(())
    }

    /// Returns the segments, oldest first.
    pub(crate) fn segments(&self) -> Result<Vec<Segment>, SearchError> {
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT n, first, last, docs, words, bytes, shift, since_ms, until_ms FROM {}_segment ORDER BY first",
            self.prefix
        ))?;
        let rows = statement.query_map([], |row| {
            Ok(Segment {
                number: row.get(0)?,
                first: row.get(1)?,
                last: row.get(2)?,
                docs: row.get(3)?,
                words: row.get::<_, i64>(4)?.max(0) as u64,
                bytes: row.get::<_, i64>(5)?.max(0) as u64,
                shift: row.get(6)?,
                since_ms: row.get::<_, i64>(7)?.max(0) as u64,
                until_ms: row.get::<_, i64>(8)?.max(0) as u64,
            })
        })?;
        let segments = rows.collect::<Result<Vec<_>, _>>()?;
        match segments
            .iter()
            .all(|s| s.shift <= GROUP.ilog2() && s.first <= s.last && (0..=SEGMENT_MAX).contains(&s.number))
        {
            true => Ok(segments),
            false => Err(damaged("the list of segments")),
        }
    }

    pub(crate) fn write_segment(&self, s: &Segment) -> Result<(), SearchError> {
        self.conn.prepare_cached(&format!("INSERT INTO {}_segment VALUES (?,?,?,?,?,?,?,?,?)", self.prefix))?.execute(
            params![
                s.number,
                s.first,
                s.last,
                s.docs,
                to_i64(s.words),
                to_i64(s.bytes),
                s.shift,
                to_i64(s.since_ms),
                to_i64(s.until_ms)
            ],
        )?;
        Ok(())
    }

    /// Removes a segment and all it holds.
    pub(crate) fn delete_segment(&self, number: i64) -> Result<(), SearchError> {
        for store in [Store::Words, Store::Pairs, Store::Trigrams, Store::Columns] {
            let first = row_number(store, number, 0);
            let last = row_number(store, number, (1 << KEY_BITS) - 1);
            self.conn
                .prepare_cached(&format!("DELETE FROM {}_post WHERE k BETWEEN ? AND ?", self.prefix))?
                .execute([first, last])?;
        }
        self.conn.prepare_cached(&format!("DELETE FROM {}_segment WHERE n = ?", self.prefix))?.execute([number])?;
        Ok(())
    }

    /// Returns a number for a new segment.
    pub(crate) fn next_number(&self) -> Result<i64, SearchError> {
        let number: i64 = self
            .conn
            .prepare_cached(&format!("SELECT coalesce(max(n), -1) + 1 FROM {}_segment", self.prefix))?
            .query_row([], |row| row.get(0))?;
        if number <= SEGMENT_MAX {
            return Ok(number);
        }
        Err(SearchError::Damaged("all numbers of segments are used up".into()))
    }

    pub(crate) fn write_row(&self, number: i64, bytes: &[u8]) -> Result<(), SearchError> {
        self.conn
            .prepare_cached(&format!("INSERT INTO {}_post VALUES (?, ?)", self.prefix))?
            .execute(params![number, bytes])?;
        Ok(())
    }

    /// Returns the first row of a segment's store after `after`, with its number.
    pub(crate) fn row_after(&self, after: i64, last: i64) -> Result<Option<(i64, Vec<u8>)>, SearchError> {
        let found = self
            .conn
            .prepare_cached(&format!(
                "SELECT k, d FROM {}_post WHERE k > ? AND k <= ? ORDER BY k LIMIT 1",
                self.prefix
            ))?
            .query_row([after, last], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        Ok(found)
    }

    /// Returns the posting list of a key in a segment, handed to `read`; none if the key is not there.
    pub(crate) fn lookup<T>(
        &self,
        store: Store,
        segment: i64,
        key: u64,
        read: impl FnOnce(Entry<'_>) -> Result<T, SearchError>,
    ) -> Result<Option<T>, SearchError> {
        let least = row_number(store, segment, 0);
        let wanted = row_number(store, segment, key);
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT d FROM {}_post WHERE k BETWEEN ? AND ? ORDER BY k DESC LIMIT 1",
            self.prefix
        ))?;
        let mut rows = statement.query([least, wanted])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let page = row.get_ref(0)?.as_blob().map_err(|_| damaged("a page of posting lists"))?;
        let mut entries = Entries::new(page);
        while let Some(entry) = entries.next()? {
            if entry.key == key {
                return read(entry).map(Some);
            }
            if entry.key > key {
                break;
            }
        }
        Ok(None)
    }

    /// Returns a column of a segment, empty where there is none.
    fn column(&self, segment: i64, column: Column) -> Result<Vec<u8>, SearchError> {
        let bytes = self
            .conn
            .prepare_cached(&format!("SELECT d FROM {}_post WHERE k = ?", self.prefix))?
            .query_row([row_number(Store::Columns, segment, column as u64)], |row| row.get(0))
            .optional()?;
        Ok(bytes.unwrap_or_default())
    }

    pub(crate) fn lengths(&self, segment: &Segment) -> Result<Vec<u8>, SearchError> {
        let bytes = self.column(segment.number, Column::Lengths)?;
        if bytes.len() == segment.docs as usize { Ok(bytes) } else { Err(damaged("the lengths of a segment")) }
    }

    pub(crate) fn ids(&self, segment: &Segment) -> Result<Ids, SearchError> {
        if segment.is_run() {
            return Ok(Ids::Run(segment.first));
        }
        let bytes = self.column(segment.number, Column::Ids)?;
        let width = bytes.len() / (segment.docs as usize).max(1);
        if !matches!(width, NARROW | WIDE) || bytes.len() != segment.docs as usize * width {
            return Err(damaged("the ids of a segment"));
        }
        Ok(Ids::List { first: segment.first, width, bytes })
    }

    pub(crate) fn times(&self, segment: &Segment) -> Result<Times, SearchError> {
        let bytes = self.column(segment.number, Column::Times)?;
        if bytes.len() != segment.docs as usize * TIME_BYTES {
            return Err(damaged("the times of a segment"));
        }
        Ok(Times { since_ms: segment.since_ms, bytes })
    }

    pub(crate) fn write_columns(
        &self,
        segment: &Segment,
        ids: &[i64],
        lengths: &[u8],
        times: &[u64],
    ) -> Result<(), SearchError> {
        let number = |column: Column| row_number(Store::Columns, segment.number, column as u64);
        if !segment.is_run() {
            self.write_row(number(Column::Ids), &Ids::bytes_of(segment, ids))?;
        }
        self.write_row(number(Column::Lengths), lengths)?;
        self.write_row(number(Column::Times), &Times::bytes_of(segment.since_ms, times))
    }
}

/// Returns a number for the database, which has no greater ones.
pub(crate) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Bytes of a time within a segment: milliseconds of 34 years.
const TIME_BYTES: usize = 5;

/// The times of a segment's documents.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    since_ms: u64,
    bytes: Vec<u8>,
}

impl Times {
    fn bytes_of(since_ms: u64, times: &[u64]) -> Vec<u8> {
        let most = (1 << (8 * TIME_BYTES)) - 1;
        let later = times.iter().map(|time| time.saturating_sub(since_ms).min(most));
        later.flat_map(|later| later.to_le_bytes().into_iter().take(TIME_BYTES)).collect()
    }

    /// Returns the time of a document, in milliseconds since 1970.
    pub(crate) fn of(&self, doc: u32) -> u64 {
        let (times, _) = self.bytes.as_chunks::<TIME_BYTES>();
        let later = times
            .get(doc as usize)
            .map_or(0, |time| time.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
        self.since_ms.saturating_add(later)
    }

    /// Returns the times of all documents.
    pub(crate) fn all(&self) -> impl Iterator<Item = u64> + '_ {
        (0..(self.bytes.len() / TIME_BYTES) as u32).map(|doc| self.of(doc))
    }
}

/// The ids of a segment's documents.
#[derive(Debug, Clone)]
pub(crate) enum Ids {
    /// They follow each other from this one.
    Run(i64),
    /// They have gaps: distances to the first, of one width.
    List { first: i64, width: usize, bytes: Vec<u8> },
    /// Ids of the tail.
    Plain(Vec<i64>),
}

/// Widths of an id within a segment.
const NARROW: usize = 4;
const WIDE: usize = 8;

impl Ids {
    fn bytes_of(segment: &Segment, ids: &[i64]) -> Vec<u8> {
        let width = if u32::try_from(segment.last.abs_diff(segment.first)).is_ok() { NARROW } else { WIDE };
        let distances = ids.iter().map(|id| id.abs_diff(segment.first).to_le_bytes());
        distances.flat_map(|distance| distance.into_iter().take(width)).collect()
    }

    /// Returns the id of a document of the segment.
    pub(crate) fn id(&self, doc: u32) -> Option<i64> {
        match self {
            Ids::Run(first) => first.checked_add(i64::from(doc)),
            Ids::List { first, width, bytes } => {
                let start = (doc as usize).checked_mul(*width)?;
                let distance = bytes.get(start..start.checked_add(*width)?)?;
                let distance = distance.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
                first.checked_add_unsigned(distance)
            }
            Ids::Plain(ids) => ids.get(doc as usize).copied(),
        }
    }

    /// Returns the number of a document in the segment.
    pub(crate) fn doc(&self, id: i64, docs: u32) -> Option<u32> {
        match self {
            Ids::Run(first) => id.checked_sub(*first).and_then(|doc| u32::try_from(doc).ok()).filter(|&doc| doc < docs),
            Ids::List { .. } => {
                let (mut low, mut high) = (0, docs);
                while low < high {
                    let middle = low + (high - low) / 2;
                    if self.id(middle)? < id { low = middle + 1 } else { high = middle }
                }
                (self.id(low) == Some(id)).then_some(low)
            }
            Ids::Plain(ids) => ids.binary_search(&id).ok().map(|doc| doc as u32),
        }
    }
}

/// Returns a length as a byte: exact below 64, then in steps of 6 %.
pub(crate) fn length_byte(length: u32) -> u8 {
    if length < 64 {
        return length as u8;
    }
    // 12 steps to the double: 255 stands for four million words.
    let steps = (f64::from(length) / 64.0).log2() * 12.0;
    (64.0 + steps).min(255.0) as u8
}

/// Undoes [`length_byte`], about.
pub(crate) fn length_of(byte: u8) -> f32 {
    if byte < 64 { f32::from(byte) } else { 64.0 * 2_f32.powf((f32::from(byte) - 64.0) / 12.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back_within_a_tenth() {
        for length in [0, 1, 5, 63, 64, 65, 100, 1_000, 50_000, 1_000_000] {
            let back = length_of(length_byte(length));
            assert!((back - length as f32).abs() <= length as f32 * 0.1, "{length} came back as {back}");
        }
        assert_eq!(length_byte(u32::MAX), 255);
    }

    #[test]
    fn row_numbers_sort_by_kind_then_segment_then_key() {
        let key = (1 << KEY_BITS) - 1;
        assert!(row_number(Store::Words, 0, key) < row_number(Store::Words, 1, 0));
        assert!(row_number(Store::Words, SEGMENT_MAX, key) < row_number(Store::Pairs, 0, 0));
        assert!(row_number(Store::Columns, SEGMENT_MAX, key) > 0);
    }
}
