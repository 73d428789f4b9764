//! Where runs of characters end, each run measured once however often it is asked for.

use std::ops::Range;

/// Tells whether a key may contain the byte: letters, digits, `_` and `-`.
pub(crate) fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Tells whether base64, its variant for addresses, or a dotted token may contain the byte.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    is_key_byte(byte) || matches!(byte, b'.' | b'/' | b'+' | b'=' | b'~' | b':' | b'%')
}

/// Tells whether an unquoted value goes on with the byte. A backslash ends it, so that an escaped line end is never
/// taken in; so do the brackets and signs that code and prose put after a value.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    !(byte.is_ascii_whitespace()
        || byte.is_ascii_control()
        || matches!(
            byte,
            b'"' | b'\''
                | b'`'
                | b'\\'
                | b','
                | b';'
                | b'&'
                | b'('
                | b')'
                | b'{'
                | b'}'
                | b'['
                | b']'
                | b'<'
                | b'>'
                | b'|'
        ))
}

/// Remembers the run that was measured last: positions within it get its end without another walk.
pub(crate) struct Runs {
    belongs: fn(u8) -> bool,
    known: Range<usize>,
}

impl Runs {
    pub(crate) fn of(belongs: fn(u8) -> bool) -> Runs {
        Runs { belongs, known: 0..0 }
    }

    /// Returns the end of the run that has this position; the position itself if it has none.
    pub(crate) fn end(&mut self, bytes: &[u8], at: usize) -> usize {
        if self.known.contains(&at) {
            return self.known.end;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let end = at + rest.iter().position(|byte| !(self.belongs)(*byte)).unwrap_or(rest.len());
        self.known = at..end;
        end
    }
}

/// Tells whether a word can begin at this position: before it is no letter, digit or `_`, or an escape such as `\n` or
/// `%3D`, which ends in a letter and is none.
pub(crate) fn begins_word(bytes: &[u8], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|at| bytes.get(at)).copied();
    let Some(last) = before(1) else { return true };
    if !(last.is_ascii_alphanumeric() || last == b'_' || last >= 0x80) {
        return true;
    }
    let is_escape = matches!(last, b'n' | b'r' | b't') && before(2) == Some(b'\\');
    let is_encoded =
        last.is_ascii_hexdigit() && before(2).is_some_and(|byte| byte.is_ascii_hexdigit()) && before(3) == Some(b'%');
    // Words of a script without blanks end where a key begins.
    is_escape || is_encoded || last >= 0x80
}
