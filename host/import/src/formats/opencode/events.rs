//! Server events: messages and parts as they grew. A later event replaces what an earlier one said of the same id.

use super::{Message, Part, Session};
use crate::formats::walk::value_lines;
use crate::input::Input;
use crate::json::get_str;
use crate::{Context, Conversation, ImportError, Kind};
use serde_json::Value;
use std::collections::HashMap;

#[derive(Default)]
struct Sessions {
    list: Vec<Session>,
    by_id: HashMap<String, usize>,
    /// (session, message) of a message id.
    messages: HashMap<String, (usize, usize)>,
    /// Position of a part in its message.
    parts: HashMap<(String, String), usize>,
}

pub(in crate::formats) fn read(
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Conversation>, ImportError> {
    let mut sessions = Sessions::default();
    value_lines(input, context, &mut |line, record, _| sessions.event(line, &record))?;
    let is_live = context.is_live();
    let Sessions { list, by_id, .. } = sessions;
    // A child names its parent; one whose parent is not in the file stands for itself.
    let is_child = |session: &Session| by_id.contains_key(&session.parent);
    let (children, main): (Vec<Session>, Vec<Session>) = list.into_iter().partition(is_child);
    let main = main.into_iter().map(|session| (Kind::Main, session));
    let children = children.into_iter().map(|session| (Kind::Sidechain, session));
    Ok(main.chain(children).map(|(kind, session)| session.conversation(kind, is_live, &mut context.problems)).collect())
}

impl Sessions {
    fn event(&mut self, line: u64, record: &Value) {
        let event = record.get("event").unwrap_or(record);
        let null = Value::Null;
        let properties = event.get("properties").unwrap_or(&null);
        match get_str(event, "type").unwrap_or_default() {
            "session.created" | "session.updated" => {
                if let Some(info) = properties.get("info")
                    && let Some(id) = get_str(info, "id")
                {
                    let index = self.session(id);
                    if let Some(session) = self.list.get_mut(index) {
                        session.info(info);
                    }
                }
            }
            "message.updated" => {
                if let Some(info) = properties.get("info")
                    && let Some(message) = self.message(line, get_str(info, "sessionID"), get_str(info, "id"))
                {
                    message.info(info);
                }
            }
            "message.part.updated" => {
                if let Some(part) = properties.get("part") {
                    self.part(line, part);
                }
            }
            "message.part.delta" => self.delta(line, properties),
            "message.removed" => {
                if let Some(message) =
                    self.message(line, get_str(properties, "sessionID"), get_str(properties, "messageID"))
                {
                    message.parts.clear();
                }
            }
            "message.part.removed" => {
                if let Some((_, place)) = self.place(line, properties, get_str(properties, "partID")) {
                    *place = Part::Other;
                }
            }
            _ => {}
        }
    }

    fn session(&mut self, id: &str) -> usize {
        if let Some(index) = self.by_id.get(id) {
            return *index;
        }
        self.by_id.insert(id.to_owned(), self.list.len());
        self.list.push(Session { id: id.to_owned(), ..Session::default() });
        self.list.len() - 1
    }

    fn message(&mut self, line: u64, session: Option<&str>, id: Option<&str>) -> Option<&mut Message> {
        let (session, id) = (session?, id?);
        let (session, position) = match self.messages.get(id) {
            Some(place) => *place,
            None => {
                let index = self.session(session);
                let messages = &mut self.list.get_mut(index)?.messages;
                messages.push(Message { id: id.to_owned(), line, ..Message::default() });
                let place = (index, messages.len() - 1);
                self.messages.insert(id.to_owned(), place);
                place
            }
        };
        self.list.get_mut(session)?.messages.get_mut(position)
    }

    // The place of a part; a new part gets one at the end of its message.
    fn place(&mut self, line: u64, holder: &Value, part_id: Option<&str>) -> Option<(bool, &mut Part)> {
        let (message_id, part_id) = (get_str(holder, "messageID")?, part_id?);
        let key = (message_id.to_owned(), part_id.to_owned());
        let known = self.parts.get(&key).copied();
        let count = self.message(line, get_str(holder, "sessionID"), Some(message_id))?.parts.len();
        let position = known.unwrap_or(count);
        if known.is_none() {
            self.parts.insert(key, position);
        }
        let message = self.message(line, get_str(holder, "sessionID"), Some(message_id))?;
        if position >= message.parts.len() {
            message.parts.push((part_id.to_owned(), Part::Other));
        }
        message.parts.get_mut(position).map(|(_, part)| (known.is_some(), part))
    }

    fn part(&mut self, line: u64, part: &Value) {
        if let Some((_, place)) = self.place(line, part, get_str(part, "id")) {
            *place = Part::from_value(part);
        }
    }

    fn delta(&mut self, line: u64, properties: &Value) {
        let Some(delta) = get_str(properties, "delta") else { return };
        if get_str(properties, "field") != Some("text") {
            return;
        }
        let Some((is_known, place)) = self.place(line, properties, get_str(properties, "partID")) else { return };
        match place {
            Part::Text { text, .. } | Part::Reasoning(text) => text.push_str(delta),
            // Nothing said yet what the part is; the next whole part will.
            Part::Other if !is_known => {
                *place = Part::Text { text: delta.to_owned(), is_synthetic: false, is_ignored: false }
            }
            _ => {}
        }
    }
}
