//! Converts a whole conversation from one dialect into another.
//!
//! Three steps: the messages are lifted into turns that know no dialect, calls and results are paired anew with ids
//! that the target accepts, and the turns are written as the target wants them.

mod body;
mod lift;
mod pair;
mod render;

use engine_api::Dialect;

use crate::Document;

/// A converted conversation and what was lost on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The conversation in the target dialect.
    pub document: Document,
    /// One sentence for each kind of loss or addition, with its count.
    pub notes: Vec<String>,
}

/// Counts what does not reach the target dialect, or was added for it.
#[derive(Debug, Default)]
struct Losses {
    reasoning: usize,
    opaque: usize,
    pictures: usize,
    failures: usize,
    repeated_answers: usize,
    unknown_roles: usize,
    changed_ids: usize,
    wrapped_arguments: usize,
    added_openings: usize,
    tools: usize,
    members: Vec<String>,
}

impl Losses {
    fn notes(&self) -> Vec<String> {
        let counted = [
            (self.reasoning, "reasoning parts left out: they are signed for their own provider"),
            (self.opaque, "parts left out that the target dialect does not know"),
            (self.pictures, "pictures replaced by the text [image]"),
            (self.failures, "failed tool results lost their error mark"),
            (self.repeated_answers, "repeated answers joined with the first answer to the same call"),
            (self.unknown_roles, "messages of an unknown role became user messages"),
            (self.changed_ids, "call ids changed: the target refuses them or wants each one once"),
            (self.wrapped_arguments, "tool arguments wrapped: the target wants a JSON object"),
            (self.added_openings, "user message added: the target does not begin with the assistant"),
            (self.tools, "tool definitions left out that the target dialect does not know"),
        ];
        let mut notes: Vec<String> = counted
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if !self.members.is_empty() {
            notes.push(format!("{} members left out of the body: {}", self.members.len(), self.members.join(", ")));
        }
        notes
    }
}

/// Converts a whole conversation between dialects.
///
/// Within a dialect nothing changes, not a byte. Across dialects the meaning is kept: system texts, texts, calls and
/// their results (paired, and placed where the target wants them), pictures where both have them, function tools, and
/// the settings that both know. Reasoning and opaque parts stay behind; the notes count them. Calls that have no
/// result and results that have no call stay as they are: their repair is the host's business.
pub fn convert(document: &Document, to: Dialect) -> Converted {
    if document.dialect() == to {
        return Converted { document: document.clone(), notes: Vec::new() };
    }
    let mut losses = Losses::default();
    let turns = lift::turns(document, &mut losses);
    let turns = pair::pair(turns, to, &mut losses);
    let mut members = body::members(document, to, &mut losses);
    let messages = match to {
        Dialect::Anthropic => {
            let (system, messages) = render::anthropic(turns, &mut losses);
            members.extend(system.map(|raw| ("system".to_owned(), raw)));
            messages
        }
        Dialect::Responses => {
            let (instructions, items) = render::responses(turns, document.dialect(), &mut losses);
            members.extend(instructions.map(|raw| ("instructions".to_owned(), raw)));
            items
        }
        _ => render::openai(turns, &mut losses),
    };
    let mut messages: Vec<_> = messages.iter().map(|raw| crate::split::message(to, raw, raw)).collect();
    crate::number(&mut messages);
    Converted { document: Document::from_parts(to, members, messages), notes: losses.notes() }
}

#[cfg(test)]
mod tests;
