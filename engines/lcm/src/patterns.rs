//! Which sessions and messages are left alone: globs over sessions, regular expressions over messages.

use engine_api::MessageView;
use regex::{RegexSet, RegexSetBuilder};

/// A pattern has at most so many bytes, and a list so many patterns.
const PATTERN_BYTES_MAX: usize = 400;
const PATTERNS_MAX: usize = 64;
/// Memory of the compiled expressions.
const MEMORY_MAX: usize = 1 << 20;
/// Bytes of a message's text that are looked at.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A pattern of session names: `*` stands for anything but a colon, `**` for anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    Some,
    Any,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Says what would have been right, if the pattern is empty or too long.
    pub fn new(pattern: &str) -> Result<Glob, String> {
        let pattern = pattern.trim();
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!("a list of patterns of 1 to {PATTERN_BYTES_MAX} bytes"));
        }
        let mut tokens: Vec<Token> = Vec::new();
        for character in pattern.chars() {
            match (character, tokens.last_mut()) {
                ('*', Some(last @ (Token::Some | Token::Any))) => *last = Token::Any,
                ('*', _) => tokens.push(Token::Some),
                (other, _) => tokens.push(Token::Char(other)),
            }
        }
        Ok(Glob { tokens })
    }

    /// Tells whether the whole name matches. The time is the product of both lengths at most.
    pub fn matches(&self, name: &str) -> bool {
        // reached[i]: the first i tokens match what was read so far.
        let mut reached = vec![false; self.tokens.len() + 1];
        if let Some(first) = reached.first_mut() {
            *first = true;
        }
        let skip = |reached: &mut Vec<bool>| {
            for (at, token) in self.tokens.iter().enumerate() {
                let from = reached.get(at).copied().unwrap_or(false);
                if let (true, Token::Some | Token::Any, Some(next)) = (from, token, reached.get_mut(at + 1)) {
                    *next = true;
                }
            }
        };
        skip(&mut reached);
        for character in name.chars() {
            let mut next = vec![false; reached.len()];
            for (at, token) in self.tokens.iter().enumerate() {
                if !reached.get(at).copied().unwrap_or(false) {
                    continue;
                }
                // A character moves on; a star stays where it is and may take more.
                let to = match token {
                    Token::Char(wanted) if *wanted == character => at + 1,
                    Token::Any => at,
                    Token::Some if character != ':' => at,
                    _ => continue,
                };
                if let Some(slot) = next.get_mut(to) {
                    *slot = true;
                }
            }
            skip(&mut next);
            reached = next;
        }
        reached.last().copied().unwrap_or(false)
    }
}

/// Tells whether any pattern matches the session: its id, its platform, or `platform:id`.
pub(crate) fn is_named(globs: &[Glob], session_id: &str, platform: &str) -> bool {
    let joined = format!("{platform}:{session_id}");
    globs.iter().any(|glob| {
        glob.matches(session_id) || !platform.is_empty() && (glob.matches(platform) || glob.matches(&joined))
    })
}

/// Regular expressions for messages that summaries leave out.
#[derive(Debug, Clone, Default)]
pub struct MessagePatterns {
    sources: Vec<String>,
    set: Option<RegexSet>,
}

impl PartialEq for MessagePatterns {
    fn eq(&self, other: &Self) -> bool {
        self.sources == other.sources
    }
}

impl MessagePatterns {
    /// Compiles expressions.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub fn new(patterns: &[&str]) -> Result<MessagePatterns, String> {
        if patterns.len() > PATTERNS_MAX || patterns.iter().any(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
            return Err(format!("at most {PATTERNS_MAX} patterns of {PATTERN_BYTES_MAX} bytes"));
        }
        let set = RegexSetBuilder::new(patterns).size_limit(MEMORY_MAX).build();
        let set = set.map_err(|_| "a list of regular expressions without look-around".to_string())?;
        Ok(MessagePatterns {
            sources: patterns.iter().map(|pattern| pattern.to_string()).collect(),
            set: (!patterns.is_empty()).then_some(set),
        })
    }

    /// Tells whether a message is left out of summaries. Messages with calls or results never are: they are the work.
    pub(crate) fn leaves_out(&self, message: &MessageView<'_>) -> bool {
        let Some(set) = &self.set else { return false };
        if message.is_summary() || message.calls().next().is_some() || message.results().next().is_some() {
            return false;
        }
        let text = message.text();
        set.is_match(engine_kit::text::prefix(text.trim(), TEXT_BYTES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_stops_at_a_colon_and_two_do_not() {
        for (pattern, name, want) in [
            ("cron", "cron", true),
            ("cron", "crony", false),
            ("cron*", "cron-1", true),
            ("cron*", "cron:1", false),
            ("cron:**", "cron:1:2", true),
            ("cron:*", "cron:1:2", false),
            ("cron:*:*", "cron:1:2", true),
            ("*", "", true),
            ("**", "anything:at all", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("日*", "日本", true),
            ("a*", "b", false),
            ("**x", "a:b:x", true),
        ] {
            assert_eq!(Glob::new(pattern).unwrap().matches(name), want, "{pattern} {name}");
        }
        assert!(Glob::new(" ").is_err() && Glob::new(&"x".repeat(500)).is_err());
        let slow = Glob::new(&"*a".repeat(200)).unwrap();
        assert!(!slow.matches(&"a".repeat(150)));
    }

    #[test]
    fn a_session_is_named_by_its_id_its_platform_or_both() {
        let globs = [Glob::new("telegram:**").unwrap(), Glob::new("cli").unwrap()];
        assert!(is_named(&globs, "42", "telegram") && is_named(&globs, "42", "cli"));
        assert!(!is_named(&globs, "42", "") && !is_named(&globs, "telegram", "web"));
    }
}
