//! Codex rollout files. `response_item` lines are what the model is sent; `event_msg` lines repeat them for the interface.
//!
//! A `compacted` line replaces everything before it by its `replacement_history`; an old one, or one of another provider,
//! states a summary instead. A `thread_rolled_back` event takes back turns.

use crate::build::{Mark, parse};
use crate::input::Input;
use crate::json::{elements, number, pick, text};
use crate::lines::records;
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::{Dialect, Message};

/// The newest user messages that a compaction by a summary text keeps, in bytes: 20,000 tokens of about four bytes.
const KEPT_USER_BYTES: usize = 80_000;
/// Most rolled-back branches kept.
const BRANCHES_MAX: usize = 100;
/// All of them together may hold this many times the bytes of the main conversation.
const BRANCH_BYTES_FACTOR: usize = 4;

#[derive(Clone)]
struct Item {
    raw: String,
    line: u64,
    mark: Mark,
    kind: ItemKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    /// A person's message: where a turn begins.
    UserTurn,
    /// A user message the client wrote.
    InjectedUser,
    Other,
}

#[derive(Default)]
struct Rollout {
    items: Vec<Item>,
    branches: Vec<Vec<Item>>,
    branch_bytes: usize,
    id: String,
    model: Option<String>,
    instructions: Option<String>,
    prompt_tokens: Option<u64>,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let is_live = context.is_live();
    let mut rollout = Rollout::default();
    records(input, context.options.line_bytes_max, &mut context.problems, &mut |line, record, problems| {
        rollout.line(line, record, is_live, problems)
    })?;
    let mut members = Vec::new();
    if let Some(model) = rollout.model {
        members.push(("model".to_owned(), model));
    }
    if let Some(instructions) = rollout.instructions {
        members.push(("instructions".to_owned(), instructions));
    }
    let problems = &mut context.problems;
    let mut main = conversation(
        rollout.id.clone(),
        "",
        Kind::Main,
        Dialect::Responses,
        members.clone(),
        messages(rollout.items, problems),
    );
    main.reported_tokens = rollout.prompt_tokens;
    let mut all = vec![main];
    for (index, branch) in rollout.branches.into_iter().enumerate().rev() {
        let id = format!("{}/branch-{}", rollout.id, index + 1);
        let messages = messages(branch, problems);
        all.push(conversation(id, "", Kind::Branch, Dialect::Responses, members.clone(), messages));
    }
    Ok(all)
}

fn messages(items: Vec<Item>, problems: &mut Problems) -> Vec<Message> {
    let mut messages: Vec<Message> = items
        .into_iter()
        .filter_map(|item| parse(Dialect::Responses, &item.raw, item.mark, Some(item.line), problems))
        .collect();
    host_wire::number(&mut messages);
    messages
}

impl Rollout {
    fn line(
        &mut self,
        line: u64,
        record: &str,
        is_live: bool,
        problems: &mut Problems,
    ) -> Result<(), serde_json::Error> {
        let [kind, payload, role, record_type] = pick(record, ["type", "payload", "role", "record_type"])?;
        let kind = text(kind).unwrap_or_default();
        let Some(payload) = payload else {
            // The oldest files hold the items themselves, and their first line the session.
            if role.is_some() || kind.contains("_call") || kind == "reasoning" {
                self.item(line, record, problems);
            } else if record_type.is_none() && self.id.is_empty() {
                self.session(record);
            }
            return Ok(());
        };
        match kind.as_ref() {
            "session_meta" => self.session(payload),
            "response_item" => self.item(line, payload, problems),
            "turn_context" => {
                if let Ok([Some(model)]) = pick(payload, ["model"]) {
                    self.model = Some(model.to_owned());
                }
            }
            "compacted" => self.compacted(line, payload, is_live, problems),
            "event_msg" => self.event(payload),
            "" => problems.warn(Some(line), || "a record without a type; left out".to_owned()),
            _ => {}
        }
        Ok(())
    }

    // A resumed or forked thread repeats the session lines of those it came from; the first is its own.
    fn session(&mut self, payload: &str) {
        let Ok([id, base]) = pick(payload, ["id", "base_instructions"]) else { return };
        if self.id.is_empty() {
            self.id = text(id).unwrap_or_default().into_owned();
        }
        if self.instructions.is_none()
            && let Some(Ok([Some(instructions)])) = base.map(|base| pick(base, ["text"]))
        {
            self.instructions = Some(instructions.to_owned());
        }
    }

    fn item(&mut self, line: u64, payload: &str, problems: &mut Problems) {
        let Ok([kind, role, content]) = pick(payload, ["type", "role", "content"]) else {
            problems.lost(Some(line), || "a response item that is no object; left out".to_owned());
            return;
        };
        let kind = text(kind).unwrap_or_default();
        // Neither is sent: snapshots are the client's own, and counts belong to the interface.
        if kind.is_empty() && role.is_none() || matches!(kind.as_ref(), "ghost_snapshot" | "token_count") {
            return;
        }
        let kind = match text(role).as_deref() {
            Some("user") if is_injected(content) => ItemKind::InjectedUser,
            Some("user") => ItemKind::UserTurn,
            _ => ItemKind::Other,
        };
        self.items.push(Item { raw: payload.to_owned(), line, mark: Mark::AsRead, kind });
    }

    fn compacted(&mut self, line: u64, payload: &str, is_live: bool, problems: &mut Problems) {
        if !is_live {
            return;
        }
        let Ok([message, replacement]) = pick(payload, ["message", "replacement_history"]) else {
            problems.lost(Some(line), || "a compaction that cannot be read; the history before it stays".to_owned());
            return;
        };
        if let Some(replacement) = replacement {
            let before = std::mem::take(&mut self.items);
            for item in elements(replacement) {
                self.item(line, item, problems);
            }
            if self.items.is_empty() {
                problems.warn(Some(line), || {
                    "a compaction whose replacement holds no item; the history before it stays".to_owned()
                });
                self.items = before;
            }
            return;
        }
        let summary = text(message).unwrap_or_default();
        if summary.is_empty() {
            problems.warn(Some(line), || {
                "a compaction without a replacement or a summary; the history before it stays".to_owned()
            });
            return;
        }
        // The client keeps the newest user messages, then its own injected ones come again, then the summary.
        let mut room = KEPT_USER_BYTES;
        let mut kept: Vec<Item> = Vec::new();
        for item in std::mem::take(&mut self.items).into_iter().rev() {
            if item.kind == ItemKind::UserTurn && item.mark != Mark::Summary {
                if item.raw.len() > room {
                    break;
                }
                room -= item.raw.len();
                kept.push(item);
            }
        }
        kept.reverse();
        let raw = host_wire::text_message(Dialect::Responses, engine_api::Role::User, &summary);
        kept.push(Item { raw, line, mark: Mark::Summary, kind: ItemKind::InjectedUser });
        self.items = kept;
    }

    fn event(&mut self, payload: &str) {
        let Ok([kind, info, turns]) = pick(payload, ["type", "info", "num_turns"]) else { return };
        match text(kind).as_deref() {
            Some("token_count") => {
                let last = info.and_then(|info| pick(info, ["last_token_usage"]).ok()).and_then(|[last]| last);
                let tokens =
                    last.and_then(|last| pick(last, ["input_tokens"]).ok()).and_then(|[tokens]| number(tokens));
                // A compaction zeroes the count; what was counted before it says nothing of what follows.
                if let Some(tokens) = tokens {
                    self.prompt_tokens = Some(tokens).filter(|tokens| *tokens > 0);
                }
            }
            Some("thread_rolled_back") => self.roll_back(number(turns).unwrap_or(0)),
            _ => {}
        }
    }

    fn roll_back(&mut self, turns: u64) {
        let mut left = turns;
        let mut cut = None;
        for (index, item) in self.items.iter().enumerate().rev() {
            if left == 0 {
                break;
            }
            if item.kind == ItemKind::UserTurn {
                left -= 1;
                cut = Some(index);
            }
        }
        let Some(cut) = cut else { return };
        if self.branches.len() < BRANCHES_MAX {
            let bytes: usize = self.items.iter().map(|item| item.raw.len()).sum();
            if self.branch_bytes <= bytes.saturating_mul(BRANCH_BYTES_FACTOR) {
                self.branch_bytes = self.branch_bytes.saturating_add(bytes);
                self.branches.push(self.items.clone());
            }
        }
        self.items.truncate(cut);
    }
}

// The client's own messages in the user's role begin with one of these.
fn is_injected(content: Option<&str>) -> bool {
    let Some(content) = content else { return false };
    let first = match elements(content).first() {
        Some(part) => pick(part, ["text"]).ok().and_then(|[text]| text).and_then(crate::json::string),
        None => crate::json::string(content),
    };
    let Some(first) = first else { return false };
    let first = first.trim_start();
    [
        "<environment_context>",
        "<user_instructions>",
        "# AGENTS.md instructions",
        "<turn_aborted>",
        "<skill>",
        "<INSTRUCTIONS>",
    ]
    .iter()
    .any(|start| first.starts_with(start))
}
