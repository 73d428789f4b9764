//! One checked thing and how it stands: what `doctor` and `engines verify` print.

use crate::safe;
use crate::ui::{dim, green, red, yellow};
use serde::Serialize;

/// How a checked thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mark {
    /// It is right.
    Good,
    /// It works, and should be looked at.
    Odd,
    /// It does not work.
    Bad,
}

/// One checked thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) mark: Mark,
    pub(crate) what: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) fix: String,
}

impl Check {
    /// Makes a check that holds.
    pub(crate) fn good(what: impl Into<String>) -> Check {
        Check { mark: Mark::Good, what: what.into(), why: String::new(), fix: String::new() }
    }

    /// Makes a check that should be looked at.
    pub(crate) fn odd(what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { mark: Mark::Odd, what: what.into(), why: why.into(), fix: fix.into() }
    }

    /// Makes a check that does not hold.
    pub(crate) fn bad(what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { mark: Mark::Bad, ..Check::odd(what, why, fix) }
    }

    /// Returns the check as lines; those after the first are further in.
    pub(crate) fn text(&self, indent: usize) -> String {
        let mark = match self.mark {
            Mark::Good => green("✓"),
            Mark::Odd => yellow("!"),
            Mark::Bad => red("✗"),
        };
        let space = " ".repeat(indent);
        let mut out = format!("{mark} {}\n", safe::line(&self.what));
        if !self.why.is_empty() {
            out.push_str(&format!("{space}  why: {}\n", safe::line(&self.why)));
        }
        if !self.fix.is_empty() {
            out.push_str(&format!("{space}  {}\n", dim(&format!("fix: {}", safe::line(&self.fix)))));
        }
        out
    }
}

/// Counts the checks that do not hold, and those to look at.
pub(crate) fn tally<'a>(checks: impl IntoIterator<Item = &'a Check>) -> (usize, usize) {
    checks.into_iter().fold((0, 0), |(bad, odd), check| match check.mark {
        Mark::Good => (bad, odd),
        Mark::Odd => (bad, odd + 1),
        Mark::Bad => (bad + 1, odd),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_shown_with_cause_and_fix() {
        let checks = [Check::good("fine"), Check::bad("broken \u{7}", "because", "mend it"), Check::odd("odd", "", "")];
        let text: String = checks.iter().map(|check| check.text(2)).collect();
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain, "✓ fine\n✗ broken \\u{7}\n    why: because\n    fix: mend it\n! odd\n");
        assert_eq!(tally(&checks), (1, 1));
    }
}
