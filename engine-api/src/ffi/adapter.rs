//! The engine's side of the boundary: a safe engine behind the raw traits, with a lock and a panic guard per call.

use super::lent::{from_json, raw, to_json, Borrowed};
use super::{guard, EngineBox, EngineMod, EngineModRef, RawConversation, RawEngine, RawPlan, RawResult, RawSession};
use super::{ServicesRef, SessionBox};
use crate::engine::{ContextEngine, EngineSession};
use crate::error::{EngineError, ErrorKind};
use crate::plan::CompactionPlan;
use crate::view::Conversation;
use abi_stable::erased_types::TD_Opaque;
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::std_types::{RSlice, RStr, RString, RVec};
use serde_json::Value;
use std::sync::{Mutex, TryLockError};

/// Makes an engine from the user's settings of it.
pub type EngineMaker = Box<dyn Fn(&Value) -> Result<Box<dyn ContextEngine>, EngineError> + Send + Sync>;

/// Collects the engines of a library; see [`export_plugin!`](crate::export_plugin).
#[derive(Default)]
pub struct Registrar {
    makers: Vec<(String, EngineMaker)>,
}

impl Registrar {
    /// Registers an engine under a name. The first of a name stays.
    pub fn register_context_engine<E, F>(&mut self, name: impl Into<String>, make: F)
    where
        E: ContextEngine,
        F: Fn(&Value) -> Result<E, EngineError> + Send + Sync + 'static,
    {
        let name = name.into();
        if self.makers.iter().all(|(taken, _)| *taken != name) {
            self.makers.push((name, Box::new(move |settings| Ok(Box::new(make(settings)?)))));
        }
    }
    /// Returns the names registered, in order.
    pub fn names(&self) -> Vec<String> {
        self.makers.iter().map(|(name, _)| name.clone()).collect()
    }
    /// Makes the engine of a name; the empty name stands for the only one.
    pub fn create(&self, name: &str, settings: &Value) -> Result<Box<dyn ContextEngine>, EngineError> {
        let found = match (name, self.makers.as_slice()) {
            ("", [(_, only)]) => Some(only),
            _ => self.makers.iter().find(|(one, _)| one == name).map(|(_, maker)| maker),
        };
        match found {
            Some(maker) => maker(settings),
            None => Err(EngineError::internal(format!(
                "this library has no engine \"{}\"; it has: {}",
                name,
                self.names().join(", ")
            ))),
        }
    }
}

/// Builds the root module of a library. For the export macros.
pub fn module(
    info: extern "C" fn() -> RString,
    create: extern "C" fn(RStr<'_>, RStr<'_>) -> RawResult<EngineBox>,
    engines: extern "C" fn() -> RString,
) -> EngineModRef {
    EngineMod { info, create, engines }.leak_into_prefix()
}

/// Makes an engine behind the boundary. For the export macros.
pub fn create_engine(register: fn(&mut Registrar), name: RStr<'_>, settings_json: RStr<'_>) -> RawResult<EngineBox> {
    raw(guard::catch(|| {
        let settings: Value = from_json(settings_json.as_str(), "the engine's settings")?;
        let mut registrar = Registrar::default();
        register(&mut registrar);
        let engine = registrar.create(name.as_str(), &settings)?;
        Ok(EngineBox::from_value(EngineAdapter(Guarded(Some(engine))), TD_Opaque))
    }))
}

/// Returns the names of a library's engines as JSON. For the export macros.
pub fn engine_names(register: fn(&mut Registrar)) -> RString {
    let names = guard::catch(|| {
        let mut registrar = Registrar::default();
        register(&mut registrar);
        to_json(&registrar.names(), "the engines' names")
    });
    names.unwrap_or_else(|_| "[]".to_string()).into()
}

/// Returns a library's info as JSON. For the export macros.
pub fn library_info(name: &str, version: &str, panic: &str) -> RString {
    serde_json::json!({ "name": name, "version": version, "engine_api": crate::API_VERSION, "panic": panic })
        .to_string()
        .into()
}

/// Something of the engine's whose drop may panic: a panic that left the library would end the process.
struct Guarded<T>(Option<T>);

impl<T> Guarded<T> {
    fn get(&self) -> Result<&T, EngineError> {
        self.0.as_ref().ok_or_else(|| EngineError::internal("the engine was dropped already"))
    }
    fn get_mut(&mut self) -> Result<&mut T, EngineError> {
        self.0.as_mut().ok_or_else(|| EngineError::internal("the engine was dropped already"))
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let inner = self.0.take();
        let _ = guard::catch(|| {
            drop(inner);
            Ok(())
        });
    }
}

struct EngineAdapter(Guarded<Box<dyn ContextEngine>>);

impl RawEngine for EngineAdapter {
    fn info(&self) -> RString {
        guard::catch(|| to_json(&self.0.get()?.info(), "the engine's info"))
            .unwrap_or_else(|_| "null".to_string())
            .into()
    }
    fn open_session(&self, services: ServicesRef<'_>, start_json: RStr<'_>) -> RawResult<SessionBox> {
        raw(guard::catch(|| {
            let start = from_json(start_json.as_str(), "the session's start")?;
            let session = self.0.get()?.open_session(&Borrowed(services), &start)?;
            Ok(SessionBox::from_value(SessionAdapter(Mutex::new(Guarded(Some(session)))), TD_Opaque))
        }))
    }
    fn tool_schemas(&self) -> RawResult<RString> {
        raw(guard::catch(|| Ok(to_json(&self.0.get()?.tool_schemas(), "the tool schemas")?.into())))
    }
    fn check_config(&self, settings_json: RStr<'_>) -> RawResult<RString> {
        raw(guard::catch(|| {
            let settings = from_json(settings_json.as_str(), "the engine's settings")?;
            Ok(to_json(&self.0.get()?.check_config(&settings), "the remarks")?.into())
        }))
    }
    fn status(&self) -> RawResult<RString> {
        raw(guard::catch(|| Ok(to_json(&self.0.get()?.status(), "the status")?.into())))
    }
    fn shutdown(&self) -> RawResult<()> {
        raw(guard::catch(|| {
            self.0.get()?.shutdown();
            Ok(())
        }))
    }
    fn self_test(&self, services: ServicesRef<'_>) -> RawResult<RString> {
        raw(guard::catch(|| Ok(self.0.get()?.self_test(&Borrowed(services))?.into())))
    }
}

/// The lock is only ever tried: a re-entrant call, from inside a host service of the same session, must fail and not
/// wait for itself.
struct SessionAdapter(Mutex<Guarded<Box<dyn EngineSession>>>);

impl SessionAdapter {
    fn with<T>(&self, work: impl FnOnce(&mut dyn EngineSession) -> Result<T, EngineError>) -> RawResult<T> {
        raw(guard::catch(|| match self.0.try_lock() {
            Ok(mut session) => work(session.get_mut()?.as_mut()),
            Err(TryLockError::WouldBlock) => Err(EngineError::new(
                ErrorKind::Busy,
                "the engine's session is in another call (re-entrant or concurrent)",
            )),
            Err(TryLockError::Poisoned(_)) => Err(EngineError::new(
                ErrorKind::Panicked,
                "the engine's session panicked in an earlier call and is not used again",
            )),
        }))
    }
    fn plan<R: serde::de::DeserializeOwned>(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        request_json: RStr<'_>,
        ask: impl FnOnce(
            &mut dyn EngineSession,
            &Borrowed<'_>,
            &Conversation<'_>,
            &R,
        ) -> Result<CompactionPlan, EngineError>,
    ) -> RawResult<RawPlan> {
        self.with(|session| {
            let request = from_json(request_json.as_str(), "the request")?;
            Ok(ask(session, &Borrowed(services), &Conversation::from_raw(conversation), &request)?.into())
        })
    }
}

impl RawSession for SessionAdapter {
    fn compress(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        request_json: RStr<'_>,
    ) -> RawResult<RawPlan> {
        self.plan(services, conversation, request_json, |session, lent, view, request| {
            session.compress(lent, view, request)
        })
    }
    fn prune_tool_results(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        request_json: RStr<'_>,
    ) -> RawResult<RawPlan> {
        self.plan(services, conversation, request_json, |session, lent, view, request| {
            session.prune_tool_results(lent, view, request)
        })
    }
    fn select_context(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        request_json: RStr<'_>,
    ) -> RawResult<RawPlan> {
        self.plan(services, conversation, request_json, |session, lent, view, request| {
            session.select_context(lent, view, request)
        })
    }
    fn should_compress(&self, prompt_tokens_json: RStr<'_>) -> RawResult<RString> {
        self.with(|session| {
            let tokens = from_json(prompt_tokens_json.as_str(), "the prompt tokens")?;
            Ok(to_json(&session.should_compress(tokens), "the decision")?.into())
        })
    }
    fn should_compress_preflight(&self, conversation: RawConversation<'_>, rough_json: RStr<'_>) -> RawResult<RString> {
        self.with(|session| {
            let tokens = from_json(rough_json.as_str(), "the prompt tokens")?;
            let decision = session.should_compress_preflight(&Conversation::from_raw(conversation), tokens);
            Ok(to_json(&decision, "the decision")?.into())
        })
    }
    fn should_defer_preflight(&self, rough_json: RStr<'_>) -> RawResult<bool> {
        self.with(|session| Ok(session.should_defer_preflight(from_json(rough_json.as_str(), "the prompt tokens")?)))
    }
    fn has_content_to_compress(&self, conversation: RawConversation<'_>) -> RawResult<bool> {
        self.with(|session| Ok(session.has_content_to_compress(&Conversation::from_raw(conversation))))
    }
    fn ingest(&self, services: ServicesRef<'_>, conversation: RawConversation<'_>, first_new: u64) -> RawResult<()> {
        self.with(|session| {
            let first_new = usize::try_from(first_new).unwrap_or(usize::MAX);
            session.ingest(&Borrowed(services), &Conversation::from_raw(conversation), first_new)
        })
    }
    fn update_from_response(&self, usage_json: RStr<'_>) -> RawResult<()> {
        self.with(|session| {
            session.update_from_response(&from_json(usage_json.as_str(), "the usage")?);
            Ok(())
        })
    }
    fn update_model(&self, model_json: RStr<'_>) -> RawResult<()> {
        self.with(|session| {
            session.update_model(&from_json(model_json.as_str(), "the model")?);
            Ok(())
        })
    }
    fn on_session_start(&self, services: ServicesRef<'_>, start_json: RStr<'_>) -> RawResult<()> {
        self.with(|session| {
            session.on_session_start(&Borrowed(services), &from_json(start_json.as_str(), "the session's start")?)
        })
    }
    fn on_lifecycle(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        event_json: RStr<'_>,
    ) -> RawResult<()> {
        self.with(|session| {
            let event = from_json(event_json.as_str(), "the event")?;
            session.on_lifecycle(&Borrowed(services), &Conversation::from_raw(conversation), &event)
        })
    }
    fn carry_over(&self, services: ServicesRef<'_>, from_session_id: RStr<'_>) -> RawResult<()> {
        self.with(|session| session.carry_over(&Borrowed(services), from_session_id.as_str()))
    }
    fn on_turn_complete(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        end_json: RStr<'_>,
    ) -> RawResult<()> {
        self.with(|session| {
            let end = from_json(end_json.as_str(), "the turn's end")?;
            session.on_turn_complete(&Borrowed(services), &Conversation::from_raw(conversation), &end)
        })
    }
    fn plan_result(&self, result_json: RStr<'_>) -> RawResult<()> {
        self.with(|session| {
            session.plan_result(&from_json(result_json.as_str(), "the plan's result")?);
            Ok(())
        })
    }
    fn pending(&self) -> RawResult<RString> {
        self.with(|session| Ok(session.pending().to_string().into()))
    }
    fn maintain(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        budget_ms: u64,
    ) -> RawResult<bool> {
        self.with(|session| session.maintain(&Borrowed(services), &Conversation::from_raw(conversation), budget_ms))
    }
    fn handle_tool_call(
        &self,
        services: ServicesRef<'_>,
        conversation: RawConversation<'_>,
        name: RStr<'_>,
        arguments_json: RStr<'_>,
    ) -> RawResult<RString> {
        self.with(|session| {
            let arguments: Value = from_json(arguments_json.as_str(), "the tool's arguments")?;
            let view = Conversation::from_raw(conversation);
            Ok(session.handle_tool_call(&Borrowed(services), &view, name.as_str(), &arguments)?.into())
        })
    }
    fn status(&self) -> RawResult<RString> {
        self.with(|session| Ok(to_json(&session.status(), "the status")?.into()))
    }
    fn export_state(&self) -> RawResult<RVec<u8>> {
        self.with(|session| Ok(session.export_state()?.into()))
    }
    fn import_state(&self, state: RSlice<'_, u8>) -> RawResult<()> {
        self.with(|session| session.import_state(state.as_slice()))
    }
    fn subagent(&self, event_json: RStr<'_>) -> RawResult<()> {
        self.with(|session| {
            session.subagent(&from_json(event_json.as_str(), "the subagent's news")?);
            Ok(())
        })
    }
    fn control(&self, services: ServicesRef<'_>, name: RStr<'_>, arguments_json: RStr<'_>) -> RawResult<RString> {
        self.with(|session| {
            let arguments: Value = from_json(arguments_json.as_str(), "the command's arguments")?;
            Ok(session.control(&Borrowed(services), name.as_str(), &arguments)?.into())
        })
    }
}
