//! The files of a data folder, if there is one: `PALIMPSEST_DATA` names it. Without it these tests say so and pass.

use super::options;
use crate::{Conversation, History, Imported, import_path};
use engine_api::{Message, Part, PartKind, Role};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("PALIMPSEST_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: set PALIMPSEST_DATA to a folder of session files to test them");
    }
    folder
}

/// Messages a file holds, by its path in the folder.
fn manifest(folder: &Path) -> HashMap<String, usize> {
    let text = std::fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        Some(((*fields.first()?).to_owned(), fields.get(5)?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .flat_map(|entry| std::fs::read_dir(entry.path()).unwrap().flatten().map(|file| file.path()))
        .collect();
    files.sort();
    files
}

fn load(path: &Path, history: History) -> Imported {
    import_path(path, &options(history), &mut |_| {}).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

// Its three lines are the interface's: nothing a model was ever sent.
const NO_MESSAGE: &str = "gemini-cli/gm-fixture-system-messages.json";

#[test]
fn every_file_of_the_folder_gives_a_conversation() {
    let Some(folder) = folder() else { return };
    let counts = manifest(&folder);
    let mut read = 0;
    for path in files(&folder) {
        let name = path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
        let expected = counts.get(&name).copied().unwrap_or(1);
        let is_cut = name.starts_with("broken/");
        for history in [History::Live, History::Full] {
            match import_path(&path, &options(history), &mut |_| {}) {
                Ok(imported) => {
                    assert!(!imported.conversations[0].document.messages.is_empty(), "{name}");
                    read += 1;
                }
                Err(error) => assert!(expected == 0 && !is_cut || name == NO_MESSAGE, "{name}: {error}"),
            }
        }
    }
    assert!(read > 100, "{read}");
}

#[test]
fn counts_are_those_of_the_manifest_where_both_count_messages() {
    let Some(folder) = folder() else { return };
    let counts = manifest(&folder);
    for path in files(&folder) {
        let name = path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
        let is_comparable =
            ["anthropic-messages", "codex-rollout", "langchain", "swe-agent-traj", "recall-", "openai-chat"]
                .iter()
                .any(|start| name.starts_with(start));
        // Counted otherwise there: items that are no items, and a summary that the full history leaves out.
        let is_other = ["cx-fixture", "an-cline-agentic"].iter().any(|part| name.contains(part));
        let expected = counts.get(&name).copied().unwrap_or(0);
        if !is_comparable || is_other || expected == 0 {
            continue;
        }
        let messages: usize = load(&path, History::Full).conversations.iter().map(|c| c.document.messages.len()).sum();
        assert_eq!(messages, expected, "{name}");
    }
}

/// Blocks of a conversation in order, without the call's `caller`, which the derived files left out.
fn blocks(conversation: &Conversation) -> Vec<(String, serde_json::Value)> {
    let mut all = Vec::new();
    for message in &conversation.document.messages {
        let value: serde_json::Value = serde_json::from_str(&message.raw).unwrap();
        let role = value["role"].as_str().unwrap().to_owned();
        match &value["content"] {
            serde_json::Value::Array(list) => all.extend(list.iter().map(|block| {
                let mut block = block.clone();
                block.as_object_mut().map(|members| members.remove("caller"));
                (role.clone(), block)
            })),
            text => all.push((role, serde_json::json!({"type": "text", "text": text}))),
        }
    }
    all
}

// The derived files were made in file order; what they hold beyond the way back from the leaf stands in a branch here.
#[test]
fn claude_code_files_give_the_blocks_of_the_bodies_derived_from_them() {
    let Some(folder) = folder() else { return };
    let pairs = [
        ("an-cc-105-user-turns-full.json.gz", "cc-105-user-turns.jsonl.gz", History::Full, 1),
        ("an-cc-1500-lines-after-compaction.json.gz", "cc-two-compactions-1500-lines.jsonl.gz", History::Live, 0),
        ("an-cc-1500-lines-full.json.gz", "cc-two-compactions-1500-lines.jsonl.gz", History::Full, 2),
        ("an-cc-2025-dangling.json", "cc-2025-dangling-three.jsonl.gz", History::Full, 0),
        ("an-cc-dangling-full.json.gz", "cc-dangling-two.jsonl.gz", History::Full, 0),
        ("an-cc-images-full.json.gz", "cc-images-compaction-b.jsonl.gz", History::Full, 0),
        ("an-cc-ja-small.json.gz", "cc-ja-small.jsonl.gz", History::Full, 0),
        ("an-cc-zh-small.json", "cc-zh-small.jsonl", History::Full, 0),
    ];
    for (derived, source, history, in_branches) in pairs {
        let name = derived;
        let derived = blocks(&load(&folder.join("anthropic-messages").join(derived), History::Live).conversations[0]);
        let source = load(&folder.join("claude-code").join(source), history);
        let mut main = blocks(&source.conversations[0]).into_iter().peekable();
        let elsewhere: Vec<_> =
            derived.into_iter().filter(|block| main.next_if(|own| own == block).is_none()).collect();
        assert_eq!((main.count(), elsewhere.len()), (0, in_branches), "{name}");
        let branches: Vec<_> = source.conversations.iter().skip(1).flat_map(blocks).collect();
        assert!(elsewhere.iter().all(|block| branches.contains(block)), "{name}");
    }
}

type Meant = (PartKind, String, serde_json::Value);

/// Role, text, calls with parsed arguments, and reasoning of every message.
fn meaning(conversation: &Conversation) -> Vec<(Role, Vec<Meant>)> {
    let part = |part: &Part| {
        let parsed = if part.kind == PartKind::ToolCall {
            serde_json::from_str(&part.text).unwrap()
        } else {
            part.text.as_str().into()
        };
        (part.kind, part.tool_name.clone(), parsed)
    };
    let message = |message: &Message| {
        let mut parts: Vec<_> = message.parts.iter().filter(|part| !part.text.is_empty()).map(part).collect();
        parts.sort_by_key(|(kind, ..)| kind.code());
        (message.role, parts)
    };
    conversation.document.messages.iter().map(message).collect()
}

#[test]
fn other_stores_give_the_messages_of_the_bodies_derived_from_them() {
    let Some(folder) = folder() else { return };
    let pairs = [
        ("oa-oc-gatomia-large.json.gz", "opencode-export/oc-v1.14-large.json.gz"),
        ("oa-oc-nimbus-child.json.gz", "opencode-export/oc-child-session.json.gz"),
        ("oa-miniswe-sqlfluff-1733.json.gz", "mini-swe-traj/mn-sqlfluff-1733-316msgs.traj.json.gz"),
        ("oa-miniswe-sqlfluff-1763-reasoning.json.gz", "hermes/he-cli-export-reasoning.jsonl.gz"),
        ("oa-miniswe-sqlfluff-1763-reasoning.json.gz", "langchain/lc-message-dicts-miniswe.json.gz"),
        ("oa-tau-airline-03-trial0.json", "hermes/he-cli-export-tau.jsonl.gz"),
        ("oa-tau-airline-33-trial0.json", "langchain/lc-state-tau-33.json"),
        ("oa-swesmith-pandas-53652.json.gz", "swe-agent-traj/sa-swesmith-pandas-53652.traj.gz"),
    ];
    for (derived, source) in pairs {
        let derived = meaning(&load(&folder.join("openai-chat").join(derived), History::Full).conversations[0]);
        let own = meaning(&load(&folder.join(source), History::Full).conversations[0]);
        let differs = derived.iter().zip(&own).position(|(a, b)| a != b);
        assert_eq!((differs, derived.len()), (None, own.len()), "{source}");
    }
}

/// Faults that stand in the files themselves, by the beginning of a path. Everything else would be this crate's.
const OWN_FAULTS: &[(&str, &[&str])] = &[
    ("anthropic-messages/an-cc-2025-dangling", &["missing_result"]),
    ("anthropic-messages/an-cc-dangling", &["missing_result", "thinking_last"]),
    ("anthropic-messages/an-cc-zh-small", &["unsigned_thinking"]),
    ("anthropic-messages/an-cline-success", &["unsigned_thinking"]),
    ("broken/cut-claude-code", &["missing_result"]),
    ("claude-code/cc-2025-askuser-dangling", &["missing_result"]),
    ("claude-code/cc-2025-dangling-three", &["missing_result"]),
    ("claude-code/cc-broken-lines", &["missing_result"]),
    ("claude-code/cc-dangling-two", &["missing_result", "thinking_last"]),
    (
        "claude-code/cc-fixture-edge-cases",
        &["missing_result", "orphan_result", "bad_part", "duplicate_id", "bad_block"],
    ),
    ("claude-code/cc-image-compaction", &["missing_result", "thinking_last"]),
    ("claude-code/cc-orphan-result", &["orphan_result", "thinking_last"]),
    ("claude-code/cc-sidechain-small", &["missing_result", "first_not_user"]),
    ("claude-code/cc-three-compactions", &["thinking_last"]),
    ("claude-code/cc-zh-small", &["unsigned_thinking"]),
    ("codex-rollout/cx-compacted-dangling", &["missing_result"]),
    ("codex-rollout/cx-dangling-call", &["missing_result"]),
    ("gemini-cli/gm-fixture-tool-calls", &["missing_result"]),
    // The last call of the run they were made from has no result.
    ("hermes/he-cli-export-lineage", &["missing_result"]),
    ("hermes/he-cli-export-reasoning", &["missing_result"]),
    ("hermes/he-cli-trace-reasoning", &["missing_result"]),
    ("hermes/he-traj-sqlfluff", &["missing_result"]),
    ("langchain/lc-message-dicts-miniswe", &["missing_result"]),
    ("mini-swe-traj/mn-", &["missing_result"]),
    ("openai-chat/oa-miniswe", &["missing_result"]),
    ("hermes/he-exporter-session", &["tool_without_id"]),
    ("openai-chat/oa-openhands-llmlog", &["empty_content"]),
    ("openhands-events/oh-sdk-goal-events", &["orphan_result"]),
    ("pi-session/pi-before-compaction", &["missing_result"]),
    ("pi-session/pi-parallel-tools", &["missing_result"]),
];

#[test]
fn no_conversation_has_a_fault_that_its_file_has_not() {
    let Some(folder) = folder() else { return };
    let out = std::env::temp_dir().join(format!("palimpsest-import-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let mut written = 0;
    for path in files(&folder) {
        let name = path.strip_prefix(&folder).unwrap().to_string_lossy().replace('/', "__");
        for history in [History::Live, History::Full] {
            let Ok(imported) = import_path(&path, &options(history), &mut |_| {}) else { continue };
            for (index, conversation) in imported.conversations.iter().enumerate() {
                let document = &conversation.document;
                let text = document.write(document.messages.iter().map(|message| message.raw.as_str()));
                std::fs::write(out.join(format!("{name}__{history:?}-{index}.json")), text).unwrap();
                written += 1;
            }
        }
    }
    let list: Vec<PathBuf> = std::fs::read_dir(&out).unwrap().flatten().map(|file| file.path()).collect();
    let judged =
        std::process::Command::new("python3").arg(folder.join("check_pairs.py")).arg("--json").args(&list).output();
    std::fs::remove_dir_all(&out).unwrap();
    let Ok(judged) = judged else {
        eprintln!("SKIPPED: python3 is needed to judge the conversations");
        return;
    };
    let mut seen = 0;
    let mut faults = Vec::new();
    for line in String::from_utf8_lossy(&judged.stdout).lines() {
        let Ok(report) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let Some(file) = report["file"].as_str().and_then(|file| Path::new(file).file_name()?.to_str()) else {
            continue;
        };
        seen += 1;
        let name = file.replacen("__", "/", 1);
        let allowed: Vec<&str> = OWN_FAULTS
            .iter()
            .filter(|(start, _)| name.starts_with(start))
            .flat_map(|(_, codes)| codes.to_vec())
            .collect();
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        let errors = findings
            .iter()
            .filter(|finding| finding["severity"] == "error")
            .filter_map(|finding| finding["code"].as_str());
        faults.extend(errors.filter(|code| !allowed.contains(code)).map(|code| format!("{name}: {code}")));
    }
    assert_eq!(seen, written, "{}", String::from_utf8_lossy(&judged.stderr));
    assert!(faults.is_empty(), "{faults:#?}");
}
