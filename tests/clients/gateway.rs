//! The gateway as its own program, with a home of its own.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use support::fixtures::Fixture;
use tempfile::TempDir;

/// A gateway that runs; it ends when it is dropped.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) origin: String,
    _home: TempDir,
}

impl Gateway {
    /// Starts a gateway with these settings in front of a provider.
    pub(crate) fn start(settings: &str, upstream: &str) -> Gateway {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config.yaml");
        std::fs::write(&config, settings).unwrap();
        let mut child = Command::new(Fixture::Program.path())
            .args(["gateway", "--json", "--listen", "127.0.0.1:0", "--upstream", upstream, "--config"])
            .arg(&config)
            .arg("--home")
            .arg(home.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        let origin = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the gateway ended: {text}");
            text.push_str(&line);
            if let Ok(told) = serde_json::from_str::<Value>(&text) {
                break told["listening"].as_str().unwrap().to_owned();
            }
        };
        Gateway { child, origin, _home: home }
    }

    /// Returns how many compactions it counts.
    pub(crate) fn compactions(&self) -> u64 {
        self.count("palimpsest_compactions_total")
    }

    /// Returns how many compactions of clients it has answered.
    pub(crate) fn native(&self) -> u64 {
        self.count("palimpsest_native_compactions_total")
    }

    /// Returns what was decided, a line for each compaction.
    pub(crate) fn told(&self) -> String {
        let json = |path: &str| serde_json::from_str::<Value>(&self.get(path)).unwrap_or_default();
        let mut out = String::new();
        for session in json("/palimpsest/sessions")["sessions"].as_array().into_iter().flatten() {
            let name = session["name"].as_str().unwrap_or_default();
            out.push_str(&format!("{name}: {} messages\n", session["messages"]));
            let about = json(&format!("/palimpsest/sessions/{name}"));
            for receipt in about["receipts"].as_array().into_iter().flatten() {
                let of = |key: &str| receipt[key].clone();
                out.push_str(&format!(
                    "  {} -> {}, target {}, {}: {} {}\n",
                    of("tokens_before"),
                    of("tokens_after"),
                    of("target_tokens"),
                    of("rung"),
                    of("reason"),
                    of("fallbacks")
                ));
            }
        }
        out
    }

    fn count(&self, name: &str) -> u64 {
        let text = self.get("/metrics");
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.origin.trim_start_matches("http://")).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
