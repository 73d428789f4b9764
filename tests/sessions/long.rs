//! Long sessions: the window is never passed, and compactions are as many as the growth asks for.

use crate::agent::{Agent, Provider, Reports, TAILS, Turn, text};

/// A session of requests and tool calls.
fn work(agent: &mut Agent, turns: usize, tokens: usize) -> Vec<Turn> {
    let mut ended = Vec::new();
    for turn in 0..turns {
        ended.push(agent.user(&format!("Turn {turn}: see why test {turn} fails, and say it in one line.")));
        for step in 0..3 {
            ended.push(agent.tool(&text(turn * 10 + step, tokens)));
        }
        agent.answer(&format!("Test {turn} fails because value {turn} is off by one."));
    }
    ended
}

#[test]
fn with_true_reports_no_request_is_ever_refused() {
    for tail in TAILS {
        for factor in [1.0, 1.35] {
            let provider = Provider { window: 64_000, factor, overhead: 3_000, ..Provider::default() };
            let mut agent = Agent::new(provider, tail, |_| {});
            assert!(work(&mut agent, 40, 800).iter().all(|turn| *turn == Turn::Answered));
            assert!(agent.compactions() >= 1, "the session was long enough to be compacted");
            assert_eq!(agent.refusals, 0, "{tail:?} {factor}: {:#?}", agent.last());
            // Each compaction makes room for several turns.
            assert!(agent.compactions() <= 14, "{} compactions", agent.compactions());
        }
    }
}

#[test]
fn without_any_report_a_session_lives_on() {
    for tail in TAILS {
        for (factor, states_window) in [(1.0, false), (1.35, false), (1.35, true)] {
            let provider =
                Provider { window: 32_000, factor, reports: Reports::Nothing, states_window, ..Provider::default() };
            let mut agent = Agent::new(provider, tail, |_| {});
            assert!(work(&mut agent, 40, 600).iter().all(|turn| *turn == Turn::Answered), "{tail:?} {factor}");
            assert!(agent.refusals <= 40, "{} of {} requests were refused", agent.refusals, agent.requests);
        }
    }
}

#[test]
fn a_tiny_window_costs_one_compaction_a_request_at_most() {
    for tail in TAILS {
        for window in [4_000, 8_000, 16_000] {
            let mut agent = Agent::new(Provider { window, ..Provider::default() }, tail, |_| {});
            let ended = work(&mut agent, 25, 300);
            assert!(ended.iter().all(|turn| *turn == Turn::Answered), "{window}: {:#?}", agent.last());
            assert!(agent.compactions() as u64 <= agent.requests);
        }
    }
}

#[test]
fn an_autonomous_turn_of_short_steps_shrinks() {
    for tail in TAILS {
        let mut agent = Agent::new(Provider { window: 8_000, ..Provider::default() }, tail, |_| {});
        agent.user("Go through all parts, one by one, until each is done.");
        for step in 0..400 {
            assert_eq!(agent.tool(&format!("ok {step}: nothing to do in part {step}")), Turn::Answered);
        }
        assert!(agent.compactions() >= 1 && agent.compactions() <= 30, "{} compactions", agent.compactions());
    }
}
