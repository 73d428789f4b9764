//! Any conversation gives a valid plan, in both modes, with and without a model, wherever the model stands.
use super::*;
use engine_api::{CompletionModel, ErrorKind, Trigger};
use engine_kit::pairs::units;
use engine_kit::regions::must_keep;
use engine_kit::testing::conversation;
use proptest::prelude::*;

/// What the host and the person choose.
#[derive(Debug, Clone, Copy)]
struct Knobs {
    is_lean: bool,
    /// What the model answers: nothing, an error, an empty text, or so many words.
    answer: u8,
    completions_max: u32,
    model: u8,
    window: u64,
    is_forced: bool,
    keep_exchanges: u32,
    protect_first_n: u8,
    protect_last_n: u8,
    min_tail_user_messages: u8,
    has_focus: bool,
}

fn knobs() -> impl Strategy<Value = Knobs> {
    let window = prop_oneof![Just(0u64), 1u64..3_000, 3_000u64..200_000];
    let first = (any::<bool>(), any::<u8>(), 0u32..3, 0u8..4, window, any::<bool>());
    let second = (0u32..4, 0u8..6, 0u8..30, 1u8..4, any::<bool>());
    (first, second).prop_map(|(first, second)| {
        let (is_lean, answer, completions_max, model, window, is_forced) = first;
        let (keep_exchanges, protect_first_n, protect_last_n, min_tail_user_messages, has_focus) = second;
        Knobs {
            is_lean,
            answer,
            completions_max,
            model,
            window,
            is_forced,
            keep_exchanges,
            protect_first_n,
            protect_last_n,
            min_tail_user_messages,
            has_focus,
        }
    })
}

fn asked_for(target: u64, tail: u64, knobs: &Knobs) -> CompressRequest {
    let mut request = request(target);
    request.model.tail_budget_tokens = tail;
    request.completions_max = knobs.completions_max;
    request.completion_model =
        [None, Some(CompletionModel::Auxiliary), Some(CompletionModel::Main), Some(CompletionModel::MainOnPrefix)]
            [usize::from(knobs.model)];
    request.completion_window = knobs.window;
    request.force = knobs.is_forced;
    request.trigger = knobs.is_forced.then_some(Trigger::Manual);
    request.keep_exchanges = knobs.keep_exchanges;
    if knobs.has_focus {
        request.focus_topic = "the <word>".to_string();
        request.memory_context = "likes & \"words\"".to_string();
    }
    request
}

fn host_of(knobs: &Knobs) -> FakeHost {
    let host = FakeHost::default();
    let answer = match knobs.answer {
        0..60 => return host,
        60..90 => Err(EngineError::new(ErrorKind::Summariser, "busy")),
        90..100 => Ok("<think>nothing said".to_string()),
        words => Ok("## Goal\na summary ".repeat(usize::from(words) * usize::from(words % 7))),
    };
    host.completions.lock().unwrap().push(answer);
    host
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_is_valid_and_lands_under_its_target_where_it_can(
        bytes in proptest::collection::vec(0u8..128, 0..24),
        is_faulty in any::<bool>(),
        target in 200u64..6_000,
        tail in 0u64..1_500,
        knobs in knobs(),
    ) {
        let messages = conversation(&bytes, is_faulty);
        let table = ViewTable::new(7, &messages);
        let view = table.conversation();
        let host = host_of(&knobs);
        let request = asked_for(target, tail, &knobs);
        let engine = new(&json::json!({
            "tail_mode": if knobs.is_lean { "lean" } else { "legacy" },
            "protect_first_n": knobs.protect_first_n,
            "protect_last_n": knobs.protect_last_n,
            "min_tail_user_messages": knobs.min_tail_user_messages,
        })).unwrap();
        let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
        let made = session.compress(&host, &view, &request);

        // What was asked of a model: no more than allowed, and of a size that its window holds.
        let asked = host.asked.lock().unwrap();
        prop_assert!(asked.len() <= 1.min(usize::try_from(knobs.completions_max).unwrap()));
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
        prop_assert_eq!(plan.report.completions as usize, asked.len());
        if verdict.summaries > 0 {
            let is_written = plan.report.fallback.is_empty();
            prop_assert!(!is_written || asked.len() == 1, "a summary nobody wrote is said to be one of a model");
        }

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
