//! Measures redaction: ordinary traffic, and texts made to be slow, beside the figures observed of Hermes 0.19.0.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::io::Read as _;
use std::time::{Duration, Instant};

const RUNS: usize = 7;
/// About 500,000 tokens of agent traffic.
const ORDINARY_BYTES: usize = 2_000_000;

fn smallest(mut work: impl FnMut()) -> Duration {
    let runs = (0..RUNS).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    runs.min().unwrap_or_default()
}

/// The texts of a real session, over and over.
fn ordinary() -> String {
    let path = support::corpus::own_folder().join("anthropic-messages/an-cc-105-user-turns-full.json.gz");
    let mut body = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut body).unwrap();
    body.chars().cycle().take(ORDINARY_BYTES).collect()
}

fn row(name: &str, unit: &str, ours: f64, peer: Option<f64>, goal: Option<(&str, bool)>) {
    let ratio = peer.map(|peer| peer / ours);
    let (goal, met) = goal.map_or((None, None), |(goal, met)| (Some(goal), Some(met)));
    println!(
        "{}",
        serde_json::json!({ "name": name, "unit": unit, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met })
    );
}

/// Its name, what is repeated, and the milliseconds that Hermes took for so many characters of it.
type Slow = (&'static str, String, Option<(f64, usize)>);

fn main() {
    let text = ordinary();
    black_box(host_redact::redact(&text));
    let took = smallest(|| drop(black_box(host_redact::redact(black_box(&text))))).as_secs_f64();
    // Hermes 0.19.0 takes 765 ms of CPU to serialise and redact an unpruned middle of this size, most of it redaction;
    // the goal is for both together.
    row(
        "redact 2 MB of agent traffic",
        "ms",
        took * 1e3,
        Some(765.0),
        Some(("<= 15 ms with serialising", took <= 0.010)),
    );
    row("redact agent traffic", "MB/s", text.len() as f64 / took / 1e6, None, None);

    // Shape, and what Hermes 0.19.0 took for the short form of it (milliseconds, characters).
    let slow: [Slow; 9] = [
        ("'1.2.' repeated, then ' ='", "1.2.".to_owned(), Some((11_126.4, 1_002))),
        ("'a.' repeated, then ' ='", "a.".to_owned(), Some((5_058.3, 1_002))),
        ("'a' repeated, then ' ='", "a".to_owned(), Some((9_221.4, 8_002))),
        ("hex, then ' ='", "0f3a9c".to_owned(), Some((1_544.4, 4_002))),
        ("'eyJ' repeated", "eyJ".to_owned(), None),
        ("'sk-' repeated", "sk-".to_owned(), None),
        ("frames of keys without an end", "-----BEGIN RSA PRIVATE KEY-----".to_owned(), None),
        ("'password=\"' repeated", "password=\"".to_owned(), None),
        ("'://' repeated", "://".to_owned(), None),
    ];
    for (name, piece, peer) in slow {
        let at = |bytes: usize| {
            let text = format!("{} =", piece.repeat(bytes / piece.len()));
            smallest(|| drop(black_box(host_redact::redact(black_box(&text))))).as_secs_f64()
        };
        let (one, four) = (at(1_000_000), at(4_000_000));
        if let Some((peer, chars)) = peer {
            let ours = at(chars) * 1e3;
            row(&format!("redact {name}, {chars} characters"), "ms", ours, Some(peer), None);
        }
        row(&format!("redact 1 MB of {name}"), "ms", one * 1e3, None, None);
        row(
            &format!("  4 MB for 1 MB of {name}"),
            "times",
            four / one,
            None,
            Some(("<= 6 (linear)", four / one <= 6.0)),
        );
    }
}
