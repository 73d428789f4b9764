//! Answers whether messages reach a threshold, and counts only as far as the answer needs.
//!
//! Every text that was not counted yet has a fewest and a most number of tokens. While the threshold lies between the sum
//! of the fewest and the sum of the most, texts are counted, newest first: those are the ones that stay, so their counts
//! are needed anyway.

use engine_api::{Message, Part};

use crate::cache;
use crate::counter::{Basis, Counter};
use crate::estimate::{bounds, estimate, is_ordinary};
use crate::measure::{framing, texts_of};

/// What may decide without counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Only what holds for every text: the answer is always that of counting all.
    Bounds,
    /// The estimate by byte classes as well, with its margin: the answer is very likely that of counting all.
    Estimate,
}

/// The answer to whether some messages reach a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// Whether they have that many tokens or more.
    pub is_at_least: bool,
    /// What the answer rests on: the counter's own basis where bounds decided, [`Basis::Estimated`] where an estimate did.
    pub basis: Basis,
    /// Bytes that had to be counted for it.
    pub counted_bytes: usize,
    /// The fewest tokens there can be, and the most; equal if all was counted.
    pub fewest: u64,
    pub most: u64,
}

/// The margin of an estimate of many texts is a twentieth: windows of 200 messages stayed within -3.0 % and +1.5 %.
const MANY_TEXTS_MARGIN: u64 = 20;
/// Fewer tokens than this are no such window; single messages were up to a seventh off, short ones more.
const MANY_TEXTS_TOKENS: u64 = 40_000;
const FEW_TEXTS_MARGIN: u64 = 4;

impl Counter {
    /// Tells whether the messages have `threshold` tokens or more.
    pub fn at_least(&self, messages: &[Message], threshold: u64, trust: Trust) -> Compared {
        let Some(vocabulary) = self.vocabulary() else {
            let counted = messages.iter().map(|message| u64::from(self.count_message(message))).sum();
            let is_at_least = counted >= threshold;
            return Compared { is_at_least, basis: self.basis(), counted_bytes: 0, fewest: counted, most: counted };
        };
        let mut span = Span::default();
        let mut unknown: Vec<&str> = Vec::new();
        for message in messages {
            span.add_known(u64::from(framing(message)));
            for text in message.parts.iter().flat_map(|part: &Part| texts_of(part)).filter(|text| !text.is_empty()) {
                match cache::known(vocabulary, text) {
                    Some(count) => span.add_known(u64::from(count)),
                    None => {
                        span.add_unknown(text);
                        unknown.push(text);
                    }
                }
            }
        }
        let mut counted_bytes = 0;
        let answer = |span: &Span, counted_bytes: usize| -> Option<Compared> {
            let is_at_least = if span.fewest >= threshold {
                true
            } else if span.most < threshold {
                false
            } else {
                return None;
            };
            let (fewest, most) = (span.fewest, span.most);
            Some(Compared { is_at_least, basis: self.basis(), counted_bytes, fewest, most })
        };
        if let Some(answer) = answer(&span, counted_bytes) {
            return answer;
        }
        if trust == Trust::Estimate
            && let Some(is_at_least) = span.likely(&unknown, threshold)
        {
            let (fewest, most) = (span.fewest, span.most);
            return Compared { is_at_least, basis: Basis::Estimated, counted_bytes, fewest, most };
        }
        for text in unknown.into_iter().rev() {
            span.count(text, u64::from(self.count(text)));
            counted_bytes += text.len();
            if let Some(answer) = answer(&span, counted_bytes) {
                return answer;
            }
        }
        // All is counted, so the fewest are the most.
        let is_at_least = span.fewest >= threshold;
        Compared { is_at_least, basis: self.basis(), counted_bytes, fewest: span.fewest, most: span.most }
    }
}

/// The fewest and the most tokens that there can be.
#[derive(Default)]
struct Span {
    fewest: u64,
    most: u64,
}

impl Span {
    fn add_known(&mut self, count: u64) {
        self.fewest += count;
        self.most += count;
    }

    fn add_unknown(&mut self, text: &str) {
        let bounds = bounds(text.len());
        self.fewest += u64::from(*bounds.start());
        self.most += u64::from(*bounds.end());
    }

    /// Puts a count in the place of its bounds.
    fn count(&mut self, text: &str, count: u64) {
        let bounds = bounds(text.len());
        self.fewest = (self.fewest + count).saturating_sub(u64::from(*bounds.start()));
        self.most = (self.most + count).saturating_sub(u64::from(*bounds.end()));
    }

    /// Decides by the estimate of the unknown texts, if the threshold is outside its margin.
    fn likely(&self, unknown: &[&str], threshold: u64) -> Option<bool> {
        let mut rest = Span { fewest: self.fewest, most: self.most };
        let mut estimated = 0u64;
        // What is not ordinary keeps its bounds.
        for text in unknown.iter().filter(|text| is_ordinary(text)) {
            rest.count(text, 0);
            estimated += u64::from(estimate(text));
        }
        let margin = if estimated >= MANY_TEXTS_TOKENS { MANY_TEXTS_MARGIN } else { FEW_TEXTS_MARGIN };
        if rest.fewest + estimated - estimated / margin >= threshold {
            Some(true)
        } else if rest.most + estimated + estimated / margin < threshold {
            Some(false)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests;
