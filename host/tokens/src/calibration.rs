//! Learns from a provider's reported usage what a session's counts are worth in that provider's tokens.
//!
//! Two things stand between a count and a report: an overhead that is not in the messages (instructions, tool schemas,
//! framing), and a factor (another vocabulary, another JSON around the parts). One report cannot tell them apart, so
//! the factor comes from how reports grow as counts grow, and everything else is carried by the last report: what is
//! expected of a request is the last report plus the calibrated count of what was added since.

use serde::{Deserialize, Serialize};

use crate::counter::Basis;

/// Factors of real vocabularies lie above 0.7; servers that report a quarter of the characters are at 0.63 of o200k where
/// the text is mostly digits. A report that asks for another factor is explained by the overhead.
const FACTOR_MIN: f64 = 0.6;
const FACTOR_MAX: f64 = 1.8;
/// The factor before anything was reported, where another vocabulary stands in: Claude's reports are 15–30 % above o200k.
const PROXY_FACTOR: f64 = 1.2;
/// A quarter of the characters is a fifth below o200k on agent conversations.
const ROUGH_FACTOR: f64 = 1.25;
/// Tokens of growth that the first factor weighs; one turn with a tool's answer outweighs it.
const FIRST_FACTOR_TOKENS: f64 = 500.0;
/// What an older growth weighs beside one as large that came a report later.
const DECAY: f64 = 0.85;
/// Growth is taken within these factors, so that a picture or a hidden reminder cannot spoil the others.
const GROWTH_FACTORS: (f64, f64) = (0.5, 2.5);

/// A report below this part of the count is no count of the same messages (cached tokens left out, a fixed number).
const PLAUSIBLE_SHARE_MIN: f64 = 0.5;
/// Largest overhead that is believed: instructions and some hundreds of tools.
const OVERHEAD_TOKENS_MAX: f64 = 200_000.0;
/// Larger than any context window.
const REPORT_TOKENS_MAX: u64 = 100_000_000;

/// A report may miss what was expected by this share without being set aside …
const SURPRISE_SHARE_MAX: f64 = 0.15;
/// … or by these tokens, which are much of a short conversation.
const SURPRISE_TOKENS_MIN: f64 = 2_000.0;
/// Reports in a row that must agree with each other to be believed against what was expected.
const AGREEING_REPORTS_MIN: u32 = 2;

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It is what the next estimates rest on.
    Taken,
    /// It cannot be the usage of these messages, so it changed nothing.
    Impossible,
    /// It is far from what was expected; it counts if the next one agrees with it.
    SetAside,
}

/// What a session's counts are worth in the provider's tokens, learnt from its reports.
///
/// Small, and made to be stored with the session. Values read from elsewhere are as safe as its own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calibration {
    first_factor: f64,
    /// Weighted sums over the growth from one report to the next.
    counted_growth: f64,
    reported_growth: f64,
    last: Option<Report>,
    doubtful: Option<Report>,
    doubtful_count: u32,
}

/// A request's count, and the prompt tokens that the provider reported for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    counted: u64,
    reported: u64,
}

impl Default for Calibration {
    fn default() -> Self {
        Calibration::new(Basis::Exact)
    }
}

impl Calibration {
    /// Makes one that has heard nothing, for counts of this basis.
    pub const fn new(basis: Basis) -> Calibration {
        let first_factor = match basis {
            Basis::Exact | Basis::Estimated => 1.0,
            Basis::Proxy => PROXY_FACTOR,
            Basis::Rough => ROUGH_FACTOR,
        };
        Calibration {
            first_factor,
            counted_growth: 0.0,
            reported_growth: 0.0,
            last: None,
            doubtful: None,
            doubtful_count: 0,
        }
    }

    /// Hears the prompt tokens (cached ones included) that were reported for a request whose messages counted `counted`.
    pub fn observe(&mut self, counted: u64, reported: u64) -> Heard {
        let report = Report { counted, reported };
        if !report.is_possible() {
            return Heard::Impossible;
        }
        let Some(last) = self.last else {
            self.last = Some(report);
            return Heard::Taken;
        };
        if self.is_surprising(last, report) {
            let agrees = self.doubtful.is_some_and(|doubtful| !self.is_surprising(doubtful, report));
            self.doubtful_count = if agrees { self.doubtful_count.saturating_add(1) } else { 1 };
            self.doubtful = Some(report);
            if self.doubtful_count < AGREEING_REPORTS_MIN {
                return Heard::SetAside;
            }
        } else if counted > last.counted {
            let grown = (counted - last.counted) as f64;
            let (fewest, most) = GROWTH_FACTORS;
            let reported_growth = (reported as f64 - last.reported as f64).clamp(grown * fewest, grown * most);
            // Whole tokens are the same number after they were stored as JSON.
            self.counted_growth = (self.counted_growth * DECAY + grown).round();
            self.reported_growth = (self.reported_growth * DECAY + reported_growth).round();
        }
        self.last = Some(report);
        self.doubtful = None;
        self.doubtful_count = 0;
        Heard::Taken
    }

    /// Returns the reported tokens that one counted token is worth.
    pub fn factor(&self) -> f64 {
        let reported = self.reported_growth + FIRST_FACTOR_TOKENS * self.first_factor;
        let factor = reported / (self.counted_growth + FIRST_FACTOR_TOKENS);
        if factor.is_finite() { factor.clamp(FACTOR_MIN, FACTOR_MAX) } else { 1.0 }
    }

    /// Returns the tokens of a request that are in none of its messages; 0 until something was reported.
    pub fn overhead(&self) -> u64 {
        self.last.map_or(0, |last| (last.reported as f64 - self.factor() * last.counted as f64).max(0.0) as u64)
    }

    /// Returns the prompt tokens to expect for a request whose messages count `counted`.
    pub fn apply(&self, counted: u64) -> u64 {
        match self.last {
            Some(last) => self.from(last, counted).round() as u64,
            None => (self.factor() * counted as f64).round() as u64,
        }
    }

    /// Tells whether anything was reported yet.
    pub fn is_calibrated(&self) -> bool {
        self.last.is_some()
    }

    /// Returns what is expected of a count, given one report.
    fn from(&self, report: Report, counted: u64) -> f64 {
        let (reported, before) = (report.reported as f64, report.counted as f64);
        let without_growth = reported - self.factor() * before;
        if counted < report.counted && without_growth < 0.0 {
            // The factor is too high for the whole of this request, and nothing has less than no overhead.
            return reported * counted as f64 / before.max(1.0);
        }
        reported + self.factor() * (counted as f64 - before)
    }

    fn is_surprising(&self, before: Report, report: Report) -> bool {
        let expected = self.from(before, report.counted);
        // What was added or left away may have a factor of its own.
        let changed = report.counted.abs_diff(before.counted) as f64 * (FACTOR_MAX - 1.0);
        let surprise = (report.reported as f64 - expected).abs();
        surprise > (SURPRISE_SHARE_MAX * expected + changed).max(SURPRISE_TOKENS_MIN)
    }
}

impl Report {
    fn is_possible(self) -> bool {
        let (counted, reported) = (self.counted as f64, self.reported as f64);
        (1..=REPORT_TOKENS_MAX).contains(&self.reported)
            && reported >= counted * PLAUSIBLE_SHARE_MIN
            && reported <= counted * FACTOR_MAX + OVERHEAD_TOKENS_MAX
    }
}

#[cfg(test)]
mod tests;
