//! The third phase: one summary of everything that does not stay, by a model or by the outline.

use crate::settings::{Settings, TailMode};
use engine_api::{CompletionRequest, CompressRequest, Conversation, HostServices, json};
use engine_kit::anchors::anchors;
use engine_kit::outline::{Options, outline};
use engine_kit::render::{Limits, render};
use engine_kit::text::{fit, one_line, prefix};
use std::fmt::Write;

const PROMPT: &str = include_str!("../prompts/summary.md");
/// What the task snapshot quotes; Hermes' figure, in characters.
const SNAPSHOT_CHARS: usize = 1_400;
/// The newest requests shown to the model as what the work has come to; Hermes' figures, in characters.
const RECENT_REQUESTS: usize = 3;
const RECENT_REQUEST_CHARS: usize = 260;
/// Bytes of the index of identifiers; Hermes' figure for its lean tail, and less where the tail itself is long.
const LEAN_INDEX_BYTES: usize = 7_000;
const LEGACY_INDEX_BYTES: usize = 2_000;
const INDEX_HEADING: &str = "Anchor Index (exact)";
/// Share of the summarising model's window for the material. Its window is taken to be the conversation's.
const PROMPT_SHARE: (u64, u64) = (7, 10);
/// Bytes a token has at least in most texts; with fewer the prompt would be too long for its model.
const BYTES_PER_TOKEN: u64 = 3;
/// Material where the window is not known.
const WINDOW_TOKENS: u64 = 128_000;
/// With less room a model's text would be cut before it said anything.
const WRITTEN_TOKENS_MIN: u64 = 100;
/// An earlier summary longer than this is cut: it was bounded when it was made.
const PREVIOUS_BYTES_MAX: usize = 120_000;

/// What a summary is made of, and how long it may be.
pub(crate) struct Source<'a> {
    pub(crate) conversation: Conversation<'a>,
    /// The messages it will stand for, ascending.
    pub(crate) positions: Vec<usize>,
    /// Their tokens.
    pub(crate) tokens: u64,
    /// Tokens that it should have.
    pub(crate) wanted_tokens: u64,
    /// Tokens that it may have, sections and index together.
    pub(crate) tokens_max: u64,
}

/// A summary and how it came about.
pub(crate) struct Summary {
    pub(crate) text: String,
    pub(crate) completions: u32,
    /// Why no model wrote it; empty if one did.
    pub(crate) fallback: String,
    pub(crate) notes: Vec<String>,
}

/// Writes the summary.
pub(crate) fn summarise(
    source: &Source<'_>,
    settings: &Settings,
    request: &CompressRequest,
    services: &dyn HostServices,
) -> Summary {
    let count = |text: &str| services.count_tokens(text);
    let mut summary = Summary { text: String::new(), completions: 0, fallback: String::new(), notes: Vec::new() };
    match ask(source, request, services, &mut summary) {
        Ok(text) => summary.text = with_index(text, source, settings, &count),
        Err(reason) => summary.fallback = reason,
    }
    if summary.text.is_empty() {
        // Identifiers are in the outline itself, so it may have the room of the index too.
        let tokens = source.wanted_tokens.saturating_mul(2).min(source.tokens_max);
        let options = Options { focus: &request.focus_topic, previous: None };
        summary.text = outline(&source.conversation, source.positions.iter().copied(), tokens, &count, &options);
    }
    summary
}

/// Asks a model; the error says why there is no text of one.
fn ask(
    source: &Source<'_>,
    request: &CompressRequest,
    services: &dyn HostServices,
    summary: &mut Summary,
) -> Result<String, String> {
    if request.completions_max == 0 {
        return Err("no completion is allowed for this call".to_string());
    }
    if let Err(error) = engine_api::check_cancelled(services) {
        return Err(error.message);
    }
    if source.tokens_max < WRITTEN_TOKENS_MIN {
        return Err("the target leaves too little room for a written summary".to_string());
    }
    let mut completion = CompletionRequest::new("summary", prompt(source, request, services.now_unix_ms()));
    completion.tokens_hint = source.wanted_tokens;
    summary.completions = 1;
    let answer = services.complete(&completion).map_err(|error| format!("the summariser failed: {}", error.message))?;
    let text = without_reasoning(&answer.text);
    if text.is_empty() {
        return Err("the summariser gave an empty text".to_string());
    }
    let text = with_snapshot(text, source);
    let tokens = services.count_tokens(&text);
    if tokens >= source.tokens {
        return Err(format!("the summary of {tokens} tokens was no shorter than its source of {}", source.tokens));
    }
    if answer.finish_reason == "length" {
        summary.notes.push("the summariser was cut off at its length limit".to_string());
    }
    if tokens > source.tokens_max {
        summary.notes.push(format!("the summary was cut from {tokens} to {} tokens", source.tokens_max));
        return Ok(fit(&text, source.tokens_max, &|text| services.count_tokens(text)));
    }
    Ok(text)
}

fn prompt(source: &Source<'_>, request: &CompressRequest, now_unix_ms: u64) -> String {
    let conversation = &source.conversation;
    let mut out = PROMPT.replace("{today}", &date(now_unix_ms)).replace("{budget}", &source.wanted_tokens.to_string());
    let is_summary = |position: usize| {
        conversation.get(position).is_some_and(|message| message.is_summary() && !message.is_real_user())
    };
    let (previous, new): (Vec<usize>, Vec<usize>) =
        source.positions.iter().partition(|position| is_summary(**position));
    // Writing to a string cannot fail.
    if !previous.is_empty() {
        out.push_str(
            "\nPREVIOUS SUMMARY: it stands for what came before the material. Write one summary of both: keep what still \
             matters of it word for word, move what has been done since to where it belongs, and drop what is superseded.\n",
        );
        let texts = previous.iter().filter_map(|&position| conversation.get(position)).map(|message| message.text());
        let text = texts.collect::<Vec<_>>().join("\n\n");
        let _ = writeln!(out, "{}", prefix(&text, PREVIOUS_BYTES_MAX));
        out.push_str("\nNEW TURNS TO INCORPORATE:\n");
    } else {
        out.push_str("\nTURNS TO SUMMARIZE:\n");
    }
    let window = if request.model.context_length > 0 { request.model.context_length } else { WINDOW_TOKENS };
    let total = (window / PROMPT_SHARE.1 * PROMPT_SHARE.0).saturating_mul(BYTES_PER_TOKEN);
    let total_bytes = usize::try_from(total).unwrap_or(usize::MAX).min(Limits::default().total_bytes);
    out.push_str(&render(conversation, &new, &Limits { total_bytes, ..Limits::default() }));

    let recent: Vec<String> = conversation
        .iter()
        .rev()
        .filter(|message| message.is_real_user())
        .take(RECENT_REQUESTS)
        .map(|message| format!("- {}", one_line(&message.text(), RECENT_REQUEST_CHARS)))
        .collect();
    if !recent.is_empty() {
        let _ = write!(
            out,
            "\n\nTHE PERSON'S NEWEST REQUESTS, newest first, to tell what will matter:\n{}",
            recent.join("\n")
        );
    }
    if !request.focus_topic.trim().is_empty() {
        let topic = one_line(&request.focus_topic, 400);
        let _ = write!(out, "\n\nFOCUS TOPIC: \"{topic}\"\nGive it 60 to 70 % of the summary.");
    }
    if !request.memory_context.trim().is_empty() {
        let quoted = json::Value::from(request.memory_context.as_str()).to_string();
        let quoted = quoted.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = write!(out, "\n\n<memory-provider-context>\n{quoted}\n</memory-provider-context>");
    }
    out
}

/// Returns the text without a model's visible reasoning, trimmed.
fn without_reasoning(text: &str) -> String {
    let mut rest = text;
    let mut out = String::new();
    while let Some((before, tag)) = ["think", "thinking", "analysis", "reasoning"]
        .into_iter()
        .filter_map(|tag| rest.find(&format!("<{tag}>")).map(|at| (at, tag)))
        .min()
    {
        out.push_str(rest.get(..before).unwrap_or_default());
        let inside = rest.get(before..).unwrap_or_default();
        let end = format!("</{tag}>");
        // Reasoning without an end is all there is.
        rest = inside.find(&end).and_then(|at| inside.get(at + end.len()..)).unwrap_or_default();
    }
    out.push_str(rest);
    out.trim().to_string()
}

/// Puts the newest request that the summary stands for in place of what the model wrote of it: the one thing that must
/// be exact.
fn with_snapshot(text: String, source: &Source<'_>) -> String {
    let heading = format!("## {}", engine_kit::outline::HEADINGS[0]);
    let newest = source.positions.iter().rev().filter_map(|&position| source.conversation.get(position));
    let Some(newest) = newest.into_iter().find(|message| message.is_real_user()) else { return text };
    let quoted = one_line(&newest.text(), SNAPSHOT_CHARS);
    let section = format!("{heading}\nUser asked: \"{quoted}\"");
    let Some(at) = text.find(&heading) else { return format!("{section}\n\n{text}") };
    let (before, from) = text.split_at(at);
    let body = from.get(heading.len()..).unwrap_or_default();
    let after = body.find("\n## ").and_then(|at| body.get(at..)).unwrap_or_default();
    format!("{before}{section}\n{after}").trim_end().to_string()
}

/// Appends the identifiers, as far as there is room. The person's words need no place here: the host quotes them.
fn with_index(mut text: String, source: &Source<'_>, settings: &Settings, count: &dyn Fn(&str) -> u64) -> String {
    let bytes_max = match settings.tail_mode {
        TailMode::Lean => LEAN_INDEX_BYTES,
        TailMode::Legacy => LEGACY_INDEX_BYTES,
    };
    // No longer than the sections, so that a short middle gets a short index.
    let limit = source.tokens_max.min(source.tokens / 2);
    let room = limit.saturating_sub(count(&text)).min(source.wanted_tokens);
    let mut bytes = bytes_max.min(usize::try_from(room.saturating_mul(4)).unwrap_or(usize::MAX));
    let found = anchors(&source.conversation, &source.positions);
    // Identifiers take more tokens than prose of the same length.
    for _ in 0..3 {
        let index = found.render(bytes);
        let section = format!("\n\n## {INDEX_HEADING}\n{index}");
        if index.is_empty() {
            break;
        }
        if count(&section) <= room {
            text.push_str(&section);
            break;
        }
        bytes /= 2;
    }
    text
}

/// Returns a day as `2026-03-21`: days since 1970 to a date of the Gregorian calendar, in whole cycles of 400 years.
fn date(unix_ms: u64) -> String {
    let days = unix_ms / 86_400_000 + 719_468;
    let cycle = days / 146_097;
    let day_of_cycle = days % 146_097;
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_cycle + cycle * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (ms, want) in [(0, "1970-01-01"), (1_700_000_000_000, "2023-11-14"), (951_782_400_000, "2000-02-29")] {
            assert_eq!(date(ms), want);
        }
        assert!(date(u64::MAX).len() > 10, "a clock out of order gives a date out of order, no panic");
    }

    #[test]
    fn visible_reasoning_is_taken_out() {
        for (text, want) in [
            ("<think>hm</think>\n## Goal\nx", "## Goal\nx"),
            ("a <analysis>b</analysis> c<think>d", "a  c"),
            ("plain", "plain"),
            ("<think>only", ""),
        ] {
            assert_eq!(without_reasoning(text), want);
        }
    }

    #[test]
    fn the_prompt_has_the_outlines_headings() {
        let headings: Vec<&str> = PROMPT.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, engine_kit::outline::HEADINGS);
    }
}
