//! Whole compactions over hand-made and random conversations.

mod cases;
mod fidelity;
mod moods;
mod property;

use super::*;
use engine_api::testing::{FakeHost, assistant, calls, result, system, user};
use engine_api::{
    CompactionPlan, CompressRequest, ErrorKind, Flags, Message, ModelInfo, Step, SummaryKind, SummaryStep, ViewTable,
};
use engine_kit::picture::plan_picture;
use engine_kit::testing::{Verdict, count, flagged, judge, numbered, session, tool_rounds};

fn request(target_tokens: u64) -> CompressRequest {
    let mut request = CompressRequest::default();
    request.target_tokens = target_tokens;
    request.model.threshold_tokens = target_tokens;
    request.model.context_length = target_tokens * 4 / 3;
    request.completions_max = 2;
    request
}

/// A host whose model answers these, one after the other.
fn host(answers: &[&str]) -> FakeHost {
    let host = FakeHost::default();
    host.completions.lock().unwrap().extend(answers.iter().map(|text| Ok((*text).to_string())));
    host
}

fn plan_with(
    host: &FakeHost,
    settings: &json::Value,
    messages: &[Message],
    request: &CompressRequest,
) -> Result<CompactionPlan, EngineError> {
    let table = ViewTable::new(7, messages);
    let engine = new(settings).unwrap();
    let mut session = engine.open_session(host, &SessionStart::default()).unwrap();
    session.compress(host, &table.conversation(), request)
}

fn judged(messages: &[Message], plan: &CompactionPlan) -> Verdict {
    let table = ViewTable::new(7, messages);
    judge(&table.conversation(), plan, &count).unwrap_or_else(|fault| panic!("{fault}: {:.2000}", plan_picture(plan)))
}

fn summary_of(plan: &CompactionPlan) -> &SummaryStep {
    let mut found = plan.steps.iter().filter_map(|step| match step {
        Step::Summary(summary) => Some(summary),
        _ => None,
    });
    let first = found.next().expect("a plan with a handoff");
    assert!(found.next().is_none(), "one handoff at most");
    first
}

fn is_kept(plan: &CompactionPlan, position: usize) -> bool {
    plan.steps.iter().any(|step| matches!(step, Step::Keep(span) if span.positions().contains(&position)))
}

fn original() -> json::Value {
    json::json!({ "as_original": true })
}
