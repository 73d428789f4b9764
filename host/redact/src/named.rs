//! Secrets that a name gives away: `password=...`, `"apiKey": "..."`, `Authorization: Bearer ...`, `--token ...`.

use crate::kind::Kind;
use crate::run::{Runs, is_token_byte, is_value_byte};
use crate::shape;
use std::ops::Range;

/// Bytes between a word such as `token` and the sign that gives it a value, as in `TOKEN_PROD=`.
const NAME_REST_BYTES_MAX: usize = 32;
/// Bytes of a quoted value at most; longer ones are texts.
const VALUE_BYTES_MAX: usize = 8 * 1024;
/// Bytes before a bare word in which `login` or `machine` makes it a line of a netrc file.
const NETRC_BYTES: usize = 160;

/// What a word in a name says of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// The value is of this kind.
    Value(Kind),
    /// The value has a scheme in front: `Bearer`, `Basic`.
    Header,
    /// The value is a list of `name=value`.
    Cookies,
    /// The word is a scheme itself, and the value follows after a blank.
    Scheme,
    /// The value is a few digits.
    Code,
    /// The word ends where the value begins: `AccountKey=`, `sig=`.
    Direct(Kind),
}

/// Words in lower case and what they say.
pub(crate) const NAMES: &[(&str, Says)] = &[
    ("password", Says::Value(Kind::Password)),
    ("passwd", Says::Value(Kind::Password)),
    ("passphrase", Says::Value(Kind::Password)),
    ("pwd", Says::Value(Kind::Password)),
    ("pass", Says::Value(Kind::Password)),
    ("passwort", Says::Value(Kind::Password)),
    ("contraseña", Says::Value(Kind::Password)),
    ("senha", Says::Value(Kind::Password)),
    ("mot de passe", Says::Value(Kind::Password)),
    ("пароль", Says::Value(Kind::Password)),
    ("密码", Says::Value(Kind::Password)),
    ("密碼", Says::Value(Kind::Password)),
    ("パスワード", Says::Value(Kind::Password)),
    ("비밀번호", Says::Value(Kind::Password)),
    ("secret", Says::Value(Kind::Secret)),
    ("credential", Says::Value(Kind::Secret)),
    ("private_key", Says::Value(Kind::Secret)),
    ("private-key", Says::Value(Kind::Secret)),
    ("privatekey", Says::Value(Kind::Secret)),
    ("encryption_key", Says::Value(Kind::Secret)),
    ("signing_key", Says::Value(Kind::Secret)),
    ("key-data", Says::Value(Kind::Secret)),
    ("master_key", Says::Value(Kind::Secret)),
    ("api_key", Says::Value(Kind::ApiKey)),
    ("api-key", Says::Value(Kind::ApiKey)),
    ("apikey", Says::Value(Kind::ApiKey)),
    ("access_key", Says::Value(Kind::ApiKey)),
    ("access-key", Says::Value(Kind::ApiKey)),
    ("accesskey", Says::Value(Kind::ApiKey)),
    ("auth_key", Says::Value(Kind::ApiKey)),
    ("authkey", Says::Value(Kind::ApiKey)),
    ("token", Says::Value(Kind::Token)),
    ("\"auth\"", Says::Value(Kind::Token)),
    ("authorization", Says::Header),
    ("bearer ", Says::Scheme),
    ("cookie:", Says::Cookies),
    ("accountkey=", Says::Direct(Kind::Azure)),
    ("sharedaccesskey=", Says::Direct(Kind::Azure)),
    ("?sig=", Says::Direct(Kind::Azure)),
    ("&sig=", Says::Direct(Kind::Azure)),
    ("otp", Says::Code),
    ("verification code", Says::Code),
    ("one-time code", Says::Code),
    ("one-time password", Says::Code),
    ("security code", Says::Code),
    ("2fa code", Says::Code),
];

/// Looks at places where a name was found. Values that are asked for more than once are measured once.
pub(crate) struct Named {
    values: Runs,
    tokens: Runs,
    quotes: Quotes,
}

impl Named {
    pub(crate) fn new() -> Named {
        Named { values: Runs::of(is_value_byte), tokens: Runs::of(is_token_byte), quotes: Quotes::default() }
    }

    /// Finds the secrets that the word in this range gives away; returns where to go on, if it gave any.
    pub(crate) fn look(
        &mut self,
        text: &str,
        word: Range<usize>,
        says: Says,
        found: &mut Vec<crate::Finding>,
    ) -> Option<usize> {
        let bytes = text.as_bytes();
        match says {
            Says::Direct(kind) => {
                let end = self.tokens.end(bytes, word.end);
                let value = text.get(word.end..end)?;
                (value.len() >= 20
                    && !value.starts_with(shape::MASK_START)
                    && !shape::is_placeholder(shape::prefix(value)))
                .then(|| push(found, kind, word.end..end))
            }
            Says::Scheme => {
                let from = after_blanks(bytes, word.end);
                let end = self.tokens.end(bytes, from);
                let value = text.get(from..end)?;
                let looked = shape::prefix(value);
                let is_token = value.len() >= 16
                    && looked.bytes().any(|byte| byte.is_ascii_digit())
                    && !shape::is_placeholder(looked);
                is_token.then(|| push(found, Kind::Authorization, from..end))
            }
            Says::Cookies => self.cookies(text, word.end, found),
            Says::Code => code(text, word, found),
            Says::Header => {
                let from = value_start(bytes, word.end, false, false)?;
                let (range, _) = self.value(text, from)?;
                let value = text.get(range.clone())?;
                // `Basic abc`, or the value alone.
                let start = match value.split_once([' ', '\t']) {
                    Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') => {
                        range.end - rest.trim_start().len()
                    }
                    _ if range.end < text.len()
                        && bytes.get(range.end) == Some(&b' ')
                        && value.bytes().all(|byte| byte.is_ascii_alphabetic()) =>
                    {
                        let from = after_blanks(bytes, range.end);
                        let end = self.values.end(bytes, from);
                        return self.header_value(text, from..end, found);
                    }
                    _ => range.start,
                };
                self.header_value(text, start..range.end, found)
            }
            Says::Value(kind) => {
                let name_end = name_end(bytes, word.end, kind)?;
                if word.len() == "pass".len() && !is_pass(bytes, &word) {
                    return None;
                }
                let is_bare = is_option(bytes, word.start) || is_netrc(bytes, word.start, kind);
                let is_tag = word.start.checked_sub(1).and_then(|at| bytes.get(at)) == Some(&b'<');
                let from = value_start(bytes, name_end, is_bare, is_tag)?;
                let (range, is_quoted) = self.value(text, from)?;
                let value = text.get(range.clone())?;
                // `"password": 12345678` is a number of JSON, and a mask in its place would be none.
                let is_number = !is_quoted
                    && value
                        .bytes()
                        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E'));
                // A call's name is no value.
                let is_call = !is_quoted && bytes.get(range.end) == Some(&b'(');
                // What was masked before stays as it was left.
                if text.get(range.end..).is_some_and(|rest| rest.starts_with(shape::MASK_START)) {
                    return None;
                }
                let is_json_number = is_number && bytes.get(name_end).is_some_and(|byte| matches!(byte, b'"' | b'\\'));
                (!is_json_number && !is_call && shape::is_secret(kind, value, is_quoted))
                    .then(|| push(found, kind, range))
            }
        }
    }

    fn header_value(&self, text: &str, range: Range<usize>, found: &mut Vec<crate::Finding>) -> Option<usize> {
        let value = text.get(range.clone())?;
        let looked = shape::prefix(value);
        let is_secret = value.len() >= 8
            && !value.starts_with(shape::MASK_START)
            && !shape::is_placeholder(looked)
            && looked.bytes().any(|byte| byte.is_ascii_digit() || byte == b'=')
            && !looked.contains(' ');
        is_secret.then(|| push(found, Kind::Authorization, range))
    }

    /// Masks each value of `name=value; name=value` up to the end of the line or of the quotes around it.
    fn cookies(&mut self, text: &str, from: usize, found: &mut Vec<crate::Finding>) -> Option<usize> {
        let bytes = text.as_bytes();
        let mut at = after_blanks(bytes, from);
        let mut done = None;
        loop {
            let rest = bytes.get(at..bytes.len().min(at + 128))?;
            let name = rest
                .iter()
                .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$')))
                .unwrap_or(rest.len());
            if name == 0 || rest.get(name) != Some(&b'=') {
                return done;
            }
            let start = at + name + 1;
            let end = self.values.end(bytes, start);
            let value = text.get(start..end)?;
            if value.len() >= 8 && !value.starts_with(shape::MASK_START) && !shape::is_placeholder(shape::prefix(value))
            {
                done = Some(push(found, Kind::Cookie, start..end));
            }
            at = after_blanks(bytes, end);
            if bytes.get(at) != Some(&b';') {
                return done;
            }
            at = after_blanks(bytes, at + 1);
        }
    }

    /// Returns the range of the value that begins here, and whether quotes are around it.
    fn value(&mut self, text: &str, from: usize) -> Option<(Range<usize>, bool)> {
        let bytes = text.as_bytes();
        let slashes = bytes.get(from..)?.iter().take(8).take_while(|byte| **byte == b'\\').count();
        let quote = bytes.get(from + slashes).copied().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        let start = from + slashes + 1;
        if let Some(quote) = quote
            && let Some(end) = self.quotes.closing(bytes, start, quote, slashes)
        {
            let value = text.get(start..end)?;
            // A quote that ends the text around it, and what stands between that text and the next one.
            let is_between = value.trim_start().starts_with([',', '}', ']', ':', ')', ';']);
            return (!value.is_empty() && !is_between && !value.contains('\n')).then_some((start..end, true));
        }
        // Without its closing quote a value ends like an unquoted one.
        let start = if quote.is_some() { start } else { from };
        let end = self.values.end(bytes, start);
        // A sentence's or a template's sign at the end is no part of it.
        let cut = bytes
            .get(start..end)?
            .iter()
            .rev()
            .take(8)
            .take_while(|byte| matches!(byte, b'.' | b':' | b'!' | b'?'))
            .count();
        (end - cut > start).then(|| (start..end - cut, false))
    }
}

/// Finds closing quotes. One that was found is remembered for the next beginning before it.
#[derive(Default)]
struct Quotes {
    known: Option<(u8, usize, Range<usize>)>,
}

impl Quotes {
    /// Returns where the value ends that began at `start`, behind a quote with so many backslashes before it.
    ///
    /// Within JSON within JSON a quote has 1, 3, 7, ... backslashes; whether one closes the value is found by taking
    /// the escapes away level by level.
    fn closing(&mut self, bytes: &[u8], start: usize, quote: u8, slashes: usize) -> Option<usize> {
        if let Some((known_quote, known_slashes, range)) = &self.known
            && (*known_quote, *known_slashes) == (quote, slashes)
            && range.contains(&start)
        {
            return Some(range.end);
        }
        if !(slashes + 1).is_power_of_two() {
            return None;
        }
        let levels = (slashes + 1).trailing_zeros();
        let limit = bytes.len().min(start + VALUE_BYTES_MAX + 1);
        let mut at = start;
        while at < limit {
            let offset = memchr::memchr2(quote, b'"', bytes.get(at..limit)?)?;
            let found = at + offset;
            if bytes.get(found) != Some(&quote) {
                // The text around ends here, with no closing quote before.
                return None;
            }
            let mut before = bytes.get(start..found)?.iter().rev().take(64).take_while(|byte| **byte == b'\\').count();
            for _ in 0..levels {
                if before % 2 == 0 {
                    return None;
                }
                before /= 2;
            }
            if before % 2 == 0 {
                let end = found - slashes;
                self.known = Some((quote, slashes, start..end));
                return Some(end);
            }
            at = found + 1;
        }
        None
    }
}

fn push(found: &mut Vec<crate::Finding>, kind: Kind, range: Range<usize>) -> usize {
    let end = range.end;
    found.push(crate::Finding { kind, range });
    end
}

fn after_blanks(bytes: &[u8], at: usize) -> usize {
    // A few blanks stand between a name and its value; a table's column of them is no assignment.
    at + bytes.get(at..).unwrap_or_default().iter().take(8).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Returns where the name ends that has the word in it; nothing if the word is a part of another one.
fn name_end(bytes: &[u8], at: usize, kind: Kind) -> Option<usize> {
    let rest = bytes.get(at..bytes.len().min(at + NAME_REST_BYTES_MAX)).unwrap_or_default();
    let length = rest
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')))
        .unwrap_or(rest.len());
    let tail = rest.get(..length)?;
    // `tokens`, `tokenizer`, `passed`, `secretary`; `token_count`, `password_hash_rounds`, `token_type`, `secret_name`.
    let is_other_word = tail.first().is_some_and(u8::is_ascii_lowercase) && !tail.starts_with(b"s_") && tail != b"s";
    let lower = tail.to_ascii_lowercase();
    let is_about = [
        &b"count"[..],
        b"type",
        b"name",
        b"limit",
        b"max",
        b"min",
        b"length",
        b"len",
        b"budget",
        b"usage",
        b"id",
        b"path",
        b"file",
        b"url",
        b"uri",
        b"endpoint",
        b"field",
        b"prompt",
        b"policy",
        b"size",
        b"index",
        b"expir",
        b"ttl",
        b"version",
        b"ref",
        b"arn",
        b"regex",
        b"pattern",
        b"status",
        b"env",
        b"var",
    ]
    .iter()
    .any(|word| lower.windows(word.len()).any(|window| window == *word));
    let is_plural_token = kind == Kind::Token && (tail == b"s" || tail == b"S");
    (!is_other_word && !is_about && !is_plural_token).then_some(at + length)
}

/// Returns where the value begins after a name: behind `=`, `:`, `=>`, `:=`, and for a bare name behind a blank.
fn value_start(bytes: &[u8], name_end: usize, is_bare: bool, is_tag: bool) -> Option<usize> {
    let mut at = name_end;
    // The quote that closes a quoted name, escaped or not, or the bracket of `headers["x"]`.
    let slashes = bytes.get(at..)?.iter().take(8).take_while(|byte| **byte == b'\\').count();
    if bytes.get(at + slashes).is_some_and(|byte| matches!(byte, b'"' | b'\'' | b'`')) {
        at += slashes + 1;
    }
    if bytes.get(at) == Some(&b']') {
        at += 1;
    }
    let after = after_blanks(bytes, at);
    let sign = bytes.get(after..)?;
    let length = match sign {
        // A comparison is a question.
        [b'=', b'=', ..] => return None,
        [b'=', b'>', ..] | [b':', b'=', ..] => 2,
        [b':', b':', ..] => return None,
        [b'=', ..] | [b':', ..] => 1,
        // The full-width colon.
        [0xef, 0xbc, 0x9a, ..] => 3,
        // `<password>...</password>`, and `the password is ...`.
        [b'>', ..] if is_tag => 1,
        [b'i', b's', b' ', ..] if after > at => 3,
        // `%3D` is an equals sign in an address.
        [b'%', b'3', b'D' | b'd', ..] => 3,
        _ if is_bare && after > at => 0,
        _ => return None,
    };
    Some(after_blanks(bytes, after + length))
}

/// `DB_PASS=` and `"pass":` are names of passwords; `PASS: TestParser` and `pass = 1` are not.
fn is_pass(bytes: &[u8], word: &Range<usize>) -> bool {
    let before = word.start.checked_sub(1).and_then(|at| bytes.get(at));
    let after = bytes.get(word.end);
    match (before, after) {
        (Some(b'_' | b'-'), Some(b'=')) => true,
        (Some(quote @ (b'"' | b'\'')), after) => after == Some(quote) || after == Some(&b'\\'),
        _ => false,
    }
}

/// Tells whether the name is a command's option: `--token VALUE`.
fn is_option(bytes: &[u8], word_start: usize) -> bool {
    let before = bytes.get(word_start.saturating_sub(NAME_REST_BYTES_MAX)..word_start).unwrap_or_default();
    let name =
        before.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
    before.get(before.len() - name..).is_some_and(|name| name.starts_with(b"--"))
}

fn is_netrc(bytes: &[u8], word_start: usize, kind: Kind) -> bool {
    let before = bytes.get(word_start.saturating_sub(NETRC_BYTES)..word_start).unwrap_or_default();
    kind == Kind::Password
        && (before.ends_with(b" ") || before.ends_with(b"\n") || before.ends_with(b"\t"))
        && before.windows(6).any(|window| window == b"login " || window == b"login\t")
}

/// Finds four to eight digits soon after the words for a one-time code.
fn code(text: &str, word: Range<usize>, found: &mut Vec<crate::Finding>) -> Option<usize> {
    let bytes = text.as_bytes();
    if !crate::run::begins_word(bytes, word.start)
        || bytes.get(word.end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    {
        return None;
    }
    let rest = bytes.get(word.end..bytes.len().min(word.end + 24))?;
    let start = rest.iter().position(u8::is_ascii_digit)?;
    // Only words such as `is` and signs between them: anything longer is about something else.
    let between = rest.get(..start)?;
    // A mask in place of a number of JSON would be none, so digits behind quotes must be quoted themselves.
    let is_quoted = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b'"' | b'\''));
    if between.iter().any(|byte| matches!(byte, b'"' | b'\'' | b',' | b'[' | b'{' | b'\\'))
        && !is_quoted(between.last())
    {
        return None;
    }
    let letters = between.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let from = word.end + start;
    let digits = bytes.get(from..)?.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
    let ends = !bytes
        .get(from + digits)
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_'))
        || bytes.get(from + digits) == Some(&b'.') && !bytes.get(from + digits + 1).is_some_and(u8::is_ascii_digit);
    ((4..=8).contains(&digits) && ends && letters <= 3 && between.iter().any(|byte| matches!(byte, b':' | b'=' | b' ')))
        .then(|| push(found, Kind::OneTimeCode, from..from + digits))
}
