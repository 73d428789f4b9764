//! Judges a repaired draft: what passes becomes a [`Context`], the list that the model will see.

use crate::apply::Rejection;
use crate::draft::{Draft, Entry, Origin, Outcome};
use crate::grammar::{self, Fault};
use crate::session::{Node, Session};
use crate::words;
use engine_api::{Dialect, Flags, Message, NodeId};
use std::collections::HashSet;

/// A conversation that was judged and may be sent. Only [`judge`] makes one.
#[derive(Debug, Clone)]
pub struct Context {
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    outcomes: Vec<Outcome>,
    repairs: Vec<String>,
    tokens: u64,
}

impl Context {
    /// Returns the messages, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
    /// Returns the summary nodes that it adds.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
    /// Returns what became of each message of the conversation, by position.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }
    /// Returns what the host mended.
    pub fn repairs(&self) -> &[String] {
        &self.repairs
    }
    /// Returns the tokens of the whole request, overhead included.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }
    pub(crate) fn into_parts(self) -> (Vec<Entry>, Vec<Node>) {
        (self.entries, self.nodes)
    }
    /// Gives the draft back, for a further step of the ladder.
    pub(crate) fn into_draft(self) -> Draft {
        Draft { entries: self.entries, nodes: self.nodes, outcomes: self.outcomes, repairs: self.repairs }
    }
}

/// Judges a draft that was repaired.
pub fn judge(session: &Session, draft: Draft) -> Result<Context, Rejection> {
    if draft.entries.is_empty() {
        return Err(Rejection::Empty);
    }
    check_bytes(session, &draft)?;
    check_stays(session, &draft)?;
    check_order(&draft)?;
    check_lineage(&draft)?;
    check_legal(session, &draft)?;
    let tokens = session.overhead_tokens + draft.tokens();
    let before = session.tokens();
    if tokens >= before {
        return Err(Rejection::NotSmaller { before, after: tokens });
    }
    Ok(Context { entries: draft.entries, nodes: draft.nodes, outcomes: draft.outcomes, repairs: draft.repairs, tokens })
}

/// What is called kept is byte for byte what came.
fn check_bytes(session: &Session, draft: &Draft) -> Result<(), Rejection> {
    for entry in draft.entries.iter().filter(|entry| entry.origin.is_kept()) {
        let came = entry.origin.source().and_then(|at| session.view.get(at));
        if came.is_none_or(|came| came.raw != entry.message.raw) {
            return Err(Rejection::Illegal(format!("message {} was altered", entry.message.id.0)));
        }
    }
    Ok(())
}

/// Pinned messages and the user's newest are there, byte for byte.
fn check_stays(session: &Session, draft: &Draft) -> Result<(), Rejection> {
    let kept: HashSet<usize> =
        draft.entries.iter().filter(|entry| entry.origin.is_kept()).filter_map(|entry| entry.origin.source()).collect();
    // A message whose results had to move is edited, but the user's words in it are the same bytes.
    let edited: HashSet<usize> = draft
        .entries
        .iter()
        .filter_map(|entry| match entry.origin {
            Origin::Edited(position) => Some(position),
            _ => None,
        })
        .collect();
    let newest = words::newest_user(&session.view);
    for (position, message) in session.view.iter().enumerate() {
        if kept.contains(&position) || edited.contains(&position) {
            continue;
        }
        if message.flags.has(Flags::PINNED) {
            return Err(Rejection::PinLost(message.id));
        }
        if newest == Some(position) {
            return Err(Rejection::UserMessageLost(message.id));
        }
    }
    Ok(())
}

/// No message of the conversation stands twice.
fn check_order(draft: &Draft) -> Result<(), Rejection> {
    let mut seen = HashSet::new();
    for entry in &draft.entries {
        let (Origin::Kept(at) | Origin::Edited(at)) = entry.origin else { continue };
        if !seen.insert(at) {
            return Err(Rejection::Twice(entry.message.id));
        }
    }
    Ok(())
}

/// No summary is live together with one that covers it.
fn check_lineage(draft: &Draft) -> Result<(), Rejection> {
    let covered: HashSet<NodeId> = draft.nodes.iter().flat_map(|node| node.nodes.iter().copied()).collect();
    let mut live = HashSet::new();
    for node in draft.entries.iter().map(|entry| entry.message.node).filter(|node| *node != NodeId(0)) {
        if covered.contains(&node) {
            return Err(Rejection::BadNode { node, why: "is superseded and stays in the context" });
        }
        if !live.insert(node) {
            return Err(Rejection::BadNode { node, why: "stands in the context twice" });
        }
    }
    Ok(())
}

/// Nothing that a provider refuses, but what the client itself had sent and the host does not mend.
fn check_legal(session: &Session, draft: &Draft) -> Result<(), Rejection> {
    let faults = faults_of(session.dialect, draft.entries.iter().map(|entry| entry.message.as_ref()));
    let inherited = |fault: &Fault| {
        fault
            .position
            .and_then(|at| draft.entries.get(at))
            .is_some_and(|entry| entry.origin.source().is_some() && !fault.kind.is_mended())
    };
    match faults.into_iter().find(|fault| !inherited(fault)) {
        None => Ok(()),
        Some(fault) => Err(Rejection::Illegal(format!(
            "{:?} at message {} of the result {}",
            fault.kind,
            fault.position.map_or(0, |at| at + 1),
            fault.detail
        ))),
    }
}

fn faults_of<'m>(dialect: Dialect, messages: impl Iterator<Item = &'m Message>) -> Vec<Fault> {
    grammar::check(dialect, &messages.collect::<Vec<_>>())
}
