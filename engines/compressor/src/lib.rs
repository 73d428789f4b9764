//! The built-in engine: Hermes' compressor, in four phases, with its dead ends removed.
//!
//! Old tool results become one line each (`prune`), the newest messages and the head stay word for word
//! (`boundaries`), a model or the outline writes one summary of what lies between (`summary`), and all of it
//! becomes a plan that fits its target (`assemble`). A later compaction continues the summary of the earlier one.
//!
//! Unlike its model it never refuses because there are few messages: a conversation of one giant tool result gets
//! smaller too. It works without any model, and then its summary is made of quotes and lists.

mod assemble;
mod boundaries;
mod budget;
mod date;
mod index;
mod prompt;
mod prune;
mod session;
mod settings;
mod summary;

use engine_api::{
    ContextEngine, EngineError, EngineInfo, EngineSession, HostServices, SessionStart, SettingDiagnostic, capability,
    json,
};
pub use settings::{Settings, TailMode};

/// The name that `context.engine` selects.
pub const NAME: &str = "compressor";

/// Makes the engine with the user's settings; wrong ones count as absent, and `check_config` names them.
///
/// # Errors
/// There is none today; the signature is that of every engine.
pub fn new(settings: &json::Value) -> Result<Compressor, EngineError> {
    Ok(Compressor { settings: Settings::read(settings).0 })
}

/// The engine.
#[derive(Debug)]
pub struct Compressor {
    settings: Settings,
}

impl ContextEngine for Compressor {
    fn info(&self) -> EngineInfo {
        EngineInfo::new(
            NAME,
            env!("CARGO_PKG_VERSION"),
            "one running summary of the older part, newest messages word for word",
        )
        .with(capability::COMPLETES)
        .with(capability::PRUNES)
    }
    fn open_session(
        &self,
        _services: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError> {
        let settings = if start.settings.is_object() { Settings::read(&start.settings).0 } else { self.settings };
        Ok(Box::new(session::CompressorSession::new(settings)))
    }
    fn check_config(&self, settings: &json::Value) -> Vec<SettingDiagnostic> {
        Settings::read(settings).1
    }
    fn self_test(&self, services: &dyn HostServices) -> Result<String, EngineError> {
        session::self_test(self.settings, services)
    }
}

#[cfg(test)]
mod tests;
