//! Finds a resent history in what is stored, so that nothing is ever stored twice: clients send all of it each time,
//! and change, trim, rewind or summarise it themselves.

use crate::append::{self, Incoming};
use crate::error::{StoreError, while_doing};
use crate::nodes::Coverage;
use crate::store::{Store, now_ms};
use crate::{branches, views};
use engine_api::{Message, MessageId};
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};

/// Cells of the table that compares two stretches message by message; larger stretches are compared by what is unique.
const TABLE_CELLS_MAX: usize = 4_000_000;
/// Branches that are looked at, the newest first.
const BRANCHES_MAX: usize = 16;

/// How a resent history differs from the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing is new.
    Same,
    /// Messages were added at the end.
    Appended,
    /// The client left out the oldest messages; they still belong to the conversation.
    Trimmed,
    /// The client went back to an earlier point, or to another branch.
    Rewound,
    /// Messages within were changed, added or left out.
    Edited,
}

/// Where the messages of a resent history are in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    /// The id of each message that was sent, in order.
    pub ids: Vec<MessageId>,
    /// How many were new, and are stored now.
    pub added: usize,
    /// What the client did.
    pub change: Change,
}

impl Store {
    /// Finds the messages of a resent history, stores what is new, and makes the branch that it is on the live one. The
    /// live view goes over to that branch as far as it speaks of messages that are there. What the host itself wrote into
    /// the history stands for the messages that it was made from.
    ///
    /// # Errors
    /// Those of reading and writing; then nothing has changed.
    pub fn align(&self, session: i64, messages: &[&Message]) -> Result<Alignment, StoreError> {
        let now = now_ms();
        let incoming: Vec<Incoming> = messages.iter().map(|message| self.incoming(message, now)).collect();
        let store = self.clone();
        self.write("storing messages", move |conn| {
            let live = branches::live(conn, session)?;
            let ours = Ours::read(&store, conn, session)?;
            let units: Vec<Unit> = incoming
                .into_iter()
                .map(|message| match ours.stands_for(&message) {
                    Some(ids) => Unit::Ours(ids),
                    None => Unit::Said(Box::new(message)),
                })
                .collect();
            let wanted: Vec<u64> = units.iter().filter_map(Unit::identity).collect();
            let (branch, path, found) = best_branch(conn, session, live, &wanted)?;
            let places = ours.places(&units, &path, &found);
            let change = classify(&path, &places, branch == live);
            let added = found.iter().filter(|at| at.is_none()).count();
            let stays = matches!(change, Change::Same | Change::Appended | Change::Trimmed);
            let to = if stays || (change == Change::Rewound && added == 0 && places.len() == path.len()) {
                branch
            } else {
                // Its rows come first: the list of the branch is made when all ids are known.
                branches::insert(conn, session, &[], None, Some(branch))?
            };
            let mut known = found.iter();
            let is_new = |unit: &Unit| matches!(unit, Unit::Said(_)) && known.next().is_some_and(Option::is_none);
            let fresh: Vec<bool> = units.iter().map(is_new).collect();
            let fresh: Vec<Incoming> = units
                .into_iter()
                .zip(fresh)
                .filter_map(|(unit, is_new)| match unit {
                    Unit::Said(message) if is_new => Some(*message),
                    _ => None,
                })
                .collect();
            let mut fresh = append::insert(conn, &store.inner.bodies, session, to, &fresh)?.into_iter();
            let ids: Vec<MessageId> = places
                .iter()
                .filter_map(|at| match at {
                    Some(at) => path.get(*at).map(|(id, _)| MessageId(*id)),
                    None => fresh.next(),
                })
                .collect();
            if to != branch {
                let list: Vec<u64> = ids.iter().map(|id| id.0).collect();
                views::rebase(conn, session, branch, to, &list)?;
            } else if branch != live {
                let view = branches::read(conn, session, branch)?.view;
                branches::go_to(conn, session, branch, view, "the client went back to it")?;
            }
            Ok(Alignment { ids, added, change })
        })
    }
}

/// One message of a resent history.
enum Unit {
    /// Somebody said it.
    Said(Box<Incoming>),
    /// The host wrote it, for these messages; for none, if it was a note.
    Ours(Vec<u64>),
}

impl Unit {
    fn identity(&self) -> Option<u64> {
        match self {
            Unit::Said(message) => Some(message.identity),
            Unit::Ours(_) => None,
        }
    }
}

/// What the host wrote into the live view.
struct Ours {
    by_identity: HashMap<u64, Vec<u64>>,
    coverage: Coverage,
    dropped: HashSet<u64>,
}

impl Ours {
    fn read(store: &Store, conn: &Connection, session: i64) -> Result<Ours, StoreError> {
        let live = views::live(conn, session)?;
        let coverage = Coverage::read(conn, session)?;
        let Some(view) = live.view else {
            return Ok(Ours { by_identity: HashMap::new(), coverage, dropped: HashSet::new() });
        };
        let dropped = views::read(conn, view)?.dropped.into_iter().collect();
        let mut by_identity = HashMap::new();
        for (id, covered) in views::standing_for(conn, session, &live.items)? {
            if let Some(row) = store.row(conn, id)? {
                by_identity.insert(store.inner.reader.identity(&row.raw), covered);
            }
        }
        Ok(Ours { by_identity, coverage, dropped })
    }

    /// Returns what a message stands for, if the host wrote it: by its bytes, or by the summaries that it names.
    fn stands_for(&self, message: &Incoming) -> Option<Vec<u64>> {
        if let Some(ids) = self.by_identity.get(&message.identity) {
            return Some(ids.clone());
        }
        let is_known = !message.summaries.is_empty() && message.summaries.iter().all(|node| self.coverage.has(*node));
        is_known.then(|| message.summaries.iter().flat_map(|node| self.coverage.below(*node)).collect())
    }

    /// Returns the place in `path` of everything that a resent history stands for, in its order; none for what is new.
    fn places(&self, units: &[Unit], path: &[(u64, u64)], found: &[Option<usize>]) -> Vec<Option<usize>> {
        if units.iter().all(|unit| matches!(unit, Unit::Said(_))) {
            return found.to_vec();
        }
        let place: HashMap<u64, usize> = path.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
        let mut taken: HashSet<usize> = found.iter().flatten().copied().collect();
        let mut found = found.iter();
        let mut out: Vec<Option<usize>> = Vec::new();
        for unit in units {
            match unit {
                Unit::Said(_) => out.push(found.next().copied().flatten()),
                Unit::Ours(ids) => {
                    let there = ids.iter().filter_map(|id| place.get(id).copied());
                    out.extend(there.filter(|at| taken.insert(*at)).map(Some));
                }
            }
        }
        // What the view left out belongs where it was.
        let left_out = path.iter().enumerate().filter(|(at, (id, _))| self.dropped.contains(id) && !taken.contains(at));
        for (at, _) in left_out {
            let before = out.iter().position(|other| other.is_some_and(|other| other > at));
            let end = out.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            out.insert(before.unwrap_or(end), Some(at));
        }
        out
    }
}

/// A branch, its messages with what makes each the same, and where the wanted ones are among them.
type Candidate = (i64, Vec<(u64, u64)>, Vec<Option<usize>>);

fn best_branch(conn: &Connection, session: i64, live: i64, wanted: &[u64]) -> Result<Candidate, StoreError> {
    let hits = |found: &[Option<usize>]| found.iter().flatten().count();
    let mut best: Option<Candidate> = None;
    for branch in candidates(conn, session, live)? {
        let path = identities(conn, &branches::path(conn, session, branch)?)?;
        let found = align(&path, wanted);
        let is_whole = found.iter().all(Option::is_some);
        if best.as_ref().is_none_or(|(_, _, before)| hits(&found) > hits(before)) {
            best = Some((branch, path, found));
        }
        if is_whole {
            break;
        }
    }
    best.ok_or_else(|| StoreError::Invalid(format!("session row {session} has no branch")))
}

/// Returns the branches to look at, the live one first.
pub(crate) fn candidates(conn: &Connection, session: i64, live: i64) -> Result<Vec<i64>, StoreError> {
    let doing = while_doing("reading branches");
    let sql = "SELECT branch FROM branches WHERE session = ?1 AND branch <> ?2 ORDER BY branch DESC LIMIT ?3";
    let mut select = conn.prepare_cached(sql).map_err(&doing)?;
    let most = i64::try_from(BRANCHES_MAX).unwrap_or(i64::MAX);
    let others = select.query_map([session, live, most], |row| row.get(0)).map_err(&doing)?;
    let mut all = vec![live];
    for other in others {
        all.push(other.map_err(&doing)?);
    }
    Ok(all)
}

/// Returns messages with what makes each the same.
pub(crate) fn identities(conn: &Connection, path: &[u64]) -> Result<Vec<(u64, u64)>, StoreError> {
    let doing = while_doing("reading messages");
    let mut select = conn.prepare_cached("SELECT identity FROM messages WHERE id = ?1").map_err(&doing)?;
    path.iter()
        .map(|&id| {
            let identity: i64 = select.query_row([crate::sessions::count(id)], |row| row.get(0)).map_err(&doing)?;
            Ok((id, identity.cast_unsigned()))
        })
        .collect()
}

fn classify(path: &[(u64, u64)], found: &[Option<usize>], is_live: bool) -> Change {
    let kept: Vec<usize> = found.iter().map_while(|at| *at).collect();
    let is_run = kept.windows(2).all(|pair| pair.first().copied().map(|at| at + 1) == pair.get(1).copied());
    let new_follow = found.iter().skip(kept.len()).all(Option::is_none);
    let added = found.len() - kept.len();
    let to_end = kept.last().is_none_or(|&last| last + 1 == path.len());
    match (kept.first(), is_run && new_follow) {
        _ if path.is_empty() => Change::Appended,
        // Of a conversation that nothing is known of, only the session is the same.
        (None, _) => Change::Edited,
        (Some(0), true) if to_end && added == 0 => {
            if is_live {
                Change::Same
            } else {
                Change::Rewound
            }
        }
        (Some(0), true) if to_end => {
            if is_live {
                Change::Appended
            } else {
                Change::Rewound
            }
        }
        (Some(0), true) => {
            if added == 0 {
                Change::Rewound
            } else {
                Change::Edited
            }
        }
        (Some(_), true) if to_end && is_live => Change::Trimmed,
        _ if is_trimmed_after_head(path, found) && is_live => Change::Trimmed,
        _ => Change::Edited,
    }
}

/// Tells whether the client kept the head, left out a stretch after it, and sent the rest up to the end unchanged.
fn is_trimmed_after_head(path: &[(u64, u64)], found: &[Option<usize>]) -> bool {
    let known: Vec<usize> = found.iter().map_while(|at| *at).collect();
    let new_follow = found.iter().skip(known.len()).all(Option::is_none);
    let breaks = known.windows(2).filter(|pair| pair.first().copied().map(|at| at + 1) != pair.get(1).copied()).count();
    new_follow && breaks == 1 && known.first() == Some(&0) && known.last().is_some_and(|&last| last + 1 == path.len())
}

/// Returns the place in `path` of each message, in rising order; none for one that is new.
pub(crate) fn align(path: &[(u64, u64)], wanted: &[u64]) -> Vec<Option<usize>> {
    let mut found = vec![None; wanted.len()];
    let mut open = vec![(0..path.len(), 0..wanted.len())];
    // Each stretch that is split is split at matches, so there are at most as many as messages.
    while let Some((mut old, mut new)) = open.pop() {
        let same =
            |at: usize, to: usize| path.get(at).map(|(_, identity)| identity) == wanted.get(to) && to < wanted.len();
        while !old.is_empty() && !new.is_empty() && same(old.start, new.start) {
            set(&mut found, new.start, old.start);
            (old.start, new.start) = (old.start + 1, new.start + 1);
        }
        while !old.is_empty() && !new.is_empty() && same(old.end - 1, new.end - 1) {
            (old.end, new.end) = (old.end - 1, new.end - 1);
            set(&mut found, new.end, old.end);
        }
        if old.is_empty() || new.is_empty() {
            continue;
        }
        if old.len().saturating_mul(new.len()) <= TABLE_CELLS_MAX {
            longest_common(path, wanted, old, new, &mut found);
            continue;
        }
        let anchors = unique_in_both(path, wanted, &old, &new);
        if anchors.is_empty() {
            greedy(path, wanted, old, new, &mut found);
            continue;
        }
        let (mut from_old, mut from_new) = (old.start, new.start);
        for (at, to) in anchors {
            set(&mut found, to, at);
            open.push((from_old..at, from_new..to));
            (from_old, from_new) = (at + 1, to + 1);
        }
        open.push((from_old..old.end, from_new..new.end));
    }
    found
}

fn set(found: &mut [Option<usize>], to: usize, at: usize) {
    if let Some(slot) = found.get_mut(to) {
        *slot = Some(at);
    }
}

type Stretch = std::ops::Range<usize>;

/// The longest common subsequence, by the classic table.
fn longest_common(path: &[(u64, u64)], wanted: &[u64], old: Stretch, new: Stretch, found: &mut [Option<usize>]) {
    let (rows, columns) = (old.len(), new.len());
    let width = columns + 1;
    let mut table = vec![0u32; (rows + 1) * width];
    let is_same = |row: usize, column: usize| {
        path.get(old.start + row).map(|(_, identity)| identity) == wanted.get(new.start + column)
    };
    let at = |table: &[u32], row: usize, column: usize| table.get(row * width + column).copied().unwrap_or(0);
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let best = if is_same(row, column) {
                at(&table, row + 1, column + 1) + 1
            } else {
                at(&table, row + 1, column).max(at(&table, row, column + 1))
            };
            if let Some(cell) = table.get_mut(row * width + column) {
                *cell = best;
            }
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < rows && column < columns {
        if is_same(row, column) {
            set(found, new.start + column, old.start + row);
            (row, column) = (row + 1, column + 1);
        } else if at(&table, row + 1, column) >= at(&table, row, column + 1) {
            row += 1;
        } else {
            column += 1;
        }
    }
}

/// Returns the messages that occur once in each stretch and keep their order, as many as possible.
fn unique_in_both(path: &[(u64, u64)], wanted: &[u64], old: &Stretch, new: &Stretch) -> Vec<(usize, usize)> {
    let mut seen: HashMap<u64, (usize, usize, usize)> = HashMap::new();
    for at in old.clone() {
        let Some((_, identity)) = path.get(at) else { continue };
        let entry = seen.entry(*identity).or_insert((0, at, 0));
        entry.0 += 1;
    }
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for to in new.clone() {
        if let Some(identity) = wanted.get(to) {
            *counts.entry(*identity).or_insert(0) += 1;
        }
    }
    for to in new.clone() {
        let Some(identity) = wanted.get(to) else { continue };
        if counts.get(identity) == Some(&1)
            && let Some((1, at, _)) = seen.get(identity)
        {
            pairs.push((*at, to));
        }
    }
    longest_rising(&pairs)
}

/// Returns the longest part of `pairs` (rising in their second) that rises in their first, too.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    let first_of = |index: usize| pairs.get(index).map_or(0, |pair| pair.0);
    for index in 0..pairs.len() {
        let place = ends.partition_point(|&end| first_of(end) < first_of(index));
        if let (Some(slot), Some(last)) = (before.get_mut(index), place.checked_sub(1).and_then(|last| ends.get(last)))
        {
            *slot = Some(*last);
        }
        match ends.get_mut(place) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut out = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        out.extend(pairs.get(index).copied());
        next = before.get(index).copied().flatten();
    }
    out.reverse();
    out
}

/// Takes for each message the next place that it occurs at: for stretches in which nothing is unique.
fn greedy(path: &[(u64, u64)], wanted: &[u64], old: Stretch, new: Stretch, found: &mut [Option<usize>]) {
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for at in old.clone().rev() {
        if let Some((_, identity)) = path.get(at) {
            places.entry(*identity).or_default().push(at);
        }
    }
    let mut next = old.start;
    for to in new {
        let Some(list) = wanted.get(to).and_then(|identity| places.get_mut(identity)) else { continue };
        while list.last().is_some_and(|&at| at < next) {
            list.pop();
        }
        if let Some(at) = list.pop() {
            set(found, to, at);
            next = at + 1;
        }
    }
}
