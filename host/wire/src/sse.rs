//! Event streams: bytes in, whole events out, each with its exact bytes.

use memchr::memchr;
use std::borrow::Cow;

/// Bytes of one event. The last event of the Responses API holds the whole reply, so it may be long.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A stream that cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream has more than {EVENT_BYTES_MAX} bytes")]
pub struct StreamError;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its exact bytes, with the empty line that ends it.
    pub raw: &'a [u8],
    /// Its name; empty if it has none.
    pub name: Cow<'a, str>,
    /// Its data lines, joined; empty for a comment.
    pub data: Cow<'a, str>,
}

/// Splits a stream into events, wherever its pieces are cut.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The beginning of an event whose end has not come.
    begun: Vec<u8>,
    /// Bytes of it that hold no end.
    looked_at: usize,
}

impl SseParser {
    /// Takes the next piece and hands out the events that it ends.
    ///
    /// # Errors
    /// [`StreamError`] for an event beyond all measure; nothing more can be read then.
    pub fn feed(&mut self, piece: &[u8], each: &mut dyn FnMut(&SseEvent<'_>)) -> Result<(), StreamError> {
        if self.begun.is_empty() {
            let rest = events(piece, 0, each);
            self.begun.extend_from_slice(piece.get(rest..).unwrap_or_default());
            self.looked_at = line_start(&self.begun);
        } else {
            self.begun.extend_from_slice(piece);
            let rest = events(&self.begun, self.looked_at, each);
            self.begun.drain(..rest);
            self.looked_at = line_start(&self.begun);
        }
        if self.begun.len() > EVENT_BYTES_MAX { Err(StreamError) } else { Ok(()) }
    }

    /// Hands out what stands at the end of the stream without the empty line that should end it.
    pub fn finish(&mut self, each: &mut dyn FnMut(&SseEvent<'_>)) {
        let rest = std::mem::take(&mut self.begun);
        if !rest.is_empty() {
            each(&event(&rest));
        }
    }
}

/// Hands out the whole events in `bytes`, of which the first so many hold no end; returns where the rest begins.
fn events(bytes: &[u8], looked_at: usize, each: &mut dyn FnMut(&SseEvent<'_>)) -> usize {
    let (mut start, mut line) = (0, looked_at);
    while let Some(length) = bytes.get(line..).and_then(|rest| memchr(b'\n', rest)) {
        let end = line + length + 1;
        if matches!(bytes.get(line..line + length), Some(b"" | b"\r")) {
            each(&event(bytes.get(start..end).unwrap_or_default()));
            start = end;
        }
        line = end;
    }
    start
}

/// Returns where the last, unfinished line begins.
fn line_start(bytes: &[u8]) -> usize {
    memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1)
}

fn event(raw: &[u8]) -> SseEvent<'_> {
    let (mut name, mut data): (Cow<'_, str>, Option<Cow<'_, str>>) = (Cow::Borrowed(""), None);
    for line in raw.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let value = |prefix: &[u8]| {
            let value = line.strip_prefix(prefix)?;
            Some(String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value)))
        };
        if let Some(more) = value(b"data:") {
            data = Some(match data {
                None => more,
                Some(before) => Cow::Owned(format!("{before}\n{more}")),
            });
        } else if let Some(named) = value(b"event:") {
            name = named;
        }
    }
    SseEvent { raw, name, data: data.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, String, Vec<u8>)> {
        let (mut parser, mut out) = (SseParser::default(), Vec::new());
        let mut each =
            |event: &SseEvent<'_>| out.push((event.name.to_string(), event.data.to_string(), event.raw.to_vec()));
        for piece in pieces {
            parser.feed(piece, &mut each).unwrap();
        }
        parser.finish(&mut each);
        out
    }

    #[test]
    fn events_are_read_in_all_their_forms() {
        let stream = "event: a\r\ndata: 1\r\n\r\n: ping\n\ndata:{\"x\":\ndata: 2}\n\ndata: [DONE]";
        let events = read(&[stream.as_bytes()]);
        let found: Vec<(&str, &str)> = events.iter().map(|(name, data, _)| (name.as_str(), data.as_str())).collect();
        assert_eq!(found, [("a", "1"), ("", ""), ("", "{\"x\":\n2}"), ("", "[DONE]")]);
        let raw: Vec<u8> = events.into_iter().flat_map(|(_, _, raw)| raw).collect();
        assert_eq!(raw, stream.as_bytes());
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1 << 20];
        let fed: Vec<_> = (0..20).map(|_| parser.feed(&piece, &mut |_| {})).collect();
        assert!(fed.first().unwrap().is_ok() && fed.last().unwrap().is_err());
    }

    proptest! {
        #[test]
        fn where_a_stream_is_cut_makes_no_difference(
            lines in proptest::collection::vec("(data: [a-zé\\{\\}\"]{0,12}|event: [a-z]{1,4}|: c||\r)", 0..20),
            cuts in proptest::collection::vec(0_usize..200, 0..8),
        ) {
            let stream = lines.join("\n");
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }
    }
}
