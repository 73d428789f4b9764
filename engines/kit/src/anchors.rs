//! Identifiers lifted word for word from a stretch of conversation: what a summary gets wrong most easily.
//!
//! Paths, issue numbers, commits, branches, error lines, handles, addresses and versions are found in texts, results
//! and the arguments of calls, and ranked by how often and how lately they were named.

mod scan;

use crate::text::{one_line, prefix, suffix};
use engine_api::{Conversation, Flags, MessageView, PartKind};
use std::collections::HashMap;
use std::fmt::Write;

/// How much of a conversation is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Bytes of a text or of a call's arguments; of a longer one the first three quarters and the end.
    pub text_bytes: usize,
    /// Bytes of a result, likewise: logs of megabytes hold few identifiers that matter.
    pub result_bytes: usize,
    /// Bytes in all, newest message first.
    pub total_bytes: usize,
}

impl Default for Reach {
    /// 16 KB of each part, and about a million tokens in all.
    fn default() -> Self {
        Reach { text_bytes: 16 * 1024, result_bytes: 16 * 1024, total_bytes: 4 * 1024 * 1024 }
    }
}

/// Identifiers kept of a class, ordered; more than any reader shows.
const KEPT_MAX: usize = 128;
/// Distinct identifiers remembered of a class; a listing of a huge folder must not fill the memory.
const DISTINCT_MAX: usize = 4_096;
/// A longer find is noise: a data URL, a minified line.
const ANCHOR_BYTES_MAX: usize = 240;

/// A class of identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnchorKind {
    /// A file, by its path or its name with a known ending.
    Path,
    /// An issue or pull request: `#` and digits.
    Issue,
    /// A commit or another long hexadecimal number, or a UUID.
    Commit,
    /// A branch with a customary prefix.
    Branch,
    /// A line that names an error.
    Error,
    /// A web address.
    Url,
    /// A name with `@` before it.
    Handle,
    /// A version of three or more numbers.
    Version,
}

struct Class {
    title: &'static str,
    /// Entries shown at most; those of Hermes' lean mode where it has the class.
    shown_max: usize,
}

/// In the order of [`AnchorKind`].
const CLASSES: [Class; 8] = [
    Class { title: "Files", shown_max: 80 },
    Class { title: "Issues", shown_max: 120 },
    Class { title: "Commits and ids", shown_max: 40 },
    Class { title: "Branches", shown_max: 40 },
    Class { title: "Errors", shown_max: 40 },
    Class { title: "Addresses", shown_max: 30 },
    Class { title: "Handles", shown_max: 40 },
    Class { title: "Versions", shown_max: 30 },
];

/// One identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor<'a> {
    /// What it is.
    pub kind: AnchorKind,
    /// The text as it stands in the conversation.
    pub text: &'a str,
    /// How often it was found.
    pub count: u32,
    /// Position of the newest message that names it.
    pub newest: usize,
}

/// The identifiers of a stretch of conversation.
#[derive(Debug, Default)]
pub struct Anchors<'a> {
    /// By class in the order of [`AnchorKind`], most often named first, then the newest.
    classes: Vec<Vec<Anchor<'a>>>,
}

type Found<'a> = HashMap<&'a str, Anchor<'a>, foldhash::fast::RandomState>;

/// Finds the identifiers in the messages at these positions, which ascend.
pub fn anchors<'a>(conversation: &Conversation<'a>, positions: &[usize]) -> Anchors<'a> {
    anchors_within(conversation, positions, &Reach::default())
}

/// Finds the identifiers in so much of the messages at these positions, which ascend.
pub fn anchors_within<'a>(conversation: &Conversation<'a>, positions: &[usize], reach: &Reach) -> Anchors<'a> {
    let mut found: [Found<'a>; CLASSES.len()] = std::array::from_fn(|_| Found::default());
    let mut scanned = 0;
    for &position in positions.iter().rev() {
        let Some(message) = conversation.get(position) else { continue };
        scanned += scan_message(message, position, reach, &mut found);
        if scanned > reach.total_bytes {
            break;
        }
    }
    let by_weight =
        |a: &Anchor<'_>, b: &Anchor<'_>| b.count.cmp(&a.count).then(b.newest.cmp(&a.newest)).then(a.text.cmp(b.text));
    let classes = found.into_iter().map(|class| {
        let mut list: Vec<Anchor<'a>> = class.into_values().collect();
        if list.len() > KEPT_MAX {
            list.select_nth_unstable_by(KEPT_MAX, by_weight);
            list.truncate(KEPT_MAX);
        }
        list.sort_unstable_by(by_weight);
        list
    });
    Anchors { classes: classes.collect() }
}

fn scan_message<'a>(message: MessageView<'a>, position: usize, reach: &Reach, found: &mut [Found<'a>]) -> usize {
    let mut scanned = 0;
    // An index of an earlier summary says how often it had found each.
    let is_index = message.is_summary() && !message.is_real_user();
    for part in message.parts() {
        let bytes_max = match part.kind() {
            _ if part.flags().has(Flags::DEMOTED) => continue,
            PartKind::Text | PartKind::ToolCall => reach.text_bytes,
            PartKind::ToolResult => reach.result_bytes,
            _ => continue,
        };
        let text = part.text();
        let is_json = part.kind() == PartKind::ToolCall || text.starts_with(['{', '[']);
        let mut scan = |text: &'a str| {
            scanned += text.len();
            scan::scan(text, is_json, |kind, word| {
                let count = if is_index { times(text, word) } else { 1 };
                add(found, Anchor { kind, text: word, count, newest: position });
            });
        };
        if text.len() <= bytes_max {
            scan(text);
        } else {
            scan(prefix(text, bytes_max / 4 * 3));
            scan(suffix(text, bytes_max / 4));
        }
    }
    scanned
}

fn add<'a>(found: &mut [Found<'a>], anchor: Anchor<'a>) {
    if anchor.text.len() > ANCHOR_BYTES_MAX {
        return;
    }
    // The maps stand in the order of the kinds.
    let Some(map) = found.get_mut(anchor.kind as usize) else { return };
    let is_full = map.len() >= DISTINCT_MAX;
    match map.get_mut(anchor.text) {
        Some(known) => known.count = known.count.saturating_add(anchor.count),
        None if is_full => {}
        None => {
            map.insert(anchor.text, anchor);
        }
    }
}

/// Reads what an index says after a word of it: ` (x7)`; 1 if it says nothing.
fn times(text: &str, word: &str) -> u32 {
    let end = (word.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize).wrapping_add(word.len());
    let after = text.get(end..).and_then(|after| after.strip_prefix(" (x"));
    let digits = after.and_then(|after| prefix(after, 10).split(')').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(1)
}

impl<'a> Anchors<'a> {
    /// Returns the identifiers of a class, most often named first, then the newest; at most 128.
    pub fn of(&self, kind: AnchorKind) -> &[Anchor<'a>] {
        self.classes.get(kind as usize).map_or(&[], Vec::as_slice)
    }
    /// Tells whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.classes.iter().all(Vec::is_empty)
    }
    /// Returns an index of at most so many bytes, a line a class; empty if nothing was found or nothing fits.
    ///
    /// Each class gets an equal share first and what the others leave over then, so a thousand paths do not push out
    /// the one error.
    pub fn render(&self, bytes_max: usize) -> String {
        let lines: Vec<(&Class, Vec<String>)> = CLASSES
            .iter()
            .zip(&self.classes)
            .filter(|(_, list)| !list.is_empty())
            .map(|(class, list)| (class, list.iter().take(class.shown_max).map(shown).collect()))
            .collect();
        if lines.is_empty() {
            return String::new();
        }
        let title_bytes = |class: &Class| class.title.len() + 6;
        let wanted: Vec<usize> = lines
            .iter()
            .map(|(class, list)| title_bytes(class) + list.iter().map(|entry| entry.len() + 2).sum::<usize>())
            .collect();
        let cap = crate::shares::level(&wanted.iter().map(|&bytes| bytes as u64).collect::<Vec<_>>(), bytes_max as u64);
        let mut out = String::new();
        for (class, list) in &lines {
            let mut room = usize::try_from(cap).unwrap_or(usize::MAX).saturating_sub(title_bytes(class));
            let mut line = String::new();
            for entry in list {
                if entry.len() + 2 > room {
                    break;
                }
                room -= entry.len() + 2;
                if !line.is_empty() {
                    line.push_str("; ");
                }
                line.push_str(entry);
            }
            if !line.is_empty() {
                let _ = writeln!(out, "- {}: {}", class.title, line);
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

fn shown(anchor: &Anchor<'_>) -> String {
    let text = one_line(anchor.text, 160);
    if anchor.count > 1 { format!("{text} (x{})", anchor.count) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::testing::{assistant, calls, result, user};
    use engine_api::{Message, ViewTable};

    fn index(messages: &[Message], bytes_max: usize) -> String {
        let table = ViewTable::new(1, messages);
        let positions: Vec<usize> = (0..messages.len()).collect();
        anchors(&table.conversation(), &positions).render(bytes_max)
    }

    #[test]
    fn identifiers_are_found_in_texts_results_and_arguments() {
        let got = index(
            &[
                user(1, "see #4312 and ask @lena-k, docs at https://example.org/a/b?x=1."),
                calls(2, &[("c", "bash", r#"{"command":"git checkout fix/login-loop && vim src/auth/session.rs"}"#)]),
                result(3, "c", "bash", "src/auth/session.rs:10\nValueError: bad token 'x'\n1f3a9c2de44\n"),
                assistant(4, "Changed src/auth/session.rs on 2.31.0; nothing was defaced, 1234567 times."),
            ],
            4_000,
        );
        let want = "- Files: src/auth/session.rs (x3)\n- Issues: #4312\n- Commits and ids: 1f3a9c2de44\n\
                    - Branches: fix/login-loop\n- Errors: ValueError: bad token 'x\n\
                    - Addresses: https://example.org/a/b?x=1\n- Handles: @lena-k\n- Versions: 2.31.0";
        assert_eq!(got, want);
    }

    #[test]
    fn escapes_in_arguments_and_wrapped_results_are_no_part_of_a_name() {
        let arguments = r#"{"command":"cat a/b.rs\nls src\\win.py","path":"C:\\w\\x.toml"}"#;
        let got = index(
            &[calls(1, &[("c", "bash", arguments)]), result(2, "c", "bash", r#"{"output":"x\ty/z.go:12:3\n"}"#)],
            4_000,
        );
        assert_eq!(got, "- Files: y/z.go; a/b.rs; win.py; x.toml");
    }

    #[test]
    fn look_alikes_are_passed_over() {
        let text = "e.g. this i.e. that, 3.14, 2024-01-02, a.b.c, #1, #12345678, user@example.org, deadbeef, 12345678, and/or, v1.2, x.rs.";
        assert_eq!(index(&[user(1, text)], 4_000), "- Files: x.rs");
    }

    #[test]
    fn the_index_keeps_to_its_size_and_lets_every_class_in() {
        let listing: String = (0..5_000).map(|n| format!("src/module_{n}/file_{n}.rs\n")).collect();
        let got = index(&[result(1, "c", "bash", &listing), user(2, "TypeError: x is not a function")], 600);
        assert!(got.len() <= 600, "{}", got.len());
        assert!(got.contains("- Errors: TypeError: x is not a function"), "{got}");
        assert!(got.matches("module_").count() > 10);
        assert_eq!(index(&[user(1, "nothing here")], 600), "");
        assert_eq!(index(&[user(1, "a/b.rs")], 3), "");
    }

    #[test]
    fn huge_and_odd_texts_take_linear_time() {
        let start = std::time::Instant::now();
        for text in [
            "a/".repeat(1_000_000),
            "a.".repeat(1_000_000),
            "0".repeat(2_000_000),
            "@#".repeat(500_000),
            "é/".repeat(500_000),
        ] {
            index(&[user(1, &text)], 1_000);
        }
        // A generous bound that only a quadratic search would pass: the scan looks at 16 KB of each text.
        assert!(start.elapsed().as_secs() < 20);
    }
    #[test]
    fn the_counts_of_an_earlier_index_go_on() {
        let mut summary = user(1, "## Anchor Index\n- Files: src/old.rs (x41); src/new.rs (x2)\n- Issues: #4312");
        summary.flags = Flags::SUMMARY.with(Flags::SYNTHETIC);
        let list = [summary, assistant(2, "see src/new.rs (x9) and #4312")];
        assert_eq!(index(&list, 4_000), "- Files: src/old.rs (x41); src/new.rs (x3)\n- Issues: #4312 (x2)");
    }

    #[test]
    fn no_more_is_searched_than_is_reached_for() {
        let messages: Vec<Message> = (0..50)
            .map(|at| {
                result(at + 1, "c", "bash", &format!("src/first_{at}.rs {} src/last_{at}.rs", "word ".repeat(200)))
            })
            .collect();
        let table = ViewTable::new(1, &messages);
        let positions: Vec<usize> = (0..50).collect();
        let reach = Reach { text_bytes: 64, result_bytes: 128, total_bytes: 128 * 10 };
        let found = anchors_within(&table.conversation(), &positions, &reach);
        let paths = found.of(AnchorKind::Path);
        assert!((20..=24).contains(&paths.len()), "{}", paths.len());
        assert!(paths.iter().all(|anchor| anchor.newest >= 38), "the newest messages come first");
    }
}
