//! One conversation between its requests: stored as it grows, understood when a compaction may be near.
//!
//! Everything here waits for the store and for engines, so it runs on threads that may wait.

use crate::history::{History, MARK, Print, identity};
use crate::setup::Setup;
use crate::turn::Turn;
use engine_api::{Dialect, Message, MessageId, Usage};
use host_core::Receipt;
use host_runtime::{LiveSession, Options, RuntimeError};
use host_store::{NewSession, SessionRow, Store, StoreError};
use host_wire::{Envelope, ReplyCall};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::time::Instant;

/// Bytes of a request that are at least one token, for a bound on its size: agents' traffic has 2.6 characters for each.
const BYTES_PER_TOKEN_MIN: u64 = 2;
/// Below this part of the threshold, and of the window, no engine is asked: a session is only stored.
const NEAR_THRESHOLD_PART: u64 = 2;
const NEAR_WINDOW_PART: u64 = 4;
/// Recall calls and their answers that later requests carry; the oldest are left out first.
const INSERTIONS_MAX: usize = 64;
/// Under which name the gateway keeps its own state of a session, and in which entry.
pub(crate) const STATE_OWNER: &str = "gateway";
const STATE_INSERTIONS: &str = "recall";
/// Names that are tried where another process has made a session of the same one.
const NAME_TRIES_MAX: u32 = 4;

/// One message that the client sent, and the stored message that it is.
#[derive(Debug, Clone, Copy)]
struct Sent {
    print: Print,
    id: MessageId,
}

/// Messages that the model saw and the client never did: a recall call and its answer, after the message that they followed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Insertion {
    after: u64,
    raws: Vec<String>,
}

/// A conversation.
pub(crate) struct Conversation {
    name: String,
    dialect: Dialect,
    /// Its row in the store, once it has one.
    key: Option<i64>,
    /// The client's last history.
    sent: Vec<Sent>,
    live: Option<Box<LiveSession>>,
    is_compacted: bool,
    /// The last report of the provider, and the bytes of that request.
    reported: Option<(u64, u64)>,
    insertions: Vec<Insertion>,
    last: Option<Instant>,
    /// When the provider answered last.
    answered: Option<Instant>,
    model: (String, u64),
    root: u64,
}

/// What leaves for the provider.
pub(crate) struct Outgoing {
    /// The body; none if it is the client's own.
    pub(crate) body: Option<Rewritten>,
    /// What the decision came to, where one was made.
    pub(crate) receipt: Option<Receipt>,
    /// Recall tools may be offered.
    pub(crate) is_compacted: bool,
    pub(crate) engine: String,
}

/// A body that is not the client's own.
pub(crate) struct Rewritten {
    /// The messages as they leave, in order.
    pub(crate) messages: Vec<String>,
    /// The tools that the model is offered beside the client's own.
    pub(crate) tools: Vec<engine_api::ToolSchema>,
}

impl Conversation {
    /// Begins one that nothing is stored of.
    pub(crate) fn new(name: String, dialect: Dialect, root: u64) -> Conversation {
        Conversation {
            name,
            dialect,
            key: None,
            sent: Vec::new(),
            live: None,
            is_compacted: false,
            reported: None,
            insertions: Vec::new(),
            last: None,
            answered: None,
            model: (String::new(), 0),
            root,
        }
    }

    /// Goes on with one that is stored.
    pub(crate) fn stored(store: &Store, row: SessionRow, root: u64) -> Result<Conversation, StoreError> {
        let is_compacted = store.load(row.key, 0)?.view.is_some();
        let state = store.engine_state(row.key, STATE_OWNER)?;
        let insertions = state
            .into_iter()
            .find(|(key, _)| key == STATE_INSERTIONS)
            .and_then(|(_, value)| serde_json::from_slice(&value).ok())
            .unwrap_or_default();
        // What was sent is not known, so the next request is compared with what is stored.
        let mut conversation = Conversation::new(row.name, row.dialect, root);
        (conversation.key, conversation.is_compacted, conversation.insertions) =
            (Some(row.key), is_compacted, insertions);
        Ok(conversation)
    }

    /// Tells whether nothing has been compacted, nothing is at hand, and it is known what the client sent last: then a
    /// request far from a compaction can leave at once.
    pub(crate) fn is_light(&self) -> bool {
        let is_unknown = self.key.is_some() && self.sent.is_empty();
        !self.is_compacted && self.live.is_none() && !is_unknown
    }

    /// Takes over what was heard of answers while nobody waited for it.
    pub(crate) fn heard(&mut self, reported: Option<(u64, u64)>, answered: Option<Instant>) {
        self.reported = reported.or(self.reported);
        self.answered = answered.or(self.answered);
    }

    /// Stores what is new in a request that has left already.
    pub(crate) fn keep(&mut self, store: &Store, turn: &Turn) -> Result<(), StoreError> {
        self.last = Some(Instant::now());
        let key = self.key_in(store, turn)?;
        let known = self.known(&turn.history);
        if known == turn.history.prints.len() {
            // A later request was quicker, and holds all of this one.
            return Ok(());
        }
        let raws = turn.envelope.raws();
        let understood = |raws: &[std::borrow::Cow<'_, str>]| -> Vec<Message> {
            let mut messages: Vec<Message> =
                raws.iter().filter_map(|raw| host_wire::parse_message(self.dialect, raw).ok()).collect();
            host_wire::number(&mut messages);
            messages
        };
        if known < self.sent.len() {
            let all = understood(&raws);
            let aligned = store.align(key, &all.iter().collect::<Vec<_>>())?;
            self.take_sent(&turn.history, aligned.ids);
            return Ok(());
        }
        let new = understood(raws.get(known..).unwrap_or_default());
        let ids = store.append(key, new.iter().map(|message| (message, None)))?;
        let known = self.sent.iter().map(|sent| sent.id).collect::<Vec<_>>();
        self.take_sent(&turn.history, [known, ids].concat());
        Ok(())
    }

    /// Decides on a request before it leaves, and compacts if that is the decision.
    pub(crate) fn prepare(&mut self, store: &Store, setup: &Setup, turn: &Turn) -> Result<Outgoing, RuntimeError> {
        let idle_seconds = self.last.map_or(0, |last| last.elapsed().as_secs());
        self.last = Some(Instant::now());
        self.go_on(store, setup, turn)?;
        let Some(live) = &mut self.live else { return Ok(Outgoing::as_it_came()) };
        let receipt = match (&turn.manual, turn.is_native) {
            (Some(manual), _) => live.compact_now(&manual.focus, manual.keep_exchanges),
            // The client decides itself, and asks when it wants a compaction.
            (None, true) => live.keep_as_it_is("the client compacts by itself (gateway.mode is native)"),
            (None, false) => live.compact_for_request(idle_seconds),
        };
        self.after_compaction(&receipt);
        let outgoing = self.outgoing(setup, Some(receipt));
        if !self.is_compacted && is_far(setup, turn, self.reported) {
            // It was opened to be compared with what is stored; the store has it.
            self.live = None;
        }
        outgoing
    }

    /// Makes a request smaller that the provider refused as too long; none if nothing smaller was found.
    pub(crate) fn overflowed(
        &mut self,
        store: &Store,
        setup: &Setup,
        turn: &Turn,
        window: Option<u64>,
    ) -> Result<Option<Outgoing>, RuntimeError> {
        if self.live.is_none() {
            self.go_on(store, setup, turn)?;
        }
        let Some(live) = &mut self.live else { return Ok(None) };
        let receipt = live.overflowed(window);
        if receipt.action != "compacted" {
            return Ok(None);
        }
        self.after_compaction(&receipt);
        self.outgoing(setup, Some(receipt)).map(Some)
    }

    /// Compacts because a person or the client asks for it, outside of a request.
    pub(crate) fn compact_now(
        &mut self,
        store: &Store,
        setup: &Setup,
        turn: Option<&Turn>,
        focus: &str,
        keep_exchanges: u32,
    ) -> Result<Receipt, RuntimeError> {
        match turn {
            Some(turn) => self.go_on(store, setup, turn)?,
            None => {
                self.open(store, setup, None)?;
            }
        }
        let Some(live) = &mut self.live else { return Err(StoreError::NoSession(self.name.clone()).into()) };
        let receipt = live.compact_now(focus, keep_exchanges);
        self.after_compaction(&receipt);
        Ok(receipt)
    }

    /// Makes the view before the last compaction live again.
    pub(crate) fn undo(&mut self, store: &Store, setup: &Setup) -> Result<(), RuntimeError> {
        self.open(store, setup, None)?;
        let Some(live) = &mut self.live else { return Err(StoreError::NothingToUndo(self.name.clone()).into()) };
        live.undo()?;
        self.is_compacted = live.is_compacted();
        // What came back stands as it was sent first; the next request brings it as it is sent now.
        self.live = None;
        Ok(())
    }

    /// Returns the session as it is understood, where it is.
    pub(crate) fn live(&self) -> Option<&LiveSession> {
        self.live.as_deref()
    }

    /// Returns the messages as the model sees them.
    pub(crate) fn seen(&self) -> Result<Vec<String>, RuntimeError> {
        let Some(live) = &self.live else { return Ok(Vec::new()) };
        Ok(live.outgoing()?.into_iter().map(|(_, raw)| raw).collect())
    }

    /// Returns the messages of a request as they would leave, without taking it over; none if it is not what this
    /// conversation goes on with, or nothing is compacted.
    pub(crate) fn preview(&self, setup: &Setup, history: &History, envelope: &Envelope) -> Option<Vec<String>> {
        let known = self.known(history);
        if !self.is_compacted || self.sent.is_empty() || known < self.sent.len() {
            return None;
        }
        let mut messages = self.outgoing(setup, None).ok()?.body?.messages;
        messages.extend(envelope.raws().into_iter().skip(known).map(|raw| raw.into_owned()));
        Some(messages)
    }

    /// Answers calls of recall tools, in order; what is wrong with one is its answer.
    pub(crate) fn answer(&mut self, calls: &[ReplyCall]) -> Vec<String> {
        calls
            .iter()
            .map(|call| {
                let Some(live) = &mut self.live else { return wrong("the session is not at hand; try again") };
                let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
                match serde_json::from_str(arguments) {
                    Ok(arguments) => {
                        live.call_tool(&call.name, &arguments).unwrap_or_else(|error| wrong(&error.to_string()))
                    }
                    Err(error) => wrong(&format!("the arguments are no JSON: {error}")),
                }
            })
            .collect()
    }

    /// Has later requests carry messages that the client does not know of, after the last message of this one.
    pub(crate) fn insert(&mut self, store: &Store, raws: Vec<String>) {
        let Some(after) = self.sent.last().map(|sent| sent.id.0) else { return };
        self.insertions.push(Insertion { after, raws });
        let surplus = self.insertions.len().saturating_sub(INSERTIONS_MAX);
        self.insertions.drain(..surplus);
        let Some(key) = self.key else { return };
        if let Ok(value) = serde_json::to_vec(&self.insertions) {
            // Without it a restart costs the model its old recall answers, which it can ask for again.
            let _ = store.put_engine_state(key, STATE_OWNER, vec![(STATE_INSERTIONS.to_owned(), value)]);
        }
    }

    /// Hears the usage of an answered request.
    pub(crate) fn record(&mut self, store: &Store, usage: &Usage, request_bytes: u64) {
        self.answered = Some(Instant::now());
        if usage.prompt_tokens > 0 {
            self.reported = Some((usage.prompt_tokens, request_bytes));
        }
        match (&mut self.live, self.key) {
            (Some(live), _) => live.record(usage),
            // A figure for reports: nothing waits for it to be right.
            (None, Some(key)) => drop(store.put_usages(key, std::slice::from_ref(usage))),
            (None, None) => {}
        }
    }

    /// Stores what was reported of requests that nobody waited for.
    pub(crate) fn keep_usages(&self, store: &Store, usages: &[Usage]) -> Result<(), StoreError> {
        match self.key {
            Some(key) if !usages.is_empty() => store.put_usages(key, usages),
            _ => Ok(()),
        }
    }

    /// Lets go of what can be read from the store again; returns whether there was anything.
    pub(crate) fn let_go(&mut self) -> bool {
        self.live.take().is_some()
    }

    /// Brings the session to where the request is.
    fn go_on(&mut self, store: &Store, setup: &Setup, turn: &Turn) -> Result<(), RuntimeError> {
        let is_read_anew = self.open(store, setup, Some(turn))?;
        let known = self.known(&turn.history);
        let is_changed = known < self.sent.len() || (self.sent.is_empty() && self.key.is_some());
        let Some(live) = &mut self.live else { return Ok(()) };
        let ids = if is_changed {
            live.resend(Envelope::clone(&turn.envelope).understood())?
        } else {
            let raws = turn.envelope.raws();
            let new: Vec<&str> = raws.iter().skip(known).map(|raw| raw.as_ref()).collect();
            let new = live.extend(Envelope::clone(&turn.envelope), &new)?;
            self.sent.iter().map(|sent| sent.id).chain(new).collect()
        };
        let changed: HashSet<usize> = (0..ids.len())
            .filter(|at| {
                let print = |sent: &Sent| Some(sent.print.exact) != turn.history.prints.get(*at).map(|one| one.exact);
                is_read_anew || is_changed || self.sent.get(*at).is_some_and(print)
            })
            .collect();
        let raws = turn.envelope.raws();
        let newer: Vec<(MessageId, &str)> = ids
            .iter()
            .zip(&raws)
            .enumerate()
            .filter(|(at, _)| changed.contains(at))
            .map(|(_, (id, raw))| (*id, raw.as_ref()))
            .collect();
        live.refresh(&newer);
        if self.model != (turn.model.clone(), turn.window) {
            if !self.model.0.is_empty() {
                live.switch_model(&turn.model, turn.window);
            }
            self.model = (turn.model.clone(), turn.window);
        }
        live.set_place(turn.place.clone());
        self.is_compacted = live.is_compacted();
        self.take_sent(&turn.history, ids);
        Ok(())
    }

    /// Opens the session as the store has it, if it is not open; returns whether it was read from there, where messages
    /// stand as they were sent first.
    fn open(&mut self, store: &Store, setup: &Setup, turn: Option<&Turn>) -> Result<bool, RuntimeError> {
        if let Some(live) = &mut self.live {
            // Another process may have compacted it, or taken a compaction back.
            let is_behind = live.is_behind()?;
            if is_behind {
                live.reload()?;
            }
            return Ok(is_behind);
        }
        if let Some(turn) = turn {
            self.key_in(store, turn)?;
        }
        let resolved = setup.engine().map_err(RuntimeError::Write)?;
        let shell = match turn {
            Some(turn) => turn.envelope.write([]),
            None => self
                .key
                .and_then(|key| store.load(key, 0).ok()?.shell)
                .unwrap_or_else(|| "{\"messages\":[]}".to_owned()),
        };
        let envelope =
            Envelope::read(shell, Some(self.dialect)).map_err(|error| RuntimeError::Write(error.to_string()))?;
        let options = Options {
            session_id: self.name.clone(),
            model: turn.map(|turn| turn.model.clone()).filter(|model| !model.is_empty()),
            context_length: turn.map(|turn| turn.window),
            platform: turn.and_then(|turn| turn.client.clone()).unwrap_or_default(),
            ..Options::default()
        };
        let mut live = LiveSession::open_stored_with(
            store,
            envelope.unread(),
            setup.config.clone(),
            resolved,
            &setup.home,
            options,
        )?
        .with_summariser(std::sync::Arc::clone(&setup.summariser));
        for subscriber in &setup.subscribers {
            live = live.with_subscriber(std::sync::Arc::clone(subscriber));
        }
        if let Some((reported, _)) = self.reported {
            live.record_before(reported, self.answered.map(|at| at.elapsed()).unwrap_or_default());
        }
        if let Some(turn) = turn {
            self.model = (turn.model.clone(), turn.window);
        }
        self.key = live.store().map(|(_, key)| key);
        self.live = Some(Box::new(live));
        Ok(true)
    }

    /// Returns the session's row; one that is not there is made.
    fn key_in(&mut self, store: &Store, turn: &Turn) -> Result<i64, StoreError> {
        if let Some(key) = self.key {
            return Ok(key);
        }
        let mut new = NewSession {
            name: self.name.clone(),
            dialect: Some(self.dialect),
            platform: turn.client.clone().unwrap_or_default(),
            model: turn.model.clone(),
            shell: Some(turn.envelope.write([])),
            ..NewSession::default()
        };
        let mut tries = 0;
        let key = loop {
            match store.create_session(new.clone()) {
                Ok(row) => break row.key,
                // Another process was quicker: it is that process' conversation.
                Err(StoreError::SessionExists(_)) if tries < NAME_TRIES_MAX => {
                    tries += 1;
                    new.name = format!("{}~{}", self.name, tries + 1);
                }
                Err(error) => return Err(error),
            }
        };
        self.name = new.name;
        self.key = Some(key);
        if self.root != 0 {
            store.put_root(key, self.root)?;
        }
        Ok(key)
    }

    /// Returns how many messages of the last history begin this one.
    fn known(&self, history: &History) -> usize {
        let pairs = self.sent.iter().zip(&history.prints);
        pairs.take_while(|(sent, print)| sent.print.same == print.same).count()
    }

    fn take_sent(&mut self, history: &History, ids: Vec<MessageId>) {
        // A message that a store counts as several or as none would put all behind it beside its place.
        if ids.len() == history.prints.len() {
            self.sent = history.prints.iter().zip(ids).map(|(print, id)| Sent { print: *print, id }).collect();
        } else {
            self.sent.clear();
        }
    }

    fn after_compaction(&mut self, receipt: &Receipt) {
        let Some(live) = &self.live else { return };
        self.is_compacted = live.is_compacted();
        if receipt.session_after.is_some() {
            // The conversation goes on in another session, where its messages have other ids.
            self.key = live.store().map(|(_, key)| key);
            self.sent.clear();
            self.insertions.clear();
        }
        if receipt.action == "compacted" {
            self.reported = None;
        }
    }

    fn outgoing(&self, setup: &Setup, receipt: Option<Receipt>) -> Result<Outgoing, RuntimeError> {
        let Some(live) = &self.live else { return Ok(Outgoing { receipt, ..Outgoing::as_it_came() }) };
        let engine = live.resolved().name.clone();
        if !live.is_compacted() {
            return Ok(Outgoing { body: None, receipt, is_compacted: false, engine });
        }
        let mut after: HashMap<u64, Vec<&Insertion>> = HashMap::new();
        for insertion in &self.insertions {
            after.entry(insertion.after).or_default().push(insertion);
        }
        let carried: HashSet<&str> = self.insertions.iter().flat_map(|one| &one.raws).map(String::as_str).collect();
        let sent: HashSet<MessageId> = self.sent.iter().map(|sent| sent.id).collect();
        let mut messages = Vec::new();
        for (id, raw) in live.outgoing()? {
            // What led to a recall call came to the client too, and stands with the call already.
            if !carried.contains(raw.as_str()) {
                let is_sent = id.is_some_and(|id| sent.contains(&id));
                // What the client does not send any more has the mark that it had when it was sent.
                messages.push(if is_sent || !raw.contains(MARK) { raw } else { host_wire::identity(&raw) });
            }
            for insertion in id.and_then(|id| after.get(&id.0)).into_iter().flatten() {
                messages.extend(insertion.raws.iter().cloned());
            }
        }
        let tools = if setup.config.gateway.engine_tools { live.tools() } else { Vec::new() };
        Ok(Outgoing { body: Some(Rewritten { messages, tools }), receipt, is_compacted: true, engine })
    }
}

/// Tells whether a request is so small that no compaction can be near, by a bound on its tokens.
pub(crate) fn is_far(setup: &Setup, turn: &Turn, reported: Option<(u64, u64)>) -> bool {
    let config = &setup.config;
    let messages_max = config.compression.hygiene_hard_message_limit;
    let bytes = turn.envelope.text().len() as u64;
    let tokens = match reported {
        Some((tokens, at)) => tokens + bytes.saturating_sub(at) / BYTES_PER_TOKEN_MIN,
        None => bytes / BYTES_PER_TOKEN_MIN,
    };
    let budgets = host_config::budgets(config, &turn.model, turn.window, config.model.max_tokens);
    let near = (budgets.threshold_tokens / NEAR_THRESHOLD_PART).min(turn.window / NEAR_WINDOW_PART);
    let is_idle = config.compression.idle_compact_after_seconds > 0 && tokens > budgets.idle_floor_tokens;
    tokens < near
        && !is_idle
        && turn.manual.is_none()
        && (messages_max == 0 || turn.history.prints.len() < messages_max)
}

impl Outgoing {
    /// Leaves the body as the client wrote it.
    pub(crate) fn as_it_came() -> Outgoing {
        Outgoing { body: None, receipt: None, is_compacted: false, engine: String::new() }
    }
}

/// Returns the identities of a history's messages as the store knows them.
pub(crate) fn identities(envelope: &Envelope) -> Vec<u64> {
    envelope.raws().iter().map(|raw| identity(raw)).collect()
}

fn wrong(why: &str) -> String {
    serde_json::json!({ "success": false, "error": why }).to_string()
}
