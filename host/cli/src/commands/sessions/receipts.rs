//! `sessions receipts`: what each compaction decided on, did and cost.

use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::receipt::{self, Beside};
use crate::safe;
use crate::shelf;
use crate::time;
use crate::ui::{Ui, dim};
use crate::words::{change, counted, grouped, table};
use host_core::Receipt;
use host_llm::Prices;
use host_store::{ReceiptRow, SessionRow, Store};
use serde_json::{Value, json};

/// Receipts that are read of a session; each is some kilobytes.
const RECEIPTS_MAX: u64 = 10_000;

/// A compaction with its number in the session, from 1.
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) row: ReceiptRow,
}

pub(crate) fn run(name: &str, wanted: Option<u64>, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_to_read(place)?;
    let session = shelf::find(&store, name)?;
    let prices = Prices::load(&place.home);
    if let Some(problem) = &prices.problem {
        ui.warn(problem);
    }
    if let Some(wanted) = wanted {
        let one = find(&store, &session, Some(wanted))?;
        return whole(&session, &one, &prices, ui);
    }
    let all = compactions(&store, &session)?;
    let live = store.views(session.key).map_err(shelf::failed)?.into_iter().find(|view| view.is_live);
    let live = live.map(|view| view.id);
    if ui.is_json() {
        let list: Vec<Value> = all
            .iter()
            .map(|one| {
                let receipt: Value = serde_json::from_str(&one.row.json).unwrap_or_default();
                let cost = serde_json::from_str::<Receipt>(&one.row.json).ok().and_then(|one| receipt::cost(&one, &prices));
                json!({
                    "compaction": one.number, "view": one.row.view, "is_live": one.row.view.is_some() && one.row.view == live,
                    "at_ms": one.row.at_ms, "cost_usd": cost, "receipt": receipt,
                })
            })
            .collect();
        ui.json(&json!({ "session": session.name, "live_view": live, "compactions": list }))?;
        return Ok(Status::Done);
    }
    if all.is_empty() {
        ui.note(&format!("{} was never compacted", safe::line(&session.name)));
        return Ok(Status::Done);
    }
    let lines = all.iter().map(|one| line(one, live, &prices));
    let header = ["N", "VIEW", "WHEN", "ENGINE", "TRIGGER", "TOKENS", "CHANGE", "CALLS", "COST"];
    ui.out(&table(&header, lines.collect(), &[0, 1, 7], 0))?;
    ui.note(&dim("`palimpsest sessions receipts S N` shows one whole, `palimpsest sessions diff S N` what it did"));
    Ok(Status::Done)
}

fn line(one: &Numbered, live: Option<i64>, prices: &Prices) -> Vec<String> {
    let mark = if one.row.view.is_some() && one.row.view == live { " (live)" } else { "" };
    let view = one.row.view.map_or_else(|| "swept".to_owned(), |view| format!("{view}{mark}"));
    let head = vec![one.number.to_string(), view, time::shown(one.row.at_ms)];
    let Ok(receipt) = serde_json::from_str::<Receipt>(&one.row.json) else {
        return [head, vec!["not readable".to_owned()]].concat();
    };
    let trigger = receipt.trigger.map_or("-", |trigger| trigger.as_str()).to_owned();
    let tokens = format!("{} → {}", grouped(receipt.tokens_before), grouped(receipt.tokens_after));
    let rest = vec![
        safe::line(&receipt.engine_used),
        trigger,
        tokens,
        change(receipt.tokens_before, receipt.tokens_after),
        receipt.calls.len().to_string(),
        receipt::cost(&receipt, prices).map(receipt::dollars).unwrap_or_default(),
    ];
    [head, rest].concat()
}

fn whole(session: &SessionRow, one: &Numbered, prices: &Prices, ui: &Ui) -> Result<Status, CliError> {
    let read = serde_json::from_str::<Receipt>(&one.row.json);
    if ui.is_json() {
        let receipt: Value = serde_json::from_str(&one.row.json).unwrap_or_default();
        let cost = read.ok().and_then(|one| receipt::cost(&one, prices));
        ui.json(&json!({
            "session": session.name, "compaction": one.number, "view": one.row.view, "at_ms": one.row.at_ms,
            "cost_usd": cost, "receipt": receipt,
        }))?;
        return Ok(Status::Done);
    }
    let receipt = read.map_err(|error| {
        CliError::user(format!("receipt {} of session {:?} is of another version", one.number, session.name))
            .because(&error)
            .hint("--json prints it as it is stored")
    })?;
    let view = one.row.view.map_or_else(|| "a view that was swept".to_owned(), |view| format!("view {view}"));
    let beside = Beside {
        source: format!("session {}, compaction {}, {}", session.name, one.number, time::shown(one.row.at_ms)),
        written_to: view,
        prices: Some(prices),
        ..Beside::default()
    };
    ui.out(&receipt::text(&receipt, &beside))?;
    Ok(Status::Done)
}

/// Returns a session's compactions, the oldest first.
pub(crate) fn compactions(store: &Store, session: &SessionRow) -> Result<Vec<Numbered>, CliError> {
    let rows = store.receipts(session.key, RECEIPTS_MAX).map_err(shelf::failed)?;
    let done = rows.into_iter().rev().filter(|row| row.action == "compacted");
    Ok((1..).zip(done).map(|(number, row)| Numbered { number, row }).collect())
}

/// Finds a compaction by its number, or the last.
pub(crate) fn find(store: &Store, session: &SessionRow, wanted: Option<u64>) -> Result<Numbered, CliError> {
    let mut all = compactions(store, session)?;
    let count = all.len() as u64;
    if count == 0 {
        return Err(CliError::user(format!("session {:?} was never compacted", session.name))
            .hint(format!("`palimpsest sessions compact {}` compacts it", session.name)));
    }
    let number = wanted.unwrap_or(count);
    let at = all.iter().position(|one| one.number == number);
    at.map(|at| all.swap_remove(at)).ok_or_else(|| {
        CliError::user(format!("session {:?} has no compaction {number}", session.name))
            .hint(format!("it has {}, from 1", counted(count, "compaction")))
    })
}
