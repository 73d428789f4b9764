//! The bytes of a file: unpacked if they are gzip, counted, peeked at, and ended quietly where a packed file is cut.

use std::io::{self, BufRead, Cursor, Read};

/// Bytes looked at to recognise a format.
pub(crate) const PREFIX_BYTES: usize = 64 * 1024;
/// Size of the read buffer; it must hold the prefix.
const BUFFER_BYTES: usize = 256 * 1024;
/// Bytes between two calls of the progress function.
const PROGRESS_STEP_BYTES: u64 = 1 << 20;
/// The two bytes every gzip member begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Counts what is read from the outside and reports it.
struct Counted<'r> {
    inner: &'r mut dyn BufRead,
    progress: &'r mut dyn FnMut(u64),
    bytes: u64,
    next_report: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.bytes = self.bytes.saturating_add(count as u64);
        if self.bytes >= self.next_report || count == 0 {
            (self.progress)(self.bytes);
            self.next_report = self.bytes.saturating_add(PROGRESS_STEP_BYTES);
        }
        Ok(count)
    }
}

/// The unpacked bytes of the file.
pub(crate) struct Input<'r> {
    inner: Box<dyn Read + 'r>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    bytes: u64,
    fault: Option<String>,
}

impl<'r> Input<'r> {
    pub(crate) fn new(reader: &'r mut dyn BufRead, progress: &'r mut dyn FnMut(u64)) -> io::Result<Self> {
        let mut counted = Counted { inner: reader, progress, bytes: 0, next_report: 0 };
        let mut magic = [0u8; 2];
        let mut have = 0;
        while let Some(rest) = magic.get_mut(have..).filter(|rest| !rest.is_empty()) {
            match counted.read(rest) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let head = Cursor::new(magic.get(..have).unwrap_or_default().to_vec());
        let whole = head.chain(counted);
        let inner: Box<dyn Read + 'r> = if have == magic.len() && magic == GZIP_MAGIC {
            Box::new(flate2::read::MultiGzDecoder::new(whole))
        } else {
            Box::new(whole)
        };
        Ok(Input::over(inner))
    }

    fn over(inner: Box<dyn Read + 'r>) -> Self {
        Input { inner, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, ended: false, bytes: 0, fault: None }
    }

    /// Reads from text that is already in memory.
    pub(crate) fn from_bytes(bytes: &'r [u8]) -> Self {
        Input::over(Box::new(bytes))
    }

    /// Unpacked bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What was wrong with the packed stream, if it ended early.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Fills the buffer up to the prefix, drops a byte order mark, and shows what is there. Call it before anything is consumed.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        while self.end < PREFIX_BYTES && self.more()? {}
        if self.buffer.get(self.start..self.end).is_some_and(|head| head.starts_with(BOM)) {
            self.start += BOM.len();
        }
        Ok(self.buffer.get(self.start..self.end).unwrap_or_default())
    }

    // Reads once behind what is buffered; false at the end.
    fn more(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        loop {
            let Some(room) = self.buffer.get_mut(self.end..).filter(|room| !room.is_empty()) else { return Ok(false) };
            match self.inner.read(room) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    self.bytes = self.bytes.saturating_add(count as u64);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A packed file that was cut or has foreign bytes behind it: what was unpacked before is good.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
                    ) =>
                {
                    self.fault = Some(error.to_string());
                    self.ended = true;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Read for Input<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let have = self.fill_buf()?;
        let count = have.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), have.get(..count)) {
            to.copy_from_slice(from);
        }
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start >= self.end {
            self.start = 0;
            self.end = 0;
            self.more()?;
        }
        Ok(self.buffer.get(self.start..self.end).unwrap_or_default())
    }
    fn consume(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(bytes: &[u8]) -> (String, bool) {
        let mut reader = bytes;
        let mut progress = |_| {};
        let mut input = Input::new(&mut reader, &mut progress).unwrap();
        input.peek().unwrap();
        let mut text = String::new();
        input.read_to_string(&mut text).unwrap();
        (text, input.fault().is_some())
    }

    #[test]
    fn gzip_is_known_by_its_magic_bytes_and_a_byte_order_mark_is_dropped() {
        assert_eq!(unpack(&packed("\u{feff}hello")), ("hello".to_owned(), false));
        assert_eq!(unpack("\u{feff}hello".as_bytes()), ("hello".to_owned(), false));
        assert_eq!(unpack(b""), (String::new(), false));
        assert_eq!(unpack(b"\x1f"), ("\x1f".to_owned(), false));
    }

    #[test]
    fn a_cut_gzip_file_gives_what_was_whole_and_a_fault() {
        let text: String = (0..50_000u32).map(|n| format!("{} ", n.wrapping_mul(2_654_435_761))).collect();
        let whole = packed(&text);
        let (head, fault) = unpack(&whole[..whole.len() / 2]);
        assert!(fault && head.len() > 1_000 && text.starts_with(&head));
    }
}
