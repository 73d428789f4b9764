//! Whatever a model says in place of a handoff, the user gets one, and the receipt says who wrote it.
use super::*;
use engine_api::{Completion, CompletionModel, CompletionRequest, HostServices, LogLevel, RecallReply, RecallRequest};

/// A host whose model always answers this, with this reason for ending.
struct Moody<'m> {
    inner: FakeHost,
    text: &'m str,
    finish_reason: &'m str,
}

impl HostServices for Moody<'_> {
    fn complete(&self, request: &CompletionRequest) -> Result<Completion, EngineError> {
        self.inner.asked.lock().unwrap().push(request.clone());
        let mut answer = Completion::default();
        answer.text = if self.text == "ECHO" { request.prompt.clone() } else { self.text.to_string() };
        answer.finish_reason = self.finish_reason.to_string();
        Ok(answer)
    }
    fn count_tokens(&self, text: &str) -> u64 {
        count(text)
    }
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        self.inner.recall(request)
    }
    fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
        self.inner.state_get(key)
    }
    fn state_put(&self, key: &str, value: &[u8]) -> Result<(), EngineError> {
        self.inner.state_put(key, value)
    }
    fn redact(&self, text: &str) -> String {
        text.to_string()
    }
    fn log(&self, _level: LogLevel, _message: &str, _fields: &json::Value) {}
    fn now_unix_ms(&self) -> u64 {
        0
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
}

fn with_mood(text: &str, finish_reason: &str) -> (CompactionPlan, usize) {
    let host = Moody { inner: FakeHost::default(), text, finish_reason };
    let messages = session(6, 6, 2_000);
    let table = ViewTable::new(7, &messages);
    for settings in [json::Value::Null, original()] {
        let mut session = new(&settings).unwrap().open_session(&host, &SessionStart::default()).unwrap();
        let plan = session.compress(&host, &table.conversation(), &request(8_000)).unwrap();
        let verdict = judged(&messages, &plan);
        assert!(verdict.tokens_after < 8_000, "{verdict:?}");
    }
    host.inner.asked.lock().unwrap().clear();
    let mut session = new(&original()).unwrap().open_session(&host, &SessionStart::default()).unwrap();
    let plan = session.compress(&host, &table.conversation(), &request(8_000)).unwrap();
    let asked = host.inner.asked.lock().unwrap().len();
    (plan, asked)
}

#[test]
fn every_mood_but_a_handoff_ends_in_an_outline_after_two_tries() {
    let long = "a word ".repeat(20_000);
    let huge = "x".repeat(3_000_000);
    for (text, reason, word) in [
        ("", "stop", "empty"),
        ("  \n", "stop", "empty"),
        ("<think>what to say", "stop", "empty"),
        ("<analysis>only thoughts</analysis>", "stop", "empty"),
        ("I'm sorry, but I can't help with that.", "stop", "refused"),
        ("I cannot do that.", "stop", "refused"),
        ("No.", "refusal", "refused"),
        ("## Goal\nhalf a sen", "length", "cut off"),
        ("## Goal\nhalf a sen", "max_tokens", "cut off"),
        ("<tool_call>{\"name\": \"shell\"}</tool_call>", "tool_calls", "tool"),
        ("{\"tool_calls\": []}", "stop", "tool"),
        (&long, "stop", "no shorter than its source"),
        (&huge, "stop", "too long"),
        ("ECHO", "stop", "repeated its prompt"),
    ] {
        let (plan, asked) = with_mood(text, reason);
        assert!(plan.report.fallback.contains(word), "{text:.40}: {}", plan.report.fallback);
        assert_eq!((asked, plan.report.completions), (2, 2), "{text:.40}");
        let summary = &summary_of(&plan).text;
        assert!(summary.contains("made without a model"), "{summary}");
        assert!(!summary.contains("I'm sorry") && !summary.contains("half a sen"), "{summary}");
    }
}

#[test]
fn a_handoff_is_installed_with_its_lead_in() {
    let (plan, asked) = with_mood("<think>hm</think>\n## Goal\nport the modules\n", "stop");
    assert_eq!((asked, plan.report.fallback.as_str()), (1, ""));
    assert_eq!(summary_of(&plan).text, format!("{}## Goal\nport the modules", summary::LEAD_IN));
}

#[test]
fn a_second_try_has_half_the_material_and_leaves_the_prefix() {
    let host = FakeHost::default();
    let too_long = EngineError::new(ErrorKind::Summariser, "context_length_exceeded");
    host.completions.lock().unwrap().extend([Err(too_long), Ok("## Goal\nport".to_string())]);
    let messages = session(6, 6, 20_000);
    let mut asking = request(30_000);
    asking.completion_model = Some(CompletionModel::MainOnPrefix);
    asking.completion_window = 20_000;
    let plan = plan_with(&host, &json::Value::Null, &messages, &asking).unwrap();
    judged(&messages, &plan);
    assert_eq!((plan.report.completions, plan.report.fallback.as_str()), (2, ""));
    let asked = host.asked.lock().unwrap();
    assert_eq!(asked[0].model, Some(CompletionModel::MainOnPrefix));
    assert!(!asked[0].prompt.contains("THE WORK SO FAR") && asked[0].prompt.contains("newest"), "{}", asked[0].prompt);
    assert_eq!(asked[1].model, Some(CompletionModel::Main));
    assert!(count(&asked[1].prompt) < 10_000, "{}", count(&asked[1].prompt));
    // What the program trims first is what is never trimmed here.
    assert!(asked[1].prompt.contains("request 0: please change src/module_0/lib.rs"));
}

#[test]
fn a_fault_that_less_material_does_not_mend_is_not_asked_about_again() {
    let messages = session(6, 6, 2_000);
    let host = FakeHost::default();
    host.completions.lock().unwrap().push(Err(EngineError::new(ErrorKind::Summariser, "busy")));
    let plan = plan_with(&host, &json::Value::Null, &messages, &request(8_000)).unwrap();
    assert_eq!((plan.report.completions, host.asked.lock().unwrap().len()), (1, 1));
    assert!(plan.report.fallback.contains("busy"));
}

#[test]
fn no_more_is_asked_than_is_allowed_and_nothing_when_cancelled() {
    let messages = session(6, 6, 2_000);
    for (most, is_cancelled, want) in [(0, false, 0), (1, false, 1), (2, false, 2), (9, false, 2), (2, true, 0)] {
        let host = FakeHost { cancelled: is_cancelled, ..host(&["", "", "", ""]) };
        let mut asking = request(8_000);
        asking.completions_max = most;
        let plan = plan_with(&host, &json::Value::Null, &messages, &asking).unwrap();
        assert_eq!(host.asked.lock().unwrap().len(), want, "{most} {is_cancelled}");
        assert_eq!(plan.report.completions as usize, want);
        assert!(!plan.report.fallback.is_empty());
    }
}
