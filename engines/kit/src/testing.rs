//! For the tests of engines: conversations from a few bytes, and a judge of plans that trusts nobody.

use crate::pairs::units;
use engine_api::testing::{assistant, calls, result, system, user};
use engine_api::{CompactionPlan, Conversation, Flags, Message, NodeId, Part, PartKind, Role, Step, json};
use std::collections::HashSet;

/// Makes a conversation of bytes, well-formed where `is_faulty` is false: each byte adds a message or a tool round.
///
/// A byte's low four bits choose what, its high four bits how long; so a shrinking test tool shrinks both.
pub fn conversation(bytes: &[u8], is_faulty: bool) -> Vec<Message> {
    let mut list = List { messages: Vec::new(), calls: 0 };
    for &byte in bytes {
        let size = 1usize << (byte >> 4).min(12);
        let text = "word ".repeat(size);
        match byte & 15 {
            0 | 1 => list.push(|id| user(id, &text)),
            2 => list.push(|id| assistant(id, &text)),
            3 => list.push(|id| marked(assistant(id, ""), PartKind::Reasoning, &text)),
            4 => list.push(|id| flagged(user(id, &text), Flags::INJECTED)),
            5 => list.push(|id| flagged(assistant(id, &text), Flags::SUMMARY.with(Flags::SYNTHETIC))),
            6 if list.messages.len() < 2 => list.push(|id| system(id, &text)),
            6 => list.push(|id| flagged(user(id, &text), Flags::PINNED.with(Flags::REAL_USER))),
            7 => list.round(1, &text, true),
            8 => list.round(3, &text, true),
            9 => list.round(1, &text, false),
            10 if is_faulty => list.orphan(&text),
            11 if is_faulty => list.open(&text),
            12 if is_faulty => list.again(&text),
            13 if is_faulty => list.push(|id| Message { id: engine_api::MessageId(id), ..empty() }),
            14 if is_faulty => list.push(|id| system(id, &text)),
            _ => list.round(2, &text, false),
        }
    }
    list.messages
}

struct List {
    messages: Vec<Message>,
    calls: usize,
}

impl List {
    fn push(&mut self, make: impl FnOnce(u64) -> Message) {
        let id = self.messages.len() as u64 + 1;
        self.messages.push(make(id));
    }
    /// Calls and all their results; with `is_joined` the calls are in one message, else each in one of its own.
    fn round(&mut self, count: usize, text: &str, is_joined: bool) {
        let ids: Vec<String> = (0..count).map(|at| format!("call{}", self.calls + at)).collect();
        self.calls += count;
        let arguments = json::json!({ "command": text }).to_string();
        let list: Vec<(&str, &str, &str)> = ids.iter().map(|id| (id.as_str(), "bash", arguments.as_str())).collect();
        for group in if is_joined { vec![&list[..]] } else { list.chunks(1).collect() } {
            self.push(|id| calls(id, group));
        }
        for call in &ids {
            self.push(|id| result(id, call, "bash", text));
        }
    }
    fn orphan(&mut self, text: &str) {
        let call = format!("call{}", self.calls + 5);
        self.push(|id| result(id, &call, "bash", text));
    }
    fn open(&mut self, text: &str) {
        let call = format!("call{}", self.calls);
        self.calls += 1;
        self.push(|id| calls(id, &[(&call, "bash", text)]));
    }
    /// A result of an old call once more, or an answer to one left open.
    fn again(&mut self, text: &str) {
        let call = format!("call{}", self.calls / 2);
        self.push(|id| result(id, &call, "bash", text));
    }
}

fn empty() -> Message {
    Message::new(Role::Other, "{}", Vec::new())
}

fn marked(mut message: Message, kind: PartKind, text: &str) -> Message {
    message.parts = vec![Part { tokens: text.len() as u32 / 4, ..Part::new(kind, text) }];
    message.tokens = text.len() as u32 / 4 + 4;
    message
}

/// Returns a message with these flags and no others.
pub fn flagged(mut message: Message, flags: Flags) -> Message {
    message.flags = flags;
    if flags.has(Flags::SUMMARY) {
        message.node = NodeId(message.id.0 + 1_000);
    }
    message
}

/// Counts as the messages of `engine_api::testing` are counted.
pub fn count(text: &str) -> u64 {
    text.len() as u64 / 4 + 4
}

/// Numbers messages from 1, as a host would.
pub fn numbered(messages: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let number = |(at, mut message): (usize, Message)| {
        message.id = engine_api::MessageId(at as u64 + 1);
        message
    };
    messages.into_iter().enumerate().map(number).collect()
}

/// Makes a coding session: a system prompt, and turns of a request, some rounds of a tool and an answer.
pub fn session(turns: usize, rounds: usize, result_bytes: usize) -> Vec<Message> {
    let mut list = vec![system(0, "You are a careful engineer.")];
    for turn in 0..turns {
        list.push(user(0, &format!("request {turn}: please change src/module_{turn}/lib.rs so that it builds")));
        list.extend(tool_rounds(turn, rounds, result_bytes));
        list.push(assistant(0, &format!("Turn {turn} is done: the root cause was a missing import.")));
    }
    numbered(list)
}

/// Makes rounds of a call and its result.
pub fn tool_rounds(turn: usize, rounds: usize, result_bytes: usize) -> Vec<Message> {
    let mut list = Vec::new();
    for round in 0..rounds {
        let call = format!("call_{turn}_{round}");
        let arguments = format!("{{\"command\":\"cargo test --test case_{turn}_{round}\"}}");
        list.push(calls(0, &[(&call, "terminal", &arguments)]));
        let output = format!("run {turn}.{round}\n").repeat(result_bytes / 8);
        list.push(result(0, &call, "terminal", &output));
    }
    list
}

/// What a plan comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Tokens of the messages before.
    pub tokens_before: u64,
    /// Tokens of the messages and summaries after, with the host's additions.
    pub tokens_after: u64,
    /// Summaries.
    pub summaries: usize,
    /// New texts.
    pub rewrites: usize,
}

/// Judges a plan: every message kept, covered or dropped exactly once; kept ones and new texts in order; new texts
/// only for results and calls of kept messages that are not pinned, arguments a JSON object; no unit split; the newest
/// real user message, the last message and the pinned ones kept; no empty summary.
///
/// # Errors
/// Returns what is wrong with the plan.
pub fn judge(
    conversation: &Conversation<'_>,
    plan: &CompactionPlan,
    count: &dyn Fn(&str) -> u64,
) -> Result<Verdict, String> {
    let length = conversation.len();
    // What became of each message: 0 nothing yet, 1 kept, 2 covered or dropped.
    let mut fate = vec![0u8; length];
    let mut verdict = Verdict { tokens_before: conversation.tokens(), ..Verdict::default() };
    let mut last_kept = None;
    let mut rewritten = HashSet::new();
    let mut saved = 0u64;
    if plan.base_revision != conversation.revision() {
        return Err(format!("made for revision {}", plan.base_revision));
    }
    let mut place = |position: usize, mark: u8| match fate.get_mut(position) {
        Some(slot) if *slot == 0 => {
            *slot = mark;
            Ok(())
        }
        Some(_) => Err(format!("message {position} stands twice in the plan")),
        None => Err(format!("there is no message {position}")),
    };
    for step in &plan.steps {
        match step {
            Step::Keep(span) => {
                for position in span.positions() {
                    place(position, 1)?;
                    if last_kept.is_some_and(|last| last >= position) {
                        return Err(format!("message {position} is kept out of order"));
                    }
                    last_kept = Some(position);
                }
            }
            Step::Rewrite { message, part, text } => {
                let view = conversation.get(*message).ok_or(format!("there is no message {message}"))?;
                let old = view.part(*part).ok_or(format!("message {message} has no part {part}"))?;
                if last_kept.is_none_or(|last| last < *message) || !rewritten.insert((*message, *part)) {
                    return Err(format!("part {message}.{part} is rewritten twice or before its message is kept"));
                }
                match old.kind() {
                    _ if view.is_pinned() => return Err(format!("the pinned message {message} is rewritten")),
                    PartKind::ToolResult => {}
                    PartKind::ToolCall if matches!(json::from_str(text), Ok(json::Value::Object(_))) => {}
                    kind => return Err(format!("a part of kind {kind} is rewritten as {text:.40}")),
                }
                saved += old.tokens().saturating_sub(count(text) + crate::layout::RECALL_TOKENS);
                verdict.rewrites += 1;
            }
            Step::Summary(summary) => {
                if summary.text.trim().is_empty() || summary.covers.is_empty() {
                    return Err("a summary is empty or covers nothing".to_string());
                }
                for position in summary.covers.iter().flat_map(|span| span.positions()) {
                    place(position, 2)?;
                }
                verdict.tokens_after += count(&summary.text) + crate::layout::SUMMARY_FRAME_TOKENS;
                verdict.summaries += 1;
            }
            Step::Drop { span, reason } if !reason.is_empty() => {
                span.positions().try_for_each(|position| place(position, 2))?;
            }
            Step::Insert { text, message: None, .. } if !text.trim().is_empty() => {
                verdict.tokens_after += count(text) + crate::layout::SUMMARY_FRAME_TOKENS;
            }
            other => return Err(format!("unexpected step {other:?}")),
        }
    }
    if let Some(position) = fate.iter().position(|mark| *mark == 0) {
        return Err(format!("nothing is said of message {position}"));
    }
    if let Some((position, _)) = rewritten.iter().find(|(position, _)| fate.get(*position) != Some(&1)) {
        return Err(format!("message {position} is rewritten but not kept"));
    }
    for unit in units(conversation) {
        let marks: HashSet<u8> = fate.get(unit.clone()).unwrap_or_default().iter().copied().collect();
        if marks.len() > 1 {
            return Err(format!("the unit {unit:?} is split"));
        }
    }
    let newest = conversation.iter().rposition(|message| message.is_real_user());
    for (position, message) in conversation.iter().enumerate() {
        let is_kept = fate.get(position) == Some(&1);
        let is_last = position + 1 == length && message.part_count() > 0 && !message.flags().has(Flags::SYNTHETIC);
        if (newest == Some(position) || is_last || message.is_pinned()) && !is_kept {
            return Err(format!("message {position}, pinned, the last or the newest of the user, is not kept"));
        }
        if is_kept {
            verdict.tokens_after += message.tokens();
        }
    }
    verdict.tokens_after = verdict.tokens_after.saturating_sub(saved);
    Ok(verdict)
}
