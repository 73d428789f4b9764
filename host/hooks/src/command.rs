//! Runs a command with an event on its standard input, and ends it when it takes too long.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(10);

/// Runs a command to its end. The error says in one line what went wrong.
pub(crate) fn run(
    program: &str,
    arguments: &[String],
    event: &str,
    timeout: Duration,
    is_over: &dyn Fn() -> bool,
) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        // The output of the program that the event is of must stay its own.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("could not be started: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // An event is far smaller than a pipe holds, so this does not wait; a command need not read it.
        let _ = stdin.write_all(event.as_bytes());
    }
    wait(&mut child, timeout, is_over)
}

fn wait(child: &mut Child, timeout: Duration, is_over: &dyn Fn() -> bool) -> Result<(), String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("ended with {status}")),
            Ok(None) => {}
            Err(error) => return Err(format!("could not be waited for: {error}")),
        }
        let why = if started.elapsed() >= timeout {
            format!("took longer than {} s and was ended", timeout.as_secs_f64())
        } else if is_over() {
            "was ended: the program ends".to_owned()
        } else {
            std::thread::sleep(POLL);
            continue;
        };
        let _ = child.kill();
        // Without this the ended process stays in the system's table.
        let _ = child.wait();
        return Err(why);
    }
}
