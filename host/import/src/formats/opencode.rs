//! OpenCode sessions, from `opencode export` documents or from recorded server events.
//!
//! One assistant message is one model call; a tool part is a call and its result in one. What is sent follows the last
//! compaction, and results that pruning marked are sent as a placeholder.

mod events;

use super::walk::{Place, arguments, each_value, take_value, top};
use crate::build::{Builder, Call, Mark, Piece};
use crate::input::Input;
use crate::json::{get_str, quote};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::Value;
use std::collections::HashSet;

pub(super) use events::read as read_events;

/// What the program sends in place of a result that pruning marked.
const PRUNED_RESULT: &str = "[Old tool result content cleared]";
/// What it sends for a call that never finished.
const INTERRUPTED_RESULT: &str = "[Tool execution was interrupted]";
/// What it sends for the user message that asked for a compaction.
const COMPACTION_REQUEST: &str = "What did we do so far?";
/// What it sends for a command that was handed to a subagent.
const SUBTASK_NOTE: &str = "The following tool was executed by the user";

/// What is needed of a session.
#[derive(Default)]
pub(super) struct Session {
    id: String,
    title: String,
    parent: String,
    messages: Vec<Message>,
}

#[derive(Default)]
struct Message {
    id: String,
    line: u64,
    /// Empty until it is known.
    role: String,
    parent: String,
    model: String,
    is_summary: bool,
    is_finished: bool,
    /// Name of the error that ended it.
    error: Option<String>,
    prompt_tokens: Option<u64>,
    /// Part ids beside the parts; an id may be shared (recorders blank ids), so position decides in exports.
    parts: Vec<(String, Part)>,
}

enum Part {
    Text {
        text: String,
        is_synthetic: bool,
        is_ignored: bool,
    },
    Reasoning(String),
    Tool(Tool),
    File {
        mime: String,
        url: String,
        name: String,
    },
    StepStart,
    Compaction,
    Subtask,
    /// Snapshots, patches, retries: never sent.
    Other,
}

#[derive(Default)]
struct Tool {
    call_id: String,
    name: String,
    input: String,
    status: String,
    output: String,
    error: String,
    is_pruned: bool,
    images: Vec<String>,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut sessions: Vec<Session> = Vec::new();
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Begin => {
            sessions.push(Session::default());
            Ok(())
        }
        Place::Member("info") => {
            if let (Some(info), Some(session)) = (take_value(scanner, problems)?, sessions.last_mut()) {
                session.info(&info);
            }
            Ok(())
        }
        Place::Member("messages") => each_value(scanner, problems, &mut |line, value, _| {
            if let Some(session) = sessions.last_mut() {
                session.messages.push(Message::from_export(line, &value));
            }
        }),
        Place::Member(_) | Place::Element => scanner.skip(),
    })?;
    let is_live = context.is_live();
    Ok(sessions.into_iter().map(|session| session.conversation(Kind::Main, is_live, &mut context.problems)).collect())
}

impl Session {
    fn info(&mut self, info: &Value) {
        let owned = |key: &str| get_str(info, key).unwrap_or_default().to_owned();
        (self.id, self.title, self.parent) = (owned("id"), owned("title"), owned("parentID"));
    }

    fn conversation(self, kind: Kind, is_live: bool, problems: &mut Problems) -> Conversation {
        let start = if is_live { self.live_start() } else { 0 };
        let reported = self.messages.iter().rev().find_map(|message| message.prompt_tokens);
        let model =
            self.messages.iter().rev().find(|message| !message.model.is_empty()).map(|message| quote(&message.model));
        let mut builder = Builder::new(Dialect::OpenAiChat);
        for message in self.messages.into_iter().skip(start) {
            match message.role.as_str() {
                "user" => message.user(&mut builder, is_live),
                "assistant" => message.assistant(&mut builder, is_live, problems),
                role => {
                    let line = Some(message.line).filter(|line| *line > 0);
                    problems.warn(line, || format!("a message of role {role:?}; left out"));
                }
            }
        }
        let members = model.map(|model| ("model".to_owned(), model)).into_iter().collect();
        let mut made = conversation(self.id, self.title, kind, Dialect::OpenAiChat, members, builder.finish(problems));
        made.reported_tokens = reported;
        made
    }

    // The program looks back for a finished summary and the user message it answers.
    fn live_start(&self) -> usize {
        let mut summarised: HashSet<&str> = HashSet::new();
        for (index, message) in self.messages.iter().enumerate().rev() {
            if message.role == "assistant" && message.is_summary && message.is_finished && message.error.is_none() {
                summarised.insert(&message.parent);
            }
            if message.role == "user" && message.asks_for_compaction() && summarised.contains(message.id.as_str()) {
                return index;
            }
        }
        0
    }
}

impl Message {
    fn from_export(line: u64, value: &Value) -> Message {
        let mut message = Message { line, ..Message::default() };
        message.info(value.get("info").unwrap_or(value));
        let parts = value.get("parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        message.parts = parts.iter().map(|part| (String::new(), Part::from_value(part))).collect();
        message
    }

    fn info(&mut self, info: &Value) {
        let owned = |key: &str| get_str(info, key).unwrap_or_default().to_owned();
        (self.id, self.role, self.parent) = (owned("id"), owned("role"), owned("parentID"));
        self.model = owned("modelID");
        // On a user message `summary` is an object about its diffs and says nothing of compaction.
        self.is_summary = info.get("summary") == Some(&Value::Bool(true));
        self.is_finished = info.get("finish").is_some() || info.pointer("/time/completed").is_some();
        self.error = info
            .get("error")
            .filter(|error| !error.is_null())
            .map(|error| get_str(error, "name").unwrap_or("error").to_owned());
        let count = |pointer: &str| info.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let tokens = ["/tokens/input", "/tokens/cache/read", "/tokens/cache/write"];
        self.prompt_tokens =
            Some(tokens.into_iter().map(count).fold(0u64, u64::saturating_add)).filter(|tokens| *tokens > 0);
    }

    fn asks_for_compaction(&self) -> bool {
        self.parts.iter().any(|(_, part)| matches!(part, Part::Compaction))
    }

    fn user(self, builder: &mut Builder, is_live: bool) {
        if self.asks_for_compaction() && !is_live {
            return;
        }
        let mut pieces = Vec::new();
        let mut is_all_synthetic = true;
        for (_, part) in self.parts {
            match part {
                Part::Text { text, is_synthetic, is_ignored: false } => {
                    is_all_synthetic &= is_synthetic;
                    pieces.push(Piece::Text(text));
                }
                // Text files and folders come again as synthetic text.
                Part::File { mime, .. } if mime == "text/plain" || mime == "application/x-directory" => {}
                Part::File { mime, url, name } => {
                    is_all_synthetic = false;
                    pieces.push(if mime.starts_with("image/") && !url.starts_with("file:") {
                        Piece::Image(url)
                    } else {
                        Piece::Text(format!("[file {name} ({mime})]"))
                    });
                }
                Part::Compaction => pieces.push(Piece::Text(COMPACTION_REQUEST.to_owned())),
                Part::Subtask => pieces.push(Piece::Text(SUBTASK_NOTE.to_owned())),
                Part::Text { .. } | Part::Reasoning(_) | Part::Tool(_) | Part::StepStart | Part::Other => {}
            }
        }
        let mark = if is_all_synthetic { Mark::Injected } else { Mark::AsRead };
        builder.user(&pieces, mark, Some(self.line).filter(|line| *line > 0));
    }

    fn assistant(self, builder: &mut Builder, is_live: bool, problems: &mut Problems) {
        let line = Some(self.line).filter(|line| *line > 0);
        if self.is_summary {
            let text = self.parts.iter().filter_map(|(_, part)| match part {
                Part::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let text = text.collect::<Vec<_>>().join("\n");
            if is_live && !text.is_empty() {
                builder.message(
                    format!("{{\"role\":\"assistant\",\"content\":{}}}", quote(&text)),
                    Mark::Summary,
                    line,
                );
            }
            return;
        }
        // A call that failed is not sent again, unless the user stopped it with something said.
        let has_content = self.parts.iter().any(|(_, part)| matches!(part, Part::Text { .. } | Part::Tool(_)));
        if is_live && self.error.as_deref().is_some_and(|error| error != "MessageAbortedError" || !has_content) {
            return;
        }
        let mut step = Step::default();
        for (_, part) in self.parts {
            match part {
                Part::StepStart => std::mem::take(&mut step).write(builder, line, is_live, problems),
                Part::Text { text, is_ignored: false, .. } => step.texts.push(text),
                Part::Reasoning(text) => step.reasoning.push(text),
                Part::Tool(tool) => step.tools.push(tool),
                Part::Text { .. } | Part::File { .. } | Part::Compaction | Part::Subtask | Part::Other => {}
            }
        }
        step.write(builder, line, is_live, problems);
    }
}

/// One model call within a message.
#[derive(Default)]
struct Step {
    texts: Vec<String>,
    reasoning: Vec<String>,
    tools: Vec<Tool>,
}

impl Step {
    fn write(self, builder: &mut Builder, line: Option<u64>, is_live: bool, problems: &mut Problems) {
        let join =
            |texts: Vec<String>| texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        let calls = self.tools.iter().map(|tool| Call {
            id: tool.call_id.clone(),
            name: tool.name.clone(),
            arguments: tool.input.clone(),
        });
        builder.assistant(&join(self.texts), &join(self.reasoning), calls.collect(), line);
        for tool in self.tools {
            let text = match tool.status.as_str() {
                "completed" if tool.is_pruned && is_live => PRUNED_RESULT.to_owned(),
                "completed" => tool.output,
                "error" => tool.error,
                _ => INTERRUPTED_RESULT.to_owned(),
            };
            let images = if tool.is_pruned && is_live { Vec::new() } else { tool.images };
            let pieces: Vec<Piece> =
                std::iter::once(Piece::Text(text)).chain(images.into_iter().map(Piece::Image)).collect();
            builder.result(&tool.call_id, &pieces, line, problems);
        }
    }
}

impl Part {
    fn from_value(part: &Value) -> Part {
        let owned = |key: &str| get_str(part, key).unwrap_or_default().to_owned();
        let is_set = |key: &str| part.get(key).and_then(Value::as_bool).unwrap_or(false);
        match get_str(part, "type").unwrap_or_default() {
            "text" => {
                Part::Text { text: owned("text"), is_synthetic: is_set("synthetic"), is_ignored: is_set("ignored") }
            }
            "reasoning" => Part::Reasoning(owned("text")),
            "tool" => Part::Tool(Tool::from_value(part)),
            "file" => Part::File { mime: owned("mime"), url: owned("url"), name: owned("filename") },
            "step-start" => Part::StepStart,
            "compaction" => Part::Compaction,
            "subtask" => Part::Subtask,
            _ => Part::Other,
        }
    }
}

impl Tool {
    fn from_value(part: &Value) -> Tool {
        let null = Value::Null;
        let state = part.get("state").unwrap_or(&null);
        let owned = |holder: &Value, key: &str| get_str(holder, key).unwrap_or_default().to_owned();
        let attachments = state.get("attachments").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_image = |file: &&Value| get_str(file, "mime").is_some_and(|mime| mime.starts_with("image/"));
        Tool {
            call_id: owned(part, "callID"),
            name: owned(part, "tool"),
            input: arguments(state.get("input")),
            status: owned(state, "status"),
            output: owned(state, "output"),
            error: owned(state, "error"),
            is_pruned: state.pointer("/time/compacted").is_some_and(|at| !at.is_null()),
            images: attachments
                .iter()
                .filter(is_image)
                .filter_map(|file| get_str(file, "url"))
                .map(str::to_owned)
                .collect(),
        }
    }
}
