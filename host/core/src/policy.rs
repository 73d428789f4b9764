//! Decides whether a session is compacted now.
//!
//! Pure: it sees counts and settings, never messages, so each rule can be tested with numbers.

use crate::economy::{self, Outlook, TURNS_EXPECTED, Terms, Worth};
use crate::pressure::{OVERFLOWS_MAX, Pressure};
use engine_api::{Decision as EngineDecision, PromptTokens, Trigger};
use host_config::{Budgets, Config};

/// Messages below which the safety valve stays shut; Hermes uses the same.
const HYGIENE_MESSAGES_MIN: usize = 4;

/// On a cold cache a conversation is compacted from this part of the threshold on; a smaller one is cheap as it is.
const COLD_PART: u64 = 2;

/// Why a decision is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A request is about to be sent, so long after the one before.
    Request {
        /// Seconds since the conversation's last message; 0 if that is not known.
        idle_seconds: u64,
    },
    /// A person asked for it.
    Manual,
    /// The provider refused the request as too long.
    Overflow {
        /// How often it has refused this request, from 1.
        attempt: u32,
    },
}

/// What a compaction would cost and save.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Economy {
    /// What the model's tokens cost.
    pub terms: Terms,
    /// What the request would become.
    pub outlook: Outlook,
}

impl Economy {
    /// Tells whether a compaction pays within the turns that are expected.
    pub fn is_good(&self) -> bool {
        economy::weigh(self.terms, self.outlook).is_good()
    }

    /// Weighs it, and says how in one line.
    fn weigh(&self) -> (Worth, String) {
        let worth = economy::weigh(self.terms, self.outlook);
        let cache = if self.outlook.is_warm { "warm" } else { "cold" };
        let said = match worth {
            Worth::AtOnce => format!("on a {cache} cache it pays at once"),
            Worth::After(turns) => {
                format!("on a {cache} cache it pays after {turns:.1} turns, and {TURNS_EXPECTED} are expected")
            }
            Worth::Never => format!("on a {cache} cache it never pays"),
        };
        (worth, said)
    }
}

/// What a decision is made on.
#[derive(Debug)]
pub struct Situation<'a> {
    /// Why it is asked for.
    pub cause: Cause,
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
    /// What a compaction would cost and save, where that decides.
    pub economy: Option<Economy>,
    /// What earlier requests and compactions came to.
    pub pressure: &'a mut Pressure,
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
pub fn decide(situation: Situation<'_>) -> Decision {
    let Situation { cause, config, budgets, prompt_tokens, message_count, engine, economy, pressure } = situation;
    let tokens = prompt_tokens.count;
    let threshold = budgets.threshold_tokens;
    // A compaction that does not end below its own threshold would fire again at once.
    let target_tokens = threshold.min(tokens.saturating_sub(1));
    let compact = |trigger, reason| Decision::Compact { trigger, reason, target_tokens };
    let idle_seconds = match cause {
        Cause::Manual => return compact(Trigger::Manual, "asked for".to_owned()),
        Cause::Overflow { attempt } => return on_overflow(attempt, config, target_tokens),
        Cause::Request { idle_seconds } => idle_seconds,
    };
    let compression = &config.compression;
    if !compression.enabled {
        return Decision::Keep("compression.enabled is false".to_owned());
    }
    if let Some(why) = pressure.blocks(tokens) {
        return Decision::Keep(why);
    }
    let messages_max = compression.hygiene_hard_message_limit;
    if messages_max > 0 && message_count >= messages_max {
        return compact(
            Trigger::Hygiene,
            format!("{message_count} messages reach compression.hygiene_hard_message_limit, {messages_max}"),
        );
    }
    if let Some(why) = pressure.defers(prompt_tokens, threshold, budgets.window) {
        return Decision::Keep(why);
    }
    if tokens >= budgets.hygiene_tokens && message_count >= HYGIENE_MESSAGES_MIN {
        let reason = format!("{tokens} tokens reach {} (85 % of the window)", budgets.hygiene_tokens);
        return compact(Trigger::Hygiene, reason);
    }
    let wants = if engine.host_decides { tokens >= threshold } else { engine.compress };
    if let Some(economy) = economy {
        let (worth, said) = economy.weigh();
        // A cold cache is the moment to compact, before the threshold too; a warm one may be worth waiting for.
        let is_moment = worth == Worth::AtOnce && tokens >= threshold / COLD_PART;
        if is_moment || (wants && worth.is_good()) {
            return compact(Trigger::Threshold, format!("{tokens} tokens, threshold {threshold}; {said}"));
        }
        return Decision::Keep(format!("{tokens} tokens, threshold {threshold}; {said}"));
    }
    let keep = if engine.host_decides {
        if tokens >= threshold {
            return compact(Trigger::Threshold, format!("{tokens} tokens reach the threshold of {threshold}"));
        }
        format!("{tokens} tokens are below the threshold of {threshold}")
    } else if engine.compress {
        return compact(Trigger::Threshold, engine.reason);
    } else {
        engine.reason
    };
    let idle_after = compression.idle_compact_after_seconds;
    if idle_after > 0 && idle_seconds >= idle_after && tokens > budgets.idle_floor_tokens {
        let reason = format!(
            "idle for {idle_seconds} s (compression.idle_compact_after_seconds is {idle_after}), and {tokens} tokens \
             are more than the {} that an idle conversation may have",
            budgets.idle_floor_tokens
        );
        return compact(Trigger::Idle, reason);
    }
    Decision::Keep(keep)
}

/// Each refusal of the same request asks for a smaller one; the last for the smallest there is.
fn on_overflow(attempt: u32, config: &Config, target_tokens: u64) -> Decision {
    if !config.compression.enabled {
        return Decision::Keep("the request is too long for the provider, and compression.enabled is false".to_owned());
    }
    if attempt > OVERFLOWS_MAX {
        return Decision::Keep(format!(
            "the provider refused the request {attempt} times, the last time at the smallest legal context"
        ));
    }
    let target_tokens = match attempt {
        0 | 1 => target_tokens,
        OVERFLOWS_MAX => 1,
        _ => target_tokens / 2,
    };
    let reason = format!("the provider refused the request as too long (attempt {attempt} of {OVERFLOWS_MAX})");
    Decision::Compact { trigger: Trigger::Overflow, reason, target_tokens }
}

#[cfg(test)]
mod tests;
