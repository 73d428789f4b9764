//! OpenCode's compaction: old tool results are hidden first, then one summary under five headings takes the older part.
//!
//! Results before the last two turns and beyond a protected amount become a short notice, the data stay with the host
//! (`hide`). If that is not enough, the newest turns stay within a budget (`plan`) and a model condenses the rest from
//! a plain rendering in which results are cut (`material`, `summary`); without a model the kit's outline does. Each
//! summary replaces all earlier ones, wherever they stand.
//!
//! Unlike its model it keeps the original request, never goes on by itself after a finished turn, and lands under its
//! target after an overflow. `as_original` turns the program's own figures, headings and lead-in on.

mod answer;
mod budget;
mod hide;
mod material;
mod plan;
mod session;
mod settings;
mod summary;

use engine_api::{
    ContextEngine, EngineError, EngineInfo, EngineSession, HostServices, SessionStart, SettingDiagnostic, capability,
    json,
};
pub use settings::{Headings, KEYS, Key, Kind, Settings};

/// The name that `context.engine` selects.
pub const NAME: &str = "opencode";

/// Makes the engine with the user's settings; wrong ones count as absent, and `check_config` names them.
///
/// # Errors
/// There is none today; the signature is that of every engine.
pub fn new(settings: &json::Value) -> Result<OpenCode, EngineError> {
    Ok(OpenCode { settings: Settings::read(settings).0 })
}

#[cfg(all(feature = "plugin", not(test)))]
engine_api::export_engine!(name = "opencode", new = crate::new);

/// The engine.
#[derive(Debug)]
pub struct OpenCode {
    settings: Settings,
}

impl ContextEngine for OpenCode {
    fn info(&self) -> EngineInfo {
        EngineInfo::new(NAME, env!("CARGO_PKG_VERSION"), "old tool results hidden first, then a five-section summary")
            .with(capability::COMPLETES)
            .with(capability::PRUNES)
    }
    fn open_session(
        &self,
        _services: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError> {
        let settings =
            if start.settings.is_object() { Settings::read(&start.settings).0 } else { self.settings.clone() };
        Ok(Box::new(session::OpenCodeSession::new(settings, &start.model)))
    }
    fn check_config(&self, settings: &json::Value) -> Vec<SettingDiagnostic> {
        Settings::read(settings).1
    }
    fn self_test(&self, services: &dyn HostServices) -> Result<String, EngineError> {
        session::self_test(&self.settings, services)
    }
}

#[cfg(test)]
mod tests;
