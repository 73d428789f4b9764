//! The receipt of a compaction: what was decided on which numbers, what was tried, what became of every message.

use crate::draft::{Entry, Origin, Outcome, Written};
use crate::ladder::{Attempt, Rung};
use crate::session::Session;
use crate::summariser::Call;
use crate::survival::Survival;
use crate::validate::Context;
use engine_api::{Basis, MessageId, NodeId, Trigger};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// What became of a run of neighbouring messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fate {
    /// The first message of the run.
    pub first: MessageId,
    /// The last message of the run.
    pub last: MessageId,
    /// Messages in the run: the ids of a stored session have gaps.
    pub messages: u64,
    /// What became of them.
    #[serde(flatten)]
    pub what: What,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum What {
    /// It is in the context, byte for byte.
    Kept,
    /// It is in the context with a part shortened or answers moved out of it.
    Rewritten,
    /// It is in the context only as answers that moved next to their calls.
    Moved,
    /// A summary stands for it.
    Summarised {
        /// The summary.
        node: NodeId,
    },
    /// It is not in the context.
    Dropped {
        /// Why.
        reason: String,
    },
}

impl What {
    /// Returns the word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            What::Kept => "kept",
            What::Rewritten => "rewritten",
            What::Moved => "moved",
            What::Summarised { .. } => "summarised",
            What::Dropped { .. } => "dropped",
        }
    }
}

/// A summary that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryLine {
    /// Its node.
    pub node: NodeId,
    /// Its depth.
    pub depth: u32,
    /// Messages it stands for, through other summaries too.
    pub messages: usize,
    /// Its tokens, framing included.
    pub tokens: u64,
}

/// A word that is known when the program is built.
type Word = &'static str;

/// Reads what was done; a receipt in a store may come from another version.
fn action<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "compacted" => Ok("compacted"),
        "unchanged" => Ok("unchanged"),
        other => Err(D::Error::custom(format!("{other:?} is no action of a receipt"))),
    }
}

/// The receipt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Receipt {
    /// The session.
    pub session: String,
    /// The session that goes on in its place, after a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_after: Option<String>,
    /// `compacted`, or `unchanged`.
    #[serde(deserialize_with = "action")]
    pub action: Word,
    /// The engine that the settings name.
    pub engine_wanted: String,
    /// The engine whose plan is in use; `host` for the host's own last steps; empty if nothing changed.
    pub engine_used: String,
    /// Where the engine comes from.
    pub engine_source: String,
    /// What brought it about.
    pub trigger: Option<Trigger>,
    /// Why, in one line.
    pub reason: String,
    /// The model.
    pub model: String,
    /// Its window.
    pub context_length: u64,
    /// Prompt tokens at which the settings ask for a compaction.
    pub threshold_tokens: u64,
    /// What the result had to end at or below.
    pub target_tokens: u64,
    /// Tokens of the request before.
    pub tokens_before: u64,
    /// Tokens of the request after.
    pub tokens_after: u64,
    /// Where these token counts come from.
    pub basis: Basis,
    /// The prompt tokens that the decision was made on.
    pub prompt_tokens: u64,
    /// Where they come from: the provider's own report is believed before any count.
    pub prompt_basis: Basis,
    /// The vocabulary they were counted with.
    pub encoding: String,
    /// Messages before.
    pub messages_before: usize,
    /// Messages after.
    pub messages_after: usize,
    /// What became of every message, in runs.
    pub fates: Vec<Fate>,
    /// The summaries made.
    pub summaries: Vec<SummaryLine>,
    /// Completions that the engine asked for.
    pub completions: u32,
    /// Which model was to write summaries and why, or why none was.
    pub summariser: String,
    /// The requests to models that this compaction caused, in order.
    pub calls: Vec<Call>,
    /// The rungs that were tried.
    pub attempts: Vec<Attempt>,
    /// The rung in use.
    pub rung: Option<Rung>,
    /// Why something simpler than asked for was done, one line each.
    pub fallbacks: Vec<String>,
    /// What the host mended.
    pub repairs: Vec<String>,
    /// What the engine remarked.
    pub notes: Vec<String>,
    /// What kept the result above its target.
    pub floor: Option<String>,
    /// User messages that are neither in the context nor quoted in it.
    pub user_messages_not_quoted: usize,
    /// What of the names in the messages that went out of sight still stands in the context, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survival: Option<Survival>,
    /// Wall time, in milliseconds.
    pub elapsed_ms: u64,
}

/// Says what became of every message of the session's view.
pub fn fates(session: &Session, context: &Context) -> Vec<Fate> {
    let mut present: Vec<Option<What>> = vec![None; session.view.len()];
    for Entry { origin, .. } in context.entries() {
        let (at, what) = match origin {
            Origin::Kept(at) => (*at, What::Kept),
            Origin::Edited(at) => (*at, What::Rewritten),
            Origin::Moved(at) => (*at, What::Moved),
            Origin::Answer(_) | Origin::Written(_) => continue,
        };
        if let Some(slot) = present.get_mut(at) {
            // A message whose answers moved may still be there itself.
            if slot.is_none() || *slot == Some(What::Moved) {
                *slot = Some(what);
            }
        }
    }
    let mut fates: Vec<Fate> = Vec::new();
    for ((message, present), outcome) in session.view.iter().zip(present).zip(context.outcomes()) {
        let what = present.unwrap_or_else(|| match outcome {
            Outcome::Covered(node) => What::Summarised { node: *node },
            Outcome::Dropped(reason) => What::Dropped { reason: reason.clone() },
            Outcome::Present => What::Dropped { reason: "left out by the host".to_owned() },
        });
        match fates.last_mut() {
            Some(fate) if fate.what == what => (fate.last, fate.messages) = (message.id, fate.messages + 1),
            _ => fates.push(Fate { first: message.id, last: message.id, messages: 1, what }),
        }
    }
    fates
}

/// Lists the summaries that a context adds.
pub fn summaries(session: &Session, context: &Context) -> Vec<SummaryLine> {
    context
        .nodes()
        .iter()
        .map(|node| {
            let inner: usize = node.nodes.iter().map(|inner| session.covered(*inner).len()).sum();
            let written = context.entries().iter().find(|one| one.origin == Origin::Written(Written::Summary(node.id)));
            SummaryLine {
                node: node.id,
                depth: node.depth,
                messages: node.messages.len() + inner,
                tokens: written.map_or(0, |one| u64::from(one.message.tokens)),
            }
        })
        .collect()
}
