//! What of the names in messages that went out of sight still stands in the context, word for word.
//!
//! Paths, commands, numbers and identifiers are what a summary gets wrong most easily. They are counted, never kept:
//! the receipt holds no text of the conversation.

use crate::draft::{Entry, Origin};
use crate::session::Session;
use crate::validate::Context;
use engine_api::{Message, Part, PartKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Bytes of one part that are read, half at each end: logs of megabytes hold few names that matter.
const PART_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the lost messages that are read, the newest first: about a million tokens.
const LOST_BYTES_MAX: usize = 4 << 20;
/// Bytes of the context that are read; no model has a larger window.
const CONTEXT_BYTES_MAX: usize = 16 << 20;
/// Distinct names of one kind; a listing of a huge folder must not fill the memory.
const NAMES_MAX: usize = 4_096;
/// A longer word is noise: a data URL, a minified line.
const WORD_BYTES_MAX: usize = 240;
/// Distinct commands, and those that begin alike.
const COMMANDS_MAX: usize = 256;
const ALIKE_MAX: usize = 16;
/// Bytes by whose hash a command is looked for; shorter ones are looked for as words.
const KEY_BYTES: usize = 8;
/// Members of a call's arguments that hold a command.
const COMMAND_MEMBERS: [&str; 4] = ["command", "cmd", "script", "code"];

/// How many of some names are still there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Names that stand in the context.
    pub kept: u64,
    /// Names that stood in the messages that went out of sight.
    pub of: u64,
}

/// How many names of each kind are still there; each name counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survival {
    /// Paths of files.
    pub paths: Kept,
    /// Commands that tools were called with.
    pub commands: Kept,
    /// Numbers of two digits and more: counts, versions, issues, ports.
    pub numbers: Kept,
    /// Names of functions, variables, types, commits.
    pub identifiers: Kept,
}

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Path,
    Number,
    Identifier,
}

/// Counts the names in the session's messages that a context summarises, drops or shortens.
pub fn survival(session: &Session, context: &Context) -> Survival {
    let whole: HashSet<usize> = context
        .entries()
        .iter()
        .filter_map(|entry| match entry.origin {
            Origin::Kept(at) => Some(at),
            _ => None,
        })
        .collect();
    let lost = session.view.iter().enumerate().filter(|(at, _)| !whole.contains(at)).map(|(_, message)| &**message);
    count(lost.collect::<Vec<_>>().into_iter().rev(), context.entries().iter().map(|entry: &Entry| &*entry.message))
}

fn count<'a>(lost: impl Iterator<Item = &'a Message>, seen: impl Iterator<Item = &'a Message>) -> Survival {
    let mut names = Names::default();
    let mut room = LOST_BYTES_MAX;
    for part in lost.flat_map(|message| &message.parts) {
        if room == 0 {
            break;
        }
        for text in pieces(part) {
            let text = cut(text, room);
            room -= text.len();
            words(text, &mut |word, kind| names.add(word, kind));
        }
        if part.kind == PartKind::ToolCall {
            commands(&part.text, &mut |command| names.add_command(command));
        }
    }
    let mut room = CONTEXT_BYTES_MAX;
    for part in seen.flat_map(|message| &message.parts) {
        let text = cut(&part.text, room);
        room -= text.len();
        if part.kind == PartKind::Opaque {
            continue;
        }
        words(text, &mut |word, _| names.see(word));
        names.see_commands(text);
        if part.kind == PartKind::ToolCall {
            commands(&part.text, &mut |command| names.see_command(&command));
        }
    }
    names.counted()
}

/// Names of the lost messages, each with whether it was seen since.
#[derive(Default)]
struct Names {
    words: HashMap<String, (usize, bool)>,
    counts: [usize; 3],
    commands: Vec<(String, bool)>,
    known: HashMap<String, usize>,
    /// Commands by their first bytes.
    keys: HashMap<[u8; KEY_BYTES], Vec<usize>>,
}

impl Names {
    fn add(&mut self, word: &str, kind: Kind) {
        let Some(count) = self.counts.get_mut(kind as usize) else { return };
        if *count < NAMES_MAX && !self.words.contains_key(word) {
            *count += 1;
            self.words.insert(word.to_owned(), (kind as usize, false));
        }
    }

    fn add_command(&mut self, command: String) {
        if self.commands.len() >= COMMANDS_MAX || self.known.contains_key(&command) {
            return;
        }
        let at = self.commands.len();
        if let Some(key) = command.as_bytes().first_chunk::<KEY_BYTES>() {
            let alike = self.keys.entry(*key).or_default();
            if alike.len() == ALIKE_MAX {
                return;
            }
            alike.push(at);
        }
        self.known.insert(command.clone(), at);
        self.commands.push((command, false));
    }

    fn see(&mut self, word: &str) {
        if let Some((_, is_seen)) = self.words.get_mut(word) {
            *is_seen = true;
        }
    }

    fn see_command(&mut self, command: &str) {
        if let Some((_, is_seen)) = self.known.get(command).and_then(|at| self.commands.get_mut(*at)) {
            *is_seen = true;
        }
    }

    /// Looks for commands anywhere in a text, by their first bytes.
    fn see_commands(&mut self, text: &str) {
        if !self.keys.is_empty() {
            for (at, key) in text.as_bytes().windows(KEY_BYTES).enumerate() {
                let Some(alike) = key.first_chunk().and_then(|key| self.keys.get(key)) else { continue };
                let rest = text.as_bytes().get(at..).unwrap_or_default();
                for one in alike {
                    if let Some((command, is_seen)) = self.commands.get_mut(*one).filter(|(_, is_seen)| !is_seen) {
                        *is_seen = rest.starts_with(command.as_bytes());
                    }
                }
            }
        }
        if self.commands.iter().any(|(command, is_seen)| !is_seen && command.len() < KEY_BYTES) {
            for line in text.lines() {
                self.see_command(line.trim_matches(|c: char| c.is_whitespace() || "`$\"'-*".contains(c)));
            }
        }
    }

    fn counted(&self) -> Survival {
        let of = |kind: Kind| {
            let all = self.words.values().filter(|(one, _)| *one == kind as usize);
            let kept = all.clone().filter(|(_, is_seen)| *is_seen).count() as u64;
            Kept { kept, of: all.count() as u64 }
        };
        let kept = self.commands.iter().filter(|(_, is_seen)| *is_seen).count() as u64;
        Survival {
            paths: of(Kind::Path),
            commands: Kept { kept, of: self.commands.len() as u64 },
            numbers: of(Kind::Number),
            identifiers: of(Kind::Identifier),
        }
    }
}

/// Returns the texts of a part that are read.
fn pieces(part: &Part) -> impl Iterator<Item = &str> {
    let text = if part.kind == PartKind::Opaque { "" } else { part.text.as_str() };
    let (head, tail) = if text.len() <= PART_BYTES_MAX {
        (text, "")
    } else {
        let tail = text.ceil_char_boundary(text.len() - PART_BYTES_MAX / 2);
        (cut(text, PART_BYTES_MAX / 2), text.get(tail..).unwrap_or_default())
    };
    [head, tail].into_iter()
}

fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

/// Finds the commands in a call's arguments: of each the first line.
fn commands(arguments: &str, each: &mut dyn FnMut(String)) {
    if arguments.len() > PART_BYTES_MAX {
        return;
    }
    let Ok(Value::Object(members)) = serde_json::from_str(arguments) else { return };
    for name in COMMAND_MEMBERS {
        let command = match members.get(name) {
            Some(Value::String(command)) => command.clone(),
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            _ => continue,
        };
        let line = command.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        if (2..=WORD_BYTES_MAX).contains(&line.len()) {
            each(line.to_owned());
        }
    }
}

/// Finds the names in a text, each with what it is.
fn words(text: &str, each: &mut dyn FnMut(&str, Kind)) {
    // Escapes of JSON texts end a word as white space does: `\n` is two letters there.
    let is_end = |c: char| c.is_whitespace() || "\"'`()[]{}<>,;=|\\*!?&".contains(c) || !c.is_ascii();
    for word in text.split(is_end) {
        let word = word.trim_matches(|c: char| ".:-".contains(c));
        if word.len() < 2 || word.len() > WORD_BYTES_MAX {
            continue;
        }
        // `src/a.rs:10:4` names the file, and the place in it.
        let name = word.split(':').next().unwrap_or(word);
        if name.len() > 2 && name.len() < word.len() && kind_of(name) == Some(Kind::Path) {
            each(name, Kind::Path);
            continue;
        }
        if let Some(kind) = kind_of(word) {
            each(word, kind);
        }
    }
}

/// Tells by its letters what a word is.
fn kind_of(word: &str) -> Option<Kind> {
    let (mut digits, mut letters, mut slashes, mut joins, mut humps, mut others) = (0, 0, 0, 0, 0, 0);
    let mut before = b' ';
    for byte in word.bytes() {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'a'..=b'z' | b'A'..=b'Z' => {
                letters += 1;
                humps += usize::from(before.is_ascii_lowercase() && byte.is_ascii_uppercase());
            }
            b'/' => slashes += 1,
            b'_' => joins += 1,
            b':' => joins += usize::from(before == b':'),
            b'.' | b'-' | b'#' | b'%' | b'+' | b'~' | b'@' | b'$' => {}
            _ => others += 1,
        }
        before = byte;
    }
    if others > 0 || digits + letters == 0 {
        return None;
    }
    if slashes > 0 {
        let is_path = letters > 1 && !word.contains("//") && (slashes > 1 || word.contains('.') || joins > 0);
        return is_path.then_some(Kind::Path);
    }
    if has_ending(word) {
        return Some(Kind::Path);
    }
    // `v1.2.3`, `#4312`, `8080`, `12.5%`, `300ms`.
    if digits >= 2 && letters <= 2 && joins == 0 {
        return Some(Kind::Number);
    }
    let is_mixed = digits > 0 && letters > 0 && word.len() >= 6;
    (joins > 0 || humps > 0 || is_mixed).then_some(Kind::Identifier).filter(|_| letters > 0 && word.len() > 3)
}

/// Tells whether a word ends as a file's name: a dot and one to five small letters, after a name.
fn has_ending(word: &str) -> bool {
    let Some((name, ending)) = word.rsplit_once('.') else { return false };
    let is_ending = (1..=5).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_lowercase());
    is_ending && name.len() > 1 && name.bytes().any(|byte| byte.is_ascii_alphabetic()) && !name.contains("..")
}

#[cfg(test)]
mod tests;
