//! Claude Code session files (also written by Hermes as a trace).
//!
//! Lines form a tree by `parentUuid`; the conversation is the way back from the newest leaf. One model message is several
//! lines with one `message.id`, and results of parallel calls hang beside the way, so both are gathered by id.

mod chain;
mod emit;

use crate::input::Input;
use crate::json::{elements, is_true, number, pick, string, text};
use crate::lines::records;
use crate::problems::Problems;
use crate::{Context, Conversation, ImportError};
use std::collections::HashMap;

/// What a line is to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    User,
    Assistant,
    /// Compaction: what the model sees starts behind it.
    Boundary,
    /// No message, yet messages hang on it: progress, attachment, system.
    Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    ToolUse,
    ToolResult,
    /// Text of white space alone: the program leaves it out, and the API refuses it.
    BlankText,
    Other,
}

/// One content block: where it stands in the node's content.
struct Block {
    start: usize,
    end: usize,
    kind: BlockKind,
    /// Id of the call, for calls and results.
    id: String,
}

struct Node {
    line: u64,
    kind: NodeKind,
    uuid: Option<u32>,
    parent: Option<u32>,
    /// The last line before a compaction, on a boundary.
    logical_parent: Option<u32>,
    /// The subagent, where it is named.
    agent: Option<u32>,
    message_id: Option<u32>,
    is_sidechain: bool,
    is_meta: bool,
    is_summary: bool,
    /// Made by the client in place of an answer; never sent.
    is_synthetic: bool,
    /// Exact text of `message.content`.
    content: String,
    /// Empty if the content is a string.
    blocks: Vec<Block>,
    /// Calls whose results were dropped from the request by a light compaction here.
    cleared: Vec<String>,
    prompt_tokens: Option<u64>,
}

impl Node {
    fn is_message(&self) -> bool {
        matches!(self.kind, NodeKind::User | NodeKind::Assistant)
    }
    fn block_text(&self, block: &Block) -> &str {
        self.content.get(block.start..block.end).unwrap_or_default()
    }
}

/// Gives short numbers to ids that are repeated on many lines.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u32>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// The whole file as it is needed.
#[derive(Default)]
struct Session {
    nodes: Vec<Node>,
    names: Names,
    /// Node of an uuid.
    by_uuid: HashMap<u32, usize>,
    session_id: String,
    model: String,
    /// A title set by the person, then one made by the program.
    custom_title: Option<String>,
    made_title: Option<String>,
    /// Titles by the uuid of the leaf they belong to.
    summaries: Vec<(u32, String)>,
    agent_names: HashMap<u32, String>,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut session = Session::default();
    records(input, context.options.line_bytes_max, &mut context.problems, &mut |line, text, problems| {
        session.line(line, text, problems)
    })?;
    Ok(chain::conversations(session, context))
}

impl Session {
    fn line(&mut self, line: u64, record: &str, problems: &mut Problems) -> Result<(), serde_json::Error> {
        let [kind, uuid, parent, logical, sidechain, meta, summary_mark, api_error, subtype, session, agent, message] =
            pick(
                record,
                [
                    "type",
                    "uuid",
                    "parentUuid",
                    "logicalParentUuid",
                    "isSidechain",
                    "isMeta",
                    "isCompactSummary",
                    "isApiErrorMessage",
                    "subtype",
                    "sessionId",
                    "agentId",
                    "message",
                ],
            )?;
        let kind = text(kind).unwrap_or_default();
        if self.session_id.is_empty()
            && let Some(session) = text(session)
        {
            self.session_id = session.into_owned();
        }
        match kind.as_ref() {
            "summary" | "custom-title" | "ai-title" => return self.title(record),
            "user" | "assistant" | "system" | "progress" | "attachment" => {}
            "" => {
                problems.warn(Some(line), || "a record without a type; left out".to_owned());
                return Ok(());
            }
            // Bookkeeping of the program. It stands in nobody's way unless something names it as its parent.
            _ if uuid.is_none() => return Ok(()),
            _ => {}
        }
        let names = &mut self.names;
        let mut named = |member: Option<&str>| text(member).map(|name| names.number(&name));
        let (uuid, parent, logical_parent) = (named(uuid), named(parent), named(logical));
        let agent = text(agent).map(|name| {
            let number = self.names.number(&name);
            self.agent_names.entry(number).or_insert_with(|| name.into_owned());
            number
        });
        let mut node = Node {
            line,
            kind: NodeKind::Link,
            uuid,
            parent,
            logical_parent,
            agent,
            message_id: None,
            is_sidechain: is_true(sidechain),
            is_meta: is_true(meta),
            is_summary: is_true(summary_mark),
            is_synthetic: is_true(api_error),
            content: String::new(),
            blocks: Vec::new(),
            cleared: Vec::new(),
            prompt_tokens: None,
        };
        match (kind.as_ref(), text(subtype).as_deref()) {
            ("system", Some("compact_boundary")) => node.kind = NodeKind::Boundary,
            ("system", Some("microcompact_boundary")) => node.cleared = cleared_calls(record),
            ("user", _) => node.kind = NodeKind::User,
            ("assistant", _) => node.kind = NodeKind::Assistant,
            _ => {}
        }
        if node.is_message() && !self.fill(&mut node, message) {
            problems.warn(Some(line), || format!("a {kind} record without a readable message; left out"));
            // It may still be somebody's parent.
            node.kind = NodeKind::Link;
        }
        if let Some(uuid) = node.uuid {
            match self.by_uuid.get(&uuid).and_then(|index| self.nodes.get_mut(*index)) {
                Some(known) if node.is_message() && !known.is_message() => {
                    *known = node;
                    return Ok(());
                }
                Some(_) => {
                    if node.is_message() {
                        problems
                            .note(Some(line), || "a record that was written before (same uuid); left out".to_owned());
                    }
                    return Ok(());
                }
                None => {
                    self.by_uuid.insert(uuid, self.nodes.len());
                }
            }
        } else if !node.is_message() {
            return Ok(());
        }
        self.nodes.push(node);
        Ok(())
    }

    // Takes what is needed of the message; false if there is no message.
    fn fill(&mut self, node: &mut Node, message: Option<&str>) -> bool {
        let Some(message) = message else { return false };
        let Ok([content, id, model, usage]) = pick(message, ["content", "id", "model", "usage"]) else { return false };
        let Some(content) = content else { return false };
        if content.starts_with('[') {
            let base = content.as_ptr() as usize;
            for element in elements(content) {
                let start = (element.as_ptr() as usize).saturating_sub(base);
                let (kind, id) = block_kind(element);
                node.blocks.push(Block { start, end: start + element.len(), kind, id });
            }
            if node.blocks.is_empty() {
                return false;
            }
        } else if !content.starts_with('"') {
            return false;
        }
        node.content = content.to_owned();
        node.message_id = text(id).filter(|id| !id.is_empty()).map(|id| self.names.number(&id));
        if node.kind == NodeKind::Assistant {
            let model = text(model).unwrap_or_default();
            if model == "<synthetic>" {
                node.is_synthetic = true;
            } else if !node.is_synthetic {
                if !model.is_empty() && self.model != model {
                    self.model = model.into_owned();
                }
                node.prompt_tokens = usage.and_then(prompt_tokens);
            }
        }
        true
    }

    fn title(&mut self, record: &str) -> Result<(), serde_json::Error> {
        let [summary, leaf, custom, made] = pick(record, ["summary", "leafUuid", "customTitle", "aiTitle"])?;
        if let (Some(summary), Some(leaf)) = (text(summary), text(leaf)) {
            let leaf = self.names.number(&leaf);
            self.summaries.push((leaf, summary.into_owned()));
        }
        if let Some(title) = text(custom) {
            self.custom_title = Some(title.into_owned());
        }
        if let Some(title) = text(made) {
            self.made_title = Some(title.into_owned());
        }
        Ok(())
    }
}

fn block_kind(block: &str) -> (BlockKind, String) {
    let Ok([kind, id, tool_use_id, body]) = pick(block, ["type", "id", "tool_use_id", "text"]) else {
        return (BlockKind::Other, String::new());
    };
    let owned = |member: Option<&str>| text(member).map(|id| id.into_owned()).unwrap_or_default();
    match text(kind).as_deref() {
        Some("tool_use") => (BlockKind::ToolUse, owned(id)),
        Some("tool_result") => (BlockKind::ToolResult, owned(tool_use_id)),
        Some("text") if body.and_then(string).is_some_and(|body| body.trim().is_empty()) => {
            (BlockKind::BlankText, String::new())
        }
        _ => (BlockKind::Other, String::new()),
    }
}

// What a call was sent: fresh tokens, tokens written to the cache, tokens read from it.
fn prompt_tokens(usage: &str) -> Option<u64> {
    let [fresh, written, cached] =
        pick(usage, ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]).ok()?;
    let total = [fresh, written, cached].into_iter().filter_map(number).fold(0u64, u64::saturating_add);
    Some(total).filter(|total| *total > 0)
}

fn cleared_calls(record: &str) -> Vec<String> {
    let ids = |text: &str| elements(text).into_iter().filter_map(string).map(|id| id.into_owned()).collect();
    let Ok([here, metadata]) = pick(record, ["compactedToolIds", "microcompactMetadata"]) else { return Vec::new() };
    let within = metadata.and_then(|metadata| pick(metadata, ["compactedToolIds"]).ok()).and_then(|[ids]| ids);
    here.or(within).map(ids).unwrap_or_default()
}
