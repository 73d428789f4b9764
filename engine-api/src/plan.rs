//! What an engine proposes: a short list of steps over the messages it was shown.
//!
//! Positions count from 0 in the [`Conversation`](crate::Conversation) that was passed in. Every message must be
//! kept, covered by a summary or dropped with a reason; what is kept leaves byte for byte as it came. The host
//! applies the plan, chooses wire roles, repairs call/result pairs, counts again, and refuses what breaks a promise.

use crate::message::{coded_enum, NodeId, Role};
use serde::{Deserialize, Serialize};

/// A run of neighbouring messages, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Position of the first message.
    pub first: usize,
    /// Position of the last message.
    pub last: usize,
}

impl Span {
    /// Makes the span of a half-open range; `None` if it is empty.
    pub fn of(range: std::ops::Range<usize>) -> Option<Span> {
        if range.start < range.end {
            Some(Span { first: range.start, last: range.end - 1 })
        } else {
            None
        }
    }
    /// Returns the positions of the span.
    pub fn positions(self) -> std::ops::RangeInclusive<usize> {
        self.first..=self.last
    }
}

coded_enum! {
    /// What a summary is.
    SummaryKind, unknown = Leaf {
        /// It stands for messages.
        Leaf = 0 / "leaf",
        /// It stands for other summaries (and perhaps messages).
        Condensed = 1 / "condensed",
        /// It continues an earlier summary of the same conversation and replaces it.
        Iterative = 2 / "iterative",
    }
}

/// Text that stands for messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryStep {
    /// The summary, without any framing: the host adds the lead-in and the end mark.
    pub text: String,
    /// The messages it stands for (a message that is itself a summary stands for its node).
    pub covers: Vec<Span>,
    /// Nodes it stands for that are not in the conversation any more.
    pub nodes: Vec<NodeId>,
    /// 0 for a summary of messages, one more than the deepest summary it covers otherwise.
    pub depth: u32,
    /// What it is.
    pub kind: SummaryKind,
}

coded_enum! {
    /// Why an engine adds a message of its own.
    InsertKind, unknown = Note {
        /// Leads over from a summary to what follows.
        LeadIn = 0 / "lead_in",
        /// Restores something the compaction took away: a file read again, a task list.
        Restored = 1 / "restored",
        /// Says the message at `message` again.
        Replay = 2 / "replay",
        /// Anything else.
        Note = 3 / "note",
    }
}

/// One step of a plan. Steps stand in the order of the new context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Step {
    /// Keeps these messages as they are, but for the plan's rewrites.
    Keep(Span),
    /// Gives a part of a kept message another text: a shortened tool result or shortened arguments.
    /// Only tool results and tool calls can be rewritten; the host appends how to get the whole text back.
    Rewrite {
        /// Position of the message, which must be kept.
        message: usize,
        /// Position of the part in the message.
        part: usize,
        /// The new text.
        text: String,
    },
    /// Puts a summary here.
    Summary(SummaryStep),
    /// Puts a message of the engine's own here. It is marked synthetic and never counts as the user's words.
    Insert {
        /// In whose name; the host may choose another where the dialect asks for it.
        role: Role,
        /// Why.
        kind: InsertKind,
        /// For a replay: the position of the message that is said again.
        message: Option<usize>,
        /// The text; empty for a replay.
        text: String,
    },
    /// Leaves these messages out of the context. They stay in the transcript.
    Drop {
        /// Which.
        span: Span,
        /// Why, for the receipt. It must not be empty.
        reason: String,
    },
}

/// What an engine says about how it made a plan. Hosts show it; they do not take it on trust.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PlanReport {
    /// Completions asked for.
    pub completions: u32,
    /// Why a simpler way was taken; empty if none was.
    pub fallback: String,
    /// Remarks, one line each.
    pub notes: Vec<String>,
}

/// An engine's proposal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CompactionPlan {
    /// The revision of the conversation that the positions speak of.
    pub base_revision: u64,
    /// The steps, in the order of the new context.
    pub steps: Vec<Step>,
    /// How it was made.
    pub report: PlanReport,
}

impl CompactionPlan {
    /// Makes an empty plan over the conversation of this revision.
    pub fn new(base_revision: u64) -> Self {
        CompactionPlan { base_revision, ..CompactionPlan::default() }
    }
    /// Keeps a range of messages; an empty range adds nothing.
    pub fn keep(&mut self, range: std::ops::Range<usize>) -> &mut Self {
        if let Some(span) = Span::of(range) {
            self.steps.push(Step::Keep(span));
        }
        self
    }
    /// Drops a range of messages with a reason; an empty range adds nothing.
    pub fn drop_range(&mut self, range: std::ops::Range<usize>, reason: impl Into<String>) -> &mut Self {
        if let Some(span) = Span::of(range) {
            self.steps.push(Step::Drop { span, reason: reason.into() });
        }
        self
    }
    /// Puts a leaf summary of a range of messages; an empty range adds nothing.
    pub fn summarise(&mut self, range: std::ops::Range<usize>, text: impl Into<String>) -> &mut Self {
        if let Some(span) = Span::of(range) {
            self.steps.push(Step::Summary(SummaryStep {
                text: text.into(),
                covers: vec![span],
                nodes: Vec::new(),
                depth: 0,
                kind: SummaryKind::Leaf,
            }));
        }
        self
    }
    /// Gives a part of a kept message another text.
    pub fn rewrite(&mut self, message: usize, part: usize, text: impl Into<String>) -> &mut Self {
        self.steps.push(Step::Rewrite { message, part, text: text.into() });
        self
    }
}
