//! Making what is kept fit: shorten first, then give the oldest of the tail to a summary.
//!
//! The system messages, the newest real user message and pinned ones stay whatever they cost. Before anything is taken
//! out whole, the largest results and arguments are cut to their ends; the newest calls are the last to go.

use crate::layout::Layout;
use crate::prune::CallTable;
use crate::regions::leading;
use engine_api::Conversation;
use std::ops::Range;

/// Parts are cut to this at first; only when that is not enough do they become lines.
const EXCERPT_TOKENS: u64 = 256;
/// Units of the tail that stay while others can go: the newest calls are what the model works on.
const NEWEST_UNITS: usize = 3;

/// What has to fit, and what may go.
pub struct Fit<'f> {
    /// The units of the conversation.
    pub units: &'f [Range<usize>],
    /// Where the head ends.
    pub head_end: usize,
    /// Units that stay; see [`must_keep`](crate::regions::must_keep).
    pub must_keep: &'f [Range<usize>],
    /// From here on everything stays whole as long as that is possible; the conversation's length for no such wish.
    pub exchanges_start: usize,
    /// Tokens that all messages may come to, kept and new.
    pub room: u64,
    /// Tokens to keep free for summaries of so many tokens.
    pub reserve: &'f dyn Fn(u64) -> u64,
}

impl Fit<'_> {
    /// Makes the kept messages leave room for the summaries of the covered ones. If even the least is too much, the
    /// least is what is left.
    pub fn apply(
        &self,
        layout: &mut Layout<'_>,
        conversation: &Conversation<'_>,
        table: &CallTable<'_>,
        count: &dyn Fn(&str) -> u64,
    ) {
        let first = leading(conversation);
        let covered_tokens: u64 = layout
            .covered()
            .into_iter()
            .filter_map(|position| conversation.get(position))
            .map(|message| message.tokens())
            .sum();
        let room = self.room.saturating_sub((self.reserve)(covered_tokens));
        if layout.kept_tokens() <= room {
            return;
        }
        let rest: Vec<usize> = layout.kept().into_iter().filter(|position| *position >= first).collect();
        let wished: Vec<usize> = rest.iter().copied().filter(|position| *position < self.exchanges_start).collect();
        demote_to(layout, &wished, room, EXCERPT_TOKENS, table, count);
        if layout.kept_tokens() > room && covered_tokens == 0 {
            // Nothing is covered yet, so shortening alone may do, and then it should.
            demote_to(layout, &rest, room, EXCERPT_TOKENS, table, count);
        }
        if layout.kept_tokens() <= room {
            return;
        }

        // What leaves the tail joins the summaries, so the reserve is that for nearly everything.
        let room = self.room.saturating_sub((self.reserve)(conversation.tokens()));
        let (movable, last) = self.movable(layout, first);
        cover_until(layout, &movable, room);
        demote_to(layout, &rest, room, EXCERPT_TOKENS, table, count);
        demote_to(layout, &rest, room, 0, table, count);
        cover_until(layout, &last, room);
    }

    /// Returns the kept units that may go, in the order in which they should, and those that go last.
    fn movable(&self, layout: &Layout<'_>, first: usize) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
        let must: std::collections::HashSet<usize> = self.must_keep.iter().map(|unit| unit.start).collect();
        let is_movable =
            |unit: &&Range<usize>| layout.is_kept(unit.start) && unit.start >= first && !must.contains(&unit.start);
        let mut movable: Vec<Range<usize>> = self.units.iter().filter(is_movable).cloned().collect();
        // Of the head the newest goes first: it says least about what the conversation is for.
        let head = movable.partition_point(|unit| unit.start < self.head_end);
        let head_units: Vec<Range<usize>> = movable.drain(..head).rev().collect();
        let exchanges = movable.partition_point(|unit| unit.start < self.exchanges_start);
        let newest = movable.len().saturating_sub(NEWEST_UNITS).min(exchanges);
        let mut last = movable.split_off(newest);
        // Of the newest the largest goes first: it may be enough.
        last.sort_by_key(|unit| std::cmp::Reverse(unit.clone().map(|position| layout.cost(position)).sum::<u64>()));
        movable.extend(head_units);
        (movable, last)
    }
}

fn demote_to(
    layout: &mut Layout<'_>,
    positions: &[usize],
    room: u64,
    part_tokens_min: u64,
    table: &CallTable<'_>,
    count: &dyn Fn(&str) -> u64,
) {
    let kept: Vec<usize> = positions.iter().copied().filter(|position| layout.is_kept(*position)).collect();
    let theirs: u64 = kept.iter().map(|position| layout.cost(*position)).sum();
    let others = layout.kept_tokens().saturating_sub(theirs);
    layout.demote(&kept, room.saturating_sub(others), part_tokens_min, table, count);
}

/// Covers units in this order until what is kept fits.
fn cover_until(layout: &mut Layout<'_>, order: &[Range<usize>], room: u64) {
    let mut kept = layout.kept_tokens();
    for unit in order {
        if kept <= room {
            return;
        }
        kept = kept.saturating_sub(unit.clone().map(|position| layout.cost(position)).sum());
        layout.cover(unit.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::units;
    use crate::picture::plan_picture;
    use crate::regions::must_keep;
    use engine_api::testing::{assistant, calls, result, system, user};
    use engine_api::{Message, SummaryKind, SummaryStep, ViewTable};

    fn count(text: &str) -> u64 {
        text.len() as u64 / 4 + 4
    }

    fn fitted(messages: &[Message], room: u64) -> String {
        let table = ViewTable::new(1, messages);
        let conversation = table.conversation();
        let units = units(&conversation);
        let mut layout = Layout::new(conversation);
        let fit = Fit {
            units: &units,
            head_end: 1,
            must_keep: &must_keep(&conversation, &units),
            exchanges_start: messages.len(),
            room,
            reserve: &|covered| if covered == 0 { 0 } else { 100 },
        };
        fit.apply(&mut layout, &conversation, &CallTable::new(&conversation), &count);
        let covers = crate::layout::spans(&layout.covered());
        if covers.is_empty() {
            return plan_picture(&layout.into_plan(vec![]));
        }
        let summary = SummaryStep { text: "x".into(), covers, nodes: vec![], depth: 0, kind: SummaryKind::Leaf };
        plan_picture(&layout.into_plan(vec![summary]))
    }

    #[test]
    fn it_shortens_first_then_covers_the_oldest_and_keeps_the_newest_request() {
        let log = "line of a log\n".repeat(2_000);
        let mut messages = vec![system(1, "s"), user(2, "one"), assistant(3, &"word ".repeat(400)), user(4, "two")];
        for at in 0..5u64 {
            let call = format!("c{at}");
            messages.push(calls(5 + 2 * at, &[(&call, "bash", "{\"command\":\"make\"}")]));
            messages.push(result(6 + 2 * at, &call, "bash", if at % 2 == 0 { &log } else { "ok" }));
        }
        for (room, want) in [
            (50_000, "keep 0-13"),
            (10_000, "keep 0-13 | rewrite 5.0 | rewrite 9.0 | rewrite 13.0"),
            (1_800, "keep 0-13 | rewrite 5.0 | rewrite 9.0 | rewrite 13.0"),
            (1_000, "keep 0 | Σ0 1-2 | keep 3-13 | rewrite 5.0 | rewrite 9.0 | rewrite 13.0"),
            (10, "keep 0 | Σ0 1-2,4-11 | keep 3 | keep 12-13 | rewrite 13.0"),
        ] {
            assert_eq!(fitted(&messages, room), want, "room {room}");
        }
    }
}
