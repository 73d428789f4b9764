//! Cuts long runs of one kind of character, so that no text is slow or fatal to count.
//!
//! A vocabulary first splits a text into words, digits, blanks and signs, and a run of a million blanks or letters is one
//! such word: it costs seconds, or overflows the splitter's stack. Real tool output holds such runs (tables, minified
//! files, dumps). A cut inside a run changes the count by a token or two.

/// Longest run of one class that is handed on whole. Texts shorter than this need no look at all.
pub(crate) const RUN_BYTES_MAX: usize = 32 * 1024;

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
        let end = if self.rest.len() < RUN_BYTES_MAX { self.rest.len() } else { first_cut(self.rest) };
        let (piece, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(piece)
    }
}

/// Returns where the first run reaches its longest, or the end of the text.
fn first_cut(text: &str) -> usize {
    let mut class = Class::Other;
    let mut run_start = 0;
    for (at, c) in text.char_indices() {
        let next = class_of(c, class);
        if next != class {
            class = next;
            run_start = at;
        } else if at - run_start >= RUN_BYTES_MAX {
            return at;
        }
    }
    text.len()
}

fn class_of(c: char, before: Class) -> Class {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Digit,
            // The splitter's own idea of a blank: vertical tab counts, the information separators do not.
            ' ' | '\t'..='\r' => Class::Blank,
            _ => Class::Other,
        };
    }
    if c.is_whitespace() {
        Class::Blank
    } else if c.is_alphabetic() {
        Class::Letter
    } else if c.is_numeric() {
        Class::Digit
    } else if before == Class::Letter {
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
        assert_eq!(lengths(&" ".repeat(100_000)), vec![max, max, max, 100_000 - 3 * max]);
        assert_eq!(lengths(&format!("x {}", "_".repeat(max + 5))), vec![max + 2, 5]);
    }

    #[test]
    fn letters_with_loose_accents_are_one_run() {
        assert!(lengths(&"a\u{301}".repeat(100_000)).len() > 8);
    }
}
