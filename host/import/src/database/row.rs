//! Writes a row of a message table as an OpenAI chat message, from the exact texts the row holds.

use super::table::{Cell, Cells};
use crate::build::{Mark, parse};
use crate::json::quote;
use crate::problems::Problems;
use engine_api::{Dialect, Message};
use serde_json::value::RawValue;

/// How Hermes marks content that is no string: this, then JSON.
const JSON_CONTENT: &str = "\0json:";
/// How the summary message of a compaction begins.
const SUMMARY_MARKER: &str = "[CONTEXT COMPACTION";
/// Members of an assistant's message that a store keeps as JSON text.
const JSON_MEMBERS: [&str; 3] = ["reasoning_details", "codex_reasoning_items", "codex_message_items"];

/// Which row is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) table: &'static str,
    pub(super) row: i64,
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row {} of table {}", self.row, self.table)
    }
}

/// Returns the text if it is one JSON value that begins as wanted.
pub(super) fn json_text<'t>(text: &'t str, begins: &str) -> Option<&'t str> {
    let value: &RawValue = serde_json::from_str(text).ok()?;
    Some(value.get()).filter(|value| value.starts_with(begins))
}

/// Writes a JSON object member by member.
pub(super) struct ObjectWriter {
    raw: String,
}

impl ObjectWriter {
    pub(super) fn new(role: &str) -> Self {
        ObjectWriter { raw: format!("{{\"role\":{}", quote(role)) }
    }
    /// Adds a member of JSON text.
    pub(super) fn json(&mut self, key: &str, json: &str) {
        self.raw.push_str(&format!(",\"{key}\":"));
        self.raw.push_str(json);
    }
    /// Adds a member of plain text.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.json(key, &quote(text));
    }
    pub(super) fn finish(mut self) -> String {
        self.raw.push('}');
        self.raw
    }
}

/// Makes a message of a row in the columns that Hermes and its plugins share; nothing for a row that is no message.
///
/// `sent` takes the place of the content.
pub(super) fn message(at: At, cells: &mut Cells, sent: Option<&str>, problems: &mut Problems) -> Option<Message> {
    let stated = cells.text("role").unwrap_or_default();
    let role = match stated.as_str() {
        "system" | "developer" | "user" | "assistant" | "tool" => stated.as_str(),
        // A header that old transcripts begin with.
        "session_meta" => return None,
        _ => {
            problems.warn(None, || format!("{at} has the role {stated:?}; read as a user's message"));
            "user"
        }
    };
    let mut raw = ObjectWriter::new(role);
    let calls = if role == "assistant" { json_member(at, "tool_calls", cells, "[", problems) } else { None };
    let calls = calls.filter(|calls| json_text(calls, "[").is_some_and(|calls| calls != "[]"));
    let mut is_summary = cells.integer("_compressed_summary") == Some(1);
    match (sent, cells.take("content")) {
        (Some(sent), _) => {
            is_summary |= sent.starts_with(SUMMARY_MARKER);
            raw.text("content", sent);
        }
        (None, Cell::Null) if calls.is_some() => raw.json("content", "null"),
        (None, content) => {
            let content = content.into_text().unwrap_or_default();
            is_summary |= content.starts_with(SUMMARY_MARKER);
            match content.strip_prefix(JSON_CONTENT).map(|json| json_text(json, "")) {
                Some(Some(json)) => raw.json("content", json),
                Some(None) => {
                    problems.warn(None, || format!("{at} has content marked as JSON that is none; kept as text"));
                    raw.text("content", &content);
                }
                None => raw.text("content", &content),
            }
        }
    }
    match role {
        "assistant" => {
            for key in ["reasoning", "reasoning_content"] {
                if let Some(text) = cells.take(key).into_text() {
                    raw.text(key, &text);
                }
            }
            for key in JSON_MEMBERS {
                if let Some(json) = json_member(at, key, cells, "", problems) {
                    raw.json(key, &json);
                }
            }
            if let Some(calls) = &calls {
                raw.json("tool_calls", calls);
            }
        }
        "tool" => {
            raw.text("tool_call_id", &cells.text("tool_call_id").unwrap_or_default());
            if let Some(name) = cells.text("tool_name") {
                raw.text("name", &name);
            }
        }
        _ => {}
    }
    let mark = if is_summary && role != "tool" { Mark::Summary } else { Mark::AsRead };
    parse(Dialect::OpenAiChat, &raw.finish(), mark, None, problems)
}

fn json_member(at: At, key: &str, cells: &mut Cells, begins: &str, problems: &mut Problems) -> Option<String> {
    let text = cells.text(key)?;
    match json_text(&text, begins) {
        Some("null") => None,
        Some(json) => Some(json.to_owned()),
        None => {
            problems.lost(None, || {
                format!("{key} of {at} is no valid JSON ({} bytes); the message is kept without it", text.len())
            });
            None
        }
    }
}

/// Reads `2026-05-01 10:20:30`, with or without `T`, fraction, zone; without a zone it is UTC. Milliseconds since 1970.
pub(super) fn time(text: &str) -> Option<i64> {
    let text = text.trim();
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
        digits.parse::<i64>().ok()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let is_date = text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    if !is_date || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days of the civil calendar, counted in years that begin in March so that a leap day is a year's last.
    let years = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * years + years / 4 - years / 100 + years / 400 + day_of_year - 719_468;
    let midnight = days * 86_400_000;
    if text.len() <= 10 {
        return Some(midnight);
    }
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19).unwrap_or(0));
    let mut rest = text.get(19..).unwrap_or_default();
    let mut millis = 0i64;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let first: String = fraction.chars().take(digits).chain("000".chars()).take(3).collect();
        millis = first.parse().unwrap_or(0);
        rest = fraction.get(digits..).unwrap_or_default();
    }
    let offset = match rest.bytes().next() {
        Some(sign @ (b'+' | b'-')) => {
            let hours: i64 = rest.get(1..3)?.parse().ok()?;
            let minutes: i64 =
                rest.get(3..).map(|rest| rest.trim_start_matches(':')).unwrap_or("0").parse().unwrap_or(0);
            let minutes = hours.checked_mul(60)?.checked_add(minutes.min(59))?;
            if sign == b'-' { -minutes } else { minutes }
        }
        _ => 0,
    };
    let of_day = (hour * 3_600 + minute * 60 + second) * 1_000 + millis;
    Some(midnight + of_day - offset * 60_000)
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_read_as_sqlite_and_javascript_write_them() {
        assert_eq!(time("1970-01-01 00:00:00"), Some(0));
        assert_eq!(time("2000-02-29T12:00:00.25Z"), Some(951_825_600_250));
        assert_eq!(time("2026-08-22 10:20:30"), Some(1_787_394_030_000));
        assert_eq!(time("2026-08-22T12:20:30+02:00"), Some(1_787_394_030_000));
        assert_eq!(time("1969-12-31"), Some(-86_400_000));
        for odd in ["", "now", "2026/08/22", "2026-13-01", "2026-08-22T", "é026-08-22", "2026-08-22 aa:00:00"] {
            assert_eq!(time(odd), None, "{odd}");
        }
    }
}
