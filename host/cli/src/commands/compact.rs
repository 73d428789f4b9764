//! `compact`: reads a conversation, has it compacted, writes it, and says what became of it.

use crate::args::{CompactArgs, DialectName, Global, History, ToolCall};
use crate::commands::Status;
use crate::error::CliError;
use crate::input::{self, Input};
use crate::output;
use crate::place::Place;
use crate::receipt::{self, Beside};
use crate::safe;
use crate::ui::{Ui, bold};
use engine_api::Dialect;
use engine_api::json::Value;
use host_core::Receipt;
use host_import::Problem;
use host_runtime::{LiveSession, Options};
use host_wire::Document;
use serde::Serialize;
use serde_json::value::RawValue;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Where the conversation goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Nowhere,
    Stdout,
    File { path: PathBuf, is_input: bool },
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    receipt: &'a Receipt,
    source: Source<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversion: Option<Conversion<'a>>,
    /// What to do about the engine that could not be had.
    #[serde(skip_serializing_if = "str::is_empty")]
    fallback_hint: &'a str,
    problems: &'a [Problem],
    problems_suppressed: u64,
    tool_replies: &'a [Reply],
    engine_log: &'a [String],
}

#[derive(Serialize)]
struct Source<'a> {
    file: &'a str,
    format: &'a str,
    dialect: Dialect,
    session: &'a str,
    title: &'a str,
    /// Its place among the file's conversations, from 1.
    place: usize,
    conversations: usize,
    reported_tokens: Option<u64>,
    is_context_length_assumed: bool,
}

#[derive(Serialize)]
struct Conversion<'a> {
    to: Dialect,
    notes: &'a [String],
}

/// What a tool of the engine answered.
#[derive(Serialize)]
pub(crate) struct Reply {
    tool: String,
    arguments: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<CliError>,
}

pub(crate) fn run(args: &CompactArgs, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let manual = host_core::manual::read(&args.words.join(" "));
    for refused in &manual.refused {
        ui.warn(refused);
    }
    let target = if manual.is_preview { Target::Nowhere } else { target(args)? };
    let place = Place::open(global, ui);
    let Input { name, format, conversation, place: at, conversation_count, problems, problems_suppressed } =
        input::read(&args.input, ui)?;
    if let Target::File { path, is_input: true } = &target {
        check_in_place(path, &conversation.document)?;
    }
    let host_import::Conversation { id, title, document, reported_tokens, .. } = conversation;
    let reported_tokens = reported_tokens.filter(|_| is_reported_for(args, &document));
    let (dialect, written_as) = (document.dialect(), args.to.map_or(document.dialect(), dialect_of));
    let is_context_length_assumed = args.how.context_length.or(place.config.model.context_length).is_none();
    let options = Options {
        session_id: if id.is_empty() { name.clone() } else { id.clone() },
        engine: args.how.engine.clone(),
        model: args.how.model.clone(),
        context_length: args.how.context_length,
        // Words after `--` are a person's /compress.
        force: args.how.force || !args.words.is_empty(),
        focus: args.how.focus.clone().unwrap_or(manual.focus),
        keep_exchanges: args.how.keep.or(manual.keep_exchanges).unwrap_or(0),
        memory_context: args.how.memory.as_deref().map(memory).transpose()?.unwrap_or_default(),
        idle_seconds: args.how.idle,
        reported_tokens,
        estimate: args.how.estimate,
        ..Options::default()
    };
    let registry = place.registry();
    let mut live = LiveSession::open(document, place.config.clone(), &registry, &place.home, options)
        .map_err(|error| CliError::internal("the session could not be opened").because(&error))?;
    if !args.how.offline {
        let env = |name: &str| std::env::var(name).ok();
        let client = host_llm::Client::new(&place.config, &place.home, &env);
        if let Some(problem) = &client.prices().problem {
            ui.warn(problem);
        }
        live = live.with_summariser(std::sync::Arc::new(client));
    }
    let fallback_hint = live.resolved().fallback.as_ref().map(|fault| fault.hint.clone()).unwrap_or_default();
    if let Some(raise) = &live.budgets().autoraise
        && let Some(notice) = host_config::codex::announce(&place.config, raise, &place.home)
    {
        ui.note(&notice);
    }
    let receipt = live.compact();
    let replies: Vec<Reply> = args.call.iter().map(|call| answer(&mut live, call)).collect();
    let log = live.log();
    let text = match target {
        Target::Nowhere => None,
        _ => Some(live.write().map_err(|error| CliError::internal("the result could not be written").because(&error))?),
    };
    // The session holds the conversation several times over; a conversion needs that room.
    drop(live);
    let (text, notes) = convert(text, dialect, written_as)?;

    let written_to = match (&target, &text) {
        // A file that already is what would be written is left alone.
        (Target::File { path, is_input: true }, Some(_)) if receipt.action == "unchanged" && written_as == dialect => {
            format!("nothing: {} stays as it is", path.display())
        }
        (Target::File { path, is_input }, Some(text)) => {
            if *is_input {
                keep_original(path)?;
            }
            output::write(path, text)?;
            path.display().to_string()
        }
        _ => String::new(),
    };
    let conversion = (written_as != dialect && text.is_some()).then_some(());
    let is_failed = replies.iter().any(|reply| reply.error.is_some());
    let status = if is_failed { Status::Failed } else { Status::Done };
    if ui.is_json() {
        let conversation = match (&target, text) {
            (Target::Stdout, Some(text)) => Some(RawValue::from_string(text).map_err(|error| {
                CliError::user("the conversation cannot be put into a JSON document")
                    .because(&error)
                    .hint("write it to a file with -o")
            })?),
            _ => None,
        };
        ui.json(&Report {
            receipt: &receipt,
            source: Source {
                file: &name,
                format: format.as_str(),
                dialect,
                session: &id,
                title: &title,
                place: at,
                conversations: conversation_count,
                reported_tokens,
                is_context_length_assumed,
            },
            conversation,
            written_to: Some(written_to).filter(|path| !path.is_empty()),
            conversion: conversion.map(|()| Conversion { to: written_as, notes: &notes }),
            fallback_hint: &fallback_hint,
            problems: &problems,
            problems_suppressed,
            tool_replies: &replies,
            engine_log: &log,
        })?;
        return Ok(status);
    }
    let mut source = format!("{name} ({format}");
    if conversation_count > 1 {
        source.push_str(&format!(", conversation {at} of {conversation_count}"));
    }
    source.push(')');
    let prices = host_llm::Prices::load(&place.home);
    let beside = Beside {
        source,
        reported_tokens,
        is_window_assumed: is_context_length_assumed,
        fallback_hint: &fallback_hint,
        conversion: conversion.map(|()| (written_as.as_str(), notes.as_slice())),
        log: &log,
        problems: &problems,
        problems_suppressed,
        written_to,
        prices: Some(&prices),
    };
    ui.note(&receipt::text(&receipt, &beside));
    if let (Target::Stdout, Some(text)) = (&target, &text) {
        ui.document(text)?;
    }
    for reply in &replies {
        print_reply(reply, target == Target::Stdout, ui)?;
    }
    Ok(status)
}

/// Bytes of a memory file that are read; what is used of it is far shorter.
const MEMORY_BYTES_MAX: u64 = 1024 * 1024;

/// Reads the client's memory.
pub(crate) fn memory(path: &Path) -> Result<String, CliError> {
    let file = std::fs::File::open(path).map_err(|error| CliError::io("read", path, &error))?;
    let mut bytes = Vec::new();
    file.take(MEMORY_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| CliError::io("read", path, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Says where the conversation goes, and refuses what could not work or would destroy the input.
fn target(args: &CompactArgs) -> Result<Target, CliError> {
    let file = &args.input.file;
    if args.dry_run {
        return Ok(Target::Nowhere);
    }
    if args.in_place {
        if input::is_stdin(file) {
            return Err(CliError::usage("standard input cannot be written in place").hint("name a file with -o"));
        }
        return Ok(Target::File { path: file.clone(), is_input: true });
    }
    let Some(path) = &args.output else { return Ok(Target::Stdout) };
    if path.as_os_str() == "-" {
        return Ok(Target::Stdout);
    }
    if output::is_same_file(path, file) {
        return Err(CliError::user(format!("{} is the input; it was not overwritten", path.display()))
            .hint("name another file, or say --in-place in place of -o"));
    }
    output::check(path)?;
    Ok(Target::File { path: path.clone(), is_input: false })
}

/// Originals of one file beside it at most.
const ORIGINALS_MAX: usize = 1_000;

/// Copies the input beside itself under a name that is free: what a compaction takes away is nowhere else.
fn keep_original(path: &Path) -> Result<(), CliError> {
    for number in 0..ORIGINALS_MAX {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 0 { ".orig".to_owned() } else { format!(".orig{number}") });
        let beside = std::path::PathBuf::from(name);
        match std::fs::OpenOptions::new().write(true).create_new(true).open(&beside) {
            Ok(mut copy) => {
                let mut from = std::fs::File::open(path).map_err(|error| CliError::io("read", path, &error))?;
                std::io::copy(&mut from, &mut copy).map_err(|error| CliError::io("write", &beside, &error))?;
                return copy.sync_all().map_err(|error| CliError::io("write", &beside, &error));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(CliError::io("write", &beside, &error)),
        }
    }
    Err(CliError::user(format!("{} has {ORIGINALS_MAX} originals beside it already", path.display())))
}

/// Refuses to replace a file that holds more than the conversation: a session file, several conversations, gzip.
fn check_in_place(path: &Path, document: &Document) -> Result<(), CliError> {
    let bytes = std::fs::read(path).map_err(|error| CliError::io("read", path, &error))?;
    let written = document.write(document.messages.iter().map(|message| message.raw.as_str()));
    if written.as_bytes() == bytes {
        return Ok(());
    }
    Err(CliError::user(format!("{} is not just one request body or message list", path.display()))
        .cause("it is packed, a session file, or holds more; writing the conversation over it would lose that")
        .hint("write the conversation to a file of its own with -o"))
}

/// Tells whether what the provider reported is of this conversation for this model.
fn is_reported_for(args: &CompactArgs, document: &Document) -> bool {
    let is_same_model = args.how.model.is_none() || args.how.model == document.model();
    args.input.history == History::Live && is_same_model
}

fn dialect_of(name: DialectName) -> Dialect {
    match name {
        DialectName::Openai => Dialect::OpenAiChat,
        DialectName::Anthropic => Dialect::Anthropic,
        DialectName::Responses => Dialect::Responses,
    }
}

pub(crate) fn answer(live: &mut LiveSession, call: &ToolCall) -> Reply {
    let answered = live.call_tool(&call.tool, &call.arguments);
    let (reply, error) = match answered {
        Ok(reply) => (Some(reply), None),
        Err(error) => {
            let hint = if error.hint.is_empty() { tool_hint(live) } else { error.hint.clone() };
            let message = format!("the engine did not answer the call of {}", call.tool);
            (None, Some(CliError::user(message).cause(error.message.clone()).hint(hint)))
        }
    };
    Reply { tool: call.tool.clone(), arguments: call.arguments.clone(), reply, error }
}

/// Says which tools there are.
fn tool_hint(live: &LiveSession) -> String {
    let tools: Vec<String> = live.resolved().engine.tool_schemas().into_iter().map(|tool| tool.name).collect();
    match tools.as_slice() {
        [] => format!("engine {} has no tools", live.resolved().name),
        _ => format!("the tools of engine {} are {}", live.resolved().name, tools.join(", ")),
    }
}

fn convert(text: Option<String>, from: Dialect, to: Dialect) -> Result<(Option<String>, Vec<String>), CliError> {
    let Some(text) = text else { return Ok((None, Vec::new())) };
    if from == to {
        return Ok((Some(text), Vec::new()));
    }
    let document = Document::read(&text, Some(from))
        .map_err(|error| CliError::internal("the result cannot be read again").because(&error))?;
    drop(text);
    let host_wire::Converted { document, mut notes } = host_wire::convert(&document, to);
    // What one dialect lets pass, such as a last call without a result, another refuses.
    let (document, mended) = host_runtime::mend(document)
        .map_err(|error| CliError::user(format!("the conversation cannot be written as {to}")).because(&error))?;
    notes.extend(mended);
    let text = document.write(document.messages.iter().map(|message| message.raw.as_str()));
    Ok((Some(text), notes))
}

/// Prints a reply beside the conversation if that is what standard output holds.
pub(crate) fn print_reply(reply: &Reply, is_beside: bool, ui: &Ui) -> Result<(), CliError> {
    if let Some(error) = &reply.error {
        ui.error(error);
    }
    let Some(text) = &reply.reply else { return Ok(()) };
    ui.note(&bold(&format!("Reply of {}", safe::line(&reply.tool))));
    if is_beside {
        ui.note(&safe::block(text));
        return Ok(());
    }
    ui.out(&format!("{}\n", safe::block(text).trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    fn args(line: &str) -> CompactArgs {
        let Command::Compact(args) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!("{line}") };
        args
    }

    #[test]
    fn the_input_is_overwritten_only_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        std::fs::write(&file, "[]").unwrap();
        let at = |rest: &str| target(&args(&format!("palimpsest compact {} {rest}", file.display())));
        let name = file.display();
        assert_eq!(at("--dry-run").unwrap(), Target::Nowhere);
        assert_eq!(at("-o -").unwrap(), Target::Stdout);
        assert!(at(&format!("-o {name}")).unwrap_err().message.contains("is the input"));
        assert_eq!(at("--in-place").unwrap(), Target::File { path: file.clone(), is_input: true });
        assert!(target(&args("palimpsest compact - --in-place")).is_err());
    }

    #[test]
    fn a_file_that_holds_more_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        let text = " {\"messages\": [ {\"role\":\"user\",\"content\":\"hi\"} ] }\n";
        std::fs::write(&file, text).unwrap();
        let document = Document::read(text, None).unwrap();
        assert!(check_in_place(&file, &document).is_ok());
        std::fs::write(&file, format!("{text}{text}")).unwrap();
        assert!(check_in_place(&file, &document).is_err());
    }
}
