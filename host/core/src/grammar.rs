//! What a provider refuses in a list of messages, per dialect: the rules that the result of a compaction is held to.

use engine_api::{Dialect, Flags, Message, Part, PartKind, Role};
use std::collections::{HashMap, HashSet};

/// Something that a provider refuses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fault {
    /// Position of the message; `None` for the list as a whole.
    pub position: Option<usize>,
    /// What kind.
    pub kind: FaultKind,
    /// The call id or the like.
    pub detail: String,
}

/// Kinds of [`Fault`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// There are no messages.
    NoMessages,
    /// A call has no answer where the dialect wants it.
    MissingResult,
    /// An answer has no call where the dialect wants it.
    OrphanResult,
    /// A call is answered twice.
    DuplicateResult,
    /// The dialect wants the user to speak first.
    FirstNotUser,
    /// A message has no content.
    Empty,
    /// An answer stands after other content of its turn.
    ResultNotFirst,
    /// A call id is used twice where the dialect wants it once.
    DuplicateId,
    /// A role that the dialect does not have.
    Role,
}

impl FaultKind {
    /// Tells whether the host mends such a fault, so that one left over means that the host failed.
    pub fn is_mended(self) -> bool {
        !matches!(self, FaultKind::DuplicateId | FaultKind::Role)
    }
}

/// Lists what a provider would refuse.
pub fn check(dialect: Dialect, messages: &[&Message]) -> Vec<Fault> {
    if messages.is_empty() {
        return vec![Fault { position: None, kind: FaultKind::NoMessages, detail: String::new() }];
    }
    match dialect {
        Dialect::Anthropic => anthropic(messages),
        Dialect::Responses => responses(messages),
        _ => openai_chat(messages),
    }
}

/// Walks the calls of a message that want an answer from the client. Only the model's calls do.
pub(crate) fn open_calls(message: &Message) -> impl Iterator<Item = (usize, &Part)> {
    parts_of(message, PartKind::ToolCall).filter(|_| message.role == Role::Assistant)
}

/// What pairs a call with its answer.
pub(crate) type Key<'m> = (u32, &'m str);

/// Returns what pairs a call or an answer with its partner.
pub(crate) fn key(part: &Part) -> Key<'_> {
    (part.flags.family(), part.call_id.as_str())
}

/// Walks the answers in a message. The model's own messages hold none.
pub(crate) fn answers(message: &Message) -> impl Iterator<Item = (usize, &Part)> {
    parts_of(message, PartKind::ToolResult).filter(|_| message.role != Role::Assistant)
}

fn parts_of(message: &Message, kind: PartKind) -> impl Iterator<Item = (usize, &Part)> {
    message
        .parts
        .iter()
        .enumerate()
        .filter(move |(_, part)| part.kind == kind && !part.flags.has(Flags::SELF_CONTAINED))
}

fn fault(faults: &mut Vec<Fault>, position: usize, kind: FaultKind, detail: &str) {
    faults.push(Fault { position: Some(position), kind, detail: detail.to_owned() });
}

/// A result is a message of its own and follows its call's message at once, among other results of it.
fn openai_chat(messages: &[&Message]) -> Vec<Fault> {
    let mut faults = Vec::new();
    // A list for the order of the report and a set for the look-up: a message may have thousands of calls.
    let mut open: Vec<&str> = Vec::new();
    let mut open_set: HashSet<&str> = HashSet::new();
    let mut open_at = 0;
    let mut answered: HashSet<&str> = HashSet::new();
    let mut legacy_open = false;
    for (position, message) in messages.iter().enumerate() {
        if message.role == Role::Tool {
            for (_, part) in answers(message) {
                // The legacy function role has no ids: it answers the call right before it.
                if part.call_id.is_empty() {
                    if !std::mem::take(&mut legacy_open) {
                        fault(&mut faults, position, FaultKind::OrphanResult, &part.tool_name);
                    }
                } else if !open_set.contains(part.call_id.as_str()) {
                    fault(&mut faults, position, FaultKind::OrphanResult, &part.call_id);
                } else if !answered.insert(&part.call_id) {
                    fault(&mut faults, position, FaultKind::DuplicateResult, &part.call_id);
                }
            }
            continue;
        }
        for call in open.drain(..).filter(|call| !answered.contains(call)) {
            fault(&mut faults, open_at, FaultKind::MissingResult, call);
        }
        answered.clear();
        open_set.clear();
        legacy_open = false;
        if message.parts.is_empty() && message.role == Role::Assistant {
            fault(&mut faults, position, FaultKind::Empty, "");
        }
        if message.role == Role::Other {
            fault(&mut faults, position, FaultKind::Role, "");
        }
        open_at = position;
        for (_, part) in open_calls(message) {
            if part.call_id.is_empty() {
                legacy_open = true;
            } else if open_set.insert(&part.call_id) {
                open.push(&part.call_id);
            } else {
                fault(&mut faults, position, FaultKind::DuplicateId, &part.call_id);
            }
        }
    }
    for call in open.iter().filter(|call| !answered.contains(*call)) {
        fault(&mut faults, open_at, FaultKind::MissingResult, call);
    }
    faults
}

/// Same-role neighbours are one turn; a turn's calls are answered at the head of the next turn.
fn anthropic(messages: &[&Message]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut used: HashSet<&str> = HashSet::new();
    let mut answered_ever: HashSet<&str> = HashSet::new();
    let turns = turns(messages);
    if messages.first().is_some_and(|first| first.role != Role::User) {
        fault(&mut faults, 0, FaultKind::FirstNotUser, "");
    }
    for (index, turn) in turns.iter().enumerate() {
        let of_turn = || turn.clone().filter_map(|position| messages.get(position).map(|message| (position, *message)));
        for (position, message) in of_turn() {
            if message.parts.is_empty() && position + 1 < messages.len() {
                fault(&mut faults, position, FaultKind::Empty, "");
            }
            if !matches!(message.role, Role::User | Role::Assistant) {
                fault(&mut faults, position, FaultKind::Role, "");
            }
            for (_, part) in open_calls(message).filter(|(_, part)| !part.call_id.is_empty()) {
                if !used.insert(&part.call_id) {
                    fault(&mut faults, position, FaultKind::DuplicateId, &part.call_id);
                }
            }
        }
        let role = messages.get(turn.start).map(|message| message.role);
        if role == Some(Role::Assistant) {
            let next: HashSet<&str> = turns
                .get(index + 1)
                .into_iter()
                .flat_map(|next| next.clone())
                .filter_map(|position| messages.get(position))
                .flat_map(|message| answers(message).map(|(_, part)| part.call_id.as_str()))
                .collect();
            for (position, message) in of_turn() {
                let unanswered = |part: &Part| !part.call_id.is_empty() && !next.contains(part.call_id.as_str());
                for (_, part) in open_calls(message).filter(|(_, part)| unanswered(part)) {
                    fault(&mut faults, position, FaultKind::MissingResult, &part.call_id);
                }
            }
            continue;
        }
        let before: HashSet<&str> = index
            .checked_sub(1)
            .and_then(|before| turns.get(before))
            .into_iter()
            .flat_map(|before| before.clone())
            .filter_map(|position| messages.get(position))
            .flat_map(|message| open_calls(message).map(|(_, part)| part.call_id.as_str()))
            .collect();
        let mut other = false;
        for (position, message) in of_turn() {
            for part in &message.parts {
                if part.kind != PartKind::ToolResult || part.flags.has(Flags::SELF_CONTAINED) {
                    other = true;
                    continue;
                }
                if !before.contains(part.call_id.as_str()) {
                    fault(&mut faults, position, FaultKind::OrphanResult, &part.call_id);
                } else if !answered_ever.insert(&part.call_id) {
                    fault(&mut faults, position, FaultKind::DuplicateResult, &part.call_id);
                } else if other {
                    fault(&mut faults, position, FaultKind::ResultNotFirst, &part.call_id);
                }
            }
        }
    }
    faults
}

/// Splits into runs of one role.
pub(crate) fn turns(messages: &[&Message]) -> Vec<std::ops::Range<usize>> {
    let mut turns: Vec<std::ops::Range<usize>> = Vec::new();
    let mut role = None;
    for (position, message) in messages.iter().enumerate() {
        match turns.last_mut() {
            Some(turn) if role == Some(message.role) => turn.end = position + 1,
            _ => turns.push(position..position + 1),
        }
        role = Some(message.role);
    }
    turns
}

/// Items stand alone; an output comes anywhere after its call, and ids are used once.
fn responses(messages: &[&Message]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut calls: HashMap<Key<'_>, usize> = HashMap::new();
    let mut answered: HashSet<Key<'_>> = HashSet::new();
    for (position, message) in messages.iter().enumerate() {
        if message.parts.is_empty()
            && matches!(message.role, Role::User | Role::Assistant | Role::System | Role::Developer)
        {
            fault(&mut faults, position, FaultKind::Empty, "");
        }
        for (_, part) in open_calls(message).filter(|(_, part)| !part.call_id.is_empty()) {
            if calls.insert(key(part), position).is_some() {
                fault(&mut faults, position, FaultKind::DuplicateId, &part.call_id);
            }
        }
        for (_, part) in answers(message) {
            if !calls.contains_key(&key(part)) {
                fault(&mut faults, position, FaultKind::OrphanResult, &part.call_id);
            } else if !answered.insert(key(part)) {
                fault(&mut faults, position, FaultKind::DuplicateResult, &part.call_id);
            }
        }
    }
    for (call, position) in calls.iter().filter(|(call, _)| !answered.contains(*call)) {
        fault(&mut faults, *position, FaultKind::MissingResult, call.1);
    }
    faults
}
