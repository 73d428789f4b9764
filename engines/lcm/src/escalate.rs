//! Writes the summaries: a model's text, its bullets, an outline, a hard cut. One of them always fits.

use crate::tree::Draft;
use engine_api::{CompletionRequest, Conversation, EngineError, HostServices, SummaryKind};
use engine_kit::anchors::{AnchorKind, Anchors, anchors};
use engine_kit::outline::{Options, outline};
use engine_kit::render::{Limits, render};
use engine_kit::text::{fit, one_line};
use std::cmp::Reverse;

const LEAF: &str = include_str!("../prompts/leaf.md");
const CONDENSED: &str = include_str!("../prompts/condensed.md");
const PROSE: &str = "Full sentences where they help, short paragraphs, no headings.";
const BULLETS: &str = "Bullet points only, one fact each, nothing twice.";
/// The last resort: the beginning of the messages, cut here. hermes-lcm and the paper have the same figure.
const HARD_CUT_TOKENS: u64 = 512;
/// Room for the line that says how to find the original.
const RECALL_LINE_TOKENS: u64 = 48;
/// Newest messages of a stretch that are looked through for a word to search.
const RECALL_MESSAGES: usize = 24;
/// Material for one leaf: what a summariser's window of 128,000 tokens holds with room to answer.
const PROMPT_BYTES_MAX: usize = 300_000;
/// Completions asked for at once.
const AT_ONCE: usize = 8;

/// The texts, in the order of the drafts, and how they came about.
pub(crate) struct Texts {
    pub(crate) texts: Vec<String>,
    pub(crate) completions: u32,
    /// Texts by how they were made: a model's, a model's bullets, outlines, hard cuts.
    pub(crate) levels: [u32; 4],
    /// Why the first text that no model wrote was made without; empty if all were written.
    pub(crate) reason: String,
}

/// Writes all texts, none longer than its draft allows.
pub(crate) fn write(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    drafts: &[Draft],
    focus: &str,
    completions_max: u32,
) -> Texts {
    let mut made =
        Texts { texts: vec![String::new(); drafts.len()], completions: 0, levels: [0; 4], reason: String::new() };
    let mut answers: Vec<Option<Result<String, String>>> = drafts.iter().map(|_| None).collect();

    // The largest stretches gain most by a model.
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_key(|&index| Reverse(drafts.get(index).map_or(0, |draft| draft.source_tokens)));
    order.truncate(usize::try_from(completions_max).unwrap_or(usize::MAX));
    for group in order.chunks(AT_ONCE) {
        if let Err(error) = engine_api::check_cancelled(services) {
            made.reason = error.message;
            break;
        }
        let wanted: Vec<(usize, &Draft)> =
            group.iter().filter_map(|&index| drafts.get(index).map(|draft| (index, draft))).collect();
        let requests: Vec<CompletionRequest> =
            wanted.iter().map(|(_, draft)| request(conversation, draft, focus, PROSE, draft.tokens_max)).collect();
        made.completions += requests.len() as u32;
        for ((index, _), answer) in wanted.iter().zip(services.complete_many(&requests)) {
            if let Some(slot) = answers.get_mut(*index) {
                *slot = Some(usable(answer));
            }
        }
        services.progress(u64::from(made.completions), order.len() as u64, "leaf summaries");
    }

    for ((draft, answer), slot) in drafts.iter().zip(answers).zip(made.texts.iter_mut()) {
        let newest = draft.positions.len().saturating_sub(RECALL_MESSAGES);
        let line = recall_line(&anchors(conversation, draft.positions.get(newest..).unwrap_or_default()));
        let tokens_max = draft.tokens_max.min(draft.source_tokens).saturating_sub(RECALL_LINE_TOKENS);
        let written = match answer {
            Some(Ok(text)) if services.count_tokens(&text) <= tokens_max => Ok((text, 0)),
            Some(Ok(_)) if made.completions < completions_max && engine_api::check_cancelled(services).is_ok() => {
                made.completions += 1;
                let request = request(conversation, draft, focus, BULLETS, tokens_max / 2);
                match usable(services.complete(&request)) {
                    Ok(text) if services.count_tokens(&text) <= tokens_max => Ok((text, 1)),
                    Ok(_) => Err("the summariser's texts were too long".to_string()),
                    Err(reason) => Err(reason),
                }
            }
            Some(Ok(_)) => Err("the summariser's text was too long".to_string()),
            Some(Err(reason)) => Err(reason),
            None if completions_max == 0 => Err("no completion is allowed for this call".to_string()),
            None => Err("there were more summaries to write than completions allowed".to_string()),
        };
        let (text, how) = written.unwrap_or_else(|reason| {
            if made.reason.is_empty() {
                made.reason = reason;
            }
            without_model(services, conversation, draft, focus, tokens_max)
        });
        if let Some(count) = made.levels.get_mut(how) {
            *count += 1;
        }
        *slot = with_line(text, &line, draft.tokens_max.min(draft.source_tokens), services);
    }
    made
}

fn request(conversation: &Conversation<'_>, draft: &Draft, focus: &str, style: &str, tokens: u64) -> CompletionRequest {
    let (task, template) = match draft.kind {
        SummaryKind::Condensed => ("condense", CONDENSED),
        _ => ("summary", LEAF),
    };
    let mut prompt = template.replace("{style}", style).replace("{budget}", &tokens.to_string());
    if !focus.trim().is_empty() {
        prompt.push_str(&format!("- Dwell on this topic: \"{}\"\n", one_line(focus, 400)));
    }
    prompt.push_str("\nMATERIAL:\n");
    let limits = Limits { total_bytes: PROMPT_BYTES_MAX, ..Limits::default() };
    prompt.push_str(&render(conversation, &draft.positions, &limits));
    let mut request = CompletionRequest::new(task, prompt);
    request.tokens_hint = tokens;
    request
}

fn usable(answer: Result<engine_api::Completion, EngineError>) -> Result<String, String> {
    let answer = answer.map_err(|error| format!("the summariser failed: {}", error.message))?;
    let text = answer.text.trim();
    // Visible reasoning stands in front of the answer; without its end there is no answer.
    let text = match (text.starts_with("<think>"), text.rsplit_once("</think>")) {
        (true, Some((_, answer))) => answer.trim(),
        (true, None) => "",
        (false, _) => text,
    };
    if text.is_empty() { Err("the summariser gave an empty text".to_string()) } else { Ok(text.to_string()) }
}

/// An outline, or the beginning of the messages where not even an outline can be had.
fn without_model(
    services: &dyn HostServices,
    conversation: &Conversation<'_>,
    draft: &Draft,
    focus: &str,
    tokens_max: u64,
) -> (String, usize) {
    let count = |text: &str| services.count_tokens(text);
    let options = Options { focus, previous: None };
    let text = outline(conversation, draft.positions.iter().copied(), tokens_max, &count, &options);
    if !text.is_empty() {
        return (text, 2);
    }
    let limits = Limits { message_bytes: 600, argument_bytes: 200, total_bytes: 8_192 };
    (fit(&render(conversation, &draft.positions, &limits), HARD_CUT_TOKENS.min(tokens_max), &count), 3)
}

/// Names a call that finds the original messages, with a word of theirs.
fn recall_line(found: &Anchors<'_>) -> String {
    let kinds = [AnchorKind::Path, AnchorKind::Error, AnchorKind::Branch, AnchorKind::Commit, AnchorKind::Issue];
    let word = kinds.into_iter().find_map(|kind| found.of(kind).first()).map(|anchor| one_line(anchor.text, 60));
    let example = word.map(|word| engine_api::json::json!({ "query": word }).to_string());
    match example {
        Some(example) => format!("[Original messages: call lcm_grep with a query, such as {example}]"),
        None => "[Original messages: call lcm_grep with a query of words to find]".to_string(),
    }
}

fn with_line(text: String, line: &str, tokens_max: u64, services: &dyn HostServices) -> String {
    let whole = if text.is_empty() { line.to_string() } else { format!("{text}\n\n{line}") };
    if services.count_tokens(&whole) <= tokens_max || text.is_empty() {
        return whole;
    }
    fit(&text, tokens_max, &|text| services.count_tokens(text))
}
