//! The conversation model: what a message and its parts are, owned and borrowed.
//!
//! A host keeps [`Message`]s: the exact bytes of a message in its wire dialect beside what was understood of them.
//! An engine sees [`MessageView`](crate::MessageView)s, which borrow from them and copy nothing.

use serde::{Deserialize, Serialize};

/// Names a message within its session: stable, unique, given by the host, never reused.
///
/// `MessageId(0)` is never a stored message; it stands for text that a host or an engine wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct MessageId(pub u64);

/// Names a summary node within its session. `NodeId(0)` stands for no node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct NodeId(pub u64);

macro_rules! coded_enum {
    ($(#[$meta:meta])* $name:ident, unknown = $unknown:ident { $($(#[$vmeta:meta])* $variant:ident = $code:literal / $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Returns the number that stands for this value at the plugin boundary.
            pub const fn code(self) -> u32 {
                match self { $($name::$variant => $code),+ }
            }
            /// Reads a number from the plugin boundary; one that this version does not know becomes the catch-all value.
            pub const fn from_code(code: u32) -> Self {
                match code { $($code => $name::$variant,)+ _ => $name::$unknown }
            }
            /// Returns the value's name as it is written in JSON and in receipts.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        // By hand, so that a word of a newer minor becomes the catch-all value and not an error.
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(match word.as_ref() { $($word => $name::$variant,)+ _ => $name::$unknown })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }
    };
}
pub(crate) use coded_enum;

coded_enum! {
    /// Who speaks.
    Role, unknown = Other {
        /// The operator's instructions.
        System = 0 / "system",
        /// Instructions of the application; the Responses dialect has them beside the system's.
        Developer = 1 / "developer",
        /// The person, or the client in the person's name: see [`Flags::REAL_USER`].
        User = 2 / "user",
        /// The model.
        Assistant = 3 / "assistant",
        /// A tool's answer, where the dialect gives it a message of its own.
        Tool = 4 / "tool",
        /// A role this version does not know.
        Other = 255 / "other",
    }
}

coded_enum! {
    /// What a part is.
    PartKind, unknown = Opaque {
        /// Plain text.
        Text = 0 / "text",
        /// A call of a tool: `call_id`, `tool_name`, and the arguments as text.
        ToolCall = 1 / "tool_call",
        /// A tool's answer: `call_id`, and the answer as text. The tool's name is filled in where the call is known.
        ToolResult = 2 / "tool_result",
        /// The model's reasoning, signed or encrypted in some dialects: it may leave, it may not be altered.
        Reasoning = 3 / "reasoning",
        /// A picture.
        Image = 4 / "image",
        /// Anything else. It passes through untouched.
        Opaque = 255 / "opaque",
    }
}

coded_enum! {
    /// The wire dialect a conversation came in, and will leave in.
    Dialect, unknown = OpenAiChat {
        /// OpenAI Chat Completions: `messages`, tool answers as messages of role `tool`.
        OpenAiChat = 0 / "openai",
        /// Anthropic Messages: content blocks, tool answers at the head of the next user message.
        Anthropic = 1 / "anthropic",
        /// OpenAI Responses: a list of items, calls and outputs as items of their own.
        Responses = 2 / "responses",
    }
}

/// Marks on a message or a part, as a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flags(pub u32);

impl Flags {
    /// On a message: a person wrote it (not the client, not a tool, not a summary).
    pub const REAL_USER: Flags = Flags(1);
    /// On a message: the host or an engine wrote it.
    pub const SYNTHETIC: Flags = Flags(1 << 1);
    /// On a message: it is a summary that stands for older messages.
    pub const SUMMARY: Flags = Flags(1 << 2);
    /// On a message: the user or the host pinned it; every plan must keep it.
    pub const PINNED: Flags = Flags(1 << 3);
    /// On a message: the client put it there (rules, environment, reminders), in the user's or developer's role.
    pub const INJECTED: Flags = Flags(1 << 4);
    /// On a tool result: the tool reported a failure.
    pub const ERROR: Flags = Flags(1 << 5);
    /// On a tool result: it holds a picture besides its text.
    pub const HAS_IMAGE: Flags = Flags(1 << 6);
    /// On a part: an earlier compaction shortened it already.
    pub const DEMOTED: Flags = Flags(1 << 7);
    /// On a part: it answers itself or is answered by the provider, so it has no partner to look for (server tools).
    pub const SELF_CONTAINED: Flags = Flags(1 << 8);

    /// Bits of the family, see [`Flags::family`].
    const FAMILY_SHIFT: u32 = 16;
    const FAMILY_BITS: u32 = 0xF;

    /// Returns the family of a call or of an answer: only members of one family pair. 0 where a dialect has one kind of
    /// call; in the Responses dialect each kind of call item is a family.
    pub const fn family(self) -> u32 {
        (self.0 >> Flags::FAMILY_SHIFT) & Flags::FAMILY_BITS
    }
    /// Returns these bits with a family, of which there are sixteen.
    #[must_use]
    pub const fn with_family(self, family: u32) -> Flags {
        let others = self.0 & !(Flags::FAMILY_BITS << Flags::FAMILY_SHIFT);
        Flags(others | ((family & Flags::FAMILY_BITS) << Flags::FAMILY_SHIFT))
    }
    /// Tells whether every bit of `other` is set here.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Returns these bits and those of `other`.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// Returns these bits without those of `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// One part of a message, as the host keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// Marks: [`Flags::ERROR`], [`Flags::HAS_IMAGE`], [`Flags::DEMOTED`], [`Flags::SELF_CONTAINED`].
    pub flags: Flags,
    /// Tokens of this part as the host counted them; 0 until counted.
    pub tokens: u32,
    /// Decoded text: of the text, the arguments, the answer, the reasoning. Empty for pictures and opaque parts.
    pub text: String,
    /// Pairs a call with its answer; empty elsewhere.
    pub call_id: String,
    /// Name of the tool; empty where there is none or it is not known.
    pub tool_name: String,
}

impl Part {
    /// Makes a part of the given kind that holds `text`, with no marks and not yet counted.
    pub fn new(kind: PartKind, text: impl Into<String>) -> Self {
        Part {
            kind,
            flags: Flags::default(),
            tokens: 0,
            text: text.into(),
            call_id: String::new(),
            tool_name: String::new(),
        }
    }
    /// Makes a tool call.
    pub fn call(call_id: impl Into<String>, tool_name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Part { call_id: call_id.into(), tool_name: tool_name.into(), ..Part::new(PartKind::ToolCall, arguments) }
    }
    /// Makes a tool's answer.
    pub fn result(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Part { call_id: call_id.into(), ..Part::new(PartKind::ToolResult, text) }
    }
}

/// One message, as the host keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Stable within the session.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// Marks on the message.
    pub flags: Flags,
    /// Tokens of the whole message, its parts and its framing; 0 until counted.
    pub tokens: u32,
    /// The summary node behind a message marked [`Flags::SUMMARY`].
    pub node: NodeId,
    /// The exact JSON text of the message in its dialect. A kept message leaves as these bytes.
    pub raw: String,
    /// What was understood of `raw`, in its order.
    pub parts: Vec<Part>,
}

impl Message {
    /// Makes a message with no marks, not yet counted and not yet numbered.
    pub fn new(role: Role, raw: impl Into<String>, parts: Vec<Part>) -> Self {
        Message { id: MessageId(0), role, flags: Flags::default(), tokens: 0, node: NodeId(0), raw: raw.into(), parts }
    }
    /// Tells whether a person wrote this message.
    pub fn is_real_user(&self) -> bool {
        self.flags.has(Flags::REAL_USER)
    }
    /// Returns the message's text parts, joined by newlines.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in self.parts.iter().filter(|part| part.kind == PartKind::Text) {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&part.text);
        }
        out
    }
}
