//! Processes of these tests: each is this very program, told by its environment what to do with which store.

use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The variable that holds a worker's order.
const ORDER: &str = "PALIMPSEST_STORE_WORKER";
/// The mark of a line that a worker says to its parent; the test harness prints lines of its own.
const MARK: &str = "worker: ";

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Everything that a store can do, in any order, until it is killed.
    Mix,
    /// Appends.
    Append,
    /// Compacts.
    Compact,
    /// Compacts as a live session does.
    CompactLive,
    /// Reads and searches.
    Read,
    /// Takes the lease, and compacts under it when it is told to.
    Hold,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) task: Task,
    pub(crate) store: PathBuf,
    pub(crate) seed: u64,
    /// How long it works, where it ends by itself.
    pub(crate) seconds: u64,
    /// How long its leases last.
    pub(crate) lease_ms: u64,
}

/// A running worker; it is killed with this.
pub(crate) struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
}

impl Worker {
    pub(crate) fn start(order: &Order) -> Worker {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["worker::works_as_ordered", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ORDER, serde_json::to_string(order).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Worker { child, lines: BufReader::new(stdout).lines(), stdin }
    }

    /// Waits for the next line that the worker says; none when it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        // The last line of a killed worker may be half a line, and then it was not said.
        self.lines.by_ref().map_while(Result::ok).find_map(|line| line.strip_prefix(MARK).map(str::to_owned))
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Kills it where it stands and returns what it had said until then.
    pub(crate) fn kill(&mut self) -> Vec<String> {
        // One that has ended already cannot be killed, and has said all.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.line()).collect()
    }

    /// Waits until it ends by itself and returns what it said.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let said = std::iter::from_fn(|| self.line()).collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a worker ended with {status}");
        said
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says a line to the parent. It is in the pipe when this returns, whatever becomes of this process.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The harness may have left half a line.
    writeln!(out, "\n{MARK}{line}").unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "the other tests run this in processes of its own"]
fn works_as_ordered() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let order: Order = serde_json::from_str(&order).unwrap();
    match order.task {
        Task::Mix => crate::mix::run(&order),
        Task::Append => crate::two::append(&order),
        Task::Compact => crate::two::compact(&order),
        Task::CompactLive => crate::two::compact_live(&order),
        Task::Read => crate::two::read(&order),
        Task::Hold => crate::two::hold(&order),
    }
}
