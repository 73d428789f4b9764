//! `sessions verify`, `gc` and `backup`: proving the store, sweeping it, copying it.

use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::ui::{Ui, green, red};
use crate::words::{bytes, counted, grouped};
use serde_json::json;
use std::path::Path;

pub(crate) fn verify(name: Option<&str>, deep: bool, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_to_read(place)?;
    let session = name.map(|name| shelf::find(&store, name)).transpose()?;
    let found = store.verify(session.map(|row| row.key), deep).map_err(shelf::failed)?;
    if name.is_none() {
        shelf::Proof::note(deep, found.problem_count, store.path());
    }
    let status = Status::failed_if(found.problem_count > 0);
    if ui.is_json() {
        ui.json(&json!({ "store": store.path(), "deep": deep, "found": found }))?;
        return Ok(status);
    }
    let looked = format!(
        "{}, {} proved by their hashes, {}, {} followed to their messages",
        counted(found.sessions, "session"),
        counted(found.messages, "message"),
        counted(found.payloads, "other payload"),
        counted(found.nodes, "summary node")
    );
    if found.problem_count == 0 {
        ui.out(&format!("{} {looked}\n", green("✓")))?;
        return Ok(status);
    }
    ui.out(&format!("{} {}; {looked}\n", red("✗"), counted(found.problem_count, "problem")))?;
    for problem in &found.problems {
        ui.out(&format!("  {}\n", safe::line(problem)))?;
    }
    let rest = found.problem_count.saturating_sub(found.problems.len() as u64);
    if rest > 0 {
        ui.out(&format!("  … and {} more\n", grouped(rest)))?;
    }
    ui.note("hint: `palimpsest sessions export --all -o FILE` saves what can be read; import it into a new store");
    Ok(status)
}

pub(crate) fn gc(dry_run: bool, keep: Option<u32>, shrink: bool, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_existing(place)?;
    let keep = keep.unwrap_or(u32::try_from(place.config.store.keep_views).unwrap_or(u32::MAX));
    let before = store.file_facts().map_err(shelf::failed)?;
    let swept = store.sweep(keep, dry_run).map_err(shelf::failed)?;
    if shrink {
        store.compact_file().map_err(shelf::failed)?;
    }
    let after = store.file_facts().map_err(shelf::failed)?;
    if ui.is_json() {
        ui.json(&json!({
            "dry_run": dry_run, "keep_views": keep, "swept": swept, "bytes_before": before.bytes,
            "bytes_after": after.bytes, "free_bytes": after.free_bytes,
        }))?;
        return Ok(Status::Done);
    }
    let what = format!(
        "{}, {} that only they showed, {}, {} ({})",
        counted(swept.views, "view"),
        counted(swept.written, "row"),
        counted(swept.sessions, "empty session"),
        counted(swept.payloads, "payload"),
        bytes(swept.bytes)
    );
    ui.out(&format!("{} {what}\n", if dry_run { "would sweep" } else { "swept" }))?;
    if shrink {
        ui.out(&format!("the file had {}, and has {}\n", bytes(before.bytes), bytes(after.bytes)))?;
    } else if !dry_run && after.free_bytes > 0 {
        ui.note(&format!(
            "{} in the file are free for new messages; --shrink gives them back",
            bytes(after.free_bytes)
        ));
    }
    Ok(Status::Done)
}

pub(crate) fn backup(file: &Path, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_to_read(place)?;
    if file.exists() {
        return Err(CliError::user(format!("{} is there already; it was not overwritten", file.display()))
            .hint("name a new file"));
    }
    crate::output::check(file)?;
    store.back_up(file).map_err(shelf::failed)?;
    let size = store.file_facts().map_err(shelf::failed)?.bytes;
    if ui.is_json() {
        ui.json(&json!({ "store": store.path(), "backup": file, "bytes": size }))?;
        return Ok(Status::Done);
    }
    ui.out(&format!("{} ({})\n", safe::line(&file.display().to_string()), bytes(size)))?;
    Ok(Status::Done)
}
