//! Runs over stored conversations outside the repository; set PALIMPSEST_DATA to the folder that holds `openai-chat`,
//! `anthropic-messages` and the judge `check_pairs.py`. Without it the test says so and passes.

// Helpers of tests may unwrap and print, as the tests themselves do.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use engine_api::{Dialect, Part, PartKind};
use host_wire::{Document, PartEdit, convert, edit_message};

fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("PALIMPSEST_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: PALIMPSEST_DATA is not set, so no stored conversation was read");
    }
    folder
}

/// Texts of one file: itself, its lines, or the lists that an evaluation record nests.
fn texts(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    if path.to_string_lossy().contains("codex-rollout") {
        return vec![rollout_input(&text)];
    }
    if path.to_string_lossy().contains(".jsonl") {
        return text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    }
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    match value.pointer("/answer_generation/train_messages").and_then(|lists| lists.as_array()) {
        Some(lists) => lists.iter().map(ToString::to_string).collect(),
        None => vec![text],
    }
}

/// Makes a request body of the items that a Codex session file says were sent; other lines are left out.
fn rollout_input(text: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        r#type: &'a str,
        #[serde(borrow)]
        payload: &'a serde_json::value::RawValue,
    }
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line<'_>>(line).ok());
    let items: Vec<&str> = lines.filter(|line| line.r#type == "response_item").map(|line| line.payload.get()).collect();
    format!("{{\"input\": [{}]}}", items.join(" ,\n"))
}

fn files(data: &Path, folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(data.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Asks the judge: what it finds, by code. What is only a warning in one dialect can be an error in another.
fn findings(data: &Path, dialect: Dialect, text: &str, with_warnings: bool) -> BTreeMap<String, u64> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("judged-{dialect}.json"));
    std::fs::write(&file, text).unwrap();
    let output = Command::new("python3")
        .arg(data.join("check_pairs.py"))
        .args(["--json", "--format", dialect.as_str()])
        .arg(&file)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut errors = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap() {
        if with_warnings || finding["severity"] == "error" {
            *errors.entry(finding["code"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    errors
}

fn write(document: &Document) -> String {
    document.write(document.messages.iter().map(|message| &*message.raw))
}

#[test]
fn stored_conversations_survive_reading_and_converting() {
    let Some(data) = data() else { return };
    let folders = [
        ("openai-chat", Dialect::OpenAiChat),
        ("anthropic-messages", Dialect::Anthropic),
        ("codex-rollout", Dialect::Responses),
    ];
    let (mut count, mut failures) = (0, Vec::new());
    for (folder, dialect) in folders {
        for path in files(&data, folder) {
            for text in texts(&path) {
                count += 1;
                let name = path.file_name().unwrap().to_string_lossy();
                let document = Document::read(&text, Some(dialect)).unwrap();
                // Where there is nothing but text, both dialects read the same.
                let is_plain = document.messages.iter().flat_map(|m| &m.parts).all(|p| p.kind == PartKind::Text);
                let recognised = Document::read(&text, None).unwrap().dialect();
                assert!(is_plain || recognised == dialect, "{name} was taken for {recognised}");
                assert!(write(&document) == text, "{name} changed");
                let mut before = findings(&data, dialect, &text, true);
                // The judge does not look for the answer to a legacy call at the very end.
                let is_legacy = |part: &Part| part.kind == PartKind::ToolCall && part.call_id.is_empty();
                if document.messages.last().is_some_and(|message| message.parts.iter().any(is_legacy)) {
                    *before.entry("missing_result".to_owned()).or_default() += 1;
                }
                for to in [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses] {
                    let converted = convert(&document, to);
                    let after = findings(&data, to, &write(&converted.document), false);
                    eprintln!("{name} -> {to}: {after:?} {:?}", converted.notes);
                    let more = after.iter().any(|(code, errors)| before.get(code).is_none_or(|old| errors > old));
                    if more {
                        failures.push(format!("{name} -> {to}: {before:?} became {after:?}"));
                    }
                }
            }
        }
    }
    assert!(count > 0 && failures.is_empty(), "{count} conversations, {}", failures.join("\n"));
}

#[test]
fn every_part_of_stored_messages_can_be_removed_or_edited() {
    let Some(data) = data() else { return };
    for folder in FOLDERS {
        for text in files(&data, folder).iter().flat_map(|path| texts(path)) {
            let document = Document::read(&text, None).unwrap();
            for message in &document.messages {
                for at in 0..message.parts.len() {
                    let removed = edit_message(document.dialect(), &message.raw, &[(at, PartEdit::Remove)]).unwrap();
                    let Some(removed) = removed else { continue };
                    let after = host_wire::parse_message(document.dialect(), &removed).unwrap();
                    assert_eq!(after.parts.len() + 1, message.parts.len(), "{}", message.raw);
                }
            }
        }
    }
}

const FOLDERS: [&str; 3] = ["openai-chat", "anthropic-messages", "codex-rollout"];

/// Rounds of the measurement.
const ROUNDS: usize = 15;

/// Prints megabytes a second; in release: `cargo test --release -p host-wire --test real_data -- --nocapture speed`.
#[test]
fn speed_of_reading_is_reported() {
    let Some(data) = data() else { return };
    for folder in FOLDERS {
        let texts: Vec<String> = files(&data, folder).iter().flat_map(|path| texts(path)).collect();
        let bytes: usize = texts.iter().map(String::len).sum();
        // The best of several rounds: other work on the machine only ever makes a round slower.
        let (mut read, mut wrote) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let documents: Vec<Document> = texts.iter().map(|text| Document::read(text, None).unwrap()).collect();
            read = read.min(start.elapsed());
            let start = Instant::now();
            let written: usize = documents.iter().map(|document| write(document).len()).sum();
            wrote = wrote.min(start.elapsed());
            assert_eq!(written, bytes);
        }
        let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
        eprintln!(
            "{folder}: {bytes} bytes, read {:.0} MB/s, write {:.0} MB/s",
            rate(read.as_secs_f64()),
            rate(wrote.as_secs_f64())
        );
    }
}
