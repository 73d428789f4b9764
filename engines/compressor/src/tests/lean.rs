//! What a lean tail's summary has, and what the model is asked for it.

use super::*;
use engine_api::{CompletionModel, Flags, NodeId};
use engine_kit::picture::plan_picture;

fn lean_request(target: u64) -> CompressRequest {
    let mut request = request(target);
    request.model.tail_budget_tokens = 10_000.min(target / 5);
    request.completions_max = 1;
    request
}

/// Compacts with a model that answers this; returns the plan and what it was asked.
fn answered(messages: &[Message], mode: &str, request: &CompressRequest, answer: &str) -> (CompactionPlan, String) {
    let host = FakeHost::default();
    host.completions.lock().unwrap().push(Ok(answer.to_string()));
    let table = ViewTable::new(7, messages);
    let engine = new(&json::json!({ "tail_mode": mode })).unwrap();
    let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
    let plan = session.compress(&host, &table.conversation(), request).unwrap();
    judged(messages, &plan);
    let asked = host.asked.lock().unwrap();
    assert_eq!(asked.len(), 1, "one call for sections and log together");
    assert_eq!(asked[0].model, request.completion_model);
    (plan, asked[0].prompt.clone())
}

#[test]
fn one_call_asks_for_sections_and_a_log() {
    let messages = session(60, 6, 2_000);
    let (lean, prompt) = answered(&messages, "lean", &lean_request(60_000), "## Goal\nx");
    assert!(prompt.contains("## Critical Context") && prompt.contains("## Detailed Session Log"));
    assert!(prompt.contains("Use about 4000 tokens for it"), "{prompt:.3000}");
    assert!(prompt.contains("run 3.1\nrun 3.1"), "a log is made of the results themselves");
    let text = summary_of(&lean);
    let order =
        ["## Goal", "## Anchor Index (exact)", "## Context Recovery"].map(|heading| text.find(heading).unwrap());
    assert!(order.is_sorted(), "{text}");
    assert!(text.contains("messages 5 to ") && !text.contains("lcm_grep"), "{text}");

    let (legacy, prompt) = answered(&messages, "legacy", &lean_request(60_000), "## Goal\nx");
    assert!(!prompt.contains("Detailed Session Log"));
    assert!(prompt.contains("[terminal] ran `cargo test --test case_3_1` -> exit ?, 250 lines output"));
    assert!(!summary_of(&legacy).contains("Context Recovery"));
}

#[test]
fn identifiers_of_arguments_are_in_the_index_and_keep_their_counts() {
    let mut messages = session(40, 5, 2_000);
    messages[6] =
        calls(0, &[("call_0_2", "terminal", "{\"command\":\"git checkout fix/odd-name && vim deep/in/here.rs\"}")]);
    let summary = "[palimpsest: summary 3 of 90 earlier messages]\n## Goal\n- old goal\n\n## Anchor Index (exact)\n\
                   - Files: very/old/file.rs (x41)\n\n## Context Recovery\n- gone\n[palimpsest: end of summary]";
    let mut earlier = flagged(user(0, summary), Flags::SUMMARY.with(Flags::SYNTHETIC));
    earlier.node = NodeId(3);
    messages.insert(1, earlier);
    let messages = numbered(messages);
    let (plan, prompt) =
        answered(&messages, "lean", &lean_request(40_000), "## Goal\nx\n\n## Anchor Index (exact)\n- Files: made.up");
    let text = summary_of(&plan);
    assert!(
        text.contains("very/old/file.rs (x41)") && text.contains("deep/in/here.rs") && text.contains("fix/odd-name"),
        "{text}"
    );
    assert!(!text.contains("made.up"), "a model's copy of the index is not believed");
    assert!(text.contains("those that summary 3 stood for"), "{text}");
    assert!(prompt.contains("- old goal") && !prompt.contains("very/old/file.rs") && !prompt.contains("- gone"));
}

#[test]
fn on_the_live_prefix_only_the_instruction_is_sent() {
    let messages = session(60, 6, 2_000);
    let mut request = lean_request(60_000);
    request.completion_model = Some(CompletionModel::MainOnPrefix);
    let (plan, prompt) = answered(&messages, "lean", &request, "## Goal\nx");
    assert!(!prompt.contains("run 3.1") && prompt.len() < 6_000, "{}", prompt.len());
    let Some(Step::Keep(tail)) = plan.steps.iter().rev().find(|step| matches!(step, Step::Keep(_))) else {
        panic!("{}", plan_picture(&plan))
    };
    let newest = messages.len() - tail.first;
    assert!(prompt.contains(&format!("the newest {newest} messages")), "{prompt} {}", plan_picture(&plan));
    let begins = if messages[tail.first].parts[0].tool_name.is_empty() {
        messages[tail.first].parts[0].text.clone()
    } else {
        format!("terminal {}", messages[tail.first].parts[0].text)
    };
    let shown = engine_kit::text::one_line(&begins, 80);
    assert!(prompt.contains(&json::Value::from(shown).to_string()), "{prompt}");
}

#[test]
fn the_material_fits_the_window_of_its_model() {
    // Texts of few bytes a token and of many, for the estimate must hold for both.
    for filler in ["words of a page ", "é1€;"] {
        let mut messages = session(10, 2, 400);
        for at in 0..200 {
            messages.push(assistant(0, &format!("{at} {}", filler.repeat(4_000 / filler.len()))));
            messages.push(user(0, &format!("go on {at}")));
        }
        let messages = numbered(messages);
        for window in [4_000, 16_000, 64_000, 1_000_000] {
            let mut request = lean_request(100_000);
            request.completion_model = Some(CompletionModel::Auxiliary);
            request.completion_window = window;
            let (_, prompt) = answered(&messages, "lean", &request, "## Goal\nx");
            assert!(count(&prompt) <= window, "{} of {window}", count(&prompt));
            assert!(window < 64_000 || count(&prompt) > window / 4 || window == 1_000_000);
        }
    }
}

#[test]
fn large_results_before_the_newest_six_rounds_become_lines() {
    let mut messages = vec![user(0, "port the tree")];
    messages.extend(tool_rounds(0, 12, 1_600));
    let messages = numbered(messages);
    let table = ViewTable::new(7, &messages);
    let host = FakeHost::default();
    for (mode, want) in [("lean", 6), ("legacy", 0)] {
        let engine = new(&json::json!({ "tail_mode": mode, "protect_last_n": 40 })).unwrap();
        let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
        let plan = session.prune_tool_results(&host, &table.conversation(), &request(100_000));
        let rewrites = plan.map(|plan| plan.steps.iter().filter(|step| matches!(step, Step::Rewrite { .. })).count());
        assert_eq!(rewrites.unwrap_or(0), want, "{mode}");
    }
}
