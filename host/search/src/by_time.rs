//! Finds documents by words in the order of time: segment after segment, until the page is full and enough are counted.

use crate::api::{Query, SearchError};
use crate::candidates::Scope;
use crate::postings::each_doc;
use crate::rank::{Ranked, Scored};
use crate::segment::{Store, Tables};
use crate::terms::Term;
use engine_api::SearchSort;

/// Finds documents with all words, or with any if none has all, by time; see [`SearchSort`].
pub(crate) fn by_time(
    tables: Tables<'_>,
    query: &Query<'_>,
    scope: &Scope<'_>,
    terms: &[Term],
) -> Result<Ranked, SearchError> {
    let all = terms.iter().enumerate().filter(|(_, term)| term.counts).fold(0, |mask, (at, _)| mask | 1_u32 << at);
    let found = passes(tables, query, scope, terms, &|mask| mask & all == all)?;
    if found.total > 0 || all.count_ones() < 2 {
        return Ok(found);
    }
    passes(tables, query, scope, terms, &|mask| mask != 0)
}

/// Matches counted at most where order does not need all of them.
pub(crate) const COUNT_MAX: u64 = 10_000;

fn passes(
    tables: Tables<'_>,
    query: &Query<'_>,
    scope: &Scope<'_>,
    terms: &[Term],
    matches: &dyn Fn(u32) -> bool,
) -> Result<Ranked, SearchError> {
    let newest_first = query.sort != SearchSort::Oldest;
    let wanted = (query.skipped().saturating_add(query.page_len()) as u64).max(COUNT_MAX);
    let mut out = Ranked::default();
    let mut take = |id: i64, mask: u32| {
        if !matches(mask) || !scope.filter.allows(id) {
            return;
        }
        if out.total >= query.offset && out.hits.len() < query.page_len() {
            let have = terms.iter().enumerate().filter(|(at, term)| term.counts && mask >> at & 1 == 1).count();
            out.hits.push(Scored {
                id,
                score: 0.0,
                why: format!("{have} of {} words, by time", terms.iter().filter(|t| t.counts).count()),
            });
        }
        out.total += 1;
    };
    let mut places: Vec<Option<usize>> = (0..scope.segments.len()).map(Some).chain([None]).collect();
    if newest_first {
        places.reverse();
    }
    let mut complete = true;
    let mut counted = 0_u64;
    for place in places {
        if counted >= wanted {
            complete = false;
            break;
        }
        let mut found: Vec<(i64, u32)> = Vec::new();
        match place.and_then(|place| scope.segments.get(place)) {
            Some(part) => {
                let docs = part.segment.docs;
                let mut mask = vec![0_u32; docs as usize];
                for (at, term) in terms.iter().enumerate() {
                    tables.lookup(Store::Words, part.segment.number, term.key, |entry| {
                        each_doc(entry.list, docs, |doc, _| {
                            if let Some(mask) = mask.get_mut(doc as usize) {
                                *mask |= 1 << at;
                            }
                        })
                    })?;
                }
                let ids = tables.ids(&part.segment)?;
                for (doc, &mask) in mask.iter().enumerate() {
                    let allowed = part.allowed.as_ref().is_none_or(|allowed| allowed.has(doc as u32));
                    if let Some(id) = ids.id(doc as u32).filter(|_| mask != 0 && allowed) {
                        found.push((id, mask));
                    }
                }
            }
            None => {
                for doc in scope.tail.docs().filter(|doc| doc.allowed) {
                    let mask = terms
                        .iter()
                        .enumerate()
                        .fold(0, |mask, (at, term)| mask | u32::from(doc.row.times(term.key) > 0) << at);
                    if mask != 0 {
                        found.push((doc.id, mask));
                    }
                }
            }
        }
        if newest_first {
            found.reverse();
        }
        for (id, mask) in found {
            take(id, mask);
            counted += u64::from(matches(mask));
        }
    }
    out.total_is_least = !complete;
    out.has_more = out.total > query.offset.saturating_add(out.hits.len() as u64);
    Ok(out)
}
