//! Conversations of known shapes.
use super::*;
use engine_api::{ErrorKind, Flags, NodeId, SummaryKind, Trigger};
use engine_kit::picture::plan_picture;

fn kind_of(result: Result<CompactionPlan, EngineError>) -> ErrorKind {
    result.expect_err("a plan was made").kind
}

#[test]
fn a_long_session_becomes_head_summary_and_tail() {
    let messages = session(60, 6, 2_000);
    let (plan, verdict) = compact(&messages, 60_000);
    let picture = plan_picture(&plan);
    assert!(picture.starts_with("keep 0-3 | "), "{picture:.80}");
    assert!(verdict.tokens_before > 200_000 && verdict.summaries == 1);
    let text = summary_of(&plan);
    assert!(text.contains("request 3:") && text.contains("## Completed Actions"), "{text:.400}");
    assert!(plan.report.fallback.contains("no completion"), "{}", plan.report.fallback);
    let Some(Step::Keep(last)) = plan.steps.iter().rev().find(|step| matches!(step, Step::Keep(_))) else { panic!() };
    assert_eq!(last.last, messages.len() - 1);
}

#[test]
fn a_giant_newest_result_is_cut_to_its_ends() {
    let mut messages = session(1, 1, 400);
    messages.push(user(0, "now the log"));
    messages.push(calls(0, &[("big", "terminal", "{\"command\":\"cat log\"}")]));
    messages.push(result(0, "big", "terminal", &format!("first line\n{}last line", "middle\n".repeat(200_000))));
    let messages = numbered(messages);
    let (plan, _) = compact(&messages, 20_000);
    let Some(Step::Rewrite { message, text, .. }) = plan.steps.last() else { panic!("{}", plan_picture(&plan)) };
    assert_eq!(*message, messages.len() - 1);
    assert!(text.starts_with("first line") && text.ends_with("last line") && text.contains("left out"), "{text:.80}");
    assert!(count(text) > 1_000, "there is room for much of it");
    assert_eq!(summary_of(&plan), "", "shortening alone was enough");
}

#[test]
fn a_user_message_of_five_megabytes_is_kept_and_all_else_made_small() {
    let mut messages = session(10, 3, 4_000);
    messages.push(user(0, &"words ".repeat(850_000)));
    let messages = numbered(messages);
    let plan = plan_with(&FakeHost::default(), &messages, &request(50_000)).unwrap();
    let verdict = judged(&messages, &plan);
    let must = u64::from(messages.last().unwrap().tokens) + u64::from(messages[0].tokens);
    assert!(verdict.tokens_after < must + 1_000, "{}", plan_picture(&plan));
}

#[test]
fn an_old_user_message_of_five_megabytes_goes_to_the_summary() {
    let mut messages = session(3, 2, 400);
    messages.push(user(0, &"words ".repeat(850_000)));
    messages.push(assistant(0, "I read it."));
    messages.push(user(0, "good"));
    compact(&numbered(messages), 50_000);
}

#[test]
fn a_single_turn_of_many_rounds_is_compacted_by_rounds() {
    let mut messages = vec![system(0, "be brief"), user(0, "port the whole tree")];
    messages.extend(tool_rounds(0, 1_500, 400));
    let messages = numbered(messages);
    let (plan, verdict) = compact(&messages, 60_000);
    assert!(verdict.tokens_before > 180_000);
    assert!(plan_picture(&plan).starts_with("keep 0-3 | rewrite 3.0 | Σ0 4-"), "{:.60}", plan_picture(&plan));

    // Once there is a summary the head is the system message alone, and the request stays where it was.
    let mut later =
        vec![messages[0].clone(), flagged(user(0, "## Goal\n- old"), Flags::SUMMARY.with(Flags::SYNTHETIC))];
    later.extend(messages[1..].iter().cloned());
    let later = numbered(later);
    let (plan, _) = compact(&later, 60_000);
    assert!(plan_picture(&plan).starts_with("keep 0 | Σ1 1,3-"), "{:.60}", plan_picture(&plan));
    assert!(plan_picture(&plan).contains(" | keep 2 | keep "), "{:.90}", plan_picture(&plan));
    assert!(summary_of(&plan).contains("- old"));
}

#[test]
fn where_there_is_nothing_to_gain_it_says_so() {
    let host = FakeHost::default();
    for messages in [
        vec![],
        vec![system(1, &"rules ".repeat(10_000))],
        vec![user(1, &"words ".repeat(10_000))],
        vec![system(1, "rules"), user(2, "hi"), assistant(3, "hello")],
    ] {
        let made = plan_with(&host, &messages, &request(1_000));
        assert_eq!(kind_of(made), ErrorKind::NothingToCompact, "{} messages", messages.len());
    }
}

#[test]
fn ten_thousand_parallel_calls_fit_too() {
    let ids: Vec<String> = (0..10_000).map(|at| format!("c{at}")).collect();
    let mut messages = vec![system(0, "x"), user(0, "read everything")];
    messages.push(calls(0, &ids.iter().map(|id| (id.as_str(), "read_file", "{\"path\":\"a\"}")).collect::<Vec<_>>()));
    messages.extend(ids.iter().map(|id| result(0, id, "read_file", &"line\n".repeat(100))));
    // As the newest unit it has to stay, as lines; answered, it goes to the summary.
    let newest = numbered(messages.clone());
    let plan = plan_with(&FakeHost::default(), &newest, &request(100_000)).unwrap();
    let verdict = judged(&newest, &plan);
    assert!(verdict.tokens_after < verdict.tokens_before / 2 && verdict.rewrites == 10_000, "{verdict:?}");
    messages.push(assistant(0, "All read."));
    compact(&numbered(messages), 100_000);
}

#[test]
fn a_later_compaction_continues_the_summary() {
    let summary = |text: &str| flagged(user(0, text), Flags::SUMMARY.with(Flags::SYNTHETIC));
    let first = "[palimpsest: summary of 90 messages]\n\n## Key Decisions\n- the cache stays write-through\n";
    let mut messages = session(30, 6, 2_000);
    messages.insert(1, summary(first));
    let messages = numbered(messages);
    let (plan, _) = compact(&messages, 40_000);
    assert!(plan_picture(&plan).starts_with("keep 0 | Σ1 1-"), "{:.60}", plan_picture(&plan));
    assert!(summary_of(&plan).contains("- the cache stays write-through"));
    let Some(Step::Summary(step)) = plan.steps.iter().find(|step| matches!(step, Step::Summary(_))) else { panic!() };
    assert_eq!(step.kind, SummaryKind::Iterative);

    // The model is shown the earlier summary apart from the new turns.
    let host = FakeHost::default();
    host.completions.lock().unwrap().push(Ok("## Goal\nx".to_string()));
    let mut request = request(40_000);
    request.completions_max = 1;
    request.focus_topic = "the cache".to_string();
    request.memory_context = "likes <tea>".to_string();
    let plan = plan_with(&host, &messages, &request).unwrap();
    judged(&messages, &plan);
    let prompt = host.asked.lock().unwrap()[0].prompt.clone();
    let previous = prompt.find("PREVIOUS SUMMARY").unwrap();
    let kept = prompt.find("the cache stays write-through").unwrap();
    let turns = prompt.find("NEW TURNS TO INCORPORATE").unwrap();
    assert!(previous < kept && kept < turns && prompt.contains("[USER]: request 0"));
    assert!(prompt.contains("FOCUS TOPIC: \"the cache\"") && prompt.contains("likes \\u003ctea\\u003e"));
    assert!(prompt.contains("today is 2023-11-14"));
}

#[test]
fn several_compactions_in_a_row_stay_under_their_target() {
    let mut messages = session(40, 5, 2_000);
    for round in 1..=4u64 {
        let (plan, _) = compact(&messages, 40_000);
        let mut next: Vec<Message> = Vec::new();
        for step in &plan.steps {
            match step {
                Step::Keep(span) => next.extend(messages[span.first..=span.last].iter().cloned()),
                Step::Summary(summary) => {
                    let mut message = user(0, &format!("[palimpsest: summary]\n{}", summary.text));
                    message.flags = Flags::SUMMARY.with(Flags::SYNTHETIC);
                    message.node = NodeId(round);
                    next.push(message);
                }
                _ => {}
            }
        }
        assert_eq!(next.iter().filter(|message| message.flags.has(Flags::SUMMARY)).count(), 1);
        next.extend(session(20, 5, 2_000).into_iter().skip(1));
        messages = numbered(next);
    }
    let (plan, _) = compact(&messages, 40_000);
    assert!(summary_of(&plan).contains("request 0:"), "the first request is quoted still");
}

#[test]
fn a_good_completion_is_used_with_exact_additions() {
    let messages = session(60, 6, 2_000);
    let host = FakeHost::default();
    let text = "<think>hm</think>## Historical Task Snapshot\nwrong words\n\n## Goal\nMake it build.";
    host.completions.lock().unwrap().push(Ok(text.to_string()));
    let mut request = request(60_000);
    request.completions_max = 2;
    let plan = plan_with(&host, &messages, &request).unwrap();
    let verdict = judged(&messages, &plan);
    assert!(verdict.tokens_after < 60_000);
    let summary = summary_of(&plan);
    assert!(summary.starts_with("## Historical Task Snapshot\nUser asked: \"request "), "{summary:.200}");
    assert!(!summary.contains("wrong words") && summary.contains("Make it build."), "{summary:.400}");
    assert!(summary.contains("## Anchor Index (exact)\n- Files: src/module_"), "{summary}");
    assert_eq!((plan.report.completions, plan.report.fallback.as_str()), (1, ""));
}

#[test]
fn without_a_usable_completion_the_outline_stands_in() {
    let messages = session(60, 6, 2_000);
    for (script, want) in [
        (Err(EngineError::new(ErrorKind::Summariser, "no route to the model")), "no route to the model"),
        (Ok(String::new()), "an empty text"),
        (Ok("<think>forgot to answer".to_string()), "an empty text"),
        (Ok("blah ".repeat(2_000_000)), "no shorter than its source"),
    ] {
        let host = FakeHost::default();
        host.completions.lock().unwrap().push(script);
        let mut request = request(60_000);
        request.completions_max = 1;
        let plan = plan_with(&host, &messages, &request).unwrap();
        assert!(judged(&messages, &plan).tokens_after < 60_000);
        assert!(plan.report.fallback.contains(want), "{}", plan.report.fallback);
        assert!(summary_of(&plan).starts_with("Outline of "), "{:.80}", summary_of(&plan));
    }
    // A summary shorter than its source but too long for the target is cut.
    let host = FakeHost::default();
    host.completions.lock().unwrap().push(Ok("a line of the summary\n".repeat(20_000)));
    let mut request = request(60_000);
    request.completions_max = 1;
    let plan = plan_with(&host, &messages, &request).unwrap();
    assert!(judged(&messages, &plan).tokens_after < 60_000);
    assert!(plan.report.notes[0].contains("was cut from"), "{:?}", plan.report.notes);
}

#[test]
fn a_cancelled_call_asks_nobody_and_ends_with_a_plan() {
    let messages = session(60, 6, 2_000);
    let host = FakeHost { cancelled: true, ..FakeHost::default() };
    let mut request = request(60_000);
    request.completions_max = 1;
    let plan = plan_with(&host, &messages, &request).unwrap();
    judged(&messages, &plan);
    assert!(host.asked.lock().unwrap().is_empty());
    assert!(plan.report.fallback.contains("cancelled"));
}

#[test]
fn exchanges_that_a_person_asked_to_keep_stay_whole() {
    let messages = session(60, 2, 400);
    let mut request = request(8_000);
    request.keep_exchanges = 5;
    request.trigger = Some(Trigger::Manual);
    request.force = true;
    let plan = plan_with(&FakeHost::default(), &messages, &request).unwrap();
    judged(&messages, &plan);
    let first = messages.len() - 5 * 6;
    let is_whole = |step: &Step| match step {
        Step::Summary(summary) => summary.covers.iter().all(|span| span.last < first),
        Step::Rewrite { message, .. } => *message < first,
        _ => true,
    };
    assert!(plan.steps.iter().all(is_whole), "from {first} on all is kept: {}", plan_picture(&plan));
}

#[test]
fn a_compaction_asked_for_by_a_person_needs_no_pressure() {
    let messages = session(10, 2, 400);
    let mut request = request(100_000);
    assert_eq!(kind_of(plan_with(&FakeHost::default(), &messages, &request)), ErrorKind::NothingToCompact);
    request.trigger = Some(Trigger::Manual);
    let plan = plan_with(&FakeHost::default(), &messages, &request).unwrap();
    assert_eq!(judged(&messages, &plan).summaries, 1);
}

#[test]
fn pinned_messages_stay_where_they_are() {
    let mut messages = session(60, 6, 2_000);
    let pinned = messages.iter().position(|message| message.flags.has(Flags::REAL_USER)).unwrap() + 14 * 4;
    messages[pinned].flags = messages[pinned].flags.with(Flags::PINNED);
    let (plan, _) = compact(&messages, 60_000);
    assert!(plan_picture(&plan).contains(&format!("keep {pinned}")), "{}", plan_picture(&plan));
}

#[test]
fn pruning_alone_makes_lines_of_old_results() {
    let messages = session(20, 6, 2_000);
    let table = ViewTable::new(7, &messages);
    let host = FakeHost::default();
    let mut session = new(&json::Value::Null).unwrap().open_session(&host, &SessionStart::default()).unwrap();
    let plan = session.prune_tool_results(&host, &table.conversation(), &request(60_000)).unwrap();
    let verdict = judged(&messages, &plan);
    assert_eq!(verdict.summaries, 0);
    assert!(verdict.rewrites > 80 && verdict.tokens_after < verdict.tokens_before / 3, "{verdict:?}");
    let Some(Step::Rewrite { text, .. }) = plan.steps.iter().find(|step| matches!(step, Step::Rewrite { .. })) else {
        panic!()
    };
    assert_eq!(text, "[terminal] ran `cargo test --test case_0_0` -> exit ?, 250 lines output");
}

#[test]
fn the_self_test_and_the_state_round_trip() {
    let host = FakeHost::default();
    let engine = new(&json::json!({ "tail_mode": "legacy" })).unwrap();
    assert!(engine.self_test(&host).unwrap().starts_with("compacted a conversation of"));
    let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
    let mut applied = engine_api::PlanResult::default();
    applied.applied = true;
    session.plan_result(&applied);
    let state = session.export_state().unwrap();
    let mut other = engine.open_session(&host, &SessionStart::default()).unwrap();
    other.import_state(&state).unwrap();
    assert_eq!(other.status(), session.status());
    assert_eq!(other.status().compression_count, 1);
    assert!(other.import_state(b"{").is_err());
}

#[test]
fn absurd_numbers_in_a_request_do_no_harm() {
    let messages = session(10, 3, 2_000);
    for number in [0, 1, u64::MAX / 2, u64::MAX] {
        for other in [0, 1, u64::MAX] {
            let mut request = CompressRequest::default();
            request.target_tokens = number;
            request.overhead_tokens = other;
            request.current_tokens = number;
            request.completions_max = u32::MAX;
            request.keep_exchanges = u32::try_from(number).unwrap_or(u32::MAX);
            request.model.context_length = other;
            request.model.threshold_tokens = number;
            request.model.tail_budget_tokens = other;
            request.model.summary_tokens_max = other;
            for is_forced in [false, true] {
                request.force = is_forced;
                if let Ok(plan) = plan_with(&FakeHost::default(), &messages, &request) {
                    judged(&messages, &plan);
                }
            }
        }
    }
}

#[test]
fn as_many_newest_user_messages_stay_as_are_asked_for() {
    let messages = session(60, 6, 2_000);
    let users: Vec<usize> = (0..messages.len()).filter(|&at| messages[at].flags.has(Flags::REAL_USER)).collect();
    for wanted in [1, 3, 20] {
        for mode in ["lean", "legacy"] {
            let settings = json::json!({ "tail_mode": mode, "min_tail_user_messages": wanted });
            let mut request = request(60_000);
            request.model.tail_budget_tokens = 500;
            let table = ViewTable::new(7, &messages);
            let host = FakeHost::default();
            let mut session = new(&settings).unwrap().open_session(&host, &SessionStart::default()).unwrap();
            let plan = session.compress(&host, &table.conversation(), &request).unwrap();
            judged(&messages, &plan);
            let kept: Vec<usize> = plan
                .steps
                .iter()
                .filter_map(|step| if let Step::Keep(span) = step { Some(*span) } else { None })
                .flat_map(|span| span.positions())
                .collect();
            let newest = &users[users.len() - wanted..];
            assert!(newest.iter().all(|at| kept.contains(at)), "{mode} {wanted}: {}", plan_picture(&plan));
            assert!(kept.len() < 30 + 3 * wanted, "the work between them is covered: {}", plan_picture(&plan));
        }
    }
}
