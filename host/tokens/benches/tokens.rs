//! Measures exact counting on agent traffic that was not seen before and on hostile texts, beside tiktoken-rs.
//!
//! Prints one JSON row a line. Times are those of this thread on a processor, where the system tells them, so neighbours
//! on the machine hardly count. `PALIMPSEST_DATA` names a folder of transcripts to use in place of the repository's.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use flate2::read::GzDecoder;
use host_tokens::Counter;
use serde_json::Value;
use std::collections::HashSet;
use std::hint::black_box;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs};

/// Bytes of traffic that are counted at most.
const TRAFFIC_BYTES_MAX: usize = 64 << 20;
/// The goal for traffic that was not seen before.
const GOAL_MB_S: f64 = 25.0;
/// What was counted before is looked up, which must cost next to nothing beside counting.
const GOAL_REPEAT: f64 = 10.0;
/// A text four times as long may take this many times longer a byte: what is not linear takes four times or more.
const GOAL_GROWTH: f64 = 1.5;
/// Texts of a long conversation, which is what repeats are asked about.
const CONVERSATION_TEXTS: usize = 20_000;
const MIB: usize = 1 << 20;

/// Seconds that this thread has run, or any clock's where the system keeps no such account.
fn now(epoch: Instant) -> f64 {
    let account = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let on_cpu = account.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    on_cpu.map_or_else(|| epoch.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// Seconds of some work.
fn seconds(work: impl FnOnce()) -> f64 {
    let epoch = Instant::now();
    // The kernel brings the account up to date when the thread leaves the processor.
    std::thread::yield_now();
    let started = now(epoch);
    work();
    std::thread::yield_now();
    (now(epoch) - started).max(1e-9)
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Adds a value's texts that were not seen before. Long ones without a blank are data of pictures, which nobody counts.
fn texts(value: Value, seen: &mut HashSet<String>, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let is_data = text.len() > 256 && !text.contains([' ', '\n']);
            if text.len() >= 16 && !is_data && seen.insert(text.clone()) {
                found.push(text);
            }
        }
        Value::Array(items) => items.into_iter().for_each(|item| texts(item, seen, found)),
        Value::Object(fields) => fields.into_iter().for_each(|(_, field)| texts(field, seen, found)),
        _ => {}
    }
}

fn traffic() -> Vec<String> {
    let folder = env::var_os("PALIMPSEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts"), PathBuf::from);
    let mut paths = Vec::new();
    files(&folder, &mut paths);
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for path in paths {
        let Ok(bytes) = fs::read(&path) else { continue };
        let mut text = String::new();
        let read = if path.extension().is_some_and(|end| end == "gz") {
            GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)
        } else {
            bytes.as_slice().read_to_string(&mut text)
        };
        if read.is_err() {
            continue;
        }
        match serde_json::from_str(&text) {
            Ok(value) => texts(value, &mut seen, &mut found),
            Err(_) => text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .for_each(|value| texts(value, &mut seen, &mut found)),
        }
        if found.iter().map(String::len).sum::<usize>() > TRAFFIC_BYTES_MAX {
            break;
        }
    }
    found
}

fn row(name: &str, unit: &str, ours: f64, peer: Option<f64>, goal: String, met: impl Into<Option<bool>>) {
    // A ratio above one means that ours is faster; `ns/byte` is better when smaller.
    let ratio = peer.map(|peer| if unit == "ns/byte" { peer / ours } else { ours / peer });
    let row = serde_json::json!({
        "name": name, "unit": unit, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met.into(),
    });
    println!("{row}");
}

/// Makes a text of about so many bytes.
type Maker = Box<dyn Fn(usize) -> String>;

/// Texts that are slow, or fatal, to count without care, each made to a length.
fn hostile() -> Vec<(&'static str, Maker)> {
    fn repeat(unit: &'static str) -> Maker {
        Box::new(move |bytes| unit.repeat(bytes / unit.len()))
    }
    fn random(set: &'static [u8]) -> Maker {
        Box::new(move |bytes| {
            let mut state = 20_260_801u64;
            let next = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(set[(state >> 33) as usize % set.len()])
            };
            (0..bytes).map(next).collect()
        })
    }
    vec![
        ("one letter", repeat("A")),
        ("blanks", repeat(" ")),
        ("newlines", repeat("\n")),
        ("underscores", repeat("_")),
        ("a digit", repeat("7")),
        ("a Chinese character", repeat("汉")),
        ("Chinese text", repeat("请先运行测试，然后告诉我哪些文件需要修改。如果构建失败，请贴出完整的错误信息。")),
        ("Chinese without a stop", repeat("请先运行测试然后告诉我哪些文件需要修改如果构建失败请贴出完整的错误信息")),
        ("joined emoji", repeat("👩‍👩‍👧‍👦🏳️‍🌈👍🏽")),
        ("letters with loose accents", repeat("a\u{301}e\u{308}")),
        ("control characters", repeat("\u{0}\u{1}\u{7}")),
        ("random letters", random(b"abcdefghijklmnopqrstuvwxyz")),
        ("base64", random(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")),
        ("random signs", random(b"!#$%&()*+,-.:;<=>?@[]^_{|}~")),
        ("blanks and newlines", random(b" \t\n\r")),
    ]
}

fn main() {
    let texts = traffic();
    let bytes: usize = texts.iter().map(String::len).sum();
    eprintln!("{} texts, {bytes} bytes", texts.len());
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    let count = |counter: Counter| texts.iter().map(|text| u64::from(counter.count(text))).sum::<u64>();
    for (model, peer) in
        [("gpt-4o", tiktoken_rs::o200k_base_singleton()), ("gpt-4", tiktoken_rs::cl100k_base_singleton())]
    {
        let counter = Counter::for_model(model);
        let encoding = counter.encoding();
        let load = seconds(|| _ = black_box(counter.count("the first word")));
        row(&format!("{encoding}, load the vocabulary"), "ms", load * 1e3, None, "<= 200 ms".into(), load <= 0.2);
        // Both build parts of their splitters when they are first needed.
        let warm: String = hostile().iter().map(|(_, make)| make(1 << 10)).collect();
        black_box((counter.count(&warm), peer.count_ordinary(&warm)));
        let (mut ours, mut theirs) = (0, 0);
        let first = seconds(|| ours = count(counter));
        let peer = seconds(|| theirs = texts.iter().map(|text| peer.count_ordinary(text) as u64).sum());
        assert_eq!(ours, theirs, "both count the same traffic alike");
        let goal = format!(">= {GOAL_MB_S} MB/s");
        row(
            &format!("{encoding}, unseen traffic"),
            "MB/s",
            rate(first),
            Some(rate(peer)),
            goal,
            rate(first) >= GOAL_MB_S,
        );
        let recent = texts.get(texts.len().saturating_sub(CONVERSATION_TEXTS)..).unwrap_or_default();
        let recent_bytes: usize = recent.iter().map(String::len).sum();
        let again = seconds(|| recent.iter().for_each(|text| _ = black_box(counter.count(text))));
        let again = recent_bytes as f64 / 1e6 / again;
        let goal = format!(">= {GOAL_REPEAT} x unseen");
        row(&format!("{encoding}, the same again"), "MB/s", again, None, goal, again >= GOAL_REPEAT * rate(first));
    }
    let estimate = seconds(|| _ = black_box(count(Counter::estimating())));
    row("estimate by byte classes", "MB/s", rate(estimate), None, "none stated".into(), None);

    let counter = Counter::for_model("gpt-4o");
    for (name, make) in hostile() {
        let (short, long) = (make(MIB), make(4 * MIB));
        let ours = |text: &str| seconds(|| _ = black_box(counter.count(text))) * 1e9 / text.len() as f64;
        let (at_one, at_four) = (ours(&short), ours(&long));
        // The peer overflows its stack on a million blanks, so it is asked about a shorter text of the same kind.
        let peer_text = make(MIB / 4);
        let peer = seconds(|| _ = black_box(tiktoken_rs::o200k_base_singleton().count_ordinary(&peer_text)));
        let peer = peer * 1e9 / peer_text.len() as f64;
        // What is faster than ten nanoseconds a byte is not slow, whatever the quotient of two such figures.
        let met = at_four <= (at_one * GOAL_GROWTH).max(10.0);
        let goal = format!("<= {GOAL_GROWTH} x {at_one:.1}");
        row(&format!("4 MiB of {name}"), "ns/byte", at_four, Some(peer), goal, met);
    }
}
