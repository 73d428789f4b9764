//! Which summaries a compaction makes: what each stands for, how deep it is, and how long it may be.

use crate::settings::Settings;
use crate::tree::RESERVE_PART;
use crate::write::is_pending;
use engine_api::{Conversation, HostServices, NodeId, RecallRequest, SummaryKind, json};
use engine_kit::layout::{Layout, SUMMARY_FRAME_TOKENS};
use engine_kit::shares::level;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A summary of fewer tokens says too little; fewer summaries that stand for more are better then.
const SUMMARY_TOKENS_MIN: u64 = 300;
/// A leaf's share of its stretch and its longest text; hermes-lcm has the same share.
pub(crate) const LEAF_PART: u64 = 5;
const LEAF_TOKENS_MAX: u64 = 4_000;
/// A condensed summary's share of those it stands for, and its shortest and longest text; as hermes-lcm has it.
const CONDENSED_SHARE: (u64, u64) = (2, 5);
const CONDENSED_TOKENS: (u64, u64) = (1_000, 8_000);
/// Earlier summaries are condensed whatever their number once they take more than this part of the room.
const EARLIER_PART: u64 = 3;
/// Summaries made in one compaction at most.
const SUMMARIES_MAX: usize = 512;
/// Depths asked of the host in one compaction at most; older summaries than these count as leaves.
const DEPTHS_MAX: usize = 1_024;

/// A summary to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Draft {
    /// The messages it will stand for, ascending.
    pub(crate) positions: Vec<usize>,
    /// Their tokens.
    pub(crate) source_tokens: u64,
    pub(crate) kind: SummaryKind,
    pub(crate) depth: u32,
    /// Tokens that it may have.
    pub(crate) tokens_max: u64,
    /// It replaces a single summary that no model has written; without a model that one stays.
    pub(crate) is_again: bool,
}

/// A summary that stands in the conversation already.
#[derive(Debug, Clone, Copy)]
struct Earlier {
    position: usize,
    depth: u32,
    tokens: u64,
    /// No model has written it.
    is_pending: bool,
}

/// What the summaries are decided on.
pub(crate) struct Ground<'g> {
    pub(crate) services: &'g dyn HostServices,
    pub(crate) conversation: &'g Conversation<'g>,
    pub(crate) units: &'g [Range<usize>],
    /// What does not stay, ascending.
    pub(crate) covered: &'g [usize],
    pub(crate) room: u64,
    pub(crate) settings: &'g Settings,
    /// Tokens of the stretch that one leaf stands for.
    pub(crate) chunk_tokens: u64,
    pub(crate) completions_max: u32,
    /// Every earlier summary becomes one.
    pub(crate) is_rotation: bool,
}

/// Decides on the summaries, coarser ones where there is no room for many.
pub(crate) fn drafts(ground: &Ground<'_>, layout: &mut Layout<'_>) -> Vec<Draft> {
    let Ground { services, conversation, units, covered, room, settings, completions_max, .. } = *ground;
    let cost = |position: &usize| conversation.get(*position).map_or(0, |message| message.tokens());
    let covered_tokens: u64 = covered.iter().map(cost).sum();
    if covered_tokens <= 2 * SUMMARY_FRAME_TOKENS && layout.kept_tokens().saturating_add(covered_tokens) <= room {
        // A summary's frame alone would cost about as much.
        layout.keep(covered.iter().copied());
        return Vec::new();
    }
    let is_earlier = |position: &usize| {
        conversation.get(*position).is_some_and(|message| message.is_summary() && !message.is_real_user())
    };
    let mut depths = Depths { services, known: HashMap::new() };
    let earlier: Vec<Earlier> = covered
        .iter()
        .filter(|position| is_earlier(position))
        .map(|&position| Earlier {
            position,
            depth: depths.of(conversation, position),
            tokens: cost(&position),
            is_pending: conversation.get(position).is_some_and(|message| is_pending(&message)),
        })
        .collect();
    // Units that hold no earlier summary; a summary that a faulty history ties to other messages goes with them.
    let raw: Vec<Range<usize>> = units
        .iter()
        .filter(|unit| !(layout.is_kept(unit.start) || unit.len() == 1 && is_earlier(&unit.start)))
        .cloned()
        .collect();
    let is_raw = |position: usize| {
        let index = raw.partition_point(|unit| unit.end <= position);
        raw.get(index).is_some_and(|unit| unit.contains(&position))
    };
    let earlier: Vec<Earlier> = earlier.into_iter().filter(|entry| !is_raw(entry.position)).collect();
    let raw_tokens: u64 = raw.iter().flat_map(|unit| unit.clone()).map(|position| cost(&position)).sum();
    let kept = layout.kept_tokens();
    let summary_room = room.saturating_sub(kept);

    // With few completions allowed, few and larger leaves serve better than many that no model writes.
    let share = raw_tokens.checked_div(u64::from(completions_max)).map_or(0, |tokens| tokens + 1);
    let chunk_tokens = ground.chunk_tokens.max(share);
    let earlier_tokens: u64 = earlier.iter().map(|entry| entry.tokens).sum();
    let fine = Grain {
        chunk_tokens,
        fan_in: (settings.leaf_fan_in, settings.condensed_fan_in),
        is_all_condensed: ground.is_rotation || earlier_tokens > summary_room / EARLIER_PART,
        pending_max: usize::try_from(completions_max).unwrap_or(usize::MAX),
    };
    let leaves_max = (summary_room / 2 / (SUMMARY_TOKENS_MIN + SUMMARY_FRAME_TOKENS)).max(1);
    let coarse = Grain { chunk_tokens: chunk_tokens.max(raw_tokens / leaves_max + 1), is_all_condensed: true, ..fine };
    for grain in [fine, coarse] {
        let mut list = grain.drafts(conversation, &raw, &earlier);
        let drafted: HashSet<usize> = list.iter().flat_map(|draft| draft.positions.iter().copied()).collect();
        let untouched: Vec<usize> =
            earlier.iter().map(|entry| entry.position).filter(|position| !drafted.contains(position)).collect();
        let untouched_tokens: u64 = untouched.iter().map(cost).sum();
        let frames = SUMMARY_FRAME_TOKENS.saturating_mul(list.len() as u64);
        let left = summary_room.saturating_sub(untouched_tokens).saturating_sub(frames);
        let cap = level(&list.iter().map(|draft| draft.tokens_max).collect::<Vec<_>>(), left);
        if list.len() <= SUMMARIES_MAX && cap >= SUMMARY_TOKENS_MIN {
            list.iter_mut().for_each(|draft| draft.tokens_max = draft.tokens_max.min(cap));
            layout.keep(untouched);
            return list;
        }
    }
    // One summary for everything, as long as what is left, or a few words where nothing is.
    let tokens = covered_tokens;
    if covered.is_empty() {
        return Vec::new();
    }
    let left = summary_room.saturating_sub(SUMMARY_FRAME_TOKENS);
    let least = if left < (tokens / LEAF_PART).min(room / RESERVE_PART) / 2 { SUMMARY_TOKENS_MIN } else { 0 };
    vec![Draft {
        positions: covered.to_vec(),
        source_tokens: tokens,
        kind: if earlier.is_empty() { SummaryKind::Leaf } else { SummaryKind::Condensed },
        depth: earlier.iter().map(|entry| entry.depth.saturating_add(1)).max().unwrap_or(0),
        tokens_max: left.max(least).min(leaf_tokens(tokens).max(SUMMARY_TOKENS_MIN)),
        is_again: false,
    }]
}

/// How coarse the tree is made.
#[derive(Clone, Copy)]
struct Grain {
    chunk_tokens: u64,
    /// Of leaves, and of deeper summaries.
    fan_in: (usize, usize),
    is_all_condensed: bool,
    /// Summaries that no model has written and that are written again, with the completions that are left over.
    pending_max: usize,
}

impl Grain {
    /// Returns the summaries in the order of their first message.
    fn drafts(&self, conversation: &Conversation<'_>, raw: &[Range<usize>], earlier: &[Earlier]) -> Vec<Draft> {
        let mut list: Vec<Draft> = self.groups(earlier).into_iter().map(condensed).collect();
        let cost = |position: &usize| conversation.get(*position).map_or(0, |message| message.tokens());
        let mut chunk: Vec<usize> = Vec::new();
        let mut chunk_tokens = 0u64;
        let mut leaves: Vec<Draft> = Vec::new();
        for unit in raw {
            let tokens: u64 = unit.clone().map(|position| cost(&position)).sum();
            // A stretch too small for a leaf goes with its neighbour, however large that is.
            if chunk_tokens >= self.chunk_tokens / 4 && !chunk.is_empty() && chunk_tokens + tokens > self.chunk_tokens {
                leaves.push(leaf(std::mem::take(&mut chunk), chunk_tokens));
                chunk_tokens = 0;
            }
            chunk.extend(unit.clone());
            chunk_tokens += tokens;
        }
        if !chunk.is_empty() {
            // A small rest would cost a frame and say little.
            match leaves.last_mut().filter(|_| chunk_tokens < self.chunk_tokens / 4) {
                Some(last) => {
                    let mut positions = std::mem::take(&mut last.positions);
                    positions.extend(chunk);
                    *last = leaf(positions, last.source_tokens + chunk_tokens);
                }
                None => leaves.push(leaf(chunk, chunk_tokens)),
            }
        }
        list.extend(leaves);
        let taken: HashSet<usize> = list.iter().flat_map(|draft| draft.positions.iter().copied()).collect();
        let mut pending: Vec<&Earlier> =
            earlier.iter().filter(|entry| entry.is_pending && !taken.contains(&entry.position)).collect();
        pending.sort_by_key(|entry| (std::cmp::Reverse(entry.tokens), entry.position));
        list.extend(pending.into_iter().take(self.pending_max.saturating_sub(list.len())).map(again));
        list.sort_by_key(|draft| draft.positions.first().copied());
        list
    }

    /// Neighbouring earlier summaries of equal depth, as many as make a group; or all of them.
    fn groups<'e>(&self, earlier: &'e [Earlier]) -> Vec<&'e [Earlier]> {
        if self.is_all_condensed {
            // One short summary would not become shorter.
            let is_short = earlier.len() == 1 && earlier.iter().all(|entry| entry.tokens <= CONDENSED_TOKENS.0);
            return if earlier.is_empty() || is_short { Vec::new() } else { vec![earlier] };
        }
        let fan_in = |run: &&[Earlier]| match run.first() {
            Some(first) if first.depth == 0 => self.fan_in.0,
            _ => self.fan_in.1,
        };
        earlier.chunk_by(|a, b| a.depth == b.depth).filter(|run| run.len() >= fan_in(run)).collect()
    }
}

fn leaf_tokens(source_tokens: u64) -> u64 {
    (source_tokens / LEAF_PART).max(SUMMARY_TOKENS_MIN).min(LEAF_TOKENS_MAX.max(source_tokens / 20)).min(source_tokens)
}

fn leaf(positions: Vec<usize>, source_tokens: u64) -> Draft {
    let tokens_max = leaf_tokens(source_tokens);
    Draft { positions, source_tokens, kind: SummaryKind::Leaf, depth: 0, tokens_max, is_again: false }
}

fn condensed(group: &[Earlier]) -> Draft {
    let source_tokens: u64 = group.iter().map(|entry| entry.tokens).sum();
    let wanted = source_tokens / CONDENSED_SHARE.1 * CONDENSED_SHARE.0;
    Draft {
        positions: group.iter().map(|entry| entry.position).collect(),
        source_tokens,
        kind: SummaryKind::Condensed,
        depth: group.iter().map(|entry| entry.depth).max().unwrap_or(0).saturating_add(1),
        tokens_max: wanted.clamp(CONDENSED_TOKENS.0, CONDENSED_TOKENS.1).min(source_tokens),
        is_again: false,
    }
}

/// A summary that no model has written, to be written again from its messages.
fn again(entry: &Earlier) -> Draft {
    Draft {
        positions: vec![entry.position],
        source_tokens: entry.tokens,
        kind: SummaryKind::Condensed,
        depth: entry.depth.saturating_add(1),
        tokens_max: entry.tokens,
        is_again: true,
    }
}

/// Depths of summaries, asked once each.
struct Depths<'h> {
    services: &'h dyn HostServices,
    known: HashMap<NodeId, u32>,
}

impl Depths<'_> {
    fn of(&mut self, conversation: &Conversation<'_>, position: usize) -> u32 {
        let Some(node) = conversation.get(position).and_then(|message| message.node()) else { return 0 };
        if let Some(depth) = self.known.get(&node) {
            return *depth;
        }
        if self.known.len() >= DEPTHS_MAX {
            return 0;
        }
        let reply = self.services.recall(&RecallRequest::describe(node)).ok();
        let depth = reply.and_then(|reply| reply.node.get("depth").and_then(json::Value::as_u64)).unwrap_or(0);
        let depth = u32::try_from(depth).unwrap_or(u32::MAX - 1);
        self.known.insert(node, depth);
        depth
    }
}
