//! Reads the structure of JSON text and rewrites single values of it, leaving every other byte as it is.
//!
//! Values stay slices of the text they came from. `serde_json` checks the syntax once, at the door; what lies inside is
//! then found by a scanner that looks only for quotes and brackets, because a message is looked into level by level and
//! its long strings would be checked five times over. Neither recurses, so 200,000 nested brackets cost no stack. On text
//! that was not checked the scanner finds nothing or something odd, but it always ends. Strings are decoded here,
//! because clients do send lone surrogates, which `serde_json` refuses.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;
use serde_json::value::RawValue;

use crate::WireError;

/// White space between JSON tokens.
pub(crate) const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// What a JSON value is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// Returns the kind with its article, for error messages.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        }
    }
}

/// Tells what a valid JSON value without surrounding white space is.
pub(crate) fn kind(raw: &str) -> Kind {
    match raw.as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') | None => Kind::Null,
        Some(_) => Kind::Number,
    }
}

/// Returns the one JSON value that `text` holds, without the white space around it.
pub(crate) fn value<'a>(text: &'a str, what: &'static str) -> Result<&'a str, WireError> {
    serde_json::from_str::<&RawValue>(text).map(RawValue::get).map_err(|error| not_json(text, what, &error))
}

/// Tells whether `text` is one JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    value(text, "value").is_ok_and(|raw| kind(raw) == Kind::Object)
}

fn not_json(text: &str, what: &'static str, error: &serde_json::Error) -> WireError {
    let line_start = match error.line().checked_sub(2) {
        Some(breaks_before) => text
            .bytes()
            .enumerate()
            .filter(|&(_, byte)| byte == b'\n')
            .nth(breaks_before)
            .map_or(0, |(at, _)| at.saturating_add(1)),
        None => 0,
    };
    let at = line_start.saturating_add(error.column().saturating_sub(1)).min(text.len());
    let problem = if error.is_eof() { "the text ends too early" } else { "a syntax error" };
    WireError::NotJson { what, problem, at }
}

/// Walks over JSON text that is known to be valid.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Passes this byte if it comes next, after white space.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.byte() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Passes a string from its first quote to its last.
    fn skip_string(&mut self) -> Option<()> {
        let inside = self.text.as_bytes().get(self.at.checked_add(1)?..)?;
        let mut from = 0;
        loop {
            let quote = from + memchr(b'"', inside.get(from..)?)?;
            // Only a quote behind an odd number of backslashes goes on; the runs before two quotes never overlap.
            let before = inside.get(from..quote)?;
            let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
            from = quote + 1;
            if backslashes % 2 == 0 {
                self.at = self.at.checked_add(1)?.checked_add(from)?;
                return Some(());
            }
        }
    }

    /// Passes a whole value and returns where it stands.
    fn value(&mut self) -> Option<Range<usize>> {
        self.skip_space();
        let start = self.at;
        match self.byte()? {
            b'"' => self.skip_string()?,
            b'{' | b'[' => {
                let mut depth = 0_usize;
                loop {
                    match self.byte()? {
                        b'"' => {
                            self.skip_string()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth = depth.checked_sub(1)?,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                while let Some(byte) = self.byte()
                    && !matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')
                {
                    self.at += 1;
                }
            }
        }
        // An empty scalar is no value; to take it for one would be to stand still.
        (self.at > start).then_some(start..self.at)
    }
}

/// The members of an object, in order, each with its exact text.
#[derive(Debug, Clone)]
pub(crate) struct Object<'a> {
    raw: &'a str,
    members: Vec<Member<'a>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) value: &'a str,
    /// From the key's first quote to the value's last byte.
    span: Range<usize>,
}

impl<'a> Object<'a> {
    /// Reads an object; `None` if the text is another value.
    pub(crate) fn parse(raw: &'a str) -> Option<Object<'a>> {
        let raw = raw.trim_matches(SPACE);
        let mut scanner = Scanner { text: raw, at: 0 };
        let mut members = Vec::new();
        if !scanner.take(b'{') {
            return None;
        }
        if scanner.take(b'}') {
            return Some(Object { raw, members });
        }
        loop {
            let key = scanner.value()?;
            if !scanner.take(b':') {
                return None;
            }
            let value = scanner.value()?;
            let span = key.start..value.end;
            members.push(Member { key: decode(raw.get(key)?)?, value: raw.get(value)?, span });
            if !scanner.take(b',') {
                return scanner.take(b'}').then_some(Object { raw, members });
            }
        }
    }

    pub(crate) fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    /// Position of the member that counts: the last one of that name.
    pub(crate) fn position(&self, key: &str) -> Option<usize> {
        self.members.iter().rposition(|member| member.key == key)
    }

    /// Value of the member that counts, as JSON text.
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        self.position(key).and_then(|at| self.members.get(at)).map(|member| member.value)
    }

    /// Value of a member that is a string, decoded.
    pub(crate) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key).and_then(decode)
    }

    /// Returns where a member's value stands in the text that was parsed.
    pub(crate) fn value_range(&self, at: usize) -> Option<Range<usize>> {
        let member = self.members.get(at)?;
        Some(member.span.end.checked_sub(member.value.len())?..member.span.end)
    }

    /// Writes the object with some values replaced (`Some`) or members removed (`None`).
    pub(crate) fn rewrite(&self, changes: &[(usize, Option<String>)]) -> String {
        let mut texts: Vec<Option<Cow<'_, str>>> =
            self.members.iter().map(|member| self.raw.get(member.span.clone()).map(Cow::Borrowed)).collect();
        for (at, change) in changes {
            let (Some(slot), Some(member)) = (texts.get_mut(*at), self.members.get(*at)) else { continue };
            *slot = change.as_ref().and_then(|value| {
                let key_end = member.span.end.checked_sub(member.value.len())?;
                let mut text = self.raw.get(member.span.start..key_end)?.to_owned();
                text.push_str(value);
                Some(Cow::Owned(text))
            });
        }
        let spans: Vec<_> = self.members.iter().map(|member| member.span.clone()).collect();
        let kept = texts.iter().enumerate().filter_map(|(at, text)| Some((Some(at), text.as_deref()?)));
        join(self.raw, &spans, kept)
    }

    /// Writes the object with one value replaced, or added at the end if there is no such member.
    pub(crate) fn with_value(&self, key: &str, value: String) -> String {
        if let Some(at) = self.position(key) {
            return self.rewrite(&[(at, Some(value))]);
        }
        let spans: Vec<_> = self.members.iter().map(|member| member.span.clone()).collect();
        let added = format!("{}:{value}", quote(key));
        let kept =
            self.members.iter().enumerate().filter_map(|(at, m)| Some((Some(at), self.raw.get(m.span.clone())?)));
        join(self.raw, &spans, kept.chain([(None, added.as_str())]))
    }
}

/// Splits an array into the exact texts of its elements; `None` if the text is another value.
pub(crate) fn elements(raw: &str) -> Option<Vec<&str>> {
    Some(element_spans(raw)?.into_iter().filter_map(|span| raw.get(span)).collect())
}

/// Returns where each element stands in an array's text.
pub(crate) fn element_spans(raw: &str) -> Option<Vec<Range<usize>>> {
    let mut scanner = Scanner { text: raw, at: 0 };
    let mut spans = Vec::new();
    if !scanner.take(b'[') {
        return None;
    }
    if scanner.take(b']') {
        return Some(spans);
    }
    loop {
        spans.push(scanner.value()?);
        if !scanner.take(b',') {
            return scanner.take(b']').then_some(spans);
        }
    }
}

/// Writes an array or object anew from items that stood at `spans` in `raw` (by their index) or that are new (`None`).
///
/// An old item keeps the separator that stood before it; a new one takes the first separator of the list.
pub(crate) fn join<'m>(
    raw: &str,
    spans: &[Range<usize>],
    items: impl IntoIterator<Item = (Option<usize>, &'m str)>,
) -> String {
    let between = |at: usize| {
        let before = spans.get(at.checked_sub(1)?)?;
        raw.get(before.end..spans.get(at)?.start)
    };
    let common = between(1).unwrap_or(",");
    let (head, tail) = match (spans.first(), spans.last()) {
        (Some(first), Some(last)) => (raw.get(..first.start), raw.get(last.end..)),
        _ => (raw.get(..1), raw.get(1..)),
    };
    let mut out = String::with_capacity(raw.len());
    out.push_str(head.unwrap_or_default());
    for (count, (at, text)) in items.into_iter().enumerate() {
        if count > 0 {
            out.push_str(at.and_then(between).unwrap_or(common));
        }
        out.push_str(text);
    }
    out.push_str(tail.unwrap_or_default());
    out
}

/// Decodes a JSON string; `None` if the value is none. A lone surrogate becomes U+FFFD.
pub(crate) fn decode(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    let Some(mut at) = memchr(b'\\', inner.as_bytes()) else { return Some(Cow::Borrowed(inner)) };
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    loop {
        let (plain, escape) = rest.split_at_checked(at)?;
        out.push_str(plain);
        let (decoded, used) = unescape(escape.get(1..)?);
        out.push(decoded);
        rest = escape.get(used.checked_add(1)?..).unwrap_or_default();
        match memchr(b'\\', rest.as_bytes()) {
            Some(next) => at = next,
            None => break,
        }
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// Decodes what follows a backslash; also tells how many bytes that were.
fn unescape(text: &str) -> (char, usize) {
    let simple = match text.as_bytes().first() {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let unit = hex(text, 1);
            if let Some(decoded) = unit.and_then(char::from_u32) {
                return (decoded, 5);
            }
            // A high surrogate counts only together with the low one that follows it at once.
            if let (Some(high @ 0xD800..=0xDBFF), Some("\\u"), Some(low @ 0xDC00..=0xDFFF)) =
                (unit, text.get(5..7), hex(text, 7))
            {
                let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11);
            }
            return (char::REPLACEMENT_CHARACTER, 5);
        }
        _ => return text.chars().next().map_or((char::REPLACEMENT_CHARACTER, 0), |c| (c, c.len_utf8())),
    };
    (simple, 1)
}

fn hex(text: &str, at: usize) -> Option<u32> {
    u32::from_str_radix(text.get(at..at.checked_add(4)?)?, 16).ok()
}

/// Writes a text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("a string can always be written as JSON")
}

/// Returns valid JSON without the white space between its tokens.
pub(crate) fn compact(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut in_string = false;
    let mut is_escaped = false;
    for c in raw.chars() {
        if in_string {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => in_string = false,
                _ => {}
            }
        } else if SPACE.contains(&c) {
            continue;
        } else {
            in_string = c == '"';
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_decode_leniently() {
        for (raw, want) in [
            (r#""plain""#, "plain"),
            (r#""a\n\t\"\\\/\b\f\rz""#, "a\n\t\"\\/\u{8}\u{c}\rz"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\ud83d""#, "\u{FFFD}"),
            (r#""\ud83dx\ude00""#, "\u{FFFD}x\u{FFFD}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{FFFD}😀"),
            (r#""\ud83d\n""#, "\u{FFFD}\n"),
            (r#""\u0000é日\u00e9""#, "\0é日é"),
        ] {
            assert_eq!(decode(raw).as_deref(), Some(want), "{raw}");
        }
        assert_eq!(decode("12"), None);
    }

    #[test]
    fn the_last_of_duplicate_keys_counts_and_all_bytes_stay() {
        let raw = r#"{ "a" : 1 , "\u0061":2, "b":[1, 2] }"#;
        let object = Object::parse(raw).unwrap();
        assert_eq!(object.get("a"), Some("2"));
        assert_eq!(object.rewrite(&[]), raw);
        assert_eq!(object.rewrite(&[(2, None)]), r#"{ "a" : 1 , "\u0061":2 }"#);
        assert_eq!(object.rewrite(&[(0, None)]), r#"{ "\u0061":2, "b":[1, 2] }"#);
        assert_eq!(object.rewrite(&[(0, None), (1, None), (2, None)]), "{  }");
        assert_eq!(object.with_value("a", "3".into()), r#"{ "a" : 1 , "\u0061":3, "b":[1, 2] }"#);
        assert_eq!(Object::parse("{}").unwrap().with_value("k", "1".into()), r#"{"k":1}"#);
    }

    #[test]
    fn deep_nesting_huge_numbers_and_lone_surrogates_pass() {
        let deep = format!("{{\"k\\ud83d\":{}{},\"n\":1e999999}}", "[".repeat(200_000), "]".repeat(200_000));
        let object = Object::parse(&deep).unwrap();
        assert_eq!(object.members()[0].key, "k\u{FFFD}");
        assert_eq!(object.get("n"), Some("1e999999"));
        assert_eq!(object.rewrite(&[]), deep);
    }

    #[test]
    fn the_scanner_ends_on_anything() {
        for text in [
            "",
            "{",
            "[",
            "[1",
            "[,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "\"\\",
            "[\"\\\"]",
            "]",
            "[}]",
            "{\"a\":1]",
        ] {
            assert!(Object::parse(text).is_none(), "{text}");
            assert!(text == "[}]" || elements(text).is_none(), "{text}");
        }
        let strings = r#"["a\\","\\\"","]\"[",{"b":"}"}]"#;
        assert_eq!(elements(strings).unwrap(), [r#""a\\""#, r#""\\\"""#, r#""]\"[""#, r#"{"b":"}"}"#]);
    }

    #[test]
    fn a_fault_is_placed_by_its_byte() {
        let text = "{\n \"a\": 1,\n x}";
        let error = value(text, "message").unwrap_err();
        assert_eq!(error, WireError::NotJson { what: "message", problem: "a syntax error", at: 12 });
        let error = value("[1, 2", "message").unwrap_err();
        assert!(matches!(error, WireError::NotJson { problem: "the text ends too early", .. }));
    }

    #[test]
    fn compacting_leaves_strings_alone() {
        assert_eq!(compact("{ \"a b\" : [ 1 ,\n \"c \\\" d\" ] }"), "{\"a b\":[1,\"c \\\" d\"]}");
    }
}
