//! What real clients sent, recorded: with compaction off, the provider gets it byte for byte, and streams come back event for
//! event. The recordings lie beside a checkout; without them the test says so, and the shapes written here are what it has.

use crate::world::World;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use support::provider::{Provider, Reply};

/// Exchanges of one recording that are replayed, from its start and from its end.
const FROM_START: usize = 10;
const FROM_END: usize = 4;
/// A stream in all the forms that one may have.
const EVENTS: &str = ": ping\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\r\n\r\nevent: odd\ndata: no json\n\ndata: [DONE]\n\n";
/// Headers of a recording that belong to its connection.
const OF_CONNECTION: [&str; 7] =
    ["host", "content-length", "connection", "accept-encoding", "transfer-encoding", "expect", "user-agent"];

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let mut out = Vec::new();
    for client in ["codex", "claude", "opencode", "hermes"] {
        let files = std::fs::read_dir(folder.join(client)).into_iter().flatten().flatten();
        out.extend(files.map(|file| file.path()).filter(|path| path.to_string_lossy().ends_with(".traffic.jsonl.gz")));
    }
    out.sort();
    out
}

/// One request as it was recorded.
struct Recorded {
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// Reads a recording; what is said again in a later request stands there once.
fn read(path: &Path) -> Vec<Recorded> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut known = HashMap::new();
    let mut out = Vec::new();
    for line in text.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        let request = whole(value["request"].take(), &mut known);
        if value["method"] != "POST" || !request.is_object() {
            continue;
        }
        let headers = value["headers"].as_object().into_iter().flatten();
        let headers = headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str().unwrap_or_default().to_owned()))
            .filter(|(name, _)| !OF_CONNECTION.contains(&name.as_str()))
            .collect();
        out.push(Recorded { path: value["path"].as_str().unwrap().to_owned(), headers, body: request.to_string() });
    }
    out
}

fn whole(value: Value, known: &mut HashMap<u64, Value>) -> Value {
    match value {
        Value::Object(mut map) => {
            if let (Some(number), Some(inner)) = (map.get("$def").and_then(Value::as_u64), map.get("v").cloned()) {
                known.insert(number, inner.clone());
                return inner;
            }
            if let Some(inner) = map.get("$use").and_then(Value::as_u64).and_then(|number| known.get(&number)) {
                return inner.clone();
            }
            for slot in map.values_mut() {
                *slot = whole(slot.take(), known);
            }
            Value::Object(map)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| whole(item, known)).collect()),
        other => other,
    }
}

fn replay(recorded: &[Recorded]) {
    let provider = Provider::for_clients(|_| Some(Reply::Raw(EVENTS.to_owned())));
    let world = World::with("compression: {enabled: false}", provider);
    for one in recorded {
        let headers: Vec<(&str, &str)> =
            one.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let before = world.provider.seen().len();
        let got = world.post(&one.path, &headers, one.body.clone());
        // A trigger is never sent to a provider that does not know it, and a count is no reply.
        let is_reply = ["/chat/completions", "/messages", "/responses"]
            .iter()
            .any(|end| one.path.split('?').next().unwrap().ends_with(end));
        if one.body.contains("compaction_trigger") || !is_reply {
            continue;
        }
        assert_eq!(got.status, 200, "{}: {}", one.path, got.body);
        let seen = world.provider.seen();
        let seen = seen.get(before).unwrap_or_else(|| panic!("{} did not reach the provider", one.path));
        assert!(seen.body == one.body, "{}: the bytes differ", one.path);
        for (name, value) in &one.headers {
            assert_eq!(seen.header(name), Some(value.as_str()), "{name}");
        }
        if seen.json["stream"] == true {
            assert_eq!(got.body, EVENTS, "{}", one.path);
        }
    }
    // The recordings were scrubbed, so a judge of requests finds fault with some.
    world.provider.take_problems();
}

#[test]
fn recorded_requests_reach_the_provider_byte_for_byte() {
    let files = recordings();
    if files.is_empty() {
        eprintln!("SKIPPED: there are no recordings beside this checkout");
    }
    let mut count = 0;
    for file in files {
        let all = read(&file);
        let last = all.len().saturating_sub(FROM_END).max(FROM_START.min(all.len()));
        let chosen: Vec<Recorded> =
            all.into_iter().enumerate().filter(|(at, _)| *at < FROM_START || *at >= last).map(|(_, one)| one).collect();
        count += chosen.len();
        replay(&chosen);
    }
    eprintln!("{count} recorded requests");
}

#[test]
fn odd_but_valid_requests_reach_the_provider_byte_for_byte() {
    let own = |path: &str, body: Value, is_spaced: bool| Recorded {
        path: path.to_owned(),
        headers: vec![
            ("x-new-header".to_owned(), "1".to_owned()),
            ("anthropic-beta".to_owned(), "a-beta,another".to_owned()),
        ],
        body: if is_spaced { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() },
    };
    let user = json!({"role": "user", "content": "hi"});
    let odd = json!({"type": "message", "role": "user", "content": "x"});
    replay(&[
        own(
            "/v1/chat/completions",
            json!({"model": "m", "stream": true, "messages": [user], "new": {"a": [1.50]}}),
            true,
        ),
        own("/v1/messages?beta=true", json!({"model": "m", "max_tokens": 5, "stream": true, "messages": [user]}), true),
        own("/v1/responses", json!({"model": "m", "input": "a text", "stream": true}), true),
        own("/v1/responses", json!({"model": "m", "previous_response_id": "r", "input": [], "stream": true}), false),
        own("/v1/responses", json!({"model": "m", "input": [{"type": "new_kind", "x": 1}, odd]}), true),
    ]);
}
