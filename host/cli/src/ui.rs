//! The one way out: results on standard output, everything else on standard error, colours where they are wanted.

use crate::args::{Color, Global};
use crate::error::{CliError, Kind};
use crate::safe;
use anstream::{AutoStream, ColorChoice};
use owo_colors::OwoColorize as _;
use serde::Serialize;
use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal as _, Write};

/// Bytes gathered before they are handed to the system; a conversation is written in few calls.
const BUFFER_BYTES: usize = 256 * 1024;

/// Where a command prints.
pub(crate) struct Ui {
    is_json: bool,
    is_quiet: bool,
    choice: ColorChoice,
    has_printed: Cell<bool>,
}

impl Ui {
    /// Makes the way out that the options ask for.
    pub(crate) fn new(global: &Global) -> Ui {
        let choice = match global.color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        Ui { is_json: global.json, is_quiet: global.quiet, choice, has_printed: Cell::new(false) }
    }

    /// Tells whether the result is one JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Tells whether only results and errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Tells whether a question would reach a person who can answer it.
    pub(crate) fn can_ask(&self) -> bool {
        !self.is_json && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Prints a part of the result.
    pub(crate) fn out(&self, text: &str) -> Result<(), CliError> {
        self.has_printed.set(true);
        let mut stream = AutoStream::new(io::stdout(), self.choice);
        stream
            .write_all(safe::styled(text).as_bytes())
            .and_then(|()| stream.flush())
            .map_err(|error| stdout_error(&error))
    }

    /// Prints the bytes of a conversation as they are; a terminal gets them without what could steer it.
    pub(crate) fn document(&self, text: &str) -> Result<(), CliError> {
        self.has_printed.set(true);
        let mut stdout = io::stdout();
        let written = if stdout.is_terminal() {
            stdout.write_all(safe::block(text).as_bytes()).and_then(|()| stdout.write_all(b"\n"))
        } else {
            stdout.write_all(text.as_bytes())
        };
        written.and_then(|()| stdout.flush()).map_err(|error| stdout_error(&error))
    }

    /// Prints the result as a JSON document.
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Result<(), CliError> {
        self.has_printed.set(true);
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
        serde_json::to_writer_pretty(&mut out, value).map_err(|error| match error.io_error_kind() {
            Some(kind) => stdout_error(&kind.into()),
            None => CliError::internal("the result could not be written as JSON").because(&error),
        })?;
        out.write_all(b"\n").and_then(|()| out.flush()).map_err(|error| stdout_error(&error))
    }

    /// Says something beside the result.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet {
            self.say(text);
        }
    }

    /// Warns of something that did not stop the command.
    pub(crate) fn warn(&self, text: &str) {
        self.note(&format!("{} {}", bold(&yellow("warning:")), safe::line(text)));
    }

    /// Asks for a yes.
    pub(crate) fn asks(&self, question: &str) -> bool {
        let mut stream = AutoStream::new(io::stderr(), self.choice);
        let _ = write!(stream, "{} [y/N] ", safe::styled(question));
        let _ = stream.flush();
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }

    /// Tells a person, or the reader of the JSON document, why the command failed.
    pub(crate) fn error(&self, error: &CliError) {
        match error.kind {
            Kind::NobodyReads => {}
            // A second document on standard output would be worse than none.
            _ if self.is_json && !self.has_printed.get() => {
                if self.json(&serde_json::json!({ "error": error })).is_err() {
                    self.say(&error.text());
                }
            }
            _ => self.say(&error.text()),
        }
    }

    fn say(&self, text: &str) {
        let mut stream = AutoStream::new(io::stderr(), self.choice);
        let text = safe::styled(text);
        // Whoever closed standard error does not want to know.
        let _ = stream.write_all(text.as_bytes());
        if !text.ends_with('\n') {
            let _ = stream.write_all(b"\n");
        }
        let _ = stream.flush();
    }
}

fn stdout_error(error: &io::Error) -> CliError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CliError { kind: Kind::NobodyReads, ..CliError::user("nobody reads the output") };
    }
    CliError::user("could not write to standard output").because(error)
}

/// Makes a text bold.
pub(crate) fn bold(text: &str) -> String {
    text.bold().to_string()
}
/// Makes a text red: what is wrong.
pub(crate) fn red(text: &str) -> String {
    text.red().to_string()
}
/// Makes a text yellow: what is odd.
pub(crate) fn yellow(text: &str) -> String {
    text.yellow().to_string()
}
/// Makes a text green: what is right.
pub(crate) fn green(text: &str) -> String {
    text.green().to_string()
}
/// Makes a text faint: what is beside the point.
pub(crate) fn dim(text: &str) -> String {
    text.dimmed().to_string()
}
