//! Measures how much of the evidence for a question is among the first hits: LoCoMo conversations, no model.
//!
//! Needs a folder with `locomo-v2-conv-*.json.gz`, named by `PALIMPSEST_LOCOMO`; without it the test says so and passes.
//! Constants of the ranking were tuned on conversations 26, 30 and 42; the figures that count are those of the others
//! (`docs/evals.md`). Run with `--release` and `--nocapture` to see the table.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed expectation is how a test speaks, and the table is its result"
)]

mod support;

use engine_api::Role;
use host_search::Query;
use serde_json::Value;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use support::{Memory, Owned, Store};

/// Conversations that constants were tuned on.
const TUNED_ON: &[&str] = &["26", "30", "42"];
/// Questions that the dialogue has no answer to.
const ADVERSARIAL: u64 = 5;
const DEPTHS: [usize; 3] = [5, 10, 20];

/// A question of a conversation.
struct Question {
    raw: String,
    evidence: Vec<i64>,
}

/// A conversation: its turns as documents, and its questions.
struct Conversation {
    name: String,
    memory: Memory,
    questions: Vec<Question>,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

/// Returns the names of turns in an evidence entry: some hold several, or leading zeros.
fn turn_names(entry: &str) -> Vec<String> {
    let mut out = Vec::new();
    for part in entry.split('D').skip(1) {
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let session = digits(part);
        let turn = part.get(session.len()..).and_then(|rest| rest.strip_prefix(':')).map(digits).unwrap_or_default();
        if let (Ok(session), Ok(turn)) = (session.parse::<u32>(), turn.parse::<u32>()) {
            out.push(format!("D{session}:{turn}"));
        }
    }
    out
}

fn read(path: &Path) -> Conversation {
    let mut json = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut json).unwrap();
    let root: Value = serde_json::from_str(&json).unwrap();
    let mut memory = Memory::default();
    let mut ids: HashMap<String, i64> = HashMap::new();
    let speaker_a = text(&root, "speaker_a");
    for session in 1..200 {
        let Some(turns) = root.get(format!("session_{session}")).and_then(Value::as_array) else { continue };
        for turn in turns {
            let id = memory.docs.len() as i64 + 1;
            let mut said = format!("{}: {}", text(turn, "speaker"), text(turn, "text"));
            if !text(turn, "blip_caption").is_empty() {
                said.push_str(&format!(" [photo: {}]", text(turn, "blip_caption")));
            }
            let role = if text(turn, "speaker") == speaker_a { Role::User } else { Role::Assistant };
            // Days apart, as far as recency is concerned.
            let at_ms = session * 7 * 86_400_000 + id * 60_000;
            memory.docs.push(Owned { role, at_ms, ..Owned::new(id, &said) });
            ids.insert(text(turn, "dia_id").to_owned(), id);
        }
    }
    let mut questions = Vec::new();
    for entry in root.get("qa").and_then(Value::as_array).into_iter().flatten() {
        if entry.get("category").and_then(Value::as_u64) == Some(ADVERSARIAL) {
            continue;
        }
        let mut evidence: Vec<i64> = Vec::new();
        for name in entry.get("evidence").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            evidence.extend(turn_names(name).iter().filter_map(|name| ids.get(name)));
        }
        evidence.sort_unstable();
        evidence.dedup();
        if !evidence.is_empty() {
            questions.push(Question { raw: text(entry, "question").to_owned(), evidence });
        }
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_owned();
    Conversation { name, memory, questions }
}

/// Words that an agent leaves out of keywords: grammar, question words, auxiliaries, and verbs of asking and doing.
const LEFT_OUT: &str = "a about after all also am an and another any are as at be been before being between both but by can could \
currently did do does doing done during each ever first for from gave get gets give gives go goes going gone got \
had has have having he her here hers him his how i if in into is it its just kind kinds last least less long made \
make makes many may me might mine more most much must my new no nor not of often old on one only onto or other \
our over recently said same say says shall she should since so some such take takes tell tells than that the \
their theirs them then there these they this those three to told too took two type types under until us use used \
uses very was we went were what when where which while who whom whose why will with without would you your";

/// Derives keywords from a question: its words without those left out, each once, in its order.
fn keywords(question: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    for word in question.split(|c: char| !c.is_ascii_alphanumeric() && c != '\'' && c != '’') {
        let word = word.trim_matches(['\'', '’']).to_lowercase();
        let word = word.split(['\'', '’']).next().unwrap_or("").to_owned();
        if word.len() > 1 && !LEFT_OUT.split_whitespace().any(|out| out == word) && !out.contains(&word) {
            out.push(word);
        }
    }
    out.join(" ")
}

#[derive(Debug, Default, Clone, Copy)]
struct Figures {
    questions: f64,
    recall: [f64; 3],
    reciprocal: f64,
    empty: f64,
}

impl Figures {
    fn add(&mut self, found: &[i64], evidence: &[i64]) {
        self.questions += 1.0;
        for (recall, depth) in self.recall.iter_mut().zip(DEPTHS) {
            let hit = evidence.iter().filter(|id| found.iter().take(depth).any(|found| found == *id)).count();
            *recall += hit as f64 / evidence.len() as f64;
        }
        let first = found.iter().position(|id| evidence.contains(id));
        self.reciprocal += first.map_or(0.0, |at| 1.0 / (at as f64 + 1.0));
        self.empty += f64::from(u8::from(found.is_empty()));
    }

    fn percent(&self) -> [f64; 3] {
        self.recall.map(|sum| 100.0 * sum / self.questions.max(1.0))
    }
}

fn line(name: &str, figures: &Figures) -> String {
    let [five, ten, twenty] = figures.percent();
    let questions = figures.questions.max(1.0);
    let (mrr, empty) = (figures.reciprocal / questions, 100.0 * figures.empty / questions);
    format!("{name:<28} {questions:>5} {five:>6.1} {ten:>6.1} {twenty:>6.1} {mrr:>6.3} {empty:>6.2}")
}

#[test]
fn evidence_is_among_the_first_hits() {
    let Some(folder) = std::env::var_os("PALIMPSEST_LOCOMO") else {
        eprintln!(
            "SKIPPED: PALIMPSEST_LOCOMO names no folder with locomo-v2-conv-*.json.gz, so recall was not measured"
        );
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "gz"));
    files.sort();
    let mut sums: HashMap<(bool, bool), Figures> = HashMap::new();
    println!(
        "{:<28} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "conversation, form", "n", "R@5", "R@10", "R@20", "MRR", "empty%"
    );
    for path in &files {
        let conversation = read(path);
        let tuned = TUNED_ON.iter().any(|number| conversation.name.contains(&format!("conv-{number}.")));
        let now_ms = conversation.memory.docs.last().map_or(0, |doc| doc.at_ms);
        let filled = conversation.memory.docs.len() / 2;
        let store = Store::new(conversation.memory, filled, 128);
        for with_keywords in [false, true] {
            let mut figures = Figures::default();
            for question in &conversation.questions {
                let pattern = if with_keywords { keywords(&question.raw) } else { question.raw.clone() };
                let found = store.ids(&Query { now_ms, limit: 20, ..Query::new(&pattern) });
                figures.add(&found, &question.evidence);
                sums.entry((tuned, with_keywords)).or_default().add(&found, &question.evidence);
            }
            let form = if with_keywords { "keywords" } else { "raw" };
            println!("{}", line(&format!("{} {form}", conversation.name.trim_end_matches(".json.gz")), &figures));
        }
    }
    for (tuned, name) in [(true, "tuned on"), (false, "held out")] {
        for (with_keywords, form) in [(false, "raw"), (true, "keywords")] {
            println!(
                "{}",
                line(&format!("{name}, {form}"), &sums.get(&(tuned, with_keywords)).copied().unwrap_or_default())
            );
        }
    }
    let of = |keywords: bool| sums.get(&(false, keywords)).copied().unwrap_or_default();
    let (raw, kw) = (of(false), of(true));
    for ((raw, kw), least) in raw.percent().into_iter().zip(kw.percent()).zip([60.0, 69.0, 76.0]) {
        assert!(raw >= least, "recall {raw:.1} of raw questions is below {least}");
        assert!((raw - kw).abs() <= 1.0, "recall {raw:.1} of raw questions and {kw:.1} of keywords differ");
    }
    assert!(raw.empty / raw.questions <= 0.005 && kw.empty / kw.questions <= 0.005);
}
