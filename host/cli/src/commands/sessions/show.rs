//! `sessions show`: what the model sees of a session, or every message with what became of it.

use crate::args::ShowArgs;
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::ui::{Ui, bold, dim};
use crate::words::{counted, grouped, table};
use engine_api::{Dialect, MessageId};
use host_store::{Row, RowState, SessionRow, Store};
use serde::Serialize;
use serde_json::json;

/// Letters of a message that a line shows.
const EXCERPT_CHARS: usize = 100;

/// A message as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    id: u64,
    role: &'static str,
    at_ms: i64,
    active: bool,
    compacted: bool,
    /// Whether the host wrote it.
    is_written: bool,
    /// The summary that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u64>,
    /// The message that it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    stands_for: Option<u64>,
    tools: Vec<String>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

pub(crate) fn run(args: &ShowArgs, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_to_read(place)?;
    let session = shelf::find(&store, &args.session)?;
    let (rows, total, has_more) = rows(&store, &session, args)?;
    if args.raw && !ui.is_json() {
        for (row, _) in &rows {
            ui.document(&format!("{}\n", row.raw))?;
        }
        return Ok(Status::Done);
    }
    let next = rows.last().map(|(row, _)| row.id.0).filter(|_| has_more);
    if ui.is_json() {
        let messages: Vec<Shown> = rows.into_iter().map(|one| shown(session.dialect, one, args.raw)).collect();
        ui.json(&json!({ "session": session, "total": total, "messages": messages, "next_after": next }))?;
        return Ok(Status::Done);
    }
    let what = if args.all { "said" } else { "in sight of the model" };
    let head = format!("{}: {} {what}", session.name, counted(total, "message"));
    ui.note(&bold(&safe::line(&head)));
    let lines = rows.iter().map(|(row, state)| {
        let mut line = vec![grouped_id(row.id), role(row), excerpt(session.dialect, row)];
        if args.all {
            line.insert(1, state_word(*state).to_owned());
        }
        line
    });
    let header: &[&str] = if args.all { &["ID", "STATE", "ROLE", "MESSAGE"] } else { &["ID", "ROLE", "MESSAGE"] };
    ui.out(&table(header, lines.collect(), &[0], 0))?;
    if let Some(next) = next {
        ui.note(&dim(&format!("… there are more; --after {next} goes on")));
    }
    Ok(Status::Done)
}

type Page = (Vec<(Row, RowState)>, u64, bool);

fn rows(store: &Store, session: &SessionRow, args: &ShowArgs) -> Result<Page, CliError> {
    if args.all {
        let (mut rows, total) = store
            .transcript(session.key, MessageId(args.after), args.limit.saturating_add(1))
            .map_err(shelf::failed)?;
        let has_more = rows.len() as u64 > args.limit;
        rows.truncate(index(args.limit));
        return Ok((rows, total, has_more));
    }
    let mut view = store.load(session.key, 0).map_err(shelf::failed)?.messages;
    let total = view.len() as u64;
    if args.after > 0 {
        // A view is in the order of the conversation; the ids of what the host wrote are greater than their neighbours'.
        let Some(at) = view.iter().position(|row| row.id.0 == args.after) else {
            return Err(CliError::user(format!("message {} is not in sight of the model", args.after))
                .hint("--all shows every message, also those out of sight"));
        };
        view.drain(..=at);
    }
    let has_more = view.len() as u64 > args.limit;
    view.truncate(index(args.limit));
    let live = RowState { active: true, compacted: false };
    Ok((view.into_iter().map(|row| (row, live)).collect(), total, has_more))
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn shown(dialect: Dialect, (row, state): (Row, RowState), with_raw: bool) -> Shown {
    let text = text(dialect, &row);
    Shown {
        id: row.id.0,
        role: row.role.as_str(),
        at_ms: row.at_ms,
        active: state.active,
        compacted: state.compacted,
        is_written: row.is_written,
        node: Some(row.node.0).filter(|node| *node > 0),
        stands_for: row.stands_for.map(|id| id.0),
        tools: row.tools,
        text,
        raw: with_raw.then_some(row.raw),
    }
}

fn state_word(state: RowState) -> &'static str {
    match (state.active, state.compacted) {
        (true, _) => "active",
        (_, true) => "compacted",
        _ => "rewound",
    }
}

fn grouped_id(id: MessageId) -> String {
    id.0.to_string()
}

/// Returns who speaks, and with which tool.
pub(crate) fn role(row: &Row) -> String {
    if row.node.0 > 0 {
        return format!("summary {}", grouped(row.node.0));
    }
    if row.is_written && row.stands_for.is_none() {
        return "note".to_owned();
    }
    let tools = row.tools.join(",");
    safe::line(&if tools.is_empty() { row.role.to_string() } else { format!("{} {tools}", row.role) })
}

/// Returns the text of a message that can be searched.
pub(crate) fn text(dialect: Dialect, row: &Row) -> String {
    match host_wire::parse_message(dialect, &row.raw) {
        Ok(message) => host_store::searchable(&message),
        Err(_) => row.raw.clone(),
    }
}

/// Returns the beginning of a message on one line.
pub(crate) fn excerpt(dialect: Dialect, row: &Row) -> String {
    one_line(&text(dialect, row), EXCERPT_CHARS)
}

/// Returns the beginning of a text on one line.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        for c in word.chars().chain([' ']) {
            if count == chars_max {
                return safe::line(&format!("{}…", out.trim_end()));
            }
            out.push(c);
            count += 1;
        }
    }
    safe::line(out.trim_end())
}
