//! Takes secrets out of a text before it leaves the host, in time linear in the text's length.
//!
//! One automaton finds the places where a secret may begin: prefixes that vendors give their keys, names such as
//! `password`, the frames of private keys, addresses with credentials. Each place is looked at once, with bounded work,
//! so no text can be slow. What is masked keeps its kind: `[redacted:github-token]`. Redacting twice changes nothing,
//! and a JSON text stays one.

mod kind;
mod named;
mod pem;
mod run;
mod scan;
mod shape;
mod url;
mod vendor;

pub use kind::Kind;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// A secret found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// Where it is, in bytes: the secret alone, without the name or the quotes around it.
    pub range: Range<usize>,
}

/// How many secrets of each kind were masked.
pub type Counts = BTreeMap<Kind, usize>;

/// Finds the secrets of a text, in order and without overlap.
pub fn scan(text: &str) -> Vec<Finding> {
    scan::scan(text)
}

/// Returns the text with its secrets masked; borrowed if there is none.
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_counted(text).0
}

/// Passes over a text at most. A mask can bring out what stands beside it: a value that was none with the address in it.
const PASSES_MAX: usize = 4;

/// Returns the text with its secrets masked, and how many of each kind there were.
pub fn redact_counted(text: &str) -> (Cow<'_, str>, Counts) {
    let mut counts = Counts::new();
    let mut text = Cow::Borrowed(text);
    for _ in 0..PASSES_MAX {
        let findings = scan(&text);
        if findings.is_empty() {
            break;
        }
        text = Cow::Owned(masked(&text, findings, &mut counts));
    }
    (text, counts)
}

fn masked(text: &str, findings: Vec<Finding>, counts: &mut Counts) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for Finding { kind, range } in findings {
        out.push_str(text.get(done..range.start).unwrap_or_default());
        out.push_str(shape::MASK_START);
        out.push_str(kind.as_str());
        out.push(']');
        done = range.end;
        *counts.entry(kind).or_default() += 1;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}
