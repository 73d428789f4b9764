//! A host that notes what it is asked and answers each service in a way of its own.

use engine_api::json::{json, Value};
use engine_api::{
    Completion, CompletionRequest, EngineError, ErrorKind, HostServices, LogLevel, MessageId, NodeId, RecallHit,
    RecallReply, RecallRequest, Role,
};
use std::collections::BTreeMap;
use std::sync::Mutex;

#[derive(Default)]
pub(crate) struct Host {
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) state: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Host {
    fn note(&self, text: String) {
        self.asked.lock().unwrap().push(text);
    }
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

pub(crate) fn completion(text: &str) -> Completion {
    let mut completion = Completion::default();
    completion.text = text.to_string();
    completion.model = "model-ü".to_string();
    completion.finish_reason = "length".to_string();
    completion.usage.prompt_tokens = u64::MAX;
    completion.usage.reasoning_tokens = 7;
    completion
}

pub(crate) fn recall_reply() -> RecallReply {
    let mut hit = RecallHit::new(MessageId(u64::MAX), NodeId(3), Role::Tool, "found \"it\" \u{0}");
    hit.tool = "read_file".to_string();
    hit.tokens = 12;
    let mut reply = RecallReply::default();
    reply.hits = vec![hit, RecallHit::default()];
    reply.total = 99;
    reply.node = json!({ "depth": 2, "deep": [1, [2, { "three": null }]] });
    reply
}

impl HostServices for Host {
    fn complete(&self, request: &CompletionRequest) -> Result<Completion, EngineError> {
        self.note(format!("{:?}", request));
        if request.task == "fails" {
            let error = EngineError::new(ErrorKind::Summariser, "no model answered").with_hint("wait");
            return Err(error.retry_after_ms(1_500));
        }
        Ok(completion(&format!("answer to {}", request.prompt)))
    }
    fn complete_many(&self, requests: &[CompletionRequest]) -> Vec<Result<Completion, EngineError>> {
        self.note(format!("{} at once", requests.len()));
        requests.iter().map(|request| self.complete(request)).collect()
    }
    fn count_tokens(&self, text: &str) -> u64 {
        text.chars().count() as u64
    }
    fn count_tokens_batch(&self, texts: &[&str]) -> Vec<u64> {
        self.note(format!("batch of {}", texts.len()));
        texts.iter().map(|text| self.count_tokens(text) + 1).collect()
    }
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        self.note(format!("{:?}", request));
        Ok(recall_reply())
    }
    fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
        if key == "locked" {
            return Err(EngineError::new(ErrorKind::Storage, "the state is locked"));
        }
        Ok(self.state.lock().unwrap().get(key).cloned())
    }
    fn state_put(&self, key: &str, value: &[u8]) -> Result<(), EngineError> {
        if key == "locked" {
            return Err(EngineError::new(ErrorKind::Storage, "the state is locked"));
        }
        self.state.lock().unwrap().insert(key.to_string(), value.to_vec());
        Ok(())
    }
    fn data_dir(&self) -> Result<String, EngineError> {
        Ok("/data/ö".to_string())
    }
    fn settings(&self) -> Value {
        json!({ "b": 1, "a": [true, null, 0.5, "ö"] })
    }
    fn redact(&self, text: &str) -> String {
        text.replace("secret", "***")
    }
    fn log(&self, level: LogLevel, message: &str, fields: &Value) {
        self.note(format!("log {} {} {}", level, message, fields));
    }
    fn progress(&self, done: u64, total: u64, note: &str) {
        self.note(format!("progress {}/{} {}", done, total, note));
    }
    fn now_unix_ms(&self) -> u64 {
        1_234_567_890_123
    }
    fn monotonic_ms(&self) -> u64 {
        u64::MAX - 1
    }
    fn cancelled(&self) -> bool {
        true
    }
    fn remaining_ms(&self) -> u64 {
        321
    }
    fn host_info(&self) -> Value {
        json!({ "name": "test host" })
    }
    fn metric(&self, name: &str, value: f64) -> bool {
        self.note(format!("metric {} {:?}", name, value));
        true
    }
}
