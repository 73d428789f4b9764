//! The provider itself, spoken to over a bare socket.

use super::{Provider, Reply};
use std::io::{Read, Write};
use std::net::TcpStream;

fn post(provider: &Provider, path: &str, key: &str, body: &str) -> String {
    let host = provider.origin().replace("http://", "");
    let mut stream = TcpStream::connect(&host).unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\n{key}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut out = String::new();
    stream.read_to_string(&mut out).unwrap();
    out
}

const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

#[test]
fn a_good_request_is_answered_and_remembered() {
    let provider = Provider::start("k", [Reply::Answer("hi".to_owned())]);
    let answer = post(&provider, "/v1/chat/completions", "authorization: Bearer k", CHAT);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"content\":\"hi\""), "{answer}");
    let seen = provider.seen();
    assert_eq!((seen.len(), seen[0].body.as_str(), seen[0].prompt().as_str()), (1, CHAT, "hello"));
}

#[test]
fn every_api_can_stream() {
    let bodies = [
        (
            "/v1/chat/completions",
            "authorization: Bearer k",
            r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}]}"#,
            "data: [DONE]",
        ),
        (
            "/v1/messages",
            "anthropic-version: 1\r\nx-api-key: k",
            r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#,
            "event: message_stop",
        ),
        (
            "/v1/responses",
            "authorization: Bearer k",
            r#"{"model":"m","stream":true,"input":"a"}"#,
            "event: response.completed",
        ),
    ];
    let provider = Provider::with("k", |_| Some(Reply::Answer("streamed".to_owned())));
    for (path, key, body, end) in bodies {
        let answer = post(&provider, path, key, body);
        assert!(answer.contains("streamed") && answer.contains(end), "{answer}");
    }
}

#[test]
fn what_a_provider_would_refuse_is_a_problem() {
    let cases = [
        ("/v1/chat/completions", "authorization: Bearer other", CHAT, "key"),
        ("/v1/chat/completions", "authorization: Bearer k", "{", "no JSON object"),
        ("/v1/chat/completions", "authorization: Bearer k", r#"{"model":"m","messages":[]}"#, "no_messages"),
        (
            "/v1/chat/completions",
            "authorization: Bearer k",
            r#"{"model":"m","tool_choice":"none","messages":[{"role":"user","content":"a"}]}"#,
            "tool_choice",
        ),
        (
            "/v1/messages",
            "x-api-key: k",
            r#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#,
            "max_tokens is missing",
        ),
        ("/v1/nowhere", "authorization: Bearer k", CHAT, "no path"),
        (
            "/v1/chat/completions",
            "authorization: Bearer k",
            r#"{"model":"m","messages":[{"role":"user","content":"a secret"}]}"#,
            "must not leave",
        ),
    ];
    let provider = Provider::with("k", |_| Some(Reply::Answer("x".to_owned())));
    provider.forbid("secret");
    for (path, key, body, want) in cases {
        post(&provider, path, key, body);
        let problems = provider.take_problems();
        assert!(problems.iter().any(|problem| problem.contains(want)), "{want}: {problems:?}");
    }
}

#[test]
#[should_panic(expected = "does not foresee")]
fn a_request_beyond_the_script_fails_the_test() {
    let provider = Provider::start("k", []);
    post(&provider, "/v1/chat/completions", "authorization: Bearer k", CHAT);
}
