//! What a value looks like: a secret, or a placeholder, a word, a piece of code.

use crate::kind::Kind;

/// How every mask begins.
pub(crate) const MASK_START: &str = "[redacted:";
/// Bytes of a value that are looked at to tell what it is; the rest is masked with them.
const LOOKED_AT: usize = 128;
/// Bits for each character under which a value is taken for a word or a pattern. Random hex has 4, base64 6; English
/// words of this length come to about 3.
const BITS_MIN: f64 = 3.0;

/// Words that stand where a secret belongs, in documents and examples.
const PLACEHOLDERS: &[&str] = &[
    "your",
    "example",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "redacted",
    "dummy",
    "insert",
    "replace",
    "todo",
    "xxxx",
    "****",
    "....",
    "sample",
    "fake",
    "foobar",
    "not-needed",
    "none-needed",
    "test-key",
    "my-secret-here",
];
/// Values that are settings and types, no secrets.
const PLAIN: &[&str] = &[
    "null",
    "none",
    "true",
    "false",
    "undefined",
    "string",
    "str",
    "bool",
    "boolean",
    "number",
    "integer",
    "int",
    "bytes",
    "object",
    "array",
    "any",
    "unknown",
    "required",
    "optional",
    "password",
    "passwd",
    "secret",
    "token",
    "default",
    "option",
    "nil",
    "self",
    "this",
    "value",
    "input",
    "text",
    "hidden",
    "disabled",
    "enabled",
    "prompt",
];
/// How code that reads a value from elsewhere begins.
const CODE: &[&str] = &[
    "os.",
    "process.",
    "env.",
    "env!",
    "std::",
    "config.",
    "settings.",
    "self.",
    "this.",
    "args.",
    "options.",
    "opts.",
    "req.",
    "request.",
    "ctx.",
    "getenv",
    "secrets.",
    "vault:",
    "file:",
    "arn:",
    "op://",
    "ssm:",
    "keyring",
    "await ",
    "import.",
    "crypto.",
    "http://",
    "https://",
    "./",
    "../",
    "/etc/",
    "/run/",
    "/var/",
    "/home/",
    "/usr/",
    "~/",
    "$",
    "%(",
    "{{",
    "{",
    "<",
    "@",
];

/// Tells whether a value given under a name of this kind is a secret.
pub(crate) fn is_secret(kind: Kind, value: &str, is_quoted: bool) -> bool {
    let looked = prefix(value);
    if value.starts_with(MASK_START) || is_placeholder(looked) {
        return false;
    }
    let bytes = looked.as_bytes();
    let has = |test: fn(&u8) -> bool| bytes.iter().any(test);
    let (letters, digits) = (has(|byte| byte.is_ascii_alphabetic()), has(|byte| byte.is_ascii_digit()));
    let other = bytes.iter().any(|byte| !byte.is_ascii_alphanumeric());
    match kind {
        Kind::Password => {
            let is_version =
                digits && bytes.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'^' | b'~' | b'='));
            if value.len() < 6 || value.contains("::") || (is_version && looked.contains('.')) {
                return false;
            }
            // An identifier as a value is a variable of the code around it.
            let is_identifier = !is_quoted
                && letters
                && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.');
            let is_word = letters && !digits && !other;
            if is_word {
                return is_quoted && value.len() >= 12 && !value.bytes().all(|byte| byte.is_ascii_uppercase());
            }
            !is_identifier || (digits && !looked.contains('.') && !looked.contains('_'))
        }
        _ => {
            if value.len() < 12 || !bytes.iter().all(|byte| (0x21..0x7f).contains(byte)) {
                return false;
            }
            if !digits || !letters {
                // Long random strings without a digit are rare; words with dashes are not.
                return value.len() >= 32 && letters && mixed_case(bytes) && bits(bytes) >= 4.0;
            }
            if looked.contains("::")
                || looked.contains("..")
                || (!is_quoted && looked.contains('.') && value.len() < 24)
            {
                return false;
            }
            bits(bytes) >= BITS_MIN && !is_version_or_path(looked)
        }
    }
}

/// Tells whether a value stands in for a secret.
pub(crate) fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let bytes = lower.as_bytes();
    let Some(first) = bytes.first() else { return true };
    bytes.iter().all(|byte| byte == first)
        || PLAIN.contains(&lower.as_str())
        || CODE.iter().any(|start| lower.starts_with(start))
        || PLACEHOLDERS.iter().any(|word| lower.contains(word))
        || is_counting(bytes)
}

/// `1234567890`, `abcdef`, `0123456789abcdef`: what people type for an example.
fn is_counting(bytes: &[u8]) -> bool {
    bytes.len() >= 6
        && bytes
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if *b == a.wrapping_add(1) || (*a == b'9' && matches!(b, b'0' | b'a'))))
        && bytes.iter().any(|byte| byte.is_ascii_alphabetic())
}

fn is_version_or_path(value: &str) -> bool {
    let slashes = value.bytes().filter(|byte| *byte == b'/').count();
    let words = value
        .split(['-', '_', '.', '/', ':'])
        .filter(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_lowercase()))
        .count();
    // Most parts of a path, a package's name or an identifier are words; none of a random string's are.
    (slashes > 0 || value.contains(['-', '_', '.']))
        && words >= 2
        && words * 2 >= value.split(['-', '_', '.', '/', ':']).count()
}

fn mixed_case(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_lowercase) && bytes.iter().any(u8::is_ascii_uppercase)
}

/// Shannon's entropy of the bytes, in bits for each of them.
fn bits(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 128];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let total = bytes.len().max(1) as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / total)
        .map(|part| -part * part.log2())
        .sum()
}

/// Returns the first bytes of a value, cut between characters.
pub(crate) fn prefix(value: &str) -> &str {
    let mut end = value.len().min(LOOKED_AT);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.get(..end).unwrap_or(value)
}
