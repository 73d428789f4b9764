//! The answer is that of counting all, and texts that cannot change it are not counted.

use super::*;
use engine_api::{PartKind, Role};
use proptest::prelude::*;

fn message(text: &str) -> Message {
    Message::new(Role::User, "{}", vec![Part::new(PartKind::Text, text)])
}

fn exact(counter: Counter, messages: &[Message]) -> u64 {
    messages.iter().map(|message| u64::from(counter.count_message(message))).sum()
}

/// Texts that no other test of this process counts, so that the cache does not know them.
fn unseen(name: &str, words: usize) -> String {
    (0..words).map(|at| format!("{name} word {at} of the text\n")).collect()
}

#[test]
fn nothing_is_counted_where_bytes_decide() {
    let counter = Counter::for_model("gpt-4o");
    let messages = [message(&unseen("bytes decide", 1_000))];
    let below = counter.at_least(&messages, 1_000_000, Trust::Bounds);
    assert_eq!((below.is_at_least, below.counted_bytes, below.basis), (false, 0, Basis::Exact));
    let above = counter.at_least(&messages, 100, Trust::Bounds);
    assert_eq!((above.is_at_least, above.counted_bytes), (true, 0));
    assert!(above.fewest < above.most);
    assert_eq!(counter.at_least(&[], 1, Trust::Bounds).most, 0);
    assert!(counter.at_least(&[], 0, Trust::Bounds).is_at_least);
}

#[test]
fn the_newest_are_counted_until_the_answer_is_sure() {
    let counter = Counter::for_model("gpt-4o");
    let messages: Vec<Message> = (0..100).map(|at| message(&unseen(&format!("newest {at}"), 100))).collect();
    let bytes: usize = messages.iter().map(|message| message.parts[0].text.len()).sum();
    let one = exact(counter, &messages[99..]);
    let few = counter.at_least(&messages, one * 10, Trust::Bounds);
    assert!(few.is_at_least);
    assert!(few.counted_bytes > 0 && few.counted_bytes * 5 < bytes, "{} of {bytes} bytes", few.counted_bytes);
    // Asked again, what was counted is known, and no more is counted.
    let again = counter.at_least(&messages, one * 10, Trust::Bounds);
    assert_eq!((again.is_at_least, again.counted_bytes), (true, 0));
}

#[test]
fn a_threshold_at_the_very_count_is_reached_and_one_above_is_not() {
    let counter = Counter::for_model("claude-sonnet-5");
    let messages = [message(&unseen("the very count", 50)), message(""), message("汉字 👩‍👩‍👧")];
    let all = exact(Counter::for_model("gpt-4o"), &messages);
    let counted = counter.at_least(&messages, all, Trust::Bounds);
    assert_eq!((counted.is_at_least, counted.basis), (true, Basis::Proxy));
    assert!(!counter.at_least(&messages, all + 1, Trust::Bounds).is_at_least);
}

#[test]
fn an_estimate_decides_only_far_from_the_threshold_and_says_so() {
    let counter = Counter::for_model("gpt-4o");
    let messages: Vec<Message> = (0..50).map(|at| message(&unseen(&format!("estimated {at}"), 300))).collect();
    let about: u64 = messages.iter().map(|message| u64::from(Counter::estimating().count_message(message))).sum();
    for (threshold, is_at_least) in [(about / 2, true), (about * 2, false)] {
        let far = counter.at_least(&messages, threshold, Trust::Estimate);
        assert_eq!((far.is_at_least, far.counted_bytes, far.basis), (is_at_least, 0, Basis::Estimated));
    }
    let near = counter.at_least(&messages, about, Trust::Estimate);
    assert!(near.counted_bytes > 0);
    assert_eq!(near.basis, Basis::Exact);
    // Scripts and data that the estimate does not know are counted, however far the threshold.
    for unit in ["ሰላም ለዓለም ", "QUJD"] {
        let odd = [message(&unit.repeat(10_000))];
        assert!(counter.at_least(&odd, 11_000, Trust::Estimate).basis == Basis::Exact, "{unit}");
    }
}

#[test]
fn counters_without_a_vocabulary_answer_by_their_own_figure() {
    let messages = [message("abcdefgh")];
    let rough = Counter::rough();
    let all = exact(rough, &messages);
    assert!(rough.at_least(&messages, all, Trust::Bounds).is_at_least);
    assert!(!rough.at_least(&messages, all + 1, Trust::Bounds).is_at_least);
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        ("[a-zA-Z0-9 .,;_\n]{0,200}", 1usize..20).prop_map(|(unit, times)| unit.repeat(times)),
        ("[汉字あ한👍é \n]{0,40}", 1usize..20).prop_map(|(unit, times)| unit.repeat(times)),
        (any::<char>(), 1usize..3000).prop_map(|(unit, times)| String::from(unit).repeat(times)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_answer_is_always_that_of_counting_all(
        texts in prop::collection::vec(any_text(), 0..8),
        share in 0.0f64..2.0,
        nudge in -2i64..3,
    ) {
        let counter = Counter::for_model("gpt-4");
        let messages: Vec<Message> = texts.iter().map(|text| message(text)).collect();
        // By the second library, so that asking comes before the cache knows the texts.
        let peer = tiktoken_rs::cl100k_base_singleton();
        let all: u64 = texts.iter().map(|text| peer.count_ordinary(text) as u64 + u64::from(crate::MESSAGE_TOKENS)).sum();
        let threshold = ((all as f64 * share) as u64).saturating_add_signed(nudge);
        for threshold in [threshold, all.saturating_add_signed(nudge)] {
            let compared = counter.at_least(&messages, threshold, Trust::Bounds);
            prop_assert_eq!(compared.is_at_least, all >= threshold);
            prop_assert!(compared.fewest <= all && all <= compared.most);
            prop_assert_eq!(compared.basis, Basis::Exact);
        }
    }
}
