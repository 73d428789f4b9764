//! The worker that does everything a store can do, and says before each step what the store is to hold after it.

use crate::state::{self, Held, State, append, hash, messages, sessions, summarise};
use crate::worker::{Order, say};
use host_config::Config;
use host_registry::{Registry, Setup};
use host_runtime::{LiveSession, Options};
use host_store::{Child, NewSession, SessionRow, Store};
use host_wire::Document;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use support::generate::Rng;

/// Sessions that go on at the same time.
const ACTIVE_MAX: usize = 6;
/// Steps of a worker that nobody kills.
const STEPS_MAX: usize = 2_000;
/// What the parent reads when a step is on disk.
pub(crate) const DONE: &str = "done";

/// A step that is about to be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub(crate) what: String,
    /// The sessions that will have changed; none in place of one that will be gone.
    pub(crate) changes: Vec<(String, Option<Held>)>,
}

impl Intent {
    pub(crate) fn apply(&self, state: &mut State) {
        for (name, held) in &self.changes {
            match held {
                Some(held) => state.insert(name.clone(), held.clone()),
                None => state.remove(name),
            };
        }
    }
}

type Act = Box<dyn Fn(&Store) -> Result<(), String>>;

struct Step {
    what: &'static str,
    act: Act,
    /// What becomes of it, where that is easily told; else it is tried on a copy of the store first.
    expected: Option<Vec<(String, Held)>>,
}

pub(crate) fn run(order: &Order) {
    let store = state::open(&order.store).unwrap();
    // Who was killed before held leases, which must not keep this one from compacting.
    store.set_lease_time(Duration::from_millis(order.lease_ms));
    let mut rng = Rng::new(order.seed);
    let scratch = tempfile::tempdir().unwrap();
    let mut now = state::read(&store);
    for nth in 0..STEPS_MAX {
        let Some(step) = choose(&store, &now, &mut rng) else { continue };
        let after = match step.expected {
            Some(changed) => {
                let mut after = now.clone();
                after.extend(changed);
                after
            }
            None => match rehearse(&store, &step.act, &scratch.path().join(format!("{nth}.db"))) {
                Ok(after) => after,
                // Nothing to undo, or too little to compact.
                Err(_) => continue,
            },
        };
        let mut changes: Vec<(String, Option<Held>)> = after
            .iter()
            .filter(|(name, held)| now.get(*name) != Some(*held))
            .map(|(name, held)| (name.clone(), Some(held.clone())))
            .collect();
        changes.extend(now.keys().filter(|name| !after.contains_key(*name)).map(|name| (name.clone(), None)));
        let intent = Intent { what: step.what.to_owned(), changes };
        say(&serde_json::to_string(&intent).unwrap());
        (step.act)(&store).unwrap();
        say(DONE);
        now = after;
    }
}

/// Makes a step on a copy of the store and returns what that holds then.
fn rehearse(store: &Store, act: &Act, copy: &Path) -> Result<State, String> {
    store.back_up(copy).map_err(|error| error.to_string())?;
    let rehearsal = state::open(copy).map_err(|error| error.to_string())?;
    rehearsal.set_lease_time(Duration::from_millis(1));
    act(&rehearsal)?;
    let after = state::read(&rehearsal);
    drop(rehearsal);
    std::fs::remove_file(copy).map_err(|error| error.to_string())?;
    Ok(after)
}

fn choose(store: &Store, now: &State, rng: &mut Rng) -> Option<Step> {
    let all = sessions(store);
    let active: Vec<&SessionRow> = all.iter().filter(|row| row.ended_ms.is_none()).collect();
    let is_room = active.len() < ACTIVE_MAX;
    let fresh = format!("s{:016x}", rng.next_u64());
    if active.is_empty() || (is_room && rng.one_in(12)) {
        let name = fresh.clone();
        return Some(Step {
            what: "create",
            act: act(move |store| {
                store.create_session(NewSession { name: name.clone(), ..NewSession::default() })?;
                Ok(())
            }),
            expected: Some(vec![(fresh, Held::default())]),
        });
    }
    let row = *rng.pick_ref(&active);
    let (key, called) = (row.key, call(&all, row));
    let held = now.get(&called)?.clone();
    let in_view = held.view.len();
    let child = Child { name: fresh.clone(), title: None };
    let count = rng.between(1, 12);
    let keep = rng.below(in_view.max(1));
    let seed = rng.next_u64() >> 1;
    Some(match rng.below(20) {
        0..=5 => {
            let raws = messages(seed, count);
            let mut held = held;
            held.view.extend(raws.iter().map(|raw| hash(raw)));
            held.said.extend(raws.iter().map(|raw| hash(raw)));
            let act = act(move |store| append(store, key, &raws).map(|_| ()));
            Step { what: "append", act, expected: Some(vec![(called, held)]) }
        }
        6..=8 if in_view > 3 => Step {
            what: "commit",
            expected: Some(vec![(called, Held { view: summarise(store, key, keep).1, ..held })]),
            act: act(move |store| {
                let lease = store.lease(key, "a worker")?;
                store.commit(&lease, summarise(store, key, keep).0).map(|_| ())
            }),
        },
        9 if in_view > 3 => {
            let view = summarise(store, key, keep).1;
            let next = Held { view, parent: Some(called.clone()), ..Held::default() };
            let expected =
                vec![(format!("{called}>"), next), (called, Held { end_reason: "compression".to_owned(), ..held })];
            Step {
                what: "rotate",
                act: act(move |store| {
                    let lease = store.lease(key, "a worker")?;
                    store.rotate(&lease, child.clone(), summarise(store, key, keep).0).map(|_| ())
                }),
                expected: Some(expected),
            }
        }
        10 if is_room => Step {
            what: "fork",
            act: act(move |store| store.fork(key, child.clone()).map(|_| ())),
            expected: Some(vec![(fresh, Held { view: held.view, parent: Some(called), ..Held::default() })]),
        },
        11 => Step {
            what: "next",
            act: act(move |store| store.begin_next(key, child.clone(), Some(0)).map(|_| ())),
            expected: None,
        },
        12 | 13 => Step { what: "undo", act: act(move |store| store.undo(key).map(|_| ())), expected: None },
        14 => Step { what: "sweep", act: act(move |store| store.sweep(1, false).map(|_| ())), expected: None },
        15 if rng.one_in(3) => {
            Step { what: "compact the file", act: act(Store::compact_file), expected: Some(Vec::new()) }
        }
        15 if is_room => {
            let lines = exported(&fresh, seed);
            Step {
                what: "import",
                act: act(move |store| store.import(&mut lines.as_slice()).map(|_| ())),
                expected: None,
            }
        }
        16 | 17 => {
            let resent = resent(store, key, rng, seed);
            Step {
                what: "align",
                act: act(move |store| {
                    let resent = state::parsed(&resent);
                    store.align(key, &resent.iter().collect::<Vec<_>>()).map(|_| ())
                }),
                expected: None,
            }
        }
        _ => {
            let (name, in_place) = (row.name.clone(), !rng.one_in(4));
            Step {
                what: "live compaction",
                act: Box::new(move |store: &Store| compact(store, &name, in_place)),
                expected: None,
            }
        }
    })
}

fn act(does: impl Fn(&Store) -> Result<(), host_store::StoreError> + 'static) -> Act {
    Box::new(move |store| does(store).map_err(|error| error.to_string()))
}

/// Returns what [`state::read`] calls a session.
fn call(all: &[SessionRow], row: &SessionRow) -> String {
    let parent = row.parent.as_ref().filter(|_| row.kinship == "rotation");
    match parent.and_then(|parent| all.iter().find(|row| row.name == *parent)) {
        Some(parent) => format!("{}>", call(all, parent)),
        None => row.name.clone(),
    }
}

/// A history as a client sends it again: with the newest messages taken back, one changed, or the oldest left out, and
/// with new ones behind.
fn resent(store: &Store, key: i64, rng: &mut Rng, seed: u64) -> Vec<String> {
    let rows = store.rows(key, engine_api::MessageId(0), u64::MAX).unwrap();
    let mut raws: Vec<String> =
        rows.into_iter().filter(|(_, state)| state.active || state.compacted).map(|(row, _)| row.raw).collect();
    match rng.below(4) {
        0 => raws.truncate(raws.len() - rng.below(raws.len().min(4) + 1)),
        1 if !raws.is_empty() => {
            let at = rng.below(raws.len());
            raws[at] = messages(seed ^ 1, 1).remove(0);
        }
        2 => drop(raws.drain(..rng.below(raws.len().min(4) + 1))),
        _ => {}
    }
    raws.extend(messages(seed, rng.below(4) + usize::from(raws.is_empty())));
    raws
}

/// The lines of a store with one session, which was compacted.
fn exported(name: &str, seed: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let store = state::open(&folder.path().join("other.db")).unwrap();
    let key = store.create_session(NewSession { name: name.to_owned(), ..NewSession::default() }).unwrap().key;
    append(&store, key, &messages(seed, 12)).unwrap();
    let lease = store.lease(key, "a worker").unwrap();
    store.commit(&lease, summarise(&store, key, 4).0).unwrap();
    let mut lines = Vec::new();
    store.export(None, &mut lines).unwrap();
    lines
}

/// Compacts as the runtime does, with the built-in compressor and no model.
pub(crate) fn compact(store: &Store, name: &str, in_place: bool) -> Result<(), String> {
    let mut live = live(store, name, in_place).map_err(|error| error.to_string())?;
    let receipt = live.compact();
    if receipt.action == "compacted" { Ok(()) } else { Err(receipt.reason) }
}

pub(crate) fn live(store: &Store, name: &str, in_place: bool) -> Result<LiveSession, host_runtime::RuntimeError> {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.compression.in_place = in_place;
    let registry = Registry::open(Setup { home: home.path().to_owned(), ..Setup::default() });
    let options = Options {
        session_id: name.to_owned(),
        context_length: Some(32_000),
        estimate: true,
        force: true,
        ..Options::default()
    };
    let nothing_new = Document::read("{\"model\":\"some-model\",\"messages\":[]}", None).unwrap();
    LiveSession::open_stored(store, nothing_new, config, &registry, home.path(), options)
}
