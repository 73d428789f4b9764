//! Any conversation gives a valid plan, in both manners, with every mood of the model.
use super::*;
use engine_api::{CompletionModel, ErrorKind};
use engine_kit::pairs::units;
use engine_kit::regions::{leading, must_keep};
use engine_kit::testing::conversation;
use proptest::prelude::*;

fn answers(mood: u8) -> FakeHost {
    let host = FakeHost::default();
    let bad = |kind: u8| match kind {
        0 => Err(EngineError::new(ErrorKind::Summariser, "busy")),
        1 => Ok("<think>nothing said".to_string()),
        2 => Ok("I'm sorry, I can't help with that.".to_string()),
        3 => Ok("word ".repeat(20_000)),
        _ => Ok("## Goal\n- a summary".to_string()),
    };
    host.completions.lock().unwrap().extend([bad(mood % 5), bad(mood / 5 % 5)]);
    host
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_is_valid_and_lands_under_its_target_where_it_can(
        bytes in proptest::collection::vec(0u8..128, 0..24),
        (is_faulty, is_original, prune, is_overflow, is_forced) in any::<(bool, bool, bool, bool, bool)>(),
        target in 200u64..6_000,
        (tail, protect, minimum) in (0u64..1_500, 0u64..800, 0u64..300),
        (tail_turns, keep_exchanges, completions_max) in (0u32..3, 0u32..3, 0u32..4),
        (mood, model) in (0u8..25, 0usize..3),
    ) {
        let messages = conversation(&bytes, is_faulty);
        let table = ViewTable::new(7, &messages);
        let view = table.conversation();
        let host = answers(mood);
        let mut request = request(target);
        request.model.tail_budget_tokens = tail;
        request.completions_max = completions_max;
        request.keep_exchanges = keep_exchanges;
        request.force = is_forced;
        request.trigger = is_overflow.then_some(Trigger::Overflow);
        request.completion_model = [None, Some(CompletionModel::Main), Some(CompletionModel::MainOnPrefix)][model];
        let settings = json::json!({
            "as_original": is_original, "prune": prune, "tail_turns": tail_turns,
            "prune_protect_tokens": protect, "prune_minimum_tokens": minimum,
        });
        let made = plan_with(&host, &settings, &messages, &request);
        let asked = host.asked.lock().unwrap().len();
        prop_assert!(asked <= 2.min(completions_max as usize));
        let plan = match made {
            Ok(plan) => plan,
            Err(error) => {
                prop_assert_eq!(error.kind, ErrorKind::NothingToCompact);
                return Ok(());
            }
        };
        let verdict = judged(&messages, &plan).map_err(TestCaseError::fail)?;
        prop_assert!(verdict.tokens_after < verdict.tokens_before, "{:?}", verdict);
        prop_assert_eq!(plan.report.completions as usize, asked);
        let units = units(&view);
        let must: u64 = must_keep(&view, &units)
            .into_iter()
            .flatten()
            .chain(0..leading(&view))
            .filter_map(|position| view.get(position))
            .map(|message| message.tokens())
            .sum();
        // An eighth is left to the host for the person's words, and an eighth may be a replay.
        if must + 900 < target / 8 * 6 {
            prop_assert!(verdict.tokens_after < target, "{:?} of {}", verdict, target);
        }
    }
}
