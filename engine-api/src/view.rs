//! The conversation as an engine sees it: borrowed from the host, nothing copied, nothing parsed twice.

use crate::ffi::{RawConversation, RawMessage, RawPart};
use crate::message::{Flags, Message, MessageId, NodeId, PartKind, Role};

/// The messages that the model sees now, oldest first.
#[derive(Clone, Copy)]
pub struct Conversation<'a> {
    raw: RawConversation<'a>,
}

impl<'a> Conversation<'a> {
    pub(crate) fn from_raw(raw: RawConversation<'a>) -> Self {
        Conversation { raw }
    }
    pub(crate) fn raw(&self) -> RawConversation<'a> {
        self.raw
    }
    /// Returns the number of this state of the conversation; a plan states the one it was made for.
    pub fn revision(&self) -> u64 {
        self.raw.revision
    }
    /// Returns how many messages there are.
    pub fn len(&self) -> usize {
        self.raw.messages.len()
    }
    /// Tells whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.raw.messages.is_empty()
    }
    /// Returns the message at a position.
    pub fn get(&self, position: usize) -> Option<MessageView<'a>> {
        let raw = self.raw.messages.as_slice().get(position)?;
        Some(self.view(raw))
    }
    /// Walks the messages, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = MessageView<'a>> + ExactSizeIterator + '_ {
        self.raw.messages.as_slice().iter().map(move |raw| self.view(raw))
    }
    /// Returns the tokens of all messages.
    pub fn tokens(&self) -> u64 {
        self.raw.messages.as_slice().iter().map(|message| u64::from(message.tokens)).sum()
    }
    fn view(&self, raw: &'a RawMessage<'a>) -> MessageView<'a> {
        let first = raw.first_part as usize;
        let parts =
            first.checked_add(raw.part_count as usize).and_then(|end| self.raw.parts.as_slice().get(first..end));
        MessageView { raw, parts: parts.unwrap_or(&[]) }
    }
}

impl std::fmt::Debug for Conversation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("revision", &self.revision()).field("messages", &self.len()).finish()
    }
}

/// One message.
#[derive(Clone, Copy)]
pub struct MessageView<'a> {
    raw: &'a RawMessage<'a>,
    parts: &'a [RawPart<'a>],
}

impl<'a> MessageView<'a> {
    /// Returns its id, stable within the session.
    pub fn id(&self) -> MessageId {
        MessageId(self.raw.id)
    }
    /// Returns who speaks.
    pub fn role(&self) -> Role {
        Role::from_code(self.raw.role)
    }
    /// Returns its marks.
    pub fn flags(&self) -> Flags {
        Flags(self.raw.flags)
    }
    /// Returns its tokens, framing included.
    pub fn tokens(&self) -> u64 {
        u64::from(self.raw.tokens)
    }
    /// Returns the summary node behind it, if it is a summary.
    pub fn node(&self) -> Option<NodeId> {
        if self.raw.node == 0 {
            None
        } else {
            Some(NodeId(self.raw.node))
        }
    }
    /// Returns the exact JSON text of the message in its dialect.
    pub fn raw(&self) -> &'a str {
        self.raw.raw.as_str()
    }
    /// Tells whether a person wrote it.
    pub fn is_real_user(&self) -> bool {
        self.flags().has(Flags::REAL_USER)
    }
    /// Tells whether it is a summary of this host.
    pub fn is_summary(&self) -> bool {
        self.flags().has(Flags::SUMMARY)
    }
    /// Tells whether it is pinned.
    pub fn is_pinned(&self) -> bool {
        self.flags().has(Flags::PINNED)
    }
    /// Returns how many parts it has.
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }
    /// Walks its parts in order.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = PartView<'a>> + ExactSizeIterator + 'a {
        self.parts.iter().map(|raw| PartView { raw })
    }
    /// Returns the part at a position.
    pub fn part(&self, position: usize) -> Option<PartView<'a>> {
        self.parts.get(position).map(|raw| PartView { raw })
    }
    /// Walks its tool calls.
    pub fn calls(&self) -> impl Iterator<Item = PartView<'a>> + 'a {
        self.parts().filter(|part| part.kind() == PartKind::ToolCall)
    }
    /// Walks its tool results.
    pub fn results(&self) -> impl Iterator<Item = PartView<'a>> + 'a {
        self.parts().filter(|part| part.kind() == PartKind::ToolResult)
    }
    /// Returns its text parts, joined by newlines.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in self.parts().filter(|part| part.kind() == PartKind::Text) {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(part.text());
        }
        out
    }
}

impl std::fmt::Debug for MessageView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageView").field("id", &self.raw.id).field("role", &self.role()).finish()
    }
}

/// One part of a message.
#[derive(Clone, Copy)]
pub struct PartView<'a> {
    raw: &'a RawPart<'a>,
}

impl<'a> PartView<'a> {
    /// Returns what it is.
    pub fn kind(&self) -> PartKind {
        PartKind::from_code(self.raw.kind)
    }
    /// Returns its marks.
    pub fn flags(&self) -> Flags {
        Flags(self.raw.flags)
    }
    /// Returns its tokens.
    pub fn tokens(&self) -> u64 {
        u64::from(self.raw.tokens)
    }
    /// Returns its text: the text, the arguments, the result, the reasoning; empty for pictures and opaque parts.
    pub fn text(&self) -> &'a str {
        self.raw.text.as_str()
    }
    /// Returns the id that pairs a call with its result; empty elsewhere.
    pub fn call_id(&self) -> &'a str {
        self.raw.call_id.as_str()
    }
    /// Returns the tool's name; empty where there is none or it is not known.
    pub fn tool_name(&self) -> &'a str {
        self.raw.tool_name.as_str()
    }
}

impl std::fmt::Debug for PartView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartView").field("kind", &self.kind()).field("tokens", &self.tokens()).finish()
    }
}

/// The tables behind a [`Conversation`], built once for a list of messages and lent to any number of calls.
pub struct ViewTable<'a> {
    revision: u64,
    messages: Vec<RawMessage<'a>>,
    parts: Vec<RawPart<'a>>,
}

impl<'a> ViewTable<'a> {
    /// Builds the tables over these messages; nothing of their text is copied.
    pub fn new(revision: u64, messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let mut table = ViewTable { revision, messages: Vec::new(), parts: Vec::new() };
        for message in messages {
            table.push(message);
        }
        table
    }
    /// Adds one more message at the end.
    pub fn push(&mut self, message: &'a Message) {
        let first_part = self.parts.len() as u64;
        self.parts.extend(message.parts.iter().map(|part| RawPart {
            kind: part.kind.code(),
            flags: part.flags.0,
            tokens: part.tokens,
            r0: 0,
            text: part.text.as_str().into(),
            call_id: part.call_id.as_str().into(),
            tool_name: part.tool_name.as_str().into(),
        }));
        self.messages.push(RawMessage {
            id: message.id.0,
            node: message.node.0,
            role: message.role.code(),
            flags: message.flags.0,
            tokens: message.tokens,
            part_count: message.parts.len().min(u32::MAX as usize) as u32,
            first_part,
            raw: message.raw.as_str().into(),
        });
    }
    /// Lends the conversation.
    pub fn conversation(&self) -> Conversation<'_> {
        Conversation::from_raw(RawConversation {
            revision: self.revision,
            messages: self.messages.as_slice().into(),
            parts: self.parts.as_slice().into(),
            extra: "".into(),
        })
    }
}
