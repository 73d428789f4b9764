//! Whole compactions over hand-made and random conversations.

mod cases;
mod life;
mod property;
pub(crate) mod store;

use super::*;
use engine_api::testing::{FakeHost, assistant, calls, result, system, user};
use engine_api::{CompactionPlan, CompressRequest, Message, PlanResult, Step, SummaryKind, SummaryStep, ViewTable};
use engine_kit::testing::{Verdict, count, judge, numbered, session, tool_rounds};

fn request(target_tokens: u64) -> CompressRequest {
    let mut request = CompressRequest::default();
    request.target_tokens = target_tokens;
    request.model.tail_budget_tokens = target_tokens / 5;
    request
}

fn plan_with(host: &FakeHost, messages: &[Message], request: &CompressRequest) -> Result<CompactionPlan, EngineError> {
    let table = ViewTable::new(7, messages);
    let engine = new(&json::Value::Null).unwrap();
    let mut session = engine.open_session(host, &SessionStart::default()).unwrap();
    session.compress(host, &table.conversation(), request)
}

fn judged(messages: &[Message], plan: &CompactionPlan) -> Verdict {
    let table = ViewTable::new(7, messages);
    let picture = engine_kit::picture::plan_picture(plan);
    judge(&table.conversation(), plan, &count).unwrap_or_else(|fault| panic!("{fault}: {picture:.2000}"))
}

/// Compacts and judges; panics if the plan is faulty or misses the target.
fn compact(messages: &[Message], target_tokens: u64) -> (CompactionPlan, Verdict) {
    let plan = plan_with(&FakeHost::default(), messages, &request(target_tokens)).unwrap();
    let verdict = judged(messages, &plan);
    assert!(verdict.tokens_after < target_tokens, "{} of {target_tokens}", verdict.tokens_after);
    (plan, verdict)
}

fn summaries(plan: &CompactionPlan) -> Vec<&SummaryStep> {
    let mut list = Vec::new();
    for step in &plan.steps {
        if let Step::Summary(summary) = step {
            list.push(summary);
        }
    }
    list
}

fn kinds(plan: &CompactionPlan) -> Vec<(SummaryKind, u32)> {
    summaries(plan).iter().map(|summary| (summary.kind, summary.depth)).collect()
}
