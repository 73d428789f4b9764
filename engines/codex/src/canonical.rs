//! The context that a client puts before the work: rules, environment, permissions, skills.
//!
//! Codex writes it anew after each compaction. Here it stays where it is: of each kind the first, which the prefix
//! begins with, and the newest, which holds now. Those between are superseded and go to the handoff.

use engine_api::{Conversation, Flags, MessageView, Role};
use engine_kit::text::prefix;
use std::collections::HashMap;

/// How messages begin by which clients pass on the project's rules.
const RULES: [&str; 3] = ["# AGENTS.md instructions", "<user_instructions>", "<INSTRUCTIONS>"];
/// A kind is told by the first tag or the first words, within so many bytes.
const KIND_BYTES_MAX: usize = 32;

/// A message of the canonical context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Canonical {
    pub(crate) position: usize,
    /// Whether it holds rules, which go last of all.
    pub(crate) is_rules: bool,
}

/// Finds the canonical context behind the leading instructions, ascending.
pub(crate) fn canonical(conversation: &Conversation<'_>, leading: usize) -> Vec<Canonical> {
    let mut ends: HashMap<String, (usize, usize)> = HashMap::new();
    for (position, message) in conversation.iter().enumerate().skip(leading) {
        if is_canonical(&message) {
            ends.entry(kind(&message)).or_insert((position, position)).1 = position;
        }
    }
    let is_same = |first: usize, last: usize| {
        let raw = |position: usize| conversation.get(position).map(|message| message.raw());
        raw(first) == raw(last)
    };
    let mut list = Vec::new();
    for (_, (first, last)) in ends {
        let list_of = if is_same(first, last) { vec![first] } else { vec![first, last] };
        for position in list_of {
            let is_rules = conversation.get(position).is_some_and(|message| is_rules(&message));
            list.push(Canonical { position, is_rules });
        }
    }
    list.sort_by_key(|one| one.position);
    list
}

/// Tells whether a client put the message there to tell the model where it is and what holds.
fn is_canonical(message: &MessageView<'_>) -> bool {
    if message.is_summary() || message.is_real_user() || message.flags().has(Flags::SYNTHETIC) {
        return false;
    }
    let is_instruction = matches!(message.role(), Role::System | Role::Developer);
    is_instruction || message.role() == Role::User && message.flags().has(Flags::INJECTED)
}

fn is_rules(message: &MessageView<'_>) -> bool {
    message.parts().any(|part| {
        let text = part.text().trim_start();
        RULES.iter().any(|opening| text.starts_with(opening))
    })
}

/// The first tag without its attributes, or the first words.
fn kind(message: &MessageView<'_>) -> String {
    let text = message.parts().map(|part| part.text().trim_start()).find(|text| !text.is_empty()).unwrap_or_default();
    let start = prefix(text, KIND_BYTES_MAX);
    let end = if start.starts_with('<') { start.find(['>', ' ', '\n']) } else { start.find('\n') };
    format!("{} {}", message.role(), start.get(..end.unwrap_or(start.len())).unwrap_or(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::ViewTable;
    use engine_api::testing::{assistant, system, user};
    use engine_kit::testing::{flagged, numbered};

    #[test]
    fn of_each_kind_the_first_and_the_newest_stay() {
        let injected = |text: &str| flagged(user(0, text), Flags::INJECTED);
        let messages = numbered([
            system(0, "base"),
            injected("# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>\nbe brief"),
            injected("<environment_context>\n<cwd>/a</cwd>"),
            user(0, "go"),
            injected("<environment_context>\n<cwd>/b</cwd>"),
            assistant(0, "ok"),
            injected("<environment_context>\n<cwd>/c</cwd>"),
            injected("# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>\nbe brief"),
        ]);
        let table = ViewTable::new(1, &messages);
        let found = canonical(&table.conversation(), 1);
        let of = |position, is_rules| Canonical { position, is_rules };
        assert_eq!(found, [of(1, true), of(2, false), of(6, false)]);
    }
}
