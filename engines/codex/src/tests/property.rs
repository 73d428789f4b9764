//! Any conversation gives a valid plan, in both manners, whatever the model says and wherever it stands.
use super::*;
use engine_api::{CompletionModel, Trigger};
use engine_kit::regions::{leading, must_keep};
use engine_kit::testing::conversation;
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
struct Knobs {
    is_original: bool,
    /// What the model answers, first and second.
    answers: (u8, u8),
    completions_max: u32,
    model: u8,
    window: u64,
    is_forced: bool,
    keep_exchanges: u32,
    users: u64,
    tail: u64,
}

fn knobs() -> impl Strategy<Value = Knobs> {
    let window = prop_oneof![Just(0u64), 1u64..3_000, 3_000u64..200_000];
    let first = (any::<bool>(), any::<(u8, u8)>(), 0u32..4, 0u8..4, window);
    let second =
        (any::<bool>(), 0u32..4, prop_oneof![Just(0u64), 500u64..3_000], prop_oneof![Just(0u64), 500u64..2_000]);
    (first, second).prop_map(|(first, second)| {
        let (is_original, answers, completions_max, model, window) = first;
        let (is_forced, keep_exchanges, users, tail) = second;
        Knobs { is_original, answers, completions_max, model, window, is_forced, keep_exchanges, users, tail }
    })
}

fn answer(kind: u8) -> Result<String, EngineError> {
    match kind {
        0..40 => Err(EngineError::new(ErrorKind::Summariser, "busy")),
        40..80 => Err(EngineError::new(ErrorKind::Summariser, "context length exceeded")),
        80..90 => Ok("<think>nothing said".to_string()),
        90..100 => Ok("I cannot help with that.".to_string()),
        words => Ok("## Goal\na handoff ".repeat(usize::from(words) * usize::from(words % 7))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_is_valid_and_lands_under_its_target_where_it_can(
        bytes in proptest::collection::vec(0u8..128, 0..24),
        is_faulty in any::<bool>(),
        target in 200u64..6_000,
        knobs in knobs(),
    ) {
        let messages = conversation(&bytes, is_faulty);
        let table = ViewTable::new(7, &messages);
        let view = table.conversation();
        let host = FakeHost::default();
        host.completions.lock().unwrap().extend([answer(knobs.answers.0), answer(knobs.answers.1)]);
        let mut request = request(target);
        request.completions_max = knobs.completions_max;
        request.completion_model =
            [None, Some(CompletionModel::Auxiliary), Some(CompletionModel::Main), Some(CompletionModel::MainOnPrefix)]
                [usize::from(knobs.model)];
        request.completion_window = knobs.window;
        request.force = knobs.is_forced;
        request.trigger = knobs.is_forced.then_some(Trigger::Manual);
        request.keep_exchanges = knobs.keep_exchanges;
        let mut settings = json::json!({ "as_original": knobs.is_original, "user_messages_tokens": knobs.users });
        if !knobs.is_original {
            settings["tail_tokens"] = json::json!(knobs.tail);
        }
        let engine = new(&settings).unwrap();
        let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
        if let Ok(plan) = session.prune_tool_results(&host, &view, &request) {
            judge(&view, &plan, &count).map_err(TestCaseError::fail)?;
        }
        let made = session.compress(&host, &view, &request);

        let asked = host.asked.lock().unwrap();
        prop_assert!(asked.len() as u32 <= knobs.completions_max.min(2));
        for completion in asked.iter() {
            let tokens = count(&completion.prompt);
            let is_on_prefix = completion.model == Some(CompletionModel::MainOnPrefix);
            prop_assert!(knobs.window == 0 || is_on_prefix || tokens <= knobs.window, "{} of {}", tokens, knobs.window);
            prop_assert!(!is_on_prefix || !completion.prompt.contains("[USER]:"));
        }
        let plan = match made {
            Ok(plan) => plan,
            Err(error) => {
                prop_assert_eq!(error.kind, ErrorKind::NothingToCompact);
                prop_assert!(!error.message.is_empty());
                return Ok(());
            }
        };
        let verdict = judge(&view, &plan, &count).map_err(TestCaseError::fail)?;
        prop_assert!(verdict.tokens_after < verdict.tokens_before, "{:?}", verdict);
        prop_assert!(verdict.summaries <= 1);
        if verdict.summaries == 1 {
            prop_assert_eq!(plan.report.completions as usize, asked.len());
            prop_assert!(!plan.report.fallback.is_empty() || !asked.is_empty());
            let kept_summary = view.iter().enumerate().any(|(at, message)| {
                message.is_summary() && !message.is_pinned() && at + 1 < view.len() && is_kept(&plan, at)
                    && engine_kit::pairs::align_up(&engine_kit::pairs::units(&view), at + 1) == at + 1
            });
            prop_assert!(!kept_summary, "a superseded handoff stays: {}", plan_picture(&plan));
        }
        let units = engine_kit::pairs::units(&view);
        let first = leading(&view);
        let must: u64 = must_keep(&view, &units)
            .into_iter()
            .flatten()
            .chain(0..first)
            .filter_map(|position| view.get(position))
            .map(|message| message.tokens())
            .sum();
        if must + 600 < target / 8 * 7 {
            prop_assert!(verdict.tokens_after < target, "{:?} of {}: {}", verdict, target, plan_picture(&plan));
        }
    }
}
