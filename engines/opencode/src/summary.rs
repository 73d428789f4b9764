//! One summary of everything that does not stay, by a model or by the outline.

use crate::answer::usable;
use crate::material::render;
use crate::settings::{Headings, Settings};
use engine_api::{CompletionModel, CompletionRequest, CompressRequest, Conversation, HostServices, json};
use engine_kit::outline::{Options, outline};
use engine_kit::text::{one_line, prefix};
use std::fmt::Write;

const SYSTEM: &str = include_str!("../prompts/system.md");
const RULES: &str = include_str!("../prompts/rules.md");
const SECTIONS: &str = include_str!("../prompts/sections.md");
const SECTIONS_NEW: &str = include_str!("../prompts/sections_new.md");
const MERGE: &str = include_str!("../prompts/merge.md");
/// Completions for one summary: a second one where the first answered with something else.
const COMPLETIONS_MAX: u32 = 2;
/// With less room a model's text would be cut before it said anything.
const WRITTEN_TOKENS_MIN: u64 = 100;
/// A model's text may pass what it was asked for by this much, if there is room.
const LENIENCE: u64 = 2;
/// Window where the summariser's is not known.
const WINDOW_TOKENS: u64 = 128_000;
/// Bytes of material for a token of the window: code has three a token, and a third is left for the answer.
const BYTES_PER_TOKEN: u64 = 2;
/// More material makes a summary of fixed length no better.
const MATERIAL_BYTES_MAX: u64 = 600_000;
/// What the instruction comes to.
const INSTRUCTION_TOKENS: u64 = 1_200;
/// Times that a prompt over the window is made again with less material.
const TRIES_MAX: usize = 3;
/// Characters of a topic, and bytes of the client's memory.
const FOCUS_CHARS: usize = 400;
const MEMORY_BYTES: usize = 4_000;
/// Characters of the message up to which a model on the live prefix summarises.
const BEGINNING_CHARS: usize = 120;
/// A text of more bytes for each token it may have is not counted: it is too long.
const BYTES_PER_TOKEN_MOST: u64 = 64;

/// What a summary is made of, and how long it may be.
pub(crate) struct Source<'a> {
    pub(crate) services: &'a dyn HostServices,
    pub(crate) conversation: Conversation<'a>,
    pub(crate) request: &'a CompressRequest,
    pub(crate) settings: &'a Settings,
    /// The messages it stands for, ascending; earlier summaries are among them.
    pub(crate) positions: Vec<usize>,
    /// Tokens that are asked for.
    pub(crate) wanted: u64,
    /// Tokens that there is room for.
    pub(crate) tokens_max: u64,
}

/// A summary and how it came about.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) text: String,
    pub(crate) tokens: u64,
    pub(crate) completions: u32,
    /// Why no model wrote it; empty if one did.
    pub(crate) fallback: String,
}

/// Writes the summary.
pub(crate) fn summarise(source: &Source<'_>) -> Summary {
    let mut summary = Summary::default();
    match ask(source, &mut summary.completions) {
        Ok((text, tokens)) => (summary.text, summary.tokens) = (text, tokens),
        Err(reason) => {
            summary.fallback = reason;
            let count = |text: &str| source.services.count_tokens(text);
            let tokens_max = source.tokens_max.min(source.wanted.saturating_mul(LENIENCE));
            let options = Options { focus: &source.request.focus_topic, previous: None };
            summary.text =
                outline(&source.conversation, source.positions.iter().copied(), tokens_max, &count, &options);
            summary.tokens = count(&summary.text);
        }
    }
    summary
}

fn ask(source: &Source<'_>, completions: &mut u32) -> Result<(String, u64), String> {
    let allowed = source.request.completions_max.min(COMPLETIONS_MAX);
    if allowed == 0 {
        return Err("no completion is allowed for this call".to_string());
    }
    if source.tokens_max < WRITTEN_TOKENS_MIN {
        return Err("the target leaves too little room for a written summary".to_string());
    }
    let prompt = prompt(source)?;
    let tokens_max = source.tokens_max.min(source.wanted.saturating_mul(LENIENCE));
    let mut reason = String::new();
    while *completions < allowed {
        engine_api::check_cancelled(source.services).map_err(|error| error.message)?;
        let mut asked = prompt.clone();
        if !reason.is_empty() {
            let _ = write!(asked, "\n\nAnswer with the summary alone, as text, in at most {} tokens.", source.wanted);
        }
        let mut completion = CompletionRequest::new("summary", asked);
        completion.system = SYSTEM.trim().to_string();
        completion.tokens_hint = source.wanted;
        completion.model = source.request.completion_model;
        *completions += 1;
        // The host has tried again already where that helps, so a failing service ends it.
        let answer = source
            .services
            .complete(&completion)
            .map_err(|error| format!("the summariser failed: {}", error.message))?;
        let made = usable(&answer, &prompt).and_then(|text| {
            let is_huge = text.len() as u64 / BYTES_PER_TOKEN_MOST > tokens_max;
            let tokens = if is_huge { u64::MAX } else { source.services.count_tokens(&text) };
            if tokens <= tokens_max {
                return Ok((text, tokens));
            }
            Err(format!("the summary of {} bytes is over its {tokens_max} tokens", text.len()))
        });
        match made {
            Ok(made) => return Ok(made),
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

/// Writes the prompt; the error says why none fits the summariser's window.
fn prompt(source: &Source<'_>) -> Result<String, String> {
    if source.request.completion_model == Some(CompletionModel::MainOnPrefix) {
        let mut out = where_it_ends(source);
        out.push_str(&instruction(source, false));
        return Ok(out);
    }
    let known = [source.request.completion_window, source.request.model.context_length];
    let window = known.into_iter().find(|window| *window > 0).unwrap_or(WINDOW_TOKENS);
    let room = window.saturating_sub(source.wanted).saturating_sub(window / 10);
    let bytes = room.saturating_sub(INSTRUCTION_TOKENS).saturating_mul(BYTES_PER_TOKEN).min(MATERIAL_BYTES_MAX);
    let mut bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    for _ in 0..TRIES_MAX {
        let out = with_material(source, bytes);
        // No token is shorter than a byte.
        if out.len() as u64 <= room || source.services.count_tokens(&out) <= room {
            return Ok(out);
        }
        bytes /= 2;
    }
    Err(format!("the summariser's window of {window} tokens is too small for the material"))
}

fn with_material(source: &Source<'_>, bytes: usize) -> String {
    let conversation = &source.conversation;
    let is_prior = |position: &usize| {
        conversation.get(*position).is_some_and(|message| message.is_summary() && !message.is_real_user())
    };
    let (prior, mut new): (Vec<usize>, Vec<usize>) = source.positions.iter().partition(|position| is_prior(position));
    // Requests that stay are shown too: without them the work between would be read as done for no reason.
    let end = source.positions.last().copied().unwrap_or(0);
    new.extend((0..end).filter(|&position| {
        let is_request = conversation.get(position).is_some_and(|message| message.is_real_user());
        is_request && source.positions.binary_search(&position).is_err()
    }));
    new.sort_unstable();
    let texts = prior.iter().filter_map(|&position| conversation.get(position)).map(|message| message.text());
    let prior = texts.collect::<Vec<_>>().join("\n\n");
    let prior = prefix(&prior, bytes / 2);
    let material = render(conversation, &new, source.settings.result_chars, bytes - prior.len());
    let mut out = format!("<conversation>\n{material}\n</conversation>\n\n");
    if !prior.is_empty() {
        let _ = write!(out, "<prior-summary>\n{prior}\n</prior-summary>\n\n");
    }
    out.push_str(&instruction(source, !prior.is_empty()));
    out
}

fn instruction(source: &Source<'_>, has_prior: bool) -> String {
    let mut out = String::new();
    if has_prior {
        out.push_str(MERGE);
        out.push('\n');
    }
    let budget = source.wanted.to_string();
    if source.settings.prompt.trim().is_empty() {
        out.push_str(match source.settings.headings {
            Headings::Five => SECTIONS,
            Headings::New => SECTIONS_NEW,
        });
        out.push('\n');
        out.push_str(&RULES.replace("{budget}", &budget));
    } else {
        out.push_str(&source.settings.prompt.replace("{budget}", &budget));
    }
    let focus = one_line(&source.request.focus_topic, FOCUS_CHARS);
    if !focus.is_empty() {
        let _ = write!(out, "\nDwell on this above all: \"{focus}\"\n");
    }
    let memory = source.request.memory_context.trim();
    if !memory.is_empty() {
        // As JSON writes them by number, so that nothing in it reads as the end of the block.
        let memory = json::Value::from(prefix(memory, MEMORY_BYTES)).to_string();
        let memory = memory.replace('<', "\\u003c").replace('>', "\\u003e");
        let _ = write!(out, "\n<memory>\n{memory}\n</memory>\n");
    }
    out
}

/// Tells a model that has the conversation before its eyes which part of it to summarise.
fn where_it_ends(source: &Source<'_>) -> String {
    let end = source.positions.last().map_or(0, |last| last + 1);
    let next = source.conversation.get(end).map(|message| {
        let part = message.parts().find(|part| !part.text().trim().is_empty());
        part.map_or(String::new(), |part| one_line(prefix(part.text(), BEGINNING_CHARS * 4), BEGINNING_CHARS))
    });
    let mut out = match next.filter(|text| !text.is_empty()) {
        Some(text) => format!(
            "Summarise the conversation above up to the message that begins with {}; it and what follows stay as they are.",
            json::Value::from(text)
        ),
        None => "Summarise the conversation above.".to_string(),
    };
    out.push_str(
        " Take a summary that stands in it over into yours. Do not go on with the work and call no tools.\n\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_template_has_five_sections() {
        for template in [SECTIONS, SECTIONS_NEW] {
            assert_eq!(template.lines().filter(|line| line.starts_with("## ")).count(), 5);
        }
    }
}
