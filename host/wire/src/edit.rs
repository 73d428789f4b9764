//! Changes single parts of a message and leaves every other byte as the client wrote it.

use std::collections::BTreeMap;

use engine_api::{Dialect, PartKind};

use crate::json::{self, Kind};
use crate::split::{Parsed, Place, Spot, locate};
use crate::{WireError, anthropic, openai_chat, openai_responses};

/// What is done to one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartEdit<'a> {
    /// The part says this instead.
    Text(&'a str),
    /// The part goes.
    Remove,
}

/// Returns the raw message with the given parts changed; every other byte stays.
///
/// A part's index is the one in [`parse_message`](crate::parse_message); of several edits of a part the last counts.
/// What [`PartEdit::Text`] does depends on the part:
/// - text: it is replaced. A blank text removes the part, because APIs refuse blank text blocks.
/// - tool result: its whole content becomes the string, pictures included. A failed tool's answer in the Anthropic
///   dialect becomes `(no output)` rather than empty, which the API refuses.
/// - tool call: its arguments are replaced. Where the dialect wants an object (Anthropic's `input`) and the text is none,
///   it becomes `{"_": text}`.
///
/// Returns `None` if nothing but reasoning is left, so that the message would be refused; the caller drops it. A message
/// that keeps other parts but now *ends* in a thinking block is returned as it is: Anthropic refuses it as well, and
/// only the caller knows whether the thinking may go too.
///
/// # Errors
/// [`WireError::NotJson`], [`WireError::NoSuchPart`], and [`WireError::BadEdit`] for a text in a part that has none:
/// reasoning, pictures, opaque parts, the screenshot of a computer call, the tools found by a search, and a call whose
/// action has a fixed shape if the text is no JSON object.
pub fn edit_message(dialect: Dialect, raw: &str, edits: &[(usize, PartEdit<'_>)]) -> Result<Option<String>, WireError> {
    let value = json::value(raw, "message")?;
    if edits.is_empty() {
        return Ok(Some(raw.to_owned()));
    }
    let parsed = locate(dialect, value);
    let count = parsed.spots.len();
    // Per part: the new text of its place, or none if it goes.
    let mut changes: BTreeMap<usize, Option<String>> = BTreeMap::new();
    for &(index, edit) in edits {
        let spot = parsed.spots.get(index).ok_or(WireError::NoSuchPart { dialect, part: index, count })?;
        let change = match edit {
            PartEdit::Remove => None,
            PartEdit::Text(text) if spot.part.kind == PartKind::Text && text.trim().is_empty() => None,
            PartEdit::Text(text) => Some(with_text(dialect, &parsed, spot, text).ok_or(WireError::BadEdit {
                dialect,
                part: index,
                wanted: "replace the text of",
                problem: problem_of(spot.part.kind),
            })?),
        };
        changes.insert(index, change);
    }
    let is_gone = |index: &usize| matches!(changes.get(index), Some(None));
    let has_removal = changes.values().any(Option::is_none);
    let has_content = parsed.spots.iter().enumerate().any(|(index, spot)| {
        let says_something = match spot.part.kind {
            PartKind::Reasoning => false,
            PartKind::Text => !spot.part.text.trim().is_empty() || changes.contains_key(&index),
            _ => true,
        };
        says_something && !is_gone(&index)
    });
    if has_removal && !has_content {
        return Ok(None);
    }
    let edited = apply(&parsed, value, &changes);
    let (before, after) = raw.split_once(value).unwrap_or_default();
    Ok(Some(format!("{before}{edited}{after}")))
}

fn problem_of(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Reasoning => "reasoning is signed, it can only be removed",
        PartKind::Image => "a picture has no text, it can only be removed",
        PartKind::ToolCall => "the action of this call has a fixed shape, give a JSON object",
        PartKind::ToolResult => "an answer of this kind has no text, it can only be removed",
        _ => "its content is not understood, it can only be removed",
    }
}

fn with_text(dialect: Dialect, parsed: &Parsed<'_>, spot: &Spot<'_>, text: &str) -> Option<String> {
    match dialect {
        Dialect::Anthropic => anthropic::with_text(spot, text),
        Dialect::Responses => openai_responses::with_text(spot, text),
        _ => {
            let member = match spot.place {
                Place::Member(at) => parsed.object.as_ref()?.members().get(at),
                _ => None,
            };
            openai_chat::with_text(spot, member.map_or("", |member| &member.key), text)
        }
    }
}

/// Writes the message with the changed places; at least one part that is not reasoning stays.
fn apply(parsed: &Parsed<'_>, value: &str, changes: &BTreeMap<usize, Option<String>>) -> String {
    let mut members: BTreeMap<usize, Option<String>> = BTreeMap::new();
    // Arrays are written once, with all changes to their elements.
    let mut arrays: BTreeMap<usize, BTreeMap<usize, Option<&str>>> = BTreeMap::new();
    for (index, change) in changes {
        match parsed.spots.get(*index).map(|spot| spot.place) {
            Some(Place::Whole) => return change.clone().unwrap_or_else(|| value.to_owned()),
            Some(Place::Member(member)) => {
                members.insert(member, change.clone());
            }
            Some(Place::Element { member, index }) => {
                arrays.entry(member).or_default().insert(index, change.as_deref());
            }
            None => {}
        }
    }
    let Some(object) = &parsed.object else { return value.to_owned() };
    for (member, elements) in arrays {
        let Some(raw) = object.members().get(member).map(|member| member.value) else { continue };
        members.insert(member, rewrite_array(raw, &elements));
    }
    let members: Vec<(usize, Option<String>)> = members
        .into_iter()
        .map(|(at, change)| {
            // A message needs its `content`, if only as null beside the calls; an emptied list of calls must go.
            let is_content = object.members().get(at).is_some_and(|member| member.key == "content");
            (at, change.or_else(|| is_content.then(|| "null".to_owned())))
        })
        .collect();
    object.rewrite(&members)
}

/// Writes an array with some elements changed or removed; `None` if none is left.
fn rewrite_array(raw: &str, changes: &BTreeMap<usize, Option<&str>>) -> Option<String> {
    debug_assert_eq!(json::kind(raw), Kind::Array);
    let spans = json::element_spans(raw)?;
    let kept: Vec<(Option<usize>, &str)> = spans
        .iter()
        .enumerate()
        .filter_map(|(at, span)| Some((Some(at), changes.get(&at).copied().unwrap_or(raw.get(span.clone()))?)))
        .collect();
    if kept.is_empty() { None } else { Some(json::join(raw, &spans, kept)) }
}

#[cfg(test)]
mod tests;
