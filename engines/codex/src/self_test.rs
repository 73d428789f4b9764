//! The engine checks itself: a conversation of its own, compacted without a model.

use crate::plan::propose;
use crate::settings::Settings;
use engine_api::{CompressRequest, EngineError, HostServices, Step, ViewTable, testing};

/// Compacts a small conversation that it brings along.
pub(crate) fn self_test(settings: &Settings, services: &dyn HostServices) -> Result<String, EngineError> {
    let text = "a line of a log that nobody will read again\n".repeat(100);
    let mut messages = vec![testing::system(1, "system"), testing::user(2, "please look at the logs")];
    for at in 0..40 {
        let call = format!("call{at}");
        messages.push(testing::calls(messages.len() as u64 + 1, &[(&call, "shell", "{\"cmd\":\"cat a.log\"}")]));
        messages.push(testing::result(messages.len() as u64 + 1, &call, "shell", &format!("{at}\n{text}")));
    }
    let table = ViewTable::new(1, &messages);
    let conversation = table.conversation();
    let mut request = CompressRequest::default();
    request.target_tokens = conversation.tokens() / 2;
    let plan = propose(services, &conversation, &request, settings)?;
    let verdict = engine_kit::testing::judge(&conversation, &plan, &|text| services.count_tokens(text))?;
    let keeps_request = plan.steps.iter().any(|step| matches!(step, Step::Keep(span) if span.positions().contains(&1)));
    if verdict.tokens_after >= request.target_tokens || verdict.summaries != 1 || !keeps_request {
        return Err(EngineError::internal(format!(
            "a conversation of {} tokens came to {} with {} handoffs; at most {} and one were expected",
            verdict.tokens_before, verdict.tokens_after, verdict.summaries, request.target_tokens
        )));
    }
    Ok(format!("compacted a conversation of {} tokens to {}", verdict.tokens_before, verdict.tokens_after))
}
