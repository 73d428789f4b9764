//! Calls at the wrong time, panics, and texts and tables that make no sense.

use crate::wire::{compressing, library, session_across, waiting, Opens};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RRef;
use abi_stable::std_types::{ROption, RResult, RSlice, RStr, RString, RVec};
use engine_api::ffi::{
    RawConversation, RawError, RawMessage, RawPart, RawResult, RawServices, ServicesRef, SessionBox,
};
use engine_api::json::Value;
use engine_api::testing::FakeHost;
use engine_api::{
    Basis, CompactionPlan, CompressRequest, Conversation, EngineError, EngineSession, ErrorKind, HostServices,
    PromptTokens, Status, ViewTable,
};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Mutex, OnceLock};

const EMPTY: RawConversation<'static> =
    RawConversation { revision: 1, messages: RSlice::EMPTY, parts: RSlice::EMPTY, extra: RStr::empty() };

/// Raw services whose `count_tokens` runs a closure: a way back into the engine from inside a call.
struct Calls<'a>(&'a (dyn Fn() -> u64 + Sync));

fn no<T>() -> RawResult<T> {
    RResult::RErr(RawError { code: 4, r0: 0, retry_after_ms: 0, message: "no".into(), hint: "".into() })
}

impl RawServices for Calls<'_> {
    fn complete(&self, _: RStr<'_>) -> RawResult<RString> {
        no()
    }
    fn complete_many(&self, _: RStr<'_>) -> RawResult<RString> {
        no()
    }
    fn count_tokens(&self, _: RStr<'_>) -> u64 {
        (self.0)()
    }
    fn count_tokens_batch(&self, _: RSlice<'_, RStr<'_>>) -> RVec<u64> {
        RVec::new()
    }
    fn recall(&self, _: RStr<'_>) -> RawResult<RString> {
        RResult::ROk("no JSON".into())
    }
    fn state_get(&self, _: RStr<'_>) -> RawResult<ROption<RVec<u8>>> {
        no()
    }
    fn state_put(&self, _: RStr<'_>, _: RSlice<'_, u8>) -> RawResult<()> {
        no()
    }
    fn data_dir(&self) -> RawResult<RString> {
        no()
    }
    fn settings(&self) -> RString {
        "{".into()
    }
    fn redact(&self, text: RStr<'_>) -> RString {
        text.into()
    }
    fn log(&self, _: u32, _: RStr<'_>, _: RStr<'_>) {}
    fn progress(&self, _: u64, _: u64, _: RStr<'_>) {}
    fn now_unix_ms(&self) -> u64 {
        0
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn cancelled(&self) -> bool {
        false
    }
    fn remaining_ms(&self) -> u64 {
        0
    }
    fn host_info(&self) -> RString {
        RString::new()
    }
}

fn lend<'a>(calls: &'a Calls<'a>) -> ServicesRef<'a> {
    ServicesRef::from_ptr(RRef::new(calls), TD_Opaque)
}

#[track_caller]
fn good<T>(result: RawResult<T>) -> T {
    result.into_result().unwrap_or_else(|error| panic!("{}", error.message))
}

#[track_caller]
fn error<T>(result: RawResult<T>) -> EngineError {
    result.into_result().err().expect("an error").into()
}

/// Opens a session and stays on the raw side of it.
fn raw_session(session: impl EngineSession) -> SessionBox {
    let mut session = Some(session);
    let settings = waiting(Opens(Mutex::new(Box::new(move || Box::new(session.take().unwrap()))))).to_string();
    let engine = good((library().create())("stand".into(), settings.as_str().into()));
    let calls = Calls(&|| 0);
    good(engine.open_session(lend(&calls), "{}".into()))
}

struct Asks;

impl EngineSession for Asks {
    fn compress(
        &mut self,
        services: &dyn HostServices,
        view: &Conversation<'_>,
        _: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let parts: Vec<usize> = view.iter().map(|message| message.part_count()).collect();
        let mut plan = CompactionPlan::new(services.count_tokens(""));
        plan.report.notes.push(format!("{:?}", parts));
        Ok(plan)
    }
    fn handle_tool_call(
        &mut self,
        services: &dyn HostServices,
        _: &Conversation<'_>,
        name: &str,
        _: &Value,
    ) -> Result<String, EngineError> {
        match name {
            "recall" => {
                services.recall(&engine_api::RecallRequest::get(engine_api::MessageId(1))).map(|_| String::new())
            }
            _ => Ok(format!("{} {}", services.settings(), services.host_info())),
        }
    }
}

#[test]
fn a_call_from_inside_a_call_of_the_same_session_is_told_that_it_is_busy() {
    static SESSION: OnceLock<SessionBox> = OnceLock::new();
    let session = SESSION.get_or_init(|| raw_session(Asks));
    let again = || {
        let inner = Calls(&|| 0);
        let seen = error(session.compress(lend(&inner), EMPTY, "{}".into()));
        assert_eq!(seen.kind, ErrorKind::Busy);
        assert!(seen.message.contains("re-entrant"), "{}", seen.message);
        assert_eq!(error(session.status()).kind, ErrorKind::Busy);
        17
    };
    let calls = Calls(&again);
    let plan = good(session.compress(lend(&calls), EMPTY, "{}".into()));
    assert_eq!(plan.base_revision, 17, "the outer call goes on");
    // And the session is free again.
    assert!(session.status().is_ok());
}

#[test]
fn a_call_from_another_thread_does_not_wait() {
    static SESSION: OnceLock<SessionBox> = OnceLock::new();
    let session = SESSION.get_or_init(|| raw_session(Asks));
    let (inside, entered): (Sender<()>, Receiver<()>) = channel();
    let (release, hold): (Sender<()>, Receiver<()>) = channel();
    let (inside, hold) = (Mutex::new(inside), Mutex::new(hold));
    std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            let wait = || {
                inside.lock().unwrap().send(()).unwrap();
                hold.lock().unwrap().recv().unwrap();
                1
            };
            let calls = Calls(&wait);
            session.compress(lend(&calls), EMPTY, "{}".into()).is_ok()
        });
        entered.recv().unwrap();
        assert_eq!(error(session.status()).kind, ErrorKind::Busy);
        release.send(()).unwrap();
        assert!(running.join().unwrap());
    });
    assert!(session.status().is_ok());
}

struct Panics;

impl EngineSession for Panics {
    fn compress(
        &mut self,
        _: &dyn HostServices,
        _: &Conversation<'_>,
        _: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        let list: Vec<u8> = Vec::new();
        panic!("lost at {}", list.len())
    }
    fn has_content_to_compress(&mut self, _: &Conversation<'_>) -> bool {
        false
    }
    fn status(&self) -> Status {
        let mut status = Status::default();
        status.compression_count = 5;
        status
    }
}

#[test]
fn a_panic_is_an_error_with_its_place_and_the_session_is_not_used_again() {
    let mut session = session_across(|| Box::new(Panics));
    let host = FakeHost::default();
    let table = ViewTable::new(1, &[]);
    let view = table.conversation();
    assert_eq!(session.status().compression_count, 5);
    let error = session.compress(&host, &view, &CompressRequest::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Panicked);
    assert!(error.message.starts_with("the engine panicked: lost at 0 at "), "{}", error.message);
    assert!(error.message.contains("faults.rs:"), "{}", error.message);

    let error = session.compress(&host, &view, &CompressRequest::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Panicked);
    assert!(error.message.contains("panicked in an earlier call"), "{}", error.message);
    // What has no error to give takes the host's default and not the engine's answer.
    assert_eq!(session.status(), Status::default());
    assert!(session.has_content_to_compress(&view));
    let decision = session.should_compress(PromptTokens { count: 1, basis: Basis::Counted });
    assert!(decision.host_decides && decision.reason.contains("earlier call"), "{:?}", decision);
}

#[test]
fn a_panic_of_any_kind_is_caught() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("and the payload, too");
        }
    }
    for kind in 0..4 {
        let mut session = compressing(move |_, view, _| match kind {
            0 => std::panic::panic_any(7u8),
            1 => std::panic::panic_any(Loud),
            2 => panic!("{}", "owned ".repeat(2)),
            _ => {
                let positions: Vec<u64> = view.iter().map(|message| message.tokens()).collect();
                Err(EngineError::internal(positions[view.len()].to_string()))
            }
        });
        let table = ViewTable::new(1, &[]);
        let seen =
            session.compress(&FakeHost::default(), &table.conversation(), &CompressRequest::default()).unwrap_err();
        let words = ["a panic without text", "a panic without text", "owned owned", "index out of bounds"];
        assert_eq!(seen.kind, ErrorKind::Panicked);
        assert!(seen.message.contains(words[kind as usize]), "{}", seen.message);
    }
}

#[test]
fn text_that_is_no_json_is_an_input_error_on_either_side() {
    let session = raw_session(Asks);
    let calls = Calls(&|| 3);
    for text in ["", "{", "7", "{\"target_tokens\":\"many\"}", "\u{0}"] {
        let seen = error(session.compress(lend(&calls), EMPTY, text.into()));
        assert_eq!(seen.kind, ErrorKind::Input, "{:?}", text);
        assert!(seen.message.contains("the request"), "{}", seen.message);
    }
    assert_eq!(error(session.update_model("no".into())).kind, ErrorKind::Input);
    assert_eq!(error(session.handle_tool_call(lend(&calls), EMPTY, "x".into(), "{".into())).kind, ErrorKind::Input);
    // A host whose answers do not read is an error to the engine, or its default.
    let seen = error(session.handle_tool_call(lend(&calls), EMPTY, "recall".into(), "{}".into()));
    assert_eq!(seen.kind, ErrorKind::Input);
    assert!(seen.message.contains("the recall reply"), "{}", seen.message);
    let answer = good(session.handle_tool_call(lend(&calls), EMPTY, "settings".into(), "{}".into()));
    assert_eq!(answer.as_str(), "null null");
    let created = (library().create())("stand".into(), "{".into());
    assert_eq!(error(created).kind, ErrorKind::Input);
}

#[test]
fn fields_of_a_later_version_are_passed_over() {
    let session = raw_session(Asks);
    let calls = Calls(&|| 3);
    let text =
        r#"{"target_tokens":7,"trigger":"full_moon","model":{"dialect":"morse","tides":[1]},"new_in_2":{"a":1}}"#;
    assert_eq!(good(session.compress(lend(&calls), EMPTY, text.into())).base_revision, 3);
}

#[test]
fn a_table_that_points_nowhere_shows_messages_without_parts() {
    let part =
        RawPart { kind: 99, flags: 0, tokens: 0, r0: 0, text: "x".into(), call_id: "".into(), tool_name: "".into() };
    let message = |first_part: u64, part_count: u32| RawMessage {
        id: 1,
        node: 0,
        role: 99,
        flags: 0,
        tokens: 1,
        part_count,
        first_part,
        raw: "{}".into(),
    };
    let parts = [part, part];
    let messages = [
        message(0, 2),
        message(1, 1),
        message(1, 2),
        message(2, 0),
        message(3, 0),
        message(u64::MAX, u32::MAX),
        message(u64::MAX, 1),
    ];
    let conversation = RawConversation {
        revision: 1,
        messages: RSlice::from_slice(&messages),
        parts: RSlice::from_slice(&parts),
        extra: "".into(),
    };
    let session = raw_session(Asks);
    let calls = Calls(&|| 3);
    let plan = good(session.compress(lend(&calls), conversation, "{}".into())).into_plan().unwrap();
    assert_eq!(plan.report.notes, ["[2, 1, 0, 0, 0, 0, 0]"]);
}

#[test]
fn a_host_of_an_earlier_version_has_no_place_for_a_metric() {
    struct Measures;
    impl EngineSession for Measures {
        fn compress(
            &mut self,
            services: &dyn HostServices,
            _: &Conversation<'_>,
            _: &CompressRequest,
        ) -> Result<CompactionPlan, EngineError> {
            assert!(!services.metric("size", 1.0));
            Ok(CompactionPlan::new(services.count_tokens("")))
        }
    }
    let session = raw_session(Measures);
    let calls = Calls(&|| 8);
    assert_eq!(good(session.compress(lend(&calls), EMPTY, "{}".into())).base_revision, 8);
}
