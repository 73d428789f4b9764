//! `recall`: searches what was said, and prints messages and summaries whole.

use crate::args::{Global, Kind, RecallArgs, Sort};
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::time;
use crate::ui::{Ui, bold, dim};
use crate::words::{counted, grouped};
use engine_api::{
    EngineError, ErrorKind, MessageId, NodeId, RecallHit, RecallReply, RecallRequest, RecallSearch, SearchKind,
    SearchMode, SearchSort,
};
use host_store::{SessionRow, Store};
use serde_json::json;

/// Letters of one line of a snippet's text.
const SNIPPET_CHARS_MAX: usize = 300;

pub(crate) fn run(args: &RecallArgs, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::open(global, ui);
    let store = shelf::open_to_read(&place)?;
    let session = shelf::find(&store, &args.session)?;
    if let Some(message) = args.message {
        return whole(&store, &session, MessageId(message), args.raw, ui);
    }
    if let Some(node) = args.node {
        return summary(&store, &session, NodeId(node), args, ui);
    }
    let query = args.query.as_deref().unwrap_or_default();
    let mut search = RecallSearch::new(query);
    search.mode = Some(match (args.regex, args.phrase, args.substring) {
        (true, ..) => SearchMode::Regex,
        (_, true, _) => SearchMode::Phrase,
        (_, _, true) => SearchMode::Substring,
        _ => SearchMode::Auto,
    });
    search.kind = Some(match args.kind {
        Kind::Messages => SearchKind::Messages,
        Kind::Summaries => SearchKind::Summaries,
        Kind::Both => SearchKind::Both,
    });
    search.sort = Some(match args.sort {
        Sort::Relevance => SearchSort::Relevance,
        Sort::Newest => SearchSort::Newest,
        Sort::Oldest => SearchSort::Oldest,
    });
    search.role = args.role.map(|role| role.role());
    search.tool.clone_from(&args.tool);
    (search.since_ms, search.before_ms) = (args.since, args.before);
    search.all_sessions = args.all_sessions;
    search.compacted_only = args.compacted;
    (search.offset, search.limit) = (args.offset, args.limit);
    let reply = store.recall(session.key, &RecallRequest::search(search)).map_err(failed)?;
    if ui.is_json() {
        ui.json(&json!({ "session": session.name, "query": query, "reply": reply }))?;
        return Ok(Status::Done);
    }
    print(&reply, args, ui)?;
    Ok(Status::Done)
}

fn print(reply: &RecallReply, args: &RecallArgs, ui: &Ui) -> Result<(), CliError> {
    for hit in &reply.hits {
        ui.out(&format!("{}\n", headline(hit)))?;
        for line in hit.text.lines().filter(|line| !line.trim().is_empty()) {
            let line: String = line.chars().take(SNIPPET_CHARS_MAX).collect();
            ui.out(&format!("    {}\n", safe::line(&line)))?;
        }
    }
    let shown = reply.hits.len() as u64;
    let least = if reply.total_is_least { "at least " } else { "" };
    let found = match reply.total {
        0 => "nothing found".to_owned(),
        total if args.offset == 0 && total == shown => counted(total, "hit"),
        total => format!(
            "hits {}–{} of {least}{}",
            args.offset.saturating_add(shown.min(1)),
            args.offset.saturating_add(shown),
            grouped(total)
        ),
    };
    ui.note(&dim(&found));
    if !reply.not_covered.is_empty() {
        ui.warn(&reply.not_covered);
    }
    if reply.total == 0 && !reply.nearest.is_empty() {
        ui.note(&format!("near words in what was said: {}", safe::line(&reply.nearest.join(", "))));
    }
    if reply.has_more {
        ui.note(&dim(&format!("--offset {} goes on", args.offset.saturating_add(shown))));
    }
    Ok(())
}

/// Says where a hit is: who spoke, when, whether the model sees it.
fn headline(hit: &RecallHit) -> String {
    let mut out = match hit.message {
        MessageId(0) => format!("summary {} (depth {})", hit.node.0, hit.depth),
        MessageId(id) => {
            let role = hit.role.map(|role| role.to_string()).unwrap_or_default();
            format!("message {id} {}", [role.as_str(), hit.tool.as_str()].join(" ").trim_end())
        }
    };
    if !hit.session.is_empty() {
        out.push_str(&format!(" of {}", hit.session));
    }
    let at = time::shown(i64::try_from(hit.at_ms).unwrap_or(0));
    if !at.is_empty() {
        out.push_str(&format!(", {at}"));
    }
    if hit.message != MessageId(0) {
        out.push_str(match (hit.live, hit.node) {
            (true, _) => ", in sight",
            (false, NodeId(0)) => ", out of sight",
            (false, _) => ", behind summary ",
        });
        if !hit.live && hit.node != NodeId(0) {
            out.push_str(&hit.node.0.to_string());
        }
    }
    bold(&safe::line(&out))
}

fn whole(store: &Store, session: &SessionRow, id: MessageId, raw: bool, ui: &Ui) -> Result<Status, CliError> {
    let request = RecallRequest::Get { message: id, session: String::new(), raw, offset: 0, limit: 0 };
    let reply = store.recall(session.key, &request).map_err(failed)?;
    let Some(hit) = reply.hits.first() else {
        return Err(CliError::user(format!("the store has no message {}", id.0)));
    };
    if ui.is_json() {
        ui.json(&json!({ "session": session.name, "message": hit }))?;
        return Ok(Status::Done);
    }
    if !raw {
        ui.note(&headline(hit));
    }
    ui.document(&hit.text)?;
    if !hit.text.ends_with('\n') {
        ui.document("\n")?;
    }
    Ok(Status::Done)
}

fn summary(store: &Store, session: &SessionRow, node: NodeId, args: &RecallArgs, ui: &Ui) -> Result<Status, CliError> {
    let described = store.recall(session.key, &RecallRequest::describe(node)).map_err(failed)?.node;
    let expand = RecallRequest::expand(node, args.offset, args.limit);
    let reply = store.recall(session.key, &expand).map_err(failed)?;
    if ui.is_json() {
        ui.json(&json!({ "session": session.name, "summary": described, "reply": reply }))?;
        return Ok(Status::Done);
    }
    let number = |name: &str| described.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let head = format!(
        "summary {}, depth {}: {} in {} tokens for {}",
        node.0,
        number("depth"),
        counted(number("messages"), "message"),
        grouped(number("tokens")),
        grouped(number("source_tokens"))
    );
    ui.out(&format!("{}\n", bold(&safe::line(&head))))?;
    let text = described.get("text").and_then(serde_json::Value::as_str).unwrap_or_default();
    ui.out(&format!("{}\n", safe::block(text).trim_end()))?;
    for hit in &reply.hits {
        ui.out(&format!("{}\n{}\n", headline(hit), safe::block(&hit.text).trim_end()))?;
    }
    if reply.has_more {
        let next = args.offset.saturating_add(reply.hits.len() as u64);
        ui.note(&dim(&format!("{} in all; --offset {next} goes on", counted(reply.total, "message"))));
    }
    Ok(Status::Done)
}

fn failed(error: EngineError) -> CliError {
    let told = CliError::user(error.message.clone());
    match error.kind {
        ErrorKind::Input if error.hint.is_empty() => told,
        ErrorKind::Input => told.hint(error.hint),
        _ => told.hint("`palimpsest sessions verify` looks for damage"),
    }
}
