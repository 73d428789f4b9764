//! Finds what a pattern matches: the indexes name candidates, and their texts are read in order until the page is full.

use crate::api::{Query, SearchError, Source};
use crate::candidates::{Bits, Part, Scope};
use crate::pattern::Pattern;
use crate::postings::each_doc;
use crate::segment::{Ids, Store, Tables};
use crate::trigrams::{self, Needs};
use engine_api::SearchSort;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

/// How long texts are read for a query without a deadline: a page of a pattern that no index helps with, over a million messages.
pub(crate) const READING_TIME_MAX: Duration = Duration::from_secs(1);
/// Matches counted at most.
const COUNT_MAX: u64 = 10_000;
/// Bytes of text read at most once the page is full, only to count on: some 5 ms.
const COUNT_BYTES: u64 = 2 << 20;
/// Texts read at most for that.
const COUNT_TEXTS: u64 = 2_000;
/// Share of the candidates, in percent, from which on all texts are read in one go in place of one by one.
const SCAN_PERCENT: u64 = 30;
/// Texts between two looks at the clock.
const CLOCK_TEXTS: u64 = 64;

/// What reading found.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// The page: ids, and where each matches.
    pub(crate) hits: Vec<(i64, Range<usize>)>,
    pub(crate) total: u64,
    pub(crate) total_is_least: bool,
    pub(crate) scanned: u64,
    pub(crate) has_more: bool,
    pub(crate) not_covered: String,
}

/// Finds what a pattern matches: newest first, or oldest first if the query says so.
pub(crate) fn matches(
    tables: Tables<'_>,
    source: &dyn Source,
    query: &Query<'_>,
    scope: &Scope<'_>,
    pattern: &Pattern,
) -> Result<Matches, SearchError> {
    let mut reader = Reader::new(query, scope, pattern);
    let newest_first = query.sort != SearchSort::Oldest;
    let mut places: Vec<Option<&Part>> = scope.segments.iter().map(Some).chain([None]).collect();
    if newest_first {
        places.reverse();
    }
    for place in places {
        if reader.stop.is_some() {
            break;
        }
        match place {
            Some(part) => reader.segment(tables, source, part, newest_first)?,
            None => reader.tail(source, newest_first)?,
        }
    }
    Ok(reader.finish())
}

/// Why reading ended before all candidates were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The page is full, and counting came to its bound.
    Counted,
    /// The time was up.
    Time,
}

struct Reader<'a> {
    query: &'a Query<'a>,
    scope: &'a Scope<'a>,
    pattern: &'a Pattern,
    deadline: Instant,
    out: Matches,
    stop: Option<Stop>,
    bytes_after_page: u64,
    texts_after_page: u64,
    /// The last document read.
    last: Option<i64>,
}

impl<'a> Reader<'a> {
    fn new(query: &'a Query<'a>, scope: &'a Scope<'a>, pattern: &'a Pattern) -> Reader<'a> {
        let deadline = query.deadline.unwrap_or_else(|| Instant::now() + READING_TIME_MAX);
        Reader {
            query,
            scope,
            pattern,
            deadline,
            out: Matches::default(),
            stop: None,
            bytes_after_page: 0,
            texts_after_page: 0,
            last: None,
        }
    }

    /// Reads one text.
    fn text(&mut self, id: i64, text: &str) -> ControlFlow<()> {
        self.out.scanned += 1;
        self.last = Some(id);
        if let Some(found) = self.pattern.find(text) {
            if self.out.total >= self.query.offset && self.out.hits.len() < self.query.page_len() {
                self.out.hits.push((id, found));
            }
            self.out.total += 1;
        }
        if self.out.hits.len() >= self.query.page_len() {
            self.bytes_after_page = self.bytes_after_page.saturating_add(text.len() as u64);
            self.texts_after_page += 1;
            let more_is_known = self.out.total > self.query.offset.saturating_add(self.out.hits.len() as u64);
            let enough = self.out.total >= COUNT_MAX
                || self.bytes_after_page > COUNT_BYTES
                || self.texts_after_page > COUNT_TEXTS;
            if more_is_known && enough {
                self.stop = Some(Stop::Counted);
            }
        }
        if self.out.scanned.is_multiple_of(CLOCK_TEXTS) && Instant::now() >= self.deadline {
            self.stop = Some(Stop::Time);
        }
        if self.stop.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Reads the candidates of a segment.
    fn segment(
        &mut self,
        tables: Tables<'_>,
        source: &dyn Source,
        part: &Part,
        newest_first: bool,
    ) -> Result<(), SearchError> {
        let Some(docs) = candidates(tables, part, self.pattern)? else { return Ok(()) };
        let ids = tables.ids(&part.segment)?;
        let many = docs.count() * 100 > u64::from(part.segment.docs) * SCAN_PERCENT;
        let mut runs = runs(&docs, many, part.segment.docs);
        if newest_first {
            runs.reverse();
        }
        for run in runs {
            if self.stop.is_some() {
                break;
            }
            self.run(source, &docs, &ids, run, part.segment.docs, newest_first)?;
        }
        Ok(())
    }

    /// Reads consecutive documents: one by one if they are few, else in one go.
    fn run(
        &mut self,
        source: &dyn Source,
        docs: &Bits,
        ids: &Ids,
        run: Range<u32>,
        count: u32,
        newest_first: bool,
    ) -> Result<(), SearchError> {
        let (Some(first), Some(last)) = (ids.id(run.start), run.end.checked_sub(1).and_then(|doc| ids.id(doc))) else {
            return Ok(());
        };
        if run.len() < 4 {
            let mut of_run: Vec<u32> = run.collect();
            if newest_first {
                of_run.reverse();
            }
            for doc in of_run {
                let Some(id) = ids.id(doc).filter(|&id| docs.has(doc) && self.scope.filter.allows(id)) else {
                    continue;
                };
                if let Some(text) = source.text(id)?
                    && self.text(id, &text).is_break()
                {
                    break;
                }
            }
            return Ok(());
        }
        let filter = &self.scope.filter;
        source.scan(first..=last, newest_first, &mut |id, text| match ids
            .doc(id, count)
            .filter(|&doc| docs.has(doc) && filter.allows(id))
        {
            Some(_) => self.text(id, text),
            None => ControlFlow::Continue(()),
        })
    }

    /// Reads the tail.
    fn tail(&mut self, source: &dyn Source, newest_first: bool) -> Result<(), SearchError> {
        let scope = self.scope;
        let pattern = self.pattern;
        let wanted = |id: i64| {
            scope.tail.doc(id).is_some_and(|doc| {
                doc.allowed
                    && pattern.keys.iter().all(|&key| doc.row.times(key) > 0)
                    && pattern.pairs.iter().all(|&pair| doc.row.has_pair(pair))
                    && scope.filter.allows(id)
            })
        };
        let mut docs: Vec<i64> = scope.tail.docs().map(|doc| doc.id).filter(|&id| wanted(id)).collect();
        let all = scope.tail.len();
        if docs.len() * 100 <= all * SCAN_PERCENT as usize {
            if newest_first {
                docs.reverse();
            }
            for id in docs {
                if let Some(text) = source.text(id)?
                    && self.text(id, &text).is_break()
                {
                    break;
                }
            }
            return Ok(());
        }
        let (Some(&first), Some(&last)) = (docs.first(), docs.last()) else { return Ok(()) };
        source.scan(first..=last, newest_first, &mut |id, text| {
            if docs.binary_search(&id).is_ok() { self.text(id, text) } else { ControlFlow::Continue(()) }
        })
    }

    fn finish(mut self) -> Matches {
        let shown = self.query.offset.saturating_add(self.out.hits.len() as u64);
        self.out.has_more = self.out.total > shown;
        match self.stop {
            None => {}
            Some(Stop::Counted) => self.out.total_is_least = true,
            Some(Stop::Time) => {
                self.out.total_is_least = true;
                // What is left may match, so there may be more.
                self.out.has_more |= self.out.hits.len() >= self.query.page_len();
                let order = if self.query.sort == SearchSort::Oldest { "oldest" } else { "newest" };
                let scanned = self.out.scanned;
                self.out.not_covered = format!(
                    "the time was up after the {order} {scanned} candidates; narrow the search by session, time or role, or name a longer literal"
                );
            }
        }
        self.out
    }
}

/// Returns the documents of a segment whose texts must be read; none if there are none.
fn candidates(tables: Tables<'_>, part: &Part, pattern: &Pattern) -> Result<Option<Bits>, SearchError> {
    let segment = &part.segment;
    let mut docs: Option<Bits> = part.allowed.clone();
    let mut narrow = |bits: Bits| match &mut docs {
        Some(docs) => docs.and(&bits),
        None => docs = Some(bits),
    };
    // Pairs first: they are rare, and an empty set needs no further lists.
    let pairs = pattern.pairs.iter().map(|&pair| (Store::Pairs, u64::from(pair)));
    for (store, key) in pairs.chain(pattern.keys.iter().map(|&key| (Store::Words, key))) {
        let mut bits = Bits::none(segment.docs);
        let found = tables
            .lookup(store, segment.number, key, |entry| each_doc(entry.list, segment.docs, |doc, _| bits.set(doc)))?;
        if found.is_none() {
            return Ok(None);
        }
        narrow(bits);
    }
    // What the words left is few where there are pairs; trigrams would take longer than reading it.
    let by_words = !pattern.pairs.is_empty() && docs.as_ref().is_some_and(|docs| docs.count() < 64);
    if !by_words
        && pattern.needs != Needs::Nothing
        && let Some(blocks) = trigrams::blocks(tables, segment, &pattern.needs)?
    {
        let mut bits = Bits::none(segment.docs);
        for block in blocks.members() {
            let first = block << segment.shift;
            for doc in first..(first + (1 << segment.shift)).min(segment.docs) {
                bits.set(doc);
            }
        }
        match &mut docs {
            Some(docs) => docs.and(&bits),
            None => docs = Some(bits),
        }
    }
    let docs = docs.unwrap_or_else(|| Bits::all(segment.docs));
    Ok(if docs.is_empty() { None } else { Some(docs) })
}

/// Returns the stretches of consecutive documents, rising; all documents as one where there are many.
fn runs(docs: &Bits, many: bool, count: u32) -> Vec<Range<u32>> {
    if many {
        return std::iter::once(0..count).collect();
    }
    let mut out: Vec<Range<u32>> = Vec::new();
    for doc in docs.members() {
        match out.last_mut() {
            Some(run) if run.end == doc => run.end = doc + 1,
            _ => out.push(doc..doc + 1),
        }
    }
    out
}
