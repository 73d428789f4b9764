//! Compares the index with the texts, and makes it anew from them.

use crate::api::{Doc, Facts, SearchError, Source};
use crate::index::Index;
use crate::postings::{Entries, each_doc};
use crate::segment::{Store, Tables, row_number};
use crate::tail::{Row, RowBytes, TIMES_MAX};
use crate::tokens::KEY_BITS;
use rusqlite::Connection;
use std::ops::ControlFlow;

/// Texts that a quick check compares.
pub(crate) const SAMPLE: u64 = 64;
/// Faults reported at most; an index with more is rebuilt anyway.
const FAULTS_MAX: usize = 20;
/// Documents added at once while rebuilding; between these the tail is filled into segments.
const REBUILD_DOCS: usize = 512;
/// Bytes of text held at once while rebuilding.
const REBUILD_BYTES: usize = 8 << 20;

/// Returns what is wrong: the lists of segments are read, and `sample` texts compared.
pub(crate) fn verify(tables: Tables<'_>, source: &dyn Source, sample: u64) -> Result<Vec<String>, SearchError> {
    let mut faults = Vec::new();
    let segments = match tables.segments() {
        Ok(segments) => segments,
        Err(SearchError::Damaged(what)) => return Ok(vec![what]),
        Err(error) => return Err(error),
    };
    for (left, right) in segments.iter().zip(segments.iter().skip(1)) {
        if left.last >= right.first {
            faults.push(format!("segments {} and {} overlap", left.number, right.number));
        }
    }
    let (tail_first, tail_last): (Option<i64>, Option<i64>) = tables
        .conn
        .prepare_cached(&format!("SELECT min(id), max(id) FROM {}_tail", tables.prefix))?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let (Some(tail), Some(segment)) = (tail_first, segments.last())
        && tail <= segment.last
    {
        faults.push(format!("document {tail} of the tail is not newer than segment {}", segment.number));
    }
    let first = segments.first().map(|segment| segment.first).or(tail_first);
    let last = tail_last.or(segments.last().map(|segment| segment.last));
    let (Some(first), Some(last)) = (first, last) else { return Ok(faults) };
    for segment in &segments {
        let columns = tables.ids(segment).and(tables.lengths(segment)).and(tables.times(segment));
        match columns {
            Err(SearchError::Damaged(what)) => faults.push(format!("segment {}: {what}", segment.number)),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        if sample == u64::MAX {
            faults.extend(pages_of(tables, segment.number)?);
        }
    }
    // Evenly spread, or all.
    let span = last.abs_diff(first);
    let step = if sample == u64::MAX { 1 } else { (span / sample).max(1) };
    let mut ids: Vec<i64> = Vec::new();
    if step == 1 {
        source.scan(first..=last, false, &mut |id, text| compare(tables, source, &segments, id, text, &mut faults))?;
    } else {
        let mut id = first;
        while id <= last {
            ids.push(id);
            let Some(next) = id.checked_add_unsigned(step) else { break };
            id = next;
        }
    }
    for id in ids {
        let Some(text) = source.text(id)? else { continue };
        if compare(tables, source, &segments, id, &text, &mut faults).is_break() {
            break;
        }
    }
    Ok(faults)
}

/// Reads every page of a segment.
fn pages_of(tables: Tables<'_>, number: i64) -> Result<Option<String>, SearchError> {
    for store in [Store::Words, Store::Pairs, Store::Trigrams] {
        let mut at = row_number(store, number, 0) - 1;
        let last = row_number(store, number, (1 << KEY_BITS) - 1);
        while let Some((next, page)) = tables.row_after(at, last)? {
            at = next;
            let mut entries = Entries::new(&page);
            loop {
                match entries.next() {
                    Ok(None) => break,
                    Ok(Some(_)) => {}
                    Err(_) => return Ok(Some(format!("segment {number}: a page of posting lists cannot be read"))),
                }
            }
        }
    }
    Ok(None)
}

/// Compares one text with the index.
fn compare(
    tables: Tables<'_>,
    source: &dyn Source,
    segments: &[crate::segment::Segment],
    id: i64,
    text: &str,
    faults: &mut Vec<String>,
) -> ControlFlow<()> {
    match missing(tables, source, segments, id, text) {
        Ok(None) => {}
        Ok(Some(fault)) => faults.push(fault),
        Err(error) => faults.push(format!("document {id}: {error}")),
    }
    if faults.len() >= FAULTS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn missing(
    tables: Tables<'_>,
    source: &dyn Source,
    segments: &[crate::segment::Segment],
    id: i64,
    text: &str,
) -> Result<Option<String>, SearchError> {
    let Some(facts) = source.facts(id)? else { return Ok(None) };
    let wanted = row_of(id, &facts, text);
    let Some(segment) = segments.iter().find(|segment| (segment.first..=segment.last).contains(&id)) else {
        let held: Option<Vec<u8>> = rusqlite::OptionalExtension::optional(
            tables
                .conn
                .prepare_cached(&format!("SELECT d FROM {}_tail WHERE id = ?", tables.prefix))?
                .query_row([id], |row| row.get(0)),
        )?;
        let Some(held) = held else { return Ok(Some(format!("document {id} is not indexed"))) };
        let same = RowBytes::new(&held)?.is(&wanted);
        return Ok((!same).then(|| format!("document {id} is indexed with other words than it has")));
    };
    let Some(doc) = tables.ids(segment)?.doc(id, segment.docs) else {
        return Ok(Some(format!("document {id} is not indexed")));
    };
    for &(key, times) in &wanted.keys {
        let mut held = 0;
        tables.lookup(Store::Words, segment.number, key, |entry| {
            each_doc(entry.list, segment.docs, |other, times| {
                if other == doc {
                    held = times;
                }
            })
        })?;
        if held != times.min(TIMES_MAX) {
            return Ok(Some(format!("document {id} is indexed with other words than it has")));
        }
    }
    Ok(None)
}

fn row_of(id: i64, facts: &Facts, text: &str) -> Row {
    let tools: Vec<&str> = facts.tools.iter().map(String::as_str).collect();
    Row::new(&Doc {
        id,
        session: facts.session,
        role: facts.role,
        tools: &tools,
        depth: facts.depth,
        at_ms: facts.at_ms,
        text,
    })
}

/// Adds all documents of a source to an empty index.
pub(crate) fn rebuild(index: &Index, conn: &Connection, source: &dyn Source) -> Result<u64, SearchError> {
    let Some(range) = source.id_range()? else { return Ok(0) };
    let mut next = Some(*range.start());
    let mut done = 0_u64;
    while let Some(start) = next.filter(|start| start <= range.end()) {
        let mut texts: Vec<(i64, String)> = Vec::new();
        let mut bytes = 0;
        source.scan(start..=*range.end(), false, &mut |id, text| {
            bytes += text.len();
            texts.push((id, text.to_owned()));
            let full = texts.len() >= REBUILD_DOCS || bytes >= REBUILD_BYTES;
            if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let Some((last, _)) = texts.last() else { break };
        next = last.checked_add(1);
        for (id, text) in &texts {
            let Some(facts) = source.facts(*id)? else { continue };
            let tools: Vec<&str> = facts.tools.iter().map(String::as_str).collect();
            let doc = Doc {
                id: *id,
                session: facts.session,
                role: facts.role,
                tools: &tools,
                depth: facts.depth,
                at_ms: facts.at_ms,
                text,
            };
            index.add(conn, &[doc])?;
            done += 1;
        }
        if index.unfilled(conn)? >= crate::FILL_FROM * 2 {
            index.fill(conn, source, usize::MAX)?;
        }
    }
    index.fill(conn, source, usize::MAX)?;
    Ok(done)
}
