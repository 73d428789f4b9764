//! Conversations of known shapes, and the failures that the program has.
use super::*;
use engine_api::{Basis, Completion, Flags, PromptTokens};
use engine_kit::picture::plan_picture;

const SUMMARY: &str = "## Goal\n- read the files";

fn original() -> json::Value {
    json::json!({ "as_original": true })
}

/// One request, and rounds of reading 30,000 bytes; with an answer at the end if the turn is finished.
fn chunks(rounds: usize, is_finished: bool) -> Vec<Message> {
    let mut list = vec![system(0, &"rules ".repeat(1_500)), user(0, "Read the chunk files and report.")];
    for at in 1..=rounds {
        let call = format!("c{at}");
        list.push(calls(0, &[(&call, "bash", &format!("{{\"command\":\"cat chunk_{at:02}.txt\"}}"))]));
        list.push(result(0, &call, "bash", &format!("chunk {at} {}", "value=1 status=ok\n".repeat(1_660))));
    }
    if is_finished {
        list.push(assistant(0, "All done."));
    }
    numbered(list)
}

fn summary_message(text: &str) -> Message {
    flagged(user(0, text), Flags::SUMMARY.with(Flags::SYNTHETIC))
}

#[test]
fn as_the_original_a_finished_turn_becomes_question_summary_and_tail() {
    let messages = chunks(6, true);
    let mut request = request(40_000);
    request.model.context_length = 60_000;
    request.model.max_tokens = 8_000;
    let host = host(&[SUMMARY]);
    let plan = plan_with(&host, &original(), &messages, &request).unwrap();
    judged(&messages, &plan).unwrap();
    // As recorded of the program: of seven rounds the newest one and the answer stay; ours keeps the request too.
    assert_eq!(summary_of(&plan).text, SUMMARY);
    assert_eq!(inserts(&plan), [(InsertKind::LeadIn, None)], "nothing makes the agent go on after a finished turn");
    let picture = plan_picture(&plan);
    assert!(picture.starts_with("keep 0-1 | ") && picture.ends_with("keep 12-14"), "{picture}");
    let asked = host.asked.lock().unwrap();
    let prompt = &asked[0].prompt;
    for wanted in
        ["[User]: Read the chunk", "[Assistant tool call]: bash({\"command\"", "[Tool result]: chunk 1", "[truncated]"]
    {
        assert!(prompt.contains(wanted), "{wanted}");
    }
    assert!(prompt.len() < 5 * 2_300 + 4_000, "results are cut at 2,000 characters: {}", prompt.len());
    let headings: Vec<&str> = prompt.lines().filter(|line| line.starts_with('#')).collect();
    let new = ["## Objective", "## Important Details", "## Work State", "### Completed", "### Active", "### Blocked"];
    assert_eq!(headings, [&new[..], &["## Next Move", "## Relevant Files"]].concat());
}

#[test]
fn within_a_turn_the_original_pushes_on_and_an_overflow_says_the_request_again() {
    let messages = chunks(7, false);
    let mut request = request(40_000);
    let plan = plan_with(&host(&[SUMMARY]), &original(), &messages, &request).unwrap();
    assert_eq!(inserts(&plan), [(InsertKind::LeadIn, None), (InsertKind::Note, None)]);
    let plan = plan_with(&host(&[SUMMARY]), &json::Value::Null, &messages, &request).unwrap();
    assert_eq!(inserts(&plan), []);
    request.trigger = Some(Trigger::Overflow);
    let plan = plan_with(&host(&[SUMMARY]), &json::Value::Null, &messages, &request).unwrap();
    let verdict = judged(&messages, &plan).unwrap();
    assert_eq!(inserts(&plan), [(InsertKind::Replay, Some(1))]);
    assert!(verdict.tokens_after < 40_000, "{verdict:?}");
    let finished = chunks(7, true);
    let plan = plan_with(&host(&[SUMMARY]), &json::Value::Null, &finished, &request).unwrap();
    assert_eq!(inserts(&plan), [], "a finished turn has nothing to say again");
}

#[test]
fn superseded_summaries_and_replays_never_leak() {
    let mut messages = session(3, 4, 8_000);
    messages.insert(1, summary_message("old one"));
    let end = messages.len() - 1;
    messages.insert(end, summary_message("old two"));
    let messages = numbered(messages);
    let host = host(&[SUMMARY]);
    let plan = plan_with(&host, &json::json!({ "prune": false }), &messages, &request(12_000)).unwrap();
    judged(&messages, &plan).unwrap();
    let covered: Vec<usize> = summary_of(&plan).covers.iter().flat_map(|span| span.positions()).collect();
    assert!(covered.contains(&1) && covered.contains(&end), "{}", plan_picture(&plan));
    let asked = host.asked.lock().unwrap();
    assert!(asked[0].prompt.contains("<prior-summary>\nold one\n\nold two\n</prior-summary>"));
}

#[test]
fn hiding_spares_the_newest_the_last_turns_and_skills_and_must_gain_enough() {
    // Six turns of one result of 12,004 tokens each.
    let turns = |tool: &str, count: u64| {
        let mut list = vec![system(0, "s")];
        for turn in 0..count {
            let call = format!("c{turn}");
            list.push(user(0, &format!("request {turn}")));
            list.push(calls(0, &[(&call, tool, "{}")]));
            list.push(result(0, &call, tool, &"12345678".repeat(6_000)));
            list.push(assistant(0, "done"));
        }
        numbered(list)
    };
    let hide = |messages: &[Message], window: u64| {
        let table = ViewTable::new(7, messages);
        let host = FakeHost::default();
        let mut request = request(500_000);
        request.model.context_length = window;
        let mut session = new(&json::Value::Null).unwrap().open_session(&host, &SessionStart::default()).unwrap();
        let plan = session.prune_tool_results(&host, &table.conversation(), &request).ok()?;
        assert!(host.asked.lock().unwrap().is_empty());
        judged(messages, &plan).unwrap();
        let texts = plan.steps.iter().filter_map(|step| match step {
            Step::Rewrite { message, text, .. } => Some((*message, text.clone())),
            _ => None,
        });
        let texts: Vec<(usize, String)> = texts.collect();
        assert!(texts.iter().all(|(_, text)| text == "[Old tool result content cleared]"));
        Some(texts.into_iter().map(|(message, _)| message).collect::<Vec<_>>())
    };
    // Two turns and three results of 36,012 tokens are protected; the fourth passes 40,000.
    assert_eq!(hide(&turns("bash", 6), 200_000), None, "one result is 12,000 tokens, under the least gain");
    assert_eq!(hide(&turns("bash", 8), 200_000), Some(vec![3, 7, 11]));
    assert_eq!(hide(&turns("skill", 8), 200_000), None);
    assert_eq!(hide(&turns("bash", 3), 32_000), Some(vec![3]), "the figures follow a small window");
    let mut hidden = turns("bash", 8);
    hidden[15].parts[0] = engine_api::Part::result("c3", "[Old tool result content cleared]");
    hidden[15].parts[0].flags = Flags::DEMOTED;
    assert_eq!(hide(&hidden, 200_000), None, "what lies behind a hidden result was decided then");
}

#[test]
fn every_bad_answer_is_asked_again_once_and_then_made_without_a_model() {
    let messages = session(6, 4, 8_000);
    let echo = "<conversation>\n[User]: request 0";
    for bad in ["", "<think>hm", "I'm sorry, but no.", &"word ".repeat(90_000), echo] {
        let is_bad = bad != echo;
        let host = host(&[bad, bad]);
        let plan = plan_with(&host, &json::json!({ "prune": false }), &messages, &request(20_000)).unwrap();
        judged(&messages, &plan).unwrap();
        assert_eq!(!plan.report.fallback.is_empty(), is_bad, "{bad:.30}");
        assert_eq!(host.asked.lock().unwrap().len(), if is_bad { 2 } else { 1 });
    }
    let good = host(&["", SUMMARY]);
    let plan = plan_with(&good, &json::json!({ "prune": false }), &messages, &request(20_000)).unwrap();
    assert_eq!((plan.report.completions, plan.report.fallback.as_str()), (2, ""));
    let mut cut = Completion::default();
    (cut.text, cut.finish_reason) = ("## Goal".to_string(), "length".to_string());
    assert!(crate::answer::usable(&cut, "").is_err());
}

#[test]
fn every_window_gets_a_plan_under_its_target() {
    for window in [8_000u64, 16_000, 32_768, 65_536, 128_000, 200_000, 1_000_000] {
        let turns = usize::try_from(window / 2_000).unwrap();
        let messages = session(turns, 4, 4_000);
        for settings in [json::Value::Null, original()] {
            for model_answers in [&[SUMMARY][..], &[]] {
                let mut request = request(window / 2);
                request.model.context_length = window;
                request.model.max_tokens = window;
                let plan = plan_with(&host(model_answers), &settings, &messages, &request).unwrap();
                let verdict = judged(&messages, &plan).unwrap();
                assert!(verdict.tokens_after < window / 2, "{verdict:?} of {window}");
            }
        }
    }
}

#[test]
fn the_program_threshold_holds_as_original_only() {
    let mut start = SessionStart::default();
    start.settings = original();
    (start.model.context_length, start.model.max_tokens) = (60_000, 8_000);
    let host = FakeHost::default();
    let engine = new(&json::Value::Null).unwrap();
    let mut session = engine.open_session(&host, &start).unwrap();
    let tokens = |count| PromptTokens { count, basis: Basis::Reported };
    assert!(session.should_compress(tokens(52_000)).compress && !session.should_compress(tokens(51_999)).compress);
    start.model.context_length = 0;
    let mut unknown = engine.open_session(&host, &start).unwrap();
    assert!(unknown.should_compress(tokens(u64::MAX)).host_decides);
    start.settings = json::json!({});
    assert!(engine.open_session(&host, &start).unwrap().should_compress(tokens(1)).host_decides);
}

#[test]
fn the_page_and_the_manifest_list_every_setting_with_its_default() {
    let page = include_str!("../../../../plugins/context_engine/opencode/README.md");
    let manifest = include_str!("../../../../plugins/context_engine/opencode/plugin.yaml");
    for key in KEYS {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", key.name)));
        let row = row.unwrap_or_else(|| panic!("no row for {}", key.name));
        assert!(row.contains(&format!("| {} |", key.default)), "{row}");
        assert!(manifest.contains(&format!("\n  {}:\n", key.name)), "{} is not in the manifest", key.name);
        let wrong = json::json!({ key.name: { "no": "such" } });
        assert_eq!(Settings::read(&wrong).1.len(), 1, "{}", key.name);
    }
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, KEYS.len(), "a row that no setting stands behind");
    let defaults = json::json!({
        "as_original": false, "prune": true, "prune_minimum_tokens": 20000, "prune_protect_tokens": 40000,
        "prune_protect_turns": 2, "prune_exempt_tools": ["skill"], "preserve_recent_tokens": 0, "tail_turns": 0,
        "keep_original_request": true, "replay": true, "headings": "five", "summary_tokens": 4096,
        "result_chars": 2000, "prompt": "",
    });
    assert_eq!(Settings::read(&defaults), (Settings::default(), vec![]));
}

#[test]
fn a_prompt_of_the_user_takes_the_place_of_the_engines() {
    let host = host(&[SUMMARY]);
    let settings = json::json!({ "prompt": "Tell it in {budget} tokens.", "prune": false });
    plan_with(&host, &settings, &session(6, 4, 8_000), &request(20_000)).unwrap();
    let asked = host.asked.lock().unwrap();
    assert!(asked[0].prompt.contains("Tell it in ") && !asked[0].prompt.contains("## Goal"));
}

#[test]
fn the_self_test_passes() {
    for settings in [json::json!({}), original()] {
        new(&settings).unwrap().self_test(&FakeHost::default()).unwrap();
    }
}
