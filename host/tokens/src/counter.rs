//! The counter of one model: which vocabulary it uses and what its counts rest on.

use crate::cache;
use crate::estimate::{estimate, rough_text};
use crate::vocabulary::Vocabulary;

/// Texts shorter than this are counted faster than they are looked up.
const CACHED_BYTES_MIN: usize = 24;

/// What a count rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Counted in the model's own vocabulary.
    Exact,
    /// Counted in o200k, which stands in for a vocabulary that is not published.
    Proxy,
    /// Estimated from classes of bytes.
    Estimated,
    /// A quarter of the characters.
    Rough,
}

impl Basis {
    /// Returns the word written in receipts and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Basis::Exact => "exact",
            Basis::Proxy => "proxy",
            Basis::Estimated => "estimated",
            Basis::Rough => "rough",
        }
    }
}

impl std::fmt::Display for Basis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Vocabulary(Vocabulary),
    Estimate,
    Quarter,
}

/// Counts tokens for one model.
///
/// Making one costs nothing: a vocabulary is read on the first count that needs it, once in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    method: Method,
    basis: Basis,
}

impl Counter {
    /// Makes the counter for a model's name, as a client or a configuration writes it.
    pub fn for_model(model: &str) -> Counter {
        match Vocabulary::of_model(model) {
            Some(vocabulary) => Counter { method: Method::Vocabulary(vocabulary), basis: Basis::Exact },
            None => Counter { method: Method::Vocabulary(Vocabulary::O200k), basis: Basis::Proxy },
        }
    }

    /// Makes a counter that only estimates and never reads a vocabulary.
    pub fn estimating() -> Counter {
        Counter { method: Method::Estimate, basis: Basis::Estimated }
    }

    /// Makes a counter that takes a quarter of the characters, as Hermes does.
    pub fn rough() -> Counter {
        Counter { method: Method::Quarter, basis: Basis::Rough }
    }

    /// Returns the name of the vocabulary or of the estimate.
    pub fn encoding(&self) -> &'static str {
        match self.method {
            Method::Vocabulary(vocabulary) => vocabulary.name(),
            Method::Estimate => "byte_classes",
            Method::Quarter => "chars_4",
        }
    }

    /// Returns what the counts rest on.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Returns the vocabulary, if this counter counts in one.
    pub(crate) fn vocabulary(&self) -> Option<Vocabulary> {
        match self.method {
            Method::Vocabulary(vocabulary) => Some(vocabulary),
            Method::Estimate | Method::Quarter => None,
        }
    }

    /// Counts a text. Markers such as `<|endoftext|>` count as the ordinary text they are.
    pub fn count(&self, text: &str) -> u32 {
        let vocabulary = match self.method {
            Method::Vocabulary(vocabulary) => vocabulary,
            Method::Estimate => return estimate(text),
            Method::Quarter => return u32::try_from(rough_text(text)).unwrap_or(u32::MAX),
        };
        if text.len() < CACHED_BYTES_MIN {
            return vocabulary.count(text);
        }
        cache::count_once(vocabulary, text)
    }
}

#[cfg(test)]
mod tests;
