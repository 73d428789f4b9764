//! Turns documents of the tail into segments, and small segments into greater ones.

use crate::api::{SearchError, Source};
use crate::postings::{DocList, Entries, Entry, Pages, block_list, damaged, each_block, each_doc};
use crate::segment::{GROUP, Segment, Store, Tables, length_byte, row_number};
use crate::tail::RowBytes;
use crate::tokens::{KEY_BITS, KeyHasher, fold_into, is_glyph, key_of};
use crate::trigrams::Gatherer;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::ops::ControlFlow;

/// Documents from which on the caller should fill: reading this many rows of the tail takes about 4 ms of a search.
pub const FILL_FROM: u64 = 2_048;
/// Documents of a segment made from the tail; with [`FRESH_BYTES`], bounds the memory of filling to some 60 MB.
const FRESH_DOCS: usize = 4_096;
/// Bytes of text of a segment made from the tail, unless a group alone is longer.
const FRESH_BYTES: u64 = 4 << 20;
/// Neighbouring segments of one size that are merged; each document is merged twice until its segment is full.
const MERGE_COUNT: usize = 16;
/// Documents of a full segment: bounds what one merge reads and writes, and so how long others wait to write.
const FULL_DOCS: u32 = 65_536;
/// Bytes of text from which on a segment counts as full.
const FULL_BYTES: u64 = 64 << 20;
/// Bytes of text that a block should have: fewer make longer lists, more leave more texts to read.
const BLOCK_BYTES: u64 = 2_048;
/// Words kept for suggestions; some 10 MB.
const SUGGESTIONS_MAX: i64 = 500_000;
/// Letters of a word kept for suggestions.
const SUGGESTION_LETTERS: std::ops::RangeInclusive<usize> = 3..=24;

/// Moves the oldest documents of the tail into segments.
pub(crate) fn fill(tables: Tables<'_>, source: &dyn Source, docs_max: usize) -> Result<usize, SearchError> {
    let mut done = 0;
    while done < docs_max {
        let moved = fill_one(tables, source, (docs_max - done).min(FRESH_DOCS))?;
        if moved == 0 {
            break;
        }
        done += moved;
        merge_all(tables)?;
    }
    Ok(done)
}

/// A document on its way into a segment.
struct Fresh {
    id: i64,
    at_ms: u64,
    bytes: u64,
    length: u32,
}

/// Documents on their way into a segment, and their words.
#[derive(Default)]
struct Batch {
    docs: Vec<Fresh>,
    /// A key, a document, and how often the word stands in it.
    words: Vec<(u64, u32, u32)>,
    /// A bucket in the upper half, a document in the lower.
    pairs: Vec<u64>,
}

/// Makes one segment.
fn fill_one(tables: Tables<'_>, source: &dyn Source, docs_max: usize) -> Result<usize, SearchError> {
    let Batch { docs, mut words, mut pairs } = oldest(tables, docs_max)?;
    let (Some(first), Some(last)) = (docs.first(), docs.last()) else { return Ok(0) };
    let bytes: u64 = docs.iter().map(|doc| doc.bytes).sum();
    let mean = bytes / docs.len() as u64;
    let segment = Segment {
        number: tables.next_number()?,
        first: first.id,
        last: last.id,
        docs: docs.len() as u32,
        words: docs.iter().map(|doc| u64::from(doc.length)).sum(),
        bytes,
        shift: (BLOCK_BYTES / mean.max(1)).clamp(1, GROUP as u64).ilog2(),
        since_ms: docs.iter().map(|doc| doc.at_ms).min().unwrap_or(0),
        until_ms: docs.iter().map(|doc| doc.at_ms).max().unwrap_or(0),
    };
    tables.write_segment(&segment)?;
    let ids: Vec<i64> = docs.iter().map(|doc| doc.id).collect();
    let lengths: Vec<u8> = docs.iter().map(|doc| length_byte(doc.length)).collect();
    let times: Vec<u64> = docs.iter().map(|doc| doc.at_ms).collect();
    tables.write_columns(&segment, &ids, &lengths, &times)?;
    write_words(tables, &segment, &mut words)?;
    write_pairs(tables, &segment, &mut pairs)?;
    drop((words, pairs));
    write_trigrams(tables, source, &segment, &ids)?;
    tables
        .conn
        .prepare_cached(&format!("DELETE FROM {}_tail WHERE id <= ?", tables.prefix))?
        .execute([segment.last])?;
    Ok(ids.len())
}

/// Reads the oldest rows of the tail: whole groups, about [`FRESH_BYTES`] of text at most.
fn oldest(tables: Tables<'_>, docs_max: usize) -> Result<Batch, SearchError> {
    let mut statement =
        tables.conn.prepare_cached(&format!("SELECT id, d FROM {}_tail ORDER BY id LIMIT ?", tables.prefix))?;
    let mut found = statement.query([docs_max as i64])?;
    let mut batch = Batch::default();
    let mut bytes = 0_u64;
    while let Some(row) = found.next()? {
        let read = RowBytes::new(row.get_ref(1)?.as_blob().map_err(|_| damaged("a row of the tail"))?)?;
        let doc = batch.docs.len() as u32;
        batch.words.extend(read.keys().map(|(key, times)| (key, doc, times)));
        batch.pairs.extend(read.pairs().map(|pair| u64::from(pair) << 32 | u64::from(doc)));
        batch.docs.push(Fresh { id: row.get(0)?, at_ms: read.at_ms, bytes: read.bytes, length: read.length });
        bytes = bytes.saturating_add(read.bytes);
        if bytes >= FRESH_BYTES && batch.docs.len().is_multiple_of(GROUP) {
            break;
        }
    }
    let whole = batch.docs.len() / GROUP * GROUP;
    batch.docs.truncate(whole);
    batch.words.retain(|&(_, doc, _)| (doc as usize) < whole);
    batch.pairs.retain(|&pair| (pair as u32 as usize) < whole);
    Ok(batch)
}

fn write_words(tables: Tables<'_>, segment: &Segment, postings: &mut [(u64, u32, u32)]) -> Result<(), SearchError> {
    postings.sort_unstable();
    let mut pages = pages(tables, Store::Words, segment.number);
    let mut list = DocList::default();
    for of_key in postings.chunk_by(|left, right| left.0 == right.0) {
        list.clear();
        for &(_, doc, times) in of_key {
            list.push(doc, times);
        }
        let key = of_key.first().map_or(0, |posting| posting.0);
        pages.push(Entry { key, count: list.count, dense: false, list: &list.bytes })?;
    }
    pages.finish()
}

fn write_pairs(tables: Tables<'_>, segment: &Segment, postings: &mut [u64]) -> Result<(), SearchError> {
    postings.sort_unstable();
    let mut pages = pages(tables, Store::Pairs, segment.number);
    let mut list = DocList::default();
    for of_key in postings.chunk_by(|left, right| left >> 32 == right >> 32) {
        list.clear();
        for &posting in of_key {
            list.push(posting as u32, 1);
        }
        let key = of_key.first().map_or(0, |posting| posting >> 32);
        pages.push(Entry { key, count: list.count, dense: false, list: &list.bytes })?;
    }
    pages.finish()
}

/// Sorts postings by their upper half, the trigram, leaving those of one trigram in their order: by its lower 12 bits,
/// then by its upper 12. Comparing would take four times as long.
fn sort_by_trigram(postings: &mut Vec<u64>) {
    const RADIX_BITS: u32 = 12;
    let mut other = vec![0_u64; postings.len()];
    for pass in 0..2 {
        let digit = |posting: u64| ((posting >> (32 + pass * RADIX_BITS)) & ((1 << RADIX_BITS) - 1)) as usize;
        let mut starts = vec![0_usize; (1 << RADIX_BITS) + 1];
        for &posting in postings.iter() {
            if let Some(count) = starts.get_mut(digit(posting) + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        for &posting in postings.iter() {
            if let Some(start) = starts.get_mut(digit(posting)) {
                if let Some(place) = other.get_mut(*start) {
                    *place = posting;
                }
                *start += 1;
            }
        }
        std::mem::swap(postings, &mut other);
    }
}

fn write_trigrams(tables: Tables<'_>, source: &dyn Source, segment: &Segment, ids: &[i64]) -> Result<(), SearchError> {
    let mut gatherer = Gatherer::new();
    let mut postings: Vec<u64> = Vec::new();
    let mut suggestions = Suggestions::default();
    let mut block = 0_u32;
    let mut doc = 0_usize;
    source.scan(segment.first..=segment.last, false, &mut |id, text| {
        // Texts that were never added are passed over; added ones that are gone leave their place empty.
        while ids.get(doc).is_some_and(|&next| next < id) {
            doc += 1;
        }
        if ids.get(doc) != Some(&id) {
            return ControlFlow::Continue(());
        }
        let next = doc as u32 >> segment.shift;
        if next != block {
            gatherer.drain(|code| postings.push(u64::from(code) << 32 | u64::from(block)));
            block = next;
        }
        gatherer.add(text);
        suggestions.add(text);
        ControlFlow::Continue(())
    })?;
    gatherer.drain(|code| postings.push(u64::from(code) << 32 | u64::from(block)));
    sort_by_trigram(&mut postings);
    let mut pages = pages(tables, Store::Trigrams, segment.number);
    let mut blocks = Vec::new();
    let mut list = Vec::new();
    for of_key in postings.chunk_by(|left, right| left >> 32 == right >> 32) {
        blocks.clear();
        blocks.extend(of_key.iter().map(|&posting| posting as u32));
        let dense = block_list(&blocks, segment.blocks(), &mut list);
        let key = of_key.first().map_or(0, |posting| posting >> 32);
        pages.push(Entry { key, count: blocks.len() as u32, dense, list: &list })?;
    }
    pages.finish()?;
    write_suggestions(tables, suggestions.words)
}

/// Words of texts, each once, as they are suggested for misspelt ones.
#[derive(Default)]
struct Suggestions {
    words: Vec<String>,
    known: HashSet<u64, BuildHasherDefault<KeyHasher>>,
    word: String,
}

impl Suggestions {
    fn add(&mut self, text: &str) {
        for word in text.split(|c: char| !c.is_alphabetic()) {
            if !SUGGESTION_LETTERS.contains(&word.len()) || word.starts_with(is_glyph) {
                continue;
            }
            self.word.clear();
            fold_into(word, &mut self.word);
            if self.known.insert(key_of(0, self.word.as_bytes())) {
                self.words.push(self.word.clone());
            }
        }
    }
}

fn write_suggestions(tables: Tables<'_>, mut words: Vec<String>) -> Result<(), SearchError> {
    let held: i64 = tables
        .conn
        .prepare_cached(&format!("SELECT count(*) FROM {}_word", tables.prefix))?
        .query_row([], |row| row.get(0))?;
    words.sort_unstable();
    let mut insert = tables.conn.prepare_cached(&format!("INSERT OR IGNORE INTO {}_word VALUES (?)", tables.prefix))?;
    for word in words.iter().take(usize::try_from(SUGGESTIONS_MAX - held).unwrap_or(0)) {
        insert.execute([word])?;
    }
    Ok(())
}

fn pages<'a>(
    tables: Tables<'a>,
    store: Store,
    segment: i64,
) -> Pages<impl FnMut(u64, &[u8]) -> Result<(), SearchError> + 'a> {
    Pages::new(move |first, bytes: &[u8]| tables.write_row(row_number(store, segment, first), bytes))
}

/// The size of a segment: 0 and 1 are merged with their like, 2 is full.
fn size_class(segment: &Segment) -> u32 {
    if segment.docs >= FULL_DOCS || segment.bytes >= FULL_BYTES {
        return 2;
    }
    u32::from(segment.docs >= FRESH_DOCS as u32 || segment.bytes >= FRESH_BYTES)
}

/// Merges as long as there are enough segments of one size at the new end.
fn merge_all(tables: Tables<'_>) -> Result<(), SearchError> {
    loop {
        let segments = tables.segments()?;
        let mut merged = false;
        for class in 0..2 {
            // Smaller ones behind go along: segments hold consecutive documents.
            let run = segments.iter().rev().take_while(|segment| size_class(segment) <= class).count();
            let (_, run) = segments.split_at(segments.len() - run);
            let of_class = run.iter().filter(|segment| size_class(segment) == class).count();
            let docs: u64 = run.iter().map(|segment| u64::from(segment.docs)).sum();
            let bytes: u64 = run.iter().map(|segment| segment.bytes).sum();
            let full = docs >= u64::from(FULL_DOCS) || bytes >= FULL_BYTES;
            if of_class >= MERGE_COUNT || (of_class > 1 && full) {
                merge(tables, run)?;
                merged = true;
                break;
            }
        }
        if !merged {
            return Ok(());
        }
    }
}

/// Makes one segment of consecutive ones.
fn merge(tables: Tables<'_>, parts: &[Segment]) -> Result<(), SearchError> {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(()) };
    let docs = parts.iter().try_fold(0_u32, |docs, part| docs.checked_add(part.docs));
    let whole = Segment {
        number: tables.next_number()?,
        first: first.first,
        last: last.last,
        docs: docs.ok_or_else(|| damaged("the list of segments"))?,
        words: parts.iter().map(|part| part.words).sum(),
        bytes: parts.iter().map(|part| part.bytes).sum(),
        shift: parts.iter().map(|part| part.shift).max().unwrap_or(0),
        since_ms: parts.iter().map(|part| part.since_ms).min().unwrap_or(0),
        until_ms: parts.iter().map(|part| part.until_ms).max().unwrap_or(0),
    };
    let mut ids = Vec::with_capacity(whole.docs as usize);
    let mut lengths = Vec::with_capacity(whole.docs as usize);
    let mut times = Vec::with_capacity(whole.docs as usize);
    for part in parts {
        let held = tables.ids(part)?;
        ids.extend((0..part.docs).filter_map(|doc| held.id(doc)));
        lengths.extend(tables.lengths(part)?);
        times.extend(tables.times(part)?.all());
    }
    tables.write_columns(&whole, &ids, &lengths, &times)?;
    for store in [Store::Words, Store::Pairs, Store::Trigrams] {
        merge_store(tables, store, parts, &whole)?;
    }
    for part in parts {
        tables.delete_segment(part.number)?;
    }
    tables.write_segment(&whole)
}

/// Reads the pages of a segment's store one after the other.
struct Cursor {
    at: i64,
    last: i64,
    page: Vec<u8>,
    /// The entries of the page: key, count, dense, and where the list stands in it.
    entries: std::vec::IntoIter<(u64, u32, bool, std::ops::Range<usize>)>,
}

impl Cursor {
    fn new(store: Store, segment: i64) -> Cursor {
        let at = row_number(store, segment, 0) - 1;
        Cursor {
            at,
            last: row_number(store, segment, (1 << KEY_BITS) - 1),
            page: Vec::new(),
            entries: Vec::new().into_iter(),
        }
    }

    /// Returns the key of the next entry; none at the end.
    fn key(&mut self, tables: Tables<'_>) -> Result<Option<u64>, SearchError> {
        loop {
            if let Some(entry) = self.entries.as_slice().first() {
                return Ok(Some(entry.0));
            }
            let Some((at, page)) = tables.row_after(self.at, self.last)? else { return Ok(None) };
            self.at = at;
            let mut entries = Vec::new();
            let mut reader = Entries::new(&page);
            let mut end_of_last = 0;
            while let Some(entry) = reader.next()? {
                // Lists stand in the page in the order they are read, so each is found behind the one before.
                end_of_last = page.len() - reader.left();
                entries.push((entry.key, entry.count, entry.dense, end_of_last - entry.list.len()..end_of_last));
            }
            debug_assert!(end_of_last <= page.len());
            self.page = page;
            self.entries = entries.into_iter();
        }
    }
}

fn merge_store(tables: Tables<'_>, store: Store, parts: &[Segment], whole: &Segment) -> Result<(), SearchError> {
    let mut cursors: Vec<Cursor> = parts.iter().map(|part| Cursor::new(store, part.number)).collect();
    let mut pages = pages(tables, store, whole.number);
    let mut docs = DocList::default();
    let (mut blocks, mut bytes) = (Vec::new(), Vec::new());
    loop {
        let mut least: Option<u64> = None;
        for cursor in &mut cursors {
            if let Some(key) = cursor.key(tables)? {
                least = Some(least.map_or(key, |least| least.min(key)));
            }
        }
        let Some(key) = least else { break };
        docs.clear();
        blocks.clear();
        let mut base = 0_u32;
        for (part, cursor) in parts.iter().zip(&mut cursors) {
            if cursor.key(tables)? == Some(key)
                && let Some((_, count, dense, range)) = cursor.entries.next()
            {
                let list = cursor.page.get(range).unwrap_or_default();
                if store == Store::Trigrams {
                    let entry = Entry { key, count, dense, list };
                    each_block(&entry, part.blocks(), |block| {
                        let block = (base + (block << part.shift)) >> whole.shift;
                        if blocks.last() != Some(&block) {
                            blocks.push(block);
                        }
                    })?;
                } else {
                    each_doc(list, part.docs, |doc, times| docs.push(base + doc, times))?;
                }
            }
            base += part.docs;
        }
        if store == Store::Trigrams {
            let dense = block_list(&blocks, whole.blocks(), &mut bytes);
            pages.push(Entry { key, count: blocks.len() as u32, dense, list: &bytes })?;
        } else {
            pages.push(Entry { key, count: docs.count, dense: false, list: &docs.bytes })?;
        }
    }
    pages.finish()
}
