//! The choice between the live prefix and a question apart, by numbers.

use super::*;
use crate::endpoint::Endpoints;
use host_config::{Config, Secret};
use host_core::summariser::MainModel;

fn target(model: &str, base_url: &str, window: u64) -> Target {
    let mut config = Config::default();
    let settings = &mut config.auxiliary.compression;
    settings.base_url = base_url.to_owned();
    settings.model = model.to_owned();
    settings.api_key = Secret::new("k");
    let found = Endpoints::new(&config, &|_| None).auxiliary(&MainModel::default(), &Prices::embedded()).unwrap();
    Target { window: if window > 0 { window } else { found.window }, ..found }
}

fn sizes(prefix: u64, material: u64, is_cache_warm: bool) -> Sizes {
    Sizes { prefix, material, summary: 4_000, is_cache_warm }
}

fn route(main: &str, other: &str, sizes: &Sizes) -> Result<Route, String> {
    let (main, other) = (target(main, "https://a.example/v1", 0), target(other, "https://a.example/v1", 0));
    choose(&Options { prefix: Ok(&main), apart: Ok(&other) }, sizes, &Prices::embedded())
}

#[test]
fn the_cheaper_way_is_chosen() {
    let cases = [
        // The same model: reading all from the cache beats reading the material anew, and a cold cache does not.
        ("claude-opus-5-5", "claude-opus-5-5", 100_000, 80_000, true, CompletionModel::MainOnPrefix),
        ("claude-opus-5-5", "claude-opus-5-5", 100_000, 80_000, false, CompletionModel::Auxiliary),
        // A much smaller model is cheaper even without a cache, as its answer is.
        ("claude-opus-5-5", "gpt-5-nano", 100_000, 80_000, true, CompletionModel::Auxiliary),
        // Little material in a long prefix.
        ("gpt-4o", "gpt-4o", 100_000, 10_000, true, CompletionModel::Auxiliary),
        // Unknown prices: by the stated ratios.
        ("a", "a", 100_000, 80_000, true, CompletionModel::MainOnPrefix),
        ("a", "a", 100_000, 80_000, false, CompletionModel::Auxiliary),
        ("a", "b", 100_000, 20_000, true, CompletionModel::Auxiliary),
        ("a", "b", 0, 20_000, true, CompletionModel::Auxiliary),
    ];
    for (main, other, prefix, material, is_warm, want) in cases {
        let route = route(main, other, &sizes(prefix, material, is_warm)).unwrap();
        assert_eq!(route.model, want, "{main} {other} {prefix}: {}", route.reason);
    }
}

#[test]
fn the_reason_has_the_numbers() {
    let known = route("claude-opus-5-5", "claude-opus-5-5", &sizes(100_000, 80_000, true)).unwrap();
    // 4 $ × (0.05 × 100,000 + 1.25 × 1,700) + 20 $ × 4,000, and 4 $ × 81,700 + 20 $ × 4,000, for a million.
    for part in [
        "claude-opus-5-5 on its live prefix (100000 tokens, cache warm, 4000 written) costs $0.1085",
        "apart (81700 tokens read, 4000 written) $0.4068",
        "prices of 20",
    ] {
        assert!(known.reason.contains(part), "{}", known.reason);
    }
    let unknown = route("a", "b", &sizes(100_000, 80_000, true)).unwrap();
    assert!(unknown.reason.contains("units") && unknown.reason.contains("not known"), "{}", unknown.reason);
}

#[test]
fn a_way_that_does_not_fit_is_left_out() {
    let small = target("a", "https://a.example/v1", 50_000);
    let large = target("b", "https://a.example/v1", 1_000_000);
    let prices = Prices::embedded();
    let at = |prefix, apart| {
        choose(&Options { prefix: Ok(prefix), apart: Ok(apart) }, &sizes(100_000, 80_000, true), &prices)
    };
    let route = at(&small, &large).unwrap();
    assert!(route.name == "b" && route.reason.contains("needs 105700 tokens of a window of 50000"), "{}", route.reason);
    // In pieces where nothing else is possible.
    let route = at(&small, &small).unwrap();
    assert!(route.reason.contains("in 3 pieces"), "{}", route.reason);
    let tiny = target("c", "https://a.example/v1", 3_000);
    let error = at(&tiny, &tiny).unwrap_err();
    assert!(error.contains("too small for 80000 tokens in pieces"), "{error}");
}

#[test]
fn a_model_on_this_machine_costs_nothing() {
    let main = target("claude-opus-5-5", "https://a.example/v1", 0);
    let local = target("llama3", "http://127.0.0.1:11434/v1", 0);
    let options = Options { prefix: Ok(&main), apart: Ok(&local) };
    let route = choose(&options, &sizes(100_000, 80_000, true), &Prices::embedded()).unwrap();
    assert!(route.name == "llama3" && route.reason.contains("costs $0.0000"), "{}", route.reason);
}

#[test]
fn no_way_says_why() {
    let options = Options { prefix: Err("no key"), apart: Err("no key") };
    assert_eq!(choose(&options, &sizes(1, 1, true), &Prices::embedded()).unwrap_err(), "no key");
    let options = Options { prefix: Err("a"), apart: Err("b") };
    assert_eq!(choose(&options, &sizes(1, 1, true), &Prices::embedded()).unwrap_err(), "b; on the live prefix: a");
}
