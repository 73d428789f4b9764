//! Looks things up in a session: messages whole, what a summary stands for, and search over both.

use engine_api::json::json;
use engine_api::{
    EngineError, ErrorKind, Message, MessageId, NodeId, RecallHit, RecallReply, RecallRequest, RecallSearch, Role,
};
use host_core::{Node, Session};
use host_store::{cut, searchable};
use regex::{Regex, RegexBuilder};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Hits of a search that does not say how many.
pub const HITS_DEFAULT: u64 = host_store::HITS_DEFAULT;
/// Hits of one answer at most.
pub const HITS_MAX: u64 = host_store::HITS_MAX;
/// Bytes of a hit's snippet on either side of the place found.
const SNIPPET_SIDE_BYTES: usize = 120;
/// Bytes of a pattern at most.
const PATTERN_BYTES_MAX: usize = 1_024;
/// Memory of a compiled pattern at most; a bomb such as `(?:a{1000}){1000}` is refused.
const PATTERN_MEMORY_MAX: usize = 1 << 20;

/// Where recall looks things up.
#[derive(Clone)]
pub(crate) enum Book {
    /// In the session that is in memory.
    Memory(RecallBook),
    /// In a store, which knows all sessions.
    Stored(host_store::Store, i64),
}

impl Book {
    pub(crate) fn ask(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        match self {
            Book::Memory(book) => book.ask(request),
            Book::Stored(store, session) => store.recall(*session, request),
        }
    }
}

/// A session's messages and summaries at one moment, for looking up.
#[derive(Clone)]
pub struct RecallBook {
    transcript: Arc<Vec<Arc<Message>>>,
    nodes: Arc<Vec<Node>>,
    live: Arc<HashSet<MessageId>>,
    /// The live node that stands for each message.
    covered_by: Arc<HashMap<MessageId, NodeId>>,
}

impl RecallBook {
    /// Takes a session's present state.
    pub fn of(session: &Session) -> Self {
        let mut covered_by = HashMap::new();
        for node in session.view.iter().map(|message| message.node).filter(|node| *node != NodeId(0)) {
            for message in session.covered(node) {
                covered_by.insert(message, node);
            }
        }
        RecallBook {
            transcript: Arc::new(session.transcript.clone()),
            nodes: Arc::new(session.nodes.clone()),
            live: Arc::new(session.view.iter().map(|message| message.id).collect()),
            covered_by: Arc::new(covered_by),
        }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the message, the node or the pattern is not usable; the message says why.
    pub fn ask(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        let mut reply = RecallReply::default();
        match request {
            RecallRequest::Search(search) => return self.search(search),
            RecallRequest::Get { message, raw, offset, limit, .. } => {
                let mut hit = self.whole(*message)?;
                if *raw {
                    hit.text.clone_from(&self.message(*message)?.raw);
                }
                (hit.offset, hit.text_bytes, hit.text) = cut(&hit.text, *offset, *limit);
                reply.has_more = hit.offset.saturating_add(hit.text.len() as u64) < hit.text_bytes;
                reply.hits.push(hit);
                reply.total = 1;
            }
            RecallRequest::Overview { .. } => {
                reply.total = self.said().count() as u64;
                reply.node = self.overview();
            }
            RecallRequest::Expand { node, offset, limit, .. } => {
                let covered = self.covered(*node)?;
                reply.total = covered.len() as u64;
                let limit = if *limit == 0 { HITS_DEFAULT } else { (*limit).min(HITS_MAX) };
                let page = covered.into_iter().skip(index(*offset)).take(index(limit));
                reply.hits = page.map(|message| self.whole(message)).collect::<Result<_, _>>()?;
            }
            RecallRequest::Describe { node, .. } => {
                let found = self.node(*node)?;
                let covered = self.covered(*node)?;
                reply.total = 1;
                reply.node = json!({
                    "node": found.id, "depth": found.depth, "kind": found.kind, "text": found.text,
                    "messages": covered.len(), "first_message": covered.first(), "last_message": covered.last(),
                    "nodes": found.nodes,
                });
            }
            other => return Err(EngineError::unsupported(format!("the question {other:?}"))),
        }
        Ok(reply)
    }

    fn node(&self, id: NodeId) -> Result<&Node, EngineError> {
        let found = self.nodes.iter().find(|node| node.id == id);
        found.ok_or_else(|| EngineError::new(ErrorKind::Input, format!("this session has no summary {}", id.0)))
    }

    fn covered(&self, id: NodeId) -> Result<Vec<MessageId>, EngineError> {
        self.node(id)?;
        let by_id: HashMap<NodeId, &Node> = self.nodes.iter().map(|node| (node.id, node)).collect();
        let (mut open, mut seen, mut found) = (vec![id], HashSet::new(), Vec::new());
        while let Some(node) = open.pop() {
            if let (true, Some(node)) = (seen.insert(node), by_id.get(&node)) {
                found.extend_from_slice(&node.messages);
                open.extend_from_slice(&node.nodes);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn message(&self, id: MessageId) -> Result<&Message, EngineError> {
        let found = self.transcript.iter().find(|message| message.id == id).map(Arc::as_ref);
        found.ok_or_else(|| EngineError::new(ErrorKind::Input, format!("this session has no message {}", id.0)))
    }

    fn whole(&self, id: MessageId) -> Result<RecallHit, EngineError> {
        let message = self.message(id)?;
        Ok(self.hit(message, searchable(message)))
    }

    /// Returns what was said, without what the host wrote between.
    fn said(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.transcript.iter().filter(|message| !message.flags.has(engine_api::Flags::SYNTHETIC))
    }

    fn overview(&self) -> engine_api::json::Value {
        let mut depths: BTreeMap<u32, Vec<&Node>> = BTreeMap::new();
        for node in self.nodes.iter() {
            depths.entry(node.depth).or_default().push(node);
        }
        let live_nodes: HashSet<NodeId> = self.covered_by.values().copied().collect();
        let depths: Vec<_> = depths
            .into_iter()
            .map(|(depth, nodes)| {
                let listed = nodes.iter().rev().take(index(HITS_DEFAULT)).map(|node| {
                    json!({ "node": node.id, "messages": node.messages.len(), "nodes": node.nodes.len(), "live": live_nodes.contains(&node.id) })
                });
                json!({ "depth": depth, "count": nodes.len(), "nodes": listed.collect::<Vec<_>>() })
            })
            .collect();
        let (messages, live) =
            (self.said().count(), self.said().filter(|message| self.live.contains(&message.id)).count());
        json!({
            "messages": messages, "live_messages": live, "compacted_messages": messages - live,
            "first_message": self.said().next().map(|message| message.id), "last_message": self.said().last().map(|message| message.id),
            "depths": depths,
        })
    }

    fn hit(&self, message: &Message, text: String) -> RecallHit {
        let node = self.covered_by.get(&message.id).copied().unwrap_or_default();
        let mut hit = RecallHit::new(message.id, node, message.role, text);
        hit.tool = message
            .parts
            .iter()
            .find(|part| !part.tool_name.is_empty())
            .map(|part| part.tool_name.clone())
            .unwrap_or_default();
        hit.tokens = u64::from(message.tokens);
        hit
    }

    /// Newest first: what was said last about a thing is mostly what is asked for.
    fn search(&self, search: &RecallSearch) -> Result<RecallReply, EngineError> {
        let pattern = Pattern::of(search)?;
        let scope: Option<HashSet<MessageId>> = match search.node {
            Some(node) => Some(self.covered(node)?.into_iter().collect()),
            None => None,
        };
        let limit = if search.limit == 0 { HITS_DEFAULT } else { search.limit.min(HITS_MAX) };
        let mut reply = RecallReply::default();
        for message in self.transcript.iter().rev() {
            let compacted = !self.live.contains(&message.id);
            let out_of_scope = (search.compacted_only && !compacted)
                || scope.as_ref().is_some_and(|scope| !scope.contains(&message.id))
                || search.role.is_some_and(|role| role != message.role)
                || search.tool.as_deref().is_some_and(|tool| message.parts.iter().all(|part| part.tool_name != tool))
                || message.flags.has(engine_api::Flags::SYNTHETIC);
            if out_of_scope {
                continue;
            }
            let text = searchable(message);
            let Some((start, end)) = pattern.find(&text) else { continue };
            reply.total += 1;
            if reply.total > search.offset && (reply.hits.len() as u64) < limit {
                reply.hits.push(self.hit(message, snippet(&text, start, end)));
            }
        }
        // Summaries come after messages, so that they never crowd them out.
        for node in
            self.nodes.iter().rev().filter(|_| search.role.is_none() && search.tool.is_none() && scope.is_none())
        {
            let Some((start, end)) = pattern.find(&node.text) else { continue };
            reply.total += 1;
            if reply.total > search.offset && (reply.hits.len() as u64) < limit {
                let mut hit = RecallHit::new(MessageId(0), node.id, Role::Other, snippet(&node.text, start, end));
                hit.role = None;
                reply.hits.push(hit);
            }
        }
        Ok(reply)
    }
}

/// What a search looks for.
enum Pattern {
    Regex(Regex),
    /// All of these must occur, in lower case.
    Words(Vec<String>),
}

impl Pattern {
    fn of(search: &RecallSearch) -> Result<Pattern, EngineError> {
        let text = search.pattern.trim();
        let refuse = |why: String| EngineError::new(ErrorKind::Input, why);
        if text.is_empty() {
            return Err(refuse("the pattern is empty".to_owned()));
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Err(refuse(format!("the pattern has {} bytes, at most {PATTERN_BYTES_MAX} are taken", text.len())));
        }
        if search.regex {
            let built = RegexBuilder::new(text).size_limit(PATTERN_MEMORY_MAX).multi_line(true).build();
            return built.map(Pattern::Regex).map_err(|error| {
                let why = error.to_string();
                refuse(format!(
                    "the regular expression is not usable: {}",
                    why.lines().last().unwrap_or("unknown").trim()
                ))
            });
        }
        if let Some(phrase) =
            text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).filter(|phrase| !phrase.is_empty())
        {
            return Ok(Pattern::Words(vec![phrase.to_lowercase()]));
        }
        Ok(Pattern::Words(text.split_whitespace().map(str::to_lowercase).collect()))
    }

    /// Returns the first place found.
    fn find(&self, text: &str) -> Option<(usize, usize)> {
        match self {
            Pattern::Regex(regex) => regex.find(text).map(|found| (found.start(), found.end())),
            Pattern::Words(words) => {
                let lower = text.to_lowercase();
                let mut first: Option<(usize, usize)> = None;
                for word in words {
                    let at = lower.find(word.as_str())?;
                    if first.is_none_or(|(start, _)| at < start) {
                        first = Some((at, at + word.len()));
                    }
                }
                // Lower case can have other lengths; the place is only used for a snippet, which looks for borders.
                first.map(|(start, end)| (start.min(text.len()), end.min(text.len())))
            }
        }
    }
}

fn snippet(text: &str, start: usize, end: usize) -> String {
    let mut from = start.saturating_sub(SNIPPET_SIDE_BYTES);
    while from > 0 && !text.is_char_boundary(from) {
        from -= 1;
    }
    let mut to = end.saturating_add(SNIPPET_SIDE_BYTES).min(text.len());
    while to < text.len() && !text.is_char_boundary(to) {
        to += 1;
    }
    let cut = text.get(from..to).unwrap_or_default();
    format!("{}{}{}", if from > 0 { "…" } else { "" }, cut, if to < text.len() { "…" } else { "" })
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
