//! Failures that Codex and its like were seen to have, and what must stay.
use super::*;

const WINDOWS: [u64; 6] = [8_192, 32_768, 65_536, 200_000, 400_000, 1_000_000];

fn text_of_inserts(plan: &CompactionPlan) -> Vec<&str> {
    let inserts = plan.steps.iter().filter_map(|step| match step {
        Step::Insert { text, .. } => Some(text.as_str()),
        _ => None,
    });
    inserts.collect()
}

#[test]
fn it_lands_under_its_target_at_every_window() {
    for window in WINDOWS {
        let turns = usize::try_from(window / 3_000 + 1).unwrap();
        let messages = session(turns, 4, 3_600);
        let total: u64 = messages.iter().map(|message| u64::from(message.tokens)).sum();
        assert!(total > window, "{total} of {window}");
        for settings in [json::Value::Null, original()] {
            let mut asking = request(window / 4 * 3);
            asking.overhead_tokens = window / 10;
            asking.model.context_length = window;
            let plan = plan_with(&host(&["## Goal\nbuild all"]), &settings, &messages, &asking).unwrap();
            let verdict = judged(&messages, &plan);
            assert!(verdict.tokens_after + window / 10 < window / 4 * 3, "{window}: {verdict:?}");
            let newest = messages.iter().rposition(|message| message.flags.has(Flags::REAL_USER)).unwrap();
            assert!(is_kept(&plan, 1) && is_kept(&plan, newest), "{window}: task and newest request");
        }
    }
}

#[test]
fn all_requests_stay_word_for_word_where_their_share_holds_them() {
    let messages = session(30, 4, 2_000);
    let plan = plan_with(&host(&["## Goal\nbuild"]), &json::Value::Null, &messages, &request(40_000)).unwrap();
    for (at, _) in messages.iter().enumerate().filter(|(_, message)| message.flags.has(Flags::REAL_USER)) {
        assert!(is_kept(&plan, at), "request at {at}: {}", plan_picture(&plan));
    }
    assert_eq!(text_of_inserts(&plan), Vec::<&str>::new());
}

#[test]
fn the_first_request_is_not_starved_by_later_ones() {
    let mut messages = vec![system(0, "base"), user(0, "TASK: port the parser")];
    messages.extend(tool_rounds(0, 3, 2_000));
    for at in 0..8 {
        messages.push(user(0, &format!("log {at} {}", "pasted words ".repeat(2_000))));
        messages.extend(tool_rounds(at + 1, 2, 2_000));
    }
    let messages = numbered(messages);
    let plan = plan_with(&host(&["## Goal\nport"]), &json::Value::Null, &messages, &request(30_000)).unwrap();
    judged(&messages, &plan);
    assert!(is_kept(&plan, 1), "{}", plan_picture(&plan));
    assert!(!text_of_inserts(&plan).is_empty(), "the crossing message is cut: {}", plan_picture(&plan));
    let plan = plan_with(&host(&["## Goal\nport"]), &original(), &messages, &request(30_000)).unwrap();
    assert!(!is_kept(&plan, 1), "the program takes the newest first");
}

#[test]
fn a_cut_request_is_carried_on_and_not_cut_away() {
    let giant = format!("START {} FINISH", "pasted words ".repeat(4_000));
    let mut messages = vec![system(0, "base"), user(0, &giant), assistant(0, "read")];
    messages.extend(tool_rounds(0, 12, 4_000));
    messages.push(user(0, "go on"));
    let messages = numbered(messages);
    let plan = plan_with(&host(&["## Goal\nread"]), &json::Value::Null, &messages, &request(20_000)).unwrap();
    judged(&messages, &plan);
    let inserts = text_of_inserts(&plan);
    let [cut] = inserts.as_slice() else { panic!("{inserts:?}") };
    assert!(cut.starts_with(choose::CUT_LEAD) && cut.contains("\nSTART") && cut.ends_with("FINISH"), "{cut:.80}");
    assert!(cut.contains(" tokens truncated…"));

    // The next compaction meets it as the host writes it.
    let framed = flagged(user(0, &format!("[palimpsest: restored]\n{cut}")), Flags::SYNTHETIC);
    let handoff = flagged(user(0, "handoff"), Flags::SUMMARY.with(Flags::SYNTHETIC));
    let mut next = vec![system(0, "base"), framed, handoff, user(0, "go on")];
    next.extend(tool_rounds(1, 16, 4_000));
    next.push(user(0, "and on"));
    let next = numbered(next);
    let plan = plan_with(&host(&["## Goal\nread on"]), &json::Value::Null, &next, &request(20_000)).unwrap();
    judged(&next, &plan);
    let carried: Vec<&str> = text_of_inserts(&plan);
    assert!(is_kept(&plan, 1) || carried.iter().any(|text| text.contains("START")), "{}", plan_picture(&plan));
    assert!(!is_kept(&plan, 2), "the earlier handoff stays: {}", plan_picture(&plan));
}

#[test]
fn rules_and_environment_survive_every_compaction() {
    let rules = "# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>\nalways answer briefly\n</INSTRUCTIONS>";
    let injected = |text: &str| flagged(user(0, text), Flags::INJECTED);
    let mut messages = vec![system(0, "base"), injected(rules), injected("<environment_context>/a"), user(0, "port")];
    for turn in 0..12 {
        messages.extend(tool_rounds(turn, 3, 4_000));
        messages.push(injected(&format!("<environment_context>/{turn}")));
        messages.push(user(0, &format!("next {turn}")));
    }
    let messages = numbered(messages);
    for settings in [json::Value::Null, original()] {
        let plan = plan_with(&host(&["## Goal\nport"]), &settings, &messages, &request(9_000)).unwrap();
        judged(&messages, &plan);
        let newest = messages.iter().rposition(|message| message.parts[0].text.starts_with("<environment")).unwrap();
        for at in [1, 2, newest] {
            assert!(is_kept(&plan, at), "{at}: {}", plan_picture(&plan));
        }
        let middle = messages.iter().filter(|message| message.parts[0].text.starts_with("<environment")).count();
        let kept = messages
            .iter()
            .enumerate()
            .filter(|(at, message)| message.parts[0].text.starts_with("<environment") && is_kept(&plan, *at));
        assert!(kept.count() < middle / 2, "superseded environments go");
    }
}

#[test]
fn what_goes_last_when_all_is_too_much_is_the_task_and_then_the_rules() {
    let rules = format!("# AGENTS.md instructions for /a\n{}", "rule ".repeat(160));
    let injected = |text: &str| flagged(user(0, text), Flags::INJECTED);
    let mut messages = vec![system(0, "base"), injected(&rules), user(0, &format!("TASK {}", "do ".repeat(160)))];
    for turn in 0..8 {
        messages.extend(tool_rounds(turn, 2, 2_000));
        messages.push(user(0, &format!("next {turn} {}", "please ".repeat(100))));
    }
    messages.push(user(0, "and now"));
    let messages = numbered(messages);
    let kept_at = |target: u64| {
        let plan = plan_with(&FakeHost::default(), &json::Value::Null, &messages, &request(target)).unwrap();
        judged(&messages, &plan);
        let users = (3..messages.len() - 1)
            .filter(|&at| messages[at].flags.has(Flags::REAL_USER) && is_kept(&plan, at))
            .count();
        (is_kept(&plan, 1), is_kept(&plan, 2), users)
    };
    let mut before = (true, true, usize::MAX);
    for target in [8_000, 4_000, 2_500, 2_000, 1_500, 1_000, 800, 600, 400] {
        let (has_rules, has_task, users) = kept_at(target);
        assert!(has_rules || !has_task || target < 1_500, "{target}: rules went before the task");
        assert!(users <= before.2, "{target}: less room keeps no more");
        before = (has_rules, has_task, users);
    }
    assert_eq!(kept_at(8_000), (true, true, 8));
}

#[test]
fn a_large_output_is_cut_wherever_it_stands() {
    let log = "a line of the log\n".repeat(6_000);
    let round = |at: usize, text: &str| {
        let call = format!("c{at}");
        vec![calls(0, &[(&call, "shell", "{\"cmd\":\"make\"}")]), result(0, &call, "shell", text)]
    };
    // An assistant's text after the large output: trimming that stops there would miss it.
    let mut messages = vec![system(0, "base"), user(0, "build")];
    messages.extend(round(0, &log));
    messages.push(assistant(0, "It failed."));
    messages.extend(round(1, "ok"));
    let messages = numbered(messages);
    let table = ViewTable::new(7, &messages);
    let mut session =
        new(&json::Value::Null).unwrap().open_session(&FakeHost::default(), &SessionStart::default()).unwrap();
    let plan = session.prune_tool_results(&FakeHost::default(), &table.conversation(), &request(200_000)).unwrap();
    let verdict = judged(&messages, &plan);
    assert_eq!((verdict.summaries, verdict.rewrites), (0, 1));
    assert!(verdict.tokens_after < 11_000, "{verdict:?}");
    let mut asking = request(200_000);
    asking.model.tail_budget_tokens = 1_000;
    let plan = session.prune_tool_results(&FakeHost::default(), &table.conversation(), &asking).unwrap();
    assert!(judged(&messages, &plan).tokens_after < 1_300, "an old result has a tenth");
    let small = numbered([system(0, "base"), user(0, "build"), assistant(0, "done")]);
    let table = ViewTable::new(7, &small);
    let error = session.prune_tool_results(&FakeHost::default(), &table.conversation(), &asking).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NothingToCompact);
}

#[test]
fn calls_and_results_stay_together_and_a_giant_last_result_is_shortened() {
    let mut messages = session(3, 3, 2_000);
    messages.push(user(0, "now the log"));
    let log = "a line of the log\n".repeat(40_000);
    messages.push(calls(0, &[("x", "shell", "{}"), ("y", "shell", "{}")]));
    messages.push(result(0, "x", "shell", &log));
    messages.push(result(0, "y", "shell", "ok"));
    let messages = numbered(messages);
    for settings in [json::Value::Null, original()] {
        let plan = plan_with(&host(&["## Goal\nlog"]), &settings, &messages, &request(20_000)).unwrap();
        assert!(judged(&messages, &plan).tokens_after < 20_000);
    }
}

#[test]
fn nothing_to_do_is_said_and_no_model_is_asked() {
    for messages in [vec![], numbered([system(0, "s")]), numbered([system(0, "s"), user(0, "hello")])] {
        let host = host(&["## Goal\nx"]);
        let error = plan_with(&host, &json::Value::Null, &messages, &request(20_000)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NothingToCompact);
        assert_eq!(host.asked.lock().unwrap().len(), 0);
    }
}

#[test]
fn a_handoff_longer_than_its_source_is_refused() {
    let mut messages = vec![system(0, "base")];
    for at in 0..6 {
        messages.extend([user(0, &format!("ask {at}")), assistant(0, &format!("say {at} {}", "word ".repeat(60)))]);
    }
    let messages = numbered(messages);
    let long = "word ".repeat(800);
    let plan = plan_with(&host(&[&long, &long]), &original(), &messages, &request(400));
    if let Ok(plan) = plan {
        let verdict = judged(&messages, &plan);
        assert!(verdict.tokens_after < verdict.tokens_before);
        assert!(!plan.report.fallback.is_empty());
    }
}

#[test]
fn the_prompt_can_be_replaced_and_carries_wishes() {
    let messages = session(6, 6, 2_000);
    let host = host(&["## Goal\nx"]);
    let mut asking = request(8_000);
    asking.focus_topic = "the \"parser\"".to_string();
    asking.memory_context = "likes <b>tea</b>".to_string();
    let settings = json::json!({ "prompt": "Hand over in {budget} tokens." });
    plan_with(&host, &settings, &messages, &asking).unwrap();
    let asked = host.asked.lock().unwrap();
    let prompt = &asked[0].prompt;
    assert!(prompt.starts_with("Hand over in ") && !prompt.contains("{budget}"), "{prompt:.200}");
    assert!(
        prompt.contains("above all: \"the \\\"parser\\\"\"") && prompt.contains("\\u003cb\\u003e"),
        "{prompt:.600}"
    );
}

#[test]
fn exchanges_that_a_person_asked_for_stay_whole() {
    let messages = session(8, 4, 2_000);
    let mut asking = request(12_000);
    asking.keep_exchanges = 2;
    let plan = plan_with(&host(&["## Goal\nx"]), &original(), &messages, &asking).unwrap();
    judged(&messages, &plan);
    let users: Vec<usize> = (0..messages.len()).filter(|&at| messages[at].flags.has(Flags::REAL_USER)).collect();
    let from = users[users.len() - 2];
    assert!((from..messages.len()).all(|at| is_kept(&plan, at)), "{}", plan_picture(&plan));
}

#[test]
fn the_engine_checks_itself_and_tells_what_it_counts() {
    let host = FakeHost::default();
    let engine = new(&json::Value::Null).unwrap();
    assert!(engine.self_test(&host).unwrap().contains("compacted"));
    assert!(new(&original()).unwrap().self_test(&host).is_ok());
    assert_eq!(engine.check_config(&json::json!({ "x": 1 })).len(), 1);
    assert_eq!(engine.info().name, "codex");

    let mut start = SessionStart::default();
    let mut model = ModelInfo::default();
    model.context_length = 100_000;
    start.model = model;
    let mut session = engine.open_session(&host, &start).unwrap();
    let mut applied = engine_api::PlanResult::default();
    applied.applied = true;
    applied.tokens_after = 1_234;
    session.plan_result(&applied);
    session.plan_result(&engine_api::PlanResult::default());
    let status = session.status();
    assert_eq!((status.compression_count, status.threshold_tokens, status.context_length), (1, 90_000, 100_000));
    let state = session.export_state().unwrap();
    let mut other = engine.open_session(&host, &start).unwrap();
    other.import_state(&state).unwrap();
    assert_eq!(other.status(), session.status());
    assert!(other.import_state(b"no state").is_err());
}
