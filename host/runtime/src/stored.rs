//! A conversation that lives in a store: found by its id, added to before anything is done with it, compacted under a lease.

use crate::live::{LiveSession, Options, RuntimeError};
use crate::services::{State, lock};
use engine_api::{Dialect, Flags, Lifecycle, Message, MessageId, NodeId};
use host_config::Config;
use host_core::receipt::Receipt;
use host_core::validate::Context;
use host_core::{Node, Origin, Outcome, Session};
use host_registry::{Registry, Resolved};
use host_store::{Child, Commit, Item, Lease, Loaded, NewNode, NewSession, Reader, Row, Store, StoreError};
use host_tokens::Counter;
use host_wire::Document;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the user's earlier messages that are loaded to be quoted: several times what a quote may hold.
const WORDS_BYTES_MAX: usize = 256 * 1024;

/// Reads messages of the wire dialects for the store.
#[derive(Debug, Clone, Copy, Default)]
pub struct WireReader;

impl Reader for WireReader {
    fn message(&self, dialect: Dialect, raw: &str) -> Option<Message> {
        host_wire::parse_message(dialect, raw).ok()
    }
    fn identity(&self, raw: &str) -> u64 {
        xxh3_64(host_wire::identity(raw).as_bytes())
    }
    fn summaries(&self, message: &Message) -> Vec<u64> {
        if !message.flags.has(Flags::SYNTHETIC) {
            return Vec::new();
        }
        host_core::frame::summaries_within(&message.text())
    }
}

/// Where a session is in the store.
pub(crate) struct Stored {
    pub(crate) store: Store,
    pub(crate) key: i64,
    branch: i64,
    view: Option<i64>,
    upto: MessageId,
    /// Summaries from this number on are not in the store yet.
    next_node: NodeId,
    platform: String,
    pub(crate) compressions: u64,
}

/// What a stored session is opened with.
pub(crate) struct Opened {
    pub(crate) session: Session,
    pub(crate) document: Document,
    pub(crate) stored: Stored,
}

impl LiveSession {
    /// Opens a conversation that a store keeps, or makes it there: the document's messages are found in what is stored,
    /// what is new is added, and the live view goes on. A document without messages goes on with the stored ones.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] if the store fails; [`RuntimeError::Write`] if the document is of another dialect.
    pub fn open_stored(
        store: &Store,
        document: Document,
        config: Config,
        registry: &Registry,
        home: &Path,
        options: Options,
    ) -> Result<LiveSession, RuntimeError> {
        let wanted = options.engine.clone().unwrap_or_else(|| config.context.engine.clone());
        let settings = |name: &str| crate::live::settings_of(&config, name);
        let resolved = registry.resolve(&wanted, &settings).map_err(RuntimeError::BuiltIn)?;
        LiveSession::open_stored_with(store, document, config, resolved, home, options)
    }

    /// Opens a conversation that a store keeps, with an engine that was found already.
    ///
    /// # Errors
    /// As [`LiveSession::open_stored`].
    pub fn open_stored_with(
        store: &Store,
        document: Document,
        config: Config,
        resolved: Resolved,
        home: &Path,
        options: Options,
    ) -> Result<LiveSession, RuntimeError> {
        let key = find_or_make(store, &document, &options)?;
        if !document.messages.is_empty() {
            store.align(key, &document.messages.iter().collect::<Vec<_>>())?;
        }
        LiveSession::make(document, config, resolved, home, options, Some((store.clone(), key)))
    }

    /// Goes on with a stored conversation.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] if there is no such session or the store fails.
    pub fn resume(
        store: &Store,
        config: Config,
        registry: &Registry,
        home: &Path,
        options: Options,
    ) -> Result<LiveSession, RuntimeError> {
        let row = store.session(&options.session_id)?;
        let shell = store.load(row.key, 0)?.shell.unwrap_or_else(|| empty_body(row.dialect));
        let document = Document::read(&shell, Some(row.dialect)).map_err(|error| {
            RuntimeError::Write(format!("the request body of the session is not readable: {error}"))
        })?;
        LiveSession::open_stored(store, document, config, registry, home, options)
    }

    /// Returns the store that keeps the conversation.
    pub fn store(&self) -> Option<(&Store, i64)> {
        self.stored.as_ref().map(|stored| (&stored.store, stored.key))
    }

    /// Makes the view before the last compaction live again.
    ///
    /// # Errors
    /// [`RuntimeError::Store`]: there is nothing to go back to, the session is in no store, or the store fails.
    pub fn undo(&mut self) -> Result<(), RuntimeError> {
        let Some(stored) = &self.stored else {
            return Err(StoreError::NothingToUndo(self.options.session_id.clone()).into());
        };
        let _lease = stored.lease()?;
        stored.store.undo(stored.key)?;
        self.reload()
    }

    /// Begins a new conversation after this one, as a client's `/new` does: this one ends, and its summaries of at least
    /// `context.carry_over_depth` are seen in the new one, where they can be expanded. Nothing is lost.
    ///
    /// # Errors
    /// [`RuntimeError::Store`]: the id is taken, the session is in no store, or the store fails.
    pub fn begin_next(mut self, session_id: &str) -> Result<LiveSession, RuntimeError> {
        let Some((store, key)) = self.store().map(|(store, key)| (store.clone(), key)) else {
            return Err(StoreError::NoSession(self.options.session_id.clone()).into());
        };
        self.tell(Lifecycle::SessionEnd);
        let depth = self.config.context.carry_over_depth.map(|depth| u32::try_from(depth).unwrap_or(u32::MAX));
        let child = Child { name: session_id.to_owned(), title: None };
        let (row, carried) = store.begin_next(key, child, depth)?;
        let old = std::mem::replace(&mut self.options.session_id, session_id.to_owned());
        let document = Document::read(&self.document.write([]), Some(row.dialect))
            .map_err(|error| RuntimeError::Write(error.to_string()))?;
        let LiveSession { config, resolved, home, options, summariser, subscribers, .. } = self;
        let mut next = LiveSession::make(document, config, resolved, &home, options, Some((store, row.key)))?;
        (next.summariser, next.subscribers) = (summariser, subscribers);
        // An engine that retains something of its own is asked only where the host has carried nothing.
        if carried == 0 {
            next.carry_over(old);
        }
        Ok(next)
    }

    /// Reads the conversation as the store now has it: another process may have compacted it or gone on.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] if the store fails.
    pub fn reload(&mut self) -> Result<(), RuntimeError> {
        let Some(stored) = &self.stored else { return Ok(()) };
        let (store, key) = (stored.store.clone(), stored.key);
        let opened = open(&store, key, self.document.clone(), &self.counter, self.session.overhead_tokens)?;
        let (revision, rules) = (self.session.revision, std::mem::take(&mut self.session.rules));
        self.session = opened.session;
        self.session.rules = rules;
        // Plans made for the state before must not fit this one.
        self.session.revision = self.session.revision.max(revision.saturating_add(1));
        self.is_compacted = opened.stored.view.is_some();
        self.stored = Some(opened.stored);
        self.pin_by_rules();
        Ok(())
    }

    /// Stores a compaction that was judged, and takes it over. The error leaves both as they are.
    pub(crate) fn store_compaction(
        &mut self,
        context: Context,
        receipt: &mut Receipt,
        lease: Option<&Lease>,
    ) -> Result<(), StoreError> {
        let (Some(stored), Some(lease)) = (&mut self.stored, lease) else {
            self.session.commit(context);
            return Ok(());
        };
        let mut commit = stored.commit_of(&self.session, &context, receipt, &self.counter);
        commit.engine.clone_from(&self.resolved.name);
        commit.state = lock(&self.state).pending();
        let written = if self.config.compression.in_place {
            let committed = stored.store.commit(lease, commit)?;
            stored.view = Some(committed.view);
            committed.written
        } else {
            let name = rotated_name();
            let (row, committed) = stored.store.rotate(lease, Child { name, title: None }, commit)?;
            (stored.key, stored.branch, stored.view) = (row.key, row.branch, Some(committed.view));
            self.options.session_id.clone_from(&row.name);
            self.session.id.clone_from(&row.name);
            receipt.session_after = Some(row.name);
            committed.written
        };
        stored.next_node =
            NodeId(context.nodes().iter().map(|node| node.id.0 + 1).max().unwrap_or(0).max(stored.next_node.0));
        stored.compressions += 1;
        self.session.commit_as(context, &written);
        Ok(())
    }

    /// Tells subscribers of a compaction that is in effect.
    pub(crate) fn tell_of(&self, receipt: &Receipt) {
        let old = if receipt.session_after.is_some() { receipt.session.clone() } else { String::new() };
        let event = crate::events::CompressEvent {
            event: crate::events::CompressEvent::NAME,
            platform: self.stored.as_ref().map(|stored| stored.platform.clone()).unwrap_or_default(),
            session_id: self.options.session_id.clone(),
            in_place: old.is_empty(),
            old_session_id: old,
            compression_count: self.stored.as_ref().map_or(self.compressions, |stored| stored.compressions),
            engine: receipt.engine_used.clone(),
            tokens_before: receipt.tokens_before,
            tokens_after: receipt.tokens_after,
        };
        for subscriber in &self.subscribers {
            subscriber(&event);
        }
    }
}

impl Stored {
    /// Takes the right to compact, for this process.
    pub(crate) fn lease(&self) -> Result<Lease, StoreError> {
        self.store.lease(self.key, &format!("process {}", std::process::id()))
    }

    /// Tells whether another view or branch is live by now.
    pub(crate) fn is_behind(&self) -> Result<bool, StoreError> {
        Ok(self.store.live_view(self.key)? != (self.branch, self.view))
    }

    /// Adds a message to the store and returns the id that it got there.
    pub(crate) fn append(&mut self, message: &Message) -> Result<MessageId, StoreError> {
        let ids = self.store.append(self.key, [(message, None)])?;
        self.upto = ids.last().copied().unwrap_or(self.upto).max(self.upto);
        Ok(self.upto)
    }

    /// Returns the engine's state as it is stored.
    pub(crate) fn state(&self, engine: &str) -> Result<State, StoreError> {
        Ok(State::of(self.store.engine_state(self.key, engine)?))
    }

    fn commit_of(&self, session: &Session, context: &Context, receipt: &Receipt, counter: &Counter) -> Commit {
        let id_at = |position: usize| session.view.get(position).map(|message| message.id);
        let items = context
            .entries()
            .iter()
            .map(|entry| match entry.origin {
                Origin::Kept(_) => Item::Kept(entry.message.id),
                ref origin => Item::Written {
                    raw: entry.message.raw.clone(),
                    role: entry.message.role,
                    flags: entry.message.flags,
                    node: entry.message.node,
                    stands_for: origin.source().and_then(id_at),
                    demoted: demoted(&entry.message),
                },
            })
            .collect();
        let present: HashSet<usize> = context.entries().iter().filter_map(|entry| entry.origin.source()).collect();
        let dropped = context
            .outcomes()
            .iter()
            .enumerate()
            .filter(|(position, outcome)| !present.contains(position) && !matches!(outcome, Outcome::Covered(_)))
            .filter_map(|(position, _)| id_at(position))
            .collect();
        let model = receipt.calls.last().map_or_else(|| "offline".to_owned(), |call| call.model.clone());
        let tokens_of = |id: &MessageId| {
            session.view.iter().find(|message| message.id == *id).map_or(0, |message| u64::from(message.tokens))
        };
        // Summaries that came with the conversation itself are not in the store, and new ones may stand for them.
        let foreign = session.nodes.iter().filter(|node| node.id >= self.next_node);
        let nodes = foreign
            .map(|node| (node, "the client"))
            .chain(context.nodes().iter().map(|node| (node, model.as_str())))
            .map(|(node, model)| NewNode {
                id: node.id,
                depth: node.depth,
                kind: node.kind,
                text: node.text.clone(),
                messages: node.messages.clone(),
                nodes: node.nodes.clone(),
                tokens: u64::from(counter.count(&node.text)),
                source_tokens: node.messages.iter().map(tokens_of).sum::<u64>()
                    + node
                        .nodes
                        .iter()
                        .filter_map(|inner| session.node(*inner))
                        .map(|inner| u64::from(counter.count(&inner.text)))
                        .sum::<u64>(),
                model: model.to_owned(),
            })
            .collect();
        Commit {
            branch: self.branch,
            view: self.view,
            upto: self.upto,
            items,
            nodes,
            dropped,
            receipt: serde_json::to_string(receipt).unwrap_or_default(),
            ..Commit::default()
        }
    }
}

/// Reads a session from its store.
pub(crate) fn open(
    store: &Store,
    key: i64,
    document: Document,
    counter: &Counter,
    overhead_tokens: u64,
) -> Result<Opened, RuntimeError> {
    let loaded = store.load(key, WORDS_BYTES_MAX)?;
    let dialect = loaded.session.dialect;
    let mut words = messages(dialect, &loaded.words);
    let mut view = messages(dialect, &loaded.messages);
    counter.measure(&mut words);
    counter.measure(&mut view);
    let nodes = loaded.nodes.iter().map(node).collect();
    let mut session = Session::resume(&loaded.session.name, dialect, view, words, nodes, loaded.next_node);
    session.overhead_tokens = overhead_tokens;
    session.recall_tool = true;
    session.originals = loaded.messages.iter().filter_map(|row| Some((row.id, row.stands_for?))).collect();
    let compressions = store.views(key)?.iter().filter(|view| view.cause != "branch").count() as u64;
    let Loaded { session: row, branch, view, upto, next_node, .. } = loaded;
    let stored =
        Stored { store: store.clone(), key, branch, view, upto, next_node, platform: row.platform, compressions };
    Ok(Opened { session, document, stored })
}

fn find_or_make(store: &Store, document: &Document, options: &Options) -> Result<i64, RuntimeError> {
    let dialect = document.dialect();
    let shell = document.write([]);
    if let Some(row) = store.find_session(&options.session_id)? {
        if row.dialect != dialect {
            let why = format!("session \"{}\" is in dialect {}, the request in {dialect}", row.name, row.dialect);
            return Err(RuntimeError::Write(why));
        }
        store.describe_session(row.key, Some(shell), document.model(), None)?;
        return Ok(row.key);
    }
    let new = NewSession {
        name: options.session_id.clone(),
        dialect: Some(dialect),
        platform: options.platform.clone(),
        model: document.model().unwrap_or_default(),
        title: options.title.clone(),
        shell: Some(shell),
        created_ms: None,
    };
    match store.create_session(new) {
        Ok(row) => Ok(row.key),
        // Another process was quicker.
        Err(StoreError::SessionExists(name)) => Ok(store.session(&name)?.key),
        Err(error) => Err(error.into()),
    }
}

fn messages(dialect: Dialect, rows: &[Row]) -> Vec<Message> {
    let mut messages: Vec<Message> = rows
        .iter()
        .map(|row| {
            // What was stored was read once, so it can be read again; if not, it passes through as it is.
            host_wire::parse_message(dialect, &row.raw)
                .unwrap_or_else(|_| Message::new(row.role, row.raw.clone(), Vec::new()))
        })
        .collect();
    host_wire::number(&mut messages);
    for (message, row) in messages.iter_mut().zip(rows) {
        message.id = row.id;
        if row.is_written {
            message.node = row.node;
            message.flags = row.flags;
            for part in &row.demoted {
                if let Some(part) = usize::try_from(*part).ok().and_then(|at| message.parts.get_mut(at)) {
                    part.flags = part.flags.with(Flags::DEMOTED);
                }
            }
        }
    }
    messages
}

fn node(row: &host_store::NodeRow) -> Node {
    Node {
        id: row.id,
        depth: row.depth,
        kind: row.kind,
        text: row.text.clone(),
        messages: row.messages.clone(),
        nodes: row.nodes.clone(),
    }
}

fn demoted(message: &Message) -> Vec<u64> {
    (0u64..).zip(&message.parts).filter(|(_, part)| part.flags.has(Flags::DEMOTED)).map(|(at, _)| at).collect()
}

fn empty_body(dialect: Dialect) -> String {
    if dialect == Dialect::Responses { "{\"input\":[]}".to_owned() } else { "{\"messages\":[]}".to_owned() }
}

/// Makes an id in Hermes' form: date, time, and six hexadecimal digits.
fn rotated_name() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let now = jiff::Timestamp::now();
    let nth = MADE.fetch_add(1, Ordering::Relaxed);
    let seed = format!("{} {} {nth}", now.as_nanosecond(), std::process::id());
    format!("{}_{:06x}", now.strftime("%Y%m%d_%H%M%S"), xxh3_64(seed.as_bytes()) & 0xFF_FFFF)
}
