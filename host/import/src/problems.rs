//! What went wrong while a file was read, without stopping the reading: a capped list, then a count.

use serde::Serialize;

/// Most problems kept with their text; a file of a million bad lines must not become a list of a million strings.
pub const PROBLEMS_MAX: usize = 1_000;

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Odd, and nothing was lost by it.
    Note,
    /// Odd enough that the reading may differ from what the program had in mind.
    Warning,
    /// Content of the file is missing from the result.
    Lost,
}

/// One thing that was wrong with the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Line of the unpacked file, from 1, where it is known.
    pub line: Option<u64>,
    /// How much it matters.
    pub severity: Severity,
    /// What was wrong and what was done.
    pub what: String,
}

/// Collects problems up to [`PROBLEMS_MAX`] and counts the rest.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) list: Vec<Problem>,
    pub(crate) suppressed: u64,
}

impl Problems {
    pub(crate) fn note(&mut self, line: Option<u64>, what: impl FnOnce() -> String) {
        self.add(line, Severity::Note, what);
    }
    pub(crate) fn warn(&mut self, line: Option<u64>, what: impl FnOnce() -> String) {
        self.add(line, Severity::Warning, what);
    }
    pub(crate) fn lost(&mut self, line: Option<u64>, what: impl FnOnce() -> String) {
        self.add(line, Severity::Lost, what);
    }
    // The text is made only when it is kept.
    fn add(&mut self, line: Option<u64>, severity: Severity, what: impl FnOnce() -> String) {
        if self.list.len() < PROBLEMS_MAX {
            self.list.push(Problem { line, severity, what: what() });
        } else {
            self.suppressed = self.suppressed.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_beyond_the_cap_are_counted_and_not_kept() {
        let mut problems = Problems::default();
        for line in 0..PROBLEMS_MAX as u64 + 5 {
            problems.note(Some(line), || "x".to_owned());
        }
        assert_eq!((problems.list.len(), problems.suppressed), (PROBLEMS_MAX, 5));
    }
}
