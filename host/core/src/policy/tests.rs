//! Tests of the decision, with numbers.
use super::*;
use engine_api::Basis;

struct Case {
    tokens: u64,
    messages: usize,
    cause: Cause,
    config: Config,
    engine: EngineDecision,
    economy: Option<Economy>,
    pressure: Pressure,
}

fn at(tokens: u64, messages: usize) -> Case {
    let (config, engine, pressure) = (Config::default(), EngineDecision::host_decides(), Pressure::default());
    Case { tokens, messages, cause: Cause::Request { idle_seconds: 0 }, config, engine, economy: None, pressure }
}

fn decided(mut case: Case) -> Decision {
    let budgets = host_config::budgets(&case.config, "some-model", 200_000, None);
    decide(Situation {
        cause: case.cause,
        config: &case.config,
        budgets: &budgets,
        prompt_tokens: PromptTokens { count: case.tokens, basis: Basis::Counted },
        message_count: case.messages,
        engine: case.engine,
        economy: case.economy,
        pressure: &mut case.pressure,
    })
}

fn trigger(case: Case) -> Option<Trigger> {
    match decided(case) {
        Decision::Compact { trigger, .. } => Some(trigger),
        Decision::Keep(_) => None,
    }
}

fn target(case: Case) -> Option<u64> {
    match decided(case) {
        Decision::Compact { target_tokens, .. } => Some(target_tokens),
        Decision::Keep(_) => None,
    }
}

#[test]
fn the_threshold_of_a_200k_window_is_150k() {
    assert_eq!(trigger(at(149_999, 100)), None);
    assert_eq!(trigger(at(150_000, 100)), Some(Trigger::Threshold));
}

#[test]
fn where_money_decides_a_warm_cache_is_waited_for_and_a_cold_one_is_the_moment() {
    let economy = |read, is_warm| {
        let outlook =
            Outlook { prompt: 150_000, kept: 20_000, summary: 4_000, tail: 20_000, is_warm, is_asked: is_warm };
        Some(Economy { terms: Terms { read, write: 1.25, output: 5.0 }, outlook })
    };
    let case = |tokens, economy| Case { economy, ..at(tokens, 100) };
    assert_eq!(trigger(case(150_000, economy(0.5, true))), Some(Trigger::Threshold), "it pays within the turns left");
    assert_eq!(trigger(case(149_999, economy(0.5, true))), None, "the threshold holds as well");
    assert_eq!(trigger(case(150_000, economy(0.02, true))), None, "reads are so cheap that it does not pay");
    assert_eq!(trigger(case(170_000, economy(0.02, true))), Some(Trigger::Hygiene), "the window decides in the end");
    assert_eq!(trigger(case(80_000, economy(0.02, false))), Some(Trigger::Threshold), "the cache has gone cold");
    assert_eq!(trigger(case(70_000, economy(0.02, false))), None, "it is cheap as it is");
}

#[test]
fn the_safety_valve_opens_at_85_percent_even_if_the_engine_declines() {
    let declining = |tokens, messages| Case { engine: EngineDecision::keep(0, "no"), ..at(tokens, messages) };
    assert_eq!(trigger(declining(169_999, 100)), None);
    assert_eq!(trigger(declining(170_000, 100)), Some(Trigger::Hygiene));
    assert_eq!(trigger(declining(170_000, 3)), None);
}

#[test]
fn the_message_limit_counts_messages() {
    assert_eq!(trigger(at(1_000, 4_999)), None);
    assert_eq!(trigger(at(1_000, 5_000)), Some(Trigger::Hygiene));
}

#[test]
fn a_person_is_obeyed_even_when_compression_is_off() {
    let mut off = at(190_000, 100);
    off.config.compression.enabled = false;
    assert_eq!(trigger(off), None);
    let mut forced = Case { cause: Cause::Manual, ..at(1_000, 10) };
    forced.config.compression.enabled = false;
    let decision = decided(forced);
    assert!(matches!(decision, Decision::Compact { trigger: Trigger::Manual, target_tokens: 999, .. }));
}

#[test]
fn a_resumed_conversation_is_compacted_when_it_is_large_and_was_idle_long_enough() {
    let idle = |tokens, seconds, after| {
        let mut case = Case { cause: Cause::Request { idle_seconds: seconds }, ..at(tokens, 100) };
        case.config.compression.idle_compact_after_seconds = after;
        trigger(case)
    };
    assert_eq!(idle(60_000, 3_600, 0), None, "it is off by default");
    assert_eq!(idle(60_000, 3_599, 3_600), None);
    assert_eq!(idle(60_000, 3_600, 3_600), Some(Trigger::Idle));
    assert_eq!(idle(30_000, 3_600, 3_600), None, "a fifth of the threshold is left alone");
    assert_eq!(idle(150_000, 3_600, 3_600), Some(Trigger::Threshold));
}

#[test]
fn each_refusal_of_a_request_asks_for_a_smaller_one_and_then_it_ends() {
    let refused = |attempt| target(Case { cause: Cause::Overflow { attempt }, ..at(190_000, 100) });
    assert_eq!([refused(1), refused(2), refused(3), refused(4)], [Some(150_000), Some(75_000), Some(1), None]);
    let mut off = Case { cause: Cause::Overflow { attempt: 1 }, ..at(190_000, 100) };
    off.config.compression.enabled = false;
    assert_eq!(target(off), None);
}

#[test]
fn an_open_breaker_and_a_running_wait_keep_but_not_against_an_overflow() {
    let mut open = Pressure::default();
    open.found_nothing(160_000);
    open.found_nothing(160_000);
    assert_eq!(trigger(Case { pressure: open, ..at(160_000, 100) }), None);
    let overflow = Case { pressure: open, cause: Cause::Overflow { attempt: 1 }, ..at(160_000, 100) };
    assert_eq!(trigger(overflow), Some(Trigger::Overflow));

    let mut waiting = Pressure::default();
    waiting.compacted(300_000, 100_000, 150_000);
    assert_eq!(trigger(Case { pressure: waiting, ..at(160_000, 100) }), None);
    assert_eq!(trigger(Case { pressure: waiting, ..at(200_000, 100) }), Some(Trigger::Hygiene));
}
