//! Known counts, hostile texts, and the choice of a vocabulary.

use super::*;
use crate::estimate::bounds;
use proptest::prelude::*;

fn o200k(text: &str) -> u32 {
    Counter::for_model("gpt-4o").count(text)
}

fn cl100k(text: &str) -> u32 {
    Counter::for_model("gpt-4").count(text)
}

#[test]
fn counts_are_those_of_the_published_vocabularies() {
    // (text, cl100k, o200k) as OpenAI's cookbook and its own tokenizer give them.
    for (text, old, new) in [
        ("", 0, 0),
        ("tiktoken is great!", 6, 6),
        ("hello world", 2, 2),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 9, 8),
    ] {
        assert_eq!(cl100k(text), old, "cl100k {text:?}");
        assert_eq!(o200k(text), new, "o200k {text:?}");
    }
}

#[test]
fn a_special_token_counts_as_the_text_it_is() {
    assert!(o200k("<|endoftext|>") > 1);
}

#[test]
fn a_cached_count_equals_the_first_one() {
    let text = "A sentence that is long enough to be remembered by its content.";
    assert!(text.len() >= CACHED_BYTES_MIN);
    assert_eq!(o200k(text), o200k(text));
    assert_eq!(o200k(text), Vocabulary::O200k.count(text));
}

#[test]
fn threads_that_count_at_once_agree() {
    let texts: Vec<String> =
        (0..200).map(|at| format!("text {at} of many, counted by every thread at once 汉字").repeat(5)).collect();
    let all = || texts.iter().map(|text| o200k(text)).collect::<Vec<u32>>();
    let counts: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(all)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let right: Vec<u32> = texts.iter().map(|text| Vocabulary::O200k.count(text)).collect();
    assert!(counts.iter().all(|one| *one == right));
}

#[test]
fn the_model_decides_the_vocabulary_and_the_basis() {
    let seen = |model: &str| {
        let counter = Counter::for_model(model);
        (counter.encoding(), counter.basis())
    };
    for model in [
        "gpt-4o",
        "GPT-4o-mini",
        "chatgpt-4o-latest",
        "gpt-4.1-nano",
        "gpt-5",
        "gpt-5.2-codex",
        "gpt-5.4-900k",
        "o1",
        "o3-mini",
        "o4-mini-high",
        "codex-mini-latest",
        "openrouter/openai/gpt-5",
        "ft:gpt-4o-2024-08-06:org::id",
        "gpt-oss-120b",
    ] {
        assert_eq!(seen(model), ("o200k_base", Basis::Exact), "{model}");
    }
    for model in ["gpt-4", "gpt-4-turbo", "gpt-4-32k", "gpt-3.5-turbo-0125", "gpt-35-turbo"] {
        assert_eq!(seen(model), ("cl100k_base", Basis::Exact), "{model}");
    }
    for model in ["claude-sonnet-5", "", "gemini-3-pro", "o1xyz", "gpt-40", "my/fine gpt-4", &"gpt-5".repeat(200)] {
        assert_eq!(seen(model), ("o200k_base", Basis::Proxy), "{model}");
    }
    assert_eq!(Counter::estimating().basis(), Basis::Estimated);
    assert_eq!(Counter::rough().count("abcde"), 2);
}

#[test]
fn a_million_of_anything_is_counted_within_its_bounds() {
    let base64: String = (0u64..1_000_000)
        .map(|i| {
            const SET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            char::from(SET[((i.wrapping_mul(6_364_136_223_846_793_005) >> 33) % 64) as usize])
        })
        .collect();
    for text in [
        " ".repeat(1_000_000),
        "A".repeat(1_000_000),
        "\n".repeat(1_000_000),
        "_".repeat(1_000_000),
        "7".repeat(1_000_000),
        base64,
        "汉".repeat(1_000_000),
        "👩‍👩‍👧".repeat(100_000),
        "a\u{301}".repeat(300_000),
        "\u{0}".repeat(1_000_000),
    ] {
        let count = o200k(&text);
        assert!(bounds(text.len()).contains(&count), "{count} tokens of {} bytes", text.len());
    }
}

#[test]
fn a_cut_hardly_changes_a_count() {
    for unit in [" ", "A", "word ", "汉"] {
        let text = unit.repeat(120_000 / unit.len());
        let whole = tiktoken_rs::o200k_base_singleton().count_ordinary(&text) as i64;
        let guarded = i64::from(o200k(&text));
        assert!((whole - guarded).abs() <= 8, "{unit:?}: {whole} whole, {guarded} guarded");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_has_a_count_within_its_bounds(text in any::<String>(), times in 1usize..40) {
        let text = text.repeat(times);
        for counter in [Counter::for_model("gpt-4o"), Counter::for_model("gpt-4")] {
            let count = counter.count(&text);
            prop_assert!(bounds(text.len()).contains(&count));
        }
        Counter::estimating().count(&text);
    }
}
