//! A clean place to run the program in: a home of its own, a plugins folder, a fixed environment.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, thread};
use tempfile::TempDir;

/// Longest time that a run may take; a program that hangs fails its test and not the whole suite.
pub const RUN_SECONDS_MAX: u64 = 120;

/// A home, a plugins folder and a work folder, gone when the value is dropped.
#[derive(Debug)]
pub struct TestEnv {
    root: TempDir,
    binary: PathBuf,
}

/// What a run of the program gave.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote, with the folders of the test as `[HOME]`, `[PLUGINS]` and `[WORK]`.
    pub stdout: String,
    /// What it complained of, written likewise.
    pub stderr: String,
}

impl Outcome {
    /// Returns the output of a run that must have worked.
    #[track_caller]
    pub fn success(self) -> String {
        assert!(self.status.success(), "{}\nstdout:\n{}\nstderr:\n{}", self.status, self.stdout, self.stderr);
        self.stdout
    }

    /// Returns the complaint of a run that must have failed with this exit code.
    #[track_caller]
    pub fn failure(self, code: i32) -> String {
        let seen = self.status.code();
        assert!(seen == Some(code), "{}\nstdout:\n{}\nstderr:\n{}", self.status, self.stdout, self.stderr);
        self.stderr
    }
}

impl TestEnv {
    /// Makes the folders; `binary` is the program that [`TestEnv::command`] runs.
    pub fn new(binary: impl Into<PathBuf>) -> io::Result<Self> {
        let env = TestEnv { root: tempfile::Builder::new().prefix("host-tests").tempdir()?, binary: binary.into() };
        for folder in [env.home(), env.plugins(), env.work()] {
            fs::create_dir_all(folder)?;
        }
        Ok(env)
    }

    /// Returns the home folder of the program.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }
    /// Returns the folder in which engines are looked for: `<plugins>/context_engine/<name>` under the work folder.
    pub fn plugins(&self) -> PathBuf {
        self.work().join("plugins")
    }
    /// Returns the folder that the program is run in.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Writes a file of the work folder and returns its path.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.work().join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, content)?;
        Ok(path)
    }

    /// Returns a command of the program with nothing of the developer's own environment in it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(self.work()).env_clear();
        // Without these the system cannot start a program or find libraries built with other toolchains.
        for name in ["SystemRoot", "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("HOME", self.home())
            .env("USERPROFILE", self.home())
            .env("PALIMPSEST_HOME", self.home().join(".palimpsest"))
            .env("TMPDIR", self.root.path())
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env("NO_COLOR", "1")
            .env("TERM", "dumb")
            .env("COLUMNS", "100");
        command
    }

    /// Runs the program with these arguments and no input.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> io::Result<Outcome> {
        self.run_with_input(arguments, Vec::new())
    }

    /// Runs the program with these arguments; `input` is what it reads.
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: impl Into<Vec<u8>>,
    ) -> io::Result<Outcome> {
        let mut command = self.command();
        command.args(arguments);
        self.wait(command, input.into())
    }

    /// Runs a command to its end, or kills it when it takes too long.
    pub fn wait(&self, mut command: Command, input: Vec<u8>) -> io::Result<Outcome> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (sender, receiver) = mpsc::channel();
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input closes it; that is no fault of the run.
            thread::spawn(move || stdin.write_all(&input));
        }
        read_all(child.stdout.take(), 0, &sender);
        read_all(child.stderr.take(), 1, &sender);
        drop(sender);
        let mut outputs = [String::new(), String::new()];
        for _ in 0..outputs.len() {
            match receiver.recv_timeout(Duration::from_secs(RUN_SECONDS_MAX)) {
                Ok((at, bytes)) => outputs[at] = self.neutral(&String::from_utf8_lossy(&bytes)),
                Err(_) => return Err(give_up(child)),
            }
        }
        let [stdout, stderr] = outputs;
        Ok(Outcome { status: child.wait()?, stdout, stderr })
    }

    /// Replaces the folders of this test by names that are the same in every run.
    pub fn neutral(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (folder, name) in [(self.home(), "[HOME]"), (self.plugins(), "[PLUGINS]"), (self.work(), "[WORK]")] {
            // A program may print a folder as it is, or as the system resolves it.
            for path in [fs::canonicalize(&folder).ok(), Some(folder)].into_iter().flatten() {
                text = text.replace(&*path.to_string_lossy(), name);
            }
        }
        text
    }
}

fn read_all(stream: Option<impl Read + Send + 'static>, at: usize, sender: &mpsc::Sender<(usize, Vec<u8>)>) {
    let sender = sender.clone();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What was read before a fault is still worth showing.
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = sender.send((at, bytes));
    });
}

fn give_up(mut child: Child) -> io::Error {
    let _ = child.kill();
    let _ = child.wait();
    io::Error::new(io::ErrorKind::TimedOut, format!("the program ran for more than {RUN_SECONDS_MAX} seconds"))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn shell() -> TestEnv {
        TestEnv::new("/bin/sh").unwrap()
    }

    #[test]
    fn a_program_sees_only_the_environment_of_the_test() {
        let env = shell();
        let out = env.run(["-c", "pwd; echo $HOME $PALIMPSEST_HOME; echo $CARGO_MANIFEST_DIR; ls"]).unwrap().success();
        assert_eq!(out, "[WORK]\n[HOME] [HOME]/.palimpsest\n\nplugins\n");
    }

    #[test]
    fn input_output_and_exit_code_come_through() {
        let env = shell();
        env.write("deep/a.txt", "from file").unwrap();
        let outcome = env.run_with_input(["-c", "cat; cat deep/a.txt; echo oops >&2; exit 3"], "in ").unwrap();
        assert_eq!(outcome.stdout, "in from file");
        assert_eq!(outcome.failure(3), "oops\n");
    }

    #[test]
    fn large_outputs_on_both_streams_do_not_block() {
        let script = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; echo 0123456789 >&2; i=$((i+1)); done";
        let outcome = shell().run_with_input(["-c", script], vec![b'x'; 1 << 20]).unwrap();
        assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (220_000, 220_000));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(TestEnv::new("/no/such/program").unwrap().run(["x"]).is_err());
    }
}
