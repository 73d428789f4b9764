//! Any conversation gives a valid plan.
use super::*;
use engine_api::ErrorKind;
use engine_kit::pairs::units;
use engine_kit::regions::must_keep;
use engine_kit::testing::conversation;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_is_valid_and_lands_under_its_target_where_it_can(
        bytes in proptest::collection::vec(any::<u8>(), 0..24),
        is_faulty in any::<bool>(),
        target in 200u64..6_000,
        tail in 0u64..1_500,
        knobs in any::<u8>(),
    ) {
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte & 0x7f).collect();
        let messages = conversation(&bytes, is_faulty);
        let table = ViewTable::new(7, &messages);
        let view = table.conversation();
        let host = FakeHost::default();
        if knobs & 1 != 0 {
            host.completions.lock().unwrap().push(Ok("a summary ".repeat(usize::from(knobs))));
        }
        let mut request = request(target);
        request.model.tail_budget_tokens = tail;
        request.completions_max = u32::from(knobs & 2);
        request.force = knobs & 4 != 0;
        request.keep_exchanges = u32::from(knobs >> 6);
        let plan = match plan_with(&host, &messages, &request) {
            Ok(plan) => plan,
            Err(error) => {
                prop_assert_eq!(error.kind, ErrorKind::NothingToCompact);
                return Ok(());
            }
        };
        let verdict = judge(&view, &plan, &count).map_err(TestCaseError::fail)?;
        prop_assert!(verdict.tokens_after < verdict.tokens_before, "{:?}", verdict);

        let units = units(&view);
        let first = engine_kit::regions::leading(&view);
        let must: u64 = must_keep(&view, &units)
            .into_iter()
            .flatten()
            .chain(0..first)
            .filter_map(|position| view.get(position))
            .map(|message| message.tokens())
            .sum();
        // An eighth is left to the host for the person's words.
        if must + 600 < target / 8 * 7 {
            prop_assert!(verdict.tokens_after < target, "{:?} of {}", verdict, target);
        }
    }
}
