//! Events of the OpenHands SDK. Actions of one model response are parallel calls of one message.

use crate::build::{Builder, Call, Mark, Piece};
use crate::formats::walk::{arguments, pieces, text_of, value_lines};
use crate::input::Input;
use crate::json::{get_str, quote};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

#[derive(Default)]
struct Open {
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    line: u64,
}

enum Entry {
    User(Vec<Piece>, Mark),
    Assistant(Open),
    Result(String, Vec<Piece>),
}

#[derive(Default)]
struct Events {
    system: Option<String>,
    tools: Option<String>,
    /// Entries with the ids of their events.
    list: Vec<(u64, Vec<String>, Entry)>,
    /// Place of a model response in the list.
    responses: HashMap<String, usize>,
    forgotten: HashSet<String>,
    summary: Option<(String, usize)>,
}

pub(in crate::formats) fn read(
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Conversation>, ImportError> {
    let is_live = context.is_live();
    let mut events = Events::default();
    value_lines(input, context, &mut |line, event, problems| events.event(line, &event, is_live, problems))?;
    let problems = &mut context.problems;
    let mut builder = Builder::new(Dialect::OpenAiChat);
    builder.system(events.system.as_deref().unwrap_or_default());
    let mut written = usize::from(events.system.is_some());
    for (line, ids, entry) in events.list {
        if let Some((summary, _)) = events.summary.take_if(|(_, offset)| *offset <= written) {
            builder.user_text(&summary, Mark::Summary, Some(line));
        }
        if ids.iter().all(|id| events.forgotten.contains(id)) {
            continue;
        }
        written += ids.len();
        match entry {
            Entry::User(pieces, mark) => builder.user(&pieces, mark, Some(line)),
            Entry::Assistant(open) => builder.assistant(&open.text, &open.reasoning, open.calls, Some(open.line)),
            Entry::Result(call, pieces) => builder.result(&call, &pieces, Some(line), problems),
        }
    }
    if let Some((summary, _)) = events.summary {
        builder.user_text(&summary, Mark::Summary, None);
    }
    let members = events.tools.map(|tools| ("tools".to_owned(), tools)).into_iter().collect();
    let messages = builder.finish(problems);
    Ok(vec![conversation("", "", Kind::Main, Dialect::OpenAiChat, members, messages)])
}

impl Events {
    fn event(&mut self, line: u64, event: &Value, is_live: bool, problems: &mut Problems) {
        let null = Value::Null;
        let id = get_str(event, "id").unwrap_or_default().to_owned();
        let field = |key: &str| event.get(key).unwrap_or(&null);
        let call_id = || get_str(event, "tool_call_id").unwrap_or_default().to_owned();
        let kind = get_str(event, "kind").unwrap_or_default();
        match kind {
            "SystemPromptEvent" | "SystemPromptUpdateEvent" => {
                self.system = Some(text_of(field("system_prompt")));
                let tools = field("tools").as_array().map(Vec::as_slice).unwrap_or_default();
                self.tools =
                    Some(Value::Array(tools.iter().map(tool).collect()).to_string()).filter(|_| !tools.is_empty());
            }
            "MessageEvent" => {
                let message = field("llm_message");
                let content = message.get("content").unwrap_or(&null);
                if get_str(message, "role") == Some("assistant") {
                    let reasoning = get_str(message, "reasoning_content").unwrap_or_default().to_owned();
                    let open = Open { text: text_of(content), reasoning, line, ..Open::default() };
                    self.list.push((line, vec![id], Entry::Assistant(open)));
                } else {
                    let mut said = pieces(content);
                    said.extend(pieces(field("extended_content")));
                    let is_client = get_str(event, "source").is_some_and(|source| source != "user");
                    self.list.push((
                        line,
                        vec![id],
                        Entry::User(said, if is_client { Mark::Injected } else { Mark::AsRead }),
                    ));
                }
            }
            "ActionEvent" => {
                let call = field("tool_call");
                let call = Call {
                    id: call_id(),
                    name: get_str(event, "tool_name").unwrap_or_default().to_owned(),
                    arguments: arguments(call.get("arguments").or_else(|| call.pointer("/function/arguments"))),
                };
                let response = get_str(event, "llm_response_id").unwrap_or_default();
                // Results of the first call may come before the second call's event.
                let place = self.responses.get(response).and_then(|at| self.list.get_mut(*at));
                if let Some((_, ids, Entry::Assistant(open))) = place {
                    ids.push(id);
                    open.calls.push(call);
                    return;
                }
                if !response.is_empty() {
                    self.responses.insert(response.to_owned(), self.list.len());
                }
                let open = Open {
                    text: text_of(field("thought")),
                    reasoning: get_str(event, "reasoning_content").unwrap_or_default().to_owned(),
                    calls: vec![call],
                    line,
                };
                self.list.push((line, vec![id], Entry::Assistant(open)));
            }
            "ObservationEvent" => {
                let observation = field("observation");
                let mut said = pieces(observation.get("content").unwrap_or(&null));
                if said.is_empty() {
                    said.extend(
                        ["output", "error"]
                            .iter()
                            .filter_map(|key| get_str(observation, key))
                            .map(|t| Piece::Text(t.to_owned())),
                    );
                }
                self.list.push((line, vec![id], Entry::Result(call_id(), said)));
            }
            "AgentErrorEvent" => {
                let text = get_str(event, "error").unwrap_or_default().to_owned();
                self.list.push((line, vec![id], Entry::Result(call_id(), vec![Piece::Text(text)])));
            }
            "UserRejectObservation" => {
                let text = get_str(event, "rejection_reason").unwrap_or("rejected by the user").to_owned();
                self.list.push((line, vec![id], Entry::Result(call_id(), vec![Piece::Text(text)])));
            }
            "Condensation" if is_live => {
                let listed = field("forgotten_event_ids").as_array().map(Vec::as_slice).unwrap_or_default();
                self.forgotten.extend(listed.iter().filter_map(Value::as_str).map(str::to_owned));
                let offset = field("summary_offset").as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
                self.summary = get_str(event, "summary").map(|summary| (summary.to_owned(), offset));
            }
            "" => problems.warn(Some(line), || "an event without a kind; left out".to_owned()),
            _ => {}
        }
    }
}

fn tool(tool: &Value) -> Value {
    if tool.get("function").is_some() {
        return tool.clone();
    }
    let name = get_str(tool, "name").or_else(|| get_str(tool, "title")).unwrap_or_default();
    let description = get_str(tool, "description").unwrap_or_default();
    let text = format!(
        "{{\"type\":\"function\",\"function\":{{\"name\":{},\"description\":{}}}}}",
        quote(name),
        quote(description)
    );
    serde_json::from_str(&text).unwrap_or(Value::Null)
}
