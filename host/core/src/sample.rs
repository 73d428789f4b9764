//! A scribe over Chat Completions messages as the contract's test helpers make them, for the tests of this crate.

use crate::scribe::{PartChange, Scribe};
use crate::session::Session;
use engine_api::{Dialect, Flags, Message, MessageId, NodeId, Part, PartKind, Role, testing};

/// Writes the messages of `engine_api::testing`.
pub(crate) struct Sample;

/// Four bytes a token.
fn count(text: &str) -> u32 {
    u32::try_from(text.len() / 4 + 1).unwrap_or(u32::MAX)
}

fn written(role: Role, text: &str) -> Message {
    let mut message = if role == Role::Assistant { testing::assistant(0, text) } else { testing::user(0, text) };
    message.flags = Flags::default();
    measure(&mut message);
    message
}

fn measure(message: &mut Message) {
    for part in &mut message.parts {
        part.tokens = count(&part.text);
    }
    message.tokens = message.parts.iter().map(|part| part.tokens).sum::<u32>() + 4;
}

impl Scribe for Sample {
    fn dialect(&self) -> Dialect {
        Dialect::OpenAiChat
    }
    fn edit(&self, message: &Message, changes: &[(usize, PartChange)]) -> Result<Option<Message>, String> {
        let mut edited = message.clone();
        let mut gone: Vec<usize> = Vec::new();
        for (at, change) in changes {
            match (edited.parts.get_mut(*at), change) {
                (Some(part), PartChange::Text(text)) => part.text.clone_from(text),
                (Some(_), PartChange::Remove) => gone.push(*at),
                (None, _) => return Err(format!("no part {at}")),
            }
        }
        let parts: Vec<Part> =
            edited.parts.into_iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, part)| part).collect();
        if parts.is_empty() {
            return Ok(None);
        }
        edited.parts = parts;
        edited.raw = format!(
            "{{\"edited\":{}}}",
            serde_json::json!(edited.parts.iter().map(|part| &part.text).collect::<Vec<_>>())
        );
        edited.id = MessageId(0);
        edited.flags = Flags::default();
        edited.node = NodeId(0);
        measure(&mut edited);
        Ok(Some(edited))
    }
    fn text(&self, role: Role, text: &str) -> Result<Message, String> {
        Ok(written(role, text))
    }
    fn answer(&self, calling: &Message, calls: &[usize], text: &str) -> Result<Vec<Message>, String> {
        let parts = calls.iter().filter_map(|at| calling.parts.get(*at));
        Ok(parts.map(|part| testing::result(0, &part.call_id, &part.tool_name, text)).collect())
    }
    fn extract(&self, message: &Message, results: &[usize]) -> Result<Vec<Message>, String> {
        let parts = results.iter().filter_map(|at| message.parts.get(*at));
        Ok(parts.map(|part| testing::result(0, &part.call_id, &part.tool_name, &part.text)).collect())
    }
    fn count(&self, text: &str) -> u64 {
        u64::from(count(text))
    }
}

/// Opens a session over these messages.
pub(crate) fn session(mut messages: Vec<Message>) -> Session {
    messages.iter_mut().for_each(measure);
    Session::new("sample", Dialect::OpenAiChat, messages, 0)
}

/// A picture of messages, a letter each: S system, U user, A model, C calls, T result, Σ summary, W quoted words.
pub(crate) fn picture<'m>(messages: impl IntoIterator<Item = &'m Message>) -> String {
    let letter = |message: &Message| match message {
        one if one.flags.has(Flags::SUMMARY) => 'Σ',
        one if crate::frame::is_words_text(&one.text()) => 'W',
        one if one.parts.iter().any(|part| part.kind == PartKind::ToolCall) => 'C',
        one => match one.role {
            Role::System => 'S',
            Role::User => 'U',
            Role::Tool => 'T',
            _ => 'A',
        },
    };
    messages.into_iter().map(letter).collect()
}
