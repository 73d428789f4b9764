//! The settings as a table: names, what other engines call the same, ranges and defaults.

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A whole number.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// Whether 0 is taken too, with a meaning of its own.
        is_zero_allowed: bool,
    },
    /// A part of something, as a fraction.
    Share {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
        /// Whether 0 is taken too, with a meaning of its own.
        is_zero_allowed: bool,
    },
    /// A depth of summaries; -1 or `none` for none.
    Depth,
    /// A list of patterns of sessions.
    Globs,
    /// A list of regular expressions.
    Expressions,
    /// The shape of answers.
    Dialect,
}

/// A setting.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What peers call the same thing.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// The default as a user writes it.
    pub default: &'static str,
}

const fn count(least: u64, most: u64, is_zero_allowed: bool) -> Kind {
    Kind::Count { least, most, is_zero_allowed }
}

/// Every setting. `fan_in` stands last of its kind in no order that matters: a file names one or the other.
pub const KEYS: [Key; 16] = [
    Key {
        name: "context_threshold",
        aliases: &["contextThreshold"],
        kind: Kind::Share { least: 0.05, most: 0.95, is_zero_allowed: true },
        default: "0",
    },
    Key {
        name: "soft_threshold",
        aliases: &[],
        kind: Kind::Share { least: 0.3, most: 1.0, is_zero_allowed: false },
        default: "0.8",
    },
    Key {
        name: "low_water",
        aliases: &[],
        kind: Kind::Share { least: 0.1, most: 0.9, is_zero_allowed: false },
        default: "0.3",
    },
    Key {
        name: "fresh_tail_tokens",
        aliases: &["fresh_tail_max_tokens", "freshTailMaxTokens"],
        kind: count(1_000, 2_000_000, true),
        default: "0",
    },
    Key {
        name: "fresh_tail_messages_min",
        aliases: &["fresh_tail_count", "freshTailCount"],
        kind: count(1, 10_000, false),
        default: "8",
    },
    Key { name: "leaf_chunk_tokens", aliases: &["leafChunkTokens"], kind: count(1_000, 400_000, true), default: "0" },
    Key { name: "leaf_fan_in", aliases: &["leafMinFanout"], kind: count(2, 64, false), default: "8" },
    Key { name: "condensed_fan_in", aliases: &["condensedMinFanout"], kind: count(2, 64, false), default: "4" },
    Key { name: "fan_in", aliases: &["condensation_fanin"], kind: count(2, 64, false), default: "as the two above" },
    Key {
        name: "large_result_tokens",
        aliases: &["largeFileTokenThreshold", "large_file_threshold"],
        kind: count(500, 2_000_000, true),
        default: "25000",
    },
    Key { name: "new_session_retain_depth", aliases: &["newSessionRetainDepth"], kind: Kind::Depth, default: "2" },
    Key { name: "ignore_session_patterns", aliases: &["ignoreSessionPatterns"], kind: Kind::Globs, default: "[]" },
    Key {
        name: "stateless_session_patterns",
        aliases: &["statelessSessionPatterns", "read_only_session_patterns"],
        kind: Kind::Globs,
        default: "[]",
    },
    Key {
        name: "ignore_message_patterns",
        aliases: &["ignoreMessagePatterns"],
        kind: Kind::Expressions,
        default: "[]",
    },
    Key { name: "tools.dialect", aliases: &["tools_dialect"], kind: Kind::Dialect, default: "hermes" },
    Key { name: "map_concurrency", aliases: &[], kind: count(1, 16, false), default: "16" },
];
