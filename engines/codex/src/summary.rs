//! The handoff: by a model, or by the outline where no model gives one.

use crate::answer::{Unusable, usable};
use crate::prompt::{Manner, prompt};
use crate::settings::Settings;
use engine_api::{CompletionModel, CompletionRequest, CompressRequest, Conversation, HostServices};
use engine_kit::outline::{Options, outline};

/// Stands before every handoff.
pub(crate) const LEAD_IN: &str = include_str!("../prompts/lead_in.md");
/// Completions asked for at most: one, and one more with half the material.
const COMPLETIONS_MAX: u32 = 2;
/// With less room a model's text would be cut before it said anything.
const WRITTEN_TOKENS_MIN: u64 = 100;
/// A handoff with less room than this for its own words goes without the lead-in.
const LED_TOKENS_MIN: u64 = 60;
/// Bytes of an answer that are looked at, for each token it may have: more is no handoff.
const ANSWER_BYTES_PER_TOKEN: u64 = 64;

/// What a handoff is made of, and how long it may be.
pub(crate) struct Source<'a> {
    pub(crate) conversation: Conversation<'a>,
    /// The messages that it will stand for, ascending.
    pub(crate) positions: &'a [usize],
    /// Their tokens.
    pub(crate) tokens: u64,
    /// Tokens that are asked for.
    pub(crate) wanted: u64,
    /// Tokens that it may have, lead-in included.
    pub(crate) tokens_max: u64,
    pub(crate) settings: &'a Settings,
}

impl Source<'_> {
    /// Tells whether it continues an earlier one.
    pub(crate) fn has_previous(&self) -> bool {
        let mut messages = self.positions.iter().filter_map(|&position| self.conversation.get(position));
        messages.any(|message| message.is_summary())
    }
}

/// A handoff and how it came about.
pub(crate) struct Summary {
    pub(crate) text: String,
    pub(crate) tokens: u64,
    pub(crate) completions: u32,
    /// Why no model wrote it; empty if one did.
    pub(crate) fallback: String,
    pub(crate) notes: Vec<String>,
}

/// Writes the handoff; `None` if no text would be shorter than what it stands for.
pub(crate) fn summarise(
    source: &Source<'_>,
    request: &CompressRequest,
    services: &dyn HostServices,
) -> Option<Summary> {
    let count = |text: &str| services.count_tokens(text);
    let mut summary =
        Summary { text: String::new(), tokens: 0, completions: 0, fallback: String::new(), notes: Vec::new() };
    let lead_tokens = count(LEAD_IN);
    let body_max = source.tokens_max.saturating_sub(lead_tokens);
    let (lead, body_max) = if body_max < LED_TOKENS_MIN { ("", source.tokens_max) } else { (LEAD_IN, body_max) };
    let body = match ask(source, request, services, body_max, &mut summary) {
        Ok(text) => text,
        Err(reason) => {
            summary.fallback = reason;
            let tokens = body_max.min(source.wanted.max(LED_TOKENS_MIN));
            let options = Options { focus: &request.focus_topic, previous: None };
            outline(&source.conversation, source.positions.iter().copied(), tokens, &count, &options)
        }
    };
    // An empty handoff is refused: better the messages themselves.
    if body.trim().is_empty() {
        return None;
    }
    summary.text = format!("{lead}{}", body.trim());
    summary.tokens = count(&summary.text);
    (summary.tokens < source.tokens).then_some(summary)
}

/// Asks a model, twice at most; the error says why there is no text.
fn ask(
    source: &Source<'_>,
    request: &CompressRequest,
    services: &dyn HostServices,
    body_max: u64,
    summary: &mut Summary,
) -> Result<String, String> {
    let allowed = request.completions_max.min(COMPLETIONS_MAX);
    if allowed == 0 {
        return Err("no completion is allowed for this call".to_string());
    }
    if body_max < WRITTEN_TOKENS_MIN {
        return Err("the target leaves too little room for a written handoff".to_string());
    }
    let mut manner = Manner::first(request);
    loop {
        if let Err(error) = engine_api::check_cancelled(services) {
            return Err(error.message);
        }
        match ask_once(source, request, services, body_max, manner, summary) {
            Ok(text) => return Ok(text),
            Err(unusable) if unusable.may_ask_again && summary.completions < allowed => {
                summary.notes.push(format!("asked again: {}", unusable.why));
                // A prefix cannot be made shorter, so the second prompt carries its material itself.
                manner = Manner { is_on_prefix: false, part: manner.part.saturating_mul(2) };
            }
            Err(unusable) => return Err(unusable.why),
        }
    }
}

fn ask_once(
    source: &Source<'_>,
    request: &CompressRequest,
    services: &dyn HostServices,
    body_max: u64,
    manner: Manner,
    summary: &mut Summary,
) -> Result<String, Unusable> {
    let count = |text: &str| services.count_tokens(text);
    let made = prompt(source, request, manner, &count);
    let made = made.map_err(|why| Unusable { why, may_ask_again: false })?;
    let mut completion = CompletionRequest::new("summary", made);
    completion.tokens_hint = source.wanted;
    completion.model = match request.completion_model {
        Some(CompletionModel::MainOnPrefix) if !manner.is_on_prefix => Some(CompletionModel::Main),
        model => model,
    };
    summary.completions = summary.completions.saturating_add(1);
    let text = usable(services.complete(&completion), &completion.prompt)?;
    let again = |why: String| Unusable { why, may_ask_again: true };
    // Such a text need not be counted to be known as too long.
    if text.len() as u64 / ANSWER_BYTES_PER_TOKEN > body_max {
        return Err(again(format!("the handoff of {} bytes was too long", text.len())));
    }
    let tokens = count(&text);
    if tokens >= source.tokens {
        return Err(again(format!(
            "the handoff of {tokens} tokens was no shorter than its source of {}",
            source.tokens
        )));
    }
    if tokens > body_max {
        return Err(again(format!("the handoff of {tokens} tokens was too long for its room of {body_max}")));
    }
    Ok(text)
}
