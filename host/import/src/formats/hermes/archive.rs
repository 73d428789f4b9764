//! Trajectory interchange documents (ATIF) and archival exports: steps and messages with calls and results by id.

use crate::build::{Builder, Call, Mark, Piece};
use crate::formats::walk::{Place, arguments, each_value, pieces, take_string, take_value, text_of, top};
use crate::input::Input;
use crate::json::{get_str, loose_text, quote};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::Value;
use std::collections::HashMap;

/// Reads an ATIF document.
pub(in crate::formats) fn read_atif(
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Conversation>, ImportError> {
    let mut builder = Builder::new(Dialect::OpenAiChat);
    let (mut id, mut model, mut prompt_tokens) = (String::new(), None, None);
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Member("steps") => each_value(scanner, problems, &mut |line, step, problems| {
            let tokens = step.pointer("/metrics/prompt_tokens").and_then(Value::as_u64);
            prompt_tokens = tokens.filter(|tokens| *tokens > 0).or(prompt_tokens);
            atif_step(&mut builder, line, &step, problems);
        }),
        Place::Member("session_id") => {
            id = take_string(scanner, problems)?.unwrap_or_default();
            Ok(())
        }
        Place::Member("agent") => {
            let agent = take_value(scanner, problems)?;
            model = agent.as_ref().and_then(|agent| get_str(agent, "model_name")).map(quote);
            Ok(())
        }
        Place::Begin => Ok(()),
        Place::Member(_) | Place::Element => scanner.skip(),
    })?;
    let members = model.map(|model| ("model".to_owned(), model)).into_iter().collect();
    let messages = builder.finish(&mut context.problems);
    let mut made = conversation(id, "", Kind::Main, Dialect::OpenAiChat, members, messages);
    made.reported_tokens = prompt_tokens;
    Ok(vec![made])
}

fn atif_step(builder: &mut Builder, line: u64, step: &Value, problems: &mut Problems) {
    let null = Value::Null;
    let message = step.get("message").unwrap_or(&null);
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let calls = list(step.get("tool_calls"));
    let has_call = step.get("llm_call_count").is_some() || step.get("metrics").is_some() || !calls.is_empty();
    match get_str(step, "source").unwrap_or_default() {
        "system" => builder.system(&text_of(message)),
        "user" => builder.user(&pieces(message), Mark::AsRead, Some(line)),
        // A source that cannot be told: what made a model call is the model's.
        source if source == "agent" || has_call => {
            let calls = calls.iter().map(|call| Call {
                id: get_str(call, "tool_call_id").unwrap_or_default().to_owned(),
                name: get_str(call, "function_name").unwrap_or_default().to_owned(),
                arguments: arguments(call.get("arguments")),
            });
            let reasoning = get_str(step, "reasoning_content").unwrap_or_default();
            builder.assistant(&text_of(message), reasoning, calls.collect(), Some(line));
        }
        _ => builder.user(&pieces(message), Mark::AsRead, Some(line)),
    }
    let mut waiting: HashMap<&str, usize> = HashMap::new();
    for id in calls.iter().filter_map(|call| get_str(call, "tool_call_id")) {
        *waiting.entry(id).or_insert(0) += 1;
    }
    for result in list(step.pointer("/observation/results")) {
        let content = result.get("content").map(pieces).unwrap_or_default();
        let id = get_str(&result, "source_call_id").unwrap_or_default();
        match waiting.get_mut(id).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                builder.result(id, &content, Some(line), problems);
            }
            // What the surroundings say without being asked.
            None => builder.user(&content, Mark::Injected, Some(line)),
        }
    }
}

/// Reads an archival export. Messages the program compacted away are part of the full history alone; rewound ones of none.
pub(in crate::formats) fn read_archive(
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Conversation>, ImportError> {
    let is_live = context.is_live();
    let mut builder = Builder::new(Dialect::OpenAiChat);
    let mut id = String::new();
    let mut rewound = 0u64;
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Member("messages") => {
            each_value(scanner, problems, &mut |line, message, problems| match get_str(&message, "state")
                .unwrap_or_default()
            {
                "rewound" => rewound += 1,
                "compacted" if is_live => {}
                _ => archive_message(&mut builder, line, &message, problems),
            })
        }
        Place::Member("session_id") => {
            id = take_string(scanner, problems)?.unwrap_or_default();
            Ok(())
        }
        Place::Begin => Ok(()),
        Place::Member(_) | Place::Element => scanner.skip(),
    })?;
    if rewound > 0 {
        context.problems.note(None, || format!("{rewound} messages that were rewound were left out"));
    }
    let messages = builder.finish(&mut context.problems);
    Ok(vec![conversation(id, "", Kind::Main, Dialect::OpenAiChat, Vec::new(), messages)])
}

fn archive_message(builder: &mut Builder, line: u64, message: &Value, problems: &mut Problems) {
    let text = message.get("text").map(loose_text).unwrap_or_default();
    let list = |key: &str| message.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match get_str(message, "role").unwrap_or_default() {
        "system" => builder.system(&text),
        "user" => builder.user_text(&text, Mark::AsRead, Some(line)),
        "assistant" => {
            let calls = list("tool_calls").iter().map(|call| Call {
                id: get_str(call, "action_id").unwrap_or_default().to_owned(),
                name: get_str(call, "tool_name").unwrap_or_default().to_owned(),
                arguments: arguments(call.get("arguments_json").or_else(|| call.get("arguments"))),
            });
            let reasoning = get_str(message, "reasoning").unwrap_or_default();
            builder.assistant(&text, reasoning, calls.collect(), Some(line));
        }
        "tool" => {}
        other => problems.warn(Some(line), || format!("a message of role {other:?}; left out")),
    }
    for result in list("tool_results") {
        let keys = ["output", "content", "output_preview"];
        let said = keys.iter().find_map(|key| result.get(key)).map(loose_text).unwrap_or_default();
        builder.result(get_str(result, "action_id").unwrap_or_default(), &[Piece::Text(said)], Some(line), problems);
    }
}
