//! What an engine hears, in which order. Hermes 0.19.0 tells an engine that its session has ended each time it compacts,
//! and never asks it before a request; here a compaction is a boundary, and the session goes on.

use crate::agent::{Agent, Provider, TAILS, text};
use engine_api::json::Value;
use engine_api::{
    CompactionPlan, CompressRequest, ContextEngine, Conversation, Decision, EngineError, EngineInfo, EngineSession,
    HostServices, Lifecycle, LifecycleEvent, ModelInfo, PlanResult, PromptTokens, SessionStart, Usage,
};
use host_registry::{Resolved, Source};
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;

/// Hands everything on to the built-in compressor and writes down what it heard.
struct Recorder {
    inner: Box<dyn ContextEngine>,
    log: Log,
}

struct RecorderSession {
    inner: Box<dyn EngineSession>,
    log: Log,
}

impl ContextEngine for Recorder {
    fn info(&self) -> EngineInfo {
        EngineInfo::new("recorder", "1.0.0", "writes down what it hears")
    }
    fn open_session(
        &self,
        host: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError> {
        self.log.lock().unwrap().push(format!("open {}", start.session_id));
        Ok(Box::new(RecorderSession { inner: self.inner.open_session(host, start)?, log: Arc::clone(&self.log) }))
    }
}

impl RecorderSession {
    fn note(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }
}

impl EngineSession for RecorderSession {
    fn compress(
        &mut self,
        host: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        self.note("compress");
        self.inner.compress(host, conversation, request)
    }
    fn should_compress(&mut self, _prompt_tokens: PromptTokens) -> Decision {
        self.note("should_compress");
        Decision::host_decides()
    }
    fn should_compress_preflight(&mut self, _conversation: &Conversation<'_>, _rough: PromptTokens) -> Decision {
        self.note("should_compress_preflight");
        Decision::host_decides()
    }
    fn should_defer_preflight(&mut self, _rough: PromptTokens) -> bool {
        self.note("should_defer_preflight");
        false
    }
    fn update_from_response(&mut self, _usage: &Usage) {
        self.note("update_from_response");
    }
    fn update_model(&mut self, model: &ModelInfo) {
        self.note(format!("update_model {}", model.context_length));
    }
    fn plan_result(&mut self, result: &PlanResult) {
        self.note(format!("plan_result applied={}", result.applied));
    }
    fn on_lifecycle(
        &mut self,
        _host: &dyn HostServices,
        _conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        self.note(format!("on_lifecycle {}", event.kind));
        Ok(())
    }
}

#[test]
fn a_compaction_is_a_boundary_and_an_end_is_an_end() {
    let log: Log = Arc::default();
    let inner = host_registry::built_in(&Value::Null).unwrap();
    let resolved = Resolved {
        name: "recorder".to_owned(),
        source: Source::Linked,
        engine: Arc::new(Recorder { inner, log: Arc::clone(&log) }),
        fallback: None,
    };
    let mut agent =
        Agent::with_engine(Provider { window: 8_000, ..Provider::default() }, TAILS[0], |_| {}, Some(resolved));
    agent.user("Look at part one.");
    for step in 0..20 {
        agent.tool(&text(step, 600));
    }
    agent.live.switch_model("some-model", 64_000);
    agent.live.tell(Lifecycle::SessionEnd);
    let heard = log.lock().unwrap().clone();
    assert_eq!(
        heard.iter().take(5).map(String::as_str).collect::<Vec<_>>(),
        ["open s", "should_defer_preflight", "should_compress_preflight", "update_from_response", "should_compress"],
        "before the first report the engine is asked on a count, and then on the report"
    );
    let at = heard.iter().position(|line| line == "compress").expect("the session was long enough to be compacted");
    assert_eq!(
        heard.iter().skip(at).take(3).map(String::as_str).collect::<Vec<_>>(),
        ["compress", "plan_result applied=true", "on_lifecycle compaction_boundary"]
    );
    let ends = heard.iter().filter(|line| *line == "on_lifecycle session_end").count();
    assert_eq!((ends, heard.last().map(String::as_str)), (1, Some("on_lifecycle session_end")));
    assert_eq!(heard.iter().filter(|line| *line == "open s").count(), 1, "one session object for the whole session");
    assert!(heard.contains(&"update_model 64000".to_owned()));
}
