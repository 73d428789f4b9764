//! Which conversation a request belongs to: the one that its client names, else the one whose history it goes on with.

use crate::conversation::{Conversation, identities, is_far};
use crate::history::History;
use crate::setup::Setup;
use crate::turn::{Asked, Turn};
use engine_api::{Dialect, Usage};
use host_store::{SessionRow, Store, StoreError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

/// Threads of one explicit id that are told apart: the conversation, its subagents, what the client began anew.
const THREADS_MAX: usize = 64;
/// Stored threads of one id that are looked at after a restart.
const STORED_THREADS_MAX: usize = 16;
/// Histories of one conversation that wait to be stored: more than one only where it was edited in between.
const WAITING_MAX: usize = 4;
/// Reports of one conversation that wait to be stored; further ones are counted in the metrics only.
const USAGES_MAX: usize = 1_024;
/// Stands between a client's id and the number of a further thread.
const THREAD_MARK: char = '~';

/// A conversation's place in memory.
pub(crate) struct Slot {
    /// Under which name it was found.
    pub(crate) name: String,
    root: u64,
    /// The client's id, if it gives one.
    id: Option<String>,
    /// The last history, to compare with; apart from the conversation, which may be busy.
    prints: Mutex<Arc<[u64]>>,
    light: Mutex<Light>,
    used: AtomicU64,
    resident: AtomicU64,
    /// The provider has refused to compact on its side.
    has_refused_native: AtomicBool,
    pub(crate) conversation: Arc<tokio::sync::Mutex<Conversation>>,
}

/// What is known of a conversation without asking it.
#[derive(Default)]
struct Light {
    /// It is far from a compaction, as far as it is concerned.
    is_light: bool,
    /// The keeper knows of it.
    is_waiting: bool,
    waiting: Waiting,
    reported: Option<(u64, u64)>,
    answered: Option<Instant>,
}

/// What is to be stored of a conversation.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) turns: Vec<Arc<Turn>>,
    pub(crate) usages: Vec<Usage>,
}

impl Slot {
    /// Tells whether a request can leave at once, to be stored soon; then it is taken.
    pub(crate) fn takes(&self, setup: &Setup, turn: &Arc<Turn>) -> bool {
        let mut light = self.light();
        if !light.is_light || !is_far(setup, turn, light.reported) {
            return false;
        }
        // One that goes on with the one before holds all of it.
        let is_longer = |earlier: &Arc<Turn>| turn.history.goes_beyond(&earlier.history);
        if light.waiting.turns.last().is_some_and(is_longer) {
            light.waiting.turns.pop();
        }
        if light.waiting.turns.len() >= WAITING_MAX {
            return false;
        }
        light.waiting.turns.push(Arc::clone(turn));
        true
    }

    /// Hears the usage of a request that left at once; returns whether it is one.
    pub(crate) fn hears(&self, usage: &Usage, request_bytes: u64) -> bool {
        let mut light = self.light();
        if !light.is_light {
            return false;
        }
        light.answered = Some(Instant::now());
        if usage.prompt_tokens > 0 {
            light.reported = Some((usage.prompt_tokens, request_bytes));
        }
        if light.waiting.usages.len() < USAGES_MAX {
            light.waiting.usages.push(usage.clone());
        }
        true
    }

    /// Says that there is something to store; returns whether that is news.
    pub(crate) fn begins_waiting(&self) -> bool {
        !std::mem::replace(&mut self.light().is_waiting, true)
    }

    /// Takes what is to be stored.
    pub(crate) fn take_waiting(&self) -> Waiting {
        let mut light = self.light();
        light.is_waiting = false;
        std::mem::take(&mut light.waiting)
    }

    /// Returns the last report and when it came.
    pub(crate) fn heard(&self) -> (Option<(u64, u64)>, Option<Instant>) {
        let light = self.light();
        (light.reported, light.answered)
    }

    /// Notes whether requests may leave at once from now on.
    pub(crate) fn is_light_as(&self, is_light: bool) {
        self.light().is_light = is_light;
    }

    fn light(&self) -> MutexGuard<'_, Light> {
        self.light.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether the provider may be asked to compact on its side.
    pub(crate) fn may_ask_native(&self) -> bool {
        !self.has_refused_native.load(Ordering::Relaxed)
    }

    /// Notes that the provider has refused to.
    pub(crate) fn refuses_native(&self) {
        self.has_refused_native.store(true, Ordering::Relaxed);
    }

    /// Tells whether it holds no text and need not be asked whether it does.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.light().is_light && self.resident.load(Ordering::Relaxed) == 0
    }

    fn prints(&self) -> Arc<[u64]> {
        Arc::clone(&self.prints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes the history that this conversation now has.
    pub(crate) fn note(&self, history: &History) {
        let prints: Arc<[u64]> = history.prints.iter().map(|print| print.same).collect();
        *self.prints.lock().unwrap_or_else(PoisonError::into_inner) = prints;
    }
}

/// The conversations that are known.
pub(crate) struct Sessions {
    index: Mutex<Index>,
    clock: AtomicU64,
    sessions_max: usize,
    resident_max: u64,
}

#[derive(Default)]
struct Index {
    all: HashMap<String, Arc<Slot>>,
    by_id: HashMap<String, Vec<Arc<Slot>>>,
    by_root: HashMap<u64, Vec<Arc<Slot>>>,
}

impl Sessions {
    pub(crate) fn new(sessions_max: u64, resident_bytes_max: u64) -> Sessions {
        Sessions {
            index: Mutex::default(),
            clock: AtomicU64::new(1),
            sessions_max: usize::try_from(sessions_max).unwrap_or(usize::MAX),
            resident_max: resident_bytes_max,
        }
    }

    /// Finds a request's conversation in memory.
    pub(crate) fn find(&self, asked: &Asked) -> Option<Arc<Slot>> {
        let index = self.index();
        let candidates = match &asked.id {
            Some(id) => index.by_id.get(id),
            None => index.by_root.get(&asked.history.root),
        };
        let candidates = candidates.map_or(&[][..], Vec::as_slice);
        let mut best: Option<(usize, &Arc<Slot>)> = None;
        for slot in candidates.iter().filter(|slot| slot.id == asked.id) {
            let prints = slot.prints();
            let common = asked.history.common(&prints);
            let fits = asked.history.goes_on_with(common, prints.len());
            if fits && best.is_none_or(|(before, _)| common > before) {
                best = Some((common, slot));
            }
        }
        let by_name = || {
            // Of what a client calls by one name, a changed beginning is an edit; only another one is another thread.
            let named = candidates.iter().filter(|_| asked.id.is_some());
            named
                .clone()
                .find(|slot| slot.root == asked.history.root)
                .or_else(|| asked.is_client_summary().then(|| named.min_by_key(|slot| slot.name.len())).flatten())
        };
        let found = best.map(|(_, slot)| slot).or_else(by_name).cloned();
        if let Some(slot) = &found {
            slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        found
    }

    /// Finds a request's conversation in the store, or begins a new one, and remembers it. Waits for the store.
    pub(crate) fn open(&self, store: &Store, asked: &Asked, dialect: Dialect) -> Result<Arc<Slot>, StoreError> {
        let (name, conversation) = match self.stored(store, asked, dialect)? {
            Some(row) => (row.name.clone(), Conversation::stored(store, row, asked.history.root)?),
            None => {
                let name = self.new_name(store, asked)?;
                (name.clone(), Conversation::new(name, dialect, asked.history.root))
            }
        };
        Ok(self.insert(name, asked.id.clone(), asked.history.root, conversation))
    }

    /// Finds a conversation by its name in the store, for what is asked of it outside of its requests.
    pub(crate) fn by_name(&self, store: &Store, name: &str) -> Result<Option<Arc<Slot>>, StoreError> {
        if let Some(slot) = self.index().all.get(name) {
            return Ok(Some(Arc::clone(slot)));
        }
        let Some(row) = store.find_session(name)? else { return Ok(None) };
        let conversation = Conversation::stored(store, row, 0)?;
        Ok(Some(self.insert(name.to_owned(), Some(name.to_owned()), 0, conversation)))
    }

    /// Notes that a conversation holds so many bytes of text, and returns the conversations that should let go of theirs.
    pub(crate) fn resident(&self, slot: &Slot, bytes: u64) -> Vec<Arc<Slot>> {
        slot.resident.store(bytes, Ordering::Relaxed);
        let index = self.index();
        let mut holding: Vec<&Arc<Slot>> =
            index.all.values().filter(|slot| slot.resident.load(Ordering::Relaxed) > 0).collect();
        let mut total: u64 = holding.iter().map(|slot| slot.resident.load(Ordering::Relaxed)).sum();
        if total <= self.resident_max {
            return Vec::new();
        }
        holding.sort_by_key(|slot| slot.used.load(Ordering::Relaxed));
        let mut out = Vec::new();
        for other in holding {
            if total <= self.resident_max {
                break;
            }
            total = total.saturating_sub(other.resident.swap(0, Ordering::Relaxed));
            out.push(Arc::clone(other));
        }
        out
    }

    /// Returns how many conversations are known, and how many bytes of their text are held.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let index = self.index();
        (index.all.len(), index.all.values().map(|slot| slot.resident.load(Ordering::Relaxed)).sum())
    }

    fn insert(&self, name: String, id: Option<String>, root: u64, conversation: Conversation) -> Arc<Slot> {
        let mut index = self.index();
        if let Some(slot) = index.all.get(&name) {
            // Two requests of a new conversation came at once.
            return Arc::clone(slot);
        }
        let is_light = conversation.is_light();
        let slot = Arc::new(Slot {
            light: Mutex::new(Light { is_light, ..Light::default() }),
            name: name.clone(),
            root,
            id,
            prints: Mutex::new(Arc::from([])),
            used: AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed)),
            resident: AtomicU64::new(0),
            has_refused_native: AtomicBool::new(false),
            conversation: Arc::new(tokio::sync::Mutex::new(conversation)),
        });
        index.all.insert(name, Arc::clone(&slot));
        match &slot.id {
            Some(id) => index.by_id.entry(id.clone()).or_default().push(Arc::clone(&slot)),
            None => index.by_root.entry(slot.root).or_default().push(Arc::clone(&slot)),
        }
        while index.all.len() > self.sessions_max {
            // One that is in use stays with those who use it.
            let Some(oldest) = index.all.values().min_by_key(|slot| slot.used.load(Ordering::Relaxed)).cloned() else {
                break;
            };
            index.remove(&oldest);
        }
        slot
    }

    /// Finds the stored session that a request goes on with.
    fn stored(&self, store: &Store, asked: &Asked, dialect: Dialect) -> Result<Option<SessionRow>, StoreError> {
        let mut rows = Vec::new();
        match &asked.id {
            Some(id) => {
                for thread in 1..=STORED_THREADS_MAX {
                    match store.find_session(&thread_name(id, thread))? {
                        Some(row) => rows.push(store.newest_rotation(row)?),
                        None => break,
                    }
                }
            }
            None if asked.history.root != 0 => rows = store.sessions_with_root(asked.history.root)?,
            None => {}
        }
        rows.retain(|row| row.dialect == dialect && !self.is_in_use(&row.name));
        let wanted = identities(&asked.envelope);
        let mut best: Option<(usize, &SessionRow)> = None;
        for row in &rows {
            let known = store.known_prefix(row.key, &wanted)?;
            let fits = asked.history.goes_on_with(known.messages, known.of) || (known.of == 0 && row.messages == 0);
            if fits && best.is_none_or(|(before, _)| known.messages > before) {
                best = Some((known.messages, row));
            }
        }
        let by_name = || rows.first().filter(|_| asked.id.is_some() && asked.is_client_summary());
        Ok(best.map(|(_, row)| row).or_else(by_name).cloned())
    }

    fn is_in_use(&self, name: &str) -> bool {
        self.index().all.contains_key(name)
    }

    /// Names a new conversation: by the client's id and the number of its thread, or by the time.
    fn new_name(&self, store: &Store, asked: &Asked) -> Result<String, StoreError> {
        let Some(id) = &asked.id else {
            let now = jiff::Timestamp::now();
            let nth = self.clock.fetch_add(1, Ordering::Relaxed);
            let seed = format!("{} {} {nth} {}", now.as_nanosecond(), std::process::id(), asked.history.root);
            return Ok(format!("{}_{:08x}", now.strftime("%Y%m%d_%H%M%S"), xxh3_64(seed.as_bytes()) & 0xFFFF_FFFF));
        };
        for thread in 1..THREADS_MAX {
            let name = thread_name(id, thread);
            if !self.is_in_use(&name) && store.find_session(&name)?.is_none() {
                return Ok(name);
            }
        }
        Ok(thread_name(id, THREADS_MAX))
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    fn remove(&mut self, slot: &Arc<Slot>) {
        self.all.remove(&slot.name);
        let others = match &slot.id {
            Some(id) => self.by_id.get_mut(id),
            None => self.by_root.get_mut(&slot.root),
        };
        if let Some(others) = others {
            others.retain(|other| !Arc::ptr_eq(other, slot));
        }
        self.by_id.retain(|_, slots| !slots.is_empty());
        self.by_root.retain(|_, slots| !slots.is_empty());
    }
}

fn thread_name(id: &str, thread: usize) -> String {
    if thread <= 1 { id.to_owned() } else { format!("{id}{THREAD_MARK}{thread}") }
}
