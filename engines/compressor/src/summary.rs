//! The third phase: one summary of everything that does not stay, by a model or by the outline.

use crate::budget::SummaryTokens;
use crate::index;
use crate::prompt::prompt;
use crate::settings::TailMode;
use engine_api::{CompletionRequest, CompressRequest, Conversation, HostServices};
use engine_kit::outline::{HEADINGS, Options, outline};
use engine_kit::prune::CallTable;
use engine_kit::text::{fit, one_line, without_reasoning};

/// What the task snapshot quotes; Hermes' figure, in characters.
const SNAPSHOT_CHARS: usize = 1_400;
/// With less room a model's text would be cut before it said anything.
const WRITTEN_TOKENS_MIN: u64 = 100;
/// Characters of a completion that are looked at, for each token it may have: more is not a summary.
const ANSWER_BYTES_PER_TOKEN: u64 = 64;

/// What a summary is made of, and how long it may be.
pub(crate) struct Source<'a> {
    pub(crate) conversation: Conversation<'a>,
    /// The messages it will stand for, ascending.
    pub(crate) positions: Vec<usize>,
    /// Their tokens.
    pub(crate) tokens: u64,
    /// The pieces it should have, none larger than there is room for.
    pub(crate) wanted: SummaryTokens,
    /// Tokens that it may have, all pieces together.
    pub(crate) tokens_max: u64,
    pub(crate) tail_mode: TailMode,
    /// Results before this position are old.
    pub(crate) old_end: usize,
    pub(crate) table: &'a CallTable<'a>,
}

/// A summary and how it came about.
pub(crate) struct Summary {
    pub(crate) text: String,
    /// Its tokens, each piece counted once.
    pub(crate) tokens: u64,
    pub(crate) completions: u32,
    /// Why no model wrote it; empty if one did.
    pub(crate) fallback: String,
    pub(crate) notes: Vec<String>,
}

/// Writes the summary.
pub(crate) fn summarise(source: &Source<'_>, request: &CompressRequest, services: &dyn HostServices) -> Summary {
    let count = |text: &str| services.count_tokens(text);
    let mut summary =
        Summary { text: String::new(), tokens: 0, completions: 0, fallback: String::new(), notes: Vec::new() };
    match ask(source, request, services, &mut summary) {
        Ok((text, tokens)) => {
            summary.text = text;
            summary.tokens = index::add(&mut summary.text, tokens, source, &count);
        }
        Err(reason) => {
            summary.fallback = reason;
            // Identifiers are in the outline itself, so it may have the room of the index too.
            let tokens = source.wanted.written().saturating_add(source.wanted.index).min(source.tokens_max);
            let options = Options { focus: &request.focus_topic, previous: None };
            summary.text = outline(&source.conversation, source.positions.iter().copied(), tokens, &count, &options);
            summary.tokens = count(&summary.text);
        }
    }
    summary
}

/// Asks a model; returns its text and the tokens of it. The error says why there is none.
fn ask(
    source: &Source<'_>,
    request: &CompressRequest,
    services: &dyn HostServices,
    summary: &mut Summary,
) -> Result<(String, u64), String> {
    if request.completions_max == 0 {
        return Err("no completion is allowed for this call".to_string());
    }
    if let Err(error) = engine_api::check_cancelled(services) {
        return Err(error.message);
    }
    if source.tokens_max < WRITTEN_TOKENS_MIN {
        return Err("the target leaves too little room for a written summary".to_string());
    }
    let count = |text: &str| services.count_tokens(text);
    let mut completion = CompletionRequest::new("summary", prompt(source, request, services.now_unix_ms(), &count)?);
    completion.tokens_hint = source.wanted.written();
    completion.model = request.completion_model;
    summary.completions = 1;
    let answer = services.complete(&completion).map_err(|error| format!("the summariser failed: {}", error.message))?;
    let text = without_reasoning(&answer.text);
    let text = index::without(text.trim());
    let text = text.trim();
    if text.is_empty() {
        return Err("the summariser gave an empty text".to_string());
    }
    // Such a text need not be counted to be known as longer than what it stands for.
    if text.len() as u64 / ANSWER_BYTES_PER_TOKEN > source.tokens {
        return Err(format!("the summary of {} bytes was no shorter than its source", text.len()));
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
        return Ok((fit(&text, source.tokens_max, &count), source.tokens_max));
    }
    Ok((text, tokens))
}

/// Puts the newest request that the summary stands for in place of what the model wrote of it: the one thing that must
/// be exact.
fn with_snapshot(text: &str, source: &Source<'_>) -> String {
    let heading = format!("## {}", HEADINGS[0]);
    let mut newest = source.positions.iter().rev().filter_map(|&position| source.conversation.get(position));
    let Some(newest) = newest.find(|message| message.is_real_user()) else { return text.to_string() };
    let quoted = one_line(&newest.text(), SNAPSHOT_CHARS);
    let section = format!("{heading}\nUser asked: \"{quoted}\"");
    let Some(at) = text.find(&heading) else { return format!("{section}\n\n{text}") };
    let (before, from) = text.split_at(at);
    let body = from.get(heading.len()..).unwrap_or_default();
    let after = body.find("\n## ").and_then(|at| body.get(at..)).unwrap_or_default();
    format!("{before}{section}\n{after}").trim_end().to_string()
}
