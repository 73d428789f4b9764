//! Cuts long runs of one kind of character, so that no text is slow or fatal to count.
//!
//! A vocabulary first splits a text into words, digits, blanks and signs, and a run of a million blanks or letters is one
//! such word: its merging costs more than its share, and some libraries overflow the splitter's stack on it. Real tool
//! output holds such runs (tables, minified files, dumps). A cut inside a run changes the count by a token or two.

/// Longest run of one class that is handed on whole. Texts shorter than this need no look at all.
///
/// A power of two, as are the longest tokens of one repeated character: a cut then falls between two of them.
pub(crate) const RUN_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Blank,
    Letter,
    Digit,
    Other,
}

/// Returns the pieces of a text, in order; together they are the text.
pub(crate) fn pieces(text: &str) -> Pieces<'_> {
    Pieces { rest: text }
}

pub(crate) struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (piece, rest) = self.rest.split_at_checked(first_cut(self.rest)).unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(piece)
    }
}

/// Returns where the first run reaches its longest, or the end of the text.
///
/// A long run that begins at `start` covers all up to the byte where it would be too long, so the search begins there
/// and goes back to the nearest place where a run surely ends: in ordinary text that is the next word, and a few bytes
/// of every thousand are read.
fn first_cut(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut start = 0;
    loop {
        let too_long = start + RUN_BYTES_MAX;
        let Some(window) = bytes.get(start..too_long) else { return text.len() };
        if let Some(end) = last_sure_end(window) {
            start += end;
            continue;
        }
        match walk(text, start, too_long) {
            Walk::Cut(at) => return at,
            Walk::RunFrom(later) => start = later,
            Walk::End => return text.len(),
        }
    }
}

/// Returns the last place between two ASCII bytes of different classes: there a run ends, whatever stands around it.
fn last_sure_end(window: &[u8]) -> Option<usize> {
    let is_end = |pair: &[u8]| match pair {
        [a, b] if a.is_ascii() && b.is_ascii() => class_of_ascii(*a) != class_of_ascii(*b),
        _ => false,
    };
    window.windows(2).rposition(is_end).map(|at| at + 1)
}

enum Walk {
    /// The run became too long here.
    Cut(usize),
    /// The run that is going on at the end of the window began here, behind the window's start.
    RunFrom(usize),
    End,
}

/// Follows the runs from `start` character by character until one is too long, or one ends behind `too_long`.
fn walk(text: &str, start: usize, too_long: usize) -> Walk {
    let mut class = None;
    let mut run_start = start;
    for (offset, c) in text.get(start..).unwrap_or_default().char_indices() {
        let at = start + offset;
        let next = class_of(c, class);
        if class != Some(next) {
            class = Some(next);
            run_start = at;
            if at >= too_long {
                return Walk::RunFrom(at);
            }
        } else if at - run_start >= RUN_BYTES_MAX {
            // Digits stand in threes and never make a long word; a cut would only shift them.
            if next == Class::Digit {
                return Walk::RunFrom(at);
            }
            return Walk::Cut(at);
        }
    }
    Walk::End
}

const fn class_of_ascii(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
        b'0'..=b'9' => Class::Digit,
        // The splitter's own idea of a blank: vertical tab counts, the information separators do not.
        b' ' | b'\t'..=b'\r' => Class::Blank,
        _ => Class::Other,
    }
}

fn class_of(c: char, before: Option<Class>) -> Class {
    if let Ok(byte) = u8::try_from(c)
        && byte.is_ascii()
    {
        return class_of_ascii(byte);
    }
    if c.is_whitespace() {
        Class::Blank
    } else if c.is_alphabetic() {
        Class::Letter
    } else if c.is_numeric() {
        Class::Digit
    } else if before == Some(Class::Letter) {
        // Accents and joiners that stand apart from their letter belong to its word, so they must not end the run.
        Class::Letter
    } else {
        Class::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<usize> {
        let cut: Vec<&str> = pieces(text).collect();
        assert_eq!(cut.concat(), text);
        cut.iter().map(|piece| piece.len()).collect()
    }

    #[test]
    fn short_and_varied_texts_stay_whole() {
        assert_eq!(lengths(""), Vec::<usize>::new());
        assert_eq!(lengths("one two"), vec![7]);
        assert_eq!(lengths(&"word ".repeat(20_000)), vec![100_000]);
    }

    #[test]
    fn a_long_run_is_cut_at_its_bound() {
        let max = RUN_BYTES_MAX;
        assert_eq!(lengths(&" ".repeat(3 * max + 7)), vec![max, max, max, 7]);
        assert_eq!(lengths(&format!("{}汉{}", "汉".repeat(9_000), "。".repeat(20))).len(), 2);
        assert_eq!(lengths(&format!("x {}", "_".repeat(max + 5))), vec![max + 2, 5]);
    }

    #[test]
    fn digits_stand_in_threes_and_are_not_cut() {
        assert_eq!(lengths(&"7".repeat(200_000)), vec![200_000]);
        assert_eq!(
            lengths(&format!("{}{}", "7".repeat(50_000), "A".repeat(RUN_BYTES_MAX + 1))),
            vec![50_000 + RUN_BYTES_MAX, 1]
        );
    }

    #[test]
    fn a_run_is_found_wherever_it_begins() {
        for before in [0, 1, 2, 100, RUN_BYTES_MAX - 1, RUN_BYTES_MAX, RUN_BYTES_MAX + 1, 3 * RUN_BYTES_MAX - 5] {
            let ordinary: String = "ab 12, 汉é ".chars().cycle().take(before).collect();
            for unit in ["_", "\u{301}", "汉", "\u{3000}"] {
                let text = format!("{ordinary}|0{}", unit.repeat(2 * RUN_BYTES_MAX / unit.len()));
                assert!(lengths(&text).len() >= 2, "{unit:?} after {before}");
            }
        }
    }

    #[test]
    fn letters_with_loose_accents_are_one_run() {
        assert!(lengths(&"a\u{301}".repeat(100_000)).len() > 8);
    }
}
