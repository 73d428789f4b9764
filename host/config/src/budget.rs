//! Computes every token budget of a conversation from the settings and the model's window, and says why.
//!
//! The formulas are those of Hermes 0.19.0, with the tail of its later documentation. They use its arithmetic too
//! (products of floats, cut towards zero), so that the numbers agree to the token.

use crate::codex::{self, Autoraise};
use crate::{Config, TailMode};
use serde::Serialize;
use std::fmt::Write as _;

/// Windows from this size on need no floor under the threshold.
const LARGE_CONTEXT_TOKENS: u64 = 512_000;
/// A compaction below this costs more than it gives, where the window allows it.
const THRESHOLD_TOKENS_MIN: u64 = 64_000;
/// Share of the window used where the threshold would not fit into it.
const DEGENERATE_SHARE: f64 = 0.85;
/// Bounds Hermes puts on the tail's share of the threshold.
const TARGET_RATIO: (f64, f64) = (0.10, 0.80);
/// The lean tail: share of the window, and the bounds in tokens.
const LEAN_SHARE: f64 = 0.025;
const LEAN_TOKENS: (u64, u64) = (10_000, 25_000);
/// A lean tail takes no more than this of a small window.
const LEAN_SHARE_MAX: f64 = 0.20;
/// Longest summary as a share of the window, and in tokens.
const SUMMARY_SHARE_MAX: f64 = 0.05;
const SUMMARY_TOKENS_MAX: u64 = 10_000;
/// A summary's share of what it replaces, and its shortest useful length.
const SUMMARY_RATIO: f64 = 0.20;
const SUMMARY_TOKENS_MIN: u64 = 2_000;
/// The gateway compacts here before it sends anything.
const HYGIENE_SHARE: f64 = 0.85;

/// All budgets of one conversation, in tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budgets {
    pub context_length: u64,
    /// What is left of the context for the prompt, after the longest reply.
    pub window: u64,
    pub threshold_fraction: f64,
    pub threshold_tokens: u64,
    pub tail_budget_tokens: u64,
    pub summary_tokens_max: u64,
    pub hygiene_tokens: u64,
    /// An idle conversation no larger than this is left alone.
    pub idle_floor_tokens: u64,
    /// The raise to announce, where a Codex model got a higher threshold than configured.
    pub autoraise: Option<Autoraise>,
    pub derivation: Vec<Step>,
}

/// How one number came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub name: &'static str,
    pub value: String,
    pub because: String,
}

impl Budgets {
    /// Returns the length to ask for when a middle of so many tokens is summarised.
    pub fn summary_tokens(&self, middle_tokens: u64) -> u64 {
        share(middle_tokens, SUMMARY_RATIO).min(self.summary_tokens_max).max(SUMMARY_TOKENS_MIN)
    }
}

/// Computes the budgets for a model served by the configured provider.
///
/// `max_tokens` is the longest reply of the request; where it is `None`, `model.max_tokens` stands in for it.
pub fn budgets(config: &Config, model: &str, context_length: u64, max_tokens: Option<u64>) -> Budgets {
    budgets_for(config, model, &config.model.provider, context_length, max_tokens)
}

/// Computes the budgets for a model served by a named provider.
pub fn budgets_for(
    config: &Config,
    model: &str,
    provider: &str,
    context_length: u64,
    max_tokens: Option<u64>,
) -> Budgets {
    let mut steps = Steps(Vec::new());
    steps.push("context_length", tokens(context_length), "the model's context window".to_owned());
    let window = window(config, context_length, max_tokens, &mut steps);
    let (threshold_fraction, autoraise) = fraction(config, model, provider, context_length, &mut steps);
    let threshold_tokens = threshold(window, threshold_fraction, &mut steps);

    let ratio = config.compression.target_ratio.clamp(TARGET_RATIO.0, TARGET_RATIO.1);
    let idle_floor_tokens = share(threshold_tokens, ratio);
    let tail_budget_tokens = match config.compression.tail_mode {
        TailMode::Lean => lean_tail(context_length, window, &mut steps),
        TailMode::Legacy => {
            let because = format!("{} × compression.target_ratio {}", tokens(threshold_tokens), decimal(ratio));
            steps.push("tail_budget_tokens", tokens(idle_floor_tokens), because);
            idle_floor_tokens
        }
    };

    let summary_tokens_max = share(context_length, SUMMARY_SHARE_MAX).min(SUMMARY_TOKENS_MAX);
    let because = format!("5 % of the context, at most {}", tokens(SUMMARY_TOKENS_MAX));
    steps.push("summary_tokens_max", tokens(summary_tokens_max), because);

    let hygiene_tokens = hygiene(context_length, threshold_tokens, &mut steps);
    if config.compression.idle_compact_after_seconds > 0 {
        let because =
            format!("{} × {}; a smaller idle conversation is left alone", tokens(threshold_tokens), decimal(ratio));
        steps.push("idle_floor_tokens", tokens(idle_floor_tokens), because);
    }
    Budgets {
        context_length,
        window,
        threshold_fraction,
        threshold_tokens,
        tail_budget_tokens,
        summary_tokens_max,
        hygiene_tokens,
        idle_floor_tokens,
        autoraise,
        derivation: steps.0,
    }
}

/// Returns the budgets as lines of plain text, one per number, each with its reason.
pub fn explain(budgets: &Budgets) -> String {
    let width = |of: fn(&Step) -> usize| budgets.derivation.iter().map(of).max().unwrap_or(0);
    let (names, values) = (width(|s| s.name.len()), width(|s| s.value.chars().count()));
    let mut out = String::new();
    for Step { name, value, because } in &budgets.derivation {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<names$}  {value:>values$}  {because}");
    }
    out
}

struct Steps(Vec<Step>);

impl Steps {
    fn push(&mut self, name: &'static str, value: String, because: String) {
        self.0.push(Step { name, value, because });
    }
}

fn window(config: &Config, context_length: u64, max_tokens: Option<u64>, steps: &mut Steps) -> u64 {
    let Some(reply) = max_tokens.or(config.model.max_tokens).filter(|&n| n > 0) else {
        steps.push("window", tokens(context_length), "the whole context: no longest reply is set".to_owned());
        return context_length;
    };
    let (window, because) = match context_length.checked_sub(reply).filter(|&left| left > 0) {
        Some(left) => (left, format!("context − longest reply of {}", tokens(reply))),
        None => (context_length, format!("the whole context: a reply of {} would leave nothing", tokens(reply))),
    };
    steps.push("window", tokens(window), because);
    window
}

fn fraction(
    config: &Config,
    model: &str,
    provider: &str,
    context_length: u64,
    steps: &mut Steps,
) -> (f64, Option<Autoraise>) {
    let compression = &config.compression;
    let global = compression.threshold;
    let mut autoraise = None;
    let (configured, because) = if let Some((name, threshold)) = model_threshold(config, model) {
        // The user named this model, so no rule made for everybody changes it.
        (threshold, format!("compression.model_thresholds: longest match for {model:?} is {name:?}"))
    } else if let Some(rule) = codex::model_rule(model, provider, compression.codex_gpt55_autoraise) {
        if rule.only_raises && global >= rule.threshold {
            (
                global,
                format!("compression.threshold; the rule for {model:?} only raises, to {}", decimal(rule.threshold)),
            )
        } else {
            if rule.only_raises {
                autoraise = Some(Autoraise { model: model.trim().to_owned(), from: global, to: rule.threshold });
            }
            (rule.threshold, format!("instead of compression.threshold {}: {}", decimal(global), rule.because))
        }
    } else if codex::is_large_window(model, provider) {
        (global, "compression.threshold; the -900k names have a large window and are not raised".to_owned())
    } else {
        (global, "compression.threshold".to_owned())
    };
    steps.push("threshold", decimal(configured), because);

    let floor = compression.small_context_floor;
    let is_small = 0 < context_length && context_length < LARGE_CONTEXT_TOKENS;
    let (effective, because) = match () {
        () if !is_small => (configured, format!("no floor from {} tokens on", tokens(LARGE_CONTEXT_TOKENS))),
        () if floor <= 0.0 => (configured, "compression.small_context_floor is off".to_owned()),
        () if configured >= floor => {
            (configured, format!("at or above compression.small_context_floor {}", decimal(floor)))
        }
        () => (
            floor,
            format!("raised to compression.small_context_floor: the context is below {}", tokens(LARGE_CONTEXT_TOKENS)),
        ),
    };
    steps.push("threshold_fraction", decimal(effective), because);
    (effective, autoraise)
}

/// Returns the entry of `model_thresholds` with the longest name that is part of the model's.
fn model_threshold<'a>(config: &'a Config, model: &str) -> Option<(&'a str, f64)> {
    let model = model.to_lowercase();
    let mut best: Option<(&str, f64)> = None;
    for (name, &threshold) in &config.compression.model_thresholds {
        let is_longer = best.is_none_or(|(known, _)| name.len() > known.len());
        if !name.is_empty() && is_longer && model.contains(&name.to_lowercase()) {
            best = Some((name, threshold));
        }
    }
    best
}

fn threshold(window: u64, fraction: f64, steps: &mut Steps) -> u64 {
    let product = share(window, fraction);
    let wanted = product.max(THRESHOLD_TOKENS_MIN);
    let (threshold, because) = if wanted >= window {
        let below = share(window, DEGENERATE_SHARE).min(window.saturating_sub(1)).max(1);
        (below, format!("85 % of the window: {} would not fit into {}", tokens(wanted), tokens(window)))
    } else if product < THRESHOLD_TOKENS_MIN {
        let because =
            format!("the lowest threshold: {} × {} is {}", tokens(window), decimal(fraction), tokens(product));
        (wanted, because)
    } else {
        (wanted, format!("{} × {}", tokens(window), decimal(fraction)))
    };
    steps.push("threshold_tokens", tokens(threshold), because);
    threshold
}

fn lean_tail(context_length: u64, window: u64, steps: &mut Steps) -> u64 {
    let wanted = share(context_length, LEAN_SHARE).clamp(LEAN_TOKENS.0, LEAN_TOKENS.1);
    // The cap takes the prompt's share of the context, so that a long reply cannot push the tail over the threshold.
    let cap = share(window, LEAN_SHARE_MAX);
    let because = if cap < wanted {
        format!("tail_mode lean: 20 % of the window of {}", tokens(window))
    } else {
        format!("tail_mode lean: 2.5 % of the context, from {} to {}", tokens(LEAN_TOKENS.0), tokens(LEAN_TOKENS.1))
    };
    let tail = wanted.min(cap);
    steps.push("tail_budget_tokens", tokens(tail), because);
    tail
}

fn hygiene(context_length: u64, threshold_tokens: u64, steps: &mut Steps) -> u64 {
    let fixed = share(context_length, HYGIENE_SHARE);
    // A threshold set above 85 % is what the user asked for; the safety net must not fire before it.
    let hygiene = fixed.max(threshold_tokens);
    let because = if hygiene > fixed {
        format!("85 % of the context is {}, raised to the threshold", tokens(fixed))
    } else {
        "85 % of the context: the gateway's safety net".to_owned()
    };
    steps.push("hygiene_tokens", tokens(hygiene), because);
    hygiene
}

/// A share of a count, cut towards zero; the cast saturates and turns a factor that is no number into 0.
fn share(count: u64, factor: f64) -> u64 {
    (count as f64 * factor) as u64
}

/// A count with thousands separators.
fn tokens(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A fraction with at least two decimals, as it stands in the documentation.
fn decimal(fraction: f64) -> String {
    let short = format!("{fraction}");
    let decimals = short.split_once('.').map_or(0, |(_, d)| d.len());
    if decimals < 2 { format!("{fraction:.2}") } else { short }
}

#[cfg(test)]
mod tests;
