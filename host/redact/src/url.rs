//! Credentials within addresses: `scheme://user:password@host`, `https://token@host`.

use crate::shape;
use std::ops::Range;

/// Bytes of the part before `@` that are looked at; longer ones are no credentials.
const USER_INFO_BYTES_MAX: usize = 1_024;
/// A user without a password is a token from this length on.
const TOKEN_BYTES_MIN: usize = 20;

/// Returns the password of the address whose `://` is here.
pub(crate) fn password(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if !at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let from = at + 3;
    let rest = bytes.get(from..bytes.len().min(from + USER_INFO_BYTES_MAX))?;
    let mut colon = None;
    let mut sign = None;
    for (offset, byte) in rest.iter().enumerate() {
        match byte {
            b':' if colon.is_none() => colon = Some(offset),
            // The last `@` before the host's end counts: passwords may have one.
            b'@' => sign = Some(offset),
            b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | b'|' | b',' | b')' | b'(' | b'{'
            | b'}' => break,
            byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => break,
            _ => {}
        }
    }
    let sign = sign?;
    let range = match colon.filter(|colon| *colon < sign) {
        Some(colon) => from + colon + 1..from + sign,
        None if sign >= TOKEN_BYTES_MIN => from..from + sign,
        None => return None,
    };
    let value = text.get(range.clone())?;
    let is_secret = !value.is_empty()
        && !value.starts_with(shape::MASK_START)
        && !value.starts_with('$')
        && !value.starts_with('%')
        && !is_stand_in(value);
    is_secret.then_some(range)
}

/// `user:pass@host`, `user:password@host`: how documents write it.
fn is_stand_in(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    matches!(
        lower.as_str(),
        "pass" | "password" | "passwd" | "pwd" | "secret" | "xxx" | "xxxx" | "yourpassword" | "token" | "..."
    ) || lower.bytes().all(|byte| matches!(byte, b'*' | b'x' | b'.'))
        || lower.starts_with('[')
}
