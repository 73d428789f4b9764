//! The engine's tools: finding, describing and returning what was compacted, and asking a model about many items.
//!
//! One handler for two dialects of arguments, hermes-lcm's and lossless-claw's. Whatever is wrong with a call, the
//! answer is JSON with an `error` in it, so that the model can mend its call.

mod answer;
mod args;
mod describe;
mod doctor;
mod expand;
mod grep;
mod ids;
mod load;
mod map;
mod markdown;
mod query;
mod schema;
mod status;
mod time;

use crate::settings::{Dialect, Settings};
use engine_api::json::{Value, json};
use engine_api::{Conversation, HostServices, RecallReply, RecallRequest};
pub(crate) use schema::schemas;

/// What a tool works with.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'d> {
    pub(crate) services: &'d dyn HostServices,
    pub(crate) conversation: &'d Conversation<'d>,
    pub(crate) settings: &'d Settings,
    pub(crate) session_id: &'d str,
    pub(crate) status: &'d Value,
}

impl Desk<'_> {
    /// Asks the host; the error is what the model reads.
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, String> {
        self.services.recall(request).map_err(|error| error.message)
    }
}

/// What a tool found, or the error that the model reads.
type Found = Result<Value, String>;

/// Answers a call; `None` if there is no such tool.
pub(crate) fn answer(desk: &Desk<'_>, name: &str, arguments: &Value) -> Option<String> {
    // Some clients send the arguments as the text they came in.
    let parsed = arguments.as_str().and_then(|text| engine_api::json::from_str(text).ok());
    let arguments = parsed.as_ref().unwrap_or(arguments);
    let found = dispatch(desk, name, arguments)?;
    let is_openclaw = match desk.settings.dialect {
        Dialect::Hermes => false,
        Dialect::OpenClaw => true,
        Dialect::Both => args::is_openclaw(arguments),
    };
    Some(answer::written(name, found, is_openclaw))
}

/// Calls a tool. The read-only ones are what an agentic map may call too.
fn dispatch(desk: &Desk<'_>, name: &str, arguments: &Value) -> Option<Found> {
    let is_object = arguments.is_object() || arguments.is_null();
    let given = json!({});
    let arguments = if arguments.is_null() { &given } else { arguments };
    let tool: fn(&Desk<'_>, &Value) -> Found = match name {
        "llm_map" => map::llm_map,
        "agentic_map" => map::agentic_map,
        "lcm_expand_query" => query::answer,
        other => read_only(other)?,
    };
    Some(if is_object { tool(desk, arguments) } else { Err("the arguments must be a JSON object".to_string()) })
}

/// The tools that look things up and ask no model.
fn read_only(name: &str) -> Option<fn(&Desk<'_>, &Value) -> Found> {
    Some(match name {
        "lcm_grep" => grep::answer,
        "lcm_describe" => describe::answer,
        "lcm_expand" => expand::answer,
        "lcm_load_session" => load::answer,
        "lcm_status" => status::answer,
        "lcm_doctor" => doctor::answer,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
