//! Processes that are killed at any moment: what was acknowledged is there, and what was not is there whole or not at all.

use crate::mix::{DONE, Intent};
use crate::state::{self, State};
use crate::worker::{Order, Task, Worker};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};
use support::generate::Rng;

/// How many processes are killed; a night's run takes thousands.
const KILLS: &str = "PALIMPSEST_KILLS";
const KILLS_DEFAULT: u64 = 40;
/// The first seed, to see a failure again.
const SEED: &str = "PALIMPSEST_SEED";
/// Processes that are killed over one store; then a new one is begun, since they grow.
const KILLS_PER_STORE: u64 = 20;
/// Lines of a worker before it is killed, at most: two for each step.
const LINES_MAX: usize = 24;
/// A kill comes at most so many bits' worth of microseconds after the last line that was waited for; most steps take less.
const MOMENT_BITS: usize = 15;
/// SQLite checks the whole file after each so many kills.
const DEEP_EVERY: u64 = 10;

pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn whatever_a_process_is_killed_in_nothing_is_lost_and_nothing_is_half_there() {
    let (kills, first_seed) = (number(KILLS, KILLS_DEFAULT), number(SEED, 0xC4A5));
    // Of the steps that a kill cut off: how many were, and how many of them were on disk all the same.
    let mut cut: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let (mut done, mut total) = (0u64, 0u64);
    for first in (0..kills).step_by(KILLS_PER_STORE as usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let mut held = State::new();
        for nth in first..kills.min(first + KILLS_PER_STORE) {
            let seed = first_seed + nth;
            let mut rng = Rng::new(seed ^ 0x6b69_6c6c);
            let order = Order { task: Task::Mix, store: path.clone(), seed, seconds: 0, lease_ms: 0 };
            let mut worker = Worker::start(&order);
            let lines = rng.below(LINES_MAX);
            let mut said: Vec<String> = std::iter::from_fn(|| worker.line()).take(lines).collect();
            assert_eq!(said.len(), lines, "seed {seed}: the worker ended by itself");
            // Most kills are to fall into a step, and not into what leads up to it.
            if !rng.one_in(4) && said.last().is_none_or(|line| line == DONE) {
                said.extend(worker.line());
            }
            // Each power of two is as likely, since some steps take a hundred times as long as others.
            let moment = Instant::now() + Duration::from_micros(1 << rng.below(MOMENT_BITS));
            while Instant::now() < moment {
                std::hint::spin_loop();
            }
            said.extend(worker.kill());
            total += 1;

            let mut pending: Option<Intent> = None;
            for line in said {
                if line == DONE {
                    pending.take().unwrap().apply(&mut held);
                    done += 1;
                } else {
                    // Half a line is the last one, and then the step was not begun.
                    pending = serde_json::from_str(&line).ok();
                }
            }
            let store = state::open(&path).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let proved =
                store.verify(None, nth % DEEP_EVERY == 0).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(proved.problems, Vec::<String>::new(), "seed {seed}, during {pending:?}");
            let found = state::read(&store);
            if let Some(intent) = pending {
                let mut whole = held.clone();
                intent.apply(&mut whole);
                let counted = cut.entry(intent.what.clone()).or_default();
                counted.0 += 1;
                counted.1 += u64::from(found == whole);
                if found == whole {
                    held = whole;
                }
                assert_eq!(found, held, "seed {seed}: {} was cut off and is neither whole nor gone", intent.what);
            }
            assert_eq!(found, held, "seed {seed}: what was acknowledged is not there as it was");
        }
    }
    let line = format!("{total} kills, {done} steps acknowledged; cut off (and yet on disk): {cut:?}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    assert!(done > total, "the workers were killed before they did anything");
    assert!(!cut.is_empty(), "no step was ever cut off");
}
