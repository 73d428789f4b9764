//! Histories by the hundred thousand, through every engine, in three dialects: the host's promises hold.
//!
//! `PALIMPSEST_HISTORIES` says how many (10,000 without it). A failure names its seed, dialect and engine;
//! `PALIMPSEST_SEED` runs that seed alone.
#![allow(clippy::print_stdout)]

mod promises;

use engine_api::{ContextEngine, json::json};
use host_registry::{Resolved, Source};
use promises::Case;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use support::generate::{Rng, Shape, history};
use support::judge::Dialect;

const HISTORIES_DEFAULT: u64 = 10_000;
/// Histories that also go through a misbehaving engine: one in this many, since each such engine has tests of its own.
const MISBEHAVING_EVERY: u64 = 3;

/// Broken promises after which the run ends.
const FAILURES_MAX: usize = 20;

type Make = Box<dyn Fn() -> Arc<dyn ContextEngine> + Send + Sync>;

fn engines() -> Vec<(&'static str, Make)> {
    vec![
        ("compressor", Box::new(|| host_registry::built_in(&json!({})).expect("the built-in is always made").into())),
        ("lcm", Box::new(|| Arc::new(engine_lcm::new(&json!({})).expect("lcm is made from no settings")))),
    ]
}

fn resolved(name: &str, engine: Arc<dyn ContextEngine>) -> Resolved {
    Resolved { name: name.to_owned(), source: Source::Linked, engine, fallback: None }
}

#[test]
fn the_promises_hold_for_every_engine_and_dialect() {
    let histories = std::env::var("PALIMPSEST_HISTORIES").ok().and_then(|text| text.parse().ok());
    let histories = histories.unwrap_or(HISTORIES_DEFAULT);
    let alone: Option<u64> = std::env::var("PALIMPSEST_SEED").ok().and_then(|text| text.parse().ok());
    let home = tempfile::tempdir().expect("a folder for the test");
    let good = engines();
    let bad: Vec<(&'static str, Arc<dyn ContextEngine>)> = fixture_bad::all()
        .into_iter()
        .filter(|(name, _)| !matches!(*name, "hangs" | "floods"))
        .map(|(name, engine)| (name, engine.into()))
        .collect();
    let compacted = AtomicU64::new(0);
    let failures: Mutex<Vec<String>> = Mutex::default();
    // A broken promise is a panic in the check; it is collected, so that one run shows how many kinds there are.
    let hold = |check: &mut dyn FnMut() -> bool| -> bool {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)) {
            Ok(done) => done,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without text".to_owned());
                failures.lock().expect("no check panics while it holds the list").push(text);
                false
            }
        }
    };
    let next = AtomicU64::new(0);
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let broken = failures.lock().map_or(0, |failures| failures.len());
                    if seed >= histories || broken >= FAILURES_MAX || (alone.is_some() && seed > 0) {
                        break;
                    }
                    let seed = alone.unwrap_or(seed);
                    let dialect = Dialect::ALL[(seed % 3) as usize];
                    let shape =
                        if (seed / 3).is_multiple_of(2) { Shape::default() } else { Shape::default().with_faults() };
                    let raws = history(seed, dialect, &shape);
                    let mut rng = Rng::new(seed ^ 0x5EED);
                    for (name, make) in &good {
                        let case = Case { seed, dialect, shape, engine: name, raws: &raws, home: home.path() };
                        let done = hold(&mut || case.uphold(resolved(name, make()), &mut rng));
                        compacted.fetch_add(u64::from(done), Ordering::Relaxed);
                    }
                    if seed.is_multiple_of(MISBEHAVING_EVERY) && !bad.is_empty() {
                        let (name, engine) = &bad[(seed / MISBEHAVING_EVERY) as usize % bad.len()];
                        let case = Case { seed, dialect, shape, engine: name, raws: &raws, home: home.path() };
                        hold(&mut || case.uphold(resolved(name, Arc::clone(engine)), &mut rng));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no check panics while it holds the list");
    assert!(failures.is_empty(), "{} broken promises:\n{}", failures.len(), failures.join("\n\n"));
    let compacted = compacted.into_inner();
    println!("{histories} histories through {} engines: {compacted} compactions", good.len());
    if alone.is_none() {
        // If hardly anything is compacted, the promises are upheld by doing nothing.
        assert!(compacted >= histories / 2, "only {compacted} compactions in {histories} histories");
    }
}
