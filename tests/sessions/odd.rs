//! What cannot shrink, what is too large, and a provider that does not tell the truth.

use crate::agent::{Agent, Provider, Reports, TAILS, Turn, text};
use engine_api::Trigger;

#[test]
fn a_floor_above_the_threshold_is_stated_and_not_fought() {
    for tail in TAILS {
        // The pinned message alone is over the threshold of 27,200 and under the window.
        let provider = Provider { window: 32_000, overhead: 0, ..Provider::default() };
        let mut agent = Agent::new(provider, tail, |_| {});
        agent.say(&serde_json::json!({ "role": "user", "content": text(1, 27_500) }));
        let pinned = agent.live.session().view.last().unwrap().id;
        assert!(agent.live.pin(pinned));
        for turn in 0..60 {
            assert_eq!(agent.user(&format!("Turn {turn}: go on.")), Turn::Answered);
            agent.answer("Yes.");
        }
        let tries = agent.receipts.iter().filter(|receipt| receipt.trigger.is_some()).count();
        assert!(tries <= 20, "{tail:?}: {tries} compactions were tried in 60 turns");
        assert!(
            agent.receipts.iter().any(|receipt| receipt.floor.is_some() || receipt.reason.contains("next try")),
            "{:#?}",
            agent.last()
        );
    }
}

#[test]
fn a_session_that_fits_in_no_form_costs_little_and_says_so_each_turn() {
    let mut agent = Agent::new(Provider { window: 32_000, ..Provider::default() }, TAILS[0], |_| {});
    agent.say(&serde_json::json!({ "role": "user", "content": text(1, 40_000) }));
    let pinned = agent.live.session().view.last().unwrap().id;
    assert!(agent.live.pin(pinned));
    for turn in 0..30 {
        assert_eq!(agent.user(&format!("Turn {turn}: go on.")), Turn::Refused);
        assert!(agent.last().reason.contains("smallest legal context"));
        agent.answer("No.");
    }
    let overflows = agent.receipts.iter().filter(|receipt| receipt.trigger == Some(Trigger::Overflow)).count();
    assert!(overflows <= 2 * 3 + 28, "{overflows} compactions in 30 hopeless turns");
}

#[test]
fn a_request_that_fits_no_window_ends_with_a_reason_and_the_session_goes_on_after_it() {
    for tail in TAILS {
        let mut agent = Agent::new(Provider { window: 32_000, ..Provider::default() }, tail, |_| {});
        agent.user("First a small thing.");
        agent.answer("Done.");
        assert_eq!(agent.user(&text(1, 40_000)), Turn::Refused, "the user's newest words are never cut");
        assert!(agent.last().reason.contains("smallest legal context"), "{}", agent.last().reason);
        agent.answer("That was too long for me.");
        assert_eq!(agent.user("Then only the first line of it."), Turn::Answered, "{:#?}", agent.last());
    }
}

#[test]
fn a_giant_result_is_shortened_even_if_it_is_the_newest() {
    for tail in TAILS {
        let mut agent = Agent::new(Provider { window: 32_000, ..Provider::default() }, tail, |_| {});
        agent.user("Print the whole log.");
        assert_eq!(agent.tool(&text(1, 90_000)), Turn::Answered, "{:#?}", agent.last());
    }
}

#[test]
fn reports_that_lie_brick_nothing_and_start_no_loop() {
    let lies = [
        Reports::Always(10),
        Reports::Always(1_000_000),
        Reports::Times(0.4),
        Reports::Times(100.0),
        Reports::WithoutCached,
        Reports::Mad,
    ];
    for tail in TAILS {
        for reports in lies {
            let provider = Provider { window: 32_000, reports, ..Provider::default() };
            let mut agent = Agent::new(provider, tail, |_| {});
            for turn in 0..60 {
                let asked = agent.user(&format!("Turn {turn}: look at part {turn}."));
                assert_eq!(asked, Turn::Answered, "{reports:?}: {:#?}", agent.last());
                assert_eq!(agent.tool(&text(turn, 700)), Turn::Answered, "{reports:?}: {:#?}", agent.last());
                agent.answer("Looked.");
            }
            assert!(agent.compactions() <= 60, "{reports:?}: {} compactions", agent.compactions());
        }
    }
}
