//! Walks over YAML text once, without parsing it, to learn its depth and the line of each key.
//!
//! The parser knows neither: it spends seconds on deep nesting before it refuses, and its values carry no positions.
//! The walk is lenient. On text that is no YAML it gives some lines or none, never an error.

use std::borrow::Cow;
use std::collections::HashMap;

/// Deepest nesting a file may have; real ones have four or five levels.
pub(crate) const DEPTH_MAX: usize = 64;

/// What the walk learned.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    entries: Vec<Entry>,
    children: HashMap<(usize, String), Vec<usize>>,
    /// Line at which the text nests deeper than `DEPTH_MAX`.
    pub(crate) too_deep: Option<usize>,
    /// First line whose indentation holds a tab.
    pub(crate) tab_indented: Option<usize>,
}

#[derive(Debug)]
struct Entry {
    line: usize,
}

/// Stands for the document as the parent of its first keys.
const ROOT: usize = usize::MAX;

impl Lines {
    /// Walks over a text.
    pub(crate) fn of(text: &str) -> Self {
        let text = with_plain_breaks(text);
        let mut walk = Walk {
            text: &text,
            at: 0,
            line: 1,
            line_start: 0,
            levels: Vec::new(),
            is_first_document: true,
            lines: Lines::default(),
        };
        walk.run();
        walk.lines
    }

    /// Returns the line of a key, or of the nearest part of its path that stands in the text (a merged key has none).
    /// Of equal keys it is the last one, whose value is used.
    pub(crate) fn of_key<S: AsRef<str>>(&self, path: &[S]) -> Option<usize> {
        let mut parents = vec![ROOT];
        let mut line = None;
        for segment in path {
            let found: Vec<usize> = parents
                .iter()
                .filter_map(|&parent| self.children.get(&(parent, segment.as_ref().to_owned())))
                .flatten()
                .copied()
                .collect();
            let Some(entry) = found.last().and_then(|&id| self.entries.get(id)) else { break };
            line = Some(entry.line);
            parents = found;
        }
        line
    }

    /// Returns the lines of all occurrences of a key at the top level or below its (last) parents.
    pub(crate) fn all_of<S: AsRef<str>>(&self, path: &[S]) -> Vec<usize> {
        let mut parents = vec![ROOT];
        for segment in path {
            parents = parents
                .iter()
                .filter_map(|&parent| self.children.get(&(parent, segment.as_ref().to_owned())))
                .flatten()
                .copied()
                .collect();
        }
        parents.iter().filter_map(|&id| self.entries.get(id)).map(|entry| entry.line).collect()
    }
}

/// Makes every line end a newline. YAML also ends lines at a lone carriage return and at three Unicode separators.
fn with_plain_breaks(text: &str) -> Cow<'_, str> {
    const BREAKS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];
    if text.contains(BREAKS) { text.replace("\r\n", "\n").replace(BREAKS, "\n").into() } else { text.into() }
}

/// Makes a message of the parser fit on one line, however the text it quotes looks.
pub(crate) fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A mapping or list in block style that is open at the current place.
struct Level {
    column: usize,
    is_list: bool,
    parent: usize,
    last: usize,
    items: usize,
}

/// A mapping or list in flow style that is open at the current place.
struct Frame {
    is_map: bool,
    parent: usize,
    /// The key whose value comes next.
    pending: Option<usize>,
    items: usize,
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    line_start: usize,
    levels: Vec<Level>,
    is_first_document: bool,
    lines: Lines,
}

impl Walk<'_> {
    fn run(&mut self) {
        let mut has_content = false;
        while self.at < self.text.len() && self.lines.too_deep.is_none() {
            // At the first column of a line.
            let marker = self.text.get(self.at..self.at + 3).unwrap_or_default();
            if (marker == "---" || marker == "...") && self.is_blank_at(3) {
                self.levels.clear();
                // Keys of later documents are not used, but their depth still counts.
                self.is_first_document &= marker == "---" && !has_content;
                self.at += 3;
            } else if self.peek(0) == b'%' && !has_content {
                self.skip_line();
                continue;
            }
            has_content |= self.block_line();
        }
    }

    /// Handles one line in block style and what its value spans; ends at the first column of a line.
    fn block_line(&mut self) -> bool {
        self.skip_indentation();
        loop {
            match self.peek(0) {
                0 if self.at >= self.text.len() => return false,
                b'\n' | b'#' => {
                    self.skip_line();
                    return false;
                }
                b'-' | b'?' if self.is_blank_at(1) => {
                    let column = self.column();
                    self.open_level(column, true);
                    let name = self.levels.last().map_or(0, |level| level.items).to_string();
                    self.enter(name);
                    self.at += 1;
                    self.skip_blanks();
                    if self.lines.too_deep.is_some() {
                        return true;
                    }
                }
                _ => break,
            }
        }
        self.skip_properties();
        if !matches!(self.peek(0), b'{' | b'[') {
            let column = self.column();
            if let Some(name) = self.key() {
                self.open_level(column, false);
                self.enter(name);
                self.skip_blanks();
                self.skip_properties();
            }
        }
        self.value();
        true
    }

    fn value(&mut self) {
        match self.peek(0) {
            b'|' | b'>' => {
                let parent = self.levels.last().map(|level| level.column);
                self.skip_line();
                self.skip_block_text(parent);
                return;
            }
            b'"' | b'\'' => {
                self.quoted();
            }
            b'{' | b'[' => self.flow(),
            _ => {}
        }
        self.skip_line();
    }

    /// Finds or opens the level for a key or list item at a column.
    fn open_level(&mut self, column: usize, is_list: bool) {
        // A list may stand at the column of the key that holds it, so a key closes such a list, not the reverse.
        while self
            .levels
            .last()
            .is_some_and(|top| top.column > column || (top.column == column && top.is_list && !is_list))
        {
            self.levels.pop();
        }
        if !self.levels.last().is_some_and(|top| top.column == column && top.is_list == is_list) {
            let parent = self.levels.last().map_or(ROOT, |top| top.last);
            self.levels.push(Level { column, is_list, parent, last: parent, items: 0 });
            self.check_depth(0);
        }
    }

    /// Records a key of the innermost level.
    fn enter(&mut self, name: String) {
        let parent = self.levels.last().map_or(ROOT, |level| level.parent);
        let id = self.record(parent, name);
        if let Some(level) = self.levels.last_mut() {
            level.last = id;
            level.items += 1;
        }
    }

    fn record(&mut self, parent: usize, name: String) -> usize {
        let id = self.lines.entries.len();
        self.lines.entries.push(Entry { line: self.line });
        if self.is_first_document {
            self.lines.children.entry((parent, name)).or_default().push(id);
        }
        id
    }

    fn check_depth(&mut self, frames: usize) {
        if self.levels.len() + frames > DEPTH_MAX {
            self.lines.too_deep.get_or_insert(self.line);
        }
    }

    /// Reads a key with its colon, or stays in place when the line holds none.
    fn key(&mut self) -> Option<String> {
        let (at, line, line_start) = (self.at, self.line, self.line_start);
        let name = match self.peek(0) {
            b'"' | b'\'' => {
                let name = self.quoted();
                self.skip_blanks();
                // A key cannot span lines.
                (self.line == line && self.peek(0) == b':' && self.is_blank_at(1)).then_some(name)
            }
            _ => self.plain_key(),
        };
        if name.is_some() {
            self.at += 1;
        } else {
            (self.at, self.line, self.line_start) = (at, line, line_start);
        }
        name
    }

    fn plain_key(&mut self) -> Option<String> {
        let start = self.at;
        let mut before = b' ';
        loop {
            match self.peek(0) {
                0 if self.at >= self.text.len() => return None,
                b'\n' => return None,
                b'#' if before == b' ' || before == b'\t' => return None,
                b':' if self.is_blank_at(1) => break,
                byte => before = byte,
            }
            self.at += 1;
        }
        Some(self.text.get(start..self.at)?.trim_end().to_owned())
    }

    /// Reads a quoted text, over several lines if need be.
    fn quoted(&mut self) -> String {
        let quote = self.peek(0);
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek(0) {
                0 if self.at >= self.text.len() => break,
                b'\n' => self.newline(),
                b'\\' if quote == b'"' => self.at += if self.peek(1) == b'\n' { 1 } else { 2 },
                byte if byte == quote && quote == b'\'' && self.peek(1) == quote => self.at += 2,
                byte if byte == quote => {
                    self.at += 1;
                    break;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.at.min(self.text.len());
        let raw = self.text.get(start..self.at).unwrap_or_default();
        let inner = self.text.get(start + 1..self.at.saturating_sub(1)).unwrap_or_default();
        match quote {
            b'\'' => inner.replace("''", "'"),
            // JSON's escapes are those of YAML that occur in keys.
            _ => serde_json::from_str(raw).unwrap_or_else(|_| inner.to_owned()),
        }
    }

    fn flow(&mut self) {
        let mut frames: Vec<Frame> = Vec::new();
        let owner = self.levels.last().map_or(ROOT, |level| level.last);
        while self.at < self.text.len() && self.lines.too_deep.is_none() {
            match self.peek(0) {
                b'\n' => self.newline(),
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'#' if self.at == self.line_start || matches!(self.before(), b' ' | b'\t') => self.skip_to_newline(),
                opening @ (b'{' | b'[') => {
                    let parent = match frames.last_mut() {
                        None => owner,
                        Some(frame) => match frame.pending.take() {
                            Some(entry) => entry,
                            None => {
                                let (parent, name) = (frame.parent, frame.items.to_string());
                                self.record(parent, name)
                            }
                        },
                    };
                    frames.push(Frame { is_map: opening == b'{', parent, pending: None, items: 0 });
                    self.check_depth(frames.len());
                    self.at += 1;
                }
                b'}' | b']' => {
                    frames.pop();
                    self.at += 1;
                    if frames.is_empty() {
                        return;
                    }
                }
                b',' => {
                    if let Some(frame) = frames.last_mut() {
                        frame.pending = None;
                        frame.items += 1;
                    }
                    self.at += 1;
                }
                b':' if self.is_flow_colon() => self.at += 1,
                _ => {
                    let line = self.line;
                    let name = if matches!(self.peek(0), b'"' | b'\'') { self.quoted() } else { self.flow_plain() };
                    let Some(frame) = frames.last() else { return };
                    if frame.is_map && frame.pending.is_none() {
                        let parent = frame.parent;
                        let now = std::mem::replace(&mut self.line, line);
                        let id = self.record(parent, name);
                        self.line = now;
                        if let Some(frame) = frames.last_mut() {
                            frame.pending = Some(id);
                        }
                    }
                }
            }
        }
    }

    fn flow_plain(&mut self) -> String {
        let start = self.at;
        // At least one byte is taken, so that the walk always moves on.
        self.at += 1;
        loop {
            match self.peek(0) {
                0 if self.at >= self.text.len() => break,
                b',' | b'[' | b']' | b'{' | b'}' | b'\n' => break,
                b':' if self.is_flow_colon() => break,
                b'#' if matches!(self.before(), b' ' | b'\t') => break,
                _ => self.at += 1,
            }
        }
        self.text.get(start..self.at).unwrap_or_default().trim_end().to_owned()
    }

    fn is_flow_colon(&self) -> bool {
        self.peek(0) == b':'
            && (self.is_blank_at(1)
                || matches!(self.peek(1), b',' | b'[' | b']' | b'{' | b'}')
                || matches!(self.before(), b'"' | b'\''))
    }

    /// Skips the lines of a block text: those that are empty or indented deeper than what holds it.
    fn skip_block_text(&mut self, parent: Option<usize>) {
        while self.at < self.text.len() {
            let line = self.text.get(self.at..).unwrap_or_default();
            let line = line.split('\n').next().unwrap_or_default();
            let indent = line.len() - line.trim_start_matches(' ').len();
            let is_inside = line.trim().is_empty() || parent.is_none_or(|column| indent > column);
            // At the top level such a text ends only with the document.
            if !is_inside || (parent.is_none() && (line.starts_with("---") || line.starts_with("..."))) {
                return;
            }
            self.skip_line();
        }
    }

    /// Skips anchors and tags.
    fn skip_properties(&mut self) {
        while matches!(self.peek(0), b'&' | b'!') {
            while self.at < self.text.len() && !self.is_blank_at(0) {
                self.at += 1;
            }
            self.skip_blanks();
        }
    }

    fn skip_indentation(&mut self) {
        while matches!(self.peek(0), b' ' | b'\t' | b'\r') {
            if self.peek(0) == b'\t' {
                self.lines.tab_indented.get_or_insert(self.line);
            }
            self.at += 1;
        }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(0), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    fn skip_to_newline(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }

    fn skip_line(&mut self) {
        self.skip_to_newline();
        if self.at < self.text.len() {
            self.newline();
        }
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    fn column(&self) -> usize {
        self.at.saturating_sub(self.line_start)
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn before(&self) -> u8 {
        self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at)).copied().unwrap_or(0)
    }

    fn is_blank_at(&self, ahead: usize) -> bool {
        self.at + ahead >= self.text.len() || matches!(self.peek(ahead), b' ' | b'\t' | b'\r' | b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, path: &str) -> Option<usize> {
        let path: Vec<&str> = path.split('/').collect();
        Lines::of(text).of_key(&path)
    }

    #[test]
    fn keys_are_found_in_every_style() {
        let text = "\
# comment: 1
a:
  b: 1   # x: y
  \"c d\": {e: 1, 'f': [1, {g: 2}],
    h: http://x/y#z, \"i\":3}
  text: |
    b: not a key
     [[ {
  folded: >-
   x: y

  quoted: \"one
    two: three\"
  url:x: 5
list:
- name: one
  deep:
  - k: v
- &anchor {name: two}
- - inner: 1
after: [
  {z: 1},
  {z: 2}
 ]
last: !tag
  \u{fc}: 1
";
        let expected = [
            ("a", 2),
            ("a/b", 3),
            ("a/c d", 4),
            ("a/c d/e", 4),
            ("a/c d/f/1/g", 4),
            ("a/c d/h", 5),
            ("a/c d/i", 5),
            ("a/text", 6),
            ("a/folded", 9),
            ("a/quoted", 12),
            ("a/url:x", 14),
            ("list", 15),
            ("list/0/name", 16),
            ("list/0/deep/0/k", 18),
            ("list/1/name", 19),
            ("list/2/0/inner", 20),
            ("after/0/z", 22),
            ("after/1/z", 23),
            ("last/\u{fc}", 26),
        ];
        for (path, number) in expected {
            assert_eq!(line(text, path), Some(number), "{path}");
        }
        assert_eq!(line(text, "a/nothing/x"), Some(2), "the nearest parent stands in");
        assert_eq!(line(text, "nothing"), None);
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_all_are_known() {
        let text = "---\r\na:\r\n  b: 1\r\n  b: 2\r\na:\r\n  c: 1\r\n---\r\nd: 1\r\n";
        assert_eq!(line(text, "a"), Some(5));
        assert_eq!(line(text, "a/b"), Some(4));
        assert_eq!(Lines::of(text).all_of(&["a", "b"]), [3, 4]);
        assert_eq!(line(text, "d"), None, "a second document is not used");
        assert_eq!(line("a:\r  b: 1\u{2028}c: 1", "c"), Some(3), "other line ends");
    }

    #[test]
    fn depth_is_counted_in_every_style_but_not_inside_texts() {
        let deep = |text: &str| Lines::of(text).too_deep.is_some();
        let block = |levels: usize| (0..levels).map(|n| format!("{}k:\n", " ".repeat(n))).collect::<String>();
        assert!(!deep(&block(64)) && deep(&block(65)));
        assert!(!deep(&format!("a: {}", "[".repeat(63))) && deep(&format!("a: {}", "[".repeat(64))));
        assert!(deep(&"- ".repeat(65)) && deep(&"? ".repeat(65)) && deep(&"{a: ".repeat(65)));
        assert!(deep(&"[ \"]\" ".repeat(65)) && deep(&format!("a: 1\n---\n{}", "[".repeat(65))));
        assert!(!deep(&format!("# {0}\na: \"{0}\"\nb: |\n  {0}\nc: x{0} # {0}\n", "[".repeat(100))));
    }

    #[test]
    fn tabs_in_indentation_are_seen() {
        assert_eq!(Lines::of("a:\n  b: 1\n\tc: 1\n").tab_indented, Some(3));
        assert_eq!(Lines::of("a: \t1\nb: |\n  \tx\n").tab_indented, None);
    }

    #[test]
    fn a_megabyte_is_walked_in_one_pass() {
        for piece in
            ["\"", "'", "a", "a: ", "{", "[a, ", "- ", "&a ", "\n", "a: |\n", "\\", "\"\\", "a: b\n", "é", "#", "\t"]
        {
            let text = piece.repeat((1 << 20) / piece.len());
            let _ = Lines::of(&text);
        }
    }
}
