//! The Responses dialect: a flat list of items, in which calls and their outputs are items of their own.

use engine_api::{Flags, Part, PartKind, Role};

use crate::json::{self, Kind, Object};
use crate::openai_chat;
use crate::split::{Parsed, Place, Spot, answer_text, content_spots, typed_part};

/// A kind of call and its answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallKind {
    pub(crate) call: &'static str,
    pub(crate) output: &'static str,
    /// The member that holds what the tool is to do.
    arguments: &'static str,
}

const fn call_kind(call: &'static str, output: &'static str, arguments: &'static str) -> CallKind {
    CallKind { call, output, arguments }
}

pub(crate) const CALL_KINDS: [CallKind; 7] = [
    call_kind("function_call", "function_call_output", "arguments"),
    call_kind("custom_tool_call", "custom_tool_call_output", "input"),
    call_kind("local_shell_call", "local_shell_call_output", "action"),
    call_kind("shell_call", "shell_call_output", "action"),
    call_kind("computer_call", "computer_call_output", "action"),
    call_kind("apply_patch_call", "apply_patch_call_output", "operation"),
    call_kind("tool_search_call", "tool_search_output", "arguments"),
];

/// Items that the provider runs and answers itself.
const SELF_CONTAINED: [&str; 5] =
    ["web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "mcp_call"];

/// Tells whether a value of this type can only be an item of this dialect.
pub(crate) fn is_item_type(kind: &str) -> bool {
    matches!(kind, "message" | "reasoning")
        || SELF_CONTAINED.contains(&kind)
        || CALL_KINDS.iter().any(|known| known.call == kind || known.output == kind)
}

pub(crate) fn role(name: &str) -> Role {
    match openai_chat::role(name) {
        Role::Tool => Role::Other,
        role => role,
    }
}

pub(crate) fn parse<'a>(raw: &'a str, object: Object<'a>) -> Parsed<'a> {
    let kind = object.text("type");
    let whole = |role, part| Parsed { role, spots: vec![Spot { part, place: Place::Whole, raw }], object: None };
    let opaque = |flags| Part { flags, ..Part::new(PartKind::Opaque, "") };
    match kind.as_deref() {
        Some("message") => message(object),
        None if object.get("role").is_some() => message(object),
        Some("reasoning") => Parsed {
            object: Some(object.clone()),
            ..whole(Role::Assistant, Part::new(PartKind::Reasoning, reasoning_text(&object)))
        },
        Some(kind) if SELF_CONTAINED.contains(&kind) => {
            Parsed { object: Some(object), ..whole(Role::Assistant, opaque(Flags::SELF_CONTAINED)) }
        }
        Some(kind) => {
            // A search among the tools may be the provider's own; then neither half has an id.
            let is_own = object.text("execution").as_deref() == Some("server") && id(&object).is_empty();
            // Ids of one kind of call and of another are not the same id, so each kind is a family of its own.
            let known = (0..).zip(&CALL_KINDS).find(|(_, known)| known.call == kind || known.output == kind);
            let of_family = |part: Part, family| Part { flags: part.flags.with_family(family), ..part };
            let parsed = match known {
                Some(_) if is_own => whole(Role::Assistant, opaque(Flags::SELF_CONTAINED)),
                Some((family, known)) if known.call == kind => {
                    whole(Role::Assistant, of_family(call_part(known, &object), family))
                }
                Some((family, known)) => whole(Role::Tool, of_family(result_part(known, &object), family)),
                None => return Parsed::opaque(raw, Some(object)),
            };
            Parsed { object: Some(object), ..parsed }
        }
        None => Parsed::opaque(raw, Some(object)),
    }
}

fn message<'a>(object: Object<'a>) -> Parsed<'a> {
    let role = role(&object.text("role").unwrap_or_default());
    let mut spots = Vec::new();
    if let (Some(member), Some(content)) = (object.position("content"), object.get("content")) {
        content_spots(&mut spots, member, content, typed_part);
    }
    Parsed { role, spots, object: Some(object) }
}

/// Returns what pairs a call with its output; the oldest kind of shell call may have only an item id.
fn id(object: &Object<'_>) -> String {
    let is_shell = matches!(object.text("type").as_deref(), Some("local_shell_call" | "local_shell_call_output"));
    let own = || if is_shell { object.text("id") } else { None };
    object.text("call_id").or_else(own).unwrap_or_default().into_owned()
}

fn call_part(known: &CallKind, object: &Object<'_>) -> Part {
    let name = object.text("name").unwrap_or(known.call.into());
    let arguments = object.get(known.arguments).unwrap_or_default();
    Part::call(id(object), name, json::decode(arguments).unwrap_or(arguments.into()))
}

fn result_part(known: &CallKind, object: &Object<'_>) -> Part {
    let (text, flags) = match (known.output, object.get("output")) {
        ("tool_search_output", _) => (object.get("tools").unwrap_or_default().to_owned(), Flags::default()),
        ("computer_call_output", Some(_)) => (String::new(), Flags::HAS_IMAGE),
        ("shell_call_output", Some(output)) if json::kind(output) == Kind::Array => {
            (shell_text(output), Flags::default())
        }
        (_, output) => answer_text(output),
    };
    Part { flags, ..Part::result(id(object), text) }
}

fn shell_text(output: &str) -> String {
    let mut texts = Vec::new();
    for run in json::elements(output).unwrap_or_default().into_iter().filter_map(Object::parse) {
        let streams = [run.text("stdout"), run.text("stderr")];
        texts.extend(streams.into_iter().flatten().filter(|text| !text.is_empty()));
    }
    texts.join("\n")
}

fn reasoning_text(object: &Object<'_>) -> String {
    let lists = [object.get("summary"), object.get("content")];
    let elements = lists.into_iter().flatten().flat_map(|raw| json::elements(raw).unwrap_or_default());
    let texts: Vec<_> = elements.filter_map(Object::parse).filter_map(|element| element.text("text")).collect();
    texts.join("\n")
}

/// Writes a part anew with another text; `None` where its kind of item has no room for one.
pub(crate) fn with_text(spot: &Spot<'_>, text: &str) -> Option<String> {
    let quoted = json::quote(text);
    match (spot.part.kind, spot.place) {
        (PartKind::Text, Place::Member(_)) => Some(quoted),
        (PartKind::Text, Place::Element { .. }) => openai_chat::text_element(spot.raw, quoted),
        (PartKind::ToolCall, _) => {
            let item = Object::parse(spot.raw)?;
            let kind = item.text("type")?;
            let known = CALL_KINDS.iter().find(|known| known.call == kind)?;
            // An action or operation is an object of a fixed shape: a text around it would be refused.
            let is_object = item.get(known.arguments).is_some_and(|raw| json::kind(raw) == Kind::Object);
            if is_object || !matches!(known.arguments, "arguments" | "input") {
                return json::is_object(text).then(|| item.with_value(known.arguments, text.to_owned()));
            }
            Some(item.with_value(known.arguments, quoted))
        }
        (PartKind::ToolResult, _) => {
            let item = Object::parse(spot.raw)?;
            match &*item.text("type")? {
                "computer_call_output" | "tool_search_output" => None,
                "shell_call_output" => Some(item.with_value("output", shell_output(item.get("output"), text))),
                _ => Some(item.with_value("output", quoted)),
            }
        }
        _ => None,
    }
}

/// Returns the output of a shell call that says `text` and ended as the old output's first run did.
pub(crate) fn shell_output(old: Option<&str>, text: &str) -> String {
    let runs = old.and_then(json::elements).unwrap_or_default();
    let first = runs.first().and_then(|raw| Object::parse(raw));
    let outcome = first.and_then(|run| run.get("outcome")).unwrap_or("{\"type\":\"exit\",\"exit_code\":1}");
    format!("[{{\"stdout\":{},\"stderr\":\"\",\"outcome\":{outcome}}}]", json::quote(text))
}
