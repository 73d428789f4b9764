//! Another model in the middle of a session, and what a person or a pause asks for.

use crate::agent::{Agent, Provider, TAILS, Turn, text};
use engine_api::Trigger;

#[test]
fn a_switch_to_a_smaller_window_fits_at_the_next_request() {
    for tail in TAILS {
        let mut agent = Agent::new(Provider { window: 200_000, ..Provider::default() }, tail, |_| {});
        for turn in 0..30 {
            agent.user(&format!("Turn {turn}: look."));
            agent.tool(&text(turn, 2_500));
            agent.answer("Looked.");
        }
        assert_eq!(agent.compactions(), 0, "all of it fits the large window");
        agent.live.switch_model("small-model", 32_000);
        agent.provider.window = 32_000;
        assert_eq!(agent.user("Go on with the small model."), Turn::Answered);
        assert_eq!(agent.refusals, 0);
        assert_eq!(agent.live.budgets().context_length, 32_000);
        agent.live.switch_model("large-model", 200_000);
        assert_eq!(agent.live.budgets().threshold_tokens, 150_000);
    }
}

#[test]
fn thresholds_of_a_model_are_resolved_when_it_is_switched_to() {
    let mut agent = Agent::new(Provider { window: 200_000, ..Provider::default() }, TAILS[0], |config| {
        config.compression.model_thresholds = [("big".to_owned(), 0.9), ("big-tail".to_owned(), 0.8)].into();
    });
    assert_eq!(agent.live.budgets().threshold_tokens, 150_000);
    agent.live.switch_model("vendor/big-tail-1", 200_000);
    assert_eq!(agent.live.budgets().threshold_tokens, 160_000, "the longest name wins");
    agent.live.switch_model("vendor/big-1", 200_000);
    assert_eq!(agent.live.budgets().threshold_tokens, 180_000);
    agent.live.switch_model("other", 200_000);
    assert_eq!(agent.live.budgets().threshold_tokens, 150_000);
}

#[test]
fn a_stated_window_holds_from_the_refusal_on() {
    let provider = Provider { window: 64_000, states_window: true, ..Provider::default() };
    let mut agent = Agent::new(provider, TAILS[0], |_| {});
    agent.provider.window = 20_000;
    for turn in 0..20 {
        agent.user(&format!("Turn {turn}: look."));
        assert_eq!(agent.tool(&text(turn, 2_000)), Turn::Answered);
        agent.answer("Looked.");
    }
    assert_eq!(agent.refusals, 1, "the window is learned once");
    assert_eq!(agent.live.budgets().context_length, 20_000);
    assert!(agent.receipts.iter().any(|receipt| receipt.trigger == Some(Trigger::Overflow)));
}
