//! What a store holds, as far as a client can tell, and how these tests open stores and write messages.

use engine_api::{Dialect, Flags, Message, MessageId, NodeId, Role, SummaryKind};
use host_runtime::WireReader;
use host_store::{Commit, Item, NewNode, SessionFilter, SessionRow, Store, StoreError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use support::generate::{self, Shape};

/// What a session shows, as hashes of each message's bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// What the model would see next.
    pub(crate) view: Vec<u64>,
    /// Everything that was stored under the session, whatever became of it.
    pub(crate) said: Vec<u64>,
    pub(crate) parent: Option<String>,
    pub(crate) end_reason: String,
}

/// All sessions by name. One that continues another after a rotation is called as that one with `>` behind, for its own
/// name is drawn by lot.
pub(crate) type State = BTreeMap<String, Held>;

pub(crate) fn hash(raw: &str) -> u64 {
    let digest = Sha256::digest(raw.as_bytes());
    u64::from_le_bytes(digest[..8].try_into().unwrap())
}

pub(crate) fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(path, Arc::new(WireReader))
}

pub(crate) fn sessions(store: &Store) -> Vec<SessionRow> {
    let mut rows = store.sessions(&SessionFilter::default()).unwrap().0;
    rows.sort_by_key(|row| row.key);
    rows
}

/// Reads everything; each payload is proved by its hash on the way.
pub(crate) fn read(store: &Store) -> State {
    let rows = sessions(store);
    // Parents are made before their children.
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut state = State::new();
    for row in rows {
        let parent = row.parent.as_ref().map(|parent| names[parent].clone());
        let name = match &parent {
            Some(parent) if row.kinship == "rotation" => format!("{parent}>"),
            _ => row.name.clone(),
        };
        names.insert(row.name.clone(), name.clone());
        let view = store.load(row.key, 0).unwrap().messages.iter().map(|row| hash(&row.raw)).collect();
        let said = store.rows(row.key, MessageId(0), u64::MAX).unwrap().iter().map(|(row, _)| hash(&row.raw)).collect();
        let there = state.insert(name, Held { view, said, parent, end_reason: row.end_reason });
        assert!(there.is_none(), "session \"{}\" has two children by rotation", row.name);
    }
    state
}

/// Makes messages of all kinds, as clients send them.
pub(crate) fn messages(seed: u64, at_least: usize) -> Vec<String> {
    let shape = Shape { max_messages: at_least.max(4) * 2, size: 160, ..Shape::default() };
    (0..)
        .flat_map(|nth| generate::history(seed + nth, support::judge::Dialect::OpenAi, &shape))
        .take(at_least)
        .collect()
}

pub(crate) fn parsed(raws: &[String]) -> Vec<Message> {
    raws.iter().map(|raw| host_wire::parse_message(Dialect::OpenAiChat, raw).unwrap()).collect()
}

pub(crate) fn append(store: &Store, session: i64, raws: &[String]) -> Result<Vec<MessageId>, StoreError> {
    store.append(session, parsed(raws).iter().map(|message| (message, None)))
}

/// Makes the compaction that puts one summary in place of all but the newest `keep` messages of the view.
pub(crate) fn summarise(store: &Store, session: i64, keep: usize) -> (Commit, Vec<u64>) {
    let loaded = store.load(session, 0).unwrap();
    let (old, tail) = loaded.messages.split_at(loaded.messages.len().saturating_sub(keep));
    let id = loaded.next_node;
    // What an earlier compaction wrote is followed by the store to what it was made from.
    let node = NewNode {
        id,
        depth: 0,
        kind: SummaryKind::Leaf,
        text: format!("summary {} of {} messages", id.0, old.len()),
        messages: old.iter().filter(|row| row.node == NodeId(0)).map(|row| row.id).collect(),
        nodes: old.iter().filter(|row| row.node != NodeId(0)).map(|row| row.node).collect(),
        tokens: 5,
        source_tokens: 50,
        model: "offline".to_owned(),
    };
    let raw = engine_api::json::json!({ "role": "user", "content": node.text }).to_string();
    let view = std::iter::once(hash(&raw)).chain(tail.iter().map(|row| hash(&row.raw))).collect();
    let written = Item::Written {
        raw,
        role: Role::User,
        flags: Flags::SYNTHETIC.with(Flags::SUMMARY),
        node: id,
        stands_for: None,
        demoted: Vec::new(),
    };
    let commit = Commit {
        branch: loaded.branch,
        view: loaded.view,
        upto: loaded.upto,
        items: std::iter::once(written).chain(tail.iter().map(|row| Item::Kept(row.id))).collect(),
        nodes: vec![node],
        receipt: "{}".to_owned(),
        ..Commit::default()
    };
    (commit, view)
}
