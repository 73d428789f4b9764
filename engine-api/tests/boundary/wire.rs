//! Puts any engine behind an exported module and takes it out on the other side.

use abi_stable::std_types::{RStr, RString};
use engine_api::ffi::{
    create_engine, engine_names, foreign_engine, library_info, module, EngineBox, EngineModRef, RawResult, Registrar,
};
use engine_api::json::{json, Value};
use engine_api::testing::FakeHost;
use engine_api::{
    CompactionPlan, CompressRequest, ContextEngine, Conversation, EngineError, EngineInfo, EngineSession, HostServices,
    SessionStart, SettingDiagnostic, ToolSchema,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Engines waiting to be made by the library, which can only make what its settings name.
static WAITING: Mutex<Option<HashMap<u64, Arc<dyn ContextEngine>>>> = Mutex::new(None);

/// Stands in the library for the engine of a test.
struct Stand(Arc<dyn ContextEngine>);

impl ContextEngine for Stand {
    fn info(&self) -> EngineInfo {
        self.0.info()
    }
    fn open_session(
        &self,
        services: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError> {
        self.0.open_session(services, start)
    }
    fn tool_schemas(&self) -> Vec<ToolSchema> {
        self.0.tool_schemas()
    }
    fn check_config(&self, settings: &Value) -> Vec<SettingDiagnostic> {
        self.0.check_config(settings)
    }
    fn status(&self) -> Value {
        self.0.status()
    }
    fn shutdown(&self) {
        self.0.shutdown()
    }
    fn self_test(&self, services: &dyn HostServices) -> Result<String, EngineError> {
        self.0.self_test(services)
    }
}

fn register(registrar: &mut Registrar) {
    registrar.register_context_engine("stand", |settings| {
        let waiting = WAITING.lock().unwrap();
        let number = settings["engine"].as_u64().ok_or_else(|| EngineError::internal("no engine is named"))?;
        let engine = waiting.as_ref().and_then(|engines| engines.get(&number));
        Ok(Stand(engine.ok_or_else(|| EngineError::internal("no such engine"))?.clone()))
    });
    registrar.register_context_engine("refuses", |settings| -> Result<Stand, EngineError> {
        Err(EngineError::new(engine_api::ErrorKind::Config, format!("settings are {}", settings))
            .with_hint("write others"))
    });
    registrar.register_context_engine("breaks", |_| -> Result<Stand, EngineError> { panic!("no engine today") });
}

extern "C" fn info() -> RString {
    library_info("test", "9.8.7", "unwind")
}
extern "C" fn create(name: RStr<'_>, settings: RStr<'_>) -> RawResult<EngineBox> {
    create_engine(register, name, settings)
}
extern "C" fn engines() -> RString {
    engine_names(register)
}

/// Returns the root module of the library.
pub(crate) fn library() -> EngineModRef {
    module(info, create, engines)
}

/// Prepares an engine to be made by the library and returns the settings that name it.
pub(crate) fn waiting(engine: impl ContextEngine) -> Value {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    WAITING.lock().unwrap().get_or_insert_with(HashMap::new).insert(number, Arc::new(engine));
    json!({ "engine": number })
}

/// Sends an engine across the boundary.
pub(crate) fn across(engine: impl ContextEngine) -> Box<dyn ContextEngine> {
    foreign_engine(library(), "stand", &waiting(engine)).unwrap()
}

/// Opens a session across the boundary.
pub(crate) fn session_across(
    session: impl FnMut() -> Box<dyn EngineSession> + Send + 'static,
) -> Box<dyn EngineSession> {
    across(Opens(Mutex::new(Box::new(session)))).open_session(&FakeHost::default(), &SessionStart::default()).unwrap()
}

type Maker = Box<dyn FnMut() -> Box<dyn EngineSession> + Send>;

/// An engine that is only there for its session.
pub(crate) struct Opens(pub(crate) Mutex<Maker>);

impl ContextEngine for Opens {
    fn info(&self) -> EngineInfo {
        EngineInfo::new("opens", "0.1.0", "")
    }
    fn open_session(&self, _: &dyn HostServices, _: &SessionStart) -> Result<Box<dyn EngineSession>, EngineError> {
        Ok((self.0.lock().unwrap())())
    }
}

type Compress =
    dyn FnMut(&dyn HostServices, &Conversation<'_>, &CompressRequest) -> Result<CompactionPlan, EngineError> + Send;

/// A session whose plan is made by a closure.
pub(crate) struct Compresses(pub(crate) Box<Compress>);

impl EngineSession for Compresses {
    fn compress(
        &mut self,
        services: &dyn HostServices,
        conversation: &Conversation<'_>,
        request: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        (self.0)(services, conversation, request)
    }
}

/// Opens a session across the boundary whose plan is made by a closure.
pub(crate) fn compressing<F>(compress: F) -> Box<dyn EngineSession>
where
    F: FnMut(&dyn HostServices, &Conversation<'_>, &CompressRequest) -> Result<CompactionPlan, EngineError>
        + Send
        + 'static,
{
    let mut session = Some(Compresses(Box::new(compress)));
    session_across(move || Box::new(session.take().unwrap()))
}
