//! Tests of the numbers between requests; the first walks the state machine of Hermes 0.19.0 as it was observed.
use super::*;

const THRESHOLD: u64 = 150_000;
const WINDOW: u64 = 200_000;

fn counted(count: u64) -> PromptTokens {
    PromptTokens { count, basis: Basis::Counted }
}

fn same(count: u64) -> u64 {
    count
}

/// The steps and figures of `golden/hermes/10-state-machine.json`, but for the streak of fallbacks: a summary made
/// without a model is a summary, so it blocks nothing.
#[test]
fn the_state_machine_of_hermes_is_walked() {
    let mut pressure = Pressure::default();
    assert_eq!(pressure.blocks(THRESHOLD), None);
    pressure.measured(THRESHOLD + 10, THRESHOLD + 10, THRESHOLD);
    assert_eq!(pressure.prompt_tokens(counted(THRESHOLD + 10), THRESHOLD + 10, &same).count, THRESHOLD + 10);
    for _ in 0..2 {
        // Our own count sees an effect, the provider's report none.
        pressure.compacted(THRESHOLD + 10, THRESHOLD / 2, THRESHOLD);
        assert!(pressure.defers(counted(THRESHOLD + 100), THRESHOLD, WINDOW).is_some(), "one request is waited for");
        pressure.measured(THRESHOLD + 1, THRESHOLD + 1, THRESHOLD);
    }
    assert!(pressure.blocks(THRESHOLD + 1).is_some());
    pressure.measured(THRESHOLD - 1, THRESHOLD - 1, THRESHOLD);
    assert_eq!(pressure.blocks(THRESHOLD + 1), None);

    // A count above the threshold that the provider measured to fit.
    pressure.unmeasured = Some(THRESHOLD + 50);
    pressure.measured(THRESHOLD - 5_000, THRESHOLD + 50, THRESHOLD);
    assert_eq!(pressure.defers(counted(THRESHOLD - 1), THRESHOLD, WINDOW), None);
    assert!(pressure.defers(counted(THRESHOLD + 50 + 7_500), THRESHOLD, WINDOW).is_some(), "5 % are tolerated");
    assert_eq!(pressure.fits, 157_550, "the base rises with what is let pass");
    assert_eq!(pressure.defers(counted(157_550 + 7_501), THRESHOLD, WINDOW), None);
}

#[test]
fn a_report_and_what_came_since_are_the_size() {
    let mut pressure = Pressure::default();
    assert_eq!(pressure.prompt_tokens(counted(10_000), 10_000, &same), counted(10_000));
    pressure.measured(13_000, 10_000, THRESHOLD);
    let reported = |count| PromptTokens { count, basis: Basis::Reported };
    assert_eq!(pressure.prompt_tokens(counted(10_000), 10_000, &same), reported(13_000));
    let scale = |count: u64| count * 13 / 10;
    assert_eq!(pressure.prompt_tokens(counted(11_000), 11_000, &scale), reported(14_300));
    assert_eq!(pressure.prompt_tokens(counted(9_000), 9_000, &scale), reported(11_700), "a rewind takes away");
}

#[test]
fn a_missing_or_impossible_report_is_none() {
    let mut pressure = Pressure::default();
    for lie in [0, 1, 33_000] {
        pressure.measured(lie, 100_000, THRESHOLD);
        assert_eq!(pressure.prompt_tokens(counted(100_000), 100_000, &same), counted(100_000), "{lie}");
    }
    pressure.measured(34_000, 100_000, THRESHOLD);
    assert_eq!(pressure.prompt_tokens(counted(100_000), 100_000, &same).count, 34_000);
}

#[test]
fn without_any_report_a_decision_waits_once() {
    let mut pressure = Pressure::default();
    pressure.compacted(190_000, 60_000, THRESHOLD);
    assert!(pressure.defers(counted(155_000), THRESHOLD, WINDOW).is_some());
    assert_eq!(pressure.defers(counted(155_000), THRESHOLD, WINDOW), None);
    pressure.compacted(190_000, 60_000, THRESHOLD);
    assert_eq!(pressure.defers(counted(WINDOW), THRESHOLD, WINDOW), None, "what cannot fit does not wait");
}

#[test]
fn a_compaction_that_ends_above_the_threshold_or_saves_little_is_judged_at_once() {
    for (before, after) in [(190_000, 160_000), (151_000, 149_000)] {
        let mut pressure = Pressure::default();
        pressure.compacted(before, after, THRESHOLD);
        assert_eq!(pressure.blocks(160_000), None);
        pressure.compacted(before, after, THRESHOLD);
        assert!(pressure.blocks(160_000).is_some(), "{before} to {after} twice");
        assert_eq!(pressure.blocks(after + after / 4), None, "growth by a quarter tries again");
    }
}

#[test]
fn another_model_starts_anew_and_an_answer_or_another_request_ends_a_row_of_refusals() {
    let mut pressure = Pressure::default();
    let (first, second) = (MessageId(7), MessageId(9));
    assert_eq!((pressure.refused(first), pressure.refused(first)), (1, 2));
    assert_eq!(pressure.refused(second), 1, "another request is refused for the first time");
    pressure.refused(second);
    pressure.measured(10_000, 10_000, THRESHOLD);
    assert_eq!(pressure.refused(second), 1);
    pressure.reset();
    assert_eq!(pressure, Pressure::default());
}

#[test]
fn after_two_requests_that_fit_in_no_form_only_the_smallest_is_tried() {
    let mut pressure = Pressure::default();
    let mut refuse =
        |request: u64, times: usize| (0..times).map(|_| pressure.refused(MessageId(request))).collect::<Vec<u32>>();
    assert_eq!(refuse(1, 4), [1, 2, 3, 4]);
    assert_eq!(refuse(2, 4), [1, 2, 3, 4]);
    assert_eq!(refuse(3, 2), [3, 4]);
    pressure.measured(10_000, 10_000, THRESHOLD);
    assert_eq!(pressure.refused(MessageId(4)), 1);
}
