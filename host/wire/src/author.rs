//! Messages that the host writes itself: plain texts, answers to calls that have none, results moved out of a message.

use engine_api::{Dialect, Part, PartKind, Role};

use crate::json::{self, Object};
use crate::openai_responses::{CALL_KINDS, shell_output};
use crate::split::{Place, locate};
use crate::{WireError, anthropic};

/// Text in place of one without any visible character, which APIs refuse.
const NO_TEXT: &str = "(no text)";

/// A picture of one transparent pixel: the answer to a computer call must be a screenshot, never text.
const BLANK_SCREENSHOT: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// Makes a message that says a plain text in a role.
///
/// A role that the dialect has no message for becomes `user`: a tool's or an unknown one everywhere, the system's and
/// the developer's in the Anthropic dialect, where they belong into the body's `system`.
pub fn text_message(dialect: Dialect, role: Role, text: &str) -> String {
    let text = if text.trim().is_empty() { NO_TEXT } else { text };
    let text = json::quote(text);
    let role = match (dialect, role) {
        (_, Role::Assistant) => "assistant",
        (Dialect::Anthropic, _) => "user",
        (_, Role::System) => "system",
        (_, Role::Developer) => "developer",
        _ => "user",
    };
    match dialect {
        Dialect::Responses => {
            let kind = if role == "assistant" { "output_text" } else { "input_text" };
            format!(
                "{{\"type\":\"message\",\"role\":\"{role}\",\"content\":[{{\"type\":\"{kind}\",\"text\":{text}}}]}}"
            )
        }
        _ => format!("{{\"role\":\"{role}\",\"content\":{text}}}"),
    }
}

/// Makes the messages that answer `calls` of the message `calling_raw` with one text.
///
/// Chat Completions and Responses get one message a call, Anthropic one user message with all results. In the Responses
/// dialect the kind of answer follows the kind of `calling_raw`. Without calls there is no message.
pub fn answer_calls(dialect: Dialect, calling_raw: &str, calls: &[&Part], text: &str) -> Vec<String> {
    if calls.is_empty() {
        return Vec::new();
    }
    let quoted = json::quote(text);
    match dialect {
        Dialect::Anthropic => {
            let results: Vec<String> = calls
                .iter()
                .map(|call| {
                    let id = json::quote(&call.call_id);
                    format!("{{\"type\":\"tool_result\",\"tool_use_id\":{id},\"content\":{quoted}}}")
                })
                .collect();
            vec![user_blocks(&results)]
        }
        Dialect::Responses => {
            let kind = Object::parse(calling_raw).and_then(|item| item.text("type").map(|kind| kind.into_owned()));
            calls.iter().map(|call| output_item(kind.as_deref().unwrap_or_default(), &call.call_id, text)).collect()
        }
        _ => calls
            .iter()
            .map(|call| {
                // A legacy `function_call` has no id and is answered by its function's name.
                if call.call_id.is_empty() {
                    let name = json::quote(&call.tool_name);
                    return format!("{{\"role\":\"function\",\"name\":{name},\"content\":{quoted}}}");
                }
                let id = json::quote(&call.call_id);
                format!("{{\"role\":\"tool\",\"tool_call_id\":{id},\"content\":{quoted}}}")
            })
            .collect(),
    }
}

/// Makes the messages that answer calls of functions, each with a text of its own.
pub(crate) fn answers(dialect: Dialect, answers: &[(&str, &str)]) -> Vec<String> {
    if answers.is_empty() {
        return Vec::new();
    }
    let quoted = answers.iter().map(|(id, text)| (json::quote(id), json::quote(text)));
    match dialect {
        Dialect::Anthropic => {
            let results: Vec<String> = quoted
                .map(|(id, text)| format!("{{\"type\":\"tool_result\",\"tool_use_id\":{id},\"content\":{text}}}"))
                .collect();
            vec![user_blocks(&results)]
        }
        Dialect::Responses => answers.iter().map(|(id, text)| output_item("function_call", id, text)).collect(),
        _ => {
            quoted.map(|(id, text)| format!("{{\"role\":\"tool\",\"tool_call_id\":{id},\"content\":{text}}}")).collect()
        }
    }
}

/// Makes the item that answers a call of the given kind.
pub(crate) fn output_item(call: &str, call_id: &str, text: &str) -> String {
    let output =
        CALL_KINDS.iter().find(|known| known.call == call).map_or("function_call_output", |known| known.output);
    let id = json::quote(call_id);
    let rest = match output {
        "shell_call_output" => format!("\"output\":{}", shell_output(None, text)),
        "apply_patch_call_output" => format!("\"status\":\"failed\",\"output\":{}", json::quote(text)),
        "tool_search_output" => "\"status\":\"completed\",\"execution\":\"client\",\"tools\":[]".to_owned(),
        "computer_call_output" => {
            format!("\"output\":{{\"type\":\"computer_screenshot\",\"image_url\":\"{BLANK_SCREENSHOT}\"}}")
        }
        _ => format!("\"output\":{}", json::quote(text)),
    };
    format!("{{\"type\":\"{output}\",\"call_id\":{id},{rest}}}")
}

/// Copies result parts of a message into messages of their own: in the Anthropic dialect one user message with exactly
/// these blocks, elsewhere the message itself, which is nothing but the result.
///
/// # Errors
/// [`WireError::NotJson`], [`WireError::NoSuchPart`], and [`WireError::BadEdit`] for a part that is no tool result.
pub fn extract_results(dialect: Dialect, raw: &str, parts: &[usize]) -> Result<Vec<String>, WireError> {
    let parsed = locate(dialect, json::value(raw, "message")?);
    let count = parsed.spots.len();
    let mut blocks = Vec::with_capacity(parts.len());
    for &part in parts {
        let spot = parsed.spots.get(part).ok_or(WireError::NoSuchPart { dialect, part, count })?;
        if spot.part.kind != PartKind::ToolResult {
            let problem = "only a tool's answer can stand alone";
            return Err(WireError::BadEdit { dialect, part, wanted: "move out", problem });
        }
        if spot.place == Place::Whole {
            return Ok(vec![raw.to_owned()]);
        }
        blocks.push(spot.raw.to_owned());
    }
    Ok(if blocks.is_empty() { Vec::new() } else { vec![user_blocks(&blocks)] })
}

fn user_blocks(blocks: &[String]) -> String {
    format!("{{\"role\":\"user\",\"content\":[{}]}}", blocks.join(","))
}

/// Returns the text of a failed answer that must not be empty.
pub(crate) fn failure_text(text: &str) -> &str {
    if text.is_empty() { anthropic::EMPTY_FAILURE } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_message;

    const DIALECTS: [Dialect; 3] = [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses];

    #[test]
    fn a_written_text_is_read_back_in_its_role() {
        for dialect in DIALECTS {
            for role in [Role::User, Role::Assistant] {
                let message = parse_message(dialect, &text_message(dialect, role, "a \"b\"\n日")).unwrap();
                assert_eq!((message.role, message.text().as_str()), (role, "a \"b\"\n日"));
            }
            assert_eq!(parse_message(dialect, &text_message(dialect, Role::Tool, " ")).unwrap().text(), NO_TEXT);
        }
        let system = text_message(Dialect::Anthropic, Role::System, "s");
        assert_eq!(parse_message(Dialect::Anthropic, &system).unwrap().role, Role::User);
    }

    #[test]
    fn answers_name_the_calls_they_answer() {
        let (a, b) = (Part::call("a", "f", "{}"), Part::call("b", "f", "{}"));
        for (dialect, messages) in [(Dialect::OpenAiChat, 2), (Dialect::Anthropic, 1), (Dialect::Responses, 2)] {
            let answers = answer_calls(dialect, "{\"type\":\"function_call\"}", &[&a, &b], "gone");
            assert_eq!(answers.len(), messages);
            let parts: Vec<Part> = answers.iter().flat_map(|raw| parse_message(dialect, raw).unwrap().parts).collect();
            let ids: Vec<_> = parts.iter().map(|part| (part.kind, part.call_id.as_str(), part.text.as_str())).collect();
            assert_eq!(ids, [(PartKind::ToolResult, "a", "gone"), (PartKind::ToolResult, "b", "gone")]);
            assert!(answer_calls(dialect, "{}", &[], "gone").is_empty());
        }
        let legacy = answer_calls(Dialect::OpenAiChat, "{}", &[&Part::call("", "f", "{}")], "gone");
        assert_eq!(legacy, [r#"{"role":"function","name":"f","content":"gone"}"#]);
    }

    #[test]
    fn each_kind_of_item_is_answered_by_its_own_kind() {
        for known in &CALL_KINDS {
            let calling = format!("{{\"type\":\"{}\"}}", known.call);
            let raw = &answer_calls(Dialect::Responses, &calling, &[&Part::call("a", "f", "")], "gone")[0];
            let object = Object::parse(raw).unwrap();
            assert_eq!(object.text("type").as_deref(), Some(known.output));
            let part = &parse_message(Dialect::Responses, raw).unwrap().parts[0];
            assert_eq!((part.kind, part.call_id.as_str()), (PartKind::ToolResult, "a"));
        }
    }

    #[test]
    fn results_move_out_with_their_bytes() {
        let block = r#"{"type":"tool_result", "tool_use_id":"a","content":"\u0041"}"#;
        let raw = format!(r#"{{"role":"user","content":[{block} , {{"type":"text","text":"go on"}}]}}"#);
        let moved = extract_results(Dialect::Anthropic, &raw, &[0]).unwrap();
        assert_eq!(moved, [format!(r#"{{"role":"user","content":[{block}]}}"#)]);
        assert!(extract_results(Dialect::Anthropic, &raw, &[]).unwrap().is_empty());
        assert!(matches!(extract_results(Dialect::Anthropic, &raw, &[1]), Err(WireError::BadEdit { part: 1, .. })));
        assert!(matches!(extract_results(Dialect::Anthropic, &raw, &[9]), Err(WireError::NoSuchPart { count: 2, .. })));
        let tool = r#" {"role":"tool","tool_call_id":"a","content":"x"}"#;
        assert_eq!(extract_results(Dialect::OpenAiChat, tool, &[0]).unwrap(), [tool]);
    }
}
