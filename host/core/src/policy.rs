//! Decides whether a session is compacted now.
//!
//! Pure: it sees counts and settings, never messages, so each rule can be tested with numbers.

use crate::breaker::Breaker;
use engine_api::{Decision as EngineDecision, PromptTokens, Trigger};
use host_config::{Budgets, Config};

/// Messages below which the safety valve stays shut; Hermes uses the same.
const HYGIENE_MESSAGES_MIN: usize = 4;

/// What a decision is made on.
#[derive(Debug, Clone)]
pub struct Situation<'a> {
    /// The user's settings.
    pub config: &'a Config,
    /// What they come to for this model.
    pub budgets: &'a Budgets,
    /// How large the next request is.
    pub prompt_tokens: PromptTokens,
    /// Messages in the view.
    pub message_count: usize,
    /// What the engine says.
    pub engine: EngineDecision,
    /// A person asked for it.
    pub forced: bool,
    /// What earlier compactions came to.
    pub breaker: Breaker,
}

/// The decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The conversation stays as it is.
    Keep(String),
    /// It is compacted.
    Compact {
        /// What brought it about.
        trigger: Trigger,
        /// In one line, with numbers.
        reason: String,
        /// The whole request must end at or below this.
        target_tokens: u64,
    },
}

/// Decides.
pub fn decide(situation: &Situation<'_>) -> Decision {
    let Situation { config, budgets, prompt_tokens, message_count, engine, forced, breaker } = situation;
    let tokens = prompt_tokens.count;
    // A compaction that does not end below its own threshold would fire again at once.
    let target_tokens = budgets.threshold_tokens.min(tokens.saturating_sub(1));
    let compact = |trigger, reason| Decision::Compact { trigger, reason, target_tokens };
    if *forced {
        return compact(Trigger::Manual, "asked for".to_owned());
    }
    if !config.compression.enabled {
        return Decision::Keep("compression.enabled is false".to_owned());
    }
    if let Some(why) = breaker.blocks(tokens) {
        return Decision::Keep(why);
    }
    let messages_max = config.compression.hygiene_hard_message_limit;
    if messages_max > 0 && *message_count >= messages_max {
        return compact(
            Trigger::Hygiene,
            format!("{message_count} messages reach compression.hygiene_hard_message_limit, {messages_max}"),
        );
    }
    if tokens >= budgets.hygiene_tokens && *message_count >= HYGIENE_MESSAGES_MIN {
        let reason = format!("{tokens} tokens reach {} (85 % of the window)", budgets.hygiene_tokens);
        return compact(Trigger::Hygiene, reason);
    }
    if !engine.host_decides {
        return if engine.compress {
            compact(Trigger::Threshold, engine.reason.clone())
        } else {
            Decision::Keep(engine.reason.clone())
        };
    }
    let threshold = budgets.threshold_tokens;
    if tokens >= threshold {
        return compact(Trigger::Threshold, format!("{tokens} tokens reach the threshold of {threshold}"));
    }
    Decision::Keep(format!("{tokens} tokens are below the threshold of {threshold}"))
}

#[cfg(test)]
mod tests;
