//! What a model is asked: the instruction, and the material unless the model has it before its eyes.

use crate::choose::CUT_LEAD;
use crate::summary::{LEAD_IN, Source};
use engine_api::{CompletionModel, CompressRequest, json};
use engine_kit::render::{Limits, render};
use engine_kit::text::{one_line, prefix};
use std::fmt::Write;

const HANDOFF: &str = include_str!("../prompts/handoff.md");
const ORIGINAL: &str = include_str!("../prompts/original.md");
const UPDATE: &str = include_str!("../prompts/update.md");
/// How the program's own handoffs begin on the wire, up to their colon.
const PROGRAM_LEAD_IN: &str = "Another language model started to solve this problem";
/// Share of the summarising model's window for the prompt; the rest is for its answer and what it thinks before it.
const PROMPT_SHARE: (u64, u64) = (7, 10);
/// Material where no window is known.
const WINDOW_TOKENS: u64 = 128_000;
/// More material makes a handoff of bounded length no better and costs by the token.
const MATERIAL_TOKENS_MAX: u64 = 150_000;
/// Most texts have between three and four bytes a token; a prompt that is over its room is made again with less.
const BYTES_PER_TOKEN: u64 = 4;
const TRIES_MAX: usize = 4;
/// An earlier handoff longer than this is cut: it was bounded when it was made.
const PREVIOUS_BYTES_MAX: usize = 80_000;
/// The user's messages that stay are shown beside the material, so that the handoff is about what was asked: the first
/// and the newest of them, and of each so many characters.
const REQUESTS_MAX: usize = 12;
const REQUEST_CHARS: usize = 600;
const FOCUS_CHARS: usize = 400;
/// Enough of a message's beginning to find it by.
const BEGINNING_CHARS: usize = 120;

/// How a prompt is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Whether the model has the conversation before its eyes.
    pub(crate) is_on_prefix: bool,
    /// The material is divided by this: 1 at first.
    pub(crate) part: u64,
}

impl Manner {
    /// The first prompt of a request.
    pub(crate) fn first(request: &CompressRequest) -> Manner {
        Manner { is_on_prefix: request.completion_model == Some(CompletionModel::MainOnPrefix), part: 1 }
    }
}

/// Writes the prompt; the error says why none fits.
pub(crate) fn prompt(
    source: &Source<'_>,
    request: &CompressRequest,
    manner: Manner,
    count: &dyn Fn(&str) -> u64,
) -> Result<String, String> {
    let mut head = instruction(source);
    wishes(&mut head, request);
    if manner.part > 1 {
        let _ = write!(
            head,
            "\nAn earlier try gave no usable text. Answer with plain text only, short enough to end well within {} tokens.\n",
            source.wanted
        );
    }
    if manner.is_on_prefix {
        where_it_ends(&mut head, source);
        return Ok(head);
    }
    requests(&mut head, source);
    let window = [request.completion_window, request.model.context_length].into_iter().find(|window| *window > 0);
    let window = window.unwrap_or(WINDOW_TOKENS);
    let room = window / PROMPT_SHARE.1 * PROMPT_SHARE.0;
    let tokens = room.min(MATERIAL_TOKENS_MAX) / manner.part.max(1);
    let mut bytes = usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
    for _ in 0..TRIES_MAX {
        let mut out = head.clone();
        material(&mut out, source, bytes);
        // No token is shorter than a byte, so a prompt of few bytes need not be counted.
        let tokens = if out.len() as u64 <= room { 0 } else { count(&out) };
        if tokens <= room {
            return Ok(out);
        }
        let fitting = u128::from(room) * bytes.min(out.len()) as u128 / u128::from(tokens.max(1));
        bytes = usize::try_from(fitting).unwrap_or(bytes) / 10 * 9;
    }
    Err(format!("the summariser's window of {window} tokens is too small for the material"))
}

fn instruction(source: &Source<'_>) -> String {
    let template = match (source.settings.prompt.as_str(), source.settings.as_original) {
        ("", false) => HANDOFF,
        ("", true) => ORIGINAL,
        (own, _) => own,
    };
    let mut out = template.replace("{budget}", &source.wanted.to_string());
    if !out.ends_with('\n') {
        out.push('\n');
    }
    if source.has_previous() {
        out.push('\n');
        out.push_str(UPDATE);
    }
    out
}

/// What to dwell on, and what a memory provider knows.
fn wishes(out: &mut String, request: &CompressRequest) {
    if !request.focus_topic.trim().is_empty() {
        let topic = json::Value::from(one_line(&request.focus_topic, FOCUS_CHARS));
        let _ = write!(out, "\nDwell on this topic above all: {topic}\n");
    }
    if !request.memory_context.trim().is_empty() {
        let quoted = json::Value::from(request.memory_context.trim()).to_string();
        // As JSON writes them by number, so that nothing in it reads as the end of the block.
        let quoted = quoted.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        let _ = write!(out, "\n<memory-provider-context>\n{quoted}\n</memory-provider-context>\n");
    }
}

/// The user's messages that stay: they say what the handoff is for, and need no place in it.
fn requests(out: &mut String, source: &Source<'_>) {
    let is_covered = |position: usize| source.positions.binary_search(&position).is_ok();
    let kept: Vec<usize> = (0..source.conversation.len())
        .filter(|&position| {
            let message = source.conversation.get(position);
            message.is_some_and(|message| message.is_real_user()) && !is_covered(position)
        })
        .collect();
    let skipped = kept.len().saturating_sub(REQUESTS_MAX);
    let shown = kept.iter().enumerate().filter(|(at, _)| *at == 0 || *at > skipped || skipped == 0);
    let mut lines = String::new();
    for (_, &position) in shown {
        let text = source.conversation.get(position).map(|message| message.text()).unwrap_or_default();
        let text = one_line(prefix(&text, REQUEST_CHARS * 8), REQUEST_CHARS);
        if !text.is_empty() {
            let _ = writeln!(lines, "- {text}");
        }
    }
    if !lines.is_empty() {
        let _ = write!(out, "\nTHE USER'S MESSAGES, which stay word for word; do not repeat them:\n{lines}");
    }
}

/// Shows the earlier handoff and what has happened since.
fn material(out: &mut String, source: &Source<'_>, bytes: usize) {
    let conversation = &source.conversation;
    let is_summary = |position: &&usize| conversation.get(**position).is_some_and(|message| message.is_summary());
    let (previous, new): (Vec<usize>, Vec<usize>) = source.positions.iter().partition(is_summary);
    let mut left = bytes;
    if previous.is_empty() {
        out.push_str("\nTHE WORK SO FAR:\n");
    } else {
        let texts = previous.iter().filter_map(|&position| conversation.get(position)).map(|message| message.text());
        let texts: Vec<String> = texts.map(|text| without_frame(&text)).collect();
        let text = texts.join("\n\n");
        let text = prefix(&text, PREVIOUS_BYTES_MAX.min(bytes / 2));
        left = left.saturating_sub(text.len());
        let _ = write!(out, "\nTHE EARLIER HANDOFF:\n{text}\n\nTHE WORK SINCE:\n");
    }
    let limits = Limits { total_bytes: left.min(Limits::default().total_bytes), ..Limits::default() };
    out.push_str(&render(conversation, &new, &limits));
}

/// Takes off what stands around a handoff: the host's marks, our lead-in, the program's.
pub(crate) fn without_frame(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("[palimpsest:"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text.trim();
    let text = text.strip_prefix(LEAD_IN.trim()).unwrap_or(text).trim_start();
    let text = match text.strip_prefix(PROGRAM_LEAD_IN) {
        Some(rest) => rest.split_once(":\n").map_or(text, |(_, body)| body),
        None => text,
    };
    text.replace(CUT_LEAD, "").trim().to_string()
}

/// Tells a model that has the conversation before its eyes which part of it the handoff stands for.
fn where_it_ends(out: &mut String, source: &Source<'_>) {
    let conversation = &source.conversation;
    let end = source.positions.last().map_or(0, |last| last + 1);
    out.push_str("\nThe work is the conversation above; the user's messages and the instructions in it stay.");
    if let Some(beginning) = beginning(source, end) {
        let newest = conversation.len().saturating_sub(end);
        let _ = write!(
            out,
            " The newest {newest} messages stay too, from the one that begins with {} on, so leave them out.",
            // Quoted as JSON, so that a quotation mark in it does not end it.
            json::Value::from(beginning)
        );
    }
    out.push('\n');
}

/// Returns how a message begins: its text, or its first call.
fn beginning(source: &Source<'_>, position: usize) -> Option<String> {
    let message = source.conversation.get(position)?;
    let part = message.parts().find(|part| !part.text().trim().is_empty() || !part.tool_name().is_empty())?;
    let start = prefix(part.text(), BEGINNING_CHARS * 8);
    let text = match part.tool_name() {
        "" => one_line(start, BEGINNING_CHARS),
        tool => one_line(&format!("{tool} {start}"), BEGINNING_CHARS),
    };
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_earlier_handoffs_are_taken_off() {
        let ours = format!("[palimpsest: summary 3 of 9 earlier messages]\n{LEAD_IN}\n## Goal\nx\n[palimpsest: end]");
        assert_eq!(without_frame(&ours), "## Goal\nx");
        let theirs = format!("{PROGRAM_LEAD_IN} and produced a summary of it: here is the summary:\n## Goal\ny");
        assert_eq!(without_frame(&theirs), "## Goal\ny");
        assert_eq!(without_frame("plain"), "plain");
    }

    #[test]
    fn the_template_has_the_program_s_four_subjects() {
        for word in ["decisions", "constraints, preferences", "remains to be done", "data"] {
            assert!(ORIGINAL.contains(word), "{word}");
        }
        let headings: Vec<&str> = HANDOFF.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(
            headings,
            ["Goal", "Progress and decisions", "Constraints and preferences", "Remaining steps", "Critical data"]
        );
    }
}
