//! `sessions import`: takes conversations of files into the store, and what another store wrote as lines.

use crate::args::{ImportArgs, InputArgs};
use crate::commands::Status;
use crate::error::CliError;
use crate::input;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::ui::{Ui, bold};
use crate::words::counted;
use engine_api::{Message, MessageId, Role};
use host_import::{Conversation, Problem, Severity};
use host_store::{Carried, Change, NewSession, SessionRow, Store, StoreError};
use serde::Serialize;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

/// Letters of a session's id that are taken from a file; the store takes no more.
const NAME_CHARS_MAX: usize = 400;
/// Sessions of one name that are told apart by a number.
const NAMESAKES_MAX: usize = 1_000;
/// Messages by which a stored session is taken for the same conversation as a file's.
const COMPARED: u64 = 8;
/// Bytes by which lines of a store and databases are told from session files.
const PREFIX_BYTES: usize = 64;
const LINES_BEGIN: &[u8] = b"{\"type\":\"palimpsest_store\"";
const DATABASE_BEGINS: &[u8] = b"SQLite format 3\0";

/// What became of one conversation.
#[derive(Debug, Serialize)]
struct Taken {
    session: String,
    title: String,
    /// Messages that the file has.
    messages: usize,
    /// Messages that the store did not have.
    added: usize,
    /// `new`, `same`, `appended`, `trimmed`, `rewound` or `edited`.
    change: &'static str,
}

/// What became of one file.
#[derive(Debug, Default, Serialize)]
struct Done {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    sessions: Vec<Taken>,
    /// What a file of lines held.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Carried>,
    problems: Vec<Problem>,
    problems_suppressed: u64,
    errors: Vec<CliError>,
}

/// What a file is, by its first bytes.
enum Source {
    /// Lines that a store wrote.
    Lines,
    /// A database of another program.
    Database,
    /// Anything that holds conversations.
    Conversations,
}

pub(crate) fn run(args: &ImportArgs, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(CliError::usage("--name is for one file").hint("import the files one by one"));
    }
    let store = shelf::open(place)?;
    let mut all = Vec::new();
    for file in &args.files {
        let mut done = Done { file: shown(file), ..Done::default() };
        if let Err(error) = take(&store, file, args, ui, &mut done) {
            done.errors.push(error);
        }
        if !ui.is_json() {
            print(&done, ui)?;
        }
        all.push(done);
    }
    if ui.is_json() {
        ui.json(&serde_json::json!({ "store": store.path(), "files": all }))?;
    }
    Ok(Status::failed_if(all.iter().any(|done| !done.errors.is_empty())))
}

fn shown(file: &Path) -> String {
    if input::is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn take(store: &Store, file: &Path, args: &ImportArgs, ui: &Ui, done: &mut Done) -> Result<(), CliError> {
    match source(file) {
        Source::Lines => {
            let opened = File::open(file).map_err(|error| CliError::io("open", file, &error))?;
            let carried = store.import(&mut BufReader::with_capacity(1 << 16, opened)).map_err(lines_failed)?;
            done.lines = Some(carried);
            Ok(())
        }
        Source::Database => Err(CliError::user(format!("{} is an SQLite database", file.display()))
            .hint("import session files, or the lines that `palimpsest sessions export --all` writes of a store")),
        Source::Conversations => conversations(store, file, args, ui, done),
    }
}

fn source(file: &Path) -> Source {
    let mut begin = Vec::new();
    // What cannot be opened is told when it is read.
    if !input::is_stdin(file)
        && let Ok(opened) = File::open(file)
    {
        let _ = opened.take(PREFIX_BYTES as u64).read_to_end(&mut begin);
    }
    if begin.starts_with(LINES_BEGIN) {
        Source::Lines
    } else if begin.starts_with(DATABASE_BEGINS) {
        Source::Database
    } else {
        Source::Conversations
    }
}

fn lines_failed(error: StoreError) -> CliError {
    let hint = match &error {
        StoreError::SessionExists(_) => "lines are taken in as a whole; give another store with --home or store.path",
        _ => "",
    };
    if hint.is_empty() { shelf::failed(error) } else { CliError::user(error.to_string()).hint(hint) }
}

fn conversations(store: &Store, file: &Path, args: &ImportArgs, ui: &Ui, done: &mut Done) -> Result<(), CliError> {
    let from = InputArgs { file: file.to_owned(), from: args.from, history: args.history, session: None };
    let imported = input::import(&from, ui).map_err(|error| input::import_error(&done.file, &error))?;
    let format = imported.format.as_str();
    done.format = Some(format);
    (done.problems, done.problems_suppressed) = (imported.problems, imported.problems_suppressed);
    let count = imported.conversations.len();
    if args.name.is_some() && count > 1 {
        return Err(CliError::user(format!("{} holds {}", done.file, counted(count as u64, "conversation")))
            .hint("leave --name out: each gets its own id"));
    }
    for (at, conversation) in imported.conversations.into_iter().enumerate() {
        let stated = args.name.clone().unwrap_or_else(|| usable(&conversation.id));
        let taken = match stated.as_str() {
            "" => nameless(store, &name_of(file, at), &conversation)
                .and_then(|name| keep(store, &name, format, &conversation)),
            name => keep(store, name, format, &conversation),
        };
        match taken {
            Ok(taken) => done.sessions.push(taken),
            Err(error) => done.errors.push(error),
        }
    }
    Ok(())
}

/// Stores a conversation under this id, or what is new of it.
fn keep(store: &Store, name: &str, format: &str, conversation: &Conversation) -> Result<Taken, CliError> {
    let document = &conversation.document;
    let dialect = document.dialect();
    let shell = document.write([]);
    let found = store.find_session(name).map_err(shelf::failed)?;
    let is_new = found.is_none();
    let row = match found {
        Some(row) if row.dialect != dialect => {
            return Err(CliError::user(format!(
                "session {name:?} is in dialect {}, the file in {dialect}",
                row.dialect
            ))
            .hint("store it under another id with --name"));
        }
        Some(row) => {
            store.describe_session(row.key, Some(shell), document.model(), None).map_err(shelf::failed)?;
            row
        }
        None => store
            .create_session(NewSession {
                name: name.to_owned(),
                dialect: Some(dialect),
                platform: format.to_owned(),
                model: document.model().unwrap_or_default(),
                title: conversation.title.clone(),
                shell: Some(shell),
                created_ms: None,
            })
            .map_err(shelf::failed)?,
    };
    let messages: Vec<&Message> = document.messages.iter().collect();
    let aligned = store.align(row.key, &messages).map_err(shelf::failed)?;
    let change = match aligned.change {
        _ if is_new => "new",
        Change::Same => "same",
        Change::Appended => "appended",
        Change::Trimmed => "trimmed",
        Change::Rewound => "rewound",
        Change::Edited => "edited",
    };
    let title = conversation.title.clone();
    Ok(Taken { session: row.name, title, messages: messages.len(), added: aligned.added, change })
}

/// Returns a conversation's own id as the store takes it; empty if it has none.
fn usable(id: &str) -> String {
    let name: String = id.trim().chars().take(NAME_CHARS_MAX).collect();
    name.replace(char::is_control, "_")
}

/// Names a conversation without an id by its file and its place in it.
fn name_of(file: &Path, at: usize) -> String {
    let stem = if input::is_stdin(file) {
        "stdin".to_owned()
    } else {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let stem = [".jsonl", ".json", ".md", ".txt", ".log"].iter().find_map(|ending| name.strip_suffix(*ending));
        usable(stem.unwrap_or(name))
    };
    let stem = if stem.is_empty() { "conversation".to_owned() } else { stem };
    if at == 0 { stem } else { format!("{stem}.{}", at + 1) }
}

/// Finds the id of a conversation that has none of its own: files of one name may hold different conversations.
fn nameless(store: &Store, name: &str, conversation: &Conversation) -> Result<String, CliError> {
    for number in 1..=NAMESAKES_MAX {
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        match store.find_session(&name).map_err(shelf::failed)? {
            None => return Ok(name),
            Some(row) if is_same(store, &row, conversation)? => return Ok(name),
            Some(_) => {}
        }
    }
    Err(CliError::user(format!("the store has {NAMESAKES_MAX} sessions named {name} already"))
        .hint("name this one with --name"))
}

/// Tells whether a stored session begins as the conversation does: what was said first in it, the conversation has.
fn is_same(store: &Store, row: &SessionRow, conversation: &Conversation) -> Result<bool, CliError> {
    if row.dialect != conversation.document.dialect() {
        return Ok(false);
    }
    let has: HashSet<String> =
        conversation.document.messages.iter().map(|message| host_wire::identity(&message.raw)).collect();
    let (rows, _) = store.transcript(row.key, MessageId(0), COMPARED).map_err(shelf::failed)?;
    // Instructions are the same in all conversations of a client.
    let said: Vec<bool> = rows
        .iter()
        .filter(|(row, _)| row.role != Role::System)
        .map(|(row, _)| has.contains(&host_wire::identity(&row.raw)))
        .collect();
    Ok(said.iter().all(|is_there| *is_there))
}

fn print(done: &Done, ui: &Ui) -> Result<(), CliError> {
    let from = match done.format {
        Some(format) => format!("{} ({format})", done.file),
        None => done.file.clone(),
    };
    for taken in &done.sessions {
        let what = match taken.change {
            "new" => format!("{} stored", counted(taken.added as u64, "message")),
            "same" => format!("nothing new in {}", counted(taken.messages as u64, "message")),
            change => format!("{} added ({change})", counted(taken.added as u64, "message")),
        };
        let line = format!("{what}, from {from}");
        ui.out(&format!("{} {}\n", bold(&safe::line(&taken.session)), safe::line(&line)))?;
    }
    if let Some(lines) = &done.lines {
        let unreadable = match lines.unreadable {
            0 => String::new(),
            count => format!(", {} of the damaged store left out", counted(count, "row")),
        };
        let what = format!(
            "{}, {}, {}{unreadable} from {from}",
            counted(lines.sessions, "session"),
            counted(lines.messages, "message"),
            counted(lines.nodes, "summary node")
        );
        ui.out(&format!("{}\n", safe::line(&what)))?;
    }
    let lost = done.problems.iter().filter(|problem| problem.severity == Severity::Lost).count();
    if !done.problems.is_empty() {
        let count = (done.problems.len() as u64).saturating_add(done.problems_suppressed);
        let lost = if lost == 0 { "nothing lost".to_owned() } else { format!("{lost} with content lost") };
        ui.warn(&format!("{}: {} in the file, {lost}; --json lists them", done.file, counted(count, "problem")));
    }
    for error in &done.errors {
        ui.error(error);
    }
    Ok(())
}
