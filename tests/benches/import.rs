//! Measures how fast transcripts are imported, beside parsing the same bytes into JSON values.
#![allow(clippy::print_stdout)]

use host_import::{Options, import};
use std::hint::black_box;
use std::io::{BufReader, Read};
use std::time::{Duration, Instant};

/// Bytes of each made-up transcript.
const BYTES: usize = 32 * 1024 * 1024;
const RUNS: usize = 5;

fn smallest(mut work: impl FnMut()) -> Duration {
    let runs = (0..RUNS).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    runs.min().unwrap_or_default()
}

/// A Claude Code session: one model message with a call, one user line with its result, over and over.
fn claude_code() -> Vec<u8> {
    let mut out = String::new();
    let mut parent = String::from("null");
    let mut at = 0u64;
    while out.len() < BYTES {
        let (call, result) = (format!("\"u{at}a\""), format!("\"u{at}b\""));
        let text = "fn main() { println!(\\\"hello\\\"); }\\n".repeat(40);
        out.push_str(&format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":false,\"type\":\"assistant\",\"uuid\":{call},\"sessionId\":\"s\",\
             \"message\":{{\"id\":\"m{at}\",\"role\":\"assistant\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"t{at}\",\
             \"name\":\"Read\",\"input\":{{\"path\":\"src/{at}.rs\"}}}}]}}}}\n"
        ));
        out.push_str(&format!(
            "{{\"parentUuid\":{call},\"isSidechain\":false,\"type\":\"user\",\"uuid\":{result},\"sessionId\":\"s\",\
             \"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t{at}\",\
             \"content\":\"{text}\"}}]}},\"toolUseResult\":{{\"stdout\":\"{text}\"}}}}\n"
        ));
        parent = result;
        at += 1;
    }
    out.into_bytes()
}

/// A request body of Chat Completions.
fn openai() -> Vec<u8> {
    let mut out = String::from("{\"model\":\"gpt-5\",\"messages\":[{\"role\":\"user\",\"content\":\"begin\"}");
    let mut at = 0u64;
    while out.len() < BYTES {
        let text = "fn main() { println!(\\\"hello\\\"); }\\n".repeat(40);
        out.push_str(&format!(
            ",{{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{{\"id\":\"c{at}\",\"type\":\"function\",\
             \"function\":{{\"name\":\"read\",\"arguments\":\"{{}}\"}}}}]}},\
             {{\"role\":\"tool\",\"tool_call_id\":\"c{at}\",\"content\":\"{text}\"}}"
        ));
        at += 1;
    }
    out.push_str("]}");
    out.into_bytes()
}

/// Parses every line, or the whole, into values: the least that any importer does.
fn into_values(bytes: &[u8], by_line: bool) {
    if by_line {
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            black_box(serde_json::from_slice::<serde_json::Value>(line).is_ok());
        }
    } else {
        black_box(serde_json::from_slice::<serde_json::Value>(bytes).is_ok());
    }
}

fn main() {
    for (name, bytes, by_line) in
        [("import, Claude Code JSONL", claude_code(), true), ("import, Chat Completions body", openai(), false)]
    {
        let ours = smallest(|| {
            let mut reader = BufReader::new(bytes.as_slice().take(bytes.len() as u64));
            let imported = import(&mut reader, &Options::default(), &mut |_| {}).expect("a made-up transcript imports");
            black_box(imported.conversations.len());
        });
        let peer = smallest(|| into_values(&bytes, by_line));
        let rate = |time: Duration| bytes.len() as f64 / 1e6 / time.as_secs_f64();
        let row = serde_json::json!({
            "name": name, "unit": "MB/s", "ours": rate(ours), "peer": rate(peer), "ratio": rate(ours) / rate(peer),
            "goal": "none stated", "met": null,
        });
        println!("{row}");
    }
}
