//! Reads what models write for an id: numbers, digits, prefixed ids, pasted stubs and whole reference lines.

use engine_api::json::Value;
use engine_kit::text::prefix;

/// Ids of one call at most.
pub(super) const IDS_MAX: usize = 256;
/// Bytes of a pasted text that are looked at.
const TEXT_BYTES_MAX: usize = 4_000;

/// Begins a call in what the engine writes.
const CALL: &str = "lcm_expand(";

/// What an id names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Id {
    Node(u64),
    /// A message, and the characters of it that an exact reference names.
    Message(u64, Option<(u64, u64)>),
    /// Messages from one to another.
    Messages(u64, u64),
    /// A job of a map.
    Job(String),
}

/// What a bare number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bare {
    Node,
    Message,
}

/// Words before a number, and what they say it is; compared in lower case.
const WORDS: [(&str, Bare); 14] = [
    ("node_id", Bare::Node),
    ("node", Bare::Node),
    ("sum", Bare::Node),
    ("summary", Bare::Node),
    ("summaries", Bare::Node),
    ("file", Bare::Message),
    ("store_ids", Bare::Message),
    ("store_id", Bare::Message),
    ("store", Bare::Message),
    ("msg", Bare::Message),
    ("msgs", Bare::Message),
    ("message", Bare::Message),
    ("messages", Bare::Message),
    ("lcm", Bare::Message),
];

/// Reads an id.
pub(super) fn read(name: &str, value: &Value, bare: Bare) -> Result<Id, String> {
    let wrong = || {
        format!(
            "{name} is no id: give a number, or text such as \"sum_12\", \"node 12\", \"msg 12\", \"file_12\", \
             \"lcm:12:0-80\", \"messages 12-40\" or \"job_…\""
        )
    };
    let of = |number: u64| match bare {
        Bare::Node => Id::Node(number),
        Bare::Message => Id::Message(number, None),
    };
    if let Some(number) = value.as_u64() {
        return if number == 0 { Err(wrong()) } else { Ok(of(number)) };
    }
    let text = value.as_str().ok_or_else(wrong)?.trim();
    // A pasted stub ends with the call that returns the whole, whatever stands before it.
    let at = text.rfind(CALL).map_or(0, |at| at + CALL.len());
    let text = prefix(text.get(at..).unwrap_or_default(), TEXT_BYTES_MAX);
    parse(text, bare).ok_or_else(wrong)
}

fn parse(text: &str, bare: Bare) -> Option<Id> {
    if let Some(at) = text.find("job_") {
        let rest = text.get(at..)?;
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
        return Some(Id::Job(rest.get(..end)?.to_string()));
    }
    // Walks the numbers; the first that a known word stands before counts, else a text of a number alone.
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes.get(at)?.is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = text.get(at..)?.find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |length| at + length);
        let number: Option<u64> = text.get(at..end)?.parse().ok().filter(|number| *number > 0);
        let before = text.get(..at)?;
        let kind =
            if before.trim_matches(['"', '#', '[', '(', ' ']).is_empty() { Some(bare) } else { word_before(before) };
        if let (Some(number), Some(kind)) = (number, kind) {
            return Some(finish(number, kind, text.get(end..)?));
        }
        at = end;
    }
    None
}

/// The kind that the word before a number says: `sum_`, `node `, `store_id=`, `lcm:`, `conv=3 msg#`.
fn word_before(before: &str) -> Option<Bare> {
    let trimmed = before.trim_end_matches([' ', '_', '#', '=', ':', '"', '(', '[', '\'']);
    if trimmed.len() == before.len() {
        return None;
    }
    let start = trimmed
        .rfind(|c: char| !(c.is_ascii_alphabetic() || c == '_'))
        .map_or(0, |at| at + trimmed.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    let word = trimmed.get(start..)?.to_ascii_lowercase();
    WORDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
}

/// A range may follow: `-40` for messages, `:0-80` for characters of one.
fn finish(number: u64, kind: Bare, rest: &str) -> Id {
    if kind == Bare::Node {
        return Id::Node(number);
    }
    if let Some(range) = rest.strip_prefix(':').and_then(pair) {
        return Id::Message(number, Some(range));
    }
    let to = rest.strip_prefix(['-', '–', '—']).and_then(leading_number);
    match to.filter(|to| *to >= number) {
        Some(to) => Id::Messages(number, to),
        None => Id::Message(number, None),
    }
}

fn pair(text: &str) -> Option<(u64, u64)> {
    let (start, rest) = text.split_once('-')?;
    let (start, end) = (start.trim().parse().ok()?, leading_number(rest)?);
    (start <= end).then_some((start, end))
}

fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// Reads one id or a list of them; a text may hold several with commas.
pub(super) fn list(name: &str, value: &Value, bare: Bare) -> Result<Vec<Id>, String> {
    let mut ids = Vec::new();
    match value {
        Value::Array(values) => {
            for value in values.iter().take(IDS_MAX + 1) {
                ids.push(read(name, value, bare)?);
            }
        }
        Value::String(text) if text.contains(',') && !text.contains('[') => {
            for piece in text.split(',').take(IDS_MAX + 1) {
                ids.push(read(name, &Value::String(piece.to_string()), bare)?);
            }
        }
        one => ids.push(read(name, one, bare)?),
    }
    if ids.len() > IDS_MAX {
        return Err(format!("{name} must have at most {IDS_MAX} ids"));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::json::json;

    #[test]
    fn ids_are_read_in_every_shape_models_write() {
        let message = |number| Id::Message(number, None);
        for (value, bare, want) in [
            (json!(12), Bare::Node, Id::Node(12)),
            (json!(12), Bare::Message, message(12)),
            (json!("12"), Bare::Node, Id::Node(12)),
            (json!("sum_12"), Bare::Message, Id::Node(12)),
            (json!("msg 12"), Bare::Node, message(12)),
            (json!("file_12"), Bare::Node, message(12)),
            (json!("node 12"), Bare::Message, Id::Node(12)),
            (json!("[Recent Summary (d0, node 18)]"), Bare::Message, Id::Node(18)),
            (json!("lcm:7:0-80"), Bare::Node, Id::Message(7, Some((0, 80)))),
            (json!("[conv=1 msg#44] (user)"), Bare::Node, message(44)),
            (json!("[Whole: lcm_expand(store_id=31)]"), Bare::Node, message(31)),
            (json!("messages 12-40"), Bare::Node, Id::Messages(12, 40)),
            (json!("12-40"), Bare::Message, Id::Messages(12, 40)),
            (json!("[palimpsest: summary 9 of 30 earlier messages, for reference"), Bare::Message, Id::Node(9)),
            (
                json!("[palimpsest: shortened from 900 tokens; the whole text is message 5 of the transcript]"),
                Bare::Node,
                message(5),
            ),
            (
                json!("[Covers messages 12-86. Whole: lcm_expand(store_ids=\"12-86\")]"),
                Bare::Node,
                Id::Messages(12, 86),
            ),
            (json!("job_a1"), Bare::Node, Id::Job("job_a1".to_string())),
        ] {
            assert_eq!(read("id", &value, bare), Ok(want), "{value}");
        }
        for value in
            [json!(0), json!(-1), json!(1.5), json!(""), json!("twelve"), json!({}), json!("99999999999999999999999")]
        {
            assert!(read("id", &value, Bare::Node).is_err(), "{value}");
        }
        assert_eq!(list("ids", &json!("3-4,9"), Bare::Message), Ok(vec![Id::Messages(3, 4), message(9)]));
        assert_eq!(list("ids", &json!([1, "sum_2"]), Bare::Node), Ok(vec![Id::Node(1), Id::Node(2)]));
    }
}
