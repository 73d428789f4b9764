//! Bounds of time, number and size, and what leaves.

use crate::world::{KEY, MAIN_KEY, PATIENCE, World, outcomes, question};
use engine_api::{Dialect, ErrorKind};
use serde_json::json;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use support::provider::{self, Provider, Reply};

#[test]
fn a_hanging_endpoint_costs_its_share_of_the_time_and_the_next_is_asked() {
    for hang in [Reply::Hang, Reply::Drip("x".to_owned(), true)] {
        let auxiliary = Provider::start(KEY, [hang]);
        let main = Provider::start(MAIN_KEY, [Reply::Answer("in time".to_owned())]);
        let world = World::new(&auxiliary).with_main(&main, Dialect::OpenAiChat);
        let got = world
            .ask_with(&world.client(), &question("x"), |ask| ask.deadline = Instant::now() + Duration::from_secs(3));
        assert_eq!(outcomes(&got), ["aux: timed out", "main: answered"]);
    }
}

#[test]
fn the_deadline_ends_everything() {
    let auxiliary = Provider::start(KEY, [Reply::Hang]);
    let world = World::new(&auxiliary);
    let started = Instant::now();
    let got =
        world.ask_with(&world.client(), &question("x"), |ask| ask.deadline = started + Duration::from_millis(300));
    assert_eq!(got.completion.unwrap_err().kind, ErrorKind::TimedOut);
    assert!(got.calls.len() == 1 && started.elapsed() < PATIENCE / 2);
}

#[test]
fn the_timeout_of_the_settings_bounds_one_call() {
    let auxiliary = Provider::start(KEY, [Reply::Hang, Reply::Answer("second try".to_owned())]);
    let mut world = World::new(&auxiliary);
    world.config.auxiliary.compression.timeout = 1;
    let got = world.ask(&world.client(), &question("x"));
    assert_eq!(outcomes(&got), ["aux: timed out", "aux: answered"]);
}

#[test]
fn a_cancelled_call_ends_at_once_and_blames_nobody() {
    let auxiliary = Provider::start(KEY, [Reply::Hang, Reply::Answer("later".to_owned())]);
    let world = World::new(&auxiliary);
    let client = world.client();
    // Cancelled as soon as the request has arrived.
    let cancelled = || !auxiliary.seen().is_empty();
    let ask = host_core::summariser::Ask {
        request: &question("x"),
        session: "s1",
        main: &world.main,
        prefix: None,
        requests_max: 2,
        deadline: Instant::now() + PATIENCE,
        cancelled: &cancelled,
        force: false,
    };
    let got = host_core::summariser::Summariser::complete(&client, &ask);
    assert_eq!(got.completion.unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(got.calls.len(), 1);
    assert_eq!(outcomes(&world.ask(&client, &question("x"))), ["aux: answered"]);
}

#[test]
fn a_wish_for_a_pause_beyond_the_deadline_is_no_retry() {
    let wish = vec![("retry-after", "3600".to_owned())];
    let auxiliary = Provider::start(KEY, [Reply::Status(429, String::new(), wish)]);
    let world = World::new(&auxiliary);
    assert_eq!(outcomes(&world.ask(&world.client(), &question("x"))), ["aux: 429 rate limited"]);
}

#[test]
fn one_request_allowed_is_one_request_made() {
    let auxiliary = Provider::start(KEY, [Reply::CloseEarly]);
    let main = Provider::start(MAIN_KEY, []);
    let world = World::new(&auxiliary).with_main(&main, Dialect::OpenAiChat);
    let got = world.ask_with(&world.client(), &question("x"), |ask| ask.requests_max = 1);
    assert_eq!(got.calls.len(), 1);
    let none = world.ask_with(&world.client(), &question("x"), |ask| ask.requests_max = 0);
    assert!(none.calls.is_empty() && none.completion.is_err());
}

#[test]
fn many_threads_share_four_requests() {
    const THREADS: usize = 8;
    // Four wait for each other, so fewer at once would never be answered.
    let barrier = Arc::new(provider::Barrier::new(4));
    let auxiliary = Provider::with(KEY, move |_| Some(Reply::Together(barrier.clone(), "four".to_owned())));
    let world = World::new(&auxiliary);
    let client = world.client();
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    world.ask(&client, &question("x")).completion.unwrap().text
                })
            })
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == "four"));
    });
    assert_eq!(auxiliary.seen().len(), THREADS);
    assert_eq!(auxiliary.under_way_max(), 4);
}

#[test]
fn a_thread_of_another_runtime_may_ask_and_drop() {
    let auxiliary = Provider::start(KEY, [Reply::Answer("fine".to_owned())]);
    let world = World::new(&auxiliary);
    let client = world.client();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        assert_eq!(world.ask(&client, &question("x")).completion.unwrap().text, "fine");
        drop(client);
    });
}

#[test]
fn secrets_never_arrive_and_never_come_back() {
    let secret = format!("sk-{}", "a1".repeat(20));
    let back = format!("the key was ghp_{}", "c3".repeat(18));
    let auxiliary = Provider::start(KEY, [Reply::Answer(back)]);
    auxiliary.forbid(&secret);
    let world = World::new(&auxiliary);
    let mut request = question(&format!("[USER]: use {secret} please"));
    request.system = format!("never show {secret}");
    request.schema = Some(json!({"type": "object", "description": secret}));
    let got = world.ask(&world.client(), &request).completion.unwrap();
    assert_eq!(got.text, "the key was [redacted:github-token]");
    assert!(auxiliary.seen()[0].body.contains("use [redacted:"));
}

#[test]
fn the_settings_shape_the_request_and_no_limit_is_put_on_the_answer() {
    let auxiliary = Provider::start(KEY, [Reply::Counted("ok".to_owned(), 70, 7)]);
    let mut world = World::new(&auxiliary);
    let settings = &mut world.config.auxiliary.compression;
    settings.reasoning_effort = "low".to_owned();
    settings.extra_body = json!({"temperature": 0.2, "stream": true}).as_object().unwrap().clone();
    let mut request = question("material");
    request.system = "be brief".to_owned();
    request.tokens_hint = 500;
    let got = world.ask(&world.client(), &request);
    let body = &auxiliary.seen()[0].json;
    let want = json!({"model": "aux", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "material"}],
        "stream": false, "reasoning_effort": "low", "temperature": 0.2});
    assert_eq!(body, &want);
    let call = &got.calls[0];
    assert_eq!((call.prompt_tokens, call.completion_tokens, call.pieces), (70, 7, 1));
    assert_eq!(call.endpoint, auxiliary.origin());
}

#[test]
fn messages_is_spoken_where_the_settings_say_anthropic() {
    let auxiliary = Provider::start(KEY, [Reply::Answer("ok".to_owned())]);
    let mut world = World::new(&auxiliary);
    world.config.auxiliary.compression.provider = host_config::Provider::Anthropic;
    world.config.auxiliary.compression.base_url = auxiliary.anthropic_url();
    world.ask(&world.client(), &question("material")).completion.unwrap();
    let seen = &auxiliary.seen()[0];
    assert_eq!((seen.path.as_str(), &seen.json["max_tokens"]), ("/v1/messages", &json!(16_384)));
}
