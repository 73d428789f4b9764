//! The bytes of posting lists, and the pages that hold them.
//!
//! A list of documents is a run of variable-length numbers: twice the distance to the document before, plus one if the
//! word stands in it more than once; the count then follows. A list of blocks is the distances alone, or a bit for each
//! block where that is shorter. A page is a run of entries in rising order of their keys.

use crate::api::SearchError;

/// Bytes of a page at most, unless one entry is longer: two fill a database page of 8 KiB, one a page of 4 KiB.
pub(crate) const PAGE_BYTES: usize = 4_000;

/// Appends a number in groups of seven bits, the lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8 & 0x7F) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number and moves past it; none where the bytes end too early.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut number = u64::from(first & 0x7F);
    for shift in (7..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Returns the error for bytes that cannot be read.
pub(crate) fn damaged(what: &str) -> SearchError {
    SearchError::Damaged(format!("{what} cannot be read"))
}

/// What an entry of a page says about one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) key: u64,
    /// Documents or blocks in the list.
    pub(crate) count: u32,
    /// Whether the list is a bit for each block.
    pub(crate) dense: bool,
    pub(crate) list: &'a [u8],
}

/// Reads the entries of a page.
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    key: u64,
}

impl<'a> Entries<'a> {
    pub(crate) fn new(page: &'a [u8]) -> Entries<'a> {
        Entries { bytes: page, key: 0 }
    }

    /// Returns how many bytes of the page are not read yet.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the next entry; none at the end of the page.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'a>>, SearchError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        self.read().map(Some).ok_or_else(|| damaged("a page of posting lists"))
    }

    fn read(&mut self) -> Option<Entry<'a>> {
        self.key = self.key.checked_add(take(&mut self.bytes)?)?;
        let counted = take(&mut self.bytes)?;
        let len = usize::try_from(take(&mut self.bytes)?).ok()?;
        let list = self.bytes.get(..len)?;
        self.bytes = self.bytes.get(len..)?;
        Some(Entry { key: self.key, count: u32::try_from(counted >> 1).ok()?, dense: counted & 1 == 1, list })
    }
}

/// Gathers entries in rising order of their keys into pages.
pub(crate) struct Pages<F: FnMut(u64, &[u8]) -> Result<(), SearchError>> {
    page: Vec<u8>,
    entry: Vec<u8>,
    first: u64,
    last: u64,
    write: F,
}

impl<F: FnMut(u64, &[u8]) -> Result<(), SearchError>> Pages<F> {
    /// Makes an empty one; `write` gets the first key of each page and its bytes.
    pub(crate) fn new(write: F) -> Self {
        Pages { page: Vec::with_capacity(PAGE_BYTES), entry: Vec::new(), first: 0, last: 0, write }
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, entry: Entry<'_>) -> Result<(), SearchError> {
        self.render(&entry);
        if !self.page.is_empty() && self.page.len() + self.entry.len() > PAGE_BYTES {
            self.flush()?;
            self.render(&entry);
        }
        if self.page.is_empty() {
            self.first = entry.key;
        }
        self.page.extend_from_slice(&self.entry);
        self.last = entry.key;
        Ok(())
    }

    fn render(&mut self, entry: &Entry<'_>) {
        let before = if self.page.is_empty() { 0 } else { self.last };
        self.entry.clear();
        put(&mut self.entry, entry.key.saturating_sub(before));
        put(&mut self.entry, u64::from(entry.count) << 1 | u64::from(entry.dense));
        put(&mut self.entry, entry.list.len() as u64);
        self.entry.extend_from_slice(entry.list);
    }

    fn flush(&mut self) -> Result<(), SearchError> {
        (self.write)(self.first, &self.page)?;
        self.page.clear();
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(mut self) -> Result<(), SearchError> {
        if self.page.is_empty() { Ok(()) } else { self.flush() }
    }
}

/// Writes a list of documents.
#[derive(Debug, Default)]
pub(crate) struct DocList {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
    last: u32,
}

impl DocList {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
        self.last = 0;
    }

    /// Adds a document greater than all before it; the word stands in it `times` times.
    pub(crate) fn push(&mut self, doc: u32, times: u32) {
        put(&mut self.bytes, u64::from(doc.saturating_sub(self.last)) << 1 | u64::from(times > 1));
        if times > 1 {
            put(&mut self.bytes, u64::from(times));
        }
        self.last = doc;
        self.count += 1;
    }
}

/// Calls `each` with every document of a list below `docs`, and how often the word stands in it.
#[inline]
pub(crate) fn each_doc(list: &[u8], docs: u32, mut each: impl FnMut(u32, u32)) -> Result<(), SearchError> {
    let mut bytes = list;
    let mut doc = 0_u64;
    while !bytes.is_empty() {
        let read = take(&mut bytes).and_then(|value| {
            let times = if value & 1 == 1 { take(&mut bytes)? } else { 1 };
            doc = doc.checked_add(value >> 1)?;
            (doc < u64::from(docs)).then_some(times)
        });
        let Some(times) = read else { return Err(damaged("a posting list")) };
        each(doc as u32, times.min(u64::from(u32::MAX)) as u32);
    }
    Ok(())
}

/// Returns a list of blocks, the shorter way, and whether it is a bit for each block.
pub(crate) fn block_list(blocks: &[u32], block_count: u32, out: &mut Vec<u8>) -> bool {
    out.clear();
    let bits = (block_count as usize).div_ceil(8);
    // A distance takes at least a byte.
    if blocks.len() < bits {
        let mut last = 0;
        for &block in blocks {
            put(out, u64::from(block.saturating_sub(last)));
            last = block;
        }
        if out.len() <= bits {
            return false;
        }
        out.clear();
    }
    out.resize(bits, 0);
    for &block in blocks {
        if let Some(byte) = out.get_mut(block as usize / 8) {
            *byte |= 1 << (block % 8);
        }
    }
    true
}

/// Calls `each` with every block of a list below `block_count`.
pub(crate) fn each_block(entry: &Entry<'_>, block_count: u32, mut each: impl FnMut(u32)) -> Result<(), SearchError> {
    if entry.dense {
        for (at, &byte) in entry.list.iter().enumerate() {
            let mut left = byte;
            while left != 0 {
                let block = at as u64 * 8 + u64::from(left.trailing_zeros());
                if block >= u64::from(block_count) {
                    return Err(damaged("a list of blocks"));
                }
                each(block as u32);
                left &= left - 1;
            }
        }
        return Ok(());
    }
    let mut bytes = entry.list;
    let mut block = 0_u64;
    while !bytes.is_empty() {
        let read = take(&mut bytes)
            .and_then(|distance| block.checked_add(distance))
            .filter(|&next| next < u64::from(block_count));
        let Some(next) = read else { return Err(damaged("a list of blocks")) };
        block = next;
        each(next as u32);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(number: u64) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Some(number));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn block_lists_come_back(blocks in proptest::collection::btree_set(0_u32..500, 0..400)) {
            let blocks: Vec<u32> = blocks.into_iter().collect();
            let mut list = Vec::new();
            let dense = block_list(&blocks, 500, &mut list);
            let entry = Entry { key: 0, count: blocks.len() as u32, dense, list: &list };
            let mut back = Vec::new();
            each_block(&entry, 500, |block| back.push(block)).unwrap();
            prop_assert_eq!(back, blocks);
            prop_assert!(list.len() <= 63);
        }

        #[test]
        fn damaged_bytes_are_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = each_doc(&bytes, 100, |doc, _| assert!(doc < 100));
            let mut entries = Entries::new(&bytes);
            while let Ok(Some(entry)) = entries.next() {
                let _ = each_block(&entry, 100, |block| assert!(block < 100));
            }
        }
    }

    #[test]
    fn pages_hold_every_entry_once_in_order() {
        let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut writer = Pages::new(|first, bytes: &[u8]| {
            pages.push((first, bytes.to_vec()));
            Ok(())
        });
        let lists: Vec<Vec<u8>> =
            (0..2_000_u64).map(|n| vec![7; (n % 97) as usize * if n == 1_000 { 100 } else { 1 }]).collect();
        for (n, list) in lists.iter().enumerate() {
            writer.push(Entry { key: n as u64 * 3, count: 1, dense: false, list }).unwrap();
        }
        writer.finish().unwrap();
        let mut keys = Vec::new();
        for (first, page) in &pages {
            let mut entries = Entries::new(page);
            let start = keys.len();
            while let Some(entry) = entries.next().unwrap() {
                assert_eq!(entry.list, lists[(entry.key / 3) as usize]);
                keys.push(entry.key);
            }
            assert_eq!(keys.get(start), Some(first));
        }
        assert_eq!(keys, (0..2_000_u64).map(|n| n * 3).collect::<Vec<_>>());
    }
}
