//! The load: connections that each carry one agent's conversation, which grows by a turn with each request.

use crate::provider::find;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A turn of a conversation, in bytes.
const TURN_BYTES: usize = 2_000;
/// A conversation begins anew when it is this much larger than it should be.
const GROWTH: f64 = 1.1;

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Bytes of a request, about.
    pub(crate) size: usize,
    pub(crate) is_stream: bool,
    /// Connections at the same time.
    pub(crate) at_once: usize,
    pub(crate) seconds: f64,
    /// Requests name their session.
    pub(crate) is_named: bool,
}

/// What was seen; times in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) requests: usize,
    pub(crate) failures: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) first_p50: f64,
    pub(crate) rate: f64,
}

impl Load {
    /// Sends for as long as the load says.
    pub(crate) fn run(&self, address: &str) -> Outcome {
        self.go(address, usize::MAX)
    }

    /// Sends so many requests in all.
    pub(crate) fn run_requests(&self, address: &str, most: usize) -> Outcome {
        self.go(address, most)
    }

    fn go(&self, address: &str, most: usize) -> Outcome {
        let sent = Arc::new(AtomicUsize::new(0));
        let started = Instant::now();
        let until = started + Duration::from_secs_f64(self.seconds);
        let workers: Vec<_> = (0..self.at_once)
            .map(|worker| {
                let (load, address, sent) = (*self, address.to_owned(), Arc::clone(&sent));
                std::thread::spawn(move || work(&load, &address, worker, until, &sent, most))
            })
            .collect();
        let mut times = Vec::new();
        let mut firsts = Vec::new();
        let mut failures = 0;
        for worker in workers {
            let (mut own, mut first, failed) = worker.join().unwrap();
            times.append(&mut own);
            firsts.append(&mut first);
            failures += failed;
        }
        let elapsed = started.elapsed().as_secs_f64();
        times.sort_by(f64::total_cmp);
        firsts.sort_by(f64::total_cmp);
        let at = |times: &[f64], share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(0.0);
        Outcome {
            requests: times.len(),
            failures,
            p50: at(&times, 0.5),
            p99: at(&times, 0.99),
            first_p50: at(&firsts, 0.5),
            rate: times.len() as f64 / elapsed,
        }
    }
}

type Seen = (Vec<f64>, Vec<f64>, usize);

fn work(load: &Load, address: &str, worker: usize, until: Instant, sent: &AtomicUsize, most: usize) -> Seen {
    let (mut times, mut firsts, mut failures) = (Vec::new(), Vec::new(), 0);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut talk = Talk::new(load, worker, 0);
    let mut nth = 0;
    while Instant::now() < until && sent.fetch_add(1, Ordering::Relaxed) < most {
        if talk.body.len() > (load.size as f64 * GROWTH) as usize {
            nth += 1;
            talk = Talk::new(load, worker, nth);
        }
        talk.grow();
        let request = talk.request();
        let started = Instant::now();
        let answered = stream.write_all(&request).and_then(|()| answer(&mut stream, started));
        match answered {
            Ok((first, true)) => {
                times.push(started.elapsed().as_secs_f64() * 1e3);
                firsts.push(first);
            }
            _ => {
                failures += 1;
                stream = TcpStream::connect(address).unwrap();
            }
        }
    }
    (times, firsts, failures)
}

/// Reads an answer whole; returns when its first byte came, and whether it is a good one.
fn answer(stream: &mut TcpStream, started: Instant) -> std::io::Result<(f64, bool)> {
    let mut buffer = [0_u8; 64 * 1024];
    let mut text = Vec::new();
    let mut first = 0.0;
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok((first, false));
        }
        if text.is_empty() {
            first = started.elapsed().as_secs_f64() * 1e3;
        }
        text.extend_from_slice(&buffer[..read]);
        let Some(end) = find(&text, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        let is_good = head.starts_with("http/1.1 200");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|text| text.trim().parse::<usize>().ok());
        let is_whole = match length {
            Some(length) => text.len() >= end + 4 + length,
            None => text.ends_with(b"0\r\n\r\n"),
        };
        if is_whole {
            return Ok((first, is_good));
        }
    }
}

/// A conversation; its body is kept as text that grows at its end.
struct Talk {
    head: String,
    body: String,
    turns: usize,
    seed: u64,
}

impl Talk {
    fn new(load: &Load, worker: usize, nth: usize) -> Talk {
        let seed = (worker as u64) << 32 | nth as u64;
        let session = if load.is_named {
            format!("x-palimpsest-session: s-{worker}-{nth}-{}\r\n", load.size)
        } else {
            String::new()
        };
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nauthorization: Bearer sk-bench\r\n{session}"
        );
        let tools: Vec<String> = (0..12)
            .map(|tool| format!("{{\"type\":\"function\",\"function\":{{\"name\":\"tool_{tool}\",\"description\":\"{}\",\"parameters\":{{\"type\":\"object\",\"properties\":{{\"path\":{{\"type\":\"string\"}}}}}}}}}}", "Does one thing and says how. ".repeat(if load.size > 20_000 { 25 } else { 4 })))
            .collect();
        let system =
            "You are a careful agent that works in a repository. ".repeat(if load.size > 20_000 { 150 } else { 30 });
        let body = format!(
            "{{\"model\":\"bench\",\"stream\":{},\"tools\":[{}],\"messages\":[{{\"role\":\"system\",\"content\":\"{system}\"}},{{\"role\":\"user\",\"content\":\"Task {seed}: find the fault.\"}}",
            load.is_stream,
            tools.join(",")
        );
        let mut talk = Talk { head, body, turns: 0, seed };
        while talk.body.len() + TURN_BYTES < load.size {
            talk.grow();
        }
        talk
    }

    /// Adds a call of a tool and its result.
    fn grow(&mut self) {
        self.turns += 1;
        let (turn, seed) = (self.turns, self.seed);
        self.body.push_str(&format!(",{{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{{\"id\":\"call_{turn}\",\"type\":\"function\",\"function\":{{\"name\":\"tool_{}\",\"arguments\":\"{{\\\"path\\\":\\\"src/part_{turn}.rs\\\"}}\"}}}}]}},{{\"role\":\"tool\",\"tool_call_id\":\"call_{turn}\",\"content\":\"", turn % 12));
        let mut line = 0_u64;
        let start = self.body.len();
        while self.body.len() - start < TURN_BYTES - 300 {
            line += 1;
            let value = (seed ^ (turn as u64 * 7_919 + line)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            self.body
                .push_str(&format!("    let value_{line} = compute({value}, &state.part_{turn})?; // step {line}\\n"));
        }
        self.body.push_str("\"}");
    }

    fn request(&self) -> Vec<u8> {
        let mut out = format!("{}content-length: {}\r\n\r\n", self.head, self.body.len() + 2).into_bytes();
        out.extend_from_slice(self.body.as_bytes());
        out.extend_from_slice(b"]}");
        out
    }
}
