//! Lossless context management: a tree of summaries over a conversation whose messages stay findable.
//!
//! The newest messages stay word for word (the *fresh tail*); the rest becomes leaf summaries of about equal stretches,
//! and when those grow many, neighbours are condensed into one of greater depth (`tree`, `drafts`). Each text comes from
//! a model if one answers well, and is made without one otherwise, so a compaction always ends, and always under its
//! target (`write`). The host keeps messages and tree; `tools` searches and returns them, and asks a model about many
//! items at once.

mod carry;
mod drafts;
mod patterns;
mod self_test;
mod session;
mod settings;
mod threshold;
mod tools;
mod tree;
mod write;

use engine_api::{
    ContextEngine, EngineError, EngineInfo, EngineSession, HostServices, SessionStart, SettingDiagnostic, ToolSchema,
    capability, json,
};
pub use patterns::{Glob, MessagePatterns};
pub use settings::{Dialect, KEYS, Key, Kind, Settings};

/// The name that `context.engine` selects.
pub const NAME: &str = "lcm";
/// Other names it answers to: those of the plugins that people come from.
pub const ALIASES: [&str; 3] = ["lcm-x", "hermes-lcm", "lossless-claw"];

/// Makes the engine with the user's settings; wrong ones count as absent, and `check_config` names them.
///
/// # Errors
/// There is none today; the signature is that of every engine.
pub fn new(settings: &json::Value) -> Result<Lcm, EngineError> {
    Ok(Lcm { settings: Settings::read(settings).0 })
}

#[cfg(all(feature = "plugin", not(test)))]
engine_api::export_engine!(name = "lcm", new = crate::new);

/// The engine.
#[derive(Debug)]
pub struct Lcm {
    settings: Settings,
}

impl ContextEngine for Lcm {
    fn info(&self) -> EngineInfo {
        let mut info =
            EngineInfo::new(NAME, env!("CARGO_PKG_VERSION"), "a tree of summaries over messages that stay findable")
                .with(capability::COMPLETES)
                .with(capability::TOOLS)
                .with(capability::SUMMARY_DAG)
                .with(capability::SELECTS);
        info.aliases = ALIASES.map(str::to_string).to_vec();
        info
    }
    fn open_session(
        &self,
        _services: &dyn HostServices,
        start: &SessionStart,
    ) -> Result<Box<dyn EngineSession>, EngineError> {
        let settings =
            if start.settings.is_object() { Settings::read(&start.settings).0 } else { self.settings.clone() };
        Ok(Box::new(session::LcmSession::new(settings, start)))
    }
    fn tool_schemas(&self) -> Vec<ToolSchema> {
        tools::schemas()
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
