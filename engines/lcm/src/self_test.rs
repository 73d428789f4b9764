//! The engine checks itself: a conversation of its own, compacted without a model, and a call of a tool.

use crate::session::LcmSession;
use crate::settings::Settings;
use engine_api::{CompressRequest, EngineError, EngineSession, HostServices, SessionStart, ViewTable, json, testing};

/// Compacts a small conversation that it brings along and calls `lcm_grep` with nothing to find.
pub(crate) fn self_test(settings: &Settings, services: &dyn HostServices) -> Result<String, EngineError> {
    let text = "a line of a log that nobody will read again\n".repeat(100);
    let mut messages = vec![testing::system(1, "system"), testing::user(2, "please look at the log")];
    for at in 0..60 {
        let call = format!("call{at}");
        messages.push(testing::calls(messages.len() as u64 + 1, &[(&call, "read_file", "{\"path\":\"a.log\"}")]));
        messages.push(testing::result(messages.len() as u64 + 1, &call, "read_file", &format!("{at}\n{text}")));
    }
    let table = ViewTable::new(1, &messages);
    let conversation = table.conversation();
    let mut request = CompressRequest::default();
    request.target_tokens = conversation.tokens() / 2;
    let settings = Settings { fresh_tail_tokens: 0, ..settings.clone() };
    let mut session = LcmSession::new(settings, &SessionStart::default());
    let plan = session.compress(services, &conversation, &request)?;
    let verdict = engine_kit::testing::judge(&conversation, &plan, &|text| services.count_tokens(text))?;
    if verdict.tokens_after >= request.target_tokens {
        return Err(EngineError::internal(format!(
            "a conversation of {} tokens came to {}, over its target of {}",
            verdict.tokens_before, verdict.tokens_after, request.target_tokens
        )));
    }
    let answer = session.handle_tool_call(services, &conversation, "lcm_grep", &json::json!({}))?;
    let answer: json::Value = json::from_str(&answer)?;
    if answer.get("error").is_none() {
        return Err(EngineError::internal("a search for nothing was answered"));
    }
    Ok(format!(
        "compacted a conversation of {} tokens to {} with {} summaries; lcm_grep answers",
        verdict.tokens_before, verdict.tokens_after, verdict.summaries
    ))
}
