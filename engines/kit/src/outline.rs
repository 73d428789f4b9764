//! The summary that needs no model: quotes and lists taken from the conversation itself.
//!
//! It has the headings of the compressor's template, so either can continue the other. Requests are quoted whatever
//! their language; actions, faults, files and identifiers come from tool calls and results; decisions and plans are
//! sentences of the model that carry the customary words. It keeps to its budget and is never longer than what it
//! stands for. The same messages give the same text.

mod gather;
mod select;
mod words;

use crate::text::fit;
use engine_api::Conversation;
use std::fmt::Write;

/// The headings of a summary in their order; the compressor's template has the same.
pub const HEADINGS: [&str; 13] = [
    "Historical Task Snapshot",
    "Goal",
    "Constraints & Preferences",
    "Completed Actions",
    "Active State",
    "Historical In-Progress State",
    "Blocked",
    "Key Decisions",
    "Resolved Questions",
    "Historical Pending User Asks",
    "Relevant Files",
    "Historical Remaining Work",
    "Critical Context",
];

/// Below this a summary with headings would be headings only.
const SECTIONS_TOKENS_MIN: u64 = 60;
/// Times that a text over its budget is made again, smaller: counts of lines do not quite add up to the whole's.
const TRIES_MAX: usize = 4;

/// What an outline is made for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// What to dwell on; empty for nothing in particular.
    pub focus: &'a str,
    /// The summary that this one continues, if it is not among the positions.
    pub previous: Option<&'a str>,
}

/// Returns the summary of the messages at these positions, in at most `budget_tokens` as `count` counts them.
///
/// It is shorter than the messages it stands for, and empty only where not even a few words would be.
pub fn outline(
    conversation: &Conversation<'_>,
    positions: impl IntoIterator<Item = usize>,
    budget_tokens: u64,
    count: &dyn Fn(&str) -> u64,
    options: &Options<'_>,
) -> String {
    let mut positions: Vec<usize> = positions.into_iter().filter(|&position| position < conversation.len()).collect();
    positions.sort_unstable();
    positions.dedup();
    let source_tokens: u64 =
        positions.iter().filter_map(|&position| conversation.get(position)).map(|message| message.tokens()).sum();
    let previous_tokens = options.previous.map_or(0, count);
    let budget = budget_tokens.min(source_tokens.saturating_add(previous_tokens).saturating_sub(1));
    let note = format!("Outline of {} messages, made without a model: quotes and lists.", positions.len());
    if budget < SECTIONS_TOKENS_MIN {
        return fit(&note, budget, count);
    }

    let gathered = gather::gather(conversation, &positions, options);
    let mut room = budget;
    for _ in 0..TRIES_MAX {
        let sections = select::select(&gathered, room.saturating_sub(count(&note)), count);
        let text = written(&note, &sections);
        let tokens = count(&text);
        if tokens <= budget {
            return text;
        }
        room = room.saturating_sub(tokens - budget).saturating_sub(room / 20 + 1);
    }
    fit(&written(&note, &select::select(&gathered, room, count)), budget, count)
}

fn written(note: &str, sections: &[Vec<String>]) -> String {
    let mut out = note.to_string();
    for (heading, lines) in HEADINGS.iter().zip(sections).filter(|(_, lines)| !lines.is_empty()) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n\n## {heading}");
        for line in lines {
            let _ = write!(out, "\n- {line}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
