//! Decides how a pattern is read, searches, and makes the page.

use crate::api::{Hit, Page, Query, SearchError, Source};
use crate::candidates::Scope;
use crate::filter::Filter;
use crate::rank::{self, Ranked};
use crate::segment::Tables;
use crate::snippet;
use crate::terms::{Term, terms};
use engine_api::SearchSort;

/// Searches.
pub(crate) fn search(tables: Tables<'_>, source: &dyn Source, query: &Query<'_>) -> Result<Page, SearchError> {
    let scope = Scope::read(tables, Filter::new(query))?;
    let terms = terms(query.pattern);
    let ranked = match query.sort {
        SearchSort::Newest | SearchSort::Oldest => rank::by_time(tables, query, &scope, &terms)?,
        _ => rank::ranked(tables, source, query, &scope, &terms)?,
    };
    page(source, ranked, &terms)
}

fn page(source: &dyn Source, ranked: Ranked, terms: &[Term]) -> Result<Page, SearchError> {
    let mut hits = Vec::with_capacity(ranked.hits.len());
    for scored in ranked.hits {
        let Some(text) = source.text(scored.id)? else { continue };
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
