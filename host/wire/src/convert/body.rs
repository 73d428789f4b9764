//! Carries the members around the message list over: settings that both dialects know, and function tools.

use engine_api::Dialect;

use super::Losses;
use super::render::tool_name;
use crate::Document;
use crate::json::{self, Object, quote};

/// Members that mean the same in every dialect.
const SHARED: [&str; 4] = ["model", "temperature", "top_p", "stream"];
/// Members that hold instructions; they are carried over with the messages.
const INSTRUCTIONS: [&str; 2] = ["system", "instructions"];
/// Names of the limit on what the model may write.
const OUTPUT_LIMITS: [&str; 3] = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
/// What a tool takes whose definition does not say.
const ANY_OBJECT: &str = "{\"type\":\"object\",\"properties\":{}}";
/// What a tool with free text takes where only objects are known.
const FREE_TEXT: &str =
    "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"]}";

pub(super) fn members(document: &Document, to: Dialect, losses: &mut Losses) -> Vec<(String, String)> {
    let mut members: Vec<(String, String)> = Vec::new();
    let mut tools = Vec::new();
    for (name, raw) in document.members() {
        if SHARED.contains(&name) {
            members.push((name.to_owned(), raw.to_owned()));
        } else if OUTPUT_LIMITS.contains(&name) {
            let name = match to {
                Dialect::Anthropic => "max_tokens",
                Dialect::Responses => "max_output_tokens",
                _ => "max_completion_tokens",
            };
            members.push((name.to_owned(), raw.to_owned()));
        } else if matches!(name, "tools" | "functions") {
            for tool in json::elements(raw).unwrap_or_default() {
                match Object::parse(tool).and_then(|tool| Tool::read(&tool)) {
                    Some(tool) => tools.push(tool.write(to)),
                    None => losses.tools += 1,
                }
            }
        } else if !INSTRUCTIONS.contains(&name) {
            losses.members.push(name.to_owned());
        }
    }
    if !tools.is_empty() {
        members.push(("tools".to_owned(), format!("[{}]", tools.join(","))));
    }
    members
}

/// A tool that the client runs.
struct Tool<'a> {
    name: String,
    description: Option<&'a str>,
    /// JSON text of the schema of its arguments; none if it takes free text.
    schema: Option<&'a str>,
    /// JSON text of the format of its free text.
    format: Option<&'a str>,
    is_free_text: bool,
}

impl<'a> Tool<'a> {
    /// Reads a definition in any dialect; `None` for a tool of the provider's own.
    fn read(tool: &Object<'a>) -> Option<Tool<'a>> {
        let kind = tool.text("type");
        let body = tool.get("function").or_else(|| tool.get("custom")).and_then(Object::parse);
        let body = body.as_ref().unwrap_or(tool);
        let schema = body.get("input_schema").or_else(|| body.get("parameters"));
        let is_free_text = kind.as_deref() == Some("custom") && schema.is_none();
        if !matches!(kind.as_deref(), None | Some("function" | "custom")) {
            return None;
        }
        let name = tool_name(&body.text("name")?);
        Some(Tool { name, description: body.get("description"), schema, format: body.get("format"), is_free_text })
    }

    fn write(&self, to: Dialect) -> String {
        let member = |key: &str, raw: Option<&str>| raw.map_or(String::new(), |raw| format!(",\"{key}\":{raw}"));
        let head = format!("\"name\":{}{}", quote(&self.name), member("description", self.description));
        let schema = Some(self.schema.filter(|raw| *raw != "null").unwrap_or(ANY_OBJECT));
        match (to, self.is_free_text) {
            (Dialect::Anthropic, true) => format!("{{{head}{}}}", member("input_schema", Some(FREE_TEXT))),
            (Dialect::Anthropic, false) => format!("{{{head}{}}}", member("input_schema", schema)),
            (Dialect::Responses, true) => format!("{{\"type\":\"custom\",{head}{}}}", member("format", self.format)),
            (Dialect::Responses, false) => format!("{{\"type\":\"function\",{head}{}}}", member("parameters", schema)),
            (_, true) => {
                format!("{{\"type\":\"custom\",\"custom\":{{{head}{}}}}}", member("format", self.format))
            }
            (_, false) => {
                format!("{{\"type\":\"function\",\"function\":{{{head}{}}}}}", member("parameters", schema))
            }
        }
    }
}
