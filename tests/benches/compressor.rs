//! Measures the built-in compressor on generated sessions of 100K, 500K and 1M tokens, beside Hermes' own.
//!
//! Takes the sessions from the generator in `PALIMPSEST_HERMES_BENCH` (default `../shared/tools/hermes-bench`), so that
//! both programs read the same files. With `PALIMPSEST_HERMES_PYTHON`, a Python that has Hermes, its driver runs on
//! them too and the rows have a peer; without, they say so. Prints one JSON row a line, the smallest of many runs.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use engine_api::testing::FakeHost;
use engine_api::{
    Completion, CompletionRequest, CompressRequest, ContextEngine, EngineError, Flags, HostServices, LogLevel, Message,
    MessageId, Part, PartKind, RecallReply, RecallRequest, Role, SessionStart, ViewTable,
    json::{self, Value, json},
};
use host_tokens::Counter;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const RUNS: usize = 150;
/// Runs of Hermes on each file; its driver takes the smallest too.
const PEER_RUNS: &str = "9";
/// What the stand-in for a model answers at once: 8 KB, as Hermes' driver has it.
const ANSWER_LINE: &str = "Concrete stub summary line with file src/core/a.rs:12.\n";
const ANSWER_LINES: usize = 150;
/// Files by name and size, and the windows each is compacted for.
const SIZES: [(&str, u64); 3] = [("100K", 100_000), ("500K", 500_000), ("1M", 1_000_000)];
/// A model whose vocabulary is known.
const EXACT_MODEL: &str = "gpt-4o";
const WINDOWS: [(&str, u64); 2] = [("200K", 200_000), ("1M", 1_000_000)];

/// A host whose model answers at once, or that has none.
struct Host {
    answer: Option<String>,
    /// Counts exactly; four bytes a token without it, as Hermes counts.
    counter: Option<Counter>,
    /// Takes secrets out of what the model is shown, as a host does before it leaves.
    redacts: bool,
    inner: FakeHost,
}

impl Host {
    fn new(has_model: bool, counter: Option<Counter>) -> Host {
        let answer = format!("## Goal\nstub\n\n{}", ANSWER_LINE.repeat(ANSWER_LINES));
        Host { answer: has_model.then_some(answer), counter, redacts: false, inner: FakeHost::default() }
    }
}

impl HostServices for Host {
    fn complete(&self, request: &CompletionRequest) -> Result<Completion, EngineError> {
        let prompt = if self.redacts { host_redact::redact(&request.prompt).into_owned() } else { String::new() };
        black_box(prompt.len());
        let text = self.answer.clone().ok_or_else(|| EngineError::unsupported("a completion"))?;
        let mut completion = Completion::default();
        completion.text = text;
        Ok(completion)
    }
    fn count_tokens(&self, text: &str) -> u64 {
        self.counter.as_ref().map_or(text.len() as u64 / 4 + 4, |counter| u64::from(counter.count(text)))
    }
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        self.inner.recall(request)
    }
    fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
        self.inner.state_get(key)
    }
    fn state_put(&self, key: &str, value: &[u8]) -> Result<(), EngineError> {
        self.inner.state_put(key, value)
    }
    fn redact(&self, text: &str) -> String {
        text.to_owned()
    }
    fn log(&self, _level: LogLevel, _message: &str, _fields: &Value) {}
    fn now_unix_ms(&self) -> u64 {
        1_780_000_000_000
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
}

/// Reads a list of Chat Completions messages.
fn read(file: &Path) -> Vec<Message> {
    let text = std::fs::read_to_string(file).expect("a generated file can be read");
    let list: Vec<Value> = json::from_str(&text).expect("a generated file is a list");
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let message = |(at, value): (usize, &Value)| {
        let role = match value["role"].as_str() {
            Some("system") => Role::System,
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => Role::Tool,
        };
        let content = text_of(&value["content"]);
        let mut parts = Vec::new();
        if role == Role::Tool {
            let mut part = Part::result(text_of(&value["tool_call_id"]), content);
            part.tool_name = text_of(&value["name"]);
            parts.push(part);
        } else if !content.is_empty() {
            parts.push(Part::new(PartKind::Text, content));
        }
        for call in value["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            parts.push(Part::call(text_of(&call["id"]), text_of(&function["name"]), text_of(&function["arguments"])));
        }
        for part in &mut parts {
            part.tokens = (part.text.len() / 4) as u32 + 1;
        }
        let mut message = Message::new(role, value.to_string(), parts);
        message.id = MessageId(at as u64 + 1);
        message.tokens = message.parts.iter().map(|part| part.tokens).sum::<u32>() + 4;
        if role == Role::User {
            message.flags = Flags::REAL_USER;
        }
        message
    };
    list.iter().enumerate().map(message).collect()
}

/// The budgets that a host computes for a window, as Hermes computes them.
fn request(window: u64, is_lean: bool) -> CompressRequest {
    let threshold = if window < 512_000 { window / 4 * 3 } else { window / 2 };
    let mut request = CompressRequest::default();
    request.target_tokens = threshold;
    request.completions_max = 2;
    request.model.context_length = window;
    request.model.threshold_tokens = threshold;
    request.model.tail_budget_tokens = if is_lean { (window / 40).clamp(10_000, 25_000) } else { threshold / 5 };
    request.model.summary_tokens_max = (window / 20).min(10_000);
    request
}

fn smallest(mut work: impl FnMut()) -> Duration {
    let runs = (0..RUNS).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    runs.min().unwrap_or_default()
}

fn compress(messages: &[Message], window: u64, mode: &str, host: &Host, force: bool) -> Option<Duration> {
    let table = ViewTable::new(1, messages);
    let engine = engine_compressor::new(&json!({ "tail_mode": mode })).expect("the compressor takes any settings");
    let mut session = engine.open_session(host, &SessionStart::default()).expect("the compressor opens sessions");
    let mut request = request(window, mode == "lean");
    // A session below its threshold is compacted because a person asks for it.
    request.force = force;
    request.target_tokens = request.target_tokens.min(table.conversation().tokens() - 1);
    let plan = session.compress(host, &table.conversation(), &request);
    let Ok(plan) = plan else { return None };
    let verdict = engine_kit::testing::judge(&table.conversation(), &plan, &|text| host.count_tokens(text));
    let verdict = verdict.unwrap_or_else(|fault| panic!("the plan is faulty: {fault}"));
    eprintln!(
        "  {mode}, window {window}: {} messages, {} -> {} tokens, {} results shortened, {}",
        messages.len(),
        verdict.tokens_before,
        verdict.tokens_after,
        verdict.rewrites,
        if plan.report.fallback.is_empty() { "a model's summary" } else { "an outline" },
    );
    Some(smallest(|| {
        let plan = session.compress(host, &table.conversation(), &request);
        black_box(plan.map(|plan| plan.steps.len()).unwrap_or_default());
    }))
}

/// Times of Hermes on a file, in milliseconds of one core.
struct Peer {
    compress: f64,
    serialise_unpruned: f64,
}

fn peer(tools: &Path, file: &Path, window: u64, scratch: &Path) -> Option<Peer> {
    let python = std::env::var_os("PALIMPSEST_HERMES_PYTHON")?;
    std::fs::create_dir_all(scratch.join("out")).ok()?;
    let driver = tools.join("bench.py");
    let output = Command::new(python)
        .current_dir(scratch)
        .env("HERMES_HOME", scratch.join("home"))
        .arg(driver)
        .arg(file)
        .arg(window.to_string())
        .arg(PEER_RUNS)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(row) = text.lines().last().and_then(|line| json::from_str::<Value>(line).ok()) else {
        eprintln!("SKIPPED: Hermes' driver gave no row: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    let ms = |key: &str| row[key]["cpu_min_ms"].as_f64().unwrap_or_default();
    Some(Peer { compress: ms("compress_total"), serialise_unpruned: ms("serialize_unpruned") })
}

fn row(name: &str, ours: Duration, peer: Option<f64>, goal_ms: Option<f64>) {
    let ms = ours.as_nanos() as f64 / 1_000_000.0;
    let row = json!({
        "name": name, "unit": "ms", "ours": ms, "peer": peer, "ratio": peer.map(|peer| peer / ms),
        "goal": goal_ms.map_or_else(|| "none".to_owned(), |goal| format!("<= {goal} ms")),
        "met": goal_ms.map(|goal| ms <= goal),
    });
    println!("{row}");
}

fn generated(tools: &Path, folder: &Path, name: &str, tokens: u64) -> Option<PathBuf> {
    let file = folder.join(format!("t{}.json", name.to_lowercase()));
    if !file.is_file() {
        let status = Command::new("python3").arg(tools.join("gen.py")).arg(&file).arg(tokens.to_string()).output();
        if !status.is_ok_and(|output| output.status.success()) {
            return None;
        }
    }
    Some(file)
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tools = std::env::var_os("PALIMPSEST_HERMES_BENCH")
        .map_or_else(|| root.join("../shared/tools/hermes-bench"), PathBuf::from);
    let folder = std::env::temp_dir().join("palimpsest-bench-compressor");
    if let Err(error) = std::fs::create_dir_all(&folder) {
        eprintln!("SKIPPED: could not make {}: {error}", folder.display());
        return;
    }
    if std::env::var_os("PALIMPSEST_HERMES_PYTHON").is_none() {
        eprintln!("no PALIMPSEST_HERMES_PYTHON: rows have no peer");
    }
    for (name, tokens) in SIZES {
        let Some(file) = generated(&tools, &folder, name, tokens) else {
            eprintln!("SKIPPED: no generator gen.py in {}, or no python3", tools.display());
            return;
        };
        let messages = read(&file);
        let (answering, silent) = (Host::new(true, None), Host::new(false, None));
        let redacting = Host { redacts: true, ..Host::new(true, None) };
        let mut serialise_unpruned = None;
        for (window_name, window) in WINDOWS {
            let peer = peer(&tools, &file, window, &folder);
            serialise_unpruned = serialise_unpruned.or(peer.as_ref().map(|peer| peer.serialise_unpruned));
            let is_goal = (name, window_name) == ("500K", "200K");
            let goal = |ms: f64| is_goal.then_some(ms);
            let force = tokens < window;
            for mode in ["legacy", "lean"] {
                let what = format!("compress {name}/{window_name}, {mode}, model answers at once");
                if let Some(time) = compress(&messages, window, mode, &answering, force) {
                    row(&what, time, None, goal(2.0));
                }
                // Hermes' time has the redaction in it, so it stands beside this one.
                if let Some(time) = compress(&messages, window, mode, &redacting, force) {
                    row(&format!("{what}, redacted"), time, peer.as_ref().map(|peer| peer.compress), None);
                }
            }
            if let Some(time) = compress(&messages, window, "lean", &silent, force) {
                row(&format!("compress {name}/{window_name}, lean, no model"), time, None, None);
            }
        }
        let counter = Counter::for_model(EXACT_MODEL);
        let mut measured = messages.clone();
        counter.measure(&mut measured);
        let exact = Host::new(true, Some(counter));
        if let Some(time) = compress(&measured, 200_000, "lean", &exact, tokens < 200_000) {
            row(&format!("compress {name}/200K, lean, texts counted by {EXACT_MODEL}"), time, None, None);
        }
        let table = ViewTable::new(1, &messages);
        let positions: Vec<usize> = (1..messages.len()).collect();
        let limits = engine_kit::render::Limits::default();
        let rendered = || engine_kit::render::render(&table.conversation(), &positions, &limits);
        let goal = |ms: f64| (name == "500K").then_some(ms);
        row(&format!("serialise {name} unpruned"), smallest(|| drop(black_box(rendered()))), None, goal(5.0));
        let redacted = || drop(black_box(host_redact::redact(&rendered())));
        row(&format!("serialise and redact {name} unpruned"), smallest(redacted), serialise_unpruned, goal(15.0));
    }
}
