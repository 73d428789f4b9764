//! Engines that misbehave, one way each, and one that does not: for the tests of the host.
//!
//! They are written as a third party would write them. As a library they are a general plugin; linked in they come
//! from [`all`].
#![forbid(unsafe_code)]

mod plans;

use engine_api::{
    CompactionPlan, CompressRequest, ContextEngine, Conversation, EngineError, EngineInfo, EngineSession, HostServices,
    Registrar, SessionStart, ToolSchema, json,
};
use plans::Answer;

#[cfg(feature = "plugin")]
engine_api::export_plugin!(name = "bad", register = crate::register);

/// The engine that behaves.
pub const SOUND: &str = "sound";
/// Cannot be made at all.
pub const PANICS_IN_NEW: &str = "panics-in-new";
/// Opens no session.
pub const PANICS_IN_OPEN: &str = "panics-in-open";
/// Answers no tool call; its plans are sound.
pub const PANICS_IN_TOOL: &str = "panics-in-tool";
/// Never answers when it is asked for a plan.
pub const HANGS: &str = "hangs";
/// Panics when its session is dropped; its plans are sound.
pub const PANICS_IN_DROP: &str = "panics-in-drop";

/// The ways to misbehave, each with what the engine answers when it is asked for a plan.
const WAYS: &[(&str, Answer)] = &[
    (PANICS_IN_NEW, plans::sound),
    (PANICS_IN_OPEN, plans::sound),
    ("panics-in-compress", plans::panics),
    (PANICS_IN_TOOL, plans::sound),
    (PANICS_IN_DROP, plans::sound),
    (HANGS, plans::hangs),
    ("errors", plans::errors),
    ("returns-empty-plan", plans::empty),
    ("keeps-nothing", plans::keeps_nothing),
    ("loses-user", plans::loses_user),
    ("loses-system", plans::loses_system),
    ("drops-a-result", plans::drops_a_result),
    ("duplicates", plans::duplicates),
    ("out-of-range", plans::out_of_range),
    ("reversed-span", plans::reversed_span),
    ("reorders", plans::reorders),
    ("no-reason", plans::no_reason),
    ("empty-summary", plans::empty_summary),
    ("huge-summary", plans::huge_summary),
    ("rewrites-user-text", plans::rewrites_user_text),
    ("breaks-arguments", plans::breaks_arguments),
    ("stale-revision", plans::stale_revision),
    ("superseded-summary", plans::superseded_summary),
    ("lies-smaller", plans::lies_smaller),
    ("inserts-system-order", plans::inserts_system_order),
    ("over-target", plans::over_target),
    ("floods", plans::floods),
];

/// Returns every engine that misbehaves and can be made, with its name.
pub fn all() -> Vec<(&'static str, Box<dyn ContextEngine>)> {
    let can_be_made = WAYS.iter().filter(|(name, _)| *name != PANICS_IN_NEW);
    can_be_made
        .map(|(name, answer)| (*name, Box::new(Bad { name, answer: *answer }) as Box<dyn ContextEngine>))
        .collect()
}

/// Returns the names of all engines that misbehave, in the order of [`register`].
pub fn names() -> Vec<&'static str> {
    WAYS.iter().map(|(name, _)| *name).collect()
}

/// Makes the engine that behaves.
pub fn sound() -> Box<dyn ContextEngine> {
    Box::new(Bad { name: SOUND, answer: plans::sound })
}

/// Registers the engine that behaves, then all others.
pub fn register(registrar: &mut Registrar) {
    registrar.register_context_engine(SOUND, |_: &json::Value| Ok(Bad { name: SOUND, answer: plans::sound }));
    for (name, answer) in WAYS {
        registrar.register_context_engine(*name, move |_: &json::Value| {
            assert!(*name != PANICS_IN_NEW, "no engine today");
            Ok(Bad { name, answer: *answer })
        });
    }
}

struct Bad {
    name: &'static str,
    answer: Answer,
}

impl ContextEngine for Bad {
    fn info(&self) -> EngineInfo {
        EngineInfo::new(self.name, env!("CARGO_PKG_VERSION"), "misbehaves as its name says")
    }
    fn open_session(&self, _: &dyn HostServices, _: &SessionStart) -> Result<Box<dyn EngineSession>, EngineError> {
        assert!(self.name != PANICS_IN_OPEN, "no session today");
        Ok(Box::new(BadSession { name: self.name, answer: self.answer }))
    }
    fn tool_schemas(&self) -> Vec<ToolSchema> {
        if self.name != PANICS_IN_TOOL {
            return Vec::new();
        }
        let parameters = json::json!({ "type": "object", "properties": {} });
        vec![ToolSchema::new("panics_in_tool_ask", "answers nothing", parameters)]
    }
}

struct BadSession {
    name: &'static str,
    answer: Answer,
}

impl EngineSession for BadSession {
    fn compress(
        &mut self,
        _: &dyn HostServices,
        conversation: &Conversation<'_>,
        _: &CompressRequest,
    ) -> Result<CompactionPlan, EngineError> {
        (self.answer)(conversation)
    }
    fn handle_tool_call(
        &mut self,
        _: &dyn HostServices,
        conversation: &Conversation<'_>,
        name: &str,
        _: &json::Value,
    ) -> Result<String, EngineError> {
        if self.name == PANICS_IN_TOOL {
            // As a careless author would: a position that is not there.
            let lengths: Vec<usize> = conversation.iter().map(|message| message.part_count()).collect();
            return Ok(lengths[conversation.len()].to_string());
        }
        Err(EngineError::unsupported(format!("the tool {name:?}")))
    }
}

impl Drop for BadSession {
    fn drop(&mut self) {
        assert!(self.name != PANICS_IN_DROP, "no end today");
    }
}
