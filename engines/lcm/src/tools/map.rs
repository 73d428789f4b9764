//! `llm_map` and `agentic_map`: one prompt for each of many items, with checked answers that outlive a crash.
//!
//! A job has an id; its items and finished rows stand in files. The same call, or one with only the id, goes on where
//! the last one ended and never asks twice for a finished row.

mod items;
mod journal;
mod json_schema;
mod run;
mod spec;

use super::args::{self, add};
use super::{Desk, Found};
use engine_api::json::{Value, json};
use engine_kit::text::clip;
use journal::{Journal, Row};
use run::Runner;
use spec::{Kind, Spec};

/// Rows that an answer shows before the handle.
const FIRST_ROWS: usize = 5;
/// Rows of one page.
const PAGE_ROWS: u64 = 200;
/// Bytes of a page.
const PAGE_BYTES: usize = 44_000;
/// Characters of a row that an answer shows before the handle.
const FIRST_ROW_CHARS: usize = 1_500;
/// Failures that are listed.
const FAILURES_MAX: usize = 5;

pub(super) fn llm_map(desk: &Desk<'_>, arguments: &Value) -> Found {
    start(desk, arguments, Kind::Plain)
}

pub(super) fn agentic_map(desk: &Desk<'_>, arguments: &Value) -> Found {
    start(desk, arguments, Kind::Agentic)
}

fn start(desk: &Desk<'_>, arguments: &Value, kind: Kind) -> Found {
    let given = Spec::read(arguments, kind, desk.settings.map_concurrency)?;
    let (spec, mut journal) = match given {
        spec::Given::Resume(job) => {
            let journal = Journal::open(desk.services, &job)?;
            let mut spec = Spec::stored(&journal.head)?;
            if spec.kind != kind {
                return Err(format!("{job} is a job of {}", spec.kind.tool()));
            }
            spec.concurrency = spec.concurrency.min(desk.settings.map_concurrency);
            (spec, journal)
        }
        spec::Given::New(spec) => {
            let items = items::read(desk, arguments)?;
            let job = spec.job_of(&items);
            let journal = Journal::create(desk.services, &job, &spec.head(), items)?;
            (*spec, journal)
        }
    };
    let before = journal.done();
    let stopped = Runner { desk, spec: &spec }.run(&mut journal)?;
    let mut answer = summary(&journal);
    add(&mut answer, "tool", kind.tool());
    add(&mut answer, "resumed", before > 0);
    add(&mut answer, "done_before", before);
    if !stopped.is_empty() {
        let hint = format!("{}({}) goes on", kind.tool(), json!({ "job": journal.job }));
        add(&mut answer, "stopped", stopped);
        add(&mut answer, "resume_hint", hint);
    }
    for note in &spec.notes {
        add(&mut answer, "note", note.as_str());
    }
    if !journal.is_durable {
        add(&mut answer, "durable", false);
    }
    Ok(answer)
}

fn summary(journal: &Journal) -> Value {
    let failed: Vec<&Row> = journal.rows().filter(|row| row.error.is_some()).collect();
    let shown: Vec<Value> = journal.rows().take(FIRST_ROWS).map(|row| shortened(row.shown())).collect();
    let (done, total) = (journal.done(), journal.items.len());
    let mut answer = json!({
        "job": journal.job,
        "items": total,
        "done": done,
        "failed": failed.len(),
        "pending": total.saturating_sub(done + failed.len()),
        "rows": shown,
        "rows_hint": format!("lcm_expand(id=\"{}\", source_offset=0, source_limit=50) pages all rows", journal.job),
    });
    if !failed.is_empty() {
        let list: Vec<Value> = failed.iter().take(FAILURES_MAX).map(|row| shortened(row.shown())).collect();
        add(&mut answer, "failures", list);
    }
    answer
}

fn shortened(row: Value) -> Value {
    let text = row.to_string();
    if text.chars().nth(FIRST_ROW_CHARS).is_none() { row } else { Value::String(clip(&text, FIRST_ROW_CHARS)) }
}

/// What is known of a job.
pub(super) fn describe(desk: &Desk<'_>, job: &str) -> Found {
    let journal = Journal::open(desk.services, job)?;
    let spec = Spec::stored(&journal.head)?;
    let mut answer = summary(&journal);
    add(&mut answer, "tool", spec.kind.tool());
    add(&mut answer, "prompt", clip(&spec.prompt, 2_000));
    add(&mut answer, "schema", spec.schema.unwrap_or_default());
    Ok(answer)
}

/// A page of a job's rows.
pub(super) fn rows(desk: &Desk<'_>, job: &str, offset: u64, limit: u64) -> Found {
    let journal = Journal::open(desk.services, job)?;
    let first = usize::try_from(offset).unwrap_or(usize::MAX);
    let limit = usize::try_from(limit.min(PAGE_ROWS)).unwrap_or(0);
    let mut rows = Vec::new();
    let mut bytes = 0;
    for row in journal.rows().skip(first).take(limit) {
        let row = row.shown();
        let size = row.to_string().len();
        if bytes + size > PAGE_BYTES && !rows.is_empty() {
            break;
        }
        bytes += size;
        rows.push(if size > PAGE_BYTES { Value::String(clip(&row.to_string(), PAGE_BYTES / 4)) } else { row });
    }
    let total = journal.rows().count();
    let next = first.saturating_add(rows.len());
    let mut answer = json!({ "job": job, "total_rows": total, "source_offset": offset, "rows": rows });
    let has_more = next < total;
    add(&mut answer, "next_source_offset", if has_more { json!(next) } else { Value::Null });
    add(&mut answer, "has_more", has_more);
    Ok(answer)
}

/// Replaces `{{item}}` and `{{member}}` of an object in one pass; a template without either has the item at its end.
fn filled(template: &str, item: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let mut out = String::with_capacity(template.len() + 64);
    let mut rest = template;
    let mut is_used = false;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((name, tail)) = after.split_once("}}") else {
            out.push_str("{{");
            rest = after;
            break;
        };
        let found = match name.trim() {
            "item" => Some(item),
            name => item.get(name.strip_prefix("item.").unwrap_or(name)),
        };
        match found {
            Some(value) => {
                out.push_str(&plain(value));
                is_used = true;
                rest = tail;
            }
            None => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    if !is_used {
        out.push_str("\n\nITEM:\n");
        out.push_str(&plain(item));
    }
    out
}

/// The names under which a job is given.
const JOB_NAMES: [&str; 3] = ["job", "job_id", "handle"];

/// Reads a job's id, if one is given.
fn job_of(arguments: &Value) -> Result<Option<String>, String> {
    let job = args::text(arguments, &JOB_NAMES)?;
    if job.is_empty() {
        return Ok(None);
    }
    let job = if job.starts_with("job_") { job.to_string() } else { format!("job_{job}") };
    journal::check_name(&job)?;
    Ok(Some(job))
}

#[cfg(test)]
mod tests;
