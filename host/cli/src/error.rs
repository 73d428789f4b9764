//! What a command that failed says: the error, what caused it, and what to do, with the exit code that fits.

use crate::safe;
use crate::ui::{bold, red};
use serde::Serialize;
use std::error::Error;
use std::path::Path;

/// Causes that are followed; a longer chain goes in a circle.
const CAUSES_MAX: usize = 8;

/// Whose fault it is, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What was asked for cannot be had: a bad file, an unknown name.
    User,
    /// The command line itself is wrong.
    Usage,
    /// A fault of the program.
    Internal,
    /// Nobody reads what is printed, so there is nothing to say.
    NobodyReads,
}

/// Why a command failed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CliError {
    #[serde(skip)]
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hint: Option<String>,
}

impl CliError {
    /// Makes an error in what was asked for or in its data.
    pub(crate) fn user(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::User, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// Makes an error in the command line.
    pub(crate) fn usage(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::Usage, ..CliError::user(message) }
    }

    /// Makes an error of the program.
    pub(crate) fn internal(message: impl Into<String>) -> CliError {
        CliError {
            kind: Kind::Internal,
            ..CliError::user(message)
                .hint("this is a fault of palimpsest; please report it with the command that led to it")
        }
    }

    /// Adds an error and what caused it. What a message says already is not said again.
    pub(crate) fn because(mut self, error: &dyn Error) -> CliError {
        let mut next = Some(error);
        while let Some(error) = next.filter(|_| self.causes.len() < CAUSES_MAX) {
            self = self.cause(error.to_string());
            next = error.source();
        }
        self
    }

    /// Adds a cause.
    pub(crate) fn cause(mut self, cause: impl Into<String>) -> CliError {
        let cause = cause.into();
        let last = self.causes.last().unwrap_or(&self.message);
        if !cause.is_empty() && !last.contains(&cause) {
            self.causes.push(cause);
        }
        self
    }

    /// Adds what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }

    /// Makes the error of a file that could not be used.
    pub(crate) fn io(what: &str, path: &Path, error: &std::io::Error) -> CliError {
        CliError::user(format!("could not {what} {}", path.display())).because(error)
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        match self.kind {
            Kind::NobodyReads => 0,
            Kind::User => 1,
            Kind::Usage => 2,
            Kind::Internal => 255,
        }
    }

    /// Returns the error as lines for a person.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("{} {}\n", bold(&red("error:")), safe::line(&self.message));
        for cause in &self.causes {
            out.push_str(&format!("{} {}\n", bold("caused by:"), safe::line(cause)));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("{} {}\n", bold("hint:"), safe::line(hint)));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[derive(Debug)]
    struct Chain(&'static str, Option<Box<Chain>>);
    impl std::fmt::Display for Chain {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }
    impl Error for Chain {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|inner| inner as &dyn Error)
        }
    }

    fn plain(error: &CliError) -> String {
        anstream::adapter::strip_str(&error.text()).to_string()
    }

    #[test]
    fn an_error_says_what_why_and_what_to_do() {
        let inner = Chain("no space left on device", None);
        let outer = Chain("could not write out.json: no space left on device", Some(Box::new(inner)));
        let error = CliError::user("the conversation was not written").because(&outer).hint("free some space");
        expect![[r#"
            error: the conversation was not written
            caused by: could not write out.json: no space left on device
            hint: free some space
        "#]]
        .assert_eq(&plain(&error));
        assert_eq!(error.code(), 1);
    }

    #[test]
    fn an_error_cannot_steer_the_terminal() {
        let error = CliError::user("unknown engine \u{1b}[2J\nerror: fake").hint("\u{7}");
        assert_eq!(plain(&error), "error: unknown engine \\u{1b}[2J\\nerror: fake\nhint: \\u{7}\n");
    }

    #[test]
    fn an_error_in_json_has_its_three_parts() {
        let error = CliError::usage("bad").cause("why");
        assert_eq!(serde_json::to_string(&error).unwrap(), r#"{"message":"bad","causes":["why"],"hint":null}"#);
        assert_eq!((error.code(), CliError::internal("x").code()), (2, 255));
    }
}
