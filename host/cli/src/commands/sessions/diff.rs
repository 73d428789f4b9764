//! `sessions diff`: what a compaction did, message by message.

use crate::commands::Status;
use crate::commands::sessions::{pins, receipts, show};
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::ui::{Ui, bold, dim, green, red};
use crate::words::{change, counted, grouped};
use engine_api::MessageId;
use host_core::Receipt;
use host_core::receipt::What;
use host_store::{Row, SessionRow, Sides, Store};
use serde::Serialize;
use serde_json::json;
use std::collections::{HashMap, HashSet};

/// Messages of one run that are shown at each of its ends.
const SHOWN_AT_EACH_END: usize = 4;
/// Lines of a summary that are shown.
const SUMMARY_LINES_MAX: usize = 12;
/// Letters of one line of a summary.
const SUMMARY_CHARS_MAX: usize = 160;

/// What became of one message.
#[derive(Debug, Clone, Serialize)]
struct Line {
    message: u64,
    role: String,
    /// `kept`, `rewritten`, `moved`, `summarised` or `dropped`.
    fate: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    is_pinned: bool,
    text: String,
    /// What stands in its place, where it was rewritten.
    #[serde(skip_serializing_if = "Option::is_none")]
    becomes: Option<String>,
}

/// What the host wrote into the context.
#[derive(Debug, Clone, Serialize)]
struct Added {
    row: u64,
    /// The message of the context that follows it.
    before: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u64>,
    text: String,
}

pub(crate) fn run(name: &str, wanted: Option<u64>, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_to_read(place)?;
    let session = shelf::find(&store, name)?;
    let one = receipts::find(&store, &session, wanted)?;
    let receipt: Receipt = serde_json::from_str(&one.row.json).map_err(|error| {
        CliError::user(format!("receipt {} of session {:?} is of another version", one.number, session.name))
            .because(&error)
    })?;
    let Some(view) = one.row.view else {
        return Err(CliError::user(format!("the view of compaction {} was swept", one.number))
            .cause("what it showed is gone; every message is still there")
            .hint("`palimpsest sessions receipts S N` shows its receipt"));
    };
    let sides = store.sides(view).map_err(shelf::failed)?;
    let (lines, added) = lines(&store, &session, &receipt, &sides, place)?;
    if ui.is_json() {
        ui.json(&json!({
            "session": session.name, "compaction": one.number, "view": view, "tokens_before": receipt.tokens_before,
            "tokens_after": receipt.tokens_after, "messages": lines, "added": added,
        }))?;
        return Ok(Status::Done);
    }
    let head = format!(
        "--- {}: {}, {} tokens\n",
        session.name,
        counted(sides.before.len() as u64, "message"),
        grouped(receipt.tokens_before)
    );
    let after = format!(
        "+++ {}, compaction {}, view {view}: {}, {} tokens ({})\n",
        session.name,
        one.number,
        counted(sides.after.len() as u64, "message"),
        grouped(receipt.tokens_after),
        change(receipt.tokens_before, receipt.tokens_after)
    );
    ui.out(&bold(&safe::line(head.trim_end())))?;
    ui.out("\n")?;
    ui.out(&bold(&safe::line(after.trim_end())))?;
    ui.out("\n")?;
    ui.out(&text(&lines, &added))?;
    Ok(Status::Done)
}

fn lines(
    store: &Store,
    session: &SessionRow,
    receipt: &Receipt,
    sides: &Sides,
    place: &Place,
) -> Result<(Vec<Line>, Vec<Added>), CliError> {
    let dialect = session.dialect;
    let kept_by_pins = pins::of_session(store, session, place)?;
    let before = store.messages(&sides.before).map_err(shelf::failed)?;
    let after = store.messages(&sides.after).map_err(shelf::failed)?;
    let there: HashSet<MessageId> = sides.after.iter().copied().collect();
    let made_from: HashMap<MessageId, &Row> =
        after.iter().filter_map(|row| Some((row.stands_for.filter(|_| row.is_written)?, row))).collect();
    let fates = fates(receipt, &sides.before);
    let lines = before.iter().map(|row| {
        let fate = fates.get(&row.id);
        let (word, node, reason) = match fate {
            Some(What::Summarised { node }) => ("summarised", Some(node.0), None),
            Some(What::Dropped { reason }) => ("dropped", None, Some(reason.clone())),
            Some(what) => (what.as_str(), None, None),
            None if there.contains(&row.id) => ("kept", None, None),
            None => ("dropped", None, None),
        };
        let message = pins::message(dialect, row);
        Line {
            message: row.id.0,
            role: show::role(row),
            fate: word,
            node,
            reason,
            is_pinned: kept_by_pins.keep(&message),
            text: show::excerpt(dialect, row),
            becomes: made_from.get(&row.id).map(|row| show::excerpt(dialect, row)),
        }
    });
    let lines: Vec<Line> = lines.collect();
    let known: HashSet<MessageId> = sides.before.iter().copied().collect();
    let added = after
        .iter()
        .enumerate()
        .filter(|(_, row)| !known.contains(&row.id) && row.stands_for.is_none_or(|id| !known.contains(&id)))
        .map(|(at, row)| Added {
            row: row.id.0,
            before: after.iter().skip(at).find_map(|next| shared(next, &known)),
            node: Some(row.node.0).filter(|node| *node > 0),
            text: show::text(dialect, row),
        });
    Ok((lines, added.collect()))
}

/// Returns the message on the other side that a row of the context is, or was made from.
fn shared(row: &Row, known: &HashSet<MessageId>) -> Option<u64> {
    [Some(row.id), row.stands_for].into_iter().flatten().find(|id| known.contains(id)).map(|id| id.0)
}

/// Returns what the receipt says of each message: its runs begin and end at messages of the view before.
fn fates(receipt: &Receipt, before: &[MessageId]) -> HashMap<MessageId, What> {
    let place: HashMap<MessageId, usize> = before.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let mut out = HashMap::new();
    for fate in &receipt.fates {
        let (Some(&first), Some(&last)) = (place.get(&fate.first), place.get(&fate.last)) else { continue };
        for id in before.get(first..=last).unwrap_or_default() {
            out.insert(*id, fate.what.clone());
        }
    }
    out
}

fn text(lines: &[Line], added: &[Added]) -> String {
    let mut out = String::new();
    let mut rest = added;
    let same = |a: &Line, b: &Line| a.fate == b.fate && a.node == b.node && a.reason == b.reason;
    for run in lines.chunk_by(same) {
        let Some(first) = run.first() else { continue };
        let is_shown = matches!(first.fate, "kept" | "rewritten" | "moved");
        if is_shown {
            rest = added_before(&mut out, rest, Some(run));
        }
        out.push_str(&header(run, first));
        if first.fate == "rewritten" {
            for line in run {
                out.push_str(&format!("{}\n", red(&format!("- {}", one(line)))));
                if let Some(becomes) = &line.becomes {
                    out.push_str(&format!("{}\n", green(&format!("+ {} {}: {becomes}", line.message, line.role))));
                }
            }
            continue;
        }
        let left_out = run.len().saturating_sub(2 * SHOWN_AT_EACH_END);
        for (at, line) in run.iter().enumerate() {
            let is_inner = at >= SHOWN_AT_EACH_END && at < SHOWN_AT_EACH_END + left_out;
            if is_inner && left_out > 1 {
                // What is pinned is shown wherever it stands.
                if at == SHOWN_AT_EACH_END {
                    out.push_str(&dim(&format!("  … {}", counted(left_out as u64, "more message"))));
                    out.push('\n');
                }
                if !line.is_pinned {
                    continue;
                }
            }
            let text = one(line);
            let text = if is_shown { format!("  {text}") } else { red(&format!("- {text}")) };
            out.push_str(&format!("{text}\n"));
        }
    }
    added_before(&mut out, rest, None);
    out
}

/// Writes what was added before a run of messages that stay, or all that is left.
fn added_before<'a>(out: &mut String, added: &'a [Added], run: Option<&[Line]>) -> &'a [Added] {
    let is_due = |one: &Added| match run {
        Some(run) => one.before.is_some_and(|before| run.iter().any(|line| line.message == before)),
        None => true,
    };
    let due = added.iter().take_while(|one| is_due(one)).count();
    let (now, rest) = added.split_at(due);
    for one in now {
        let what = match one.node {
            Some(node) => format!("@@ added: summary node {node} @@"),
            None => "@@ added: a note @@".to_owned(),
        };
        out.push_str(&format!("{}\n", dim(&what)));
        let all = one.text.lines().filter(|line| !line.trim().is_empty()).count();
        for line in one.text.lines().filter(|line| !line.trim().is_empty()).take(SUMMARY_LINES_MAX) {
            out.push_str(&format!("{}\n", green(&format!("+ {}", show::one_line(line, SUMMARY_CHARS_MAX)))));
        }
        if all > SUMMARY_LINES_MAX {
            out.push_str(&format!(
                "{}\n",
                dim(&format!("  … {}", counted((all - SUMMARY_LINES_MAX) as u64, "more line")))
            ));
        }
    }
    rest
}

fn header(run: &[Line], first: &Line) -> String {
    let last = run.last().unwrap_or(first);
    let range =
        if run.len() == 1 { first.message.to_string() } else { format!("{}–{}", first.message, last.message) };
    let what = match (first.fate, first.node, &first.reason) {
        (_, Some(node), _) => format!("summarised by node {node}"),
        (fate, _, Some(reason)) => format!("{fate}: {}", safe::line(reason)),
        (fate, ..) => fate.to_owned(),
    };
    let pinned = run.iter().filter(|line| line.is_pinned).count();
    let pinned = if pinned == 0 { String::new() } else { format!(", {pinned} pinned") };
    format!("{}\n", dim(&format!("@@ {range}: {} {what}{pinned} @@", counted(run.len() as u64, "message"))))
}

fn one(line: &Line) -> String {
    let pinned = if line.is_pinned { " [pinned]" } else { "" };
    format!("{} {}{pinned}: {}", line.message, line.role, line.text)
}
