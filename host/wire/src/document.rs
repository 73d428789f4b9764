//! A whole conversation: a request body, or a bare message list, over the client's own bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use engine_api::{Dialect, Message};

use crate::WireError;
use crate::json::{self, Kind, Object};
use crate::split::{detect, message, number};

/// A request body over the client's own bytes: its members and its messages' places, none of them understood yet.
///
/// Reading one costs a walk over the text; a proxy that knows a conversation's messages by their bytes needs no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    dialect: Dialect,
    /// The body as it was read or built, with the message list as it was then.
    text: String,
    /// Members other than the message list, with the places of their values in `text`; the last of a name counts.
    members: Vec<(String, Range<usize>)>,
    list: List,
}

/// One conversation as a request body over the client's own bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    envelope: Envelope,
    /// The messages, understood. [`Document::write`] takes their `raw` texts, or others.
    pub messages: Vec<Message>,
}

/// Where the message list stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct List {
    range: Range<usize>,
    /// Places of the messages, counted from the list's start.
    items: Vec<Range<usize>>,
    /// The member that holds it; none if the text is the list itself, without a body around it.
    key: Option<&'static str>,
}

/// Names of the member that holds the messages.
const LIST_KEYS: [&str; 2] = ["messages", "input"];

impl Envelope {
    /// Reads a request body `{..., "messages" | "input": [...]}` or a bare array of messages.
    ///
    /// Without a `dialect` it is recognised by content. A string as `input` (Responses) counts as one user message.
    ///
    /// # Errors
    /// [`WireError::NotJson`], and [`WireError::NoMessages`] if there is no list.
    pub fn read(text: String, dialect: Option<Dialect>) -> Result<Envelope, WireError> {
        let value = json::value(&text, "request body")?;
        let start = text.len().saturating_sub(text.trim_start_matches(json::SPACE).len());
        let (mut members, list_range, key) = match json::kind(value) {
            Kind::Array => (Vec::new(), 0..value.len(), None),
            Kind::Object => {
                let (members, range, key) = read_body(value, dialect)?;
                (members, range, Some(key))
            }
            other => return Err(WireError::NoMessages { problem: other.described() }),
        };
        let list_text = value.get(list_range.clone()).unwrap_or("[]");
        let items = json::element_spans(list_text).unwrap_or_default();
        let hint = || {
            let has = |key: &str| members.iter().any(|(name, _)| name == key);
            match key {
                Some("input") => Dialect::Responses,
                _ if has("system") || has("anthropic_version") || has("stop_sequences") => Dialect::Anthropic,
                _ => detect(&items.iter().filter_map(|range| list_text.get(range.clone())).collect::<Vec<_>>()),
            }
        };
        let dialect = dialect.unwrap_or_else(hint);
        let shift = |range: &Range<usize>| range.start.saturating_add(start)..range.end.saturating_add(start);
        for (_, range) in &mut members {
            *range = shift(range);
        }
        let list = List { range: shift(&list_range), items, key };
        Ok(Envelope { dialect, text, members, list })
    }

    /// Returns the body as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the exact texts of the messages, in order.
    pub fn raws(&self) -> Vec<Cow<'_, str>> {
        let list = self.list_text();
        if json::kind(list) == Kind::Array {
            return self.list.items.iter().filter_map(|range| list.get(range.clone())).map(Cow::Borrowed).collect();
        }
        vec![Cow::Owned(format!("{{\"type\":\"message\",\"role\":\"user\",\"content\":{list}}}"))]
    }

    fn list_text(&self) -> &str {
        self.text.get(self.list.range.clone()).unwrap_or("[]")
    }

    /// Returns the wire dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the raw JSON text of a top-level member other than the message list.
    pub fn member(&self, key: &str) -> Option<&str> {
        let (_, range) = self.members.iter().rev().find(|(name, _)| name == key)?;
        self.text.get(range.clone())
    }

    /// Returns the names and raw texts of all top-level members other than the message list, in order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().filter_map(|(name, range)| Some((name.as_str(), self.text.get(range.clone())?)))
    }

    /// Sets a top-level member; all other bytes stay. The message list cannot be set in this way.
    ///
    /// A new member is added at the end of the body, and a bare list becomes a body. A value that is no JSON is taken
    /// as a plain text and quoted.
    pub fn set_member(&mut self, key: &str, raw: String) {
        let list_key = self.list.key.unwrap_or(list_key(self.dialect));
        if key == list_key {
            return;
        }
        let raw = valid(raw);
        if self.list.key.is_none() {
            self.replace(0..0, &format!("{{{}:", json::quote(list_key)));
            self.text.push('}');
            self.list.key = Some(list_key);
        }
        if let Some((_, range)) = self.members.iter().rev().find(|(name, _)| name == key) {
            self.replace(range.clone(), &raw);
            return;
        }
        // A body that was read holds at least the message list, so there is a member to put the comma after.
        let Some(end) = self.text.rfind('}') else { return };
        let end = self.text.get(..end).map_or(0, |body| body.trim_end().len());
        let opening = format!(",{}:", json::quote(key));
        let start = end.saturating_add(opening.len());
        let value_end = start.saturating_add(raw.len());
        self.replace(end..end, &(opening + &raw));
        self.members.push((key.to_owned(), start..value_end));
    }

    /// Replaces a piece of the text and moves all places behind it.
    fn replace(&mut self, at: Range<usize>, with: &str) {
        self.text.replace_range(at.clone(), with);
        let moved = |place: usize| {
            if place < at.end { place } else { place.saturating_sub(at.len()).saturating_add(with.len()) }
        };
        let places = self.members.iter_mut().map(|(_, range)| range).chain([&mut self.list.range]);
        for range in places {
            let is_replaced = *range == at && !at.is_empty();
            let start = if is_replaced { range.start } else { moved(range.start) };
            // An insertion at a value's end is no part of the value.
            let is_before = range.end == at.start && at.is_empty() && range.start < at.start;
            *range = start..if is_before { range.end } else { moved(range.end) };
        }
    }

    /// Returns the texts that count as prompt tokens but are no messages: instructions and tool definitions.
    ///
    /// Definitions come without the white space between their tokens, which no provider passes on to the model.
    pub fn overhead_texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        for key in ["system", "instructions"] {
            let Some(raw) = self.member(key) else { continue };
            texts.extend(instruction_texts(raw));
        }
        for key in ["tools", "functions"] {
            let tools = self.member(key).and_then(json::elements).unwrap_or_default();
            texts.extend(tools.into_iter().map(json::compact));
        }
        texts
    }

    /// Writes the body with these raw messages in place of the old ones; all other bytes are the client's.
    ///
    /// The same messages as read give back the same bytes. A kept message keeps the white space before it.
    pub fn write<'m>(&self, messages: impl IntoIterator<Item = &'m str>) -> String {
        let list = self.list_text();
        let messages: Vec<&str> = messages.into_iter().collect();
        let written = if json::kind(list) == Kind::Array {
            self.write_list(list, &messages)
        } else if self.is_untouched_input(list, &messages) {
            return self.text.clone();
        } else {
            format!("[{}]", messages.join(","))
        };
        let before = self.text.get(..self.list.range.start).unwrap_or_default();
        let after = self.text.get(self.list.range.end..).unwrap_or_default();
        [before, &written, after].concat()
    }

    fn is_untouched_input(&self, list: &str, messages: &[&str]) -> bool {
        let [only] = messages else { return false };
        Object::parse(only).is_some_and(|item| {
            item.members().len() == 3
                && item.get("type") == Some("\"message\"")
                && item.get("role") == Some("\"user\"")
                && item.get("content") == Some(list)
        })
    }

    /// Finds each message's place in the old list, so that it keeps what the client wrote before it.
    fn write_list(&self, list: &str, messages: &[&str]) -> String {
        let old: Vec<&str> = self.list.items.iter().filter_map(|range| list.get(range.clone())).collect();
        let mut places: Option<HashMap<&str, Vec<usize>>> = None;
        let mut next = 0_usize;
        let mut found = Vec::with_capacity(messages.len());
        for &message in messages {
            let mut at = (old.get(next) == Some(&message)).then_some(next);
            if at.is_none() {
                let places = places.get_or_insert_with(|| {
                    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
                    for (at, raw) in old.iter().enumerate().rev() {
                        places.entry(raw).or_default().push(at);
                    }
                    places
                });
                if let Some(same) = places.get_mut(message) {
                    // Lists only ever move forward, so what lies behind is never asked for again.
                    while same.last().is_some_and(|&place| place < next) {
                        same.pop();
                    }
                    at = same.last().copied();
                }
            }
            if let Some(at) = at {
                next = at.saturating_add(1);
            }
            found.push((at, message));
        }
        json::join(list, &self.list.items, found)
    }

    /// Leaves the messages as they are, for one who knows them already.
    pub fn unread(self) -> Document {
        Document { envelope: self, messages: Vec::new() }
    }

    /// Understands the messages.
    pub fn understood(self) -> Document {
        let dialect = self.dialect;
        let mut messages: Vec<Message> = self.raws().iter().map(|raw| message(dialect, raw, raw)).collect();
        number(&mut messages);
        Document { envelope: self, messages }
    }

    /// Returns the model's name.
    pub fn model(&self) -> Option<String> {
        self.member("model").and_then(json::decode).map(|name| name.into_owned())
    }
}

impl Document {
    /// Reads a request body or a bare array of messages, as [`Envelope::read`] does, and understands the messages.
    ///
    /// They come numbered, with the tools' names filled in.
    ///
    /// # Errors
    /// Those of [`Envelope::read`].
    pub fn read(text: &str, dialect: Option<Dialect>) -> Result<Document, WireError> {
        Ok(Envelope::read(text.to_owned(), dialect)?.understood())
    }

    /// Makes a document from raw members (without the message list, which comes last) and messages.
    ///
    /// A value that is no JSON is taken as a plain text and quoted.
    pub fn from_parts(dialect: Dialect, members: Vec<(String, String)>, messages: Vec<Message>) -> Document {
        let key = list_key(dialect);
        let mut text = String::from("{");
        let mut places = Vec::with_capacity(members.len());
        for (name, raw) in members {
            if name == key {
                continue;
            }
            text.push_str(&json::quote(&name));
            text.push(':');
            let start = text.len();
            text.push_str(&valid(raw));
            places.push((name, start..text.len()));
            text.push(',');
        }
        text.push_str(&json::quote(key));
        text.push(':');
        let start = text.len();
        text.push('[');
        let mut items = Vec::with_capacity(messages.len());
        for message in &messages {
            if !items.is_empty() {
                text.push(',');
            }
            let item = text.len();
            text.push_str(&message.raw);
            items.push(item.saturating_sub(start)..text.len().saturating_sub(start));
        }
        text.push(']');
        let list = List { range: start..text.len(), items, key: Some(key) };
        text.push('}');
        Document { envelope: Envelope { dialect, text, members: places, list }, messages }
    }

    /// Returns the body around the messages.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Returns the wire dialect.
    pub fn dialect(&self) -> Dialect {
        self.envelope.dialect
    }

    /// Returns a top-level member, as [`Envelope::member`] does.
    pub fn member(&self, key: &str) -> Option<&str> {
        self.envelope.member(key)
    }

    /// Returns the members, as [`Envelope::members`] does.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.envelope.members()
    }

    /// Sets a member, as [`Envelope::set_member`] does.
    pub fn set_member(&mut self, key: &str, raw: String) {
        self.envelope.set_member(key, raw);
    }

    /// Returns the texts that are no messages, as [`Envelope::overhead_texts`] does.
    pub fn overhead_texts(&self) -> Vec<String> {
        self.envelope.overhead_texts()
    }

    /// Writes the body with other messages, as [`Envelope::write`] does.
    pub fn write<'m>(&self, messages: impl IntoIterator<Item = &'m str>) -> String {
        self.envelope.write(messages)
    }

    /// Returns the model's name.
    pub fn model(&self) -> Option<String> {
        self.envelope.model()
    }
}

/// Returns the member that holds a dialect's messages.
pub(crate) fn list_key(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Responses { "input" } else { "messages" }
}

/// Returns the value if it is JSON, else as a JSON string.
fn valid(raw: String) -> String {
    match json::value(&raw, "member") {
        Ok(_) => raw,
        Err(_) => json::quote(&raw),
    }
}

type Members = Vec<(String, Range<usize>)>;

/// Finds the message list among a body's members.
fn read_body(value: &str, dialect: Option<Dialect>) -> Result<(Members, Range<usize>, &'static str), WireError> {
    let problem = "an object without them";
    let body = Object::parse(value).ok_or(WireError::NoMessages { problem })?;
    let is_list = |key: &str| match body.get(key).map(json::kind) {
        Some(Kind::Array) => true,
        Some(Kind::String) => key == "input",
        _ => false,
    };
    let mut keys = LIST_KEYS;
    if dialect == Some(Dialect::Responses) {
        keys.reverse();
    }
    let key = keys.into_iter().find(|key| is_list(key)).ok_or(WireError::NoMessages { problem })?;
    let at = body.position(key).ok_or(WireError::NoMessages { problem })?;
    let mut members = Vec::with_capacity(body.members().len());
    let mut list = None;
    for (index, member) in body.members().iter().enumerate() {
        let range = body.value_range(index).ok_or(WireError::NoMessages { problem })?;
        if index == at {
            list = Some(range);
        } else {
            members.push((member.key.clone().into_owned(), range));
        }
    }
    Ok((members, list.ok_or(WireError::NoMessages { problem })?, key))
}

/// Returns the texts of a `system` or `instructions` member: a string, or a list of text blocks.
pub(crate) fn instruction_texts(raw: &str) -> Vec<String> {
    let texts = match json::kind(raw) {
        Kind::String => json::decode(raw).map(|text| text.into_owned()).into_iter().collect(),
        Kind::Array => json::elements(raw)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|block| json::decode(block).or_else(|| Object::parse(block)?.text("text")))
            .map(|text| text.into_owned())
            .collect(),
        _ => Vec::new(),
    };
    texts.into_iter().filter(|text: &String| !text.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests;
