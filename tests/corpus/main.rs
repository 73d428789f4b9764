//! Every transcript, at every window, with every engine: it imports, it compacts, and the judge finds nothing new.
//!
//! Runs over the copies in the repository, or over the folder that `PALIMPSEST_DATA` names; then the Python judge beside
//! the data, where there is one, has its say as well.
#![allow(clippy::print_stdout)]

use engine_api::{ContextEngine, Dialect as Wire, json::json};
use host_config::Config;
use host_core::receipt::What;
use host_import::{Options as ImportOptions, import_path};
use host_registry::{Resolved, Source};
use host_runtime::{LiveSession, Options};
use host_wire::Document;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use support::corpus;
use support::judge::{self, Dialect};

const WINDOWS: [u64; 3] = [32_000, 200_000, 1_000_000];

/// Parts of the names of files without a message: questions about a chat, and notices of a program's interface.
const HOLD_NO_MESSAGE: [&str; 5] =
    ["-questions", "gm-fixture-system-messages", "lic-answers", "lic-judgments", "_meta."];

fn engines() -> Vec<Resolved> {
    let make = |name: &str, engine: Arc<dyn ContextEngine>| Resolved {
        name: name.to_owned(),
        source: Source::Linked,
        engine,
        fallback: None,
    };
    vec![
        make("compressor", host_registry::built_in(&json!({})).expect("the built-in is always made").into()),
        make("lcm", Arc::new(engine_lcm::new(&json!({})).expect("lcm is made from no settings"))),
    ]
}

fn judged(dialect: Wire) -> Dialect {
    match dialect {
        Wire::Anthropic => Dialect::Anthropic,
        Wire::Responses => Dialect::Responses,
        _ => Dialect::OpenAi,
    }
}

fn codes(raws: &[String], dialect: Wire) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for finding in judge::errors(raws, judged(dialect)) {
        *counts.entry(finding.code.to_string()).or_default() += 1;
    }
    counts
}

#[derive(Default)]
struct Tally {
    files: usize,
    conversations: usize,
    runs: usize,
    compacted: usize,
    over_target: usize,
    fallbacks: usize,
    failures: Vec<String>,
}

#[test]
fn every_transcript_imports_and_compacts() {
    let home = tempfile::tempdir().expect("a folder for the test");
    let mut tally = Tally::default();
    let outputs = std::env::var_os("PALIMPSEST_OUTPUTS").map(std::path::PathBuf::from);
    for case in corpus::cases().expect("the folder of transcripts can be listed") {
        tally.files += 1;
        let imported = match import_path(&case.path, &ImportOptions::default(), &mut |_| {}) {
            Ok(imported) => imported,
            Err(error) => {
                // A cut single document may hold no whole record, and some files hold none: then that is said.
                let name = case.name();
                if case.format_folder != "broken" && !HOLD_NO_MESSAGE.iter().any(|part| name.contains(part)) {
                    tally.failures.push(format!("{}: {error}", case.name()));
                }
                continue;
            }
        };
        // Some files hold a thousand conversations; the first ones stand for them.
        for (nth, conversation) in imported.conversations.iter().take(3).enumerate() {
            tally.conversations += 1;
            for window in WINDOWS {
                for engine in engines() {
                    let name = format!("{}#{nth} {} {window}", case.name(), engine.name);
                    let run = one(&mut tally, &conversation.document, engine, window, home.path());
                    match run {
                        Ok(written) => save(outputs.as_deref(), &name, &conversation.document, &written),
                        Err(problem) => tally.failures.push(format!("{name}: {problem}")),
                    }
                }
            }
        }
    }
    println!(
        "{} files, {} conversations, {} runs: {} compacted, {} above their target for a stated reason, {} with a fallback",
        tally.files, tally.conversations, tally.runs, tally.compacted, tally.over_target, tally.fallbacks
    );
    assert!(tally.files > 50, "only {} transcripts were found", tally.files);
    assert!(tally.compacted * 2 > tally.runs, "only {} of {} runs compacted", tally.compacted, tally.runs);
    assert!(tally.failures.is_empty(), "{} failures:\n{}", tally.failures.len(), tally.failures.join("\n"));
}

/// Leaves input and output side by side, for a judge that is not part of this program.
fn save(folder: Option<&Path>, name: &str, input: &Document, written: &str) {
    let Some(folder) = folder else { return };
    let file: String =
        name.chars().map(|char| if char.is_alphanumeric() || char == '-' { char } else { '_' }).collect();
    let dialect = input.dialect();
    let raws = input.messages.iter().map(|message| message.raw.as_str());
    let path = |side: &str| folder.join(format!("{file}.{dialect}.{side}.json"));
    std::fs::write(path("input"), input.write(raws)).expect("the output folder can be written");
    std::fs::write(path("output"), written).expect("the output folder can be written");
}

fn one(tally: &mut Tally, document: &Document, engine: Resolved, window: u64, home: &Path) -> Result<String, String> {
    tally.runs += 1;
    let dialect = document.dialect();
    let input: Vec<String> = document.messages.iter().map(|message| message.raw.clone()).collect();
    let options = Options {
        context_length: Some(window),
        force: true,
        // A release build counts; a debug build of the tests would take minutes over it.
        estimate: cfg!(debug_assertions),
        ..Options::default()
    };
    let mut live = LiveSession::open_with(document.clone(), Config::default(), engine, home, options)
        .map_err(|error| error.to_string())?;
    let view = live.session().view.clone();
    let receipt = live.compact();
    let written = live.write().map_err(|error| error.to_string())?;
    let output: Vec<String> = Document::read(&written, Some(dialect))
        .map_err(|error| format!("the output cannot be read: {error}"))?
        .messages
        .into_iter()
        .map(|message| message.raw)
        .collect();
    if receipt.action == "unchanged" {
        if output != input {
            return Err("nothing was done, yet the messages changed".to_owned());
        }
        return Ok(written);
    }
    tally.compacted += 1;
    tally.fallbacks += usize::from(!receipt.fallbacks.is_empty());
    if receipt.tokens_after > receipt.target_tokens {
        tally.over_target += 1;
        if receipt.floor.is_none() {
            return Err(format!(
                "{} tokens are over {} and no floor is named",
                receipt.tokens_after, receipt.target_tokens
            ));
        }
    }
    let had = codes(&input, dialect);
    for (code, errors) in codes(&output, dialect) {
        if errors > had.get(&code).copied().unwrap_or(0) {
            return Err(format!("{errors} errors {code}, the input had {}", had.get(&code).copied().unwrap_or(0)));
        }
    }
    let mut there: HashMap<&str, usize> = HashMap::new();
    for raw in &output {
        *there.entry(raw).or_default() += 1;
    }
    let mut at = 0;
    for fate in &receipt.fates {
        while let Some(message) = view.get(at) {
            if fate.what == What::Kept && !message.flags.has(engine_api::Flags::SYNTHETIC) {
                let left = there.entry(message.raw.as_str()).or_default();
                if *left == 0 {
                    return Err(format!("message {} is called kept and is not in the output", message.id.0));
                }
                *left -= 1;
            }
            at += 1;
            if message.id == fate.last {
                break;
            }
        }
    }
    if at != view.len() {
        return Err(format!("the receipt speaks of {at} of {} messages", view.len()));
    }
    Ok(written)
}
