//! GitHub Copilot CLI events. Calls stand in the model's message, results come as events of their own.

use super::walk::{arguments, value_lines};
use crate::build::{Builder, Call, Mark, Piece};
use crate::input::Input;
use crate::json::{get_str, quote};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::Value;
use std::collections::HashMap;

struct Session {
    is_live: bool,
    builder: Builder,
    /// Subagents by the call that started them.
    subagents: Vec<(String, Builder)>,
    subagent_of: HashMap<String, usize>,
    id: String,
    model: Option<String>,
    /// The newest system prompt; each turn writes it again.
    system: Option<String>,
    prompt_tokens: Option<u64>,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut session = Session {
        is_live: context.is_live(),
        builder: Builder::new(Dialect::OpenAiChat),
        subagents: Vec::new(),
        subagent_of: HashMap::new(),
        id: String::new(),
        model: None,
        system: None,
        prompt_tokens: None,
    };
    value_lines(input, context, &mut |line, record, problems| session.event(line, &record, problems))?;
    let Session { builder, subagents, id, model, system, prompt_tokens, .. } = session;
    let members: Vec<(String, String)> = model.map(|model| ("model".to_owned(), quote(&model))).into_iter().collect();
    let mut messages = builder.finish(&mut context.problems);
    if let Some(system) = system {
        let raw = format!("{{\"role\":\"system\",\"content\":{}}}", quote(&system));
        if let Some(message) = crate::build::parse(Dialect::OpenAiChat, &raw, Mark::AsRead, None, &mut context.problems)
        {
            messages.insert(0, message);
            host_wire::number(&mut messages);
        }
    }
    let mut main = conversation(id.clone(), "", Kind::Main, Dialect::OpenAiChat, members.clone(), messages);
    main.reported_tokens = prompt_tokens;
    let mut all = vec![main];
    for (call, builder) in subagents {
        let messages = builder.finish(&mut context.problems);
        all.push(conversation(
            format!("{id}/{call}"),
            "",
            Kind::Sidechain,
            Dialect::OpenAiChat,
            members.clone(),
            messages,
        ));
    }
    Ok(all)
}

impl Session {
    fn event(&mut self, line: u64, record: &Value, problems: &mut Problems) {
        let null = Value::Null;
        let data = record.get("data").unwrap_or(&null);
        let line = Some(line);
        match get_str(record, "type").unwrap_or_default() {
            "session.start" => {
                if let Some(id) = get_str(data, "sessionId") {
                    id.clone_into(&mut self.id);
                }
            }
            "session.model_change" => self.model = get_str(data, "newModel").map(str::to_owned).or(self.model.take()),
            "system.message" => self.system = get_str(data, "content").map(str::to_owned).or(self.system.take()),
            "user.message" => {
                // What the model gets has the date and reminders around the user's words.
                let text = get_str(data, "transformedContent").or_else(|| get_str(data, "content")).unwrap_or_default();
                let is_client = get_str(data, "source").is_some_and(|source| source != "user");
                let mark = if is_client { Mark::Injected } else { Mark::AsRead };
                self.builder(data).user_text(text, mark, line);
            }
            "assistant.message" => {
                let requests =
                    data.get("toolRequests").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let calls = requests.iter().map(|call| Call {
                    id: get_str(call, "toolCallId").unwrap_or_default().to_owned(),
                    name: get_str(call, "name").unwrap_or_default().to_owned(),
                    arguments: arguments(call.get("arguments")),
                });
                let calls: Vec<Call> = calls.collect();
                let text = get_str(data, "content").unwrap_or_default();
                let reasoning = get_str(data, "reasoningText").unwrap_or_default();
                if let Some(model) = get_str(data, "model") {
                    self.model = Some(model.to_owned());
                }
                self.builder(data).assistant(text, reasoning, calls, line);
            }
            "tool.execution_complete" => {
                let Some(id) = get_str(data, "toolCallId") else { return };
                let text = match data.get("result").and_then(|result| get_str(result, "content")) {
                    Some(content) => content.to_owned(),
                    None => data
                        .get("error")
                        .map(|error| get_str(error, "message").map_or_else(|| error.to_string(), str::to_owned))
                        .unwrap_or_default(),
                };
                self.builder(data).result(id, &[Piece::Text(text)], line, problems);
            }
            "assistant.usage" => {
                self.prompt_tokens = data.get("inputTokens").and_then(Value::as_u64).or(self.prompt_tokens)
            }
            "session.compaction_complete" if self.is_live => {
                if let Some(summary) = get_str(data, "summaryContent").filter(|summary| !summary.is_empty()) {
                    self.builder = Builder::new(Dialect::OpenAiChat);
                    self.builder.user_text(summary, Mark::Summary, line);
                    self.prompt_tokens = None;
                }
            }
            _ => {}
        }
    }

    // Events of a subagent name the call that started it.
    fn builder(&mut self, data: &Value) -> &mut Builder {
        let Some(parent) = get_str(data, "parentToolCallId") else { return &mut self.builder };
        let position = *self.subagent_of.entry(parent.to_owned()).or_insert_with(|| {
            self.subagents.push((parent.to_owned(), Builder::new(Dialect::OpenAiChat)));
            self.subagents.len() - 1
        });
        match self.subagents.get_mut(position) {
            Some((_, builder)) => builder,
            None => &mut self.builder,
        }
    }
}
