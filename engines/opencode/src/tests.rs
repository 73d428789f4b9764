//! Whole compactions over hand-made and random conversations.

mod cases;
mod property;

use super::*;
use engine_api::testing::{FakeHost, assistant, calls, result, system, user};
use engine_api::{CompactionPlan, CompressRequest, InsertKind, Message, Step, SummaryStep, Trigger, ViewTable};
use engine_kit::testing::{Verdict, count, flagged, judge, numbered, session};

fn request(target_tokens: u64) -> CompressRequest {
    let mut request = CompressRequest::default();
    request.target_tokens = target_tokens;
    request.model.threshold_tokens = target_tokens;
    request.model.context_length = target_tokens * 2;
    request.completions_max = 2;
    request
}

fn host(answers: &[&str]) -> FakeHost {
    let host = FakeHost::default();
    host.completions.lock().unwrap().extend(answers.iter().map(|text| Ok(text.to_string())));
    host
}

fn plan_with(
    host: &FakeHost,
    settings: &json::Value,
    messages: &[Message],
    request: &CompressRequest,
) -> Result<CompactionPlan, EngineError> {
    let table = ViewTable::new(7, messages);
    let mut session = new(settings).unwrap().open_session(host, &SessionStart::default()).unwrap();
    session.compress(host, &table.conversation(), request)
}

/// Judges a plan; a replay counts as the text that the host will write for it.
fn judged(messages: &[Message], plan: &CompactionPlan) -> Result<Verdict, String> {
    let mut plan = plan.clone();
    for step in &mut plan.steps {
        if let Step::Insert { message, text, .. } = step
            && let Some(position) = message.take()
        {
            *text = messages[position].text();
        }
    }
    let table = ViewTable::new(7, messages);
    judge(&table.conversation(), &plan, &count)
}

fn summary_of(plan: &CompactionPlan) -> &SummaryStep {
    let mut found = plan.steps.iter().filter_map(|step| match step {
        Step::Summary(summary) => Some(summary),
        _ => None,
    });
    let first = found.next().expect("a summary");
    assert!(found.next().is_none(), "one summary at most");
    first
}

fn inserts(plan: &CompactionPlan) -> Vec<(InsertKind, Option<usize>)> {
    let step = |step: &Step| match step {
        Step::Insert { kind, message, .. } => Some((*kind, *message)),
        _ => None,
    };
    plan.steps.iter().filter_map(step).collect()
}
