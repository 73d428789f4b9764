//! The store from outside: what goes in comes out, whatever happens between.

mod alignment;
mod browse;
mod compaction;
mod export;
mod faults;
mod recall;
mod sharing;

use crate::{Commit, Item, NewNode, NewSession, Reader, Store};
use engine_api::json::{self, Value, json};
use engine_api::{Dialect, Flags, Message, MessageId, NodeId, Part, PartKind, Role, SummaryKind};
use std::path::Path;
use std::sync::Arc;

/// Reads the plainest form of Chat Completions.
pub(crate) struct Plain;

impl Reader for Plain {
    fn message(&self, _dialect: Dialect, raw: &str) -> Option<Message> {
        let value: Value = json::from_str(raw).ok()?;
        let role = match value.get("role").and_then(Value::as_str) {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("tool") => Role::Tool,
            Some("system") => Role::System,
            _ => Role::Other,
        };
        let mut parts = Vec::new();
        if let Some(text) = value.get("content").and_then(Value::as_str) {
            parts.push(Part::new(if role == Role::Tool { PartKind::ToolResult } else { PartKind::Text }, text));
        }
        for call in value.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let function = call.get("function")?;
            parts.push(Part::call("c", function.get("name")?.as_str()?, function.get("arguments")?.as_str()?));
        }
        let mut message = Message::new(role, raw, parts);
        if role == Role::User {
            message.flags = Flags::REAL_USER;
        }
        Some(message)
    }
    fn identity(&self, raw: &str) -> u64 {
        let hash = crate::bodies::hash(raw.as_bytes());
        u64::from_le_bytes(hash[..8].try_into().unwrap())
    }
}

pub(crate) fn open(path: &Path) -> Store {
    Store::open(path, Arc::new(Plain)).unwrap()
}

pub(crate) fn said(role: &str, text: &str) -> Message {
    Plain.message(Dialect::OpenAiChat, &json!({ "role": role, "content": text }).to_string()).unwrap()
}

/// Makes a session of `count` messages, user and assistant in turn, and returns its key and their ids.
pub(crate) fn session(store: &Store, name: &str, count: usize) -> (i64, Vec<MessageId>) {
    let key = store.create_session(NewSession { name: name.into(), ..NewSession::default() }).unwrap().key;
    let messages: Vec<Message> = (0..count)
        .map(|at| said(if at % 2 == 0 { "user" } else { "assistant" }, &format!("{name} says number {at}")))
        .collect();
    let ids = store.append(key, messages.iter().map(|message| (message, None))).unwrap();
    (key, ids)
}

/// Returns what the model sees now.
pub(crate) fn view(store: &Store, key: i64) -> Vec<String> {
    store.load(key, usize::MAX).unwrap().messages.into_iter().map(|row| row.raw).collect()
}

/// Makes the compaction that puts one summary in place of all but the last `keep` messages of the view.
pub(crate) fn summarise(store: &Store, key: i64, keep: usize) -> Commit {
    let loaded = store.load(key, 0).unwrap();
    let cut = loaded.messages.len().saturating_sub(keep);
    let (old, tail) = loaded.messages.split_at(cut);
    let id = loaded.next_node;
    let node = NewNode {
        id,
        depth: 0,
        kind: SummaryKind::Leaf,
        text: format!("summary {} of {} messages", id.0, old.len()),
        messages: old.iter().filter(|row| row.node == NodeId(0)).map(|row| row.id).collect(),
        nodes: old.iter().filter(|row| row.node != NodeId(0)).map(|row| row.node).collect(),
        tokens: 5,
        source_tokens: 50,
        model: "offline".into(),
    };
    let written = Item::Written {
        raw: json!({ "role": "user", "content": node.text }).to_string(),
        role: Role::User,
        flags: Flags::SYNTHETIC.with(Flags::SUMMARY),
        node: id,
        stands_for: None,
        demoted: Vec::new(),
    };
    let items = std::iter::once(written).chain(tail.iter().map(|row| Item::Kept(row.id))).collect();
    Commit {
        branch: loaded.branch,
        view: loaded.view,
        upto: loaded.upto,
        items,
        nodes: vec![node],
        receipt: "{}".into(),
        ..Commit::default()
    }
}

/// Compacts so, under a lease.
pub(crate) fn compact(store: &Store, key: i64, keep: usize) -> crate::Committed {
    let lease = store.lease(key, "a test").unwrap();
    store.commit(&lease, summarise(store, key, keep)).unwrap()
}

pub(crate) fn assert_sound(store: &Store) {
    let found = store.verify(None, true).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}
