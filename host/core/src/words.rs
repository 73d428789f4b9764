//! The user's words: which messages are theirs, and how those that leave the context are quoted.

use crate::draft::{Draft, Entry, Origin, Written};
use crate::frame;
use crate::scribe::Scribe;
use crate::session::Session;
use engine_api::{Flags, Message, Role};
use std::collections::HashSet;
use std::sync::Arc;

/// Characters of quoted user messages in all; Hermes' lean tail mode uses the same.
pub const QUOTED_CHARS_MAX: usize = 24_000;
/// Characters of one quoted message; Hermes' lean tail mode uses the same.
pub const QUOTED_MESSAGE_CHARS_MAX: usize = 4_000;
/// Largest share of the threshold that quotes may take, as one part in this many; keeps small windows usable.
const QUOTED_THRESHOLD_SHARE: u64 = 8;
/// Largest share of the target. Where a small conversation is compacted by force the target is smaller than the
/// threshold, but what was quoted before must not melt away with each pass.
const QUOTED_TARGET_SHARE: u64 = 2;

/// Characters that the shortest quote takes; with less left, the remaining messages are only counted.
const QUOTE_CHARS_MIN: usize = 20;

/// First words of messages by which clients pass on a project's rules (Codex: AGENTS.md and user instructions).
const RULES_OPENINGS: &[&str] = &["# AGENTS.md instructions", "<user_instructions>", "<INSTRUCTIONS>"];

/// Tells whether a message passes on the project's rules.
pub fn is_rules(message: &Message) -> bool {
    message.flags.has(Flags::INJECTED)
        && message
            .parts
            .iter()
            .any(|part| RULES_OPENINGS.iter().any(|opening| part.text.trim_start().starts_with(opening)))
}

/// Returns the position of the newest message that a person wrote.
pub fn newest_user(messages: &[Arc<Message>]) -> Option<usize> {
    messages.iter().rposition(|message| message.is_real_user())
}

/// Puts a block that quotes the user messages which are not in the draft, newest first, after the last summary.
///
/// A message that a summary quotes whole is not quoted again. Returns how many could not be quoted within the budget.
pub fn quote(
    session: &Session,
    draft: &mut Draft,
    goal: &crate::ladder::Goal,
    scribe: &dyn Scribe,
) -> Result<usize, String> {
    draft.entries.retain(|entry| entry.origin != Origin::Written(Written::Words));
    let present: HashSet<_> = draft
        .entries
        .iter()
        .filter(|entry| entry.origin.source().is_some())
        .filter_map(|entry| entry.origin.source().and_then(|at| session.view.get(at)))
        .map(|message| message.id)
        .collect();
    let summaries: Vec<String> = draft
        .entries
        .iter()
        .filter(|entry| entry.message.flags.has(Flags::SUMMARY))
        .map(|entry| entry.message.text())
        .collect();

    let tokens_max = (goal.threshold_tokens / QUOTED_THRESHOLD_SHARE).min(goal.target_tokens / QUOTED_TARGET_SHARE);
    let mut chars_left = QUOTED_CHARS_MAX;
    let mut tokens_left = tokens_max;
    let (mut quoted, mut left_out) = (0usize, 0usize);
    let mut block = String::new();
    let missing =
        session.transcript.iter().rev().filter(|message| message.is_real_user() && !present.contains(&message.id));
    for message in missing {
        let text = message.text();
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        // Searching every summary for every long message would be quadratic; a whole quote of a long one is rare.
        if text.len() <= QUOTED_MESSAGE_CHARS_MAX && summaries.iter().any(|summary| summary.contains(text)) {
            continue;
        }
        if chars_left < QUOTE_CHARS_MIN {
            left_out += 1;
            continue;
        }
        let quote = clip(text, QUOTED_MESSAGE_CHARS_MAX);
        let line = format!("- message {}:\n> {}\n", message.id.0, quote.replace('\n', "\n> "));
        let cost = scribe.count(&line);
        if line.len() > chars_left || cost > tokens_left {
            left_out += 1;
            continue;
        }
        chars_left -= line.len();
        tokens_left -= cost;
        block.push_str(&line);
        quoted += 1;
    }
    // What an earlier run quoted comes after, message by message: its originals are not in this session.
    let is_live = |carried: &str| summaries.iter().any(|summary| summary.contains(carried));
    for quote in session.carried_words.as_deref().filter(|carried| !is_live(carried)).map(quotes).unwrap_or_default() {
        let cost = scribe.count(quote);
        if quote.len() > chars_left || cost > tokens_left {
            left_out += 1;
            continue;
        }
        chars_left -= quote.len();
        tokens_left -= cost;
        block.push_str(quote);
        quoted += 1;
    }
    if block.is_empty() {
        return Ok(left_out);
    }
    let mut message = scribe.text(Role::User, &frame::words(quoted, left_out, &block))?;
    message.flags = Flags::SYNTHETIC;
    let after_summaries =
        draft.entries.iter().rposition(|entry| entry.message.flags.has(Flags::SUMMARY)).map(|at| at + 1);
    let head = draft.entries.iter().take_while(|entry| is_leading(&entry.message)).count();
    let at = after_summaries.unwrap_or(head).min(draft.entries.len());
    draft.entries.insert(at, Entry { origin: Origin::Written(Written::Words), message: Arc::new(message) });
    Ok(left_out)
}

/// Splits a block of quoted messages into the quotes, each with its first line and its line end.
fn quotes(block: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = block.match_indices("\n- message ").map(|(at, _)| at + 1).collect();
    if !block.is_empty() {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([block.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| block.get(*start..end)).collect()
}

fn is_leading(message: &Message) -> bool {
    matches!(message.role, Role::System | Role::Developer)
}

/// Cuts a text in the middle so that head and tail remain, at character borders.
pub fn clip(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    // Three quarters from the start, as Hermes cuts: what a message asks stands mostly at its beginning.
    let head = floor_char(text, bytes_max / 4 * 3);
    let tail = ceil_char(text, text.len() - bytes_max / 4);
    let (Some(start), Some(end)) = (text.get(..head), text.get(tail..)) else { return String::new() };
    format!("{start} […{} characters left out…] {end}", text.len() - start.len() - end.len())
}

fn floor_char(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while at > 0 && !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_char(text: &str, mut at: usize) -> usize {
    while at < text.len() && !text.is_char_boundary(at) {
        at += 1;
    }
    at.min(text.len())
}
