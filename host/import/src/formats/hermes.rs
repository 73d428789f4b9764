//! Hermes sessions in the shapes they are exported in; the trace shape is read by the Claude Code reader.

mod archive;
mod sharegpt;

use super::walk::{Place, splice, take_string, top};
use crate::build::{Builder, Mark};
use crate::input::Input;
use crate::json::{elements, number, pick, quote, string, text};
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use std::collections::{HashMap, HashSet};

pub(super) use archive::{read_archive, read_atif};
pub(super) use sharegpt::read as read_sharegpt;

/// How a summary message begins.
const SUMMARY_MARKER: &str = "[CONTEXT COMPACTION";

#[derive(Default)]
struct Session {
    id: String,
    parent: String,
    end_reason: String,
    title: String,
    system: String,
    model: Option<String>,
    rows: Vec<Row>,
}

struct Row {
    raw: String,
    line: u64,
    /// What a copy of this message in a child session is known by.
    keys: Vec<String>,
    is_active: bool,
    is_summary: bool,
}

/// Reads `hermes sessions export --format jsonl`: a session a line, a child after its parent.
pub(super) fn read_export(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut sessions: Vec<Session> = Vec::new();
    top(input, context, &mut |place, scanner, problems| {
        let Place::Member(key) = place else {
            return match place {
                Place::Element => scanner.skip(),
                _ => {
                    sessions.push(Session::default());
                    Ok(())
                }
            };
        };
        let Some(session) = sessions.last_mut() else { return scanner.skip() };
        match key {
            "messages" => super::swe_agent::each_record(scanner, problems, &mut |line, record, problems| {
                session.rows.extend(row(line, record, problems));
            })?,
            "id" => session.id = take_string(scanner, problems)?.unwrap_or_default(),
            "parent_session_id" => session.parent = take_string(scanner, problems)?.unwrap_or_default(),
            "end_reason" => session.end_reason = take_string(scanner, problems)?.unwrap_or_default(),
            "title" => session.title = take_string(scanner, problems)?.unwrap_or_default(),
            "system_prompt" => session.system = take_string(scanner, problems)?.unwrap_or_default(),
            "model" => session.model = take_string(scanner, problems)?,
            _ => scanner.skip()?,
        }
        Ok(())
    })?;
    Ok(by_lineage(sessions, context))
}

fn row(line: u64, record: &str, problems: &mut Problems) -> Option<Row> {
    let Ok([role, content, calls, call_id, active]) =
        pick(record, ["role", "content", "tool_calls", "tool_call_id", "active"])
    else {
        problems.lost(Some(line), || "a message row that is no JSON object; left out".to_owned());
        return None;
    };
    let role = text(role)?;
    if role == "session_meta" {
        return None;
    }
    let mut raw =
        splice(record, |key| matches!(key, "role" | "content" | "tool_calls" | "tool_call_id" | "reasoning_content"))?;
    // The store may hold the calls as a text of JSON.
    if let Some(Some(decoded)) = calls.map(string)
        && decoded.starts_with('[')
    {
        raw = splice(record, |key| matches!(key, "role" | "content" | "tool_call_id" | "reasoning_content"))?;
        raw.truncate(raw.len().saturating_sub(1));
        raw.push_str(&format!(",\"tool_calls\":{decoded}}}"));
    }
    let said = content.and_then(string).unwrap_or_default();
    if said.is_empty() && content.is_none_or(|content| content == "\"\"") && calls.is_none() && role != "tool" {
        return None;
    }
    let mut keys = vec![format!("{role}:{}", content.unwrap_or_default())];
    let ids = calls.map(elements).unwrap_or_default();
    keys.extend(
        ids.iter()
            .filter_map(|call| pick(call, ["id"]).ok())
            .filter_map(|[id]| text(id))
            .map(|id| format!("call:{id}")),
    );
    keys.extend(text(call_id).map(|id| format!("result:{id}")));
    let is_summary = said.starts_with(SUMMARY_MARKER);
    Some(Row { raw, line, keys, is_active: number(active) != Some(0) && active != Some("false"), is_summary })
}

// Sessions that follow each other by compression are one conversation; a child of another kind is a subagent's.
fn by_lineage(sessions: Vec<Session>, context: &mut Context<'_>) -> Vec<Conversation> {
    let is_live = context.is_live();
    let by_id: HashMap<String, usize> = sessions.iter().enumerate().map(|(index, s)| (s.id.clone(), index)).collect();
    let parent_of = |session: &Session| by_id.get(&session.parent).copied().filter(|_| !session.parent.is_empty());
    let mut continued: HashSet<usize> = HashSet::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(sessions.len());
    let mut kinds: Vec<Kind> = Vec::with_capacity(sessions.len());
    for (index, session) in sessions.iter().enumerate() {
        let parent = parent_of(session).filter(|parent| *parent != index);
        let is_next =
            parent.and_then(|parent| sessions.get(parent)).is_some_and(|parent| parent.end_reason == "compression");
        kinds.push(if parent.is_some() && !is_next { Kind::Sidechain } else { Kind::Main });
        before.push(parent.filter(|_| is_next));
        continued.extend(parent.filter(|_| is_next));
    }
    let mut all: Vec<Conversation> = Vec::new();
    for (index, session) in sessions.iter().enumerate().rev() {
        if continued.contains(&index) {
            continue;
        }
        let mut lineage = vec![session];
        let mut at = before.get(index).copied().flatten();
        while let Some(parent) = at.filter(|_| lineage.len() <= sessions.len()) {
            lineage.extend(sessions.get(parent));
            at = before.get(parent).copied().flatten();
        }
        lineage.reverse();
        if is_live && lineage.len() > 1 {
            let count = lineage.len() - 1;
            context
                .problems
                .note(None, || format!("{count} earlier sessions of the lineage left out; the full history has them"));
        }
        let rows = if is_live { session.rows.iter().filter(|row| row.is_active).collect() } else { whole(&lineage) };
        let mut builder = Builder::new(Dialect::OpenAiChat);
        builder.system(&session.system);
        for row in rows {
            let mark = if row.is_summary { Mark::Summary } else { Mark::AsRead };
            builder.message(row.raw.clone(), mark, Some(row.line));
        }
        let members = session.model.as_deref().map(|model| ("model".to_owned(), quote(model))).into_iter().collect();
        let kind = kinds.get(index).copied().unwrap_or(Kind::Main);
        let messages = builder.finish(&mut context.problems);
        all.push(conversation(session.id.clone(), session.title.clone(), kind, Dialect::OpenAiChat, members, messages));
    }
    all.sort_by_key(|conversation| conversation.kind != Kind::Main);
    all
}

// Everything said in a lineage: each child begins with copies of its parent's head and tail around the summary.
fn whole<'s>(lineage: &[&'s Session]) -> Vec<&'s Row> {
    let mut rows: Vec<&Row> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    for (depth, session) in lineage.iter().enumerate() {
        let after_summary = session.rows.iter().rposition(|row| row.is_summary).map_or(0, |at| at + 1);
        let from = if depth == 0 { 0 } else { after_summary };
        let is_copy = |row: &&Row| depth > 0 && row.keys.iter().any(|key| known.contains(key.as_str()));
        let own: Vec<&Row> = session.rows.iter().skip(from).skip_while(is_copy).filter(|row| !row.is_summary).collect();
        known.extend(session.rows.iter().flat_map(|row| row.keys.iter().map(String::as_str)));
        rows.extend(own);
    }
    rows
}
