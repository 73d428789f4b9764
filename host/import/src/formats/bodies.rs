//! Request bodies and message lists of the wire dialects, whose bytes survive untouched; also lists nested in other documents.
//!
//! The document is held once as text, because the wire reader keeps the client's bytes. A document it refuses is walked for
//! whole messages, so that a cut file gives what comes before the cut.

use crate::build::{Mark, parse};
use crate::input::Input;
use crate::json::{elements, members, pick, string, text};
use crate::lines::records;
use crate::problems::Problems;
use crate::scan::{Scanner, Stop, settle};
use crate::{Context, Conversation, Format, ImportError, Kind, title_of};
use engine_api::Dialect;
use host_wire::Document;
use std::io::BufRead;

/// Members of an object that may hold a message list, apart from `messages` and `input`.
const LIST_KEYS: [&str; 6] = ["traj", "history", "conversation", "chat", "train_messages", "prompt"];
/// How deep lists and objects are searched for message lists.
const SEARCH_DEPTH_MAX: usize = 6;
/// Most lists taken from one document.
const LISTS_MAX: usize = 10_000;

pub(super) fn read(
    format: Format,
    is_lines: bool,
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<(Format, Vec<Conversation>), ImportError> {
    // A format that was recognised is a guess between dialects; one that was given is not.
    let dialect = context.options.format.and_then(dialect_of);
    let mut conversations = if is_lines { lines(dialect, input, context)? } else { whole(dialect, input, context)? };
    if format == Format::ToolBench {
        // Its lists are the ways a search went; the longest is the one that was finished.
        conversations.sort_by_key(|conversation| std::cmp::Reverse(conversation.document.messages.len()));
        conversations.iter_mut().skip(1).for_each(|conversation| conversation.kind = Kind::Branch);
    }
    let found = conversations
        .first()
        .map_or(format, |first| if format == Format::ToolBench { format } else { format_of(first) });
    Ok((found, conversations))
}

fn dialect_of(format: Format) -> Option<Dialect> {
    match format {
        Format::Anthropic => Some(Dialect::Anthropic),
        Format::Responses => Some(Dialect::Responses),
        Format::OpenAi | Format::ToolBench => Some(Dialect::OpenAiChat),
        _ => None,
    }
}

fn format_of(conversation: &Conversation) -> Format {
    match conversation.document.dialect() {
        Dialect::Anthropic => Format::Anthropic,
        Dialect::Responses => Format::Responses,
        _ => Format::OpenAi,
    }
}

fn whole(
    dialect: Option<Dialect>,
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Conversation>, ImportError> {
    let text = read_text(input, context)?;
    let body = text.trim_matches(['\0', ' ', '\t', '\r', '\n']);
    if let Ok(document) = Document::read(&text, dialect).or_else(|_| Document::read(body, dialect)) {
        return Ok(vec![wrap(document, "", &text)]);
    }
    let mut found = Vec::new();
    search(dialect, body, 0, &mut found);
    let mut documents = serde_json::Deserializer::from_str(body).into_iter::<serde::de::IgnoredAny>();
    if matches!(documents.next(), Some(Ok(_))) {
        let rest = body.get(documents.byte_offset()..).unwrap_or_default().trim();
        if !rest.is_empty() {
            let bytes = rest.len();
            context.problems.lost(None, || format!("{bytes} bytes after the end of the first document were left out"));
        }
    }
    if found.is_empty() {
        // A first line longer than the prefix hides that the file is one of lines.
        if body.contains('\n') && serde_json::from_str::<serde::de::IgnoredAny>(body).is_err() {
            let mut again = Input::from_bytes(text.as_bytes());
            let first_line = body.lines().next().unwrap_or_default();
            if Document::read(first_line, dialect).is_ok() {
                return lines(dialect, &mut again, context);
            }
        }
        found.extend(salvage(dialect, body, context)?);
    }
    Ok(found)
}

fn read_text(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<String, ImportError> {
    let limit = context.options.document_bytes_max;
    let mut bytes = Vec::new();
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(source) => return Err(ImportError::Read { bytes_read: input.bytes(), source }),
        };
        if available.is_empty() {
            break;
        }
        if bytes.len() as u64 + available.len() as u64 > limit {
            return Err(ImportError::TooLarge { bytes_max: limit });
        }
        bytes.extend_from_slice(available);
        let count = available.len();
        input.consume(count);
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
        context.problems.warn(None, || "bytes that are no UTF-8; replaced".to_owned());
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    }))
}

fn wrap(document: Document, id: &str, source: &str) -> Conversation {
    let title = title_of(&document.messages);
    Conversation {
        id: id.to_owned(),
        title,
        kind: Kind::Main,
        reported_tokens: reported_tokens(source),
        document,
        stored: None,
    }
}

// A call log or a stored exchange states what its own call cost.
fn reported_tokens(body: &str) -> Option<u64> {
    let [usage, response] = pick(body, ["usage", "response"]).ok()?;
    let usage =
        usage.or_else(|| response.and_then(|response| pick(response, ["usage"]).ok()).and_then(|[usage]| usage))?;
    let [prompt, fresh, written, cached] =
        pick(usage, ["prompt_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"])
            .ok()?;
    let sum = [fresh, written, cached].into_iter().filter_map(crate::json::number).fold(0u64, u64::saturating_add);
    crate::json::number(prompt).or(Some(sum)).filter(|tokens| *tokens > 0)
}

// JSON lines: a body a line, a list a line, or a message a line.
fn lines(
    dialect: Option<Dialect>,
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Conversation>, ImportError> {
    let mut found: Vec<Conversation> = Vec::new();
    let mut single: Vec<(u64, String)> = Vec::new();
    records(input, context.options.line_bytes_max, &mut context.problems, &mut |line, record, problems| {
        if record.starts_with('[') {
            serde_json::from_str::<serde::de::IgnoredAny>(record)?;
            search(dialect, record, 0, &mut found);
            return Ok(());
        }
        let [role, kind, messages, id, instance] = pick(record, ["role", "type", "messages", "id", "instance_id"])?;
        if messages.is_none() && (role.is_some() || kind.is_some()) {
            single.push((line, record.to_owned()));
            return Ok(());
        }
        if let Ok(document) = Document::read(record, dialect) {
            let id = text(instance.or(id)).unwrap_or_default().into_owned();
            found.push(wrap(document, &id, record));
            return Ok(());
        }
        let before = found.len();
        search(dialect, record, 0, &mut found);
        if found.len() == before {
            problems.warn(Some(line), || "a record without messages; left out".to_owned());
        }
        Ok(())
    })?;
    if !single.is_empty() {
        found.insert(0, from_messages(dialect, &single, Vec::new(), &mut context.problems));
    }
    Ok(found)
}

fn from_messages(
    dialect: Option<Dialect>,
    raws: &[(u64, String)],
    members: Vec<(String, String)>,
    problems: &mut Problems,
) -> Conversation {
    let texts: Vec<&str> = raws.iter().map(|(_, raw)| raw.as_str()).collect();
    let dialect = dialect.unwrap_or_else(|| host_wire::detect(&texts));
    let mut messages: Vec<_> =
        raws.iter().filter_map(|(line, raw)| parse(dialect, raw, Mark::AsRead, Some(*line), problems)).collect();
    host_wire::number(&mut messages);
    crate::conversation("", "", Kind::Main, dialect, members, messages)
}

// Looks for message lists inside: an object's list members, the elements of a list, lists of lists.
fn search(dialect: Option<Dialect>, value: &str, depth: usize, found: &mut Vec<Conversation>) {
    if depth > SEARCH_DEPTH_MAX || found.len() >= LISTS_MAX {
        return;
    }
    if value.starts_with('[') {
        let all = elements(value);
        if all.first().is_some_and(|first| is_message(first)) {
            if let Ok(document) = Document::read(value, dialect) {
                found.push(wrap(document, "", ""));
            }
            return;
        }
        for element in all.into_iter().filter(|element| element.starts_with(['[', '{'])) {
            search(dialect, element, depth + 1, found);
        }
        return;
    }
    let Some(all) = members(value) else { return };
    let has_list =
        all.iter().any(|(key, value)| matches!(key.as_str(), "messages" | "input") && value.starts_with('['));
    if has_list && let Ok(document) = Document::read(value, dialect) {
        found.push(wrap(document, "", value));
        return;
    }
    let before = found.len();
    let (named, others): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|(_, value)| value.starts_with(['[', '{']))
        .partition(|(key, _)| LIST_KEYS.contains(&key.as_str()));
    for (_, value) in named {
        search(dialect, value, depth + 1, found);
    }
    if found.len() > before {
        return;
    }
    for (_, value) in others {
        search(dialect, value, depth + 1, found);
    }
}

fn is_message(value: &str) -> bool {
    pick(value, ["role", "content", "tool_calls", "function_call"]).is_ok_and(|[role, content, calls, legacy]| {
        role.and_then(string).is_some() && (content.is_some() || calls.is_some() || legacy.is_some())
    })
}

// Walks a document that is no valid JSON and keeps the whole messages before the fault, and the members before them.
fn salvage(dialect: Option<Dialect>, body: &str, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut input = Input::from_bytes(body.as_bytes());
    let mut scanner = Scanner::new(&mut input, context.options.line_bytes_max);
    let problems = &mut context.problems;
    let mut raws: Vec<(u64, String)> = Vec::new();
    let mut kept: Vec<(String, String)> = Vec::new();
    let mut element = |scanner: &mut Scanner<'_, '_>, problems: &mut Problems| -> Result<(), Stop> {
        let line = scanner.line();
        if let Some(raw) = scanner.take(problems)? {
            raws.push((line, raw));
        }
        Ok(())
    };
    let walked = if body.starts_with('[') {
        scanner.array(&mut |scanner| element(scanner, problems))
    } else {
        scanner.object(&mut |key, scanner| {
            if matches!(key, "messages" | "input") || LIST_KEYS.contains(&key) {
                return scanner.array(&mut |scanner| element(scanner, problems)).map(|_| ());
            }
            if let Some(raw) = scanner.take(problems)? {
                kept.push((key.to_owned(), raw));
            }
            Ok(())
        })
    };
    let line = scanner.line();
    settle(walked.map(|_| ()), line, &mut context.problems)?;
    raws.retain(|(_, raw)| raw.starts_with('{'));
    if raws.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![from_messages(dialect, &raws, kept, &mut context.problems)])
}
