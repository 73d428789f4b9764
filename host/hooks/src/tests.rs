//! Tests with real commands and real servers on this machine.

use super::*;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Long enough for any machine; nothing here waits for it unless it fails.
const WITHIN: Duration = Duration::from_secs(60);

fn started(entries: Value) -> Hooks {
    let (hooks, problems) = read(entries.as_array().unwrap());
    assert_eq!(problems, [] as [String; 0]);
    Hooks::start(hooks).unwrap().unwrap()
}

fn tell(hooks: &Hooks, event: &Value) {
    hooks.subscriber::<Value>()(event);
}

/// Answers one request with this status, and hands over what came: the request line and the body.
fn server(status: &'static str) -> (u16, mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).unwrap();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            if let Some(count) = line.strip_prefix("Content-Length: ") {
                length = count.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        write!(reader.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
        sender.send((first, String::from_utf8(body).unwrap())).unwrap();
    });
    (port, receiver)
}

#[cfg(unix)]
#[test]
fn a_command_gets_the_event_and_no_shell_reads_its_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a $(b); c");
    let hooks = started(json!([{ "command": ["tee", file.display().to_string()] }]));
    tell(&hooks, &json!({ "event": "session:compress", "session_id": "日本" }));
    let drained = hooks.drain(WITHIN);
    assert_eq!((drained.delivered, drained.failed, drained.is_complete), (1, 0, true), "{drained:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), r#"{"event":"session:compress","session_id":"日本"}"#);
}

#[cfg(unix)]
#[test]
fn commands_that_fail_hang_or_are_not_there_are_warnings() {
    let hooks = started(json!([
        { "command": ["false"] },
        { "command": ["sleep", "600"], "timeout": 0.05 },
        { "command": ["/no/such/program"] },
        { "command": ["true"] },
    ]));
    tell(&hooks, &json!({}));
    let drained = hooks.drain(WITHIN);
    assert_eq!((drained.delivered, drained.failed, drained.is_complete), (1, 3, true), "{drained:?}");
    let [fails, hangs, missing] = drained.warnings.as_slice() else { panic!("{drained:?}") };
    assert!(fails.contains("command false ended with"), "{fails}");
    assert!(hangs.contains("took longer than 0.05 s"), "{hangs}");
    assert!(missing.contains("could not be started"), "{missing}");
}

#[cfg(unix)]
#[test]
fn what_is_under_way_is_ended_when_time_is_up() {
    let hooks = started(json!([{ "command": ["sleep", "600"], "timeout": 60 }]));
    tell(&hooks, &json!({}));
    let drained = hooks.drain(Duration::from_millis(50));
    assert!(!drained.is_complete && drained.delivered == 0, "{drained:?}");
    assert!(drained.warnings.iter().any(|line| line.contains("not all hooks were told")), "{drained:?}");
}

#[cfg(unix)]
#[test]
fn a_full_queue_is_counted_and_nobody_waits() {
    let hooks = started(json!([{ "command": ["sleep", "600"], "timeout": 60 }]));
    for _ in 0..QUEUE_MAX + 10 {
        tell(&hooks, &json!({}));
    }
    let drained = hooks.drain(Duration::from_millis(10));
    // The first may be under way already.
    assert!((9..=10).contains(&drained.overflowed), "{drained:?}");
}

#[test]
fn a_server_gets_the_event() {
    let (port, received) = server("204 No Content");
    let hooks = started(json!([{ "url": format!("http://127.0.0.1:{port}/hook?x=1") }]));
    tell(&hooks, &json!({ "a": 1 }));
    let drained = hooks.drain(WITHIN);
    assert_eq!((drained.delivered, drained.warnings.len()), (1, 0), "{drained:?}");
    assert_eq!(received.recv().unwrap(), ("POST /hook?x=1 HTTP/1.1\r\n".to_owned(), r#"{"a":1}"#.to_owned()));
}

#[test]
fn servers_that_refuse_are_silent_or_are_not_there_are_warnings() {
    let (refuses, _received) = server("500 Oops");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = |port: u16| format!("http://localhost:{port}/secret");
    let hooks = started(json!([
        { "url": format!("http://127.0.0.1:{refuses}") },
        { "url": format!("http://127.0.0.1:{}", silent.local_addr().unwrap().port()), "timeout": 0.05 },
        { "url": url(gone) },
    ]));
    tell(&hooks, &json!({}));
    let drained = hooks.drain(WITHIN);
    assert_eq!((drained.delivered, drained.failed), (0, 3), "{drained:?}");
    let [status, late, unreachable] = drained.warnings.as_slice() else { panic!("{drained:?}") };
    assert!(status.contains("status 500"), "{status}");
    assert!(late.contains("did not answer within 0.05 s"), "{late}");
    assert!(unreachable.contains("could not be reached") && !unreachable.contains("secret"), "{unreachable}");
}

#[test]
fn entries_that_are_not_usable_are_passed_over_with_the_reason() {
    for (entry, why) in [
        (json!("notify-send"), "no mapping"),
        (json!({}), "neither"),
        (json!({ "command": ["a"], "url": "http://localhost" }), "both"),
        (json!({ "command": "rm -rf x" }), "list of texts"),
        (json!({ "command": [] }), "no program"),
        (json!({ "command": [1] }), "list of texts"),
        (json!({ "command": ["a\u{0}b"] }), "NUL"),
        (json!({ "url": 3 }), "text"),
        (json!({ "url": "https://localhost" }), "http://"),
        (json!({ "url": "http://example.org/x" }), "another machine"),
        (json!({ "url": "http://127.0.0.1.example.org/x" }), "another machine"),
        (json!({ "url": "http://127.0.0.1@example.org/x" }), "user"),
        (json!({ "url": "http://localhost/a b" }), "escaped"),
        (json!({ "url": "http://localhost/\r\nX: y" }), "escaped"),
        (json!({ "url": "http://localhost:99999/" }), "port"),
        (json!({ "url": "http:///x" }), "no host"),
    ] {
        let (hooks, problems) = read(std::slice::from_ref(&entry));
        assert!(hooks.is_empty(), "{entry}");
        assert!(problems.iter().any(|line| line.contains(why)), "{entry}: {problems:?}");
    }
}

#[test]
fn timeouts_are_bounded_and_unknown_members_are_told() {
    let entries = [
        json!({ "command": ["a"] }),
        json!({ "command": ["a"], "timeout": 600 }),
        json!({ "command": ["a"], "timeout": -1 }),
        json!({ "command": ["a"], "timeout": 2.5, "shell": true }),
        json!({ "url": "http://[::1]:8080", "allow_remote": false }),
        json!({ "url": "http://example.org", "allow_remote": true }),
    ];
    let (hooks, problems) = read(&entries);
    let seconds: Vec<f64> = hooks.iter().map(|hook| hook.timeout.as_secs_f64()).collect();
    assert_eq!(seconds, [10.0, 60.0, 10.0, 2.5, 10.0, 10.0]);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert_eq!(hooks[5].name(), "url http://example.org");
}
