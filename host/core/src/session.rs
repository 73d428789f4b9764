//! A conversation with its history: every message ever, what the model sees of it, and the summaries between.

use engine_api::{Dialect, Flags, Message, MessageId, NodeId, Role, SummaryKind};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// A summary and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its id in the session.
    pub id: NodeId,
    /// 0 for a summary of messages, more for a summary of summaries.
    pub depth: u32,
    /// What it is.
    pub kind: SummaryKind,
    /// The summary as the engine wrote it.
    pub text: String,
    /// The messages it stands for directly, oldest first.
    pub messages: Vec<MessageId>,
    /// The summaries it stands for directly, oldest first.
    pub nodes: Vec<NodeId>,
}

/// A conversation in memory.
///
/// `transcript` only ever grows; a compaction changes `view` and adds `nodes`.
#[derive(Debug, Clone)]
pub struct Session {
    /// The session's id.
    pub id: String,
    /// The wire dialect of its messages.
    pub dialect: Dialect,
    /// Every message that was ever said, oldest first, and what the host wrote between.
    pub transcript: Vec<Arc<Message>>,
    /// What the model sees, oldest first.
    pub view: Vec<Arc<Message>>,
    /// The summaries made so far.
    pub nodes: Vec<Node>,
    /// Tokens of the request that are no messages: system text and tools beside the message list.
    pub overhead_tokens: u64,
    /// Counts the states of the view.
    pub revision: u64,
    /// User messages quoted by an earlier compaction whose originals this session does not have.
    pub carried_words: Option<String>,
    /// Files whose text is in every compacted context.
    pub rules: Vec<crate::rules::RulesFile>,
    /// Whether the model can call the host's own recall tool.
    pub recall_tool: bool,
    /// The message that each rewritten one was made from.
    pub originals: HashMap<MessageId, MessageId>,
    next_id: u64,
    next_node: u64,
}

impl Session {
    /// Opens a session over these messages, which get ids from 1 on in their order.
    pub fn new(id: impl Into<String>, dialect: Dialect, messages: Vec<Message>, overhead_tokens: u64) -> Self {
        let mut session = Session {
            id: id.into(),
            dialect,
            transcript: Vec::with_capacity(messages.len()),
            view: Vec::with_capacity(messages.len()),
            nodes: Vec::new(),
            overhead_tokens,
            revision: 1,
            carried_words: None,
            rules: Vec::new(),
            recall_tool: false,
            originals: HashMap::new(),
            next_id: 1,
            next_node: 1,
        };
        for message in messages {
            session.append(message);
        }
        session.pin_rules();
        session
    }

    /// Opens a session as a store has it: these messages with their ids are the view, `out_of_sight` (older, with their
    /// ids) is what else of the transcript is at hand, and further summaries are numbered from `next_node` on.
    pub fn resume(
        id: impl Into<String>,
        dialect: Dialect,
        view: Vec<Message>,
        out_of_sight: Vec<Message>,
        nodes: Vec<Node>,
        next_node: NodeId,
    ) -> Self {
        let mut session = Session::new(id, dialect, Vec::new(), 0);
        session.nodes = nodes;
        session.next_node = next_node.0.max(1);
        session.transcript.extend(out_of_sight.into_iter().map(Arc::new));
        for message in view {
            let (id, node) = (message.id, message.node);
            if node != NodeId(0) && session.node(node).is_some() {
                session.next_id = session.next_id.max(id.0.saturating_add(1));
                let message = Arc::new(message);
                session.transcript.push(Arc::clone(&message));
                session.view.push(message);
            } else {
                session.append_as(id, message);
            }
        }
        session.pin_rules();
        session
    }

    /// Returns the id that the next message gets.
    pub fn next_id(&self) -> MessageId {
        MessageId(self.next_id)
    }

    /// Adds a message at the end of the transcript and of the view, with the next id.
    pub fn append(&mut self, message: Message) {
        self.append_as(MessageId(self.next_id), message);
    }

    /// Adds a message at the end of the transcript and of the view, with the id that a store gave it.
    pub fn append_as(&mut self, id: MessageId, mut message: Message) {
        message.id = id;
        self.next_id = self.next_id.max(id.0.saturating_add(1));
        if message.flags.has(Flags::SYNTHETIC) || crate::frame::is_words_text(&message.text()) {
            // Words that an earlier run quoted: their originals are not here, so the quotes are carried on.
            if let Some(words) = crate::frame::words_within(&message.text()) {
                self.carried_words = Some(words);
            }
        }
        if crate::frame::is_summary_text(&message.text()) && message.node == NodeId(0) {
            // A summary from an earlier run of the host: what it stood for is not here, but it is a summary all the same.
            let node = NodeId(self.next_node);
            self.next_node += 1;
            message.node = node;
            message.flags = message.flags.with(Flags::SUMMARY).with(Flags::SYNTHETIC).without(Flags::REAL_USER);
            self.nodes.push(Node {
                id: node,
                depth: 0,
                kind: SummaryKind::Leaf,
                text: message.text(),
                messages: Vec::new(),
                nodes: Vec::new(),
            });
        }
        let message = Arc::new(message);
        self.transcript.push(Arc::clone(&message));
        // Instructions come before the summaries that a new session took over from the one before it.
        let is_instruction = matches!(message.role, Role::System | Role::Developer);
        let is_taken_over = |earlier: &Arc<Message>| {
            earlier.flags.has(Flags::SYNTHETIC) || matches!(earlier.role, Role::System | Role::Developer)
        };
        if is_instruction && self.view.iter().all(is_taken_over) {
            let head = self.view.iter().take_while(|earlier| !earlier.flags.has(Flags::SYNTHETIC)).count();
            self.view.insert(head, message);
        } else {
            self.view.push(message);
        }
        self.revision += 1;
    }

    /// Pins the newest message that carries the project's rules, so that no engine can summarise them away.
    fn pin_rules(&mut self) {
        if let Some(rules) = self.view.iter().rev().find(|message| crate::words::is_rules(message)) {
            self.pin(rules.id);
        }
    }

    /// Pins a message of the view: every plan must keep it. Returns whether the view has it.
    pub fn pin(&mut self, id: MessageId) -> bool {
        let Some(slot) = self.view.iter_mut().find(|message| message.id == id) else { return false };
        let mut pinned = Message::clone(slot);
        pinned.flags = pinned.flags.with(Flags::PINNED);
        let pinned = Arc::new(pinned);
        if let Some(row) = self.transcript.iter_mut().find(|message| message.id == id) {
            *row = Arc::clone(&pinned);
        }
        *slot = pinned;
        true
    }

    /// Returns the message that holds the whole of what a message of the view was made from.
    pub fn original(&self, id: MessageId) -> MessageId {
        self.originals.get(&id).copied().unwrap_or(id)
    }

    /// Returns the tokens of the next request: the view and the overhead.
    pub fn tokens(&self) -> u64 {
        self.overhead_tokens + self.view.iter().map(|message| u64::from(message.tokens)).sum::<u64>()
    }

    /// Counts every message anew, for a model with another vocabulary.
    pub fn recount(&mut self, measure: &dyn Fn(&mut Message), overhead_tokens: u64) {
        let mut counted: HashMap<MessageId, Arc<Message>> = HashMap::with_capacity(self.transcript.len());
        for slot in &mut self.transcript {
            measure(Arc::make_mut(slot));
            counted.insert(slot.id, Arc::clone(slot));
        }
        for slot in &mut self.view {
            match counted.get(&slot.id) {
                Some(message) => *slot = Arc::clone(message),
                None => measure(Arc::make_mut(slot)),
            }
        }
        self.overhead_tokens = overhead_tokens;
        self.revision += 1;
    }

    /// Returns a summary node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns the messages that a node stands for, directly or through other nodes, oldest first.
    pub fn covered(&self, id: NodeId) -> Vec<MessageId> {
        let by_id: HashMap<NodeId, &Node> = self.nodes.iter().map(|node| (node.id, node)).collect();
        let mut open = vec![id];
        let mut seen = std::collections::HashSet::new();
        let mut found = Vec::new();
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            if let Some(node) = by_id.get(&node) {
                found.extend_from_slice(&node.messages);
                open.extend_from_slice(&node.nodes);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Reserves an id for a summary node.
    pub(crate) fn first_free_node(&self) -> u64 {
        self.next_node
    }

    /// Makes a judged context the view: the only way a compaction changes a session. What was written gets the next ids.
    pub fn commit(&mut self, context: crate::validate::Context) {
        self.commit_as(context, &[]);
    }

    /// Makes a judged context the view; what was written gets these ids, in its order, and then the next ones.
    pub fn commit_as(&mut self, context: crate::validate::Context, ids: &[MessageId]) {
        let mut ids = ids.iter();
        let (entries, nodes) = context.into_parts();
        self.next_node = nodes.iter().map(|node| node.id.0 + 1).max().unwrap_or(0).max(self.next_node);
        self.nodes.extend(nodes);
        let mut view = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.origin.is_kept() {
                view.push(entry.message);
                continue;
            }
            let mut message = Message::clone(&entry.message);
            message.id = ids.next().copied().unwrap_or(MessageId(self.next_id));
            self.next_id = self.next_id.max(message.id.0.saturating_add(1));
            if let Some(came_from) = entry.origin.source().and_then(|at| self.view.get(at)) {
                let original = self.original(came_from.id);
                self.originals.insert(message.id, original);
            }
            let message = Arc::new(message);
            self.transcript.push(Arc::clone(&message));
            view.push(message);
        }
        self.view = view;
        self.revision += 1;
    }
}
