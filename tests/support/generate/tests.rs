//! What the generator promises: well-formed lists without faults, every fault with them, the same bytes each time.

use super::*;
use crate::judge::{self, Dialect, Finding};
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 3_000;

#[test]
fn lists_without_faults_have_no_errors() {
    for dialect in Dialect::ALL {
        for seed in 0..SEEDS {
            let raw = history(seed, dialect, &Shape::default());
            let errors = judge::errors(&raw, dialect);
            assert!(errors.is_empty(), "{} seed {seed}: {}\n{}", dialect.name(), errors[0], raw.join("\n"));
        }
    }
}

#[test]
fn long_lists_without_faults_have_no_errors() {
    for dialect in Dialect::ALL {
        for seed in 0..60 {
            let raw = history(seed, dialect, &Shape::long());
            assert_eq!(judge::errors(&raw, dialect), [], "{} seed {seed}", dialect.name());
        }
    }
}

/// Codes of the errors that a list of messages alone can have.
fn error_codes(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::OpenAi => &[
            "arguments_type",
            "bad_part",
            "bad_role",
            "bad_tool_calls",
            "call_type",
            "call_without_id",
            "call_without_name",
            "calls_in_role",
            "content_type",
            "duplicate_id",
            "empty_content",
            "empty_tool_calls",
            "foreign_part",
            "function_without_name",
            "missing_result",
            "no_messages",
            "not_an_object",
            "null_content",
            "orphan_result",
            "tool_without_id",
        ],
        Dialect::Anthropic => &[
            "bad_block",
            "bad_id",
            "bad_name",
            "bad_result_part",
            "bad_role",
            "bad_source",
            "blank_text",
            "block_in_role",
            "cache_control",
            "cache_on_thinking",
            "content_type",
            "duplicate_id",
            "duplicate_result",
            "empty_content",
            "empty_error_result",
            "empty_text",
            "first_not_user",
            "input_type",
            "missing_result",
            "no_messages",
            "not_an_object",
            "null_content",
            "orphan_result",
            "result_not_first",
            "result_without_id",
            "thinking_last",
            "trailing_space",
            "unsigned_thinking",
        ],
        Dialect::Responses => &[
            "arguments_type",
            "bad_role",
            "block_in_role",
            "call_without_id",
            "call_without_name",
            "duplicate_id",
            "duplicate_result",
            "empty_content",
            "missing_result",
            "no_messages",
            "not_an_item",
            "not_an_object",
            "null_content",
            "orphan_result",
            "result_before_call",
            "result_without_id",
        ],
    }
}

#[test]
fn faults_bring_every_error() {
    for dialect in Dialect::ALL {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut clean_count = 0;
        for seed in 0..SEEDS {
            let errors = judge::errors(&history(seed, dialect, &Shape::default().with_faults()), dialect);
            clean_count += usize::from(errors.is_empty());
            let codes: BTreeSet<&str> = errors.iter().map(|error: &Finding| error.code).collect();
            codes.into_iter().for_each(|code| *counts.entry(code).or_default() += 1);
        }
        let codes: Vec<&str> = counts.keys().copied().collect();
        assert_eq!(codes, error_codes(dialect), "{}: {counts:?}", dialect.name());
        assert!(clean_count < SEEDS as usize / 2, "{}: {clean_count} lists without an error", dialect.name());
    }
}

#[test]
fn warnings_come_up_in_lists_without_faults() {
    let wanted: [(Dialect, &[&str]); 3] = [
        (
            Dialect::OpenAi,
            &[
                "arguments_json",
                "assistant_first",
                "call_name",
                "call_type",
                "duplicate_id",
                "duplicate_result",
                "empty_content",
                "function_name_mismatch",
                "late_system",
                "missing_result",
                "unknown_part",
            ],
        ),
        (Dialect::Anthropic, &["same_role", "unknown_block"]),
        (Dialect::Responses, &["unknown_item"]),
    ];
    for (dialect, wanted) in wanted {
        let mut codes = BTreeSet::new();
        for seed in 0..SEEDS {
            let messages: Vec<_> =
                history(seed, dialect, &Shape::default()).iter().map(|raw| judge::read(raw).unwrap()).collect();
            codes.extend(judge::check(&messages, dialect, None).iter().map(|finding| finding.code));
        }
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), wanted, "{}", dialect.name());
    }
}

#[test]
fn a_seed_gives_the_same_bytes_again_and_other_seeds_give_others() {
    for dialect in Dialect::ALL {
        for shape in [Shape::default(), Shape::default().with_faults()] {
            let lists: Vec<_> = (0..100).map(|seed| history(seed, dialect, &shape)).collect();
            assert!((0..100).all(|seed| history(seed, dialect, &shape) == lists[seed as usize]));
            let distinct: BTreeSet<_> = lists.iter().collect();
            assert!(distinct.len() > 90, "{} lists of 100", distinct.len());
        }
    }
}

#[test]
fn only_a_burst_of_calls_is_longer_than_asked() {
    let shape = Shape { faults: false, max_messages: 10, size: 20 };
    for dialect in Dialect::ALL {
        let (mut longer_count, mut bytes_max) = (0, 0);
        for seed in 0..SEEDS {
            let raw = history(seed, dialect, &shape);
            assert!(!raw.is_empty());
            // A group of a dozen calls may come in pieces, and brings its reasoning and the answers that were put off.
            longer_count += usize::from(raw.len() > shape.max_messages + 30);
            bytes_max = bytes_max.max(raw.iter().map(String::len).max().unwrap_or(0));
        }
        let few = SEEDS as usize / 50;
        assert!(longer_count < few, "{}: {longer_count} lists are longer than asked", dialect.name());
        assert!(bytes_max < 200_000, "{}: a message of {bytes_max} bytes", dialect.name());
    }
}

#[test]
fn what_breaks_programs_comes_up() {
    for dialect in Dialect::ALL {
        let mut all = String::new();
        let mut parallel_max = 0;
        let mut longest = 0;
        for seed in 0..SEEDS {
            for message in history(seed, dialect, &Shape::default()) {
                parallel_max = parallel_max.max(message.matches("\"arguments\"").count());
                parallel_max = parallel_max.max(message.matches("\"tool_use\"").count());
                longest = longest.max(message.len());
                if all.len() < 8_000_000 {
                    all.push_str(&message);
                }
            }
        }
        for needle in
            ["\\u0000", "\\ud8", "😀", "テスト", "\\uD83D\\uDE00", "\\/", "\n  ", "x_twice", "\u{202e}", "[[[["]
        {
            assert!(all.contains(needle), "{}: no {needle:?}", dialect.name());
        }
        assert!(longest > 20_000, "{}: longest message has {longest} bytes", dialect.name());
        if dialect != Dialect::Responses {
            assert!(parallel_max > 100, "{}: at most {parallel_max} calls in one message", dialect.name());
        }
    }
}
