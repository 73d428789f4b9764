//! What a model is asked: the instruction, and the material unless the model has it before its eyes.

use crate::index;
use crate::settings::TailMode;
use crate::summary::Source;
use engine_api::{CompletionModel, CompressRequest, Conversation, json};
use engine_kit::prune::{RESULT_BYTES_MIN, one_line_result};
use engine_kit::render::{Limits, render_with};
use engine_kit::text::{one_line, prefix};
use std::fmt::Write;

const TEMPLATE: &str = include_str!("../prompts/summary.md");
const LOG_TEMPLATE: &str = include_str!("../prompts/log.md");
/// The newest requests shown as what the work has come to, where no topic is given; Hermes' figures, in characters.
const RECENT_REQUESTS: usize = 3;
const RECENT_REQUEST_CHARS: usize = 260;
const RECENT_CHARS: usize = 700;
const FOCUS_CHARS: usize = 400;
/// Share of the summarising model's window for the prompt; the rest is for its answer and what it thinks before it.
const PROMPT_SHARE: (u64, u64) = (7, 10);
/// Material where no window is known.
const WINDOW_TOKENS: u64 = 128_000;
/// What the instruction comes to, without what it quotes.
const INSTRUCTION_TOKENS: u64 = 1_500;
/// Bytes of a token: what most texts have, and the most that is believed of a stretch.
const BYTES_PER_TOKEN: (u64, u64) = (3, 4);
/// More material makes a summary of fixed length no better and costs by the token: ten times the longest summary.
const MATERIAL_TOKENS_MAX: u64 = 150_000;
/// A stretch is cut differently than it was counted, so no more than this of its window is filled by estimate.
const ESTIMATE_SHARE: (u64, u64) = (9, 10);
/// Room in the window for an answer of the wanted length that turns out longer.
const ANSWER_SHARE: (u64, u64) = (3, 2);
/// Times that a prompt over its window is made again, with less material.
const TRIES_MAX: usize = 3;
/// An earlier summary longer than this is cut: it was bounded when it was made.
const PREVIOUS_BYTES_MAX: usize = 120_000;
/// Beginning of the message up to which a model is to summarise: enough to find it, more where others begin alike.
const BEGINNING_CHARS: [usize; 2] = [80, 400];

/// Writes the prompt for the model that the host would ask; the error says why none fits.
pub(crate) fn prompt(
    source: &Source<'_>,
    request: &CompressRequest,
    now_unix_ms: u64,
    count: &dyn Fn(&str) -> u64,
) -> Result<String, String> {
    if request.completion_model == Some(CompletionModel::MainOnPrefix) {
        let mut out = instruction(source, now_unix_ms);
        out.push_str(&where_it_ends(source));
        out.push_str(&wishes(&source.conversation, request));
        return Ok(out);
    }
    let window = [request.completion_window, request.model.context_length].into_iter().find(|window| *window > 0);
    let window = window.unwrap_or(WINDOW_TOKENS);
    let room = window / PROMPT_SHARE.1 * PROMPT_SHARE.0;
    let mut bytes = material_bytes(source, room);
    for _ in 0..TRIES_MAX {
        let (out, estimate) = with_material(source, request, now_unix_ms, bytes);
        // No token is shorter than a byte, and the parts' own counts tell within a quarter what they come to; so most
        // prompts need not be counted.
        let answer = source.wanted.written().saturating_mul(ANSWER_SHARE.0) / ANSWER_SHARE.1;
        let is_sure = out.len() as u64 <= room || estimate / 4 * 5 <= window.saturating_sub(answer);
        let tokens = if is_sure { 0 } else { count(&out) };
        if tokens <= room {
            return Ok(out);
        }
        let fitting = u128::from(room) * bytes as u128 / u128::from(tokens);
        bytes = usize::try_from(fitting).unwrap_or(bytes) / 10 * 9;
    }
    Err(format!("the summariser's window of {window} tokens is too small for the material"))
}

/// Returns the prompt and its tokens by estimate.
fn with_material(source: &Source<'_>, request: &CompressRequest, now_unix_ms: u64, bytes: usize) -> (String, u64) {
    let mut out = instruction(source, now_unix_ms);
    out.push_str(&wishes(&source.conversation, request));
    let conversation = &source.conversation;
    let is_summary = |position: usize| {
        conversation.get(position).is_some_and(|message| message.is_summary() && !message.is_real_user())
    };
    let (previous, new): (Vec<usize>, Vec<usize>) =
        source.positions.iter().partition(|position| is_summary(**position));
    let mut left = bytes;
    if previous.is_empty() {
        out.push_str("\nTURNS TO SUMMARIZE:\n");
    } else {
        let texts = previous.iter().filter_map(|&position| conversation.get(position)).map(|message| message.text());
        let texts: Vec<String> = texts.map(|text| index::without(&text).into_owned()).collect();
        let text = texts.join("\n\n");
        let text = prefix(&text, PREVIOUS_BYTES_MAX.min(bytes / 2));
        left -= text.len();
        let _ = write!(
            out,
            "\nPREVIOUS SUMMARY: it stands for what came before the new turns. Write one summary of both: keep what still \
             matters of it word for word, move what has been done since to where it belongs, and drop what is superseded.\n\
             {text}\n\nNEW TURNS TO INCORPORATE:\n"
        );
    }
    let limits = Limits { total_bytes: left.min(Limits::default().total_bytes), ..Limits::default() };
    let estimate = out.len() as u64 / BYTES_PER_TOKEN.0;
    let rendered = render_with(conversation, &new, &limits, &|position, index| line_of(source, position, index));
    out.push_str(&rendered.text);
    (out, estimate + rendered.tokens_estimate)
}

/// With a legacy tail a model reads old results as lines, as Hermes' does; a lean one's session log is made of the
/// results themselves.
fn line_of(source: &Source<'_>, position: usize, index: usize) -> Option<String> {
    if source.tail_mode == TailMode::Lean || position >= source.old_end {
        return None;
    }
    let part = source.conversation.get(position)?.part(index)?;
    (part.text().len() > RESULT_BYTES_MIN).then(|| one_line_result(source.table.call_of(position, index), part))
}

/// Returns the bytes of material that a room of so many tokens holds, by what the host counted of this stretch.
fn material_bytes(source: &Source<'_>, room: u64) -> usize {
    let messages = source.positions.iter().filter_map(|&position| source.conversation.get(position));
    let bytes: u64 = messages.flat_map(|message| message.parts()).map(|part| part.text().len() as u64).sum();
    let tokens = room.saturating_sub(INSTRUCTION_TOKENS) / ESTIMATE_SHARE.1 * ESTIMATE_SHARE.0;
    let tokens = tokens.min(MATERIAL_TOKENS_MAX);
    let known = bytes.min(source.tokens.saturating_mul(BYTES_PER_TOKEN.1)).max(source.tokens);
    let fitting = if source.tokens == 0 {
        u128::from(tokens) * u128::from(BYTES_PER_TOKEN.0)
    } else {
        u128::from(tokens) * u128::from(known) / u128::from(source.tokens)
    };
    usize::try_from(fitting).unwrap_or(usize::MAX)
}

fn instruction(source: &Source<'_>, now_unix_ms: u64) -> String {
    let today = crate::date::date(now_unix_ms);
    let wanted = source.wanted;
    let mut out = TEMPLATE.replace("{today}", &today).replace("{budget}", &wanted.sections.to_string());
    if wanted.log > 0 {
        out.push_str(&LOG_TEMPLATE.replace("{log}", &wanted.log.to_string()));
    }
    out
}

/// Tells a model that has the conversation before its eyes which part of it to summarise.
fn where_it_ends(source: &Source<'_>) -> String {
    let conversation = &source.conversation;
    let end = source.positions.last().map_or(0, |last| last + 1);
    let mut out = String::from("\nTHE MATERIAL is the conversation above.");
    let has_previous = source.positions.iter().filter_map(|&position| conversation.get(position));
    let has_previous = has_previous.into_iter().any(|message| message.is_summary());
    match beginning(conversation, end, BEGINNING_CHARS[0]) {
        Some(short) => {
            let is_first = (end + 1..conversation.len())
                .all(|position| beginning(conversation, position, BEGINNING_CHARS[0]).as_ref() != Some(&short));
            let chars = if is_first { BEGINNING_CHARS[0] } else { BEGINNING_CHARS[1] };
            let shown = beginning(conversation, end, chars).unwrap_or(short);
            let newest = conversation.len() - end;
            // Quoted as JSON, so that a quotation mark in it does not end it.
            let _ = write!(
                out,
                " Summarise everything before the message that begins with {}; that message and what follows, the newest \
                 {newest} messages, stay as they are, so leave them out.",
                json::Value::from(shown)
            );
        }
        None => out.push_str(" Summarise all of it."),
    }
    out.push_str(
        " The system's instructions stay too. Do not go on with the conversation and do not call tools: answer with the \
         summary alone.\n",
    );
    if has_previous {
        out.push_str(
            "A summary of what came before stands in it already. Write one summary of both: keep what still matters of it \
             word for word, move what has been done since to where it belongs, and drop what is superseded.\n",
        );
    }
    out
}

/// Returns how a message begins: its text, or its first call.
fn beginning(conversation: &Conversation<'_>, position: usize, chars: usize) -> Option<String> {
    let message = conversation.get(position)?;
    let part = message.parts().find(|part| !part.text().trim().is_empty() || !part.tool_name().is_empty())?;
    let text = match part.tool_name() {
        "" => one_line(prefix(part.text(), chars * 8), chars),
        tool => one_line(&format!("{tool} {}", prefix(part.text(), chars * 8)), chars),
    };
    Some(text).filter(|text| !text.is_empty())
}

/// What to dwell on, and what a memory provider knows.
fn wishes(conversation: &Conversation<'_>, request: &CompressRequest) -> String {
    let mut out = String::new();
    if request.focus_topic.trim().is_empty() {
        let recent = recent_focus(conversation);
        if !recent.is_empty() {
            let _ = write!(out, "\nRECENT USER FOCUS, to tell what will matter:\n{recent}\n");
        }
    } else {
        let topic = one_line(&request.focus_topic, FOCUS_CHARS);
        let _ = write!(out, "\nFOCUS TOPIC: \"{topic}\"\nGive it 60 to 70 % of the summary.\n");
    }
    if !request.memory_context.trim().is_empty() {
        let quoted = json::Value::from(request.memory_context.trim()).to_string();
        // As JSON writes them by number, so that nothing in it reads as the end of the block.
        let quoted = quoted.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        let _ = write!(out, "\n<memory-provider-context>\n{quoted}\n</memory-provider-context>\n");
    }
    out
}

/// Returns the newest real requests, oldest of them first.
pub(crate) fn recent_focus(conversation: &Conversation<'_>) -> String {
    let requests = conversation.iter().rev().filter(|message| message.is_real_user()).take(RECENT_REQUESTS);
    let mut left = RECENT_CHARS;
    let mut lines = Vec::new();
    for message in requests {
        let line = one_line(&message.text(), RECENT_REQUEST_CHARS.min(left));
        left -= line.chars().count().min(left);
        if !line.is_empty() && line != "…" {
            lines.push(format!("- {line}"));
        }
    }
    lines.reverse();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_the_outlines_headings() {
        let headings: Vec<&str> = TEMPLATE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, engine_kit::outline::HEADINGS);
        assert!(LOG_TEMPLATE.starts_with(
            "## Detailed Session Log
"
        ));
    }
}
