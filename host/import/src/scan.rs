//! Walks a JSON document without holding it: members and elements one at a time, a value as its exact text or read past.
//!
//! A state machine over strings, escapes and depth; it does not check what it walks over, the readers of the values do.
//! A document that is cut or broken ends the walk with a [`Stop`]; what was read before stays good.

use crate::ImportError;
use crate::input::Input;
use crate::problems::Problems;
use std::io::BufRead;

/// Longest key kept; a longer one is cut and matches nothing.
const KEY_BYTES_MAX: usize = 4_096;

/// Why the walk ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The file ends inside a value.
    Cut,
    /// Something else stands where this was expected.
    Syntax(&'static str),
    /// The file could not be read.
    Failed(ImportError),
}

pub(crate) type Walk<T> = Result<T, Stop>;

pub(crate) struct Scanner<'i, 'r> {
    input: &'i mut Input<'r>,
    line: u64,
    value_bytes_max: usize,
}

impl<'i, 'r> Scanner<'i, 'r> {
    pub(crate) fn new(input: &'i mut Input<'r>, value_bytes_max: usize) -> Self {
        Scanner { input, line: 1, value_bytes_max }
    }

    /// Line of the next byte.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The next byte that is no white space, left in place; none at the end of the file.
    pub(crate) fn peek(&mut self) -> Walk<Option<u8>> {
        loop {
            let (skip, lines, found) = {
                let available = self.fill()?;
                if available.is_empty() {
                    return Ok(None);
                }
                let skip = available
                    .iter()
                    .position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0))
                    .unwrap_or(available.len());
                let passed = available.get(..skip).unwrap_or_default();
                (skip, memchr::memchr_iter(b'\n', passed).count(), available.get(skip).copied())
            };
            self.line += lines as u64;
            self.input.consume(skip);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Walks an object; `each` gets every key and must read or skip its value. Anything else is skipped and gives false.
    pub(crate) fn object(&mut self, each: &mut dyn FnMut(&str, &mut Self) -> Walk<()>) -> Walk<bool> {
        if self.peek()? != Some(b'{') {
            self.skip()?;
            return Ok(false);
        }
        self.input.consume(1);
        loop {
            match self.peek()? {
                None => return Err(Stop::Cut),
                Some(b'}') => {
                    self.input.consume(1);
                    return Ok(true);
                }
                Some(b',') => self.input.consume(1),
                Some(b'"') => {
                    let key = self.key()?;
                    if self.peek()?.ok_or(Stop::Cut)? != b':' {
                        return Err(Stop::Syntax("a colon after a key"));
                    }
                    self.input.consume(1);
                    each(&key, self)?;
                }
                Some(_) => return Err(Stop::Syntax("a key")),
            }
        }
    }

    /// Walks an array; `each` must read or skip the element. Anything else is skipped and gives false.
    pub(crate) fn array(&mut self, each: &mut dyn FnMut(&mut Self) -> Walk<()>) -> Walk<bool> {
        if self.peek()? != Some(b'[') {
            self.skip()?;
            return Ok(false);
        }
        self.input.consume(1);
        loop {
            match self.peek()? {
                None => return Err(Stop::Cut),
                Some(b']') => {
                    self.input.consume(1);
                    return Ok(true);
                }
                Some(b',') => self.input.consume(1),
                Some(b'}' | b':') => return Err(Stop::Syntax("an element")),
                Some(_) => each(self)?,
            }
        }
    }

    /// Returns the exact text of the next value, or nothing (and a problem) if it is over the limit.
    pub(crate) fn take(&mut self, problems: &mut Problems) -> Walk<Option<String>> {
        let line = self.line;
        let mut bytes = Vec::new();
        let length = self.walk(Some(&mut bytes))?;
        let limit = self.value_bytes_max;
        if length > limit as u64 {
            problems.lost(Some(line), || format!("a value has {length} bytes, over the limit of {limit}; skipped"));
            return Ok(None);
        }
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                problems.warn(Some(line), || "bytes that are no UTF-8 in a value; replaced".to_owned());
                String::from_utf8_lossy(error.as_bytes()).into_owned()
            }
        }))
    }

    /// Reads past the next value.
    pub(crate) fn skip(&mut self) -> Walk<()> {
        self.walk(None).map(|_| ())
    }

    fn key(&mut self) -> Walk<String> {
        let limit = std::mem::replace(&mut self.value_bytes_max, KEY_BYTES_MAX);
        let mut bytes = Vec::new();
        let walked = self.walk(Some(&mut bytes));
        self.value_bytes_max = limit;
        walked?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(crate::json::string(&text).map(std::borrow::Cow::into_owned).unwrap_or_default())
    }

    fn fill(&mut self) -> Walk<&[u8]> {
        // The two calls are needed: a borrow that is returned cannot also be looked at for an error.
        if let Err(source) = self.input.fill_buf() {
            return Err(Stop::Failed(ImportError::Read { bytes_read: self.input.bytes(), source }));
        }
        self.input.fill_buf().map_err(|_| Stop::Cut)
    }

    // Passes one value and copies it to `sink` as long as it is within the limit; returns its length.
    fn walk(&mut self, mut sink: Option<&mut Vec<u8>>) -> Walk<u64> {
        let first = self.peek()?.ok_or(Stop::Cut)?;
        if matches!(first, b'}' | b']' | b',' | b':') {
            return Err(Stop::Syntax("a value"));
        }
        let is_scalar = !matches!(first, b'"' | b'{' | b'[');
        let limit = self.value_bytes_max as u64;
        let mut length = 0u64;
        let (mut depth, mut in_string, mut escaped) = (0u64, false, false);
        loop {
            let available = self.fill()?;
            if available.is_empty() {
                // A number or a word may end with the file.
                return if is_scalar { Ok(length) } else { Err(Stop::Cut) };
            }
            let (take, done) = if is_scalar {
                scalar_end(available)
            } else {
                structure_end(available, &mut depth, &mut in_string, &mut escaped)
            };
            let taken = available.get(..take).unwrap_or_default();
            let lines = memchr::memchr_iter(b'\n', taken).count() as u64;
            length = length.saturating_add(take as u64);
            if let Some(sink) = sink.as_deref_mut() {
                if length <= limit {
                    sink.extend_from_slice(taken);
                } else if sink.capacity() > 0 {
                    *sink = Vec::new();
                }
            }
            self.line += lines;
            self.input.consume(take);
            if done {
                return Ok(length);
            }
        }
    }
}

fn scalar_end(bytes: &[u8]) -> (usize, bool) {
    match bytes.iter().position(|b| matches!(b, b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\r' | b'\n')) {
        Some(at) => (at, true),
        None => (bytes.len(), false),
    }
}

fn structure_end(bytes: &[u8], depth: &mut u64, in_string: &mut bool, escaped: &mut bool) -> (usize, bool) {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if *escaped {
            *escaped = false;
            at += 1;
        } else if *in_string {
            let Some(step) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) else {
                return (bytes.len(), false);
            };
            at += step + 1;
            if bytes.get(at - 1) == Some(&b'"') {
                *in_string = false;
                if *depth == 0 {
                    return (at, true);
                }
            } else {
                *escaped = true;
            }
        } else {
            at += 1;
            match byte {
                b'"' => *in_string = true,
                b'{' | b'[' => *depth += 1,
                b'}' | b']' => {
                    *depth = depth.saturating_sub(1);
                    if *depth == 0 {
                        return (at, true);
                    }
                }
                _ => {}
            }
        }
    }
    (bytes.len(), false)
}

/// Turns an early end of the walk into a problem; only a file that cannot be read is an error.
pub(crate) fn settle(walked: Walk<()>, line: u64, problems: &mut Problems) -> Result<(), ImportError> {
    match walked {
        Ok(()) => {}
        Err(Stop::Cut) => {
            problems.lost(Some(line), || "the document is cut here; the whole records before it were kept".to_owned());
        }
        Err(Stop::Syntax(expected)) => {
            problems.lost(Some(line), || {
                format!("no valid JSON here, {expected} was expected; the rest of the document was left out")
            });
        }
        Err(Stop::Failed(error)) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(text: &str, limit: usize) -> (Vec<String>, Result<(), String>) {
        let mut input = Input::from_bytes(text.as_bytes());
        let mut scanner = Scanner::new(&mut input, limit);
        let mut problems = Problems::default();
        let mut seen = Vec::new();
        let result = scanner.object(&mut |key, scanner| {
            if key == "list" {
                scanner.array(&mut |scanner| {
                    seen.push(scanner.take(&mut problems)?.unwrap_or_else(|| "over".into()));
                    Ok(())
                })?;
                return Ok(());
            }
            seen.push(format!("{key}="));
            scanner.skip()
        });
        (seen, result.map(|_| ()).map_err(|stop| format!("{stop:?}")))
    }

    #[test]
    fn values_come_as_exact_text() {
        let (seen, end) = walk(r#" { "a":{"x":"}\"]"} ,"list":[ {"k": [1, 2]} ,"s\\", 12,true ] , "b":null}"#, 100);
        assert_eq!(seen, ["a=", r#"{"k": [1, 2]}"#, r#""s\\""#, "12", "true", "b="]);
        assert!(end.is_ok());
    }

    #[test]
    fn a_cut_document_gives_the_whole_elements_before_the_cut() {
        let (seen, end) = walk(r#"{"list":[{"a":1},{"a":"x"#, 100);
        assert_eq!((seen, end), (vec![r#"{"a":1}"#.to_owned()], Err("Cut".to_owned())));
        assert_eq!(walk("{\"list\":[1,2", 100).1, Err("Cut".to_owned()));
    }

    #[test]
    fn a_broken_document_stops_where_it_breaks() {
        let (seen, end) = walk(r#"{"list":[1,}"#, 100);
        assert_eq!(seen, ["1"]);
        assert!(end.unwrap_err().starts_with("Syntax"));
        assert!(walk("{1:2}", 100).1.is_err());
    }

    #[test]
    fn a_value_over_the_limit_is_read_past_and_a_million_deep_nesting_too() {
        let long = format!(r#"{{"list":["{}",3]}}"#, "x".repeat(1_000_000));
        assert_eq!(walk(&long, 100).0, ["over", "3"]);
        let deep = format!(r#"{{"list":[{}{},3]}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(walk(&deep, 100).0, ["over", "3"]);
    }
}
