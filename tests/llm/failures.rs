//! Every kind of failure: what is asked after it, what the engine is told, how long the endpoint is left alone.

use crate::world::{KEY, MAIN_KEY, World, error_body, outcomes, question, question_to};
use engine_api::{CompletionModel, Dialect, ErrorKind};
use serde_json::json;
use std::fs;
use support::provider::{Provider, Reply};

fn status(status: u16, message: &str) -> Reply {
    Reply::Status(status, error_body(message), Vec::new())
}

fn answer(text: &str) -> Reply {
    Reply::Answer(text.to_owned())
}

/// Failures, and how each is named; those that are worth a second try at the same endpoint are marked.
fn failures() -> Vec<(Reply, &'static str, bool)> {
    vec![
        (status(401, "bad key"), "401 key refused", false),
        (status(403, "no"), "403 key refused", false),
        (status(402, "pay"), "402 quota used up", false),
        (status(400, "bad"), "400 request refused", false),
        (status(404, "no such model"), "404 request refused", false),
        (Reply::Status(413, "<html>".to_owned(), Vec::new()), "413 prompt too long for the model", false),
        (status(429, "slow down"), "429 rate limited", true),
        (status(500, "oops"), "500 provider error", true),
        (status(529, "overloaded"), "529 provider error", true),
        (Reply::CloseEarly, "no connection", true),
        (Reply::CloseMidway, "no connection", true),
        (Reply::InvalidJson, "answer is not JSON", false),
        (Reply::Empty, "empty answer", false),
        (answer(" \n<think>only this</think> "), "empty answer", false),
        (Reply::Refusal, "refused", false),
        (Reply::ToolOnly, "only tool calls", false),
        (Reply::Truncated("half".to_owned()), "answer cut off", false),
        (Reply::TooLong, "answer longer than its source", false),
        (Reply::Html, "answer is no answer of this API", false),
        (Reply::Stream("streamed".to_owned()), "answer is no answer of this API", false),
        (Reply::Status(302, String::new(), vec![("location", "/v1/other".to_owned())]), "302 request refused", false),
        (Reply::Status(200, error_body("inner"), Vec::new()), "provider error", true),
        (Reply::Status(200, "{\"a\":1}".to_owned(), Vec::new()), "answer is no answer of this API", false),
    ]
}

#[test]
fn after_any_failure_the_main_model_is_asked_once() {
    for dialect in [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses] {
        for (reply, named, _) in failures() {
            let auxiliary = Provider::start(KEY, [reply]);
            let main = Provider::start(MAIN_KEY, [answer("from main")]);
            let world = World::new(&auxiliary).with_main(&main, dialect);
            let got = world.ask(&world.client(), &question("material"));
            assert_eq!(outcomes(&got), [format!("aux: {named}"), "main: answered".to_owned()]);
            let completion = got.completion.unwrap();
            assert_eq!((completion.text.as_str(), completion.model.as_str()), ("from main", "main"));
        }
    }
}

#[test]
fn without_another_endpoint_only_passing_failures_are_tried_again() {
    for (reply, named, is_retried) in failures() {
        let replies = if is_retried { vec![reply, answer("second")] } else { vec![reply] };
        let auxiliary = Provider::start(KEY, replies);
        let world = World::new(&auxiliary);
        let got = world.ask(&world.client(), &question("material"));
        assert_eq!(got.calls[0].outcome, named);
        assert_eq!(got.calls.len(), auxiliary.seen().len());
        match got.completion {
            Ok(completion) => assert!(is_retried && completion.text == "second", "{named}"),
            Err(error) => {
                assert!(!is_retried && error.kind == ErrorKind::Summariser, "{named}: {error}");
                assert!(error.message.contains(named) && error.message.contains("aux at http://127.0.0.1"), "{error}");
            }
        }
    }
}

#[test]
fn two_failures_are_the_end() {
    let auxiliary = Provider::start(KEY, [status(500, "a")]);
    let main = Provider::start(MAIN_KEY, [status(503, "b")]);
    let world = World::new(&auxiliary).with_main(&main, Dialect::OpenAiChat);
    let got = world.ask(&world.client(), &question("x"));
    assert_eq!(outcomes(&got), ["aux: 500 provider error", "main: 503 provider error"]);
    assert!(got.completion.unwrap_err().message.contains("; then main at"));
}

#[test]
fn messages_and_responses_are_judged_likewise() {
    let kinds = [
        (Reply::Empty, "empty answer"),
        (Reply::Refusal, "refused"),
        (Reply::ToolOnly, "only tool calls"),
        (Reply::Truncated("half".to_owned()), "answer cut off"),
    ];
    for dialect in [Dialect::Anthropic, Dialect::Responses] {
        for (reply, named) in kinds.clone() {
            let main = Provider::start(MAIN_KEY, [reply]);
            let mut world = World::new(&main).with_main(&main, dialect);
            world.config = host_config::Config::default();
            let got = world.ask(&world.client(), &question_to(CompletionModel::Main, "x"));
            assert_eq!(outcomes(&got), [format!("main: {named}")], "{dialect:?}");
        }
    }
}

#[test]
fn the_chain_goes_before_the_main_model() {
    let auxiliary = Provider::start(KEY, [status(401, "")]);
    let chained = Provider::start("chain-key", [answer("from the chain")]);
    let main = Provider::start(MAIN_KEY, []);
    let step =
        json!([{"provider": "custom", "base_url": chained.openai_url(), "api_key": "chain-key", "model": "step"}]);
    let world = World::new(&auxiliary).with_main(&main, Dialect::OpenAiChat).with_chain(step);
    let got = world.ask(&world.client(), &question("x"));
    assert_eq!(outcomes(&got), ["aux: 401 key refused", "step: answered"]);
}

#[test]
fn a_pause_holds_across_a_restart_until_it_is_forced() {
    let auxiliary = Provider::start(KEY, [status(401, ""), answer("again")]);
    let world = World::new(&auxiliary);
    world.ask(&world.client(), &question("x")).completion.unwrap_err();

    let restarted = world.client();
    let got = world.ask(&restarted, &question("x"));
    let error = got.completion.unwrap_err();
    assert!(got.calls.is_empty() && error.message.contains("left alone") && error.message.contains("401"), "{error}");
    assert!((1..=60_000).contains(&error.retry_after_ms), "{}", error.retry_after_ms);

    let forced = world.ask_with(&restarted, &question("x"), |ask| ask.force = true);
    assert_eq!(forced.completion.unwrap().text, "again");
    let file = fs::read_to_string(world.home.path().join("cooldowns.json")).unwrap();
    assert!(!file.contains("aux"), "a success forgets the pause: {file}");
}

#[test]
fn a_model_that_another_stood_in_for_is_set_aside_for_the_session_only() {
    let auxiliary = Provider::start(KEY, [status(500, ""), answer("other session")]);
    let main = Provider::start(MAIN_KEY, [answer("one"), answer("two")]);
    let world = World::new(&auxiliary).with_main(&main, Dialect::OpenAiChat);
    let client = world.client();
    world.ask(&client, &question("x")).completion.unwrap();
    // Without its pause it would be asked again.
    fs::remove_file(world.home.path().join("cooldowns.json")).unwrap();
    assert_eq!(outcomes(&world.ask(&client, &question("x"))), ["main: answered"]);
    let other = world.ask_with(&client, &question("x"), |ask| ask.session = "s2");
    assert_eq!(outcomes(&other), ["aux: answered"]);
}

#[test]
fn no_endpoint_at_all_is_said_without_a_request() {
    let auxiliary = Provider::start(KEY, []);
    let mut world = World::new(&auxiliary);
    world.config = host_config::Config::default();
    world.main.name = "gpt-5".to_owned();
    let got = world.ask(&world.client(), &question("x"));
    let error = got.completion.unwrap_err();
    assert!(got.calls.is_empty() && error.message.contains("OPENAI_API_KEY is not set"), "{error}");
    assert!(error.hint.contains("ANTHROPIC_API_KEY"), "{}", error.hint);
    assert!(!world.home.path().join("cooldowns.json").exists());
}

#[test]
fn keys_are_in_no_error_and_no_file() {
    let echo = status(401, &format!("the key {KEY} is wrong, and so is sk-{}", "b2".repeat(20)));
    let auxiliary = Provider::start(KEY, [echo]);
    let world = World::new(&auxiliary);
    let got = world.ask(&world.client(), &question("x"));
    let said = format!("{got:?}{}", fs::read_to_string(world.home.path().join("cooldowns.json")).unwrap());
    assert!(said.contains("the key *** is wrong") && !said.contains(KEY) && !said.contains("b2b2"), "{said}");
}

#[test]
fn nobody_listening_is_no_connection() {
    let auxiliary = Provider::start(KEY, []);
    let mut world = World::new(&auxiliary);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.config.auxiliary.compression.base_url = format!("http://{free}/v1");
    let got = world.ask(&world.client(), &question("x"));
    assert_eq!(outcomes(&got), ["aux: no connection", "aux: no connection"]);
}
