//! What comes in badly, and what goes wrong at the provider: an error that the client understands, nothing leaked, nothing
//! lost.

use crate::world::{Chat, World};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use support::provider::{Provider, Reply};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

fn answering() -> Provider {
    Provider::with("", |_| Some(Reply::Answer("ok".into())))
}

/// Sends bytes as they are and returns what comes back.
fn raw(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.origin.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn bodies_that_cannot_be_read_are_refused_in_the_callers_dialect() {
    let world = World::with("", answering());
    for body in ["", "{", "null", "[1,", "{\"messages\": [}", "\u{feff}{}", "{\"messages\":[{\"role\":\"user\"}"] {
        let chat = world.post(CHAT, &[], body.to_owned());
        assert_eq!(chat.status, 400, "{body}: {}", chat.body);
        assert!(chat.json()["error"]["message"].is_string());
        let messages = world.post(MESSAGES, &[], body.to_owned());
        assert_eq!((messages.status, messages.json()["type"].as_str()), (400, Some("error")), "{body}");
        assert_eq!(world.post(RESPONSES, &[], body.to_owned()).status, 400, "{body}");
    }
    let not_utf8 = world.post(CHAT, &[], b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}".to_vec());
    assert_eq!(not_utf8.status, 400, "{}", not_utf8.body);
    let garbled = world.post(CHAT, &[("content-encoding", "gzip")], "no gzip".to_owned());
    assert_eq!(garbled.status, 400, "{}", garbled.body);
    let unknown = world.post(CHAT, &[("content-encoding", "br")], "x".to_owned());
    assert_eq!(unknown.status, 415, "{}", unknown.body);
    assert_eq!(world.provider.seen().len(), 0, "none of it reached the provider");
}

#[test]
fn a_body_beyond_the_limit_is_refused_whether_or_not_it_says_how_long_it_is() {
    let world = World::with("gateway: {body_bytes_max: 65536}", answering());
    let large = Chat::new(&"x".repeat(70_000)).body();
    assert_eq!(world.post(CHAT, &[], large.clone()).status, 413);
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
        large.as_bytes().chunks(1_000).map(|piece| Ok(piece.to_vec())).collect();
    let stream = futures_stream(pieces);
    assert_eq!(world.post(CHAT, &[], stream).status, 413);
    assert_eq!(world.provider.seen().len(), 0);
}

/// Makes a body that does not say how long it is.
fn futures_stream(pieces: Vec<Result<Vec<u8>, std::io::Error>>) -> reqwest::Body {
    struct Pieces(std::vec::IntoIter<Result<Vec<u8>, std::io::Error>>);
    impl hyper::body::Body for Pieces {
        type Data = bytes::Bytes;
        type Error = std::io::Error;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>> {
            std::task::Poll::Ready(self.0.next().map(|piece| piece.map(|piece| hyper::body::Frame::data(piece.into()))))
        }
    }
    reqwest::Body::wrap(Pieces(pieces.into_iter()))
}

#[test]
fn odd_requests_get_an_answer_and_the_gateway_goes_on() {
    let world = World::with("", answering());
    assert!(raw(&world, b"BOGUS\r\n\r\n").contains("400"), "no HTTP");
    assert!(
        raw(&world, b"POST /v1/../metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .contains(" 400 ")
    );
    let upgrade = b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n";
    assert!(raw(&world, upgrade).contains(" 426 "), "{}", raw(&world, upgrade));
    let twice = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}";
    assert!(raw(&world, twice).contains(" 400 "), "two lengths");
    assert_eq!(world.get("/palimpsest/nothing").status, 404);
    assert_eq!(world.post("/metrics", &[], "").status, 405);
    assert_eq!(world.get("/livez").status, 200);
    assert!(world.get("/readyz").body.starts_with("ready"));
    assert_eq!(world.post(CHAT, &[], Chat::new("still there?").body()).status, 200);
}

#[test]
fn a_client_that_never_ends_its_body_is_let_go() {
    let world = World::with("gateway: {body_seconds: 1}", answering());
    let slow = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"mess";
    assert!(raw(&world, slow).contains(" 504 "));
    let half_open = raw(&world, b"POST /v1/chat/completions HTTP/1.1\r\nhost:");
    assert!(!half_open.contains(" 200 "), "{half_open}");
    assert_eq!(world.get("/livez").status, 200);
}

#[test]
fn the_key_opens_the_gateway_and_goes_no_further() {
    const KEY: &str = "0123456789abcdef0123456789abcdef";
    let provider = Provider::with("sk-provider", |_| Some(Reply::Answer("ok".into())));
    provider.forbid(KEY);
    let origin = provider.origin();
    let settings =
        format!("gateway: {{key: '{KEY}'}}\nproviders: {{own: {{base_url: '{origin}/v1', api_key: sk-provider}}}}");
    let world = World::with(&settings, provider);
    let body = Chat::new("hi").body();
    assert_eq!(world.post(CHAT, &[], body.clone()).status, 401);
    assert_eq!(world.post(CHAT, &[("x-palimpsest-key", "wrong")], body.clone()).status, 401);
    assert_eq!(world.post(CHAT, &[("x-palimpsest-key", KEY)], body.clone()).status, 200);
    let bearer = format!("Bearer {KEY}");
    assert_eq!(world.post(CHAT, &[("authorization", &bearer)], body).status, 200);
    assert_eq!(world.get("/metrics").status, 401);
    assert_eq!(world.get("/livez").status, 200, "a load balancer has no key");
}

#[test]
fn failures_of_the_provider_are_tried_again_before_the_first_byte_only() {
    let busy = || Reply::Status(503, "{\"error\":{\"message\":\"busy\"}}".into(), Vec::new());
    let world = World::start("", vec![busy(), Reply::CloseEarly, Reply::Answer("third".into())]);
    let body = Chat::new("hi").body();
    let got = world.post(CHAT, &[], body.clone());
    assert_eq!((got.status, got.body.contains("third")), (200, true), "{}", got.body);
    let (_, _, provider) = world.end();
    drop(provider);

    let world = World::start("gateway: {retries: 1}", vec![busy(), busy()]);
    let got = world.post(CHAT, &[], body.clone());
    assert_eq!(
        (got.status, got.body.as_str()),
        (503, "{\"error\":{\"message\":\"busy\"}}"),
        "the provider's own words"
    );
    let (_, _, provider) = world.end();
    drop(provider);

    let limited = Reply::Status(429, "{}".into(), vec![("retry-after", "7".to_owned())]);
    let world = World::start("", vec![limited, Reply::CloseMidway]);
    let got = world.post(CHAT, &[], body.clone());
    assert_eq!((got.status, got.header("retry-after")), (429, "7"), "limits are the client's to obey");
    let got = world.post(CHAT, &[], body);
    assert!(got.body.starts_with("BROKEN"), "an answer that broke off is not taken for whole: {}", got.body);
}

#[test]
fn a_provider_that_is_not_there_is_told_in_each_dialect() {
    let provider = answering();
    let settings = "gateway: {retries: 0}\nproviders: {none: {base_url: 'http://127.0.0.1:9'}}";
    let world = World::with(settings, provider);
    let chat = world.post("/p/none/v1/chat/completions", &[], Chat::new("hi").body());
    assert_eq!((chat.status, chat.json()["error"]["type"].as_str()), (502, Some("server_error")), "{}", chat.body);
    let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let messages = world.post("/p/none/v1/messages", &[], body);
    assert_eq!((messages.status, messages.json()["error"]["type"].as_str()), (502, Some("api_error")));
    assert_eq!(world.post("/p/nobody/v1/messages", &[], "{\"messages\":[]}").status, 404);
}

#[test]
fn a_silent_provider_is_given_up_and_a_client_that_leaves_is_let_go() {
    let world = World::with("gateway: {first_byte_seconds: 1}", Provider::with("", |_| Some(Reply::Hang)));
    let got = world.post(CHAT, &[], Chat::new("hi").body());
    assert_eq!(got.status, 504, "{}", got.body);
    let (_, _, provider) = world.end();
    drop(provider);

    let world = World::with("", Provider::with("", |_| Some(Reply::Drip("never ends".into(), true))));
    world.run(async {
        let request = world.http().post(format!("{}{CHAT}", world.origin)).body(Chat::new("hi").body());
        let mut response = request.header("content-type", "application/json").send().await.unwrap();
        assert!(response.chunk().await.unwrap().is_some());
    });
    let aborted = || world.get("/metrics").body.contains("palimpsest_aborted_total 1");
    let is_seen = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        aborted()
    });
    assert!(is_seen, "{}", world.get("/metrics").body);
}

#[test]
fn what_is_no_generation_passes_through_under_its_path() {
    let world = World::with("", Provider::with("", |_| None));
    let got = world.get("/v1/models?limit=3");
    assert_eq!(got.status, 404, "the scripted provider knows no models, and says so itself");
    let problems = world.provider.take_problems();
    assert!(problems.iter().any(|problem| problem.contains("/v1/models")), "{problems:?}");
}

#[test]
fn a_conversation_whose_store_fails_goes_on() {
    let world = World::with("", answering());
    let mut chat = Chat::new("hi");
    assert_eq!(world.post(CHAT, &[], chat.body()).status, 200);
    chat.step(1, 100);
    // A file of something else in its place makes every further write fail.
    let path = world.home.path().join("sessions.db");
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    for nth in 2..5 {
        let got = world.post(CHAT, &[], chat.body());
        assert_eq!(got.status, 200, "{}", got.body);
        chat.step(nth, 100);
    }
}
