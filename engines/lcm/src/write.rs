//! Writes the summaries: a model's text, its bullets, an outline, a hard cut. One of them always fits.
//!
//! The engine, not the model, ends each text with what it covers and the call that returns it. A text that no model
//! has written says so; a later compaction that covers it again writes it from its messages.

mod answer;
mod footer;
mod material;

use crate::drafts::Draft;
use crate::patterns::MessagePatterns;
use answer::usable;
use engine_api::{CompletionRequest, CompressRequest, Conversation, HostServices};
use engine_kit::outline::{Options, outline};
use engine_kit::render::{Limits, render};
use engine_kit::text::{fit, one_line, prefix};
pub(crate) use footer::{PENDING, is_pending, pointer};
use std::cmp::Reverse;

const LEAF: &str = include_str!("../prompts/leaf.md");
const CONDENSED: [&str; 3] =
    [include_str!("../prompts/d1.md"), include_str!("../prompts/d2.md"), include_str!("../prompts/d3.md")];
const PROSE: &str = "Full sentences where they help, short paragraphs, no headings.";
const BULLETS: &str = "Bullet points only, one fact each, nothing twice.";
/// The last resort: the beginning of the messages, cut here. hermes-lcm and the paper have the same figure.
const HARD_CUT_TOKENS: u64 = 512;
/// Room for the line that says what is covered.
const FOOTER_TOKENS: u64 = 72;
/// Material for one summary where the summariser's window is not known: what 128,000 tokens hold with room to answer.
const PROMPT_BYTES: usize = 300_000;
/// Bytes of the window that material may take: three bytes a token is what code and JSON have, and a third is left.
const WINDOW_BYTES_PER_TOKEN: u64 = 2;
/// Bounds of the material.
const PROMPT_BYTES_BOUNDS: (usize, usize) = (8_000, 2_000_000);
/// Bytes of the client's memory that go along.
const MEMORY_BYTES: usize = 4_000;
/// Completions asked for at once.
const AT_ONCE: usize = 8;

/// How a text came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Prose,
    Bullets,
    Outline,
    HardCut,
}

/// The texts, in the order of the drafts, and how they came about.
pub(crate) struct Texts {
    /// `None` for a summary that stays as it is, since no model could write it again.
    pub(crate) texts: Vec<Option<(String, Level)>>,
    pub(crate) completions: u32,
    /// Why the first text that no model wrote was made without; empty if all were written.
    pub(crate) reason: String,
}

impl Texts {
    /// Counts the texts of a level.
    pub(crate) fn count(&self, wanted: Level) -> u64 {
        self.texts.iter().flatten().filter(|(_, level)| *level == wanted).count() as u64
    }
}

/// What the texts are written from.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'w> {
    pub(crate) services: &'w dyn HostServices,
    pub(crate) conversation: &'w Conversation<'w>,
    pub(crate) request: &'w CompressRequest,
    pub(crate) ignored: &'w MessagePatterns,
}

impl Writer<'_> {
    /// Writes all texts, none longer than its draft allows.
    pub(crate) fn write(&self, drafts: &[Draft]) -> Texts {
        let services = self.services;
        let completions_max = self.request.completions_max;
        let mut made = Texts { texts: Vec::with_capacity(drafts.len()), completions: 0, reason: String::new() };
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
            let requests: Vec<CompletionRequest> = wanted
                .iter()
                .map(|(_, draft)| self.request_for(draft, PROSE, draft.tokens_max.saturating_sub(FOOTER_TOKENS)))
                .collect();
            made.completions += requests.len() as u32;
            for (((index, _), request), answer) in wanted.iter().zip(&requests).zip(services.complete_many(&requests)) {
                if let Some(slot) = answers.get_mut(*index) {
                    *slot = Some(usable(answer, &request.prompt));
                }
            }
            services.progress(u64::from(made.completions), order.len() as u64, "summaries");
        }

        for (draft, answer) in drafts.iter().zip(answers) {
            let allowed = draft.tokens_max.min(draft.source_tokens);
            let tokens_max = allowed.saturating_sub(FOOTER_TOKENS);
            let written = match answer {
                Some(Ok(text)) if services.count_tokens(&text) <= tokens_max => Ok((text, Level::Prose)),
                Some(Ok(_)) if made.completions < completions_max && engine_api::check_cancelled(services).is_ok() => {
                    made.completions += 1;
                    let request = self.request_for(draft, BULLETS, tokens_max / 2);
                    match usable(services.complete(&request), &request.prompt) {
                        Ok(text) if services.count_tokens(&text) <= tokens_max => Ok((text, Level::Bullets)),
                        Ok(_) => Err("the summariser's texts were too long".to_string()),
                        Err(reason) => Err(reason),
                    }
                }
                Some(Ok(_)) => Err("the summariser's text was too long".to_string()),
                Some(Err(reason)) => Err(reason),
                None if completions_max == 0 => Err("no completion is allowed for this call".to_string()),
                None => Err("there were more summaries to write than completions allowed".to_string()),
            };
            let text = match written {
                Ok(text) => Some(text),
                Err(reason) => {
                    if made.reason.is_empty() {
                        made.reason = reason;
                    }
                    (!draft.is_again).then(|| self.without_model(draft, tokens_max))
                }
            };
            let ended = text.map(|(text, level)| {
                let is_pending = matches!(level, Level::Outline | Level::HardCut);
                let footer = footer::Footer::of(self.conversation, &draft.positions, is_pending);
                (footer.end(&text, allowed, &|text| services.count_tokens(text)), level)
            });
            made.texts.push(ended);
        }
        made
    }

    fn request_for(&self, draft: &Draft, style: &str, tokens: u64) -> CompletionRequest {
        let (task, template) = match draft.depth.checked_sub(1) {
            None => ("summary", LEAF),
            Some(above) => {
                let index = usize::try_from(above).unwrap_or(usize::MAX).min(CONDENSED.len() - 1);
                // A summary written again stands for messages, whatever its depth.
                let template = CONDENSED.get(index).copied().unwrap_or(LEAF);
                ("condense", if draft.is_again { LEAF } else { template })
            }
        };
        let mut prompt = template.replace("{style}", style).replace("{budget}", &tokens.to_string());
        let focus = self.request.focus_topic.trim();
        if !focus.is_empty() {
            prompt.push_str(&format!("- Dwell on this topic: \"{}\"\n", one_line(focus, 400)));
        }
        let memory = self.request.memory_context.trim();
        if !memory.is_empty() {
            prompt.push_str(&format!(
                "\nWHAT IS REMEMBERED ELSEWHERE (no need to repeat it):\n{}\n",
                prefix(memory, MEMORY_BYTES)
            ));
        }
        let earlier = material::before(self.conversation, draft);
        if !earlier.is_empty() {
            prompt.push_str(&format!("\nWHAT CAME BEFORE (summarised already; do not repeat it):\n{earlier}\n"));
        }
        prompt.push_str("\nMATERIAL:\n");
        prompt.push_str(&material::of(self.services, self.conversation, draft, self.ignored, self.material_bytes()));
        let mut request = CompletionRequest::new(task, prompt);
        request.tokens_hint = tokens;
        request
    }

    fn material_bytes(&self) -> usize {
        let bytes = match self.request.completion_window {
            0 => PROMPT_BYTES,
            window => usize::try_from(window.saturating_mul(WINDOW_BYTES_PER_TOKEN)).unwrap_or(usize::MAX),
        };
        bytes.clamp(PROMPT_BYTES_BOUNDS.0, PROMPT_BYTES_BOUNDS.1)
    }

    /// An outline, or the beginning of the messages where not even an outline can be had.
    fn without_model(&self, draft: &Draft, tokens_max: u64) -> (String, Level) {
        let count = |text: &str| self.services.count_tokens(text);
        let shown = material::shown(self.conversation, &draft.positions, self.ignored);
        let options = Options { focus: &self.request.focus_topic, previous: None };
        let text = outline(self.conversation, shown.iter().copied(), tokens_max, &count, &options);
        if !text.is_empty() {
            return (text, Level::Outline);
        }
        let limits = Limits { message_bytes: 600, argument_bytes: 200, total_bytes: 8_192 };
        let text = render(self.conversation, &shown, &limits);
        (fit(&text, HARD_CUT_TOKENS.min(tokens_max), &count), Level::HardCut)
    }
}
