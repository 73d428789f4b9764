//! ShareGPT trajectories: calls as `<tool_call>` and results as `<tool_response>` in the text, put back as calls and results.

use crate::build::{Builder, Call, Mark, Piece};
use crate::formats::walk::{Place, arguments, each_value, take_string, top};
use crate::input::Input;
use crate::json::{get_str, loose_text, quote};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::Value;

struct Trajectory {
    builder: Builder,
    model: Option<String>,
    /// Ids given to the calls of the last model message, in order.
    open: std::collections::VecDeque<String>,
    calls: u64,
}

impl Trajectory {
    fn new() -> Self {
        Trajectory {
            builder: Builder::new(Dialect::OpenAiChat),
            model: None,
            open: std::collections::VecDeque::new(),
            calls: 0,
        }
    }
}

pub(in crate::formats) fn read(
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Conversation>, ImportError> {
    let mut all: Vec<Trajectory> = Vec::new();
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Begin => {
            all.push(Trajectory::new());
            Ok(())
        }
        Place::Member("conversations") => each_value(scanner, problems, &mut |line, value, problems| {
            if let Some(trajectory) = all.last_mut() {
                trajectory.message(line, &value, problems);
            }
        }),
        Place::Member("model") => {
            let model = take_string(scanner, problems)?;
            if let Some(trajectory) = all.last_mut() {
                trajectory.model = model;
            }
            Ok(())
        }
        // A list of trajectories.
        Place::Element => {
            let mut trajectory = Trajectory::new();
            scanner.object(&mut |key, scanner| match key {
                "conversations" => each_value(scanner, problems, &mut |line, value, problems| {
                    trajectory.message(line, &value, problems)
                }),
                _ => scanner.skip(),
            })?;
            all.push(trajectory);
            Ok(())
        }
        Place::Member(_) => scanner.skip(),
    })?;
    let problems = &mut context.problems;
    let made = all.into_iter().enumerate().map(|(index, trajectory)| {
        let members = trajectory.model.map(|model| ("model".to_owned(), quote(&model))).into_iter().collect();
        let messages = trajectory.builder.finish(problems);
        conversation(format!("{}", index + 1), "", Kind::Main, Dialect::OpenAiChat, members, messages)
    });
    Ok(made.collect())
}

impl Trajectory {
    fn message(&mut self, line: u64, message: &Value, problems: &mut Problems) {
        let text = message.get("value").map(loose_text).unwrap_or_default();
        match get_str(message, "from").unwrap_or_default() {
            "system" => self.builder.system(&text),
            "human" | "user" => self.builder.user_text(&text, Mark::AsRead, Some(line)),
            "gpt" | "assistant" | "model" => self.model_message(&text, line),
            "tool" | "function" | "observation" => self.results(&text, line, problems),
            other => problems.warn(Some(line), || format!("a message from {other:?}; left out")),
        }
    }

    fn model_message(&mut self, text: &str, line: u64) {
        self.open.clear();
        let (reasoning, said) = match text.strip_prefix("<think>").and_then(|rest| rest.split_once("</think>")) {
            Some((reasoning, said)) => (reasoning.trim(), said.trim_start()),
            None => ("", text),
        };
        let (rest, bodies) = tagged(said, "<tool_call>", "</tool_call>");
        let parsed: Option<Vec<Value>> = bodies.iter().map(|body| serde_json::from_str(body.trim()).ok()).collect();
        // Text that only looks like a call stays text.
        let Some(parsed) =
            parsed.filter(|calls| !calls.is_empty() && calls.iter().all(|call| get_str(call, "name").is_some()))
        else {
            self.builder.assistant(said, reasoning, Vec::new(), Some(line));
            return;
        };
        let calls = parsed.iter().map(|call| {
            self.calls += 1;
            let id = format!("call_{}", self.calls);
            self.open.push_back(id.clone());
            let name = get_str(call, "name").unwrap_or_default().to_owned();
            Call { id, name, arguments: arguments(call.get("arguments")) }
        });
        let calls: Vec<Call> = calls.collect();
        self.builder.assistant(rest.trim(), reasoning, calls, Some(line));
    }

    fn results(&mut self, text: &str, line: u64, problems: &mut Problems) {
        let (_, bodies) = tagged(text, "<tool_response>", "</tool_response>");
        let bodies: Vec<&str> = if bodies.is_empty() { vec![text] } else { bodies };
        for body in bodies {
            let body = body.trim();
            let parsed: Option<Value> = serde_json::from_str(body).ok();
            let content =
                parsed.as_ref().and_then(|parsed| parsed.get("content")).map_or_else(|| body.to_owned(), loose_text);
            match self.open.pop_front() {
                Some(id) => self.builder.result(&id, &[Piece::Text(content)], Some(line), problems),
                None => self.builder.user_text(body, Mark::Injected, Some(line)),
            }
        }
    }
}

// What stands between the tags, and the text without them.
fn tagged<'t>(text: &'t str, open: &str, close: &str) -> (String, Vec<&'t str>) {
    let mut outside = String::new();
    let mut inside = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        let Some((body, behind)) = after.split_once(close) else { break };
        outside.push_str(before);
        inside.push(body);
        rest = behind;
    }
    outside.push_str(rest);
    (outside, inside)
}
