//! Which nodes belong together: the main way, the other branches, the subagents.

use super::emit::{Wanted, emit};
use super::{BlockKind, NodeKind, Session};
use crate::problems::Problems;
use crate::{Context, Conversation, Kind};
use std::collections::{HashMap, HashSet};

/// Most branches, and most subagents, of one file.
const FURTHER_MAX: usize = 250;
/// Branches repeat what they share with the main way. All further conversations together may hold this many times the file's
/// messages, so that a file of many forks stays linear in memory.
const FURTHER_BYTES_FACTOR: usize = 4;

/// The node before each node.
struct Links {
    before: Vec<Option<usize>>,
}

pub(super) fn conversations(session: Session, context: &mut Context<'_>) -> Vec<Conversation> {
    let links = link(&session, &mut context.problems);
    let main_leaf = last_message(&session, |index| !is_side(&session, index));
    let main = main_leaf.map(|leaf| walk(&session, &links, leaf)).unwrap_or_default();

    let mut further: Vec<(Kind, String, usize)> = Vec::new();
    let branches = branches(&session, &links, &main);
    further.extend(branches.into_iter().map(|leaf| (Kind::Branch, branch_id(&session, leaf), leaf)));
    further.extend(sidechains(&session, &links).into_iter().map(|(id, leaf)| (Kind::Sidechain, id, leaf)));

    let results = results_by_call(&session);
    let groups = groups_by_message(&session);
    let is_live = context.is_live();
    let wanted = |kind: Kind, id: String, chain: &[usize], context: &mut Context<'_>| {
        let wanted = Wanted { session: &session, results: &results, groups: &groups, chain, is_live };
        emit(&wanted, kind, id, &mut context.problems)
    };
    let mut all = Vec::new();
    if !main.is_empty() {
        all.push(wanted(Kind::Main, session.session_id.clone(), &main, context));
    }
    let total: usize = session.nodes.iter().map(|node| node.content.len()).sum();
    let mut budget = total.saturating_mul(FURTHER_BYTES_FACTOR);
    let mut left_out = 0usize;
    for (kind, id, leaf) in further {
        // The ways are walked one by one: a thousand of them at once could be larger than the file.
        let chain = walk(&session, &links, leaf);
        let cost: usize =
            chain.iter().filter_map(|index| session.nodes.get(*index)).map(|node| node.content.len()).sum();
        if cost > budget {
            left_out += 1;
            continue;
        }
        budget -= cost;
        all.push(wanted(kind, id, &chain, context));
    }
    if left_out > 0 {
        context
            .problems
            .lost(None, || format!("{left_out} further branches left out: together they repeat too much of the file"));
    }
    all
}

fn is_side(session: &Session, index: usize) -> bool {
    session.nodes.get(index).is_some_and(|node| node.is_sidechain)
}

fn last_message(session: &Session, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
    (0..session.nodes.len())
        .rev()
        .find(|index| session.nodes.get(*index).is_some_and(|node| node.is_message()) && is_wanted(*index))
}

// A parent that is not in the file (a lost line, a cut beginning) is bridged to the message before it in the file.
fn link(session: &Session, problems: &mut Problems) -> Links {
    let nodes = &session.nodes;
    // Files made by hand or by converters may have no tree at all.
    let has_tree = |node: &super::Node| {
        node.kind == NodeKind::Boundary || node.parent.is_some_and(|parent| session.by_uuid.contains_key(&parent))
    };
    let is_linear = !nodes.iter().any(has_tree);
    let mut before = Vec::with_capacity(nodes.len());
    // The last message of the main conversation and of each subagent.
    let mut last_seen: HashMap<(bool, Option<u32>), usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let side = (node.is_sidechain, node.agent.filter(|_| node.is_sidechain));
        let in_order = last_seen.get(&side).copied();
        let found = |uuid: u32| session.by_uuid.get(&uuid).copied().filter(|at| *at != index);
        let same_side = |at: &usize| nodes.get(*at).is_some_and(|other| other.is_sidechain == node.is_sidechain);
        before.push(match (node.kind, node.parent) {
            (NodeKind::Boundary, _) => node.logical_parent.or(node.parent).and_then(found).or(in_order),
            (_, Some(parent)) => match found(parent) {
                Some(at) => Some(at).filter(same_side),
                None => {
                    if in_order.is_some() && node.is_message() {
                        problems.warn(Some(node.line), || {
                            "its parent is not in the file; put behind the message before it".to_owned()
                        });
                    }
                    in_order
                }
            },
            (_, None) => in_order.filter(|_| is_linear),
        });
        if node.is_message() {
            last_seen.insert(side, index);
        }
    }
    Links { before }
}

/// The way back from a leaf to its root, oldest first.
fn walk(session: &Session, links: &Links, leaf: usize) -> Vec<usize> {
    let mut seen = vec![false; session.nodes.len()];
    let mut chain = Vec::new();
    let mut at = Some(leaf);
    while let Some(index) = at {
        // Parents can form a ring in a damaged file.
        match seen.get_mut(index) {
            Some(seen) if !*seen => *seen = true,
            _ => break,
        }
        chain.push(index);
        at = links.before.get(index).copied().flatten();
    }
    chain.reverse();
    chain
}

fn branch_id(session: &Session, leaf: usize) -> String {
    let line = session.nodes.get(leaf).map_or(0, |node| node.line);
    format!("{}/branch-{line}", session.session_id)
}

// Leaves off the main way that hold a message the main way has not gathered; newest first.
fn branches(session: &Session, links: &Links, main: &[usize]) -> Vec<usize> {
    let nodes = &session.nodes;
    let mut has_child = vec![false; nodes.len()];
    for before in links.before.iter().flatten() {
        if let Some(place) = has_child.get_mut(*before) {
            *place = true;
        }
    }
    let mut visited = vec![false; nodes.len()];
    let mut known_messages: HashSet<u32> = HashSet::new();
    let mut known_calls: HashSet<&str> = HashSet::new();
    let mut gather = |chain: &[usize], visited: &mut Vec<bool>| -> bool {
        let mut has_news = false;
        for index in chain {
            let Some(node) = nodes.get(*index) else { continue };
            let was_seen = visited.get_mut(*index).is_none_or(|seen| std::mem::replace(seen, true));
            let is_gathered = match node.kind {
                NodeKind::Assistant => {
                    node.is_synthetic || node.message_id.is_some_and(|id| known_messages.contains(&id))
                }
                NodeKind::User => {
                    !node.blocks.is_empty()
                        && node
                            .blocks
                            .iter()
                            .all(|b| b.kind == BlockKind::ToolResult && known_calls.contains(b.id.as_str()))
                }
                NodeKind::Boundary | NodeKind::Link => true,
            };
            has_news |= !was_seen && !is_gathered;
            if node.kind == NodeKind::Assistant {
                known_messages.extend(node.message_id);
                known_calls.extend(node.blocks.iter().filter(|b| b.kind == BlockKind::ToolUse).map(|b| b.id.as_str()));
            }
        }
        has_news
    };
    gather(main, &mut visited);
    let mut found = Vec::new();
    for leaf in (0..nodes.len()).rev() {
        if has_child.get(leaf).copied().unwrap_or(true) || is_side(session, leaf) {
            continue;
        }
        let mut fresh = Vec::new();
        let mut at = Some(leaf);
        while let Some(index) = at.filter(|index| visited.get(*index) == Some(&false) && fresh.len() <= nodes.len()) {
            fresh.push(index);
            at = links.before.get(index).copied().flatten();
        }
        fresh.reverse();
        if gather(&fresh, &mut visited)
            && let Some(last) =
                fresh.iter().rev().copied().find(|index| nodes.get(*index).is_some_and(|node| node.is_message()))
        {
            found.push(last);
        }
    }
    found.truncate(FURTHER_MAX);
    found
}

// One conversation a subagent: by its name, or by the root its lines hang on.
fn sidechains(session: &Session, links: &Links) -> Vec<(String, usize)> {
    let nodes = &session.nodes;
    let mut root: Vec<usize> = Vec::with_capacity(nodes.len());
    let mut order: Vec<(Option<u32>, usize)> = Vec::new();
    let mut last: HashMap<(Option<u32>, usize), usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let own =
            links.before.get(index).copied().flatten().and_then(|before| root.get(before).copied()).unwrap_or(index);
        root.push(own);
        if !node.is_sidechain || !node.is_message() {
            continue;
        }
        let key = (node.agent, if node.agent.is_some() { 0 } else { own });
        if last.insert(key, index).is_none() {
            order.push(key);
        }
    }
    let name = |key: &(Option<u32>, usize), leaf: usize| match key.0.and_then(|agent| session.agent_names.get(&agent)) {
        Some(agent) => format!("agent-{agent}"),
        None => format!("{}/sidechain-{}", session.session_id, nodes.get(leaf).map_or(0, |node| node.line)),
    };
    let leaves = order.iter().filter_map(|key| last.get(key).map(|leaf| (key, *leaf))).take(FURTHER_MAX);
    leaves.map(|(key, leaf)| (name(key, leaf), leaf)).collect()
}

/// Where the results of a call stand: (node, block), in file order.
pub(super) type Results<'s> = HashMap<&'s str, Vec<(usize, usize)>>;

fn results_by_call(session: &Session) -> Results<'_> {
    let mut results: Results<'_> = HashMap::new();
    for (index, node) in session.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::User) {
        for (position, block) in node.blocks.iter().enumerate().filter(|(_, block)| block.kind == BlockKind::ToolResult)
        {
            results.entry(block.id.as_str()).or_default().push((index, position));
        }
    }
    results
}

/// The lines of one model message, in file order.
pub(super) type Groups = HashMap<(u32, bool, Option<u32>), Vec<usize>>;

fn groups_by_message(session: &Session) -> Groups {
    let mut groups: Groups = HashMap::new();
    for (index, node) in session.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Assistant) {
        if let Some(id) = node.message_id {
            groups.entry((id, node.is_sidechain, node.agent)).or_default().push(index);
        }
    }
    groups
}
