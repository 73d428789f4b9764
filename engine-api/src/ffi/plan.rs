//! Plans across the boundary: the safe form on each side, numbers and texts between.

use super::{RawPlan, RawSpan, RawStep};
use crate::message::{NodeId, Role};
use crate::plan::{CompactionPlan, InsertKind, PlanReport, Span, Step, SummaryKind, SummaryStep};
use crate::EngineError;
use abi_stable::std_types::{RString, RVec};

const KEEP: u32 = 0;
const REWRITE: u32 = 1;
const SUMMARY: u32 = 2;
const INSERT: u32 = 3;
const DROP: u32 = 4;

/// `first` of an insert that replays no message.
const NO_MESSAGE: u64 = u64::MAX;

fn step(op: u32) -> RawStep {
    RawStep {
        op,
        kind: 0,
        role: 0,
        part: 0,
        depth: 0,
        r0: 0,
        first: 0,
        last: 0,
        text: RString::new(),
        reason: RString::new(),
        covers: RVec::new(),
        nodes: RVec::new(),
    }
}

impl From<CompactionPlan> for RawPlan {
    fn from(plan: CompactionPlan) -> Self {
        let steps = plan.steps.into_iter().map(|one| match one {
            Step::Keep(span) => RawStep { first: span.first as u64, last: span.last as u64, ..step(KEEP) },
            Step::Rewrite { message, part, text } => RawStep {
                first: message as u64,
                part: part.min(u32::MAX as usize) as u32,
                text: text.into(),
                ..step(REWRITE)
            },
            Step::Summary(summary) => RawStep {
                kind: summary.kind.code(),
                depth: summary.depth,
                text: summary.text.into(),
                covers: summary
                    .covers
                    .into_iter()
                    .map(|span| RawSpan { first: span.first as u64, last: span.last as u64 })
                    .collect(),
                nodes: summary.nodes.into_iter().map(|node| node.0).collect(),
                ..step(SUMMARY)
            },
            Step::Insert { role, kind, message, text } => RawStep {
                role: role.code(),
                kind: kind.code(),
                first: message.map_or(NO_MESSAGE, |position| position as u64),
                text: text.into(),
                ..step(INSERT)
            },
            Step::Drop { span, reason } => {
                RawStep { first: span.first as u64, last: span.last as u64, reason: reason.into(), ..step(DROP) }
            }
        });
        RawPlan {
            base_revision: plan.base_revision,
            steps: steps.collect(),
            report: serde_json::to_string(&plan.report).unwrap_or_default().into(),
        }
    }
}

impl RawPlan {
    /// Reads a plan from the other side. Positions are not checked here: the host does that against the conversation.
    pub fn into_plan(self) -> Result<CompactionPlan, EngineError> {
        let mut steps = Vec::with_capacity(self.steps.len());
        for one in self.steps.into_iter() {
            let span = Span { first: position(one.first), last: position(one.last) };
            steps.push(match one.op {
                KEEP => Step::Keep(span),
                REWRITE => Step::Rewrite { message: span.first, part: one.part as usize, text: one.text.into_string() },
                SUMMARY => Step::Summary(SummaryStep {
                    text: one.text.into_string(),
                    covers: one
                        .covers
                        .into_iter()
                        .map(|span| Span { first: position(span.first), last: position(span.last) })
                        .collect(),
                    nodes: one.nodes.into_iter().map(NodeId).collect(),
                    depth: one.depth,
                    kind: SummaryKind::from_code(one.kind),
                }),
                INSERT => Step::Insert {
                    role: Role::from_code(one.role),
                    kind: InsertKind::from_code(one.kind),
                    message: if one.first == NO_MESSAGE { None } else { Some(span.first) },
                    text: one.text.into_string(),
                },
                DROP => Step::Drop { span, reason: one.reason.into_string() },
                other => {
                    return Err(EngineError::internal(format!(
                        "the plan has a step of kind {}, which engine API {} does not know",
                        other,
                        crate::API_VERSION
                    )))
                }
            });
        }
        let report = serde_json::from_str::<PlanReport>(self.report.as_str()).unwrap_or_default();
        Ok(CompactionPlan { base_revision: self.base_revision, steps, report })
    }
}

fn position(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
