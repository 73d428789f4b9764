//! Every service of a host reaches it from an engine, with its arguments, and its answer comes back.

use crate::host::{completion, recall_reply, Host};
use crate::wire::compressing;
use engine_api::json::json;
use engine_api::{
    check_cancelled, CompactionPlan, CompletionModel, CompletionRequest, CompressRequest, EngineError, ErrorKind,
    HostServices, LogLevel, MessageId, NodeId, RecallRequest, RecallSearch, Role, ViewTable,
};

/// Runs `ask` inside an engine, with the services of `host` lent to it.
fn inside<F>(host: &dyn HostServices, mut ask: F)
where
    F: FnMut(&dyn HostServices) + Send + 'static,
{
    let mut session = compressing(move |services, view, _| {
        ask(services);
        Ok(CompactionPlan::new(view.revision()))
    });
    let table = ViewTable::new(1, &[]);
    session.compress(host, &table.conversation(), &CompressRequest::default()).unwrap();
}

fn full_request() -> CompletionRequest {
    let mut request = CompletionRequest::new("digest", "prompt ö \u{0}");
    request.system = "system".to_string();
    request.model = Some(CompletionModel::MainOnPrefix);
    request.tokens_hint = u64::MAX;
    request.schema = Some(json!({ "type": "object", "b": 1, "a": 2 }));
    request
}

#[test]
fn completions_are_asked_and_answered() {
    let host = Host::default();
    inside(&host, |services| {
        assert_eq!(services.complete(&full_request()), Ok(completion("answer to prompt ö \u{0}")));
        let error = services.complete(&CompletionRequest::new("fails", "")).unwrap_err();
        let expected =
            EngineError::new(ErrorKind::Summariser, "no model answered").with_hint("wait").retry_after_ms(1_500);
        assert_eq!(error, expected);
    });
    assert_eq!(host.take(), [format!("{:?}", full_request()), format!("{:?}", CompletionRequest::new("fails", ""))]);
}

#[test]
fn several_completions_come_back_in_their_order_each_with_its_own_outcome() {
    let host = Host::default();
    inside(&host, |services| {
        let requests: Vec<CompletionRequest> = ["a", "b", "c"]
            .iter()
            .map(|name| CompletionRequest::new(if *name == "b" { "fails" } else { "map" }, *name))
            .collect();
        let answers = services.complete_many(&requests);
        assert_eq!(answers.len(), 3);
        assert_eq!(answers[0], Ok(completion("answer to a")));
        assert_eq!(answers[1].as_ref().unwrap_err().kind, ErrorKind::Summariser);
        assert_eq!(answers[1].as_ref().unwrap_err().retry_after_ms, 1_500);
        assert_eq!(answers[2], Ok(completion("answer to c")));
        assert_eq!(services.complete_many(&[]), Vec::new());
    });
    let asked = host.take();
    // All three crossed at once, so a host may ask them side by side.
    assert_eq!((asked[0].as_str(), asked[4].as_str(), asked.len()), ("3 at once", "0 at once", 5));
}

#[test]
fn tokens_are_counted_one_by_one_and_in_a_batch() {
    let host = Host::default();
    inside(&host, |services| {
        assert_eq!((services.count_tokens(""), services.count_tokens("öö")), (0, 2));
        assert_eq!(services.count_tokens_batch(&["", "a", "😀b"]), [1, 2, 3]);
        assert_eq!(services.count_tokens_batch(&[]), Vec::<u64>::new());
    });
    assert_eq!(host.take(), ["batch of 3", "batch of 0"]);
}

#[test]
fn every_question_of_recall_is_asked_and_answered() {
    let mut search = RecallSearch::new("pattern \"ö\"");
    search.regex = true;
    search.role = Some(Role::Tool);
    search.tool = Some("read".to_string());
    search.compacted_only = true;
    search.node = Some(NodeId(4));
    search.offset = 5;
    search.limit = u64::MAX;
    let questions = vec![
        RecallRequest::search(search),
        RecallRequest::search(RecallSearch::default()),
        RecallRequest::get(MessageId(u64::MAX)),
        RecallRequest::expand(NodeId(7), 1, 2),
        RecallRequest::describe(NodeId(0)),
    ];
    let host = Host::default();
    let expected: Vec<String> = questions.iter().map(|question| format!("{:?}", question)).collect();
    inside(&host, move |services| {
        for question in &questions {
            assert_eq!(services.recall(question), Ok(recall_reply()));
        }
    });
    assert_eq!(host.take(), expected);
}

#[test]
fn state_is_kept_as_bytes() {
    let host = Host::default();
    inside(&host, |services| {
        assert_eq!(services.state_get("absent"), Ok(None));
        for (key, value) in [("", &[][..]), ("key ö", &[0, 255, 10]), ("large", &[7; 1_000_000])] {
            assert_eq!(services.state_put(key, value), Ok(()));
            assert_eq!(services.state_get(key), Ok(Some(value.to_vec())));
        }
        let error = EngineError::new(ErrorKind::Storage, "the state is locked");
        assert_eq!(services.state_get("locked"), Err(error.clone()));
        assert_eq!(services.state_put("locked", &[1]), Err(error));
    });
    assert_eq!(host.state.lock().unwrap()["key ö"], [0, 255, 10]);
}

#[test]
fn the_plain_services_answer() {
    let host = Host::default();
    inside(&host, |services| {
        assert_eq!(services.data_dir().unwrap(), "/data/ö");
        assert_eq!(services.settings(), json!({ "b": 1, "a": [true, null, 0.5, "ö"] }));
        assert_eq!(services.host_info(), json!({ "name": "test host" }));
        assert_eq!(services.redact("a secret ö"), "a *** ö");
        assert_eq!((services.now_unix_ms(), services.monotonic_ms()), (1_234_567_890_123, u64::MAX - 1));
        assert_eq!((services.cancelled(), services.remaining_ms()), (true, 321));
        assert_eq!(check_cancelled(services).unwrap_err().kind, ErrorKind::Cancelled);
        for level in [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace] {
            services.log(level, "said ö", &json!({ "n": 1 }));
        }
        services.progress(3, u64::MAX, "half ö");
        for value in [1.5, f64::INFINITY, -0.0] {
            assert!(services.metric("size", value));
        }
    });
    assert_eq!(
        host.take(),
        [
            "log error said ö {\"n\":1}",
            "log warn said ö {\"n\":1}",
            "log info said ö {\"n\":1}",
            "log debug said ö {\"n\":1}",
            "log trace said ö {\"n\":1}",
            "progress 3/18446744073709551615 half ö",
            "metric size 1.5",
            "metric size inf",
            "metric size -0.0",
        ]
    );
}

#[test]
fn services_may_be_called_from_an_engines_own_threads() {
    let host = Host::default();
    inside(&host, |services| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| services.count_tokens("four"))).collect();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 4));
        });
    });
}

/// A host in which everything is broken.
struct Broken;

impl HostServices for Broken {
    fn complete(&self, _: &CompletionRequest) -> Result<engine_api::Completion, EngineError> {
        panic!("the model is on fire")
    }
    fn count_tokens(&self, _: &str) -> u64 {
        panic!()
    }
    fn recall(&self, _: &RecallRequest) -> Result<engine_api::RecallReply, EngineError> {
        panic!("{}", "no recall")
    }
    fn state_get(&self, _: &str) -> Result<Option<Vec<u8>>, EngineError> {
        panic!()
    }
    fn state_put(&self, _: &str, _: &[u8]) -> Result<(), EngineError> {
        panic!()
    }
    fn data_dir(&self) -> Result<String, EngineError> {
        panic!()
    }
    fn settings(&self) -> engine_api::json::Value {
        panic!()
    }
    fn redact(&self, _: &str) -> String {
        panic!()
    }
    fn log(&self, _: LogLevel, _: &str, _: &engine_api::json::Value) {
        panic!()
    }
    fn progress(&self, _: u64, _: u64, _: &str) {
        panic!()
    }
    fn now_unix_ms(&self) -> u64 {
        panic!()
    }
    fn monotonic_ms(&self) -> u64 {
        panic!()
    }
    fn cancelled(&self) -> bool {
        panic!()
    }
    fn remaining_ms(&self) -> u64 {
        panic!()
    }
    fn host_info(&self) -> engine_api::json::Value {
        panic!()
    }
    fn metric(&self, _: &str, _: f64) -> bool {
        panic!()
    }
}

#[test]
fn a_panic_in_a_service_is_an_error_in_the_engine_or_its_careful_default() {
    inside(&Broken, |services| {
        let error = services.complete(&CompletionRequest::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Service);
        assert!(error.message.contains("a host service panicked: the model is on fire"), "{}", error.message);
        assert!(error.message.contains("services.rs:"), "{}", error.message);
        let several = services.complete_many(&[CompletionRequest::default(), CompletionRequest::default()]);
        assert!(several.len() == 2 && several.iter().all(|one| one.as_ref().unwrap_err().kind == ErrorKind::Service));
        let recall = RecallRequest::get(MessageId(1));
        assert_eq!(services.recall(&recall).unwrap_err().kind, ErrorKind::Service);
        assert_eq!(services.state_get("k").unwrap_err().kind, ErrorKind::Service);
        assert_eq!(services.state_put("k", &[]).unwrap_err().kind, ErrorKind::Service);
        assert_eq!(services.data_dir().unwrap_err().kind, ErrorKind::Service);
        // Never less than there is, so that no budget is overrun.
        assert_eq!((services.count_tokens("four"), services.count_tokens_batch(&["ab", ""])), (4, vec![2, 0]));
        // Nothing leaves unredacted, and work ends.
        assert_eq!(
            (services.redact("a secret"), services.cancelled(), services.remaining_ms()),
            (String::new(), true, 0)
        );
        assert_eq!((services.settings(), services.host_info()), (json!(null), json!(null)));
        assert_eq!((services.now_unix_ms(), services.monotonic_ms(), services.metric("m", 1.0)), (0, 0, false));
        services.log(LogLevel::Error, "x", &json!(null));
        services.progress(0, 0, "");
    });
}
