//! Every method of both traits reaches the engine, with its arguments, and its answer comes back.

use crate::host::Host;
use crate::wire::{across, library, session_across};
use engine_api::ffi::{foreign_engine, module_info};
use engine_api::json::{json, Value};
use engine_api::testing::{assistant, calls, result, system, user, FakeHost};
use engine_api::{
    capability, Basis, CompactionPlan, CompressRequest, ContextEngine, Conversation, Decision, Dialect, EngineError,
    EngineInfo, EngineSession, ErrorKind, Flags, HostServices, Lifecycle, LifecycleEvent, Message, ModelInfo, NodeId,
    Part, PartKind, PlanResult, PromptTokens, Role, SessionStart, SettingDiagnostic, StartReason, Status,
    SubagentEvent, ToolSchema, Trigger, TurnEnd, Usage, ViewTable,
};
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

struct Noting(Log);

impl Noting {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

impl ContextEngine for Noting {
    fn info(&self) -> EngineInfo {
        let mut info =
            EngineInfo::new("noting", "1.2.3-ä", "notes\twhat it hears").with(capability::TOOLS).with("later");
        info.aliases = vec!["noter".to_string()];
        info
    }
    fn open_session(
        &self,
        services: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError> {
        self.note(format!("open {:?} at {}", start, services.now_unix_ms()));
        if start.session_id.is_empty() {
            return Err(EngineError::new(ErrorKind::Input, "a session needs an id"));
        }
        Ok(Box::new(NotingSession(Arc::clone(&self.0))))
    }
    fn tool_schemas(&self) -> Vec<ToolSchema> {
        vec![
            ToolSchema::new(
                "noting_find",
                "finds \"things\"",
                json!({ "type": "object", "properties": { "b": {}, "a": {} } }),
            ),
            ToolSchema::new("noting_get", "", Value::Null),
        ]
    }
    fn check_config(&self, settings: &Value) -> Vec<SettingDiagnostic> {
        vec![SettingDiagnostic::new("a.b", format!("seen {}", settings))]
    }
    fn status(&self) -> Value {
        json!({ "sessions": 2, "nested": { "x": [1] } })
    }
    fn shutdown(&self) {
        self.note("shutdown".to_string());
    }
    fn self_test(&self, services: &dyn HostServices) -> Result<String, EngineError> {
        Ok(format!("counted {}", services.count_tokens("ööö")))
    }
}

struct NotingSession(Log);

impl NotingSession {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

fn sketch(conversation: &Conversation<'_>) -> String {
    format!("rev {} of {}", conversation.revision(), conversation.len())
}

fn plan_of(name: &str, conversation: &Conversation<'_>, request: &CompressRequest) -> CompactionPlan {
    let mut plan = CompactionPlan::new(conversation.revision());
    plan.keep(0..conversation.len());
    plan.report.notes.push(format!("{} {:?}", name, request));
    plan
}

impl EngineSession for NotingSession {
    fn compress(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        self.note(format!("compress {} {}", sketch(conversation), services.remaining_ms()));
        Ok(plan_of("compress", conversation, request))
    }
    fn should_compress(&mut self, prompt_tokens: PromptTokens) -> Decision {
        Decision::compress(prompt_tokens.count - 1, format!("{:?}", prompt_tokens))
    }
    fn should_compress_preflight(&mut self, conversation: &Conversation<'_>, rough: PromptTokens) -> Decision {
        Decision::keep(rough.count, sketch(conversation))
    }
    fn should_defer_preflight(&mut self, rough: PromptTokens) -> bool {
        rough.basis == Basis::Estimated
    }
    fn has_content_to_compress(&mut self, conversation: &Conversation<'_>) -> bool {
        conversation.len() > 3
    }
    fn prune_tool_results(
        &mut self,
        _: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        Ok(plan_of("prune", conversation, request))
    }
    fn select_context(
        &mut self,
        _: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        Ok(plan_of("select", conversation, request))
    }
    fn ingest(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        first_new: usize,
    ) -> Result<(), EngineError> {
        services.state_put("ingested", &(first_new as u64).to_le_bytes())?;
        self.note(format!("ingest {} from {}", sketch(conversation), first_new));
        Ok(())
    }
    fn update_from_response(&mut self, usage: &Usage) {
        self.note(format!("{:?}", usage));
    }
    fn update_model(&mut self, model: &ModelInfo) {
        self.note(format!("{:?}", model));
    }
    fn on_session_start(&mut self, _: &dyn HostServices, start: &SessionStart) -> Result<(), EngineError> {
        self.note(format!("{:?}", start));
        Ok(())
    }
    fn on_lifecycle(
        &mut self,
        _: &dyn HostServices,
        conversation: &Conversation<'_>,
        event: &LifecycleEvent,
    ) -> Result<(), EngineError> {
        self.note(format!("{:?} {}", event, sketch(conversation)));
        Err(EngineError::new(ErrorKind::Storage, "could not flush"))
    }
    fn carry_over(&mut self, _: &dyn HostServices, from_session_id: &str) -> Result<(), EngineError> {
        self.note(format!("carry over {}", from_session_id));
        Ok(())
    }
    fn on_turn_complete(
        &mut self,
        _: &dyn HostServices,
        conversation: &Conversation<'_>,
        end: &TurnEnd,
    ) -> Result<(), EngineError> {
        self.note(format!("{:?} {}", end, sketch(conversation)));
        Ok(())
    }
    fn plan_result(&mut self, result: &PlanResult) {
        self.note(format!("{:?}", result));
    }
    fn pending(&self) -> Value {
        json!({ "cooldown_ms": 5 })
    }
    fn maintain(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        budget_ms: u64,
    ) -> Result<bool, EngineError> {
        services.progress(1, 2, "maintaining");
        self.note(format!("maintain {} for {}", sketch(conversation), budget_ms));
        Ok(budget_ms > 10)
    }
    fn handle_tool_call(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        name: &str,
        arguments: &Value,
    ) -> Result<String, EngineError> {
        Ok(format!("{} {} {} {}", name, arguments, sketch(conversation), services.redact("a secret")))
    }
    fn status(&self) -> Status {
        let mut status = Status::default();
        status.last_prompt_tokens = 1;
        status.threshold_tokens = 2;
        status.context_length = 3;
        status.compression_count = u64::MAX;
        status.extra = json!({ "more": "ö" });
        status
    }
    fn export_state(&self) -> Result<Vec<u8>, EngineError> {
        Ok((0..=255).collect())
    }
    fn import_state(&mut self, state: &[u8]) -> Result<(), EngineError> {
        self.note(format!("import {:?}", state));
        Ok(())
    }
    fn subagent(&mut self, event: &SubagentEvent) {
        self.note(format!("{:?}", event));
    }
    fn control(&mut self, _: &dyn HostServices, name: &str, arguments: &Value) -> Result<String, EngineError> {
        Ok(format!("{} {}", name, arguments))
    }
}

fn model() -> ModelInfo {
    let mut model = ModelInfo::default();
    model.model = "claude-\"x\"".to_string();
    model.provider = "p".to_string();
    model.context_length = 200_000;
    model.max_tokens = 8_000;
    model.threshold_tokens = 150_000;
    model.tail_budget_tokens = 20_000;
    model.summary_tokens_max = 9_000;
    model.dialect = Some(Dialect::Anthropic);
    model
}

fn start() -> SessionStart {
    let mut start = SessionStart::default();
    start.session_id = "s-1".to_string();
    start.parent_session_id = Some("s-0".to_string());
    start.reason = Some(StartReason::Rotation);
    start.platform = "cli".to_string();
    start.model = model();
    start.settings = json!({ "depth": 3, "names": ["a", "ö"] });
    start
}

fn request() -> CompressRequest {
    let mut request = CompressRequest::default();
    request.current_tokens = 1;
    request.overhead_tokens = 2;
    request.target_tokens = 3;
    request.trigger = Some(Trigger::ColdCache);
    request.focus_topic = "the\nfocus".to_string();
    request.force = true;
    request.memory_context = "memory".to_string();
    request.keep_exchanges = 4;
    request.completions_max = 5;
    request.model = model();
    request
}

fn messages() -> Vec<Message> {
    vec![
        system(1, "rules"),
        user(2, "hello"),
        calls(3, &[("c1", "read", "{}")]),
        result(4, "c1", "read", "text"),
        assistant(5, "so"),
    ]
}

#[test]
fn every_method_of_an_engine_reaches_it_and_answers() {
    let log = Log::default();
    let engine = Noting(Arc::clone(&log));
    let foreign = across(Noting(Arc::clone(&log)));
    let host = Host::default();
    assert_eq!(foreign.info(), engine.info());
    assert_eq!(foreign.tool_schemas(), engine.tool_schemas());
    let settings = json!({ "x": 1.5, "ü": [] });
    assert_eq!(foreign.check_config(&settings), engine.check_config(&settings));
    assert_eq!(foreign.status(), engine.status());
    assert_eq!(foreign.self_test(&host).unwrap(), "counted 3");
    foreign.open_session(&host, &start()).unwrap();
    assert_eq!(take(&log), [format!("open {:?} at 1234567890123", start())]);
    let error = foreign.open_session(&host, &SessionStart::default()).err().unwrap();
    assert_eq!(error, EngineError::new(ErrorKind::Input, "a session needs an id"));
    take(&log);
    foreign.shutdown();
    assert_eq!(take(&log), ["shutdown"]);
}

#[test]
fn every_method_of_a_session_reaches_it_and_answers() {
    let log = Log::default();
    let host = Host::default();
    let engine = across(Noting(Arc::clone(&log)));
    let mut session = engine.open_session(&host, &start()).unwrap();
    take(&log);
    let messages = messages();
    let table = ViewTable::new(42, &messages);
    let view = table.conversation();

    for (name, plan) in [
        ("compress", session.compress(&host, &view, &request()).unwrap()),
        ("prune", session.prune_tool_results(&host, &view, &request()).unwrap()),
        ("select", session.select_context(&host, &view, &request()).unwrap()),
    ] {
        assert_eq!(plan, plan_of(name, &view, &request()));
    }
    assert_eq!(take(&log), ["compress rev 42 of 5 321"]);

    let exact = PromptTokens { count: 1_000, basis: Basis::Reported };
    let rough = PromptTokens { count: u64::MAX, basis: Basis::Estimated };
    assert_eq!(session.should_compress(exact), Decision::compress(999, format!("{:?}", exact)));
    assert_eq!(session.should_compress_preflight(&view, rough), Decision::keep(u64::MAX, "rev 42 of 5"));
    assert_eq!((session.should_defer_preflight(rough), session.should_defer_preflight(exact)), (true, false));
    assert!(session.has_content_to_compress(&view));
    assert!(!session.has_content_to_compress(&ViewTable::new(1, &messages[..3]).conversation()));
    assert_eq!(take(&log), Vec::<String>::new());

    session.ingest(&host, &view, 4).unwrap();
    assert_eq!(host.state.lock().unwrap()["ingested"], 4u64.to_le_bytes());
    let mut usage = Usage::default();
    usage.prompt_tokens = 9;
    usage.cache_write_tokens = 8;
    session.update_from_response(&usage);
    session.update_model(&model());
    session.on_session_start(&host, &start()).unwrap();
    let mut event = LifecycleEvent::new(Lifecycle::SessionEnd, "s-1");
    event.old_session_id = Some("s-0".to_string());
    let error = session.on_lifecycle(&host, &view, &event).unwrap_err();
    assert_eq!(error, EngineError::new(ErrorKind::Storage, "could not flush"));
    session.carry_over(&host, "s-ö").unwrap();
    let mut end = TurnEnd::default();
    end.interrupted = true;
    end.model_calls = 3;
    session.on_turn_complete(&host, &view, &end).unwrap();
    let mut outcome = PlanResult::default();
    outcome.applied = true;
    outcome.rejection = "none".to_string();
    outcome.nodes = vec![1, u64::MAX];
    session.plan_result(&outcome);
    assert!(session.maintain(&host, &view, 11).unwrap());
    assert!(!session.maintain(&host, &view, 10).unwrap());
    session.import_state(&[0, 255, 7]).unwrap();
    let mut subagent = SubagentEvent::default();
    subagent.session_id = "sub".to_string();
    subagent.started = true;
    session.subagent(&subagent);
    assert_eq!(
        take(&log),
        [
            "ingest rev 42 of 5 from 4".to_string(),
            format!("{:?}", usage),
            format!("{:?}", model()),
            format!("{:?}", start()),
            format!("{:?} rev 42 of 5", event),
            "carry over s-ö".to_string(),
            format!("{:?} rev 42 of 5", end),
            format!("{:?}", outcome),
            "maintain rev 42 of 5 for 11".to_string(),
            "maintain rev 42 of 5 for 10".to_string(),
            "import [0, 255, 7]".to_string(),
            format!("{:?}", subagent),
        ]
    );
    assert_eq!(host.take(), ["progress 1/2 maintaining"; 2]);

    let arguments = json!({ "z": 1, "a": { "b": [null] } });
    let answer = session.handle_tool_call(&host, &view, "noting_find", &arguments).unwrap();
    assert_eq!(answer, format!("noting_find {} rev 42 of 5 a ***", arguments));
    assert_eq!(session.control(&host, "doctor", &arguments).unwrap(), format!("doctor {}", arguments));
    assert_eq!(session.pending(), json!({ "cooldown_ms": 5 }));
    assert_eq!(session.status(), NotingSession(Log::default()).status());
    assert_eq!(session.export_state().unwrap(), (0..=255).collect::<Vec<u8>>());
}

struct Bare;

impl EngineSession for Bare {
    fn compress(
        &mut self,
        _: &dyn HostServices,
        _: &Conversation<'_>,
        _: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        Err(EngineError::nothing_to_compact("never"))
    }
}

#[test]
fn what_an_engine_does_not_write_has_the_same_default_on_both_sides() {
    let mut near = Bare;
    let mut far = session_across(|| Box::new(Bare));
    let host = FakeHost::default();
    let table = ViewTable::new(1, &[]);
    let view = table.conversation();
    let tokens = PromptTokens { count: 5, basis: Basis::Counted };
    assert_eq!(near.should_compress(tokens), far.should_compress(tokens));
    assert_eq!(near.should_compress_preflight(&view, tokens), far.should_compress_preflight(&view, tokens));
    assert_eq!(near.should_defer_preflight(tokens), far.should_defer_preflight(tokens));
    assert_eq!(near.has_content_to_compress(&view), far.has_content_to_compress(&view));
    let request = CompressRequest::default();
    assert_eq!(near.compress(&host, &view, &request), far.compress(&host, &view, &request));
    assert_eq!(near.prune_tool_results(&host, &view, &request), far.prune_tool_results(&host, &view, &request));
    assert_eq!(near.select_context(&host, &view, &request), far.select_context(&host, &view, &request));
    assert_eq!(near.maintain(&host, &view, 1), far.maintain(&host, &view, 1));
    let null = Value::Null;
    assert_eq!(near.handle_tool_call(&host, &view, "x", &null), far.handle_tool_call(&host, &view, "x", &null));
    assert_eq!(near.control(&host, "x", &null), far.control(&host, "x", &null));
    assert_eq!((near.status(), near.pending()), (far.status(), far.pending()));
    assert_eq!(near.export_state(), far.export_state());
    assert_eq!(near.import_state(&[]), far.import_state(&[]));
}

#[test]
fn a_conversation_is_seen_as_it_is_and_not_copied() {
    let mut messages = messages();
    messages.push(Message {
        id: engine_api::MessageId(u64::MAX),
        role: Role::Other,
        flags: Flags(u32::MAX),
        tokens: u32::MAX,
        node: NodeId(u64::MAX),
        raw: "{\"text\":\"ö\u{0}😀\"}".to_string(),
        parts: Vec::new(),
    });
    let kinds = [
        PartKind::Text,
        PartKind::ToolCall,
        PartKind::ToolResult,
        PartKind::Reasoning,
        PartKind::Image,
        PartKind::Opaque,
    ];
    let mut parts: Vec<Part> = kinds.iter().map(|kind| Part::new(*kind, format!("{} ö\u{0}", kind))).collect();
    parts[2].call_id = "call ö".to_string();
    parts[2].tool_name = "tool ö".to_string();
    parts[2].flags = Flags::ERROR.with(Flags::HAS_IMAGE);
    parts[2].tokens = 77;
    messages.push(Message::new(Role::Developer, "", parts));
    messages.push(user(9, &"long ".repeat(1_000_000)));
    let expected = messages.clone();
    let address = messages.iter().map(|message| message.raw.as_ptr() as usize).collect::<Vec<_>>();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let mut session = crate::wire::compressing(move |_, view, _| {
        let mut noted = noted.lock().unwrap();
        for at in 0..view.len() {
            let message = view.get(at).unwrap();
            let parts = message.parts().map(|part| Part {
                kind: part.kind(),
                flags: part.flags(),
                tokens: part.tokens() as u32,
                text: part.text().to_string(),
                call_id: part.call_id().to_string(),
                tool_name: part.tool_name().to_string(),
            });
            let copy = Message {
                id: message.id(),
                role: message.role(),
                flags: message.flags(),
                tokens: message.tokens() as u32,
                node: message.node().unwrap_or_default(),
                raw: message.raw().to_string(),
                parts: parts.collect(),
            };
            noted.push((copy, message.raw().as_ptr() as usize));
        }
        assert!(view.get(view.len()).is_none());
        Ok(CompactionPlan::new(view.revision()))
    });
    let table = ViewTable::new(u64::MAX, &messages);
    let plan = session.compress(&FakeHost::default(), &table.conversation(), &CompressRequest::default()).unwrap();
    assert_eq!(plan.base_revision, u64::MAX);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|(message, _)| message.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(seen.iter().map(|(_, address)| *address).collect::<Vec<_>>(), address);
}

#[test]
fn a_library_says_who_it_is_and_makes_what_it_has() {
    let info = module_info(library()).unwrap();
    assert_eq!((info.name.as_str(), info.version.as_str(), info.panic.as_str()), ("test", "9.8.7", "unwind"));
    assert_eq!(info.engine_api, engine_api::API_VERSION);
    assert_eq!(info.engines, ["stand", "refuses", "breaks"]);
    let made = |name: &str| foreign_engine(library(), name, &json!({ "own": [1] })).err().unwrap();
    let error = made("absent");
    assert_eq!(error.kind, ErrorKind::Internal);
    assert!(
        error.message.contains("\"absent\"") && error.message.contains("stand, refuses, breaks"),
        "{}",
        error.message
    );
    // The empty name stands for the only engine, and this library has three.
    assert_eq!(made("").kind, ErrorKind::Internal);
    let expected = EngineError::new(ErrorKind::Config, "settings are {\"own\":[1]}").with_hint("write others");
    assert_eq!(made("refuses"), expected);
    let error = made("breaks");
    assert_eq!(error.kind, ErrorKind::Panicked);
    assert!(error.message.contains("no engine today at ") && error.message.contains("wire.rs:"), "{}", error.message);
}
