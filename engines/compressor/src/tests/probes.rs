//! Conversations that Hermes 0.19.0 was seen to leave as large as they were, at a window of 200,000 tokens.

use super::*;
use engine_api::{ErrorKind, Part, PartKind};

const TARGET: u64 = 150_000;

/// A threshold of 150,000 tokens, with the tail that a host computes for the mode.
fn probe_request(mode: &str, has_model: bool) -> CompressRequest {
    let mut request = request(TARGET);
    request.model.context_length = 200_000;
    request.model.tail_budget_tokens = if mode == "lean" { 10_000 } else { 30_000 };
    request.completions_max = u32::from(has_model);
    request
}

/// Compacts in both modes, with and without a model; returns the largest result, or why there was none.
fn worst(messages: Vec<Message>, target: u64) -> Result<u64, EngineError> {
    let messages = numbered(messages);
    let mut largest = 0;
    for mode in ["lean", "legacy"] {
        for has_model in [false, true] {
            let host = FakeHost::default();
            host.completions.lock().unwrap().push(Ok("## Goal\nPort the tree, one file after another.".to_string()));
            let table = ViewTable::new(7, &messages);
            let engine = new(&json::json!({ "tail_mode": mode })).unwrap();
            let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
            let mut request = probe_request(mode, has_model);
            request.target_tokens = target;
            let plan = session.compress(&host, &table.conversation(), &request)?;
            let verdict = judged(&messages, &plan);
            assert!(verdict.tokens_after < verdict.tokens_before, "{mode} {has_model}: {verdict:?}");
            let is_told = plan.report.notes.iter().any(|note| note.contains("have to stay"));
            assert!(
                verdict.tokens_after < target || is_told,
                "{mode} {has_model}: {verdict:?} {:.300}",
                engine_kit::picture::plan_picture(&plan)
            );
            largest = largest.max(verdict.tokens_after);
        }
    }
    Ok(largest)
}

fn tokens(messages: &[Message]) -> u64 {
    messages.iter().map(|message| u64::from(message.tokens)).sum()
}

/// Rounds of a call and a result of so many characters.
fn rounds(turn: usize, count: usize, chars: usize) -> Vec<Message> {
    let mut list = Vec::new();
    for at in 0..count {
        let call = format!("call_{turn}_{at}");
        list.push(calls(0, &[(&call, "terminal", &format!("{{\"command\":\"make target_{turn}_{at}\"}}"))]));
        let mut text = format!("target {turn}.{at} ");
        text.push_str(&"built ".repeat(chars / 6 + 1));
        text.truncate(chars);
        list.push(result(0, &call, "terminal", &text));
    }
    list
}

#[test]
fn one_prompt_and_150_rounds_of_4000_characters() {
    let mut messages = vec![user(0, "port the tree")];
    messages.extend(rounds(0, 150, 4_000));
    assert!((150_000..160_000).contains(&tokens(&messages)), "{}", tokens(&messages));
    let after = worst(messages, TARGET).unwrap();
    assert!(after < 45_000, "{after}");
}

#[test]
fn a_second_prompt_with_1500_rounds_of_150_characters() {
    let mut messages = vec![user(0, "look around"), assistant(0, "I did."), user(0, "port the tree")];
    messages.extend(rounds(0, 1_500, 150));
    assert!(tokens(&messages) > 90_000, "{}", tokens(&messages));
    let target = tokens(&messages) - 1;
    let after = worst(messages, target.min(TARGET)).unwrap();
    assert!(after < 65_000, "{after}");
}

#[test]
fn a_fourth_prompt_with_1500_rounds_of_190_characters_and_no_text() {
    let mut messages = Vec::new();
    for turn in 0..3 {
        messages.extend([user(0, &format!("question {turn}")), assistant(0, &format!("answer {turn}"))]);
    }
    messages.push(user(0, "now port the tree"));
    messages.extend(rounds(3, 1_500, 190));
    assert!(tokens(&messages) > 100_000, "{}", tokens(&messages));
    let target = tokens(&messages) - 1;
    // Hermes came from 152,608 to 154,931 here and called it progress.
    let after = worst(messages, target.min(TARGET)).unwrap();
    assert!(after < 65_000, "{after}");
}

#[test]
fn lists_of_one_to_eight_messages_with_a_giant_result() {
    let log = "a line of a long log\n".repeat(35_000);
    let turn = |at: usize| {
        let call = format!("c{at}");
        let arguments = "{\"command\":\"cat log\"}";
        vec![
            user(0, "look"),
            calls(0, &[(&call, "terminal", arguments)]),
            result(0, &call, "terminal", &log),
            assistant(0, "seen"),
        ]
    };
    let messages: Vec<Message> = (0..2).flat_map(turn).collect();
    for length in 1..=8 {
        let list: Vec<Message> = messages.iter().take(length).cloned().collect();
        match worst(list.clone(), TARGET) {
            Ok(after) => assert!(length >= 3 && after < TARGET, "{length}: {after}"),
            Err(error) => {
                assert!(length < 3 && tokens(&list) < 100, "{length}: {error}");
                assert_eq!(error.kind, ErrorKind::NothingToCompact);
                assert!(!error.message.is_empty());
            }
        }
    }
}

#[test]
fn eight_messages_with_one_of_700_000_characters() {
    let giant = "pasted words ".repeat(54_000);
    let small = |at: usize| {
        if at.is_multiple_of(2) { user(0, &format!("ask {at}")) } else { assistant(0, &format!("say {at}")) }
    };
    let list = |giant_at: usize| -> Vec<Message> {
        let giant = |at: usize| if at.is_multiple_of(2) { user(0, &giant) } else { assistant(0, &giant) };
        (0..8).map(|at| if at == giant_at { giant(at) } else { small(at) }).collect()
    };
    for giant_at in 0..6 {
        let after = worst(list(giant_at), TARGET).unwrap();
        assert!(after < 20_000, "{giant_at}: {after}");
    }
    // The newest words of the person and what the model has just answered stay whatever they cost; the reason is told.
    for giant_at in [6, 7] {
        match worst(list(giant_at), TARGET) {
            Ok(after) => panic!("{giant_at}: {after} tokens, without what has to stay"),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NothingToCompact);
                assert!(error.message.contains("tokens have to stay where there is room for"), "{error}");
            }
        }
    }
}

#[test]
fn eight_newest_messages_of_30_000_tokens_each() {
    let text = "words of a page ".repeat(7_500);
    let mut messages = session(5, 2, 400);
    for at in 0..8 {
        let call = format!("big{at}");
        messages.push(calls(0, &[(&call, "web_extract", "{\"urls\":[\"https://example.org/a\"]}")]));
        messages.push(result(0, &call, "web_extract", &text));
    }
    assert!(tokens(&messages) > 240_000);
    let after = worst(messages, TARGET).unwrap();
    assert!(after < TARGET, "{after}");

    let mut messages = session(5, 2, 400);
    for at in 0..4 {
        messages.extend([user(0, &format!("{at} {text}")), assistant(0, &format!("{at} {text}"))]);
    }
    let after = worst(messages, TARGET).unwrap();
    assert!(after < TARGET, "{after}");
}

#[test]
fn eighty_messages_with_16_kilobytes_of_encrypted_reasoning_each() {
    let mut messages = vec![user(0, "prove it")];
    for at in 0..40 {
        let mut call = calls(0, &[(&format!("c{at}"), "terminal", "{\"command\":\"make\"}")]);
        let mut reasoning = Part::new(PartKind::Reasoning, "Zm9v".repeat(4_096));
        reasoning.tokens = 4_096;
        call.tokens += reasoning.tokens;
        call.parts.insert(0, reasoning);
        messages.push(call);
        messages.push(result(0, &format!("c{at}"), "terminal", "ok"));
    }
    assert!(tokens(&messages) > 160_000);
    let after = worst(messages, TARGET).unwrap();
    assert!(after < 55_000, "{after}");
}

#[test]
fn a_giant_newest_result_of_700_000_characters() {
    let mut messages = session(2, 2, 400);
    messages.push(user(0, "now the log"));
    messages.extend(rounds(9, 1, 700_000));
    let after = worst(messages, TARGET).unwrap();
    assert!(after < TARGET, "{after}");
}
