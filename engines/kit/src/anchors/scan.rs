//! One pass over a text that tells identifiers by the shape of words.
//!
//! A word is a run of the bytes that paths, numbers and addresses are made of. The text is searched in blocks for bytes
//! that plain words do not have, and only the words around them are looked at; each once, so the scan is linear.

use super::AnchorKind;
use crate::text::prefix;

/// What is shown of a line that names an error: Hermes shows as much.
const ERROR_BYTES_MAX: usize = 110;
const URL_BYTES_MAX: usize = 200;

/// Endings of files that people and tools name.
const ENDINGS: [&str; 92] = [
    "bash", "bat", "c", "cc", "cfg", "cjs", "cmake", "conf", "cpp", "cs", "css", "csv", "db", "diff", "dll", "env",
    "erl", "ex", "exs", "go", "gradle", "graphql", "h", "hpp", "hs", "htm", "html", "ini", "ipynb", "java", "jpeg",
    "jpg", "js", "json", "jsonl", "jsx", "kt", "kts", "less", "lock", "log", "lua", "m", "md", "mdx", "mjs", "mk",
    "ml", "mod", "mp4", "nix", "parquet", "patch", "pdf", "php", "pl", "png", "prisma", "proto", "ps1", "py", "pyi",
    "r", "rb", "rs", "rst", "scala", "scss", "sh", "snap", "so", "sol", "sql", "sqlite", "sum", "svelte", "svg",
    "swift", "tar", "tf", "toml", "ts", "tsv", "tsx", "txt", "vue", "wasm", "xml", "yaml", "yml", "zig", "zsh",
];

const BRANCHES: [&str; 14] = [
    "bugfix", "chore", "ci", "docs", "feat", "feature", "fix", "hotfix", "perf", "refactor", "release", "revert",
    "salvage", "test",
];

const SYSTEM_ERRORS: [&str; 12] = [
    "EACCES",
    "EADDRINUSE",
    "ECONNREFUSED",
    "ECONNRESET",
    "EEXIST",
    "ENOENT",
    "ENOMEM",
    "ENOSPC",
    "EPERM",
    "ETIMEDOUT",
    "SIGKILL",
    "SIGSEGV",
];

/// What a word is made of.
const WORD: u8 = 1;
const DIGIT: u8 = 1 << 1;
const DOT: u8 = 1 << 2;
const SLASH: u8 = 1 << 3;
const UPPER: u8 = 1 << 4;

const CLASS_OF: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'0'..=b'9' => WORD | DIGIT,
            b'A'..=b'Z' => WORD | UPPER,
            b'a'..=b'z' | b'_' | b'+' | b'~' | b'-' | b'@' | b'#' => WORD,
            b'.' => WORD | DOT,
            b'/' => WORD | SLASH,
            _ => 0,
        };
        byte += 1;
    }
    table
};

fn class_of(byte: u8) -> u8 {
    CLASS_OF.get(usize::from(byte)).copied().unwrap_or(0)
}

/// Bytes looked at in one step: as many as a mask has bits.
const BLOCK: usize = 64;

/// Tells whether a byte stands in some identifier and in few other words: `.`, `/` and digits, `#`, `@`, and the capital
/// letters with which the names of errors begin.
fn is_telling(byte: u8) -> bool {
    (byte.wrapping_sub(b'.') <= b'9' - b'.')
        | (byte == b'#')
        | (byte == b'@')
        | (byte == b'E')
        | (byte == b'S')
        | (byte == b'T')
}

/// Returns a bit for each telling byte of a block, the first byte's lowest.
fn telling_bytes(block: &[u8; BLOCK]) -> u64 {
    /// Gathers the lowest bits of eight bytes into the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    // Compared as one array, which the compiler does many bytes at a time; then eight flags become eight bits.
    let flags = block.map(|byte| u8::from(is_telling(byte)));
    let mut mask = 0;
    for (at, eight) in flags.as_chunks::<8>().0.iter().enumerate() {
        mask |= (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (8 * at);
    }
    mask
}

/// Tells each identifier of a text. In JSON a backslash and the letter after it stand between words.
pub(super) fn scan<'a>(text: &'a str, is_json: bool, mut tell: impl FnMut(AnchorKind, &'a str)) {
    let bytes = text.as_bytes();
    for at in memchr::memmem::find_iter(bytes, "panicked at ") {
        tell(AnchorKind::Error, error_line(text.get(at..).unwrap_or_default(), is_json));
    }
    // Up to where words have been told, and up to where a line that names an error reaches: of its kind nothing else is
    // told on it.
    let mut words = Words { text, is_json, end: 0, error_end: 0 };
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for (index, block) in blocks.iter().enumerate() {
        words.told_by(telling_bytes(block), index * BLOCK, &mut tell);
    }
    if !rest.is_empty() {
        let mut last = [0; BLOCK];
        last.iter_mut().zip(rest).for_each(|(slot, byte)| *slot = *byte);
        words.told_by(telling_bytes(&last), blocks.len() * BLOCK, &mut tell);
    }
}

/// The words of a text that hold a telling byte.
struct Words<'a> {
    text: &'a str,
    is_json: bool,
    end: usize,
    error_end: usize,
}

impl<'a> Words<'a> {
    fn told_by(&mut self, mut mask: u64, base: usize, tell: &mut impl FnMut(AnchorKind, &'a str)) {
        while mask != 0 {
            let at = base + mask.trailing_zeros() as usize;
            mask &= mask - 1;
            if at >= self.end {
                self.word_around(at, tell);
            }
        }
    }

    /// Tells the word that holds the byte at `at`. Each byte is passed once on the way left and once on the way right.
    fn word_around(&mut self, at: usize, tell: &mut impl FnMut(AnchorKind, &'a str)) {
        let (text, bytes) = (self.text, self.text.as_bytes());
        let is_word = |byte: &&u8| class_of(**byte) != 0;
        let before = bytes.get(self.end..at).unwrap_or_default();
        let mut start = at - before.iter().rev().take_while(is_word).count();
        if self.is_json {
            let marks = bytes.get(self.end..start).unwrap_or_default().iter().rev();
            // After an odd number of backslashes the first letter belongs to an escape.
            start += marks.take_while(|byte| **byte == b'\\').count() % 2;
        }
        let mut made_of = 0;
        let mut end = start;
        while let Some(class) = bytes.get(end).map(|byte| class_of(*byte)).filter(|class| *class != 0) {
            made_of |= class;
            end += 1;
        }
        self.end = end.max(at + 1);
        // Word bytes are ASCII, so the cut is at characters.
        let Some(word) = text.get(start..end).filter(|word| word.len() > 1) else { return };
        if word.starts_with("//") {
            let lead =
                ["https:", "http:"].into_iter().find(|lead| text.get(..start).is_some_and(|text| text.ends_with(lead)));
            if let Some(lead) = lead {
                let start = start - lead.len();
                self.end = start + url(text.get(start..).unwrap_or_default(), self.is_json, tell);
                return;
            }
        }
        if made_of & UPPER != 0 && start >= self.error_end {
            let lead = "error[";
            let is_code = word.starts_with('E') && text.get(..start).is_some_and(|text| text.ends_with(lead));
            if is_code || is_error(word) {
                let start = if is_code { start - lead.len() } else { start };
                let line = error_line(text.get(start..).unwrap_or_default(), self.is_json);
                self.error_end = start + line.len();
                tell(AnchorKind::Error, line);
            }
        }
        let before = start.checked_sub(1).and_then(|before| bytes.get(before)).copied().unwrap_or(b' ');
        let word = word.trim_end_matches(['.', '-', '/', '#', '@', '+']);
        if let Some(kind) = kind_of(word, made_of, before, self.is_json) {
            tell(kind, word);
        }
    }
}

/// Returns a line from where it names an error, without what ends it.
fn error_line(text: &str, is_json: bool) -> &str {
    let line = prefix(text, ERROR_BYTES_MAX);
    let is_end = |byte: u8| matches!(byte, b'\n' | b'\r') || (is_json && matches!(byte, b'\\' | b'"'));
    let end = line.bytes().position(is_end).unwrap_or(line.len());
    line.get(..end).unwrap_or(line).trim_end_matches(['.', ',', ';', ':', ')', '"', '\'', ' '])
}

/// Tells an address; returns its length.
fn url<'a>(text: &'a str, is_json: bool, tell: &mut impl FnMut(AnchorKind, &'a str)) -> usize {
    let is_end = |character: char| {
        character.is_whitespace()
            || matches!(character, '"' | '\'' | '`' | '<' | '>' | '(' | ')' | '[' | ']' | '{' | '}' | '|')
            || (character == '\\' && is_json)
    };
    let whole = text.split(is_end).next().unwrap_or_default();
    let address = whole.trim_end_matches(['.', ',', ';', ':', '\\', '/']);
    if (12..=URL_BYTES_MAX).contains(&address.len()) {
        tell(AnchorKind::Url, address);
    }
    whole.len().max(1)
}

/// Tells whether a word is the name of an error: `ValueError`, `sqlite3.OperationalError`, `ENOENT`.
fn is_error(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_capital = bytes.first().is_some_and(u8::is_ascii_uppercase);
    match bytes.last() {
        Some(b'r' | b'n') => {
            let (name, has_module) = word.rsplit_once('.').map_or((word, false), |(_, name)| (name, true));
            (is_capital || has_module) && name.len() > 6 && (name.ends_with("Error") || name.ends_with("Exception"))
        }
        Some(b'k') => word == "Traceback",
        Some(b'A'..=b'Z') if matches!(bytes.first(), Some(b'E' | b'S')) => SYSTEM_ERRORS.binary_search(&word).is_ok(),
        _ => false,
    }
}

fn kind_of(word: &str, made_of: u8, before: u8, is_json: bool) -> Option<AnchorKind> {
    let bytes = word.as_bytes();
    match bytes {
        [b'#', digits @ ..] => {
            let is_issue = (2..=6).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
            return (is_issue && !matches!(before, b'&' | b':')).then_some(AnchorKind::Issue);
        }
        [b'@', name @ ..] => {
            let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
            let is_handle = (2..=39).contains(&name.len()) && name.first().is_some_and(u8::is_ascii_alphabetic);
            // In JSON `@` may follow an escape, which hides what stands before it.
            return (is_handle && is_name && !(is_json && before == b'\\')).then_some(AnchorKind::Handle);
        }
        _ if bytes.len() < 4 => return None,
        _ => {}
    }
    if made_of & DIGIT != 0 && is_commit(bytes) {
        return Some(AnchorKind::Commit);
    }
    let dot = if made_of & DOT != 0 { bytes.iter().rposition(|byte| *byte == b'.') } else { None };
    if let Some((name, ending)) = dot.and_then(|dot| Some((word.get(..dot)?, word.get(dot + 1..)?))) {
        // `a.b.c` is no file of the language C.
        let is_likely = ending.len() > 1 || (name.len() > 1 && !name.contains('.'));
        if is_likely
            && is_ending(ending.as_bytes())
            && name.bytes().any(|byte| byte.is_ascii_alphanumeric())
            && !name.contains('@')
        {
            return Some(AnchorKind::Path);
        }
        if is_version(bytes) {
            return Some(AnchorKind::Version);
        }
    }
    if made_of & SLASH == 0 {
        return None;
    }
    let branch = word.split_once('/').filter(|(first, rest)| rest.len() > 2 && BRANCHES.binary_search(first).is_ok());
    branch.map(|_| AnchorKind::Branch)
}

fn is_ending(ending: &[u8]) -> bool {
    ending.first().is_some_and(u8::is_ascii_lowercase)
        && ending.len() <= ENDING_BYTES_MAX
        && PACKED_ENDINGS.binary_search(&packed(ending)).is_ok()
}

const ENDING_BYTES_MAX: usize = 8;

/// The endings as numbers, whose order is that of the words: compared in one step each.
const PACKED_ENDINGS: [u64; ENDINGS.len()] = {
    let mut out = [0; ENDINGS.len()];
    let mut at = 0;
    while at < ENDINGS.len() {
        out[at] = packed(ENDINGS[at].as_bytes());
        at += 1;
    }
    out
};

/// Returns up to eight bytes as a number, the first byte highest.
const fn packed(bytes: &[u8]) -> u64 {
    let mut out = 0;
    let mut at = 0;
    while at < ENDING_BYTES_MAX {
        out = out << 8 | if at < bytes.len() { bytes[at] as u64 } else { 0 };
        at += 1;
    }
    out
}

/// A hexadecimal number with both digits and letters, or a UUID: words such as `defaced`, dates and plain numbers are no
/// commits.
fn is_commit(bytes: &[u8]) -> bool {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_mixed = || bytes.iter().any(u8::is_ascii_digit) && bytes.iter().any(u8::is_ascii_lowercase);
    let is_uuid = || {
        let groups = bytes.split(|byte| *byte == b'-').map(<[u8]>::len);
        groups.eq([8, 4, 4, 4, 12]) && bytes.iter().all(|byte| *byte == b'-' || is_hex(byte))
    };
    match bytes.len() {
        36 if bytes.contains(&b'-') => is_uuid(),
        7..=40 => bytes.iter().all(is_hex) && is_mixed(),
        _ => false,
    }
}

/// Three or more numbers with dots between them, perhaps with a `v` before and a word after.
fn is_version(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"v").unwrap_or(bytes);
    let numbers = bytes.split(|byte| *byte == b'-').next().unwrap_or_default();
    let mut groups = numbers.split(|byte| *byte == b'.');
    let count = groups.clone().count();
    (3..=4).contains(&count)
        && groups.all(|group| (1..=6).contains(&group.len()) && group.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_order() {
        assert!(ENDINGS.is_sorted() && BRANCHES.is_sorted() && SYSTEM_ERRORS.is_sorted());
    }

    #[test]
    fn words_are_told_by_their_shape() {
        for (text, want) in [
            ("src/a.rs:10", "path src/a.rs"),
            ("(./x/y.py)", "path ./x/y.py"),
            ("`Cargo.toml`,", "path Cargo.toml"),
            ("(#4312)", "issue #4312"),
            ("0a1b2c3d4e", "commit 0a1b2c3d4e"),
            ("123e4567-e89b-12d3-a456-426614174000", "commit 123e4567-e89b-12d3-a456-426614174000"),
            ("origin feat/new-ui.", "branch feat/new-ui"),
            ("sqlite3.OperationalError: locked", "error sqlite3.OperationalError: locked"),
            ("error[E0308]: mismatched types\nnote", "error error[E0308]: mismatched types"),
            ("thread 'main' panicked at src/x.rs:3", "error panicked at src/x.rs:3, path src/x.rs"),
            ("see https://a.example/b_(c).", "url https://a.example/b_"),
            ("hi @lena-k!", "handle @lena-k"),
            ("v1.20.3-rc1 and 10.0.0.1", "version v1.20.3-rc1, version 10.0.0.1"),
            ("naïve/café.rs", "path .rs"),
            ("", ""),
        ] {
            let mut got: Vec<String> = Vec::new();
            scan(text, false, |kind, word| got.push(format!("{} {word}", format!("{kind:?}").to_lowercase())));
            if want == "path .rs" {
                // Names beyond ASCII are told by what follows the last of it, or not at all.
                assert!(got.len() <= 1, "{got:?}");
                continue;
            }
            assert_eq!(got.join(", "), want, "{text}");
        }
    }
    #[test]
    fn where_a_word_stands_in_its_block_makes_no_difference() {
        let text =
            "src/a.rs #4312 0a1b2c3d4e feat/new-ui ValueError: x https://a.example/b @lena-k v1.20.3 panicked at y.rs";
        let found = |text: &str| {
            let mut got: Vec<String> = Vec::new();
            scan(text, false, |kind, word| got.push(format!("{kind:?} {word}")));
            got
        };
        let want = found(text);
        assert_eq!(want.len(), 10, "{want:?}");
        for blanks in 0..2 * BLOCK {
            let moved = format!("{}{text}", " ".repeat(blanks));
            assert_eq!(found(&moved), want, "{blanks}");
        }
    }

    #[test]
    fn the_telling_bytes_of_a_block_are_told_one_by_one() {
        for at in 0..BLOCK {
            for byte in 0..=u8::MAX {
                let mut block = [b' '; BLOCK];
                if let Some(slot) = block.get_mut(at) {
                    *slot = byte;
                }
                assert_eq!(telling_bytes(&block), u64::from(is_telling(byte)) << at, "{byte} at {at}");
            }
        }
    }
}
