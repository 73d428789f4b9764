//! Codex' way to compact: a handoff for the next context window, beside the user's own words.
//!
//! The user's messages stay word for word under a budget of tokens, newest first, the one that crosses it cut in its
//! middle; instructions, rules and environment stay where they are; one handoff stands for everything else (`choose`,
//! `plan`). An earlier handoff is continued and never quoted. A model writes it, on the live prefix or from material of
//! the size of its window (`prompt`, `summary`); whatever goes wrong with that, an outline takes its place.
//!
//! Unlike its model it keeps the newest work too, refuses an empty handoff, and when even that is too much gives up the
//! user's oldest messages before the task and the rules.

mod answer;
mod budget;
mod canonical;
mod choose;
mod cut;
mod plan;
mod prompt;
mod prune;
mod self_test;
mod session;
mod settings;
mod summary;
mod threshold;

use engine_api::{
    ContextEngine, EngineError, EngineInfo, EngineSession, HostServices, SessionStart, SettingDiagnostic, capability,
    json,
};
pub use settings::{KEYS, Key, Kind, Settings};

/// The name that `context.engine` selects.
pub const NAME: &str = "codex";

/// Makes the engine with the user's settings; wrong ones count as absent, and `check_config` names them.
///
/// # Errors
/// There is none today; the signature is that of every engine.
pub fn new(settings: &json::Value) -> Result<Codex, EngineError> {
    Ok(Codex { settings: Settings::read(settings).0 })
}

#[cfg(all(feature = "plugin", not(test)))]
engine_api::export_engine!(name = "codex", new = crate::new);

/// The engine.
#[derive(Debug)]
pub struct Codex {
    settings: Settings,
}

impl ContextEngine for Codex {
    fn info(&self) -> EngineInfo {
        let line = "a handoff for the next window beside the user's messages, as Codex compacts";
        EngineInfo::new(NAME, env!("CARGO_PKG_VERSION"), line).with(capability::COMPLETES).with(capability::PRUNES)
    }
    fn open_session(
        &self,
        _services: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError> {
        let settings =
            if start.settings.is_object() { Settings::read(&start.settings).0 } else { self.settings.clone() };
        Ok(Box::new(session::CodexSession::new(settings, start.model.clone())))
    }
    fn check_config(&self, settings: &json::Value) -> Vec<SettingDiagnostic> {
        Settings::read(settings).1
    }
    fn self_test(&self, services: &dyn HostServices) -> Result<String, EngineError> {
        self_test::self_test(&self.settings, services)
    }
}

#[cfg(test)]
mod tests;
