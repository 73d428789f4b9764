//! The facts at the beginning of a JSON text that may be cut anywhere: which paths there are, and short values at some.
//!
//! `messages[].role` is a path; `type=session` a value. Values of a sequence (JSON lines) are put together.

use std::collections::HashSet;

/// Depth of paths that are kept.
const DEPTH_MAX: usize = 4;
/// Longest value that is kept, in bytes.
const VALUE_BYTES_MAX: usize = 40;

pub(crate) struct Sketch {
    facts: HashSet<String>,
    /// A second top-level value follows the first.
    pub(crate) is_sequence: bool,
}

struct Frame {
    is_object: bool,
    /// Length of the path outside this value.
    outer: usize,
    expects_key: bool,
}

impl Sketch {
    pub(crate) fn of(bytes: &[u8]) -> Sketch {
        let mut facts = HashSet::new();
        let mut path = String::new();
        let mut frames: Vec<Frame> = Vec::new();
        let mut top_values = 0u32;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => {
                    top_values += u32::from(frames.is_empty());
                    let outer = path.len();
                    if byte == b'[' && frames.len() < DEPTH_MAX {
                        path.push_str("[]");
                    }
                    frames.push(Frame { is_object: byte == b'{', outer, expects_key: byte == b'{' });
                }
                b'}' | b']' => {
                    if let Some(frame) = frames.pop() {
                        path.truncate(frame.outer);
                    }
                    leave_value(&mut frames, &mut path);
                }
                b',' => {
                    if let Some(frame) = frames.last_mut() {
                        frame.expects_key = frame.is_object;
                    }
                }
                b'"' => {
                    let Some(length) = string_length(bytes.get(at..).unwrap_or_default()) else { break };
                    let text = bytes.get(at..at + length).unwrap_or_default();
                    at += length + 1;
                    let depth = frames.len();
                    match frames.last_mut() {
                        Some(frame) if frame.expects_key => {
                            frame.expects_key = false;
                            enter_key(frame, depth, text, &mut path, &mut facts);
                        }
                        Some(_) if depth <= DEPTH_MAX && text.len() <= VALUE_BYTES_MAX => {
                            facts.insert(format!("{path}={}", String::from_utf8_lossy(text)));
                            leave_value(&mut frames, &mut path);
                        }
                        Some(_) => leave_value(&mut frames, &mut path),
                        None => top_values += 1,
                    }
                }
                _ => {}
            }
        }
        Sketch { facts, is_sequence: top_values > 1 }
    }

    /// Tells whether there is something at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.facts.contains(path)
    }

    /// Tells whether `path=value` was seen.
    pub(crate) fn is(&self, fact: &str) -> bool {
        self.facts.contains(fact)
    }

    /// Tells whether a fact begins like this.
    pub(crate) fn begins(&self, start: &str) -> bool {
        self.facts.iter().any(|fact| fact.starts_with(start))
    }
}

// The path of an object's member is the object's own path, a dot and the key; it ends when the next key begins.
fn enter_key(frame: &Frame, depth: usize, key: &[u8], path: &mut String, facts: &mut HashSet<String>) {
    path.truncate(frame.outer);
    if depth > DEPTH_MAX || key.len() > VALUE_BYTES_MAX {
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&String::from_utf8_lossy(key));
    facts.insert(path.clone());
}

fn leave_value(frames: &mut [Frame], path: &mut String) {
    if let Some(frame) = frames.last().filter(|frame| frame.is_object) {
        path.truncate(frame.outer);
    }
}

fn string_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_gives_the_paths_before_the_cut() {
        let sketch = Sketch::of(br#"{"a":{"b":1,"c":"x"},"list":[{"k":"v","n":{"m":[1]}},{"q":2}],"e":"cut he"#);
        for path in ["a", "a.b", "a.c", "a.c=x", "list", "list[].k", "list[].k=v", "list[].n.m", "list[].q", "e"] {
            assert!(sketch.has(path), "{path}");
        }
        assert!(!sketch.has("k") && !sketch.has("b") && !sketch.is_sequence);
    }

    #[test]
    fn several_values_are_a_sequence() {
        assert!(Sketch::of(b"{\"a\":1}\n{\"b\":").is_sequence);
        assert!(Sketch::of(b"{\"a\":1}\n{\"b\":").has("b"));
        assert!(!Sketch::of(b"{\"a\":1}\n").is_sequence);
    }
}
