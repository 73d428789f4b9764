//! Tests of the decision, with numbers.
use super::*;
use engine_api::Basis;

fn decide_at(
    tokens: u64,
    messages: usize,
    change: impl FnOnce(&mut Config, &mut EngineDecision, &mut bool),
) -> Decision {
    let mut config = Config::default();
    let (mut engine, mut forced) = (EngineDecision::host_decides(), false);
    change(&mut config, &mut engine, &mut forced);
    let budgets = host_config::budgets(&config, "some-model", 200_000, None);
    decide(&Situation {
        config: &config,
        budgets: &budgets,
        prompt_tokens: PromptTokens { count: tokens, basis: Basis::Counted },
        message_count: messages,
        engine,
        forced,
        breaker: Breaker::default(),
    })
}

fn trigger(decision: &Decision) -> Option<Trigger> {
    match decision {
        Decision::Compact { trigger, .. } => Some(*trigger),
        Decision::Keep(_) => None,
    }
}

#[test]
fn the_threshold_of_a_200k_window_is_150k() {
    assert_eq!(trigger(&decide_at(149_999, 100, |_, _, _| {})), None);
    assert_eq!(trigger(&decide_at(150_000, 100, |_, _, _| {})), Some(Trigger::Threshold));
}

#[test]
fn the_safety_valve_opens_at_85_percent_even_if_the_engine_declines() {
    let declines = |_: &mut Config, engine: &mut EngineDecision, _: &mut bool| *engine = EngineDecision::keep(0, "no");
    assert_eq!(trigger(&decide_at(169_999, 100, declines)), None);
    assert_eq!(trigger(&decide_at(170_000, 100, declines)), Some(Trigger::Hygiene));
    assert_eq!(trigger(&decide_at(170_000, 3, declines)), None);
}

#[test]
fn the_message_limit_counts_messages() {
    assert_eq!(trigger(&decide_at(1_000, 4_999, |_, _, _| {})), None);
    assert_eq!(trigger(&decide_at(1_000, 5_000, |_, _, _| {})), Some(Trigger::Hygiene));
}

#[test]
fn a_person_is_obeyed_even_when_compression_is_off() {
    let off = decide_at(190_000, 100, |config, _, _| config.compression.enabled = false);
    assert_eq!(trigger(&off), None);
    let forced = decide_at(1_000, 10, |config, _, forced| {
        config.compression.enabled = false;
        *forced = true;
    });
    assert_eq!(trigger(&forced), Some(Trigger::Manual));
    assert!(matches!(forced, Decision::Compact { target_tokens: 999, .. }));
}
