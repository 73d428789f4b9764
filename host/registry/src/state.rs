//! The one word that says how an engine stands, the same in listings, metrics, headers and receipts.

/// How an engine stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// It can be selected.
    Ready,
    /// `context.engine` names it and it runs.
    Selected,
    /// The configuration switches it off.
    Disabled,
    /// An engine of the same name comes earlier in the search path.
    Shadowed,
    /// Its contract version or its platform is not this host's.
    Incompatible,
    /// A library, or a plugin, but not a context engine.
    NotAnEngine,
    /// Its library cannot be read as one: damaged, cut short, for another machine.
    Unreadable,
    /// It ended the process that tried it.
    CrashedOnProbe,
    /// It did not answer in time.
    TimedOut,
    /// Nobody approved these bytes, or other users could change them.
    Untrusted,
    /// It failed too often while it ran.
    Quarantined,
    /// It is configured or described, and not there.
    Missing,
    /// Its name or its manifest has a fault.
    Invalid,
}

impl State {
    /// Returns the word written in every output.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Selected => "selected",
            State::Disabled => "disabled",
            State::Shadowed => "shadowed",
            State::Incompatible => "incompatible",
            State::NotAnEngine => "not-an-engine",
            State::Unreadable => "unreadable",
            State::CrashedOnProbe => "crashed-on-probe",
            State::TimedOut => "timed-out",
            State::Untrusted => "untrusted",
            State::Quarantined => "quarantined",
            State::Missing => "missing",
            State::Invalid => "invalid",
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // `pad` keeps the columns of a listing straight.
        f.pad(self.as_str())
    }
}
