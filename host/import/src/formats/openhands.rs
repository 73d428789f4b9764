//! OpenHands conversations: event lists of the old agent server, and events of the SDK, one a line.

mod sdk;

use super::walk::{Place, arguments, each_value, take_value, top};
use crate::build::{Builder, Call, Mark, Piece};
use crate::input::Input;
use crate::json::{get_str, quote};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

pub(super) use sdk::read as read_sdk;

#[derive(Default)]
struct Events {
    /// Events by id, so that a condensation can take them out.
    list: Vec<(u64, Event)>,
    id: String,
    model: Option<String>,
    tools: Option<String>,
    prompt_tokens: Option<u64>,
    /// Model responses that were taken already: a response with two calls stands in two events.
    responses: HashSet<String>,
    /// Call of an action, for observations that name only their cause.
    calls: HashMap<u64, String>,
    condensation: Option<Condensation>,
}

/// One event as a message.
enum Event {
    System(String),
    User(Vec<Piece>),
    Assistant { text: String, reasoning: String, calls: Vec<Call> },
    Result { call: String, pieces: Vec<Piece> },
}

/// The newest record of what was forgotten.
#[derive(Default)]
struct Condensation {
    forgotten: HashSet<u64>,
    summary: String,
    offset: usize,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut events = Events::default();
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Member("history" | "events" | "trajectory") => {
            each_value(scanner, problems, &mut |line, value, problems| events.any(line, &value, problems))
        }
        Place::Element => {
            let line = scanner.line();
            if let Some(value) = take_value(scanner, problems)? {
                events.any(line, &value, problems);
            }
            Ok(())
        }
        Place::Member("instance_id") => {
            events.id =
                take_value(scanner, problems)?.and_then(|id| id.as_str().map(str::to_owned)).unwrap_or_default();
            Ok(())
        }
        Place::Begin => Ok(()),
        Place::Member(_) => scanner.skip(),
    })?;
    let is_live = context.is_live();
    let mut builder = Builder::new(Dialect::OpenAiChat);
    let Condensation { forgotten, summary, offset } = events.condensation.filter(|_| is_live).unwrap_or_default();
    let mut summary = Some(summary).filter(|summary| !summary.is_empty());
    let mut written = 0;
    for (id, event) in events.list {
        if written >= offset
            && let Some(summary) = summary.take()
        {
            builder.user_text(&summary, Mark::Summary, None);
        }
        if forgotten.contains(&id) {
            continue;
        }
        written += 1;
        match event {
            Event::System(text) => builder.system(&text),
            Event::User(pieces) => builder.user(&pieces, Mark::AsRead, None),
            Event::Assistant { text, reasoning, calls } => builder.assistant(&text, &reasoning, calls, None),
            Event::Result { call, pieces } => builder.result(&call, &pieces, None, &mut context.problems),
        }
    }
    if let Some(summary) = summary {
        builder.user_text(&summary, Mark::Summary, None);
    }
    let model = events.model.map(|model| ("model".to_owned(), quote(&model)));
    let members = model.into_iter().chain(events.tools.map(|tools| ("tools".to_owned(), tools))).collect();
    let messages = builder.finish(&mut context.problems);
    let mut made = conversation(events.id, "", Kind::Main, Dialect::OpenAiChat, members, messages);
    made.reported_tokens = events.prompt_tokens;
    Ok(vec![made])
}

impl Events {
    // The oldest records hold pairs of action and observation.
    fn any(&mut self, line: u64, value: &Value, problems: &mut Problems) {
        match value {
            Value::Array(pair) => pair.iter().for_each(|event| self.event(line, event, problems)),
            event => self.event(line, event, problems),
        }
    }

    fn event(&mut self, line: u64, event: &Value, problems: &mut Problems) {
        let id = event.get("id").and_then(Value::as_u64).unwrap_or(line);
        let metadata = event.get("tool_call_metadata");
        if let Some(action) = get_str(event, "action") {
            self.action(id, action, event, metadata);
        } else if event.get("observation").is_some() {
            self.observation(id, event, metadata);
        } else {
            problems.warn(Some(line), || "an event that is neither an action nor an observation; left out".to_owned());
        }
    }

    fn action(&mut self, id: u64, action: &str, event: &Value, metadata: Option<&Value>) {
        let null = Value::Null;
        let args = event.get("args").unwrap_or(&null);
        let source = get_str(event, "source").unwrap_or_default();
        let said = || get_str(args, "content").or_else(|| get_str(event, "message")).unwrap_or_default().to_owned();
        match (source, action) {
            (_, "system") => {
                self.tools = args.get("tools").filter(|tools| tools.is_array()).map(Value::to_string);
                self.list.push((id, Event::System(said())));
            }
            ("user", "message") => {
                let mut pieces = vec![Piece::Text(said())];
                let images = args.get("image_urls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                pieces.extend(images.iter().filter_map(Value::as_str).map(|url| Piece::Image(url.to_owned())));
                self.list.push((id, Event::User(pieces)));
            }
            (_, "condensation") => self.condensed(args),
            // What the program does for itself, and what a person does with its buttons.
            (_, "change_agent_state" | "recall" | "null" | "condensation_request" | "loop_recovery") => {}
            ("user" | "environment", _) => {}
            _ if metadata.is_some() => self.response(id, action, args, metadata.unwrap_or(&null)),
            (_, "message") => {
                let text = said();
                self.list.push((id, Event::Assistant { text, reasoning: String::new(), calls: Vec::new() }));
            }
            (_, "finish") => self.finish(id, args),
            _ => {
                // An agent without native calls: the action stands for the call.
                let call = format!("event-{id}");
                let thought = get_str(args, "thought").unwrap_or_default().to_owned();
                let kept =
                    args.as_object().map(|all| all.iter().filter(|(key, value)| *key != "thought" && !value.is_null()));
                let kept: serde_json::Map<String, Value> =
                    kept.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
                self.calls.insert(id, call.clone());
                let calls =
                    vec![Call { id: call, name: action.to_owned(), arguments: Value::Object(kept).to_string() }];
                self.list.push((id, Event::Assistant { text: thought, reasoning: String::new(), calls }));
            }
        }
    }

    // The model's own message stands in the metadata of each action it led to.
    fn response(&mut self, id: u64, action: &str, args: &Value, metadata: &Value) {
        let null = Value::Null;
        let response = metadata.get("model_response").unwrap_or(&null);
        let call_id = get_str(metadata, "tool_call_id").unwrap_or_default();
        self.calls.insert(id, call_id.to_owned());
        if let Some(model) = get_str(response, "model") {
            self.model = Some(model.to_owned());
        }
        let usage = response.pointer("/usage/prompt_tokens").and_then(Value::as_u64);
        self.prompt_tokens = usage.filter(|tokens| *tokens > 0).or(self.prompt_tokens);
        let response_id = get_str(response, "id").unwrap_or_default();
        if !response_id.is_empty() && !self.responses.insert(response_id.to_owned()) {
            return;
        }
        // Nothing answers a call to finish, so the program sends it back as plain text.
        if action == "finish" {
            let said = response.pointer("/choices/0/message/content").and_then(Value::as_str).unwrap_or_default();
            match said.is_empty() {
                true => self.finish(id, args),
                false => self.list.push((
                    id,
                    Event::Assistant { text: said.to_owned(), reasoning: String::new(), calls: Vec::new() },
                )),
            }
            return;
        }
        let message = response.pointer("/choices/0/message").unwrap_or(&null);
        let listed = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut calls: Vec<Call> = listed
            .iter()
            .map(|call| Call {
                id: get_str(call, "id").unwrap_or_default().to_owned(),
                name: call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default().to_owned(),
                arguments: arguments(call.pointer("/function/arguments")),
            })
            .collect();
        if calls.is_empty() {
            let name = get_str(metadata, "function_name").unwrap_or(action).to_owned();
            calls.push(Call { id: call_id.to_owned(), name, arguments: arguments(Some(args)) });
        }
        let text = message.get("content").map(super::walk::text_of).unwrap_or_default();
        let reasoning = get_str(message, "reasoning_content").unwrap_or_default().to_owned();
        self.list.push((id, Event::Assistant { text, reasoning, calls }));
    }

    fn finish(&mut self, id: u64, args: &Value) {
        let text = ["final_thought", "message", "thought"]
            .iter()
            .filter_map(|key| get_str(args, key))
            .find(|text| !text.is_empty());
        let text = text.unwrap_or_default().to_owned();
        self.list.push((id, Event::Assistant { text, reasoning: String::new(), calls: Vec::new() }));
    }

    fn observation(&mut self, id: u64, event: &Value, metadata: Option<&Value>) {
        let own = metadata.and_then(|metadata| get_str(metadata, "tool_call_id")).map(str::to_owned);
        let cause = event.get("cause").and_then(Value::as_u64);
        let Some(call) = own.or_else(|| cause.and_then(|cause| self.calls.get(&cause).cloned())) else { return };
        let mut pieces = vec![Piece::Text(get_str(event, "content").unwrap_or_default().to_owned())];
        let images =
            event.pointer("/extras/image_urls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        pieces.extend(images.iter().filter_map(Value::as_str).map(|url| Piece::Image(url.to_owned())));
        self.list.push((id, Event::Result { call, pieces }));
    }

    fn condensed(&mut self, args: &Value) {
        let listed = args.get("forgotten_event_ids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut forgotten: HashSet<u64> = listed.iter().filter_map(Value::as_u64).collect();
        let bound = |key: &str| args.get(key).and_then(Value::as_u64);
        if let (Some(first), Some(last)) = (bound("forgotten_events_start_id"), bound("forgotten_events_end_id")) {
            forgotten.extend(self.list.iter().map(|(id, _)| *id).filter(|id| (first..=last).contains(id)));
        }
        // A later condensation comes on top of what was forgotten before.
        if let Some(before) = self.condensation.take() {
            forgotten.extend(before.forgotten);
        }
        let summary = get_str(args, "summary").unwrap_or_default().to_owned();
        let offset =
            args.get("summary_offset").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
        self.condensation = Some(Condensation { forgotten, summary, offset });
    }
}
