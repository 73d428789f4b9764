//! Takes over the summaries of another program's store: they are nodes here, and stand in the view for their messages.

use crate::scribe::WireScribe;
use engine_api::{Flags, MessageId, NodeId, Role};
use host_core::{Scribe, frame};
use host_store::{Commit, Item, NewNode, Store, StoreError};
use host_tokens::Counter;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Stores summaries of a session whose messages are stored already, children before their parents, and shows those that
/// no other stands for in place of their messages. Ids are given here; `nodes` of each are positions in the list.
/// Returns how many were taken over: a session that has summaries of its own takes none.
///
/// # Errors
/// [`StoreError::Invalid`] for a summary of messages that the session does not have, and those of the store.
pub fn adopt(store: &Store, session: i64, summaries: Vec<Adopted>) -> Result<usize, StoreError> {
    let loaded = store.load(session, 0)?;
    if summaries.is_empty() || !loaded.nodes.is_empty() {
        return Ok(0);
    }
    let scribe = WireScribe::new(loaded.session.dialect, Arc::new(Counter::estimating()));
    let on_path: HashSet<MessageId> = loaded.messages.iter().map(|row| row.id).collect();
    let mut covered: Vec<Vec<MessageId>> = Vec::with_capacity(summaries.len());
    let mut nodes: Vec<NewNode> = Vec::with_capacity(summaries.len());
    let mut is_child = vec![false; summaries.len()];
    let id_of = |at: usize| NodeId(loaded.next_node.0.saturating_add(at as u64));
    for (at, summary) in summaries.into_iter().enumerate() {
        let children: Vec<usize> = summary.nodes.iter().copied().filter(|child| *child < at).collect();
        let mut below: Vec<MessageId> = summary.messages.iter().copied().filter(|id| on_path.contains(id)).collect();
        let messages = below.clone();
        for child in &children {
            below.extend(covered.get(*child).into_iter().flatten());
            if let Some(slot) = is_child.get_mut(*child) {
                *slot = true;
            }
        }
        below.sort_unstable();
        below.dedup();
        covered.push(below);
        let tokens = scribe.count(&summary.text);
        nodes.push(NewNode {
            id: id_of(at),
            depth: summary.depth,
            kind: if children.is_empty() { engine_api::SummaryKind::Leaf } else { engine_api::SummaryKind::Condensed },
            text: summary.text,
            messages,
            nodes: children.into_iter().map(id_of).collect(),
            tokens,
            source_tokens: 0,
            model: summary.model,
        });
    }
    // Later summaries win where two stand for one message: they are the ones that the other program showed last.
    let mut shown_for: HashMap<MessageId, usize> = HashMap::new();
    for (at, messages) in covered.iter().enumerate().filter(|(at, _)| !is_child.get(*at).copied().unwrap_or(true)) {
        shown_for.extend(messages.iter().map(|id| (*id, at)));
    }
    let mut items = Vec::new();
    let mut shown: HashSet<usize> = HashSet::new();
    for row in &loaded.messages {
        let Some(&at) = shown_for.get(&row.id) else {
            items.push(Item::Kept(row.id));
            continue;
        };
        if !shown.insert(at) {
            continue;
        }
        let (Some(node), Some(below)) = (nodes.get(at), covered.get(at)) else { continue };
        let text = frame::summary(node.id, below.len(), &node.text);
        let message = scribe.text(Role::User, &text).map_err(StoreError::Invalid)?;
        items.push(Item::Written {
            raw: message.raw,
            role: message.role,
            flags: Flags::SYNTHETIC.with(Flags::SUMMARY),
            node: node.id,
            stands_for: None,
            demoted: Vec::new(),
        });
    }
    let taken = nodes.len();
    let lease = store.lease(session, &format!("process {}", std::process::id()))?;
    let commit = Commit {
        branch: loaded.branch,
        view: loaded.view,
        upto: loaded.upto,
        items,
        nodes,
        receipt: serde_json::json!({ "action": "adopted", "summaries": taken }).to_string(),
        ..Commit::default()
    };
    store.commit(&lease, commit)?;
    Ok(taken)
}

/// A summary of another program's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// 0 for a summary of messages, more for a summary of summaries.
    pub depth: u32,
    /// The summary.
    pub text: String,
    /// The messages it was made from, as the store has them.
    pub messages: Vec<MessageId>,
    /// The summaries it was made from, as positions in the list.
    pub nodes: Vec<usize>,
    /// Who wrote it.
    pub model: String,
}
