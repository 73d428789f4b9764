//! Private keys in their frames: PEM, OpenSSH, PGP; with real line ends or escaped ones, whole or cut off.

use memchr::memmem::Finder;
use std::sync::LazyLock;

/// How a frame begins and ends.
pub(crate) const BEGIN: &str = "-----BEGIN ";
static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("-----END "));
/// Bytes of a frame's label at most: `ENCRYPTED PRIVATE KEY-----` and longer.
const LABEL_BYTES_MAX: usize = 64;
/// Bytes of a key without an end that are masked at most; the longest RSA keys have 13,000.
const BODY_BYTES_MAX: usize = 32 * 1024;

/// Finds frames, and remembers where the next end is, so that many beginnings share one search.
#[derive(Default)]
pub(crate) struct Frames {
    /// The next end at or after `searched`: none if there is none.
    next_end: Option<(usize, Option<usize>)>,
}

impl Frames {
    /// Returns the range of the key within the frame that begins here: what lies between the two lines.
    pub(crate) fn key(&mut self, text: &str, at: usize) -> Option<std::ops::Range<usize>> {
        let bytes = text.as_bytes();
        let label_from = at + BEGIN.len();
        let label = bytes.get(label_from..bytes.len().min(label_from + LABEL_BYTES_MAX))?;
        let dashes = label.windows(5).position(|window| window == b"-----")?;
        let name = label.get(..dashes)?;
        if !name.windows(11).any(|window| window == b"PRIVATE KEY") {
            return None;
        }
        let from = label_from + dashes + 5;
        let body_end = self.body_end(bytes, from);
        let end = match self.end_after(bytes, from) {
            Some(end) if end <= body_end => end,
            // Cut off: the lines of the key, as far as they are lines of a key.
            _ => body_end,
        };
        // Whole lines go, so that what stays begins and ends as it did.
        let key = text.get(from..end)?;
        let start = from + key.len() - key.trim_start_matches(is_line_end).len();
        let key = text.get(start..end)?;
        let trimmed = trim_line_ends(key);
        (!trimmed.is_empty() && !trimmed.starts_with(crate::shape::MASK_START) && trimmed.len() >= 16)
            .then(|| start..start + trimmed.len())
    }

    fn end_after(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        if let Some((searched, found)) = self.next_end
            && searched <= from
            && found.is_none_or(|found| found >= from)
        {
            return found;
        }
        let found = END.find(bytes.get(from..).unwrap_or_default()).map(|found| from + found);
        self.next_end = Some((from, found));
        found
    }

    /// Returns where the lines of base64, headers and line ends stop.
    fn body_end(&self, bytes: &[u8], from: usize) -> usize {
        let limit = bytes.len().min(from + BODY_BYTES_MAX);
        let mut at = from;
        while at < limit {
            let belongs = match bytes.get(at) {
                Some(b'\\') => matches!(bytes.get(at + 1), Some(b'n' | b'r' | b't' | b'\\')),
                // A line of dashes is the next frame.
                Some(b'-') => !bytes.get(at..).unwrap_or_default().starts_with(b"-----"),
                Some(byte) => {
                    byte.is_ascii_alphanumeric()
                        || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r' | b' ' | b'\t' | b':' | b',' | b'.')
                }
                None => false,
            };
            if !belongs {
                break;
            }
            at += 1;
        }
        at
    }
}

fn is_line_end(c: char) -> bool {
    c == '\n' || c == '\r' || c == ' ' || c == '\t'
}

/// Trims real and escaped line ends from the end, never half an escape.
fn trim_line_ends(mut key: &str) -> &str {
    loop {
        let shorter = key.trim_end_matches(is_line_end);
        let shorter = ["\\\\n", "\\n", "\\r", "\\"].iter().find_map(|end| shorter.strip_suffix(end)).unwrap_or(shorter);
        if shorter.len() == key.len() {
            return key;
        }
        key = shorter;
    }
}
