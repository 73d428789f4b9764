//! A small host with a store: it applies plans, keeps every message, answers recall, and plays odd models.

use engine_api::json::json;
use engine_api::testing::user;
use engine_api::{
    CompactionPlan, Completion, CompletionRequest, CompressRequest, EngineError, ErrorKind, Flags, HostServices,
    LogLevel, Message, MessageId, NodeId, PartKind, PlanResult, RecallHit, RecallReply, RecallRequest, Role, Step,
    ViewTable, json,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

/// What the model of a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Good,
    Fails,
    Empty,
    Refuses,
    Echoes,
    Rambles,
    ThinksOnly,
    CutOff,
}

pub(crate) const MOODS: [Mood; 8] =
    [Mood::Good, Mood::Fails, Mood::Empty, Mood::Refuses, Mood::Echoes, Mood::Rambles, Mood::ThinksOnly, Mood::CutOff];

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) text: String,
    pub(crate) depth: u32,
    pub(crate) messages: Vec<u64>,
    pub(crate) nodes: Vec<u64>,
}

/// The host.
pub(crate) struct Store {
    pub(crate) messages: Vec<Message>,
    pub(crate) view: Vec<Message>,
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(crate) mood: Mood,
    pub(crate) asked: Mutex<Vec<CompletionRequest>>,
    pub(crate) script: Mutex<Vec<Result<String, String>>>,
    pub(crate) folder: Option<tempfile::TempDir>,
    pub(crate) revision: u64,
    pub(crate) settings: json::Value,
}

pub(crate) fn count(text: &str) -> u64 {
    engine_kit::testing::count(text)
}

impl Store {
    pub(crate) fn new(messages: Vec<Message>) -> Store {
        let mut store = Store {
            messages: Vec::new(),
            view: Vec::new(),
            nodes: BTreeMap::new(),
            mood: Mood::Good,
            asked: Mutex::default(),
            script: Mutex::default(),
            folder: None,
            revision: 1,
            settings: json::Value::Null,
        };
        store.say(messages);
        store
    }
    /// Adds messages at the end, with ids of the store's.
    pub(crate) fn say(&mut self, messages: Vec<Message>) {
        for mut message in messages {
            message.id = MessageId(self.messages.len() as u64 + 1);
            self.messages.push(message.clone());
            self.view.push(message);
        }
    }
    pub(crate) fn table(&self) -> ViewTable<'_> {
        ViewTable::new(self.revision, &self.view)
    }
    pub(crate) fn tokens(&self) -> u64 {
        self.view.iter().map(|message| u64::from(message.tokens)).sum()
    }
    pub(crate) fn request(&self, window: u64, completions_max: u32) -> CompressRequest {
        let mut request = CompressRequest::default();
        request.model.context_length = window;
        request.model.threshold_tokens = window / 4 * 3;
        request.target_tokens = window / 4 * 3;
        request.current_tokens = self.tokens();
        request.completions_max = completions_max;
        request
    }
    /// Applies a plan as a host does; panics if it breaks a promise.
    pub(crate) fn apply(&mut self, plan: &CompactionPlan) -> PlanResult {
        let before = self.tokens();
        {
            let table = self.table();
            engine_kit::testing::judge(&table.conversation(), plan, &count).unwrap();
        }
        let mut view: Vec<Message> = Vec::new();
        let mut result = PlanResult::default();
        for step in &plan.steps {
            match step {
                Step::Keep(span) => view.extend(self.view[span.first..=span.last].iter().cloned()),
                Step::Rewrite { message, part, text } => {
                    let id = self.view[*message].id;
                    let kept = view.iter_mut().rev().find(|kept| kept.id == id && id.0 != 0).unwrap();
                    let old = kept.parts[*part].tokens;
                    let text = format!(
                        "{text}\n[palimpsest: shortened; the whole text is message {} of the transcript]",
                        id.0
                    );
                    let new = if kept.parts[*part].kind == PartKind::ToolCall { old / 2 } else { count(&text) as u32 };
                    kept.parts[*part].text = text;
                    kept.parts[*part].tokens = new.min(old);
                    kept.tokens = (kept.tokens - old) + new.min(old);
                }
                Step::Summary(summary) => {
                    let id = self.nodes.len() as u64 + 1;
                    let mut node =
                        Node { text: summary.text.clone(), depth: summary.depth, messages: vec![], nodes: vec![] };
                    for position in summary.covers.iter().flat_map(|span| span.positions()) {
                        match &self.view[position] {
                            message if message.node.0 != 0 => node.nodes.push(message.node.0),
                            message if message.id.0 != 0 => node.messages.push(message.id.0),
                            _ => {}
                        }
                    }
                    self.nodes.insert(id, node);
                    result.nodes.push(id);
                    let text = format!("[palimpsest: summary {id} of earlier messages]\n{}\n[end]", summary.text);
                    let mut message = user(0, &text);
                    message.flags = Flags::SUMMARY.with(Flags::SYNTHETIC);
                    message.node = NodeId(id);
                    view.push(message);
                }
                Step::Insert { text, .. } => {
                    let mut message = user(0, text);
                    message.flags = Flags::SYNTHETIC;
                    view.push(message);
                }
                other => panic!("{other:?}"),
            }
        }
        self.view = view;
        self.revision += 1;
        result.applied = true;
        result.tokens_before = before;
        result.tokens_after = self.tokens();
        result.revision = self.revision;
        result
    }
    /// All messages below a node.
    pub(crate) fn below(&self, node: u64) -> Vec<u64> {
        let (mut open, mut seen, mut found) = (vec![node], HashSet::new(), Vec::new());
        while let Some(at) = open.pop() {
            if let (true, Some(node)) = (seen.insert(at), self.nodes.get(&at)) {
                found.extend(&node.messages);
                open.extend(&node.nodes);
            }
        }
        found.sort_unstable();
        found
    }
    /// Panics unless every message is in view or under exactly one summary in view.
    pub(crate) fn check(&self) {
        let mut seen: Vec<u64> = Vec::new();
        for message in &self.view {
            match message.node.0 {
                0 => seen.extend([message.id.0].iter().filter(|id| **id != 0)),
                node => seen.extend(self.below(node)),
            }
        }
        seen.sort_unstable();
        let all: Vec<u64> = (1..=self.messages.len() as u64).collect();
        assert_eq!(seen, all, "every message once");
        for message in self.view.iter().filter(|message| message.id.0 != 0) {
            let stored = &self.messages[message.id.0 as usize - 1];
            assert_eq!(message.raw, stored.raw, "kept messages are never touched");
        }
    }
    fn hit(&self, id: u64) -> Result<RecallHit, EngineError> {
        let index = usize::try_from(id).unwrap().wrapping_sub(1);
        let message =
            self.messages.get(index).ok_or_else(|| EngineError::new(ErrorKind::Input, format!("no message {id}")))?;
        let texts: Vec<String> = message
            .parts
            .iter()
            .map(|part| {
                if part.kind == PartKind::ToolCall {
                    format!("{} {}", part.tool_name, part.text)
                } else {
                    part.text.clone()
                }
            })
            .collect();
        let cover =
            self.view.iter().map(|message| message.node.0).find(|node| *node != 0 && self.below(*node).contains(&id));
        let mut hit = RecallHit::new(message.id, NodeId(cover.unwrap_or(0)), message.role, texts.join("\n"));
        hit.tool = message.parts.first().map(|part| part.tool_name.clone()).unwrap_or_default();
        hit.text_bytes = hit.text.len() as u64;
        hit.tokens = u64::from(message.tokens);
        hit.at_ms = 1_700_000_000_000 + id * 1_000;
        Ok(hit)
    }
    fn node(&self, id: u64) -> Result<&Node, EngineError> {
        self.nodes
            .get(&id)
            .ok_or_else(|| EngineError::new(ErrorKind::Input, format!("this session has no summary {id}")))
    }
}

fn foreign(session: &str) -> Result<(), EngineError> {
    match session {
        "" | "old" => Ok(()),
        other => Err(EngineError::new(ErrorKind::Input, format!("there is no session {other}"))),
    }
}

fn page(hits: Vec<RecallHit>, offset: u64, limit: u64) -> RecallReply {
    let mut reply = RecallReply::default();
    reply.total = hits.len() as u64;
    let limit = if limit == 0 { 20 } else { limit.min(200) };
    reply.hits = hits.into_iter().skip(offset as usize).take(limit as usize).collect();
    reply.has_more = offset + (reply.hits.len() as u64) < reply.total;
    reply
}

fn told(node: json::Value) -> RecallReply {
    let mut reply = RecallReply::default();
    reply.node = node;
    reply
}

impl HostServices for Store {
    fn complete(&self, request: &CompletionRequest) -> Result<Completion, EngineError> {
        self.asked.lock().unwrap().push(request.clone());
        let scripted = {
            let mut script = self.script.lock().unwrap();
            (!script.is_empty()).then(|| script.remove(0))
        };
        let mut answer = Completion::default();
        answer.model = "scripted".to_string();
        answer.finish_reason = "stop".to_string();
        if let Some(scripted) = scripted {
            answer.text = scripted.map_err(|why| EngineError::new(ErrorKind::Service, why))?;
            return Ok(answer);
        }
        let number = self.asked.lock().unwrap().len();
        answer.text = match self.mood {
            Mood::Good => format!("Summary {number}: the work went on, src/lib.rs was changed and the tests passed."),
            Mood::Fails => return Err(EngineError::new(ErrorKind::Summariser, "no route to the model")),
            Mood::Empty => " \n".to_string(),
            Mood::Refuses => "I'm sorry, but I can't help with that.".to_string(),
            Mood::Echoes => request.prompt.clone(),
            Mood::Rambles => "and then something else happened ".repeat(20_000),
            Mood::ThinksOnly => "<think>the user wants a summary".to_string(),
            Mood::CutOff => {
                answer.finish_reason = "length".to_string();
                "Half of a".to_string()
            }
        };
        Ok(answer)
    }
    fn count_tokens(&self, text: &str) -> u64 {
        count(text)
    }
    fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        match request {
            RecallRequest::Search(search) => {
                foreign(&search.session)?;
                let words: Vec<String> = search.pattern.to_lowercase().split_whitespace().map(str::to_string).collect();
                let mut hits = Vec::new();
                for message in self.messages.iter().rev() {
                    let mut hit = self.hit(message.id.0)?;
                    let lower = hit.text.to_lowercase();
                    if search.role.is_none_or(|role| role == message.role)
                        && words.iter().all(|word| lower.contains(word))
                    {
                        hit.text = engine_kit::text::clip(&hit.text, 240);
                        hits.push(hit);
                    }
                }
                for (id, node) in self.nodes.iter().filter(|_| search.role.is_none()) {
                    let lower = node.text.to_lowercase();
                    if words.iter().all(|word| lower.contains(word)) {
                        let mut hit = RecallHit::new(MessageId(0), NodeId(*id), Role::Other, node.text.clone());
                        hit.depth = node.depth;
                        hits.push(hit);
                    }
                }
                let mut reply = page(hits, search.offset, search.limit);
                if reply.total == 0 {
                    reply.nearest = vec!["nearby".to_string()];
                }
                Ok(reply)
            }
            RecallRequest::Get { message, session, raw, offset, limit } => {
                foreign(session)?;
                let mut hit = self.hit(message.0)?;
                if *raw {
                    hit.text = self.messages[message.0 as usize - 1].raw.clone();
                    hit.text_bytes = hit.text.len() as u64;
                }
                let from = hit.text.floor_char_boundary(*offset as usize);
                let end = if *limit == 0 { usize::MAX } else { from.saturating_add(*limit as usize) };
                let end = hit.text.floor_char_boundary(end);
                hit.offset = from as u64;
                hit.text = hit.text[from..end.max(from)].to_string();
                Ok(page(vec![hit], 0, 1))
            }
            RecallRequest::Expand { node, session, direct, offset, limit } => {
                foreign(session)?;
                let known = self.node(node.0)?;
                let mut hits = Vec::new();
                for child in known.nodes.iter().filter(|_| *direct) {
                    let mut hit =
                        RecallHit::new(MessageId(0), NodeId(*child), Role::Other, self.node(*child)?.text.clone());
                    hit.depth = self.node(*child)?.depth;
                    hits.push(hit);
                }
                let below = if *direct { known.messages.clone() } else { self.below(node.0) };
                for id in below {
                    hits.push(self.hit(id)?);
                }
                Ok(page(hits, *offset, *limit))
            }
            RecallRequest::Describe { node, session } => {
                foreign(session)?;
                let known = self.node(node.0)?;
                let below = self.below(node.0);
                Ok(told(json!({
                    "node": node.0, "depth": known.depth, "kind": "leaf", "text": known.text, "messages": below.len(),
                    "first_message": below.first(), "last_message": below.last(), "nodes": known.nodes
                })))
            }
            RecallRequest::Overview { session } => {
                foreign(session)?;
                let nodes: Vec<json::Value> =
                    self.nodes.iter().map(|(id, node)| json!({ "node": id, "depth": node.depth })).collect();
                Ok(told(json!({ "messages": self.messages.len(), "nodes": nodes })))
            }
            RecallRequest::Load { session, after, limit, roles } => {
                foreign(session)?;
                let ids =
                    self.messages.iter().filter(|m| m.id > *after && (roles.is_empty() || roles.contains(&m.role)));
                let hits = ids.map(|message| self.hit(message.id.0)).collect::<Result<Vec<_>, _>>()?;
                Ok(page(hits, 0, *limit))
            }
            RecallRequest::Sessions { .. } => Ok(told(json!([{ "session": "old", "messages": 5 }]))),
            other => Err(EngineError::unsupported(format!("{other:?}"))),
        }
    }
    fn state_get(&self, _: &str) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(None)
    }
    fn state_put(&self, _: &str, _: &[u8]) -> Result<(), EngineError> {
        Ok(())
    }
    fn data_dir(&self) -> Result<String, EngineError> {
        let folder = self.folder.as_ref().ok_or_else(|| EngineError::unsupported("a data folder"))?;
        Ok(folder.path().to_string_lossy().into_owned())
    }
    fn settings(&self) -> json::Value {
        self.settings.clone()
    }
    fn redact(&self, text: &str) -> String {
        text.to_string()
    }
    fn log(&self, _: LogLevel, _: &str, _: &json::Value) {}
    fn now_unix_ms(&self) -> u64 {
        1_700_000_000_000
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
}
