//! A model as a coding agent's: it has the agent read one file after another, looks once for what it read long ago, and ends.
//!
//! Any client with a tool for shell commands or files can be driven by it. What it is told is checked by the provider.

use crate::provider::{Api, Provider, Reply, Seen, ToolUse};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the model says when it has read everything.
pub const FINAL_ANSWER: &str = "FINAL-ANSWER";
/// The first line of the third file holds this; it is read early and asked for late.
pub const NEEDLE: &str = "NEEDLE-03";
/// Characters of a summary that the model writes.
const SUMMARY_CHARS: usize = 1_500;
/// How the clients' own summary prompts begin or what they carry.
const CLIENT_SUMMARY_PROMPTS: [&str; 5] = [
    "CONTEXT CHECKPOINT COMPACTION",
    "CRITICAL: Respond with TEXT ONLY",
    "You are a context summarization agent",
    "creating a context checkpoint",
    "compaction_trigger",
];

/// How the model behaves.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Files that it has read.
    pub turns: usize,
    /// Tokens beyond which it refuses a request; a token is four bytes. 0 for no bound.
    pub window: u64,
    /// Requests at which something goes wrong, counted from 1, and what.
    pub faults: Vec<(usize, Reply)>,
}

/// What the model has seen.
#[derive(Debug, Default, Clone)]
pub struct Record {
    /// Turns that it answered with a call of the client's tools.
    pub turns: usize,
    /// Requests in all.
    pub requests: usize,
    /// Compactions that the client asked for itself.
    pub client_compactions: usize,
    /// Requests for summaries by others.
    pub summaries: usize,
    /// Requests that it refused as too long.
    pub overflows: usize,
    /// Times that it called a recall tool.
    pub recalls: usize,
    /// The answer to a recall call held what was asked for.
    pub is_recalled: bool,
    /// What was answered, cut.
    pub recall_answer: String,
    /// It has said its last word.
    pub is_done: bool,
    /// The largest request, in bytes.
    pub largest: usize,
}

/// The model at work.
pub struct Model {
    /// Where it is asked.
    pub provider: Provider,
    record: Arc<Mutex<Record>>,
}

impl Model {
    /// Returns what it has seen so far.
    pub fn record(&self) -> Record {
        lock(&self.record).clone()
    }
}

impl Agent {
    /// Reads so many files.
    pub fn new(turns: usize) -> Agent {
        Agent { turns, window: 0, faults: Vec::new() }
    }

    /// Starts the model.
    pub fn start(self) -> Model {
        let record = Arc::new(Mutex::new(Record::default()));
        let told = Arc::clone(&record);
        let provider = Provider::for_clients(move |seen| Some(self.reply(seen, &mut lock(&told))));
        Model { provider, record }
    }

    fn reply(&self, seen: &Seen, record: &mut Record) -> Reply {
        record.requests += 1;
        record.largest = record.largest.max(seen.body.len());
        let tokens = seen.body.len() as u64 / 4;
        if let Some((_, fault)) = self.faults.iter().find(|(at, _)| *at == record.requests) {
            return fault.clone();
        }
        if self.window > 0 && tokens > self.window {
            record.overflows += 1;
            return Reply::Overflow(self.window);
        }
        let names = tool_names(&seen.json);
        let newest = newest(seen);
        if CLIENT_SUMMARY_PROMPTS.iter().any(|prompt| newest.contains(prompt) || system(seen).contains(prompt)) {
            record.client_compactions += 1;
            return Reply::Counted(summary(record), tokens, 300);
        }
        let shell = shell(&names, 1);
        if shell.is_none() {
            let is_summary = seen.body.to_lowercase().contains("summar");
            record.summaries += usize::from(is_summary);
            return Reply::Counted(
                if is_summary { summary(record) } else { "Reading of files".to_owned() },
                tokens,
                60,
            );
        }
        // A question behind the live prefix: the newest message is no result of a tool, and work is under way.
        if record.turns > 0 && !record.is_done && !is_result(seen) && newest.to_lowercase().contains("summar") {
            record.summaries += 1;
            return Reply::Counted(summary(record), tokens, 300);
        }
        if record.recalls > 0 && !record.is_recalled {
            if record.recall_answer.is_empty() {
                record.recall_answer =
                    results(seen).last().map(|text| text.chars().take(600).collect()).unwrap_or_default();
            }
            // Words that were found are marked, so the line is known by what is only there.
            record.is_recalled = results(seen).iter().rev().take(2).any(|result| result.contains(&needle(3)));
        }
        let recall = ["lcm_grep", "session_search"].into_iter().find(|name| names.iter().any(|known| known == name));
        if let Some(recall) = recall.filter(|_| record.recalls == 0 && record.turns + 3 >= self.turns) {
            record.recalls += 1;
            let call =
                ToolUse { id: "call_recall".to_owned(), name: recall.to_owned(), input: json!({ "query": NEEDLE }) };
            return Reply::Use(String::new(), vec![call], tokens);
        }
        if record.turns >= self.turns {
            record.is_done = true;
            return Reply::Counted(format!("All parts are read. {FINAL_ANSWER}"), tokens, 20);
        }
        record.turns += 1;
        let call = shell_call(&names, record.turns);
        Reply::Use("Now the next part.".to_owned(), call.into_iter().collect(), tokens)
    }
}

/// Writes the files that the model has read, each of about so many bytes, and the rules of a project.
pub fn lay_files(folder: &Path, count: usize, bytes: usize) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for nth in 1..=count {
        let mut text = format!("# part {nth} NEEDLE-{nth:02}-{}\n", needle(nth));
        for line in 0.. {
            if text.len() >= bytes {
                break;
            }
            let value = hash((nth * 10_000 + line) as u64);
            text.push_str(&format!(
                "part {nth} line {line}: value={value:08x} path=src/mod_{nth}/file_{line}.rs status=ok\n"
            ));
        }
        std::fs::write(folder.join(format!("chunk_{nth:02}.txt")), text)?;
    }
    for name in ["AGENTS.md", "CLAUDE.md"] {
        std::fs::write(folder.join(name), "# Project rules\nAlways answer briefly. RULE-MARKER.\n")?;
    }
    Ok(())
}

/// Returns what stands behind the needle of a file, and nowhere else.
fn needle(nth: usize) -> String {
    format!("{:08x}", hash(nth as u64))
}

fn hash(value: u64) -> u64 {
    (value.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) & 0xFFFF_FFFF
}

fn summary(record: &Record) -> String {
    let fact = format!("{} parts were read; the next step is to go on with the following part. ", record.turns);
    let text = fact.repeat(SUMMARY_CHARS / fact.len() + 1);
    format!(
        "<analysis>it is long</analysis>\n<summary>\n## Goal\nTo read all parts.\n\n## Progress\n{text}\n</summary>"
    )
}

/// Returns the call by which a client shows the nth file.
fn shell_call(names: &[String], nth: usize) -> Option<ToolUse> {
    let (name, input) = shell(names, nth)?;
    Some(ToolUse { id: format!("call_{nth}"), name, input })
}

fn shell(names: &[String], nth: usize) -> Option<(String, Value)> {
    let command = format!("cat chunk_{nth:02}.txt");
    let known = [
        ("Bash", json!({ "command": command, "description": "Shows a part" })),
        ("bash", json!({ "command": command, "description": "Shows a part" })),
        ("exec_command", json!({ "cmd": command })),
        ("shell_command", json!({ "command": command })),
        ("shell", json!({ "command": ["bash", "-lc", command] })),
        ("terminal", json!({ "command": command })),
        (
            "exec",
            json!(format!(
                "const r = await tools.exec_command({{cmd: {command:?}}}); text(r.output ?? JSON.stringify(r));"
            )),
        ),
    ];
    known
        .into_iter()
        .find(|(name, _)| names.iter().any(|other| other == name))
        .map(|(name, input)| (name.to_owned(), input))
}

fn tool_names(body: &Value) -> Vec<String> {
    fn walk(tools: Option<&Value>, out: &mut Vec<String>) {
        for tool in tools.and_then(Value::as_array).into_iter().flatten() {
            walk(tool.get("tools"), out);
            let name = tool.pointer("/function/name").or_else(|| tool.get("name")).and_then(Value::as_str);
            out.extend(name.map(str::to_owned));
        }
    }
    let mut out = Vec::new();
    walk(body.get("tools"), &mut out);
    for item in body.get("input").and_then(Value::as_array).into_iter().flatten() {
        if item.get("type").and_then(Value::as_str) == Some("additional_tools") {
            walk(item.get("tools"), &mut out);
        }
    }
    out
}

fn messages(seen: &Seen) -> &[Value] {
    let key = if seen.api == Api::Responses { "input" } else { "messages" };
    seen.json.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn newest(seen: &Seen) -> String {
    messages(seen).last().map(Value::to_string).unwrap_or_default()
}

fn system(seen: &Seen) -> String {
    let member = seen.json.get("system").map(Value::to_string);
    member.or_else(|| messages(seen).first().map(Value::to_string)).unwrap_or_default()
}

/// Tells whether the newest message is nothing but the result of a tool.
fn is_result(seen: &Seen) -> bool {
    let Some(last) = messages(seen).last() else { return false };
    let is = |key: &str, value: &str| last.get(key).and_then(Value::as_str).is_some_and(|found| found.ends_with(value));
    let blocks = last.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    is("role", "tool") || is("type", "_output") || blocks.last().is_some_and(|block| block["type"] == "tool_result")
}

/// Returns the texts of the results in a request, oldest first.
fn results(seen: &Seen) -> Vec<String> {
    let mut out = Vec::new();
    for message in messages(seen) {
        if message["role"] == "tool" {
            out.push(message["content"].to_string());
        }
        if message["type"].as_str().is_some_and(|kind| kind.ends_with("_output")) {
            out.push(message["output"].to_string());
        }
        for block in message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result")
        {
            out.push(block["content"].to_string());
        }
    }
    out
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
