//! Finds what may stand in an outline: lines by section, each with how much it matters.

use super::words::{DECISION, QUESTION_SIGNS, REMAINING, RULE, has, is_empty_talk, sentences, without_client_blocks};
use super::{HEADINGS, Options};
use crate::anchors::{AnchorKind, anchors};
use crate::prune::{CallTable, ToolKind, fault, one_line_result};
use crate::text::{one_line, prefix};
use engine_api::{Conversation, MessageView, PartKind, json};
use std::collections::HashMap;

/// Sections by their place in [`HEADINGS`].
pub(super) mod section {
    pub(crate) const SNAPSHOT: usize = 0;
    pub(crate) const GOAL: usize = 1;
    pub(crate) const CONSTRAINTS: usize = 2;
    pub(crate) const ACTIONS: usize = 3;
    pub(crate) const ACTIVE: usize = 4;
    pub(crate) const IN_PROGRESS: usize = 5;
    pub(crate) const BLOCKED: usize = 6;
    pub(crate) const DECISIONS: usize = 7;
    pub(crate) const QUESTIONS: usize = 8;
    pub(crate) const PENDING: usize = 9;
    pub(crate) const FILES: usize = 10;
    pub(crate) const REMAINING_SECTION: usize = 11;
    pub(crate) const CONTEXT: usize = 12;
}
use section::*;

/// Characters of the newest request; Hermes' snapshot has as many.
const SNAPSHOT_CHARS: usize = 1_400;
/// The host quotes the person's messages whole beside the summary; here they say what the rest is about.
const REQUEST_CHARS: usize = 400;
const LINE_CHARS: usize = 320;
/// What is read of one of the model's texts: it leads with what matters.
const STATEMENT_BYTES: usize = 6 * 1024;
/// Lines remembered of a section; the budget lets in far fewer.
const LINES_MAX: usize = 1_000;
/// Bytes of a call's arguments by which two calls are the same.
const SUBJECT_BYTES: usize = 400;
/// Tasks of a list that are looked at.
const TODOS_MAX: usize = 50;
const RESOLVED: &str = " (the same call went well later)";
/// Sections that engines put behind a summary and make anew each time; carried on they would pile up.
const MADE_ANEW: [&str; 2] = ["Anchor Index (exact)", "Context Recovery"];
/// Newest results listed as the state that the work is in.
const ACTIVE_RESULTS: usize = 3;

/// A line that may stand in an outline.
pub(super) struct Line {
    pub(super) text: String,
    /// 0 matters most; among equals the newest does.
    pub(super) rank: u8,
}

/// Lines by section, oldest first.
pub(super) struct Gathered {
    pub(super) sections: Vec<Vec<Line>>,
}

impl Gathered {
    fn add(&mut self, section: usize, rank: u8, text: String) {
        if let Some(lines) = self.sections.get_mut(section).filter(|_| !text.is_empty()) {
            lines.push(Line { text, rank });
        }
    }
}

/// Finds the lines of the messages at these positions.
pub(super) fn gather(conversation: &Conversation<'_>, positions: &[usize], options: &Options<'_>) -> Gathered {
    let mut gathered = Gathered { sections: HEADINGS.iter().map(|_| Vec::new()).collect() };
    let mut requests: Vec<String> = Vec::new();
    if let Some(previous) = options.previous {
        carry(previous, &mut gathered);
    }
    // A call stands in the same unit as its result, so the table needs no more than this stretch.
    let stretch = positions.first().copied().unwrap_or(0)..positions.last().map_or(0, |last| last + 1);
    let mut walk = Walk {
        table: CallTable::over(conversation, stretch),
        newest_results: Vec::new(),
        last_statement: String::new(),
        is_answered: true,
        faults: Vec::new(),
        todos: Vec::new(),
    };
    for &position in positions {
        let Some(message) = conversation.get(position) else { continue };
        if message.is_real_user() {
            walk.user(&message, &mut gathered, &mut requests);
        } else if message.is_summary() {
            carry(&message.text(), &mut gathered);
        } else {
            walk.other(position, &message, &mut gathered);
        }
    }
    walk.finish(&mut gathered, requests);
    identifiers(conversation, positions, &mut gathered);
    for lines in &mut gathered.sections {
        merge_equal(lines);
    }
    prefer(options.focus, &mut gathered);
    gathered
}

/// What is known on the way through the messages.
struct Walk<'a> {
    table: CallTable<'a>,
    newest_results: Vec<String>,
    last_statement: String,
    is_answered: bool,
    /// What was called and what it failed with, oldest first.
    faults: Vec<(String, String)>,
    /// What the newest list of tasks still has open.
    todos: Vec<String>,
}

impl Walk<'_> {
    fn user(&mut self, message: &MessageView<'_>, gathered: &mut Gathered, requests: &mut Vec<String>) {
        let text = without_client_blocks(&message.text());
        let request = one_line(&text, SNAPSHOT_CHARS);
        if request.is_empty() {
            return;
        }
        for sentence in sentences(&text).filter(|sentence| has(sentence, RULE)).take(3) {
            gathered.add(CONSTRAINTS, 1, format!("\"{}\"", one_line(sentence, LINE_CHARS)));
        }
        if request.ends_with(QUESTION_SIGNS) {
            gathered.add(QUESTIONS, 2, format!("\"{}\"", one_line(&request, 200)));
        }
        requests.push(request);
        self.is_answered = false;
    }

    fn other(&mut self, position: usize, message: &MessageView<'_>, gathered: &mut Gathered) {
        for (index, part) in message.parts().enumerate() {
            match part.kind() {
                PartKind::Text if message.role() == engine_api::Role::Assistant => {
                    self.statement(part.text(), gathered);
                }
                PartKind::ToolResult => {
                    let call = self.table.call_of(position, index);
                    let tool = call.map_or(part.tool_name(), |call| call.tool_name());
                    let kind = ToolKind::of(tool);
                    let line = one_line_result(call, part);
                    let rank = match kind {
                        ToolKind::Edit | ToolKind::Write => 0,
                        ToolKind::Command => 1,
                        ToolKind::Other => 2,
                        ToolKind::Read | ToolKind::Search => 3,
                    };
                    let subject = call.map(|call| format!("{tool} {}", prefix(call.text(), SUBJECT_BYTES)));
                    match fault(part, kind) {
                        Some(fault) => {
                            let line = format!("[{}] {fault}", one_line(tool, 40));
                            self.faults.push((subject.unwrap_or_default(), line));
                        }
                        // The same command went well later, so its faults are history.
                        None => self.resolve(subject.as_deref()),
                    }
                    if let Some(call) = call.filter(|_| is_todo(tool)) {
                        self.todos = todos(call.text());
                    }
                    if self.newest_results.len() >= ACTIVE_RESULTS {
                        self.newest_results.remove(0);
                    }
                    self.newest_results.push(line.clone());
                    gathered.add(ACTIONS, rank, line);
                }
                _ => {}
            }
        }
    }

    /// Says of the faults of a call that it went well afterwards.
    fn resolve(&mut self, subject: Option<&str>) {
        let Some(subject) = subject else { return };
        for (_, line) in self.faults.iter_mut().filter(|(known, line)| known == subject && !line.ends_with(RESOLVED)) {
            line.push_str(RESOLVED);
        }
    }

    fn statement(&mut self, text: &str, gathered: &mut Gathered) {
        let text = prefix(text, STATEMENT_BYTES);
        let Some(first) = sentences(text).next().map(|sentence| one_line(sentence, LINE_CHARS)) else { return };
        self.is_answered = true;
        if is_empty_talk(text.trim()) {
            return;
        }
        let mut decisions = 0;
        for sentence in sentences(text) {
            if decisions < 2 && has(sentence, DECISION) {
                decisions += 1;
                gathered.add(DECISIONS, 0, one_line(sentence, LINE_CHARS));
            } else if has(sentence, REMAINING) {
                gathered.add(REMAINING_SECTION, 1, one_line(sentence, LINE_CHARS));
            }
        }
        if decisions == 0 {
            gathered.add(DECISIONS, 2, first);
        }
        self.last_statement = one_line(text, REQUEST_CHARS);
    }

    fn finish(self, gathered: &mut Gathered, requests: Vec<String>) {
        let count = requests.len();
        for (at, request) in requests.into_iter().enumerate() {
            let is_last = at + 1 == count;
            let quoted = format!("\"{}\"", one_line(&request, REQUEST_CHARS));
            if is_last {
                gathered.add(SNAPSHOT, 0, format!("User asked: \"{request}\""));
                if !self.is_answered {
                    gathered.add(PENDING, 0, quoted.clone());
                }
            }
            // The first request is usually what the whole conversation is about.
            if !is_last || count == 1 {
                gathered.add(GOAL, u8::from(at != 0), quoted);
            }
        }
        for (_, line) in self.faults.into_iter().rev().take(LINES_MAX).rev() {
            let rank = if line.ends_with(RESOLVED) { 3 } else { 1 };
            gathered.add(BLOCKED, rank, line);
        }
        for todo in self.todos {
            gathered.add(REMAINING_SECTION, 0, todo);
        }
        for line in self.newest_results {
            gathered.add(ACTIVE, 0, line);
        }
        gathered.add(IN_PROGRESS, 0, self.last_statement);
    }
}

fn is_todo(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    ["todo", "update_plan", "task_list"].iter().any(|name| tool.contains(name))
}

/// Returns what a list of tasks has open: its entries that are not done, in the client's own words.
fn todos(arguments: &str) -> Vec<String> {
    let Ok(value) = json::from_str::<json::Value>(arguments) else { return Vec::new() };
    let lists = ["todos", "plan", "tasks", "items"].iter().filter_map(|key| value.get(*key)?.as_array());
    let entries = lists.flatten().take(TODOS_MAX).filter_map(|entry| {
        let text = |key: &str| entry.get(key).and_then(json::Value::as_str);
        let status = text("status").unwrap_or("pending");
        let what = text("content").or_else(|| text("step")).or_else(|| text("title")).or_else(|| text("task"))?;
        let is_done = matches!(status, "completed" | "done" | "cancelled");
        (!is_done).then(|| format!("[{}] {}", one_line(status, 20), one_line(what, LINE_CHARS)))
    });
    entries.collect()
}

fn identifiers(conversation: &Conversation<'_>, positions: &[usize], gathered: &mut Gathered) {
    let found = anchors(conversation, positions);
    // By frequency; the selection prefers the newest of equal rank, so the most frequent go last.
    for anchor in found.of(AnchorKind::Path).iter().take(80).rev() {
        gathered.add(FILES, 1, one_line(anchor.text, 160));
    }
    let kinds = [
        AnchorKind::Version,
        AnchorKind::Handle,
        AnchorKind::Url,
        AnchorKind::Branch,
        AnchorKind::Commit,
        AnchorKind::Issue,
        AnchorKind::Error,
    ];
    for kind in kinds {
        for anchor in found.of(kind).iter().take(20).rev() {
            gathered.add(CONTEXT, 1, one_line(anchor.text, 200));
        }
    }
}

/// Takes the lines of an earlier summary over, by its headings.
fn carry(summary: &str, gathered: &mut Gathered) {
    let heading_of = |line: &str| {
        let name = line.trim().strip_prefix('#')?.trim_start_matches('#').trim();
        Some(HEADINGS.iter().position(|heading| heading.eq_ignore_ascii_case(name)).unwrap_or(CONTEXT))
    };
    let has_headings = summary.lines().any(|line| heading_of(line).is_some());
    // What stands before the first heading is a host's lead-in.
    let mut current = if has_headings { None } else { Some(CONTEXT) };
    let mut carried = 0;
    for line in summary.lines() {
        if let Some(section) = heading_of(line) {
            let is_made_anew = MADE_ANEW.iter().any(|heading| line.trim_start_matches(['#', ' ']).trim() == *heading);
            current = Some(section).filter(|_| !is_made_anew);
            continue;
        }
        let text = line.trim().trim_start_matches(['-', '*', '•', ' ']);
        let is_nothing = text.is_empty() || text.starts_with("[palimpsest") || text.eq_ignore_ascii_case("none");
        let Some(section) = current.filter(|_| !is_nothing) else { continue };
        // What was newest then is history now.
        let section = match section {
            SNAPSHOT | PENDING => GOAL,
            ACTIVE | IN_PROGRESS => ACTIONS,
            other => other,
        };
        gathered.add(section, 1, one_line(text, REQUEST_CHARS));
        carried += 1;
        if carried >= LINES_MAX {
            return;
        }
    }
}

/// Makes one line of equal ones, at the place of the newest, and says how many they were.
fn merge_equal(lines: &mut Vec<Line>) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for line in lines.iter() {
        *counts.entry(line.text.clone()).or_default() += 1;
    }
    let mut kept: Vec<Line> = Vec::new();
    for mut line in lines.drain(..).rev() {
        if kept.len() >= LINES_MAX {
            break;
        }
        let Some(count) = counts.remove(&line.text) else { continue };
        if count > 1 {
            line.text = format!("{} (x{count})", line.text);
        }
        kept.push(line);
    }
    kept.reverse();
    *lines = kept;
}

/// Lines that name the topic come first, then those that share a word with it.
fn prefer(focus: &str, gathered: &mut Gathered) {
    let topic = one_line(focus, 200).to_lowercase();
    let words: Vec<&str> = topic.split(' ').filter(|word| word.chars().count() > 2).collect();
    if topic.is_empty() {
        return;
    }
    for line in gathered.sections.iter_mut().flatten() {
        let lower = line.text.to_lowercase();
        line.rank = if lower.contains(&topic) {
            0
        } else if words.iter().any(|word| lower.contains(word)) {
            1
        } else {
            line.rank.saturating_add(2)
        };
    }
}
