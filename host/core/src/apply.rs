//! Turns a plan into a draft, or says which promise it breaks.
//!
//! Nothing in a plan is taken on trust: positions, coverage, reasons, and that what must stay does stay.

use crate::draft::{Draft, Entry, Origin, Outcome, Written};
use crate::frame;
use crate::scribe::{PartChange, Scribe};
use crate::session::{Node, Session};
use crate::words;
use engine_api::{CompactionPlan, Flags, MessageId, NodeId, PartKind, Role, Span, Step, SummaryStep};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Steps of a plan at most, for each message and besides: a plan that rewrites every part of every message is legal.
const STEPS_PER_MESSAGE_MAX: usize = 64;
const STEPS_BESIDES_MAX: usize = 1_024;

/// Why a plan or a draft cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The plan speaks of another state of the conversation.
    #[error("the plan was made for revision {made_for}, the conversation is at {now}")]
    Stale {
        /// The plan's revision.
        made_for: u64,
        /// The conversation's.
        now: u64,
    },
    /// The plan is too long.
    #[error("the plan has {steps} steps, at most {most} are taken")]
    TooManySteps {
        /// Steps in the plan.
        steps: usize,
        /// The bound.
        most: usize,
    },
    /// A step names a message that is not there.
    #[error("a {step} step names message position {position}, the conversation has {length} messages")]
    OutOfRange {
        /// The step's kind.
        step: &'static str,
        /// The position.
        position: usize,
        /// The conversation's length.
        length: usize,
    },
    /// A message is named by two steps.
    #[error("message {id} is kept, summarised or dropped more than once", id = .0.0)]
    Twice(MessageId),
    /// A message is named by no step.
    #[error("{count} messages are neither kept, summarised nor dropped, the first is message {id}", id = .first.0)]
    Unaccounted {
        /// How many.
        count: usize,
        /// The first of them.
        first: MessageId,
    },
    /// Kept messages change their order.
    #[error("message {id} is kept out of order", id = .0.0)]
    OutOfOrder(MessageId),
    /// A message is dropped without a reason.
    #[error("message {id} is dropped without a reason", id = .0.0)]
    NoReason(MessageId),
    /// A summary has no text.
    #[error("a summary has no text")]
    EmptySummary,
    /// A summary stands for nothing.
    #[error("a summary covers no message")]
    CoversNothing,
    /// A summary is longer than what it stands for.
    #[error("a summary of {tokens} tokens stands for {source_tokens} tokens")]
    LongerThanSource {
        /// Tokens of the summary.
        tokens: u64,
        /// Tokens of what it covers.
        source_tokens: u64,
    },
    /// A summary covers a node that is unknown or still live.
    #[error("a summary covers node {node}, which {why}", node = .node.0)]
    BadNode {
        /// The node.
        node: NodeId,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A rewrite is not of a tool call or a tool result of a kept message.
    #[error("a rewrite of part {part} of message {id}: {why}", id = .message.0)]
    BadRewrite {
        /// The message.
        message: MessageId,
        /// The part.
        part: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Leading instructions would go.
    #[error("the instructions in message {id} would not stay", id = .0.0)]
    HeadLost(MessageId),
    /// The newest message of the user would go.
    #[error("the user's newest message, {id}, would not stay", id = .0.0)]
    UserMessageLost(MessageId),
    /// The conversation's end would go: what the model is to answer, or has just answered.
    #[error("the last message, {id}, would not stay", id = .0.0)]
    TailLost(MessageId),
    /// A pinned message would go.
    #[error("the pinned message {id} would not stay", id = .0.0)]
    PinLost(MessageId),
    /// The dialect cannot say what the plan asks for.
    #[error("the result could not be written: {0}")]
    Unwritable(String),
    /// The result would be refused by the provider.
    #[error("the provider would refuse the result: {0}")]
    Illegal(String),
    /// The result is not smaller.
    #[error("the result has {after} tokens, before there were {before}")]
    NotSmaller {
        /// Tokens before.
        before: u64,
        /// Tokens after.
        after: u64,
    },
    /// Nothing would be left.
    #[error("nothing would be left of the conversation")]
    Empty,
}

/// What the plan says of a message.
#[derive(Clone, PartialEq, Eq)]
enum Claim {
    None,
    Kept,
    Covered,
    Dropped(String),
}

/// Turns a plan into a draft.
pub fn apply(session: &Session, plan: &CompactionPlan, scribe: &dyn Scribe) -> Result<Draft, Rejection> {
    if plan.base_revision != session.revision {
        return Err(Rejection::Stale { made_for: plan.base_revision, now: session.revision });
    }
    let length = session.view.len();
    let most = length.saturating_mul(STEPS_PER_MESSAGE_MAX).saturating_add(STEPS_BESIDES_MAX);
    if plan.steps.len() > most {
        return Err(Rejection::TooManySteps { steps: plan.steps.len(), most });
    }
    let claims = claims(session, plan)?;
    check_kept(session, &claims)?;
    let rewrites = rewrites(session, plan, &claims)?;
    build(session, plan, claims, rewrites, scribe)
}

/// Reads what the plan says of each message; each must be named once.
fn claims(session: &Session, plan: &CompactionPlan) -> Result<Vec<Claim>, Rejection> {
    let length = session.view.len();
    let mut claims = vec![Claim::None; length];
    let mut claim = |step: &'static str, span: Span, what: Claim| -> Result<(), Rejection> {
        for position in [span.first, span.last] {
            if position >= length || span.first > span.last {
                return Err(Rejection::OutOfRange { step, position, length });
            }
        }
        for position in span.positions() {
            let Some(slot) = claims.get_mut(position) else { continue };
            if *slot != Claim::None {
                return Err(Rejection::Twice(id_at(session, position)));
            }
            *slot = what.clone();
        }
        Ok(())
    };
    let mut next_kept = 0usize;
    for step in &plan.steps {
        match step {
            Step::Keep(span) => {
                if span.first < next_kept {
                    return Err(Rejection::OutOfOrder(id_at(session, span.first)));
                }
                claim("keep", *span, Claim::Kept)?;
                next_kept = span.last.saturating_add(1);
            }
            Step::Summary(summary) => {
                if summary.covers.is_empty() && summary.nodes.is_empty() {
                    return Err(Rejection::CoversNothing);
                }
                for span in &summary.covers {
                    claim("summary", *span, Claim::Covered)?;
                }
            }
            Step::Drop { span, reason } => {
                if reason.trim().is_empty() {
                    return Err(Rejection::NoReason(id_at(session, span.first)));
                }
                claim("drop", *span, Claim::Dropped(reason.clone()))?;
            }
            Step::Rewrite { .. } | Step::Insert { .. } => {}
            // A step of a newer contract cannot be judged, so the plan is as good as incomplete.
            _ => return Err(Rejection::Unwritable("the plan has a step of an unknown kind".to_owned())),
        }
    }
    let missing: Vec<usize> = (0..length).filter(|at| claims.get(*at) == Some(&Claim::None)).collect();
    if let Some(first) = missing.first() {
        return Err(Rejection::Unaccounted { count: missing.len(), first: id_at(session, *first) });
    }
    Ok(claims)
}

/// Holds the plan to what must stay: leading instructions, pinned messages, the user's newest message.
fn check_kept(session: &Session, claims: &[Claim]) -> Result<(), Rejection> {
    let newest_user = words::newest_user(&session.view);
    let last = session.view.len().saturating_sub(1);
    let mut leading = true;
    for (position, message) in session.view.iter().enumerate() {
        leading = leading && matches!(message.role, Role::System | Role::Developer);
        if claims.get(position) == Some(&Claim::Kept) {
            continue;
        }
        if leading {
            return Err(Rejection::HeadLost(message.id));
        }
        if message.flags.has(Flags::PINNED) {
            return Err(Rejection::PinLost(message.id));
        }
        if newest_user == Some(position) {
            return Err(Rejection::UserMessageLost(message.id));
        }
        // Without its last message a conversation would be answered a second time, or the answer be lost.
        if position == last && !message.flags.has(Flags::SYNTHETIC) && !message.parts.is_empty() {
            return Err(Rejection::TailLost(message.id));
        }
    }
    Ok(())
}

type Rewrites = BTreeMap<usize, Vec<(usize, PartChange)>>;

fn rewrites(session: &Session, plan: &CompactionPlan, claims: &[Claim]) -> Result<Rewrites, Rejection> {
    let mut rewrites = Rewrites::new();
    let mut seen = HashSet::new();
    for step in &plan.steps {
        let Step::Rewrite { message: position, part, text } = step else { continue };
        let length = session.view.len();
        let Some(message) = session.view.get(*position) else {
            return Err(Rejection::OutOfRange { step: "rewrite", position: *position, length });
        };
        let refuse = |why| Err(Rejection::BadRewrite { message: message.id, part: *part, why });
        if claims.get(*position) != Some(&Claim::Kept) {
            return refuse("the message is not kept");
        }
        let Some(old) = message.parts.get(*part) else { return refuse("there is no such part") };
        if !seen.insert((*position, *part)) {
            return refuse("it is rewritten twice");
        }
        if message.flags.has(Flags::PINNED) {
            return refuse("the message is pinned");
        }
        let text = match old.kind {
            PartKind::ToolResult if text.trim().is_empty() => return refuse("a result needs a text"),
            PartKind::ToolResult => {
                format!(
                    "{text}{}",
                    frame::shortened(session.original(message.id), u64::from(old.tokens), session.recall_tool)
                )
            }
            PartKind::ToolCall if is_json_object(text) => text.clone(),
            PartKind::ToolCall => return refuse("arguments must be a JSON object"),
            _ => return refuse("only tool results and tool calls can be rewritten"),
        };
        rewrites.entry(*position).or_default().push((*part, PartChange::Text(text)));
    }
    Ok(rewrites)
}

fn is_json_object(text: &str) -> bool {
    matches!(serde_json::from_str::<serde_json::Value>(text), Ok(serde_json::Value::Object(_)))
}

fn build(
    session: &Session,
    plan: &CompactionPlan,
    claims: Vec<Claim>,
    mut rewrites: Rewrites,
    scribe: &dyn Scribe,
) -> Result<Draft, Rejection> {
    let mut outcomes: Vec<Outcome> = claims
        .into_iter()
        .map(|claim| match claim {
            Claim::Dropped(reason) => Outcome::Dropped(reason),
            Claim::None | Claim::Kept | Claim::Covered => Outcome::Present,
        })
        .collect();
    let mut draft = Draft { entries: Vec::new(), nodes: Vec::new(), outcomes: Vec::new(), repairs: Vec::new() };
    for step in &plan.steps {
        match step {
            Step::Keep(span) => {
                for position in span.positions() {
                    let Some(message) = session.view.get(position) else { continue };
                    let kept = Entry { origin: Origin::Kept(position), message: Arc::clone(message) };
                    let entry = match rewrites.remove(&position).map(|changes| scribe.edit(message, &changes)) {
                        None => kept,
                        Some(Ok(Some(mut edited))) => {
                            carry(message, &mut edited);
                            Entry { origin: Origin::Edited(position), message: Arc::new(edited) }
                        }
                        // Some kinds of answers have a fixed shape that no text fits. Whole, it is legal at least.
                        Some(Ok(None) | Err(_)) => {
                            draft
                                .repairs
                                .push(format!("message {}: stays whole, a rewrite does not fit it", message.id.0));
                            kept
                        }
                    };
                    draft.entries.push(entry);
                }
            }
            Step::Summary(summary) => {
                let (entry, node) = write_summary(session, summary, draft.nodes.len() as u64, scribe)?;
                for position in summary.covers.iter().flat_map(|span| span.positions()) {
                    if let Some(outcome) = outcomes.get_mut(position) {
                        *outcome = Outcome::Covered(node.id);
                    }
                }
                draft.entries.push(entry);
                draft.nodes.push(node);
            }
            Step::Insert { role, kind, message, text } => {
                let text = match message.and_then(|position| session.view.get(position)) {
                    Some(replayed) => replayed.text(),
                    None => text.clone(),
                };
                if text.trim().is_empty() {
                    continue;
                }
                // Only these two: an engine's text in the system's role would be an order of the operator's.
                let role = if *role == Role::Assistant { Role::Assistant } else { Role::User };
                let framed = frame::note(kind.as_str(), &text);
                let mut message = scribe.text(role, &framed).map_err(Rejection::Unwritable)?;
                message.flags = Flags::SYNTHETIC;
                let origin = Origin::Written(Written::Insert(*kind));
                draft.entries.push(Entry { origin, message: Arc::new(message) });
            }
            _ => {}
        }
    }
    draft.outcomes = outcomes;
    // Whatever an engine puts first, the operator's instructions come before it.
    let head = session.view.iter().take_while(|message| matches!(message.role, Role::System | Role::Developer)).count();
    draft.entries.sort_by_key(|entry| entry.origin.source().is_none_or(|position| position >= head));
    check_lineage(session, &draft)?;
    Ok(draft)
}

/// An edited message stays who it was: marks and id are the host's, not the wire's.
pub(crate) fn carry(from: &engine_api::Message, to: &mut engine_api::Message) {
    to.id = from.id;
    to.flags = from.flags;
    to.node = from.node;
    for (old, new) in from.parts.iter().zip(&mut to.parts) {
        if new.tool_name.is_empty() {
            new.tool_name.clone_from(&old.tool_name);
        }
        if old.text != new.text {
            new.flags = new.flags.with(Flags::DEMOTED);
        }
    }
}

fn write_summary(
    session: &Session,
    summary: &SummaryStep,
    nth: u64,
    scribe: &dyn Scribe,
) -> Result<(Entry, Node), Rejection> {
    if summary.text.trim().is_empty() {
        return Err(Rejection::EmptySummary);
    }
    let id = NodeId(session.first_free_node().saturating_add(nth));
    let mut node = Node {
        id,
        depth: summary.depth,
        kind: summary.kind,
        text: summary.text.clone(),
        messages: Vec::new(),
        nodes: Vec::new(),
    };
    let mut source_tokens = 0u64;
    for message in summary.covers.iter().flat_map(|span| span.positions()).filter_map(|at| session.view.get(at)) {
        source_tokens += u64::from(message.tokens);
        if message.node == NodeId(0) {
            node.messages.push(message.id);
        } else {
            node.nodes.push(message.node);
        }
    }
    for listed in &summary.nodes {
        let Some(covered) = session.node(*listed) else {
            return Err(Rejection::BadNode { node: *listed, why: "this session does not have" });
        };
        source_tokens += scribe.count(&covered.text);
        node.nodes.push(*listed);
    }
    let tokens = scribe.count(&summary.text);
    if tokens > source_tokens {
        return Err(Rejection::LongerThanSource { tokens, source_tokens });
    }
    let covered = node.messages.len() + node.nodes.iter().map(|inner| session.covered(*inner).len()).sum::<usize>();
    let framed = frame::summary(id, covered, &summary.text);
    let mut message = scribe.text(Role::User, &framed).map_err(Rejection::Unwritable)?;
    message.flags = Flags::SYNTHETIC.with(Flags::SUMMARY);
    message.node = id;
    Ok((Entry { origin: Origin::Written(Written::Summary(id)), message: Arc::new(message) }, node))
}

/// One live lineage: a node that a new summary covers must be neither live any more nor covered twice.
fn check_lineage(session: &Session, draft: &Draft) -> Result<(), Rejection> {
    let live: HashSet<NodeId> = draft
        .entries
        .iter()
        .filter(|entry| entry.origin.source().is_some())
        .map(|entry| entry.message.node)
        .filter(|node| *node != NodeId(0))
        .collect();
    let mut taken: HashSet<NodeId> = session.nodes.iter().flat_map(|node| node.nodes.iter().copied()).collect();
    for node in draft.nodes.iter().flat_map(|node| node.nodes.iter().copied()) {
        if live.contains(&node) {
            return Err(Rejection::BadNode { node, why: "stays in the context" });
        }
        if !taken.insert(node) {
            return Err(Rejection::BadNode { node, why: "another summary covers already" });
        }
    }
    Ok(())
}

fn id_at(session: &Session, position: usize) -> MessageId {
    session.view.get(position).map_or(MessageId(0), |message| message.id)
}

#[cfg(test)]
mod tests;
