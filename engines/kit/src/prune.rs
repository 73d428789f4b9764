//! Shorter forms of tool results and tool calls, made without a model.
//!
//! An old result becomes one line that says what was done and how it ended; a result that is still of use keeps its
//! beginning and end; long arguments lose the inside of their long strings. The host keeps the whole text and says
//! beside the short one how to get it back.

use crate::text::{clip, ends, one_line, thousands};
use engine_api::{Conversation, Flags, PartKind, PartView, json};
use json::Value;
use std::collections::HashMap;
use std::fmt::Write;

/// A result shorter than this says more than the line that would replace it. Hermes uses the same, in characters.
pub const RESULT_BYTES_MIN: usize = 200;
/// Arguments shorter than this are left alone. Hermes uses the same, in characters.
pub const ARGUMENT_BYTES_MIN: usize = 500;
/// What is left of a long string within arguments. Hermes uses the same.
pub const ARGUMENT_STRING_CHARS: usize = 200;
/// Longest command, path or query in a line.
const DETAIL_CHARS: usize = 77;
/// Larger arguments are not parsed for a line; the tool's name has to do.
const LINE_ARGUMENT_BYTES_MAX: usize = 256 * 1024;
/// Larger arguments are not parsed for trimming: a plan should not take seconds for one call.
const TRIM_ARGUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// An outcome stands at the beginning or the end of an output; no more than this of either is searched for it.
const OUTCOME_BYTES: usize = 2_048;

/// A new text for a part of a message, before it becomes a step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// Position of the message.
    pub message: usize,
    /// Position of the part in the message.
    pub part: usize,
    /// The new text.
    pub text: String,
}

/// Which call each result answers.
#[derive(Debug)]
pub struct CallTable<'a> {
    by_result: HashMap<(usize, usize), PartView<'a>>,
}

impl<'a> CallTable<'a> {
    /// Finds the call of every result: the nearest earlier one with the same id.
    pub fn new(conversation: &Conversation<'a>) -> Self {
        CallTable::over(conversation, 0..conversation.len())
    }
    /// Finds the calls of the results in a range, among the calls in it.
    pub fn over(conversation: &Conversation<'a>, range: std::ops::Range<usize>) -> Self {
        let mut by_id: HashMap<(u32, &str), PartView<'a>> = HashMap::new();
        let mut by_result = HashMap::new();
        for position in range.start..range.end.min(conversation.len()) {
            let Some(message) = conversation.get(position) else { continue };
            for (index, part) in message.parts().enumerate() {
                match part.kind() {
                    PartKind::ToolCall => {
                        by_id.insert((part.flags().family(), part.call_id()), part);
                    }
                    PartKind::ToolResult => {
                        if let Some(call) = by_id.get(&(part.flags().family(), part.call_id())) {
                            by_result.insert((position, index), *call);
                        }
                    }
                    _ => {}
                }
            }
        }
        CallTable { by_result }
    }
    /// Returns the call that the result at this place answers.
    pub fn call_of(&self, message: usize, part: usize) -> Option<PartView<'a>> {
        self.by_result.get(&(message, part)).copied()
    }
}

/// What kind of work a tool does, told by its name; names of Hermes, Claude Code, Codex, OpenCode and their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Runs a command.
    Command,
    /// Reads a file or a page.
    Read,
    /// Writes a file whole.
    Write,
    /// Changes a file.
    Edit,
    /// Searches files or the web.
    Search,
    /// Anything else.
    Other,
}

impl ToolKind {
    /// Tells a tool's kind by its name.
    pub fn of(tool: &str) -> ToolKind {
        let lower = tool.to_ascii_lowercase();
        // Tools of servers carry the server's name in front: `mcp__files__read_file`, `functions.shell`.
        let name = lower.rsplit("__").next().unwrap_or(&lower);
        let name = name.rsplit('.').next().unwrap_or(name);
        match name {
            "terminal"
            | "bash"
            | "shell"
            | "exec"
            | "exec_command"
            | "execute_bash"
            | "run_command"
            | "command"
            | "local_shell"
            | "container"
            | "execute_code"
            | "python"
            | "ipython"
            | "execute_ipython_cell"
            | "run_terminal_cmd"
            | "powershell"
            | "run_shell_command"
            | "execute_command" => ToolKind::Command,
            "read" | "read_file" | "view" | "cat" | "open" | "open_file" | "view_image" | "webfetch" | "web_fetch"
            | "web_extract" | "fetch" | "read_many_files" | "notebookread" => ToolKind::Read,
            "write" | "write_file" | "create" | "create_file" | "save_file" | "write_to_file" => ToolKind::Write,
            "edit"
            | "edit_file"
            | "patch"
            | "apply_patch"
            | "multiedit"
            | "str_replace"
            | "str_replace_editor"
            | "str_replace_based_edit_tool"
            | "replace"
            | "replace_in_file"
            | "notebookedit"
            | "apply_diff" => ToolKind::Edit,
            "grep" | "glob" | "search" | "search_files" | "find" | "list" | "ls" | "list_dir" | "list_files"
            | "list_directory" | "websearch" | "web_search" | "codebase_search" | "grep_search" | "file_search" => {
                ToolKind::Search
            }
            _ => ToolKind::Other,
        }
    }
}

/// Returns the line that stands for an old result: `[terminal] ran \`cargo test\` -> exit 1, 240 lines output`.
///
/// Never fails and never returns more than about 300 characters, whatever the arguments and the result hold.
pub fn one_line_result(call: Option<PartView<'_>>, result: PartView<'_>) -> String {
    let named = call.map(|call| call.tool_name()).filter(|name| !name.is_empty()).unwrap_or(result.tool_name());
    let tool = if named.is_empty() { "unknown".to_string() } else { one_line(named, 60) };
    let text = result.text();
    let arguments = call.map(|call| Arguments::read(call.text())).unwrap_or_default();
    let mut line = format!("[{tool}]");
    let kind = ToolKind::of(named);
    let exit = if kind == ToolKind::Command { exit_code(text) } else { None };
    // Writing to a string cannot fail.
    let _ = match kind {
        ToolKind::Command => {
            let command = arguments.detail(&["command", "cmd", "code", "script", "input"]);
            let exit = exit.unwrap_or("?");
            let lines = thousands(line_count(text));
            write!(line, " ran `{command}` -> exit {exit}, {lines} lines output")
        }
        ToolKind::Read => {
            let path = match arguments.text(&["path", "file_path", "filePath", "file", "target_file"]) {
                Some(path) => end_of(path, DETAIL_CHARS),
                None => arguments.detail(&["url", "urls"]),
            };
            let from = arguments.number(&["offset", "start_line", "line"]).map(|line| format!(" from line {line}"));
            write!(line, " read {path}{} ({} chars)", from.unwrap_or_default(), chars(text))
        }
        ToolKind::Write => {
            let path = arguments.text(&["path", "file_path", "filePath", "file"]).unwrap_or_default();
            let path = end_of(path, DETAIL_CHARS);
            match arguments.text(&["content", "contents", "file_text", "text"]) {
                Some(content) => write!(line, " wrote to {path} ({} lines)", thousands(line_count(content))),
                None => write!(line, " wrote to {path}"),
            }
        }
        ToolKind::Edit => {
            let named =
                arguments.text(&["path", "file_path", "filePath", "file"]).map(|path| end_of(path, DETAIL_CHARS));
            let patch = arguments.text(&["patch", "patchText", "input", "diff"]).unwrap_or(&arguments.plain);
            let paths = named.or_else(|| patched_files(patch));
            let paths = paths.unwrap_or_else(|| arguments.detail(&[]));
            write!(line, " changed {paths} ({} chars result)", chars(text))
        }
        ToolKind::Search => {
            let query = arguments.detail(&["query", "pattern", "regex", "path", "dir_path"]);
            let matches = match total_count(text) {
                Some(total) => format!("{total} matches"),
                None => format!("{} lines", thousands(line_count(text))),
            };
            write!(line, " searched for '{query}' -> {matches}")
        }
        ToolKind::Other => {
            let shown = arguments.first_two();
            let gap = if shown.is_empty() { "" } else { " " };
            write!(line, "{gap}{shown} ({} chars result)", chars(text))
        }
    };
    if let Some(fault) = fault_line(result, exit) {
        let _ = write!(line, " | {fault}");
    }
    if result.flags().has(Flags::HAS_IMAGE) {
        line.push_str(" | picture left out");
    }
    line
}

/// Returns the line of a failed result that says what failed; `None` if it did not fail.
pub fn fault(result: PartView<'_>, kind: ToolKind) -> Option<String> {
    fault_line(result, if kind == ToolKind::Command { exit_code(result.text()) } else { None })
}

fn fault_line(result: PartView<'_>, exit: Option<&str>) -> Option<String> {
    /// What compilers, test runners and interpreters put into the telling line.
    const MARKS: [&str; 12] = [
        "error:",
        "error[",
        "Error",
        "ERROR",
        "Exception",
        "Traceback",
        "FAILED",
        "atal",
        "panicked at",
        "failed",
        "enied",
        "ot found",
    ];
    if !result.flags().has(Flags::ERROR) && exit.is_none_or(|code| code == "0") {
        return None;
    }
    let text = result.text();
    let head = crate::text::prefix(text, OUTCOME_BYTES);
    let tail = crate::text::suffix(text, OUTCOME_BYTES);
    let is_telling = |line: &&str| MARKS.iter().any(|mark| line.contains(mark));
    let found = head.lines().find(is_telling).or_else(|| tail.lines().find(is_telling));
    let line = found.or_else(|| head.lines().find(|line| !line.trim().is_empty())).unwrap_or("failed");
    Some(one_line(line, 110))
}

/// Returns the exit code that an output states: `exit code 1`, `"exit_code": 0`, `exited with status 2`.
pub fn exit_code(text: &str) -> Option<&str> {
    /// Tools state it in their first or last line.
    const LINE_BYTES: usize = 512;
    if text.len() <= 2 * LINE_BYTES {
        return exit_code_in(text);
    }
    let (head, tail) = (crate::text::prefix(text, LINE_BYTES), crate::text::suffix(text, LINE_BYTES));
    exit_code_in(head).or_else(|| exit_code_in(tail))
}

/// By hand, since every result is looked at: a pattern for this takes ten times as long.
fn exit_code_in(text: &str) -> Option<&str> {
    /// Between the word and its number: `ed with`, ` _-":=` and blanks.
    const BETWEEN_BYTES_MAX: usize = 16;
    let words = ["xit", "XIT", "eturncode"].iter().flat_map(|word| text.match_indices(word));
    for (at, word) in words {
        let after = text.get(at + word.len()..).unwrap_or_default();
        let named = ["code", "Code", "status", "CODE"].iter().find_map(|name| {
            let at = crate::text::prefix(after, BETWEEN_BYTES_MAX + name.len()).find(name)?;
            after.get(at + name.len()..)
        });
        let rest = if word == "eturncode" { Some(after) } else { named };
        let Some(rest) = rest else { continue };
        let rest = rest.trim_start_matches(['"', ':', '=', '>', ' ']);
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        if (1..=6).contains(&length) {
            return rest.get(..rest.len() - digits.len() + length);
        }
    }
    None
}

fn total_count(text: &str) -> Option<&str> {
    let (_, rest) = crate::text::prefix(text, OUTCOME_BYTES).split_once("\"total_count\"")?;
    let rest = rest.trim_start_matches([':', ' ']);
    rest.get(..rest.bytes().take_while(u8::is_ascii_digit).count()).filter(|digits| (1..=12).contains(&digits.len()))
}

/// Returns a result's beginning and end within about so many bytes: more of the beginning, where outputs name
/// themselves, than of the end, where they say how it went.
pub fn excerpt(text: &str, bytes_max: usize) -> String {
    ends(text, bytes_max / 3 * 2, bytes_max / 3)
}

/// Returns the line that stands for a result that a later result repeats.
pub fn duplicate_line(text: &str) -> String {
    format!("[same result as a later call of this tool, {} chars]", chars(text))
}

/// Returns arguments with the inside of long strings left out; `None` if they are no JSON object or nothing would be
/// gained.
pub fn trim_arguments(arguments: &str, string_chars_max: usize) -> Option<String> {
    if arguments.len() > TRIM_ARGUMENT_BYTES_MAX || !arguments.trim_start().starts_with('{') {
        return None;
    }
    let mut value: Value = json::from_str(arguments).ok()?;
    if !value.is_object() {
        return None;
    }
    let mut cuts = 0;
    trim_value(&mut value, string_chars_max, &mut cuts);
    if cuts == 0 {
        return None;
    }
    let trimmed = json::to_string(&value).ok()?;
    if trimmed.len() < arguments.len() { Some(trimmed) } else { None }
}

/// Returns the smallest object that may stand for arguments.
pub fn emptied_arguments(arguments: &str) -> String {
    json::json!({ "left_out": format!("{} chars of arguments", chars(arguments)) }).to_string()
}

/// Depth is bounded by the JSON reader, which refuses more than 128 levels.
fn trim_value(value: &mut Value, string_chars_max: usize, cuts: &mut usize) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(string_chars_max) {
                text.truncate(end);
                text.push_str("...[truncated]");
                *cuts += 1;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| trim_value(item, string_chars_max, cuts)),
        Value::Object(members) => members.values_mut().for_each(|item| trim_value(item, string_chars_max, cuts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Finds results that a later result repeats word for word, among the messages at these positions, which ascend:
/// `(message, part)` of the older copies.
pub fn duplicates(conversation: &Conversation<'_>, positions: impl IntoIterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut newest: HashMap<&str, (usize, usize), foldhash::fast::RandomState> = HashMap::default();
    let mut older = Vec::new();
    for position in positions {
        let Some(message) = conversation.get(position) else { continue };
        for (index, part) in message.parts().enumerate() {
            let is_worth_it = part.kind() == PartKind::ToolResult
                && part.text().len() >= RESULT_BYTES_MIN
                && !part.flags().has(Flags::HAS_IMAGE)
                && !part.flags().has(Flags::DEMOTED);
            if is_worth_it {
                older.extend(newest.insert(part.text(), (position, index)));
            }
        }
    }
    older
}

/// Proposes one-line forms for the results and trimmed arguments for the calls of these positions.
///
/// Pinned messages and parts that a compaction shortened already are left alone.
pub fn prune(
    conversation: &Conversation<'_>,
    positions: impl IntoIterator<Item = usize>,
    table: &CallTable<'_>,
) -> Vec<Rewrite> {
    let mut rewrites = Vec::new();
    for position in positions {
        let Some(message) = conversation.get(position) else { continue };
        if message.is_pinned() {
            continue;
        }
        for (index, part) in message.parts().enumerate() {
            if part.flags().has(Flags::DEMOTED) || part.flags().has(Flags::SELF_CONTAINED) {
                continue;
            }
            let short = match part.kind() {
                PartKind::ToolResult if part.text().len() > RESULT_BYTES_MIN || part.flags().has(Flags::HAS_IMAGE) => {
                    Some(one_line_result(table.call_of(position, index), part))
                }
                PartKind::ToolCall if part.text().len() > ARGUMENT_BYTES_MIN => {
                    trim_arguments(part.text(), ARGUMENT_STRING_CHARS)
                }
                _ => None,
            };
            let is_gain = |text: &String| text.len() < part.text().len() || part.flags().has(Flags::HAS_IMAGE);
            if let Some(text) = short.filter(is_gain) {
                rewrites.push(Rewrite { message: position, part: index, text });
            }
        }
    }
    rewrites
}

/// Returns a path on one line; of a long one the end, which tells files apart.
fn end_of(path: &str, chars_max: usize) -> String {
    let path = one_line(path, 1_024);
    let count = path.chars().count();
    if count <= chars_max {
        return path;
    }
    let end: String = path.chars().skip(count - chars_max + 1).collect();
    format!("…{end}")
}

/// Returns the files that a patch of the `*** Update File:` kind or a unified diff names.
fn patched_files(patch: &str) -> Option<String> {
    /// Files named; the others are counted.
    const FILES_MAX: usize = 3;
    const LEADS: [&str; 4] = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "+++ b/"];
    let name = |line: &str| LEADS.iter().find_map(|lead| line.strip_prefix(lead).map(|path| end_of(path, 60)));
    let mut files = patch.lines().filter_map(name);
    let shown: Vec<String> = files.by_ref().take(FILES_MAX).collect();
    let more = files.count();
    let names = shown.join(", ");
    match (shown.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(names),
        (false, more) => Some(format!("{names} (+{more} more)")),
    }
}

fn chars(text: &str) -> String {
    thousands(text.chars().count() as u64)
}

/// Counts lines as [`str::lines`] does, many bytes at a time.
fn line_count(text: &str) -> u64 {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    ends + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// A call's arguments as far as a line needs them.
#[derive(Default)]
struct Arguments {
    members: json::Map<String, Value>,
    /// The text itself, where it is no JSON object: tools with free text for input.
    plain: String,
}

impl Arguments {
    fn read(text: &str) -> Arguments {
        let value = if text.len() <= LINE_ARGUMENT_BYTES_MAX { json::from_str(text).ok() } else { None };
        if let Some(Value::Object(members)) = value {
            return Arguments { members, plain: String::new() };
        }
        Arguments { members: json::Map::new(), plain: crate::text::prefix(text, LINE_ARGUMENT_BYTES_MAX).to_string() }
    }
    fn text(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.members.get(*key)?.as_str())
    }
    fn number(&self, keys: &[&str]) -> Option<u64> {
        keys.iter().find_map(|key| self.members.get(*key)?.as_u64())
    }
    /// The first of these members that there is, or the first of all, on one line.
    fn detail(&self, keys: &[&str]) -> String {
        let value = keys.iter().find_map(|key| self.members.get(*key)).or_else(|| self.members.values().next());
        match value {
            Some(value) => one_line(&shown(value), DETAIL_CHARS),
            None => one_line(&self.plain, DETAIL_CHARS),
        }
    }
    fn first_two(&self) -> String {
        if self.members.is_empty() {
            return one_line(&self.plain, DETAIL_CHARS);
        }
        let list: Vec<String> = self
            .members
            .iter()
            .take(2)
            .map(|(key, value)| format!("{}={}", one_line(key, 40), one_line(&shown(value), 40)))
            .collect();
        list.join(" ")
    }
}

/// A value in a few words: a list shows its strings, as commands often come as lists of words.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => clip(text, DETAIL_CHARS * 4),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let words: Vec<&str> = items.iter().take(16).filter_map(Value::as_str).collect();
            clip(&words.join(" "), DETAIL_CHARS * 4)
        }
        Value::Object(_) | Value::Array(_) => clip(&value.to_string(), DETAIL_CHARS * 4),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
