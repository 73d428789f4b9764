//! Makes text from files fit for a terminal: whoever wrote a transcript must not move the reader's cursor.

use std::borrow::Cow;

/// Longest text of a file that is shown on one line.
const LINE_CHARS_MAX: usize = 400;

/// Returns a text on one line with every control character escaped, cut to a readable length.
pub(crate) fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LINE_CHARS_MAX));
    for (count, c) in text.chars().enumerate() {
        if count == LINE_CHARS_MAX {
            out.push('…');
            break;
        }
        if is_control(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Returns a text with its lines and tabs as they are and every other control character escaped.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// Returns a text that may hold colours of our own: what else could steer a terminal is escaped.
pub(crate) fn styled(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| is_control(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, after) = rest.split_at(at);
        out.push_str(&block(before));
        let length = colour_length(after);
        let (colour, tail) = after.split_at_checked(length).unwrap_or((after, ""));
        if length == 0 {
            out.push_str("\\u{1b}");
            rest = after.strip_prefix('\u{1b}').unwrap_or_default();
        } else {
            out.push_str(colour);
            rest = tail;
        }
    }
    out.push_str(&block(rest));
    Cow::Owned(out)
}

/// Length of the colour sequence that a text begins with: `ESC [ digits and semicolons m`.
fn colour_length(text: &str) -> usize {
    let Some(body) = text.strip_prefix("\u{1b}[") else { return 0 };
    match body.find(|c: char| !c.is_ascii_digit() && c != ';') {
        Some(end) if body.get(end..).is_some_and(|rest| rest.starts_with('m')) => end + 3,
        _ => 0,
    }
}

fn escaped(text: &str, is_allowed: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(|c| is_control(c) && !is_allowed(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) && !is_allowed(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Control characters, and those that turn the direction of the text around them.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_control_characters() {
        assert_eq!(line("a\u{1b}[2J\r\nb\0\u{9b}c\u{202e}"), "a\\u{1b}[2J\\r\\nb\\u{0}\\u{9b}c\\u{202e}");
        assert_eq!(line("日本 é\u{301}"), "日本 é\u{301}");
        assert_eq!(line(&"x".repeat(1000)).chars().count(), LINE_CHARS_MAX + 1);
    }

    #[test]
    fn a_block_keeps_its_lines() {
        assert_eq!(block("a\n\tb"), "a\n\tb");
        assert_eq!(block("a\r\n\u{7}"), "a\\r\n\\u{7}");
    }

    #[test]
    fn colours_pass_and_nothing_else_does() {
        assert_eq!(styled("\u{1b}[1;31mred\u{1b}[0m\n"), "\u{1b}[1;31mred\u{1b}[0m\n");
        assert_eq!(styled("\u{1b}[2J\u{1b}]0;t\u{7}"), "\\u{1b}[2J\\u{1b}]0;t\\u{7}");
        assert_eq!(styled("\u{1b}"), "\\u{1b}");
        assert_eq!(styled("\u{1b}[12"), "\\u{1b}[12");
    }
}
