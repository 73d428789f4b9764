//! The access log: one line of JSON for each request, without a word of a conversation and without a key.

use crate::metrics::Metrics;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{LineWriter, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Lines that wait to be written; further ones are counted and lost, since no request waits for a log.
const WAITING_MAX: usize = 4_096;

/// One line.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) time: String,
    pub(crate) request: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) session: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) client: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) provider: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) action: String,
    pub(crate) request_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) overhead_ms: f64,
    pub(crate) elapsed_ms: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) problem: String,
}

/// Where lines go.
pub(crate) struct AccessLog {
    lines: Option<SyncSender<String>>,
}

impl AccessLog {
    /// Opens the log that the settings name: `stderr`, `off` or a file.
    pub(crate) fn open(setting: &str) -> std::io::Result<AccessLog> {
        let out: Box<dyn Write + Send> = match setting.trim() {
            "off" | "" => return Ok(AccessLog { lines: None }),
            "stderr" => Box::new(LineWriter::new(std::io::stderr())),
            path => {
                let mut options = OpenOptions::new();
                options.create(true).append(true);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                Box::new(LineWriter::new(options.open(path)?))
            }
        };
        let (lines, waiting) = sync_channel(WAITING_MAX);
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || write(out, &waiting))?;
        Ok(AccessLog { lines: Some(lines) })
    }

    /// Tells whether lines are wanted at all.
    pub(crate) fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// Writes a line, or counts it as lost.
    pub(crate) fn write(&self, line: &Line, metrics: &Arc<Metrics>) {
        let Some(lines) = &self.lines else { return };
        let Ok(text) = serde_json::to_string(line) else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = lines.try_send(text) {
            metrics.log_lines_lost.inc();
        }
    }
}

fn write(mut out: Box<dyn Write + Send>, waiting: &Receiver<String>) {
    while let Ok(line) = waiting.recv() {
        // A log that cannot be written must not stop the gateway.
        let _ = writeln!(out, "{line}");
    }
    let _ = out.flush();
}
