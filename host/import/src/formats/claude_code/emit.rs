//! Writes a chain of nodes as Anthropic messages: lines of one id joined, results of a message in one message behind it.

use super::chain::{Groups, Results};
use super::{Block, BlockKind, Node, NodeKind, Session};
use crate::build::{Builder, Mark};
use crate::json::{quote, string};
use crate::problems::Problems;
use crate::{Conversation, Kind, conversation};
use engine_api::Dialect;
use std::collections::{HashMap, HashSet};

/// What the program sends in place of a result that a light compaction dropped.
const CLEARED_RESULT: &str = "[Old tool result content cleared]";

pub(super) struct Wanted<'w> {
    pub(super) session: &'w Session,
    pub(super) results: &'w Results<'w>,
    pub(super) groups: &'w Groups,
    pub(super) chain: &'w [usize],
    pub(super) is_live: bool,
}

pub(super) fn emit(wanted: &Wanted<'_>, kind: Kind, id: String, problems: &mut Problems) -> Conversation {
    let session = wanted.session;
    let nodes: Vec<(usize, &Node)> =
        wanted.chain.iter().filter_map(|i| session.nodes.get(*i).map(|node| (*i, node))).collect();
    let last_boundary = nodes.iter().rposition(|(_, node)| node.kind == NodeKind::Boundary);
    let start = if wanted.is_live { last_boundary.unwrap_or(0) } else { 0 };
    let sent = nodes.get(start..).unwrap_or_default();
    let cleared: HashSet<&str> = if wanted.is_live {
        sent.iter().flat_map(|(_, node)| node.cleared.iter().map(String::as_str)).collect()
    } else {
        HashSet::new()
    };

    let mut writer = Writer {
        wanted,
        cleared,
        builder: Builder::new(Dialect::Anthropic),
        done: HashSet::new(),
        placed: HashSet::new(),
    };
    for (index, node) in sent {
        match node.kind {
            NodeKind::Assistant => writer.assistant(*index, node),
            NodeKind::User if node.is_summary => {
                if wanted.is_live {
                    writer.builder.message(user(&node.content), Mark::Summary, Some(node.line));
                }
            }
            NodeKind::User => writer.user(*index, node, problems),
            NodeKind::Boundary | NodeKind::Link => {}
        }
    }
    writer.results_beside_the_chain(problems);
    let messages = writer.builder.finish(problems);

    let on_chain: HashSet<u32> = nodes.iter().filter_map(|(_, node)| node.uuid).collect();
    let summary =
        session.summaries.iter().rev().find(|(leaf, _)| on_chain.contains(leaf)).map(|(_, title)| title.clone());
    let title = match kind {
        Kind::Main => session.custom_title.clone().or_else(|| session.made_title.clone()).or(summary),
        Kind::Branch | Kind::Sidechain => summary,
    };
    let members = if session.model.is_empty() { Vec::new() } else { vec![("model".to_owned(), quote(&session.model))] };
    let mut made = conversation(id, title.unwrap_or_default(), kind, Dialect::Anthropic, members, messages);
    made.reported_tokens = nodes.iter().rev().find_map(|(_, node)| node.prompt_tokens);
    made
}

struct Writer<'w> {
    wanted: &'w Wanted<'w>,
    cleared: HashSet<&'w str>,
    builder: Builder,
    /// Model messages that were written already.
    done: HashSet<u32>,
    /// Nodes whose results were placed.
    placed: HashSet<usize>,
}

impl Writer<'_> {
    fn assistant(&mut self, index: usize, node: &Node) {
        if node.is_synthetic {
            return;
        }
        let own = [index];
        let group = match node.message_id {
            Some(id) if !self.done.insert(id) => return,
            Some(id) => {
                self.wanted.groups.get(&(id, node.is_sidechain, node.agent)).map_or(own.as_slice(), Vec::as_slice)
            }
            None => own.as_slice(),
        };
        let lines: Vec<&Node> = group.iter().filter_map(|i| self.wanted.session.nodes.get(*i)).collect();
        let mut ids: Vec<(String, String)> = Vec::new();
        let mut texts: Vec<&str> = Vec::new();
        let mut calls: HashSet<&str> = HashSet::new();
        for line in &lines {
            for block in line.blocks.iter().filter(|block| block.kind != BlockKind::BlankText) {
                let text = line.block_text(block);
                if block.kind == BlockKind::ToolUse {
                    // A line copied under another uuid repeats the call byte for byte.
                    if !calls.insert(text) {
                        continue;
                    }
                    ids.push((block.id.clone(), block.id.clone()));
                }
                texts.push(text);
            }
        }
        let content = match lines.as_slice() {
            [only] if !texts.is_empty() && only.blocks.len() == texts.len() => only.content.clone(),
            many if texts.is_empty() => {
                match many.iter().find(|line| line.blocks.is_empty() && !is_blank(&line.content)) {
                    Some(line) => line.content.clone(),
                    None => return,
                }
            }
            _ => format!("[{}]", texts.join(",")),
        };
        self.builder.calling(format!("{{\"role\":\"assistant\",\"content\":{content}}}"), ids, Some(node.line));
    }

    fn user(&mut self, index: usize, node: &Node, problems: &mut Problems) {
        let mark = if node.is_meta { Mark::Injected } else { Mark::AsRead };
        if !node.blocks.iter().any(|block| block.kind == BlockKind::ToolResult) {
            let kept: Vec<&str> = node
                .blocks
                .iter()
                .filter(|block| block.kind != BlockKind::BlankText)
                .map(|block| node.block_text(block))
                .collect();
            let content =
                if kept.len() == node.blocks.len() { node.content.clone() } else { format!("[{}]", kept.join(",")) };
            if content != "[]" && !is_blank(&content) {
                self.builder.message(user(&content), mark, Some(node.line));
            }
            return;
        }
        self.placed.insert(index);
        self.results(node, node.blocks.iter().collect(), problems);
    }

    // Puts the results behind their calls and the rest of the line behind the results.
    fn results(&mut self, node: &Node, blocks: Vec<&Block>, problems: &mut Problems) {
        let mut slot = None;
        let mut rest = Vec::new();
        for block in blocks {
            match block.kind {
                BlockKind::ToolResult => {
                    let body = if self.cleared.contains(block.id.as_str()) {
                        let id = quote(&block.id);
                        format!(
                            "{{\"tool_use_id\":{id},\"type\":\"tool_result\",\"content\":{}}}",
                            quote(CLEARED_RESULT)
                        )
                    } else {
                        node.block_text(block).to_owned()
                    };
                    slot = self.builder.answer(&block.id, body, Some(node.line), problems).or(slot);
                }
                BlockKind::BlankText => {}
                BlockKind::ToolUse | BlockKind::Other => rest.push(node.block_text(block)),
            }
        }
        match slot {
            Some(slot) => rest.into_iter().for_each(|text| self.builder.trail(slot, text.to_owned())),
            None if rest.is_empty() => {}
            None => self.builder.message(user(&format!("[{}]", rest.join(","))), Mark::AsRead, Some(node.line)),
        }
    }

    // Results of parallel calls hang on their own call's line, off the way back from the leaf.
    fn results_beside_the_chain(&mut self, problems: &mut Problems) {
        let side = self
            .wanted
            .chain
            .last()
            .and_then(|i| self.wanted.session.nodes.get(*i))
            .map(|node| (node.is_sidechain, node.agent));
        // How many places of an id were looked at, so that ten thousand calls of one id stay one pass.
        let mut looked: HashMap<String, usize> = HashMap::new();
        for id in self.builder.unanswered() {
            let places = self.wanted.results.get(id.as_str()).map(Vec::as_slice).unwrap_or_default();
            let from = looked.get(&id).copied().unwrap_or(0);
            let free = places.iter().enumerate().skip(from).find(|(_, place)| {
                let node = self.wanted.session.nodes.get(place.0);
                node.map(|node| (node.is_sidechain, node.agent)) == side && !self.placed.contains(&place.0)
            });
            let Some((at, &(index, position))) = free else { continue };
            looked.insert(id, at + 1);
            let Some(node) = self.wanted.session.nodes.get(index) else { continue };
            let blocks: Vec<&Block> = node
                .blocks
                .iter()
                .enumerate()
                .filter(|(at, block)| *at == position || block.kind != BlockKind::ToolResult)
                .map(|(_, block)| block)
                .collect();
            self.results(node, blocks, problems);
        }
    }
}

fn user(content: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":{content}}}")
}

// A string content of white space alone.
fn is_blank(content: &str) -> bool {
    string(content).is_some_and(|text| text.trim().is_empty())
}
