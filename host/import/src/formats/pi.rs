//! pi session files: entries in a tree (new files) or in order (old ones), with one message a tool result.
//!
//! pi talks to many APIs. A session held with Anthropic alone keeps its signed thinking and is written in that dialect;
//! any other is written as OpenAI chat.

mod write;

use crate::build::Builder;
use crate::input::Input;
use crate::json::{elements, is_true, number, pick, quote, text};
use crate::lines::records;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use std::collections::{HashMap, HashSet};

/// Most branches kept.
const BRANCHES_MAX: usize = 100;
/// All branches together may hold this many times the bytes of the file's messages.
const BRANCH_BYTES_FACTOR: usize = 4;

struct Entry {
    id: String,
    parent: String,
    line: u64,
    body: Body,
}

enum Body {
    /// Exact text of the message.
    Message(String),
    /// Text the program put in as a user message.
    Injected(String),
    Compaction {
        summary: String,
        first_kept: FirstKept,
    },
    Other,
}

enum FirstKept {
    Id(String),
    /// Position among the lines of the file, the session line included.
    Index(usize),
    Unknown,
}

#[derive(Default)]
struct Session {
    id: String,
    title: String,
    entries: Vec<Entry>,
    by_id: HashMap<String, usize>,
    /// Calls that have a result.
    answered: HashSet<String>,
    apis: HashSet<String>,
    model: Option<String>,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut session = Session::default();
    records(input, context.options.line_bytes_max, &mut context.problems, &mut |line, record, problems| {
        session.line(line, record).inspect(|is_known| {
            if !is_known {
                problems.warn(Some(line), || "a record without a type; left out".to_owned());
            }
        })?;
        Ok(())
    })?;
    let is_anthropic = session.apis.len() == 1 && session.apis.contains("anthropic-messages");
    let dialect = if is_anthropic { Dialect::Anthropic } else { Dialect::OpenAiChat };
    let is_live = context.is_live();
    let mut all = Vec::new();
    let mut visited = vec![false; session.entries.len()];
    let main = session.chain(session.entries.len().checked_sub(1), &mut visited);
    all.push(session.conversation(&main, Kind::Main, session.id.clone(), dialect, is_live, context));
    let total: usize = session.entries.iter().map(Entry::bytes).sum();
    let mut budget = total.saturating_mul(BRANCH_BYTES_FACTOR);
    for leaf in session.leaves().into_iter().rev() {
        // What the ways walked before have not shown; each entry is passed once.
        let fresh = session.chain(Some(leaf), &mut visited);
        let is_message =
            |index: &usize| session.entries.get(*index).is_some_and(|entry| matches!(entry.body, Body::Message(_)));
        if all.len() > BRANCHES_MAX || !fresh.iter().any(is_message) {
            continue;
        }
        let chain = session.chain(Some(leaf), &mut vec![false; session.entries.len()]);
        let bytes: usize = chain.iter().filter_map(|index| session.entries.get(*index)).map(Entry::bytes).sum();
        if bytes > budget {
            context
                .problems
                .lost(None, || "a branch was left out: the branches together repeat too much of the file".to_owned());
            continue;
        }
        budget -= bytes;
        let id = format!("{}/branch-{}", session.id, session.entries.get(leaf).map_or(0, |entry| entry.line));
        all.push(session.conversation(&chain, Kind::Branch, id, dialect, is_live, context));
    }
    Ok(all)
}

impl Entry {
    fn bytes(&self) -> usize {
        match &self.body {
            Body::Message(raw) => raw.len(),
            Body::Injected(text) => text.len(),
            Body::Compaction { summary, .. } => summary.len(),
            Body::Other => 0,
        }
    }
}

impl Session {
    fn line(&mut self, line: u64, record: &str) -> Result<bool, serde_json::Error> {
        let [kind, id, parent, message, summary, kept_id, kept_index, content, name] = pick(
            record,
            [
                "type",
                "id",
                "parentId",
                "message",
                "summary",
                "firstKeptEntryId",
                "firstKeptEntryIndex",
                "content",
                "name",
            ],
        )?;
        let owned = |member: Option<&str>| text(member).map(|text| text.into_owned()).unwrap_or_default();
        let kind = owned(kind);
        let body = match kind.as_str() {
            "" => return Ok(false),
            "session" => {
                self.id = owned(id);
                Body::Other
            }
            "session_info" => {
                self.title = owned(name);
                Body::Other
            }
            "message" => match message {
                Some(message) => {
                    self.note_message(message);
                    Body::Message(message.to_owned())
                }
                None => return Ok(false),
            },
            "custom_message" => Body::Injected(match content.map(elements) {
                Some(parts) if !parts.is_empty() => {
                    let texts = parts.iter().filter_map(|part| pick(part, ["text"]).ok()).map(|[text]| owned(text));
                    texts.collect::<Vec<_>>().join("\n")
                }
                _ => owned(content),
            }),
            "branch_summary" => Body::Injected(owned(summary)),
            "compaction" => Body::Compaction {
                summary: owned(summary),
                first_kept: match (text(kept_id), number(kept_index).and_then(|index| usize::try_from(index).ok())) {
                    (Some(id), _) => FirstKept::Id(id.into_owned()),
                    (None, Some(index)) => FirstKept::Index(index),
                    (None, None) => FirstKept::Unknown,
                },
            },
            _ => Body::Other,
        };
        let id = if kind == "session" { String::new() } else { owned(id) };
        if !id.is_empty() {
            self.by_id.insert(id.clone(), self.entries.len());
        }
        self.entries.push(Entry { id, parent: owned(parent), line, body });
        Ok(true)
    }

    fn note_message(&mut self, message: &str) {
        let Ok([role, api, call, model]) = pick(message, ["role", "api", "toolCallId", "model"]) else { return };
        match text(role).as_deref() {
            Some("assistant") => {
                self.apis.insert(text(api).unwrap_or_default().into_owned());
                self.model = text(model).map(|model| quote(&model)).or(self.model.take());
            }
            Some("toolResult") => {
                self.answered.extend(text(call).map(|id| id.into_owned()));
            }
            _ => {}
        }
    }

    // The way back from a leaf, oldest first. Entries without ids stand in order.
    fn chain(&self, leaf: Option<usize>, visited: &mut [bool]) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut at = leaf;
        while let Some(index) = at {
            match visited.get_mut(index) {
                Some(seen) if !*seen => *seen = true,
                _ => break,
            }
            chain.push(index);
            at = self.before(index);
        }
        chain.reverse();
        chain
    }

    fn before(&self, index: usize) -> Option<usize> {
        let entry = self.entries.get(index)?;
        match (entry.id.is_empty(), entry.parent.is_empty()) {
            (true, _) => index.checked_sub(1),
            (false, true) => None,
            // A parent that is lost is bridged to the entry before it in the file.
            (false, false) => self.by_id.get(&entry.parent).copied().or(index.checked_sub(1)),
        }
    }

    fn leaves(&self) -> Vec<usize> {
        let mut has_child = vec![false; self.entries.len()];
        for index in 0..self.entries.len() {
            if let Some(place) = self.before(index).and_then(|before| has_child.get_mut(before)) {
                *place = true;
            }
        }
        (0..self.entries.len()).filter(|index| has_child.get(*index) == Some(&false)).collect()
    }

    fn conversation(
        &self,
        chain: &[usize],
        kind: Kind,
        id: String,
        dialect: Dialect,
        is_live: bool,
        context: &mut Context<'_>,
    ) -> Conversation {
        let mut writer = write::Writer::new(Builder::new(dialect), dialect, is_live, &self.answered);
        let mut sent: Vec<usize> = chain.to_vec();
        if is_live && let Some((summary, kept)) = self.last_compaction(chain) {
            writer.summary(summary);
            sent = kept;
        }
        for index in sent {
            let Some(entry) = self.entries.get(index) else { continue };
            match &entry.body {
                Body::Message(raw) => writer.message(raw, entry.line, &mut context.problems),
                Body::Injected(text) if is_live => writer.injected(text, entry.line),
                Body::Injected(_) | Body::Compaction { .. } | Body::Other => {}
            }
        }
        let prompt_tokens = writer.prompt_tokens;
        let messages = writer.builder.finish(&mut context.problems);
        let members = self.model.clone().map(|model| ("model".to_owned(), model)).into_iter().collect();
        let title = if kind == Kind::Main { self.title.clone() } else { String::new() };
        let mut made = conversation(id, title, kind, dialect, members, messages);
        made.reported_tokens = prompt_tokens;
        made
    }

    // The newest summary, and the entries that are sent with it.
    fn last_compaction(&self, chain: &[usize]) -> Option<(&str, Vec<usize>)> {
        let position = chain.iter().rposition(|index| {
            self.entries.get(*index).is_some_and(|entry| matches!(entry.body, Body::Compaction { .. }))
        })?;
        let entry = chain.get(position).and_then(|index| self.entries.get(*index))?;
        let Body::Compaction { summary, first_kept } = &entry.body else { return None };
        let first = match first_kept {
            FirstKept::Id(id) => self.by_id.get(id).and_then(|first| chain.iter().position(|index| index == first)),
            FirstKept::Index(first) => chain.iter().position(|index| index == first),
            FirstKept::Unknown => None,
        };
        let from = first.unwrap_or(position).min(position);
        Some((summary, chain.get(from..).unwrap_or_default().to_vec()))
    }
}

// What the model was sent, as the message states it.
fn prompt_tokens(usage: &str) -> Option<u64> {
    let counts = pick(usage, ["input", "cacheRead", "cacheWrite"]).ok()?;
    let total = counts.into_iter().filter_map(number).fold(0u64, u64::saturating_add);
    Some(total).filter(|total| *total > 0)
}

// A shell command of the person that is kept from the model.
fn is_excluded(message: &str) -> bool {
    pick(message, ["excludeFromContext"]).is_ok_and(|[excluded]| is_true(excluded))
}
