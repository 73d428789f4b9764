//! Host services across the boundary: the host's side lends them, the engine's side wraps what it was lent.

use super::{guard, RawResult, RawServices, ServicesRef};
use crate::error::{EngineError, ErrorKind};
use crate::services::{Completion, CompletionRequest, HostServices, LogLevel, RecallReply, RecallRequest};
use abi_stable::sabi_types::RRef;
use abi_stable::std_types::{ROption, RResult, RSlice, RStr, RString, RVec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The host's side: safe services behind raw methods. A panic in a service would end the process if it crossed.
pub(super) struct Lent<'a>(pub(super) &'a dyn HostServices);

impl<'a> Lent<'a> {
    pub(super) fn lend(&'a self) -> ServicesRef<'a> {
        ServicesRef::from_ptr(RRef::new(self), abi_stable::erased_types::TD_Opaque)
    }
}

/// One answer of several, since a plain `Result` has no JSON of its own.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Done(Completion),
    Failed(EngineError),
}

fn service<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    guard::catch(work).map_err(|error| {
        if error.kind == ErrorKind::Panicked {
            return EngineError::new(ErrorKind::Service, error.message.replace("the engine", "a host service"));
        }
        error
    })
}

pub(super) fn raw<T>(result: Result<T, EngineError>) -> RawResult<T> {
    match result {
        Ok(value) => RResult::ROk(value),
        Err(error) => RResult::RErr(error.into()),
    }
}

pub(super) fn safe<T>(result: RawResult<T>) -> Result<T, EngineError> {
    match result {
        RResult::ROk(value) => Ok(value),
        RResult::RErr(error) => Err(error.into()),
    }
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, EngineError> {
    serde_json::from_str(text)
        .map_err(|error| EngineError::new(ErrorKind::Input, format!("could not read {}: {}", what, error)))
}

pub(super) fn to_json<T: Serialize>(value: &T, what: &str) -> Result<String, EngineError> {
    serde_json::to_string(value)
        .map_err(|error| EngineError::new(ErrorKind::Input, format!("could not write {}: {}", what, error)))
}

impl RawServices for Lent<'_> {
    fn complete(&self, request_json: RStr<'_>) -> RawResult<RString> {
        raw(service(|| {
            let request: CompletionRequest = from_json(request_json.as_str(), "the completion request")?;
            Ok(to_json(&self.0.complete(&request)?, "the completion")?.into())
        }))
    }
    fn complete_many(&self, requests_json: RStr<'_>) -> RawResult<RString> {
        raw(service(|| {
            let requests: Vec<CompletionRequest> = from_json(requests_json.as_str(), "the completion requests")?;
            let answers = self.0.complete_many(&requests).into_iter().map(|one| match one {
                Ok(completion) => Answer::Done(completion),
                Err(error) => Answer::Failed(error),
            });
            Ok(to_json(&answers.collect::<Vec<_>>(), "the completions")?.into())
        }))
    }
    fn count_tokens(&self, text: RStr<'_>) -> u64 {
        service(|| Ok(self.0.count_tokens(text.as_str()))).unwrap_or(text.len() as u64)
    }
    fn count_tokens_batch(&self, texts: RSlice<'_, RStr<'_>>) -> RVec<u64> {
        let plain: Vec<&str> = texts.as_slice().iter().map(|text| text.as_str()).collect();
        let counts = service(|| Ok(self.0.count_tokens_batch(&plain)));
        counts.unwrap_or_else(|_| plain.iter().map(|text| text.len() as u64).collect()).into()
    }
    fn recall(&self, request_json: RStr<'_>) -> RawResult<RString> {
        raw(service(|| {
            let request: RecallRequest = from_json(request_json.as_str(), "the recall request")?;
            Ok(to_json(&self.0.recall(&request)?, "the recall reply")?.into())
        }))
    }
    fn state_get(&self, key: RStr<'_>) -> RawResult<ROption<RVec<u8>>> {
        raw(service(|| Ok(self.0.state_get(key.as_str())?.map(RVec::from).into())))
    }
    fn state_put(&self, key: RStr<'_>, value: RSlice<'_, u8>) -> RawResult<()> {
        raw(service(|| self.0.state_put(key.as_str(), value.as_slice())))
    }
    fn data_dir(&self) -> RawResult<RString> {
        raw(service(|| Ok(self.0.data_dir()?.into())))
    }
    fn settings(&self) -> RString {
        service(|| to_json(&self.0.settings(), "the settings")).unwrap_or_else(|_| "null".to_string()).into()
    }
    fn redact(&self, text: RStr<'_>) -> RString {
        // Without an answer nothing may leave, so a failing redactor blanks the text.
        service(|| Ok(self.0.redact(text.as_str()))).unwrap_or_default().into()
    }
    fn log(&self, level: u32, message: RStr<'_>, fields_json: RStr<'_>) {
        let _ = service(|| {
            let fields: Value = serde_json::from_str(fields_json.as_str()).unwrap_or(Value::Null);
            self.0.log(LogLevel::from_code(level), message.as_str(), &fields);
            Ok(())
        });
    }
    fn progress(&self, done: u64, total: u64, note: RStr<'_>) {
        let _ = service(|| {
            self.0.progress(done, total, note.as_str());
            Ok(())
        });
    }
    fn now_unix_ms(&self) -> u64 {
        service(|| Ok(self.0.now_unix_ms())).unwrap_or(0)
    }
    fn monotonic_ms(&self) -> u64 {
        service(|| Ok(self.0.monotonic_ms())).unwrap_or(0)
    }
    fn cancelled(&self) -> bool {
        service(|| Ok(self.0.cancelled())).unwrap_or(true)
    }
    fn remaining_ms(&self) -> u64 {
        service(|| Ok(self.0.remaining_ms())).unwrap_or(0)
    }
    fn host_info(&self) -> RString {
        service(|| to_json(&self.0.host_info(), "the host's info")).unwrap_or_else(|_| "null".to_string()).into()
    }
    fn metric(&self, name: RStr<'_>, value: f64) -> bool {
        service(|| Ok(self.0.metric(name.as_str(), value))).unwrap_or(false)
    }
}

/// The engine's side: what it was lent, as safe services.
pub(super) struct Borrowed<'a>(pub(super) ServicesRef<'a>);

impl HostServices for Borrowed<'_> {
    fn complete(&self, request: &CompletionRequest) -> Result<Completion, EngineError> {
        let answer = safe(self.0.complete(to_json(request, "the completion request")?.as_str().into()))?;
        from_json(answer.as_str(), "the completion")
    }
    fn complete_many(&self, requests: &[CompletionRequest]) -> Vec<Result<Completion, EngineError>> {
        let asked = to_json(&requests, "the completion requests")
            .and_then(|text| safe(self.0.complete_many(text.as_str().into())))
            .and_then(|text| from_json::<Vec<Answer>>(text.as_str(), "the completions"));
        match asked {
            Ok(answers) => answers
                .into_iter()
                .map(|one| match one {
                    Answer::Done(completion) => Ok(completion),
                    Answer::Failed(error) => Err(error),
                })
                .collect(),
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }
    fn count_tokens(&self, text: &str) -> u64 {
        self.0.count_tokens(text.into())
    }
    fn count_tokens_batch(&self, texts: &[&str]) -> Vec<u64> {
        let raw: Vec<RStr<'_>> = texts.iter().map(|text| RStr::from(*text)).collect();
        self.0.count_tokens_batch(raw.as_slice().into()).into_vec()
    }
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        let answer = safe(self.0.recall(to_json(request, "the recall request")?.as_str().into()))?;
        from_json(answer.as_str(), "the recall reply")
    }
    fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(safe(self.0.state_get(key.into()))?.into_option().map(RVec::into_vec))
    }
    fn state_put(&self, key: &str, value: &[u8]) -> Result<(), EngineError> {
        safe(self.0.state_put(key.into(), value.into()))
    }
    fn data_dir(&self) -> Result<String, EngineError> {
        Ok(safe(self.0.data_dir())?.into_string())
    }
    fn settings(&self) -> Value {
        serde_json::from_str(self.0.settings().as_str()).unwrap_or(Value::Null)
    }
    fn redact(&self, text: &str) -> String {
        self.0.redact(text.into()).into_string()
    }
    fn log(&self, level: LogLevel, message: &str, fields: &Value) {
        self.0.log(level.code(), message.into(), fields.to_string().as_str().into());
    }
    fn progress(&self, done: u64, total: u64, note: &str) {
        self.0.progress(done, total, note.into());
    }
    fn now_unix_ms(&self) -> u64 {
        self.0.now_unix_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.0.monotonic_ms()
    }
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
    fn remaining_ms(&self) -> u64 {
        self.0.remaining_ms()
    }
    fn host_info(&self) -> Value {
        serde_json::from_str(self.0.host_info().as_str()).unwrap_or(Value::Null)
    }
    fn metric(&self, name: &str, value: f64) -> bool {
        self.0.metric(name.into(), value)
    }
}
