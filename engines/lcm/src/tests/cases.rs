//! Conversations of known shapes.
use super::*;
use engine_api::{ErrorKind, Flags, NodeId};
use engine_kit::picture::plan_picture;
use engine_kit::testing::flagged;

fn summary(text: &str) -> Message {
    flagged(user(0, text), Flags::SUMMARY.with(Flags::SYNTHETIC))
}

#[test]
fn a_long_session_becomes_leaves_and_a_fresh_tail() {
    let messages = session(60, 6, 2_000);
    let (plan, verdict) = compact(&messages, 60_000);
    assert!(verdict.tokens_before > 200_000);
    let made = summaries(&plan);
    assert!(made.len() > 5, "{}", plan_picture(&plan));
    assert!(made.iter().all(|summary| summary.kind == SummaryKind::Leaf && summary.depth == 0));
    assert!(made.iter().all(|summary| summary.text.contains("lcm_grep")), "{}", made[0].text);
    assert!(made[0].text.contains("lcm_grep(query=\"src/module_"), "{}", made[0].text);
    assert!(plan_picture(&plan).starts_with("keep 0 | Σ0 1-"), "{:.60}", plan_picture(&plan));
    assert!(plan.report.fallback.contains("no completion is allowed"), "{}", plan.report.fallback);
}

#[test]
fn hard_shapes_fit_too() {
    let ids: Vec<String> = (0..10_000).map(|at| format!("c{at}")).collect();
    let mut parallel = vec![system(0, "x"), user(0, "read everything")];
    parallel.push(calls(0, &ids.iter().map(|id| (id.as_str(), "read_file", "{\"path\":\"a\"}")).collect::<Vec<_>>()));
    parallel.extend(ids.iter().map(|id| result(0, id, "read_file", &"line\n".repeat(100))));
    parallel.push(assistant(0, "All read."));

    let mut giant = session(1, 1, 400);
    giant.extend([user(0, "now the log"), calls(0, &[("big", "terminal", "{\"command\":\"cat log\"}")])]);
    giant.push(result(0, "big", "terminal", &"middle\n".repeat(200_000)));

    let mut old_words = session(3, 2, 400);
    old_words.extend([user(0, &"words ".repeat(850_000)), assistant(0, "I read it."), user(0, "good")]);

    let mut one_turn = vec![system(0, "be brief"), user(0, "port the whole tree")];
    one_turn.extend(tool_rounds(0, 1_500, 400));

    for messages in [parallel, giant, old_words, one_turn] {
        let messages = numbered(messages);
        compact(&messages, 50_000);
        compact(&messages, 8_000);
    }
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
fn where_there_is_nothing_to_gain_it_says_so() {
    for messages in [
        vec![],
        vec![system(1, &"rules ".repeat(10_000))],
        vec![user(1, &"words ".repeat(10_000))],
        vec![system(1, "rules"), user(2, "hi"), assistant(3, "hello")],
    ] {
        let error = plan_with(&FakeHost::default(), &messages, &request(1_000)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NothingToCompact, "{} messages", messages.len());
    }
    // Far from its target, and the backlog is no leaf yet.
    let error = plan_with(&FakeHost::default(), &session(10, 6, 2_000), &request(200_000)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NothingToCompact);
}

#[test]
fn few_earlier_summaries_stay_and_many_are_condensed() {
    let with_summaries = |count: usize, bytes: usize| {
        let mut messages = session(30, 6, 2_000);
        for at in (0..count).rev() {
            messages.insert(1, summary(&format!("leaf {at}: {}", "fact ".repeat(bytes / 5))));
        }
        numbered(messages)
    };
    let messages = with_summaries(7, 2_000);
    let (plan, _) = compact(&messages, 60_000);
    assert!(plan_picture(&plan).starts_with("keep 0-7 | Σ0 8-"), "{:.80}", plan_picture(&plan));

    let messages = with_summaries(8, 2_000);
    let (plan, _) = compact(&messages, 60_000);
    assert!(plan_picture(&plan).starts_with("keep 0 | Σ1 1-8 | Σ0 9-"), "{:.80}", plan_picture(&plan));
    assert_eq!(kinds(&plan)[0], (SummaryKind::Condensed, 1));
    assert!(summaries(&plan)[0].text.contains("leaf 7"), "{}", summaries(&plan)[0].text);

    // Two that are over their part of the room are condensed whatever their number.
    let messages = with_summaries(2, 60_000);
    let (plan, _) = compact(&messages, 60_000);
    assert!(plan_picture(&plan).starts_with("keep 0 | Σ1 1-2 | Σ0 3-"), "{:.80}", plan_picture(&plan));
}

#[test]
fn depth_grows_from_what_the_host_says_of_a_node() {
    let mut host = FakeHost::default();
    host.recall.node = json::json!({ "depth": 2 });
    let mut messages = session(30, 6, 2_000);
    (0..4).for_each(|at| messages.insert(1, summary(&format!("arc {at} {}", "fact ".repeat(800)))));
    let messages = numbered(messages);
    let plan = plan_with(&host, &messages, &request(60_000)).unwrap();
    judged(&messages, &plan);
    assert_eq!(kinds(&plan)[0], (SummaryKind::Condensed, 3));
}

#[test]
fn many_compactions_in_a_row_stay_under_their_target() {
    let mut messages = session(40, 5, 2_000);
    for round in 1..=12u64 {
        let (plan, _) = compact(&messages, 40_000);
        let mut next: Vec<Message> = Vec::new();
        for (at, step) in plan.steps.iter().enumerate() {
            match step {
                Step::Keep(span) => next.extend(messages[span.first..=span.last].iter().cloned()),
                Step::Summary(made) => {
                    let mut message = summary(&format!("[palimpsest: summary]\n{}", made.text));
                    message.node = NodeId(round * 100 + at as u64);
                    next.push(message);
                }
                _ => {}
            }
        }
        next.extend(session(20, 5, 2_000).into_iter().skip(1));
        messages = numbered(next);
    }
}

#[test]
fn texts_of_a_model_are_used_and_too_long_ones_asked_for_as_bullets() {
    let messages = session(20, 6, 2_000);
    let mut request = request(30_000);
    request.completions_max = 3;
    request.focus_topic = "imports".to_string();
    let host = FakeHost::default();
    let script = ["A good leaf.".to_string(), "far too long ".repeat(20_000), "- bullets".to_string()];
    host.completions.lock().unwrap().extend(script.map(Ok));
    let mut few = request.clone();
    few.completions_max = 2;
    let plan = plan_with(&host, &messages, &few).unwrap();
    judged(&messages, &plan);
    let texts: Vec<&str> = summaries(&plan).iter().map(|summary| summary.text.as_str()).collect();
    assert_eq!(texts.len(), 2, "as many leaves as completions");
    assert!(texts.iter().any(|text| text.starts_with("A good leaf.")), "{texts:?}");
    assert!(plan.report.fallback.contains("1 of 2 summaries made without a model: the summariser's text was too long"));
    assert!(host.asked.lock().unwrap()[0].prompt.contains("Dwell on this topic: \"imports\""));

    let host = FakeHost::default();
    let script = ["far too long ".repeat(20_000), "good".to_string(), "good".to_string(), "- bullets".to_string()];
    host.completions.lock().unwrap().extend(script.map(Ok));
    let settings = json::json!({ "leaf_chunk_tokens": 40_000 });
    let table = ViewTable::new(7, &messages);
    request.completions_max = 10;
    let mut session = new(&settings).unwrap().open_session(&host, &SessionStart::default()).unwrap();
    let plan = session.compress(&host, &table.conversation(), &request).unwrap();
    judged(&messages, &plan);
    assert!(
        summaries(&plan)
            .iter()
            .any(|summary| summary.text.starts_with("good") || summary.text.starts_with("- bullets"))
    );
    let asked = host.asked.lock().unwrap();
    assert!(asked.last().unwrap().prompt.contains("Bullet points only"), "{}", plan.report.fallback);
    assert_eq!(plan.report.completions as usize, asked.len());
}

#[test]
fn without_a_usable_completion_the_outline_stands_in() {
    let messages = session(60, 6, 2_000);
    for (script, want) in [
        (Err(EngineError::new(ErrorKind::Summariser, "no route to the model")), "no route to the model"),
        (Ok(String::new()), "an empty text"),
        (Ok("<think>forgot to answer".to_string()), "an empty text"),
        (Ok("blah ".repeat(2_000_000)), "too long"),
    ] {
        let host = FakeHost::default();
        host.completions.lock().unwrap().push(script);
        let mut request = request(60_000);
        request.completions_max = 1;
        let plan = plan_with(&host, &messages, &request).unwrap();
        assert!(judged(&messages, &plan).tokens_after < 60_000);
        assert!(plan.report.fallback.contains(want), "{}", plan.report.fallback);
        assert!(summaries(&plan)[0].text.starts_with("Outline of "));
    }
}

#[test]
fn a_cancelled_call_asks_nobody_and_ends_with_a_plan() {
    let messages = session(60, 6, 2_000);
    let host = FakeHost { cancelled: true, ..FakeHost::default() };
    let mut request = request(60_000);
    request.completions_max = 5;
    let plan = plan_with(&host, &messages, &request).unwrap();
    judged(&messages, &plan);
    assert!(host.asked.lock().unwrap().is_empty());
    assert!(plan.report.fallback.contains("cancelled"), "{}", plan.report.fallback);
}

#[test]
fn counters_grow_with_applied_plans_only_and_survive_a_reload() {
    let messages = session(60, 6, 2_000);
    let table = ViewTable::new(7, &messages);
    let host = FakeHost::default();
    let engine = new(&json::Value::Null).unwrap();
    let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
    let mut outcome = PlanResult::default();
    for is_applied in [false, true] {
        session.compress(&host, &table.conversation(), &request(60_000)).unwrap();
        outcome.applied = is_applied;
        session.plan_result(&outcome);
    }
    let none = json::json!({});
    let answer = session.handle_tool_call(&host, &table.conversation(), "lcm_grep", &none).unwrap();
    assert_eq!(answer, r#"{"error":"No query provided"}"#);
    let error = session.handle_tool_call(&host, &table.conversation(), "lcm_rm", &none).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let status = session.status();
    assert_eq!((status.compression_count, &status.extra["tool_calls"]), (1, &json::json!(1)));
    assert!(status.extra["summaries"]["leaves"].as_u64().unwrap() > 5, "{}", status.extra);
    let mut other = engine.open_session(&host, &SessionStart::default()).unwrap();
    other.import_state(&session.export_state().unwrap()).unwrap();
    assert_eq!(other.status(), status);
    assert!(other.import_state(b"[").is_err());
}

#[test]
fn the_engine_answers_to_both_names_and_tests_itself() {
    let engine = new(&json::json!({ "fan_in": 1 })).unwrap();
    let info = engine.info();
    assert_eq!((info.name.as_str(), info.aliases[0].as_str()), ("lcm", "lcm-x"));
    assert_eq!(engine.tool_schemas()[0].name, "lcm_grep");
    assert_eq!(engine.check_config(&json::json!({ "fan_in": 1 })).len(), 1);
    let line = engine.self_test(&FakeHost::default()).unwrap();
    assert!(line.ends_with("lcm_grep answers"), "{line}");
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
