//! Lines of a file, one at a time, with a limit: a line over it is read past without being kept.
//!
//! [`records`] adds what JSON lines need: two records glued on one line, half a record before a whole one, NUL bytes.

use crate::ImportError;
use crate::input::Input;
use crate::problems::Problems;
use std::io::BufRead;

/// A buffer larger than this is given back after the line that needed it.
const BUFFER_KEEP_BYTES: usize = 4 << 20;

/// One line without its ending.
pub(crate) struct Line<'l> {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) text: &'l str,
    /// Whether the line had an ending; the last one of a cut file has none.
    pub(crate) ended: bool,
}

pub(crate) struct Lines<'i, 'r> {
    input: &'i mut Input<'r>,
    bytes: Vec<u8>,
    mended: String,
    number: u64,
    bytes_max: usize,
}

impl<'i, 'r> Lines<'i, 'r> {
    pub(crate) fn new(input: &'i mut Input<'r>, bytes_max: usize) -> Self {
        Lines { input, bytes: Vec::new(), mended: String::new(), number: 0, bytes_max }
    }

    /// Returns the next line that is within the limit; bytes that are no UTF-8 are replaced.
    pub(crate) fn next(&mut self, problems: &mut Problems) -> Result<Option<Line<'_>>, ImportError> {
        loop {
            if self.bytes.capacity() > BUFFER_KEEP_BYTES {
                self.bytes = Vec::new();
                self.mended = String::new();
            }
            self.bytes.clear();
            let mut length: u64 = 0;
            let mut ended = false;
            while !ended {
                let available = match self.input.fill_buf() {
                    Ok(available) => available,
                    Err(source) => return Err(ImportError::Read { bytes_read: self.input.bytes(), source }),
                };
                if available.is_empty() {
                    break;
                }
                let end = memchr::memchr(b'\n', available);
                let take = end.unwrap_or(available.len());
                length = length.saturating_add(take as u64);
                if length <= self.bytes_max as u64 {
                    self.bytes.extend_from_slice(available.get(..take).unwrap_or_default());
                } else {
                    self.bytes.clear();
                }
                ended = end.is_some();
                self.input.consume(take + usize::from(ended));
            }
            if length == 0 && !ended {
                return Ok(None);
            }
            self.number += 1;
            let number = self.number;
            if length > self.bytes_max as u64 {
                let limit = self.bytes_max;
                problems
                    .lost(Some(number), || format!("the line has {length} bytes, over the limit of {limit}; skipped"));
                continue;
            }
            while self.bytes.last() == Some(&b'\r') {
                self.bytes.pop();
            }
            let bad = match std::str::from_utf8(&self.bytes) {
                Ok(_) => None,
                Err(error) => Some(error.valid_up_to()),
            };
            if let Some(at) = bad {
                problems.warn(Some(number), || format!("bytes that are no UTF-8 from byte {at} of the line; replaced"));
                self.mended = String::from_utf8_lossy(&self.bytes).into_owned();
                return Ok(Some(Line { number, text: &self.mended, ended }));
            }
            let text = std::str::from_utf8(&self.bytes).unwrap_or_default();
            return Ok(Some(Line { number, text, ended }));
        }
    }
}

/// Calls `each` with every record of a JSON lines file. `each` returns the parser's error for a record that is no JSON object;
/// such a line is looked at again for whole records in it.
pub(crate) fn records(
    input: &mut Input<'_>,
    bytes_max: usize,
    problems: &mut Problems,
    each: &mut dyn FnMut(u64, &str, &mut Problems) -> Result<(), serde_json::Error>,
) -> Result<(), ImportError> {
    let mut lines = Lines::new(input, bytes_max);
    while let Some(line) = lines.next(problems)? {
        let text = line.text.trim_matches([' ', '\t', '\r', '\u{c}']);
        if text.is_empty() {
            continue;
        }
        if let Err(error) = each(line.number, text, problems) {
            recover(line.number, text, line.ended, error, problems, each);
        }
    }
    Ok(())
}

/// Beginnings of a record, as the programs write them; half a record is left behind at the last of them.
const RECORD_STARTS: [&str; 4] = ["{\"parentUuid\":", "{\"type\":", "{\"timestamp\":", "{\"id\":"];

fn recover(
    line: u64,
    text: &str,
    ended: bool,
    error: serde_json::Error,
    problems: &mut Problems,
    each: &mut dyn FnMut(u64, &str, &mut Problems) -> Result<(), serde_json::Error>,
) {
    if error.classify() == serde_json::error::Category::Data {
        problems.warn(Some(line), || "not a JSON object; left out".to_owned());
        return;
    }
    // A crash leaves holes in a file that read as NUL bytes; the record beside them is whole.
    if text.contains('\0') {
        let cleaned = text.replace('\0', "");
        let cleaned = cleaned.trim();
        if cleaned.is_empty() {
            problems.lost(Some(line), || format!("{} NUL bytes instead of a record", text.len()));
            return;
        }
        if each(line, cleaned, problems).is_ok() {
            problems.warn(Some(line), || "NUL bytes in the record; removed".to_owned());
            return;
        }
    }
    let mut found = 0u32;
    let mut rest = text;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&serde_json::value::RawValue>();
    while let Some(Ok(value)) = values.next() {
        found += u32::from(each(line, value.get(), problems).is_ok());
        rest = text.get(values.byte_offset()..).unwrap_or_default();
    }
    let rest = rest.trim();
    if rest.is_empty() {
        problems.note(Some(line), || format!("{found} records on one line; read one by one"));
        return;
    }
    let later = RECORD_STARTS.iter().filter_map(|start| rest.rfind(start)).filter(|at| *at > 0).max();
    if let Some(tail) = later.and_then(|at| rest.get(at..))
        && each(line, tail, problems).is_ok()
    {
        let lost = rest.len() - tail.len();
        problems
            .lost(Some(line), || format!("half a record ({lost} bytes) before a whole one; the whole one was read"));
        return;
    }
    let (bytes, what) = (rest.len(), if ended { "no valid JSON" } else { "the file is cut in this record" });
    problems.lost(Some(line), || format!("{what} ({bytes} bytes lost): {error}"));
}

#[cfg(test)]
mod tests;
