//! How large the next request is, and what earlier compactions came to: the provider's last report, what was added
//! since, and when a decision waits for the next report.
//!
//! Pure numbers. A report of the provider is believed before any count, unless it is impossible.

use crate::breaker::Breaker;
use engine_api::{Basis, MessageId, PromptTokens};

/// A report below this part of our own count is no report of the whole prompt (some leave out cached tokens).
const REPORT_PART_MIN: u64 = 3;
/// Growth since a request that was measured to fit which is taken to fit as well: tokens, or a part of the threshold.
/// Hermes' figures.
const DEFER_TOKENS: u64 = 4_096;
const DEFER_PART: u64 = 20;
/// A compaction that takes away less than one in this many tokens had no effect worth its cost.
const EFFECT_PART: u64 = 20;
/// Times that one refused request is made smaller and tried again: once for the threshold, once for half of it, once
/// for the smallest legal context.
pub const OVERFLOWS_MAX: u32 = 3;
/// Requests in a row that fit in no form, after which the next is tried in its smallest form only.
const HOPELESS_MAX: u32 = 2;

/// The provider's report of one request, and our own count of the same request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Report {
    reported: u64,
    counted: u64,
}

/// What is known of a session's size between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    breaker: Breaker,
    report: Option<Report>,
    /// Our count after a compaction that the provider has not measured yet.
    unmeasured: Option<u64>,
    /// A decision has waited for that measurement already.
    has_waited: bool,
    /// Our count of the largest request that the provider measured to fit.
    fits: u64,
    /// The newest message of the request that the provider refused last, and how often it did.
    refused: (MessageId, u32),
    /// Requests in a row that were refused even as the smallest legal context.
    hopeless: u32,
}

impl Pressure {
    /// Starts with the provider's report of an earlier run.
    pub fn reported(reported: u64, counted: u64) -> Self {
        Pressure { report: Some(Report { reported, counted }), ..Pressure::default() }
    }

    /// Returns how large the next request is: the last report and what we count since, or what is expected of our own
    /// count.
    ///
    /// `expected` is the whole request in the provider's tokens as far as they are known, `scale` turns our count of what
    /// was added into them.
    pub fn prompt_tokens(&self, counted: PromptTokens, expected: u64, scale: &dyn Fn(u64) -> u64) -> PromptTokens {
        match self.report {
            Some(report) => {
                let added = scale(counted.count.saturating_sub(report.counted));
                let removed = scale(report.counted.saturating_sub(counted.count));
                let count = report.reported.saturating_add(added).saturating_sub(removed);
                PromptTokens { count, basis: Basis::Reported }
            }
            None => PromptTokens { count: expected, ..counted },
        }
    }

    /// Turns a target in the provider's tokens into one in ours, never into a larger one.
    pub fn in_our_count(&self, target_tokens: u64, prompt_tokens: u64) -> u64 {
        let Some(report) = self.report.filter(|report| report.reported > report.counted) else { return target_tokens };
        // What a report has beyond our count is taken to be there after the compaction as well.
        let beyond = report.reported - report.counted;
        let of_ours = u128::from(target_tokens) * u128::from(report.counted) / u128::from(report.reported.max(1));
        let scaled = u64::try_from(of_ours).unwrap_or(u64::MAX);
        target_tokens.saturating_sub(beyond).max(scaled.min(target_tokens)).min(prompt_tokens)
    }

    /// Tells whether a report can be one of the whole prompt that we counted.
    pub fn is_possible(reported: u64, counted: u64) -> bool {
        reported > 0 && reported >= counted / REPORT_PART_MIN
    }

    /// Hears the usage of an answered request; 0 or an impossible figure counts as none.
    pub fn measured(&mut self, reported: u64, counted: u64, threshold_tokens: u64) {
        self.refused = Default::default();
        self.hopeless = 0;
        let unmeasured = self.unmeasured.take();
        self.has_waited = false;
        if !Pressure::is_possible(reported, counted) {
            self.report = None;
            return;
        }
        self.breaker.measured(reported, threshold_tokens);
        if reported < threshold_tokens
            && let Some(after) = unmeasured
        {
            self.fits = after;
        }
        self.report = Some(Report { reported, counted });
    }

    /// Hears that a compaction was applied: our counts before and after it.
    pub fn compacted(&mut self, before: u64, after: u64, threshold_tokens: u64) {
        self.report = None;
        self.has_waited = false;
        self.unmeasured = Some(after);
        if after >= threshold_tokens || before.saturating_sub(after) < before / EFFECT_PART {
            // No report is needed to see that this one had no effect.
            self.breaker.found_nothing(after);
        } else {
            self.breaker.compacted();
        }
    }

    /// Hears that a compaction found nothing smaller.
    pub fn found_nothing(&mut self, prompt_tokens: u64) {
        self.breaker.found_nothing(prompt_tokens);
    }

    /// Hears that the provider refused a request as too long; returns how often it has refused this one, this time
    /// included. Its newest message tells one request from another, whatever was compacted before it.
    pub fn refused(&mut self, newest: MessageId) -> u32 {
        let times = match self.refused {
            (same, times) if same == newest => times,
            // Where two requests in a row could not be made to fit, only the smallest context is tried for the next.
            _ if self.hopeless >= HOPELESS_MAX => OVERFLOWS_MAX.saturating_sub(1),
            _ => 0,
        };
        if times == OVERFLOWS_MAX {
            self.hopeless = self.hopeless.saturating_add(1);
        }
        self.refused = (newest, times.saturating_add(1));
        self.report = None;
        self.fits = 0;
        self.unmeasured = None;
        self.refused.1
    }

    /// Forgets everything: another model counts otherwise and has another window.
    pub fn reset(&mut self) {
        *self = Pressure::default();
    }

    /// Returns why no compaction may start by itself now, if it may not.
    pub fn blocks(&self, prompt_tokens: u64) -> Option<String> {
        self.breaker.blocks(prompt_tokens)
    }

    /// Returns why a count that rests on no report should wait for the next one, if it should. Hearing so counts as
    /// waiting: without any report the next decision is made on the count.
    pub fn defers(&mut self, prompt_tokens: PromptTokens, threshold_tokens: u64, window: u64) -> Option<String> {
        let tokens = prompt_tokens.count;
        if prompt_tokens.basis == Basis::Reported || tokens >= window {
            return None;
        }
        if self.unmeasured.is_some() && !self.has_waited {
            self.has_waited = true;
            return Some(format!("{tokens} tokens are our count; the provider measures the compacted request first"));
        }
        let tolerance = DEFER_TOKENS.max(threshold_tokens / DEFER_PART);
        if self.fits > 0 && tokens >= threshold_tokens && tokens <= self.fits.saturating_add(tolerance) {
            let fits = self.fits;
            self.fits = fits.max(tokens);
            return Some(format!(
                "{tokens} tokens are our count; the provider measured a request that we count as {fits} below the threshold"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests;
