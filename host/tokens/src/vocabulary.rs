//! The published vocabularies: which model uses which, and counting in one without ever panicking.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::estimate::{bounds, estimate};
use crate::guard::pieces;

/// A published vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Vocabulary {
    /// GPT-4o and everything OpenAI published since. The open-weight models add special tokens only.
    O200k,
    /// GPT-4 and GPT-3.5.
    Cl100k,
}

/// Families in the order they are tried: `gpt-4o` must be seen before `gpt-4`.
const FAMILIES: &[(&str, Vocabulary)] = &[
    ("gpt-4o", Vocabulary::O200k),
    ("chatgpt-4o", Vocabulary::O200k),
    ("gpt-4.1", Vocabulary::O200k),
    ("gpt-4.5", Vocabulary::O200k),
    ("gpt-5", Vocabulary::O200k),
    ("gpt-oss", Vocabulary::O200k),
    ("codex", Vocabulary::O200k),
    ("o1", Vocabulary::O200k),
    ("o3", Vocabulary::O200k),
    ("o4", Vocabulary::O200k),
    ("gpt-4", Vocabulary::Cl100k),
    ("gpt-3.5", Vocabulary::Cl100k),
    ("gpt-35", Vocabulary::Cl100k),
];

/// Longest part of a model's name that is looked at; real names are far shorter.
const NAME_BYTES_MAX: usize = 256;

impl Vocabulary {
    /// Finds the vocabulary of a model, or nothing where it is not published.
    ///
    /// A route in front (`openrouter/openai/gpt-5`) and a fine-tune's frame (`ft:gpt-4o:org::id`) are looked through.
    pub(crate) fn of_model(model: &str) -> Option<Vocabulary> {
        if model.len() > NAME_BYTES_MAX {
            return None;
        }
        let name = model.trim().to_ascii_lowercase();
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = name.strip_prefix("ft:").unwrap_or(name);
        let name = name.strip_prefix("openai:").or_else(|| name.strip_prefix("openai.")).unwrap_or(name);
        let family = FAMILIES.iter().find(|(family, _)| {
            // `o1` must not claim `o1xyz`, nor `gpt-4` a `gpt-40`; `gpt-5` is open-ended, as in OpenAI's own table.
            name.strip_prefix(family)
                .is_some_and(|rest| *family == "gpt-5" || !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        });
        family.map(|(_, vocabulary)| *vocabulary)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Vocabulary::O200k => "o200k_base",
            Vocabulary::Cl100k => "cl100k_base",
        }
    }

    /// Counts a text, in time linear in its length.
    pub(crate) fn count(self, text: &str) -> u32 {
        let mut total = 0u32;
        // A run of one character is cut into equal pieces, which need counting once.
        let mut before = ("", 0u32);
        for piece in pieces(text) {
            if piece != before.0 {
                before = (piece, self.count_piece(piece));
            }
            total = total.saturating_add(before.1);
        }
        total
    }

    fn count_piece(self, piece: &str) -> u32 {
        // The library has invariants of its own to panic on, and a panic that crossed into a plugin would end the process.
        let counted = catch_unwind(AssertUnwindSafe(|| tiktoken::get_encoding(self.name()).map(|of| of.count(piece))));
        match counted {
            Ok(Some(count)) => u32::try_from(count).unwrap_or(u32::MAX),
            Ok(None) | Err(_) => {
                let bounds = bounds(piece.len());
                estimate(piece).clamp(*bounds.start(), *bounds.end())
            }
        }
    }
}
