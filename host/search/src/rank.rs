//! Ranks documents by the words of a query: BM25, the share of the query's words, the messages around, recency.
//!
//! Every document that has one of the words is scored, in one pass over the posting lists, so that totals and the order
//! are exact. What is around a document counts for the best ones only, see [`WINDOW`].

use crate::api::{Query, SearchError, Source};
use crate::candidates::{Scope, Tail};
use crate::segment::{self, Ids, Segment, Store, Tables, length_byte, length_of};
use crate::terms::Term;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// How soon further occurrences of a word stop counting, and how much a long text is held against it; tuned on LoCoMo
/// (`docs/evals.md`).
const K1: f32 = 1.2;
const B: f32 = 0.6;
/// How much a text with all words gains over one with hardly any; tuned on LoCoMo.
const COVERAGE: f32 = 2.0;
/// What the scores of the neighbours at distance one and two add; tuned on LoCoMo.
const NEIGHBOUR: [f32; 2] = [0.40, 0.20];
/// How much a message of long ago is held back: mild, since old decisions hold.
const RECENCY: f64 = 0.05;
/// Days after which half of the preference for what is recent is gone.
const RECENCY_HALF_DAYS: f64 = 30.0;
/// Documents whose neighbours are looked at.
pub(crate) const WINDOW: usize = 100;
/// The same for a query of one word, whose matches differ little by what is around them.
const WINDOW_OF_ONE: usize = 40;
/// Of these, documents whose neighbours may enter the window without a word of their own.
const WINDOW_SPREAD: usize = 40;
/// Words that a query must have for that: with fewer, a hit without any would look wrong.
const SPREAD_TERMS: usize = 3;
/// Hits that can be paged through.
pub(crate) const DEPTH_MAX: usize = 10_000;

/// A document found, in its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scored {
    pub(crate) id: i64,
    pub(crate) score: f64,
    pub(crate) why: String,
}

/// What a search by words found.
#[derive(Debug, Default)]
pub(crate) struct Ranked {
    /// The page, in order.
    pub(crate) hits: Vec<Scored>,
    pub(crate) total: u64,
    pub(crate) total_is_least: bool,
    pub(crate) has_more: bool,
    pub(crate) not_covered: String,
}

/// The scores of a segment's documents, or of the tail's.
struct Scores {
    ids: Ids,
    docs: u32,
    own: Vec<f32>,
    mask: Vec<u32>,
    /// The segment; none for the tail.
    segment: Option<Segment>,
}

/// Ranks the documents of a scope.
pub(crate) fn ranked(
    tables: Tables<'_>,
    source: &dyn Source,
    query: &Query<'_>,
    scope: &Scope<'_>,
    terms: &[Term],
) -> Result<Ranked, SearchError> {
    let lists = Lists::read(tables, scope, terms)?;
    let weights = lists.weights(scope, terms);
    let shares = Shares::new(terms, &weights, &lists.found);
    let scores = score_all(tables, scope, terms, &lists, &weights, &shares)?;
    let wanted = query.skipped().saturating_add(query.page_len());
    let depth = wanted.clamp(WINDOW, DEPTH_MAX);
    let mut best = Best::new(depth);
    let mut total = 0_u64;
    // Newest first, so that of equal scores the newer are kept.
    for (place, part) in scores.iter().enumerate().rev() {
        for (doc, (&own, &mask)) in part.own.iter().zip(&part.mask).enumerate().rev() {
            if mask == 0 {
                continue;
            }
            if scope.filter.within.is_some() {
                let allowed = part.ids.id(doc as u32).is_some_and(|id| scope.filter.allows(id));
                if !allowed {
                    continue;
                }
            }
            total += 1;
            best.push(own, place as u32, doc as u32);
        }
    }
    let order = best.finish();
    let mut out = Ranked { total, ..Ranked::default() };
    let (all, without_words) = in_order(tables, source, query, scope, terms, &scores, &shares, &order)?;
    // Neighbours without a word of their own are hits too.
    out.total = total + without_words;
    out.has_more = out.total > wanted as u64;
    if query.skipped() >= DEPTH_MAX || (wanted > DEPTH_MAX && out.has_more) {
        out.not_covered = format!("only the best {DEPTH_MAX} are put in order; name rarer words or a session");
        out.has_more = false;
    }
    out.hits = all.into_iter().skip(query.skipped()).take(query.page_len()).collect();
    Ok(out)
}

/// How many documents, and their posting list.
type List = (u32, Vec<u8>);

/// The posting lists of a query's words.
struct Lists {
    /// By place in the scope's segments, then by word: how many documents, and the list.
    lists: Vec<Vec<Option<List>>>,
    /// By word: documents that have it.
    found: Vec<u64>,
}

impl Lists {
    fn read(tables: Tables<'_>, scope: &Scope<'_>, terms: &[Term]) -> Result<Lists, SearchError> {
        let mut found = vec![0_u64; terms.len()];
        let mut lists = Vec::with_capacity(scope.segments.len());
        for part in &scope.segments {
            let mut of_segment = Vec::with_capacity(terms.len());
            for (term, found) in terms.iter().zip(&mut found) {
                let list = tables.lookup(Store::Words, part.segment.number, term.key, |entry| {
                    Ok((entry.count, entry.list.to_vec()))
                })?;
                *found += list.as_ref().map_or(0, |(count, _)| u64::from(*count));
                of_segment.push(list);
            }
            lists.push(of_segment);
        }
        for doc in scope.tail.docs() {
            for (term, found) in terms.iter().zip(&mut found) {
                *found += u64::from(doc.row.times(term.key) > 0);
            }
        }
        Ok(Lists { lists, found })
    }

    /// Returns what one occurrence of each word is worth.
    fn weights(&self, scope: &Scope<'_>, terms: &[Term]) -> Vec<f32> {
        let docs = scope.doc_count() as f64;
        self.found
            .iter()
            .zip(terms)
            .map(|(&found, term)| {
                let found = found as f64;
                let rare = (1.0 + (docs - found + 0.5).max(0.0) / (found + 0.5)).ln() as f32;
                if term.weak { rare / 2.0 } else { rare }
            })
            .collect()
    }
}

/// How much of a query a document has, by the mask of its words.
struct Shares {
    weights: Vec<f32>,
    whole: f32,
    /// The factor for every mask, where words are few.
    table: Vec<f32>,
}

impl Shares {
    fn new(terms: &[Term], weights: &[f32], found: &[u64]) -> Shares {
        let weights: Vec<f32> = terms
            .iter()
            .zip(weights.iter().zip(found))
            .map(|(term, (&weight, &found))| if term.counts && found > 0 { weight } else { 0.0 })
            .collect();
        let whole = weights.iter().sum::<f32>().max(f32::MIN_POSITIVE);
        let mut shares = Shares { weights, whole, table: Vec::new() };
        if terms.len() <= 10 {
            shares.table = (0..1_u32 << terms.len()).map(|mask| shares.compute(mask)).collect();
        }
        shares
    }

    fn share(&self, mask: u32) -> f32 {
        let mut sum = 0.0;
        for (at, weight) in self.weights.iter().enumerate() {
            if mask >> at & 1 == 1 {
                sum += weight;
            }
        }
        sum / self.whole
    }

    fn compute(&self, mask: u32) -> f32 {
        let share = self.share(mask);
        1.0 + COVERAGE * share * share
    }

    fn factor(&self, mask: u32) -> f32 {
        self.table.get(mask as usize).copied().unwrap_or_else(|| self.compute(mask))
    }
}

/// Scores every document that has a word.
fn score_all(
    tables: Tables<'_>,
    scope: &Scope<'_>,
    terms: &[Term],
    lists: &Lists,
    weights: &[f32],
    shares: &Shares,
) -> Result<Vec<Scores>, SearchError> {
    let mean = scope.mean_length().max(1.0);
    let norms: Vec<f32> = (0..=255_u8).map(|byte| K1 * (1.0 - B + B * length_of(byte) / mean)).collect();
    let mut out = Vec::with_capacity(scope.segments.len() + 1);
    for (part, of_segment) in scope.segments.iter().zip(&lists.lists) {
        if of_segment.iter().all(Option::is_none) {
            continue;
        }
        let docs = part.segment.docs;
        let lengths = tables.lengths(&part.segment)?;
        let mut own = vec![0_f32; docs as usize];
        let mut mask = vec![0_u32; docs as usize];
        for (at, (list, &weight)) in of_segment.iter().zip(weights).enumerate() {
            let Some((_, list)) = list else { continue };
            let bit = 1_u32 << at;
            let usual = usual_scores(weight, &norms);
            crate::postings::each_doc(list, docs, |doc, times| {
                let at = doc as usize;
                let (Some(own), Some(mask), Some(&length)) = (own.get_mut(at), mask.get_mut(at), lengths.get(at))
                else {
                    return;
                };
                *own += match usual.get((times as usize).saturating_sub(1)) {
                    Some(scores) => scores.get(usize::from(length)).copied().unwrap_or(0.0),
                    None => score(weight, times, norms.get(usize::from(length)).copied().unwrap_or(K1)),
                };
                *mask |= bit;
            })?;
        }
        for (doc, (own, mask)) in own.iter_mut().zip(&mut mask).enumerate() {
            if *mask == 0 {
                continue;
            }
            if part.allowed.as_ref().is_some_and(|allowed| !allowed.has(doc as u32)) {
                *mask = 0;
                *own = 0.0;
                continue;
            }
            *own *= shares.factor(*mask);
        }
        out.push(Scores { ids: tables.ids(&part.segment)?, docs, own, mask, segment: Some(part.segment.clone()) });
    }
    out.push(score_tail(&scope.tail, terms, weights, shares, &norms));
    Ok(out)
}

/// Returns what a word adds to a document's score.
fn score(weight: f32, times: u32, norm: f32) -> f32 {
    let times = times as f32;
    weight * (K1 + 1.0) * times / (times + norm)
}

/// Returns the scores of one, two, three and four occurrences by the byte of the length: nearly all that are asked for.
fn usual_scores(weight: f32, norms: &[f32]) -> [[f32; 256]; 4] {
    let mut out = [[0.0; 256]; 4];
    for (times, scores) in (1..).zip(&mut out) {
        for (place, &norm) in scores.iter_mut().zip(norms) {
            *place = score(weight, times, norm);
        }
    }
    out
}

fn score_tail(tail: &Tail, terms: &[Term], weights: &[f32], shares: &Shares, norms: &[f32]) -> Scores {
    let mut scores = Scores {
        ids: Ids::Plain(tail.docs().map(|doc| doc.id).collect()),
        docs: tail.len() as u32,
        own: vec![0.0; tail.len()],
        mask: vec![0; tail.len()],
        segment: None,
    };
    for (doc, (own, mask)) in tail.docs().zip(scores.own.iter_mut().zip(&mut scores.mask)) {
        if !doc.allowed {
            continue;
        }
        let norm = norms.get(usize::from(length_byte(doc.row.length))).copied().unwrap_or(K1);
        for (at, (term, &weight)) in terms.iter().zip(weights).enumerate() {
            let times = doc.row.times(term.key);
            if times > 0 {
                *own += score(weight, times, norm);
                *mask |= 1 << at;
            }
        }
        if *mask != 0 {
            *own *= shares.factor(*mask);
        }
    }
    scores
}

/// Keeps the best of many.
struct Best {
    keep: usize,
    least: f32,
    found: Vec<(f32, u32, u32)>,
}

impl Best {
    fn new(keep: usize) -> Best {
        Best { keep, least: f32::NEG_INFINITY, found: Vec::with_capacity(keep * 2) }
    }

    #[inline]
    fn push(&mut self, score: f32, place: u32, doc: u32) {
        if score > self.least {
            self.found.push((score, place, doc));
            if self.found.len() >= self.keep * 2 {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        if self.found.len() > self.keep {
            self.found.select_nth_unstable_by(self.keep - 1, best_first);
            self.found.truncate(self.keep);
            self.least = self.found.iter().map(|found| found.0).fold(f32::INFINITY, f32::min);
        }
    }

    fn finish(mut self) -> Vec<(f32, u32, u32)> {
        self.cut();
        self.found.sort_unstable_by(best_first);
        self.found
    }
}

fn best_first(left: &(f32, u32, u32), right: &(f32, u32, u32)) -> std::cmp::Ordering {
    right.0.total_cmp(&left.0).then_with(|| (right.1, right.2).cmp(&(left.1, left.2)))
}

/// Puts the best in their final order: the first [`WINDOW`] by what is around them too, the others by themselves.
#[expect(clippy::too_many_arguments, reason = "one step of `ranked`, cut out to fit a screen")]
fn in_order(
    tables: Tables<'_>,
    source: &dyn Source,
    query: &Query<'_>,
    scope: &Scope<'_>,
    terms: &[Term],
    scores: &[Scores],
    shares: &Shares,
    order: &[(f32, u32, u32)],
) -> Result<(Vec<Scored>, u64), SearchError> {
    let id_of = |&(_, place, doc): &(f32, u32, u32)| scores.get(place as usize).and_then(|part| part.ids.id(doc));
    let counting = terms.iter().filter(|term| term.counts).count();
    let width = if counting > 1 { WINDOW } else { WINDOW_OF_ONE };
    let window: Vec<i64> = order.iter().take(width).filter_map(id_of).collect();
    let mut around: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut members = window.clone();
    for &id in &window {
        around.insert(id, neighbours(source, id)?);
    }
    if counting >= SPREAD_TERMS {
        for id in window.iter().take(WINDOW_SPREAD) {
            let beside = around.get(id).map(|ids| beside(*id, ids)).unwrap_or_default();
            for next in beside.into_iter().flatten() {
                if !around.contains_key(&next) && scope.filter.allows(next) && allows(tables, scope, scores, next)? {
                    around.insert(next, neighbours(source, next)?);
                    members.push(next);
                }
            }
        }
    }
    let mut times = Times::default();
    let mut without_words = 0;
    let mut placed = Vec::with_capacity(members.len());
    for id in members {
        let (own, mask) = look_up(scores, id);
        without_words += u64::from(mask == 0);
        let mut near = 0.0_f32;
        let ids = around.get(&id).map_or(&[][..], Vec::as_slice);
        let split = ids.partition_point(|&other| other < id);
        let (before, after) = ids.split_at(split);
        for (distance, weight) in NEIGHBOUR.iter().enumerate() {
            for other in [before.iter().rev().nth(distance), after.get(distance)].into_iter().flatten() {
                near += weight * look_up(scores, *other).0;
            }
        }
        let recent = recency(times.of(tables, scores, scope, id)?, query.now_ms.max(0).unsigned_abs());
        let score = f64::from(own + near) * recent;
        let have = terms.iter().enumerate().filter(|(at, term)| term.counts && mask >> at & 1 == 1).count();
        let factor = shares.factor(mask);
        let bm25 = own / factor;
        let why = format!(
            "bm25 {bm25:.1} × {factor:.2} for {have} of {counting} words, neighbours +{near:.1}, recency {recent:.2}"
        );
        placed.push(Scored { id, score, why });
    }
    // Ids end ties, so that pages never overlap.
    placed.sort_by(|left, right| right.score.total_cmp(&left.score).then(right.id.cmp(&left.id)));
    let rest: Vec<i64> = order.iter().skip(width).filter_map(id_of).filter(|id| !around.contains_key(id)).collect();
    for id in rest {
        let (own, mask) = look_up(scores, id);
        let have = terms.iter().enumerate().filter(|(at, term)| term.counts && mask >> at & 1 == 1).count();
        let why = format!(
            "bm25 {:.1} × {:.2} for {have} of {counting} words",
            own / shares.factor(mask),
            shares.factor(mask)
        );
        placed.push(Scored { id, score: f64::from(own), why });
    }
    Ok((placed, without_words))
}

/// Returns the documents around one, rising.
fn neighbours(source: &dyn Source, id: i64) -> Result<Vec<i64>, SearchError> {
    let mut ids = source.neighbours(id, NEIGHBOUR.len() as u32)?;
    ids.retain(|&other| other != id);
    ids.sort_unstable();
    Ok(ids)
}

/// Returns whether the query's restrictions allow a document, the caller's own condition aside.
fn allows(tables: Tables<'_>, scope: &Scope<'_>, scores: &[Scores], id: i64) -> Result<bool, SearchError> {
    if let Some(doc) = scope.tail.doc(id) {
        return Ok(doc.allowed);
    }
    let Some(part) = scope.segments.iter().find(|part| (part.segment.first..=part.segment.last).contains(&id)) else {
        return Ok(false);
    };
    let Some(allowed) = &part.allowed else { return Ok(true) };
    // Ids of segments with a word of the query are read already.
    let number = part.segment.number;
    let read = scores.iter().find(|scores| scores.segment.as_ref().is_some_and(|segment| segment.number == number));
    let doc = match read {
        Some(scores) => scores.ids.doc(id, part.segment.docs),
        None => tables.ids(&part.segment)?.doc(id, part.segment.docs),
    };
    Ok(doc.is_some_and(|doc| allowed.has(doc)))
}

/// Returns the ids right before and right after one.
fn beside(id: i64, around: &[i64]) -> [Option<i64>; 2] {
    let split = around.partition_point(|&other| other < id);
    [split.checked_sub(1).and_then(|at| around.get(at)).copied(), around.get(split).copied()]
}

/// Returns a document's own score and the mask of its words; zeros if it has none.
fn look_up(scores: &[Scores], id: i64) -> (f32, u32) {
    for part in scores {
        let inside = part.segment.as_ref().is_none_or(|segment| (segment.first..=segment.last).contains(&id));
        if let Some(doc) = part.ids.doc(id, part.docs).filter(|_| inside) {
            let at = doc as usize;
            return (part.own.get(at).copied().unwrap_or(0.0), part.mask.get(at).copied().unwrap_or(0));
        }
    }
    (0.0, 0)
}

/// Times of documents, a segment at a time.
#[derive(Default)]
struct Times {
    known: HashMap<i64, segment::Times>,
}

impl Times {
    fn of(&mut self, tables: Tables<'_>, scores: &[Scores], scope: &Scope<'_>, id: i64) -> Result<u64, SearchError> {
        if let Some(doc) = scope.tail.doc(id) {
            return Ok(doc.row.at_ms);
        }
        let inside = |part: &&Scores| part.segment.as_ref().is_some_and(|s| (s.first..=s.last).contains(&id));
        let Some(part) = scores.iter().find(inside) else { return Ok(0) };
        let (Some(segment), Some(doc)) = (&part.segment, part.ids.doc(id, part.docs)) else { return Ok(0) };
        let times = match self.known.entry(segment.number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(tables.times(segment)?),
        };
        Ok(times.of(doc))
    }
}

/// Returns the factor for what is recent: 1 for now, falling to `1 - RECENCY`.
fn recency(at_ms: u64, now_ms: u64) -> f64 {
    if at_ms == 0 || now_ms == 0 {
        return 1.0;
    }
    let days = now_ms.saturating_sub(at_ms) as f64 / 86_400_000.0;
    1.0 - RECENCY * (1.0 - 0.5_f64.powf(days / RECENCY_HALF_DAYS))
}
