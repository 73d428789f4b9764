//! SWE-agent and mini-swe-agent trajectories: OpenAI messages with members of the program's own.

use super::walk::{Place, splice, take_value, top};
use crate::build::{Builder, Mark};
use crate::input::Input;
use crate::json::{elements, pick, quote, text};
use crate::problems::Problems;
use crate::scan::{Scanner, Walk};
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;

/// Members of a message that are sent.
const SENT: [&str; 6] = ["role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content"];

/// Reads SWE-agent's `history`; if the file is cut before it, the steps of `trajectory`.
pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut history = Builder::new(Dialect::OpenAiChat);
    let mut steps: Vec<(u64, String, String)> = Vec::new();
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Member("history") => {
            steps = Vec::new();
            each_record(scanner, problems, &mut |line, record, problems| {
                history_message(&mut history, line, record, problems)
            })
        }
        // A step holds the whole prompt it was made from; only its answer and what came of it are taken.
        Place::Member("trajectory") => each_record(scanner, problems, &mut |line, record, _| {
            if let Ok([response, observation]) = pick(record, ["response", "observation"]) {
                let owned = |member: Option<&str>| text(member).map(|text| text.into_owned()).unwrap_or_default();
                steps.push((line, owned(response), owned(observation)));
            }
        }),
        Place::Begin => Ok(()),
        Place::Member(_) | Place::Element => scanner.skip(),
    })?;
    if history.is_empty() && !steps.is_empty() {
        context.problems.warn(None, || {
            "no history in the file; rebuilt from the steps, without the prompt they began with".to_owned()
        });
        for (line, response, observation) in steps {
            history.assistant(&response, "", Vec::new(), Some(line));
            history.user_text(&observation, Mark::AsRead, Some(line));
        }
    }
    let messages = history.finish(&mut context.problems);
    Ok(vec![conversation("", "", Kind::Main, Dialect::OpenAiChat, Vec::new(), messages)])
}

/// Reads mini-swe-agent's messages, in an object or as a bare list.
pub(super) fn read_mini(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut builder = Builder::new(Dialect::OpenAiChat);
    let mut id = String::new();
    let mut model = None;
    let mut prompt_tokens = None;
    let mut message = |line: u64, record: &str, problems: &mut Problems| {
        let Ok([role, extra]) = pick(record, ["role", "extra"]) else {
            problems.lost(Some(line), || "a message that is no JSON object; left out".to_owned());
            return;
        };
        // The last message says how the run ended; no API knows its role.
        if text(role).as_deref() == Some("exit") {
            return;
        }
        let usage = extra
            .and_then(|extra| pick(extra, ["response"]).ok())
            .and_then(|[response]| pick(response?, ["usage"]).ok());
        if let Some([Some(usage)]) = usage
            && let Ok([tokens]) = pick(usage, ["prompt_tokens"])
        {
            prompt_tokens = crate::json::number(tokens).or(prompt_tokens);
        }
        match splice(record, |key| SENT.contains(&key)) {
            Some(raw) => builder.message(raw, Mark::AsRead, Some(line)),
            None => problems.lost(Some(line), || "a message that cannot be read; left out".to_owned()),
        }
    };
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Member("messages") => each_record(scanner, problems, &mut message),
        Place::Element => {
            let line = scanner.line();
            if let Some(record) = scanner.take(problems)? {
                message(line, &record, problems);
            }
            Ok(())
        }
        Place::Member("instance_id") => {
            id = take_value(scanner, problems)?.and_then(|id| id.as_str().map(str::to_owned)).unwrap_or_default();
            Ok(())
        }
        Place::Member("info") => {
            model = take_value(scanner, problems)?
                .and_then(|info| info.pointer("/config/model/model_name").and_then(|name| name.as_str().map(quote)));
            Ok(())
        }
        Place::Begin => Ok(()),
        Place::Member(_) => scanner.skip(),
    })?;
    let members = model.map(|model| ("model".to_owned(), model)).into_iter().collect();
    let messages = builder.finish(&mut context.problems);
    let mut made = conversation(id, "", Kind::Main, Dialect::OpenAiChat, members, messages);
    made.reported_tokens = prompt_tokens;
    Ok(vec![made])
}

/// Reads every element of a list as its text.
pub(super) fn each_record(
    scanner: &mut Scanner<'_, '_>,
    problems: &mut Problems,
    each: &mut dyn FnMut(u64, &str, &mut Problems),
) -> Walk<()> {
    scanner
        .array(&mut |scanner| {
            let line = scanner.line();
            if let Some(record) = scanner.take(problems)? {
                each(line, &record, problems);
            }
            Ok(())
        })
        .map(|_| ())
}

fn history_message(builder: &mut Builder, line: u64, record: &str, problems: &mut Problems) {
    let Ok([ids, own_id, is_demo]) = pick(record, ["tool_call_ids", "tool_call_id", "is_demo"]) else {
        problems.lost(Some(line), || "a message that is no JSON object; left out".to_owned());
        return;
    };
    let Some(mut raw) = splice(record, |key| SENT.contains(&key)) else {
        problems.lost(Some(line), || "a message that cannot be read; left out".to_owned());
        return;
    };
    // The program notes the ids of the calls an observation answers; the API wants one.
    if own_id.is_none()
        && let Some(id) = ids.map(elements).and_then(|ids| ids.first().copied().map(str::to_owned))
    {
        raw.truncate(raw.len().saturating_sub(1));
        raw.push_str(&format!(",\"tool_call_id\":{id}}}"));
    }
    let mark = if crate::json::is_true(is_demo) { Mark::Injected } else { Mark::AsRead };
    builder.message(raw, mark, Some(line));
}

/// Reads session documents of exporters: messages with a timestamp and metadata beside role and content.
pub(super) fn read_plain(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut builder = Builder::new(Dialect::OpenAiChat);
    let mut title = String::new();
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Member("messages") => each_record(scanner, problems, &mut |line, record, problems| match splice(
            record,
            |key| SENT.contains(&key),
        ) {
            Some(raw) => builder.message(raw, Mark::AsRead, Some(line)),
            None => problems.lost(Some(line), || "a message that cannot be read; left out".to_owned()),
        }),
        Place::Member("title") => {
            title = take_value(scanner, problems)?
                .map(|title| title.as_str().unwrap_or_default().to_owned())
                .unwrap_or_default();
            Ok(())
        }
        Place::Begin => Ok(()),
        Place::Member(_) | Place::Element => scanner.skip(),
    })?;
    let messages = builder.finish(&mut context.problems);
    Ok(vec![conversation("", title, Kind::Main, Dialect::OpenAiChat, Vec::new(), messages)])
}
