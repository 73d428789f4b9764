//! What the gateway does to the bill: a session of 100 turns that grows to 460 KB goes through it, and consecutive requests are
//! priced as providers price them, beside doing nothing and beside published figures of others.
// A bench is a program: it prints and may fail.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use support::meter::{RULES, Rule, cost};
use support::provider::{Provider, Reply};

const TURNS: usize = 100;
const BYTES: usize = 460_000;
/// Figures of other tools on such a session, measured on 2026-11-30 with the same formula: cost under each rule.
const OTHERS: [(&str, [f64; 6]); 4] = [
    ("headroom 0.42 (cache mode)", [1.00, 1.00, 1.00, 1.00, 1.00, 1.00]),
    ("headroom 0.42 (token mode)", [0.61, 0.67, 1.04, 1.14, 1.54, 2.04]),
    ("kompact 0.4", [0.31, 0.45, 1.38, 1.62, 2.59, 3.82]),
    ("lean-ctx 3.11.4", [0.55, 0.57, 0.72, 0.76, 0.92, 1.12]),
];

fn program() -> PathBuf {
    std::env::var_os("PALIMPSEST_PROGRAM").map_or_else(
        || {
            let built = Command::new(env!("CARGO")).args(["build", "--release", "-p", "host-cli"]).status().unwrap();
            assert!(built.success());
            std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("palimpsest")
        },
        PathBuf::from,
    )
}

/// The requests of a session, as its client sends them.
fn session() -> Vec<String> {
    let tools: Vec<Value> = ["Read", "Bash", "Grep"]
        .iter()
        .map(|name| json!({"type": "function", "function": {"name": name, "description": "Does one thing. ".repeat(60), "parameters": {"type": "object"}}}))
        .collect();
    let mut messages = vec![
        json!({"role": "system", "content": "You are a careful agent. ".repeat(240)}),
        json!({"role": "user", "content": "Find out why the parser fails, and mend it. The port is 48713."}),
    ];
    let per_turn = (BYTES - 12_000) / TURNS;
    let mut out = Vec::new();
    for turn in 0..TURNS {
        out.push(json!({"model": "bench", "tools": tools, "messages": messages}).to_string());
        let (id, name) = (format!("call_{turn}"), ["Read", "Bash", "Grep"][turn % 3]);
        messages.push(json!({"role": "assistant", "content": format!("Looking at part {turn}."), "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": format!("{{\"path\":\"src/part_{turn}.rs\"}}")}}]}));
        let mut text = String::new();
        for line in 0.. {
            if text.len() + 300 > per_turn {
                break;
            }
            let value = ((turn * 7_919 + line) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 36;
            text.push_str(&format!("{line}: let value_{line} = compute({value}, &state.part_{turn})?;\n"));
        }
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
    }
    out
}

/// Sends a session through a gateway whose model has these prices; returns what reached the provider.
fn through(requests: &[String], rule: Rule, mode: &str) -> Vec<Vec<u8>> {
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let told = Arc::clone(&seen);
    let provider = Provider::for_clients(move |request| {
        told.lock().unwrap().push(request.body.clone().into_bytes());
        // 2.6 bytes of such a text are a token.
        Some(Reply::Counted("ok".to_owned(), request.body.len() as u64 * 10 / 26, 10))
    });
    let home = tempfile::tempdir().unwrap();
    let prices = format!(
        "date: 2026-11-30\nmodels:\n  bench: {{input: 3.0, output: 15.0, read: {}, write: {}, window: 262144}}\n",
        rule.read, rule.write
    );
    std::fs::write(home.path().join("prices.yaml"), prices).unwrap();
    let config = home.path().join("config.yaml");
    // The threshold of Hermes' documentation; at its later floor of three quarters such a session never reaches it.
    let settings = format!(
        "context: {{mode: {mode}}}\ncompression: {{threshold: 0.3, small_context_floor: 0}}\nmodel: {{context_length: 262144}}\ngateway: {{access_log: 'off'}}\n"
    );
    std::fs::write(&config, settings).unwrap();
    let mut child = Command::new(program())
        .args(["gateway", "--listen", "127.0.0.1:0", "--upstream", &provider.origin(), "--config"])
        .arg(&config)
        .arg("--home")
        .arg(home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit("http://").next().unwrap().to_owned();
    for body in requests {
        send(&address, body);
    }
    let _ = child.kill();
    let _ = child.wait();
    provider.take_problems();
    std::mem::take(&mut *seen.lock().unwrap())
}

fn send(address: &str, body: &str) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nconnection: close\r\nx-palimpsest-session: bench\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:.300}");
}

fn main() {
    let requests = session();
    let direct: Vec<Vec<u8>> = requests.iter().map(|body| body.clone().into_bytes()).collect();
    for mode in ["economic", "fraction"] {
        for (at, rule) in RULES.iter().enumerate() {
            let bodies = through(&requests, *rule, mode);
            let ours = cost(&bodies, *rule) / cost(&direct, *rule);
            let (goal, met) = if mode == "economic" { ("<= 1.00", Some(ours <= 1.0)) } else { ("", None) };
            let name = format!("cost, {mode}, reads {} writes {}, {} requests", rule.read, rule.write, bodies.len());
            println!(
                "{}",
                json!({ "name": name, "unit": "x", "ours": ours, "peer": 1.0, "ratio": ours, "goal": goal, "met": met })
            );
            for (other, figures) in OTHERS.iter().filter(|_| mode == "economic") {
                println!("  {other}: {:.2} (published)", figures[at]);
            }
        }
    }
}
