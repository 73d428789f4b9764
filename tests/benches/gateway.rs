//! The gateway under load beside a minimal pass-through proxy: latency, first byte, CPU, memory, in one run.
//!
//! Bodies are those of a coding agent's conversation that grows by a turn with each request. Everything is on the loopback;
//! the provider, the load and the proxies share the machine, so what counts are differences and ratios.
// A bench is a program: it prints and may fail.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "gateway/load.rs"]
mod load;
#[path = "gateway/peer.rs"]
mod peer;
#[path = "gateway/provider.rs"]
mod provider;

use load::{Load, Outcome};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds for each row of the matrix; `PALIMPSEST_BENCH_SECONDS` sets another.
const SECONDS: f64 = 2.0;
const SIZES: [usize; 4] = [10_000, 48_000, 460_000, 1_370_000];
const AT_ONCE: [usize; 3] = [1, 16, 64];

/// A proxy in a process of its own.
struct Proxy {
    child: Child,
    address: String,
    ready_ms: f64,
    _home: Option<tempfile::TempDir>,
}

impl Proxy {
    fn peer(upstream: &str) -> Proxy {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--peer", upstream]);
        Proxy::start(command, None)
    }

    fn ours(upstream: &str) -> Proxy {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config.yaml");
        // A window in which nothing is compacted: the cost of being there.
        std::fs::write(
            &config,
            "model: {context_length: 100000000}\ngateway: {access_log: 'off', requests_max: 1024}\n",
        )
        .unwrap();
        let mut command = Command::new(program());
        command.args(["gateway", "--listen", "127.0.0.1:0", "--upstream", upstream, "--config"]);
        command.arg(&config).arg("--home").arg(home.path());
        Proxy::start(command, Some(home))
    }

    fn start(mut command: Command, home: Option<tempfile::TempDir>) -> Proxy {
        let started = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        let ready_ms = started.elapsed().as_secs_f64() * 1e3;
        Proxy { child, address, ready_ms, _home: home }
    }

    /// CPU seconds so far.
    fn cpu(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }

    /// Memory in MB: now, and at most.
    fn memory(&self) -> (f64, f64) {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let of = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
        };
        (of("VmRSS:"), of("VmHWM:"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the program in its release form, which is built if it is not there.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("PALIMPSEST_PROGRAM") {
        return path.into();
    }
    let built = Command::new(env!("CARGO")).args(["build", "--release", "-p", "host-cli"]).status().unwrap();
    assert!(built.success());
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("palimpsest")
}

fn row(name: &str, unit: &str, ours: f64, peer: Option<f64>, goal: Option<(f64, bool)>) {
    let ratio = peer.filter(|peer| *peer > 0.0).map(|peer| ours / peer);
    let (text, met) = match goal {
        Some((goal, true)) => (format!("<= {goal}"), Some(ours <= goal)),
        Some((goal, false)) => (format!(">= {goal}"), Some(ours >= goal)),
        None => (String::new(), None),
    };
    println!(
        "{}",
        json!({ "name": name, "unit": unit, "ours": ours, "peer": peer, "ratio": ratio, "goal": text, "met": met })
    );
}

/// Runs a load through a proxy; returns what it saw and the CPU per request in milliseconds.
fn through(proxy: &Proxy, load: &Load) -> (Outcome, f64) {
    let before = proxy.cpu();
    let outcome = load.run(&proxy.address);
    let cpu = (proxy.cpu() - before) * 1e3 / outcome.requests.max(1) as f64;
    (outcome, cpu)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|one| one == "--peer") {
        peer::serve(&arguments[at + 1]);
        return;
    }
    let upstream = provider::start();
    let seconds = std::env::var("PALIMPSEST_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    if let Some(soak) = std::env::var("PALIMPSEST_SOAK_SECONDS").ok().and_then(|text| text.parse::<u64>().ok()) {
        soak_for(&upstream, Duration::from_secs(soak));
        return;
    }
    let ours = Proxy::ours(&upstream);
    row("gateway start to ready", "ms", ours.ready_ms, None, Some((200.0, true)));
    std::thread::sleep(Duration::from_millis(500));
    row("gateway memory idle", "MB", ours.memory().0, None, Some((20.0, true)));
    drop(ours);
    let direct_address = upstream.trim_start_matches("http://").to_owned();
    for size in SIZES {
        for is_stream in [false, true] {
            for at_once in AT_ONCE {
                let load = Load { size, is_stream, at_once, seconds, is_named: true };
                let direct = load.run(&direct_address);
                let peer = Proxy::peer(&upstream);
                let (by_peer, peer_cpu) = through(&peer, &load);
                drop(peer);
                let ours = Proxy::ours(&upstream);
                let (by_ours, cpu) = through(&ours, &load);
                let what = format!("{} KB {} c={at_once}", size / 1_000, if is_stream { "stream" } else { "whole" });
                let cpu_goal = match (size, at_once) {
                    (48_000, 16) => Some((0.6, true)),
                    (460_000, 16) => Some((5.0, true)),
                    (1_370_000, 16) => Some((14.0, true)),
                    _ => None,
                };
                row(&format!("{what}: CPU per request"), "ms", cpu, Some(peer_cpu), cpu_goal);
                let is_goal = size == 48_000 && at_once == 1;
                let added = |ours: f64, direct: f64| (ours - direct).max(0.0);
                let p50 = added(by_ours.p50, direct.p50);
                row(
                    &format!("{what}: added p50"),
                    "ms",
                    p50,
                    Some(added(by_peer.p50, direct.p50)),
                    is_goal.then_some((0.4, true)),
                );
                let p99 = added(by_ours.p99, direct.p99);
                row(
                    &format!("{what}: added p99"),
                    "ms",
                    p99,
                    Some(added(by_peer.p99, direct.p99)),
                    is_goal.then_some((2.0, true)),
                );
                if is_stream {
                    let first = added(by_ours.first_p50, direct.first_p50);
                    row(
                        &format!("{what}: added time to first byte p50"),
                        "ms",
                        first,
                        Some(added(by_peer.first_p50, direct.first_p50)),
                        None,
                    );
                }
                let is_goal = size == 48_000 && at_once == 64 && !is_stream;
                row(
                    &format!("{what}: requests"),
                    "1/s",
                    by_ours.rate,
                    Some(by_peer.rate),
                    is_goal.then_some((1_000.0, false)),
                );
                row(&format!("{what}: memory at most"), "MB", ours.memory().1, None, None);
                assert_eq!(by_ours.failures, 0, "{what}: {} requests failed", by_ours.failures);
            }
        }
    }
    for size in [48_000, 460_000] {
        let load = Load { size, is_stream: false, at_once: 16, seconds, is_named: false };
        let ours = Proxy::ours(&upstream);
        let (outcome, cpu) = through(&ours, &load);
        row(&format!("{} KB without a session's id c=16: CPU per request", size / 1_000), "ms", cpu, None, None);
        assert_eq!(outcome.failures, 0);
    }
    let ours = Proxy::ours(&upstream);
    let load = Load { size: 460_000, is_stream: false, at_once: 16, seconds: 600.0, is_named: true };
    load.run_requests(&ours.address, 10_000);
    row("memory after 10,000 requests of 460 KB", "MB", ours.memory().0, None, Some((80.0, true)));
}

/// Mixes sizes for so long, and prints memory as it goes.
fn soak_for(upstream: &str, time: Duration) {
    let ours = Proxy::ours(upstream);
    let started = Instant::now();
    let mut seen: Vec<f64> = Vec::new();
    for nth in 0.. {
        if started.elapsed() > time {
            break;
        }
        let load = Load { size: SIZES[nth % 3], is_stream: nth % 2 == 0, at_once: 16, seconds: 5.0, is_named: true };
        let outcome = load.run(&ours.address);
        let (now, most) = ours.memory();
        seen.push(now);
        println!(
            "{:6.0} s  {:7.0} requests  {now:6.1} MB now  {most:6.1} MB at most",
            started.elapsed().as_secs_f64(),
            outcome.requests
        );
        assert_eq!(outcome.failures, 0);
    }
    let half = seen.len() / 2;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let (first, last) = (mean(&seen[half / 2..half.max(1)]), mean(&seen[seen.len() - (seen.len() / 4).max(1)..]));
    row("soak: drift of memory, second quarter to last", "%", (last / first - 1.0) * 100.0, None, Some((2.0, true)));
}
