//! Builds a message list in a wire dialect from records that come in the order a program wrote them.
//!
//! Programs write results late, early, twice, or not at all, and recorders give several calls one id. The builder puts every
//! result right behind the message of its call, pairs by order where an id repeats, and gives repeated ids a number of their
//! own where it writes the wire JSON itself. It never invents an answer: a call without one stays without one.

use crate::json;
use crate::problems::Problems;
use engine_api::{Dialect, Flags, Message};
use std::collections::{HashMap, VecDeque};

/// What the file says of a message beyond its wire form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mark {
    /// Nothing: the wire reader's judgement stands.
    #[default]
    AsRead,
    /// The client put it there.
    Injected,
    /// It stands for older messages.
    Summary,
}

impl Mark {
    pub(crate) fn apply(self, message: &mut Message) {
        message.flags = match self {
            Mark::AsRead => message.flags,
            Mark::Injected => message.flags.with(Flags::INJECTED).without(Flags::REAL_USER),
            Mark::Summary => message.flags.with(Flags::SUMMARY).without(Flags::REAL_USER).without(Flags::INJECTED),
        };
    }
}

/// A call as the source states it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    /// Id in the source; may be empty or shared.
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON text.
    pub(crate) arguments: String,
}

/// A piece of a user's message or of a result.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    /// An URL or data URL.
    Image(String),
}

struct Slot {
    raw: String,
    mark: Mark,
    line: Option<u64>,
    /// Wire ids of the calls in it.
    calls: Vec<String>,
    /// Answers by call: where they came in the file, and the content (OpenAI) or the whole block (Anthropic).
    answers: Vec<Option<(u64, String)>>,
    /// What follows the answers: messages (OpenAI) or blocks of the same message (Anthropic).
    trailing: Vec<String>,
    /// A result that came before its call, taken out of here when the call comes.
    is_early_result: bool,
}

pub(crate) struct Builder {
    dialect: Dialect,
    slots: Vec<Slot>,
    waiting: HashMap<String, VecDeque<(usize, usize)>>,
    early: HashMap<String, VecDeque<usize>>,
    /// How often a wire id was used.
    used: HashMap<String, u32>,
}

impl Builder {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Builder { dialect, slots: Vec::new(), waiting: HashMap::new(), early: HashMap::new(), used: HashMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds a finished wire message that calls nothing.
    pub(crate) fn message(&mut self, raw: String, mark: Mark, line: Option<u64>) {
        self.slot(raw, mark, line);
    }

    fn slot(&mut self, raw: String, mark: Mark, line: Option<u64>) -> usize {
        self.slots.push(Slot {
            raw,
            mark,
            line,
            calls: Vec::new(),
            answers: Vec::new(),
            trailing: Vec::new(),
            is_early_result: false,
        });
        self.slots.len() - 1
    }

    /// Adds a finished wire message with its calls; `source_ids` and `wire_ids` are the same where the bytes are the client's.
    pub(crate) fn calling(&mut self, raw: String, ids: Vec<(String, String)>, line: Option<u64>) {
        let slot = self.slot(raw, Mark::AsRead, line);
        for (index, (source, wire)) in ids.into_iter().enumerate() {
            let early = self.early.get_mut(&source).and_then(VecDeque::pop_front);
            let answer = early.and_then(|at| self.slots.get_mut(at)).map(|held| {
                held.is_early_result = false;
                (held.line.unwrap_or(0), std::mem::take(&mut held.raw))
            });
            let is_answered = answer.is_some();
            if let Some(here) = self.slots.get_mut(slot) {
                here.calls.push(wire);
                here.answers.push(answer);
            }
            let waiting = self.waiting.entry(source).or_default();
            if !is_answered {
                waiting.push_back((slot, index));
            }
        }
    }

    /// Adds the answer to a call: content as JSON (OpenAI) or a whole `tool_result` block (Anthropic).
    /// Gives the place of the call, for [`Builder::trail`]; none if the call is not known (yet) or was answered before.
    pub(crate) fn answer(
        &mut self,
        source_id: &str,
        body: String,
        line: Option<u64>,
        problems: &mut Problems,
    ) -> Option<usize> {
        match self.waiting.get_mut(source_id) {
            Some(waiting) => match waiting.pop_front() {
                Some((slot, index)) => {
                    if let Some(place) = self.slots.get_mut(slot).and_then(|slot| slot.answers.get_mut(index)) {
                        *place = Some((line.unwrap_or(0), body));
                    }
                    Some(slot)
                }
                None => {
                    problems.warn(line, || format!("a second result for call {source_id:?}; left out"));
                    None
                }
            },
            None => {
                let slot = self.slot(body, Mark::AsRead, line);
                if let Some(slot) = self.slots.get_mut(slot) {
                    slot.is_early_result = true;
                    slot.calls.push(source_id.to_owned());
                }
                self.early.entry(source_id.to_owned()).or_default().push_back(slot);
                None
            }
        }
    }

    /// Adds what follows the answers of a message: a whole message (OpenAI) or a block (Anthropic).
    pub(crate) fn trail(&mut self, slot: usize, raw: String) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.trailing.push(raw);
        }
    }

    /// Source ids of calls that have no answer yet.
    pub(crate) fn unanswered(&self) -> Vec<String> {
        self.waiting.iter().flat_map(|(id, open)| open.iter().map(|_| id.clone())).collect()
    }

    /// Parses, orders and numbers the messages.
    pub(crate) fn finish(self, problems: &mut Problems) -> Vec<Message> {
        let dialect = self.dialect;
        let mut messages = Vec::with_capacity(self.slots.len());
        let mut add = |raw: &str, mark: Mark, line: Option<u64>, problems: &mut Problems| {
            if let Some(message) = parse(dialect, raw, mark, line, problems) {
                messages.push(message);
            }
        };
        for slot in self.slots {
            if slot.is_early_result {
                let id = slot.calls.first().map(String::as_str).unwrap_or_default();
                problems
                    .warn(slot.line, || format!("a result for call {id:?}, which is not in the file; kept as it is"));
                add(&answer_message(dialect, id, &slot.raw), slot.mark, slot.line, problems);
                continue;
            }
            if slot.raw.is_empty() {
                continue;
            }
            add(&slot.raw, slot.mark, slot.line, problems);
            match dialect {
                Dialect::Anthropic => {
                    // A turn's results are sent in the order in which they came.
                    let mut answers: Vec<(u64, String)> = slot.answers.into_iter().flatten().collect();
                    answers.sort_by_key(|(order, _)| *order);
                    let blocks: Vec<String> =
                        answers.into_iter().map(|(_, block)| block).chain(slot.trailing).collect();
                    if !blocks.is_empty() {
                        add(
                            &format!("{{\"role\":\"user\",\"content\":[{}]}}", blocks.join(",")),
                            Mark::AsRead,
                            slot.line,
                            problems,
                        );
                    }
                }
                _ => {
                    for (id, answer) in slot.calls.iter().zip(&slot.answers) {
                        if let Some((_, answer)) = answer {
                            add(&answer_message(dialect, id, answer), Mark::AsRead, slot.line, problems);
                        }
                    }
                    for raw in slot.trailing {
                        add(&raw, Mark::Injected, slot.line, problems);
                    }
                }
            }
        }
        host_wire::number(&mut messages);
        messages
    }
}

fn answer_message(dialect: Dialect, id: &str, body: &str) -> String {
    match dialect {
        Dialect::Anthropic => format!("{{\"role\":\"user\",\"content\":[{body}]}}"),
        _ => format!("{{\"role\":\"tool\",\"tool_call_id\":{},\"content\":{body}}}", json::quote(id)),
    }
}

/// Parses one wire message; text the wire reader refuses is left out with a problem.
pub(crate) fn parse(
    dialect: Dialect,
    raw: &str,
    mark: Mark,
    line: Option<u64>,
    problems: &mut Problems,
) -> Option<Message> {
    match host_wire::parse_message(dialect, raw) {
        Ok(mut message) => {
            mark.apply(&mut message);
            Some(message)
        }
        Err(error) => {
            problems.lost(line, || format!("a message could not be read and was left out: {error}"));
            None
        }
    }
}

/// The part of the builder that writes OpenAI chat messages.
impl Builder {
    /// Adds a system message.
    pub(crate) fn system(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.message(format!("{{\"role\":\"system\",\"content\":{}}}", json::quote(text)), Mark::AsRead, None);
        }
    }

    /// Adds a user's message; one without content is left out.
    pub(crate) fn user(&mut self, pieces: &[Piece], mark: Mark, line: Option<u64>) {
        if let Some(content) = content(pieces) {
            self.message(format!("{{\"role\":\"user\",\"content\":{content}}}"), mark, line);
        }
    }

    /// Adds a user's message of plain text.
    pub(crate) fn user_text(&mut self, text: &str, mark: Mark, line: Option<u64>) {
        if !text.trim().is_empty() {
            self.message(format!("{{\"role\":\"user\",\"content\":{}}}", json::quote(text)), mark, line);
        }
    }

    /// Adds a model's message; one that says and calls nothing is left out.
    pub(crate) fn assistant(&mut self, text: &str, reasoning: &str, calls: Vec<Call>, line: Option<u64>) {
        // Reasoning alone is no message an API takes back.
        if text.is_empty() && calls.is_empty() {
            return;
        }
        let mut raw = String::from("{\"role\":\"assistant\"");
        if !reasoning.is_empty() {
            raw.push_str(",\"reasoning_content\":");
            raw.push_str(&json::quote(reasoning));
        }
        raw.push_str(",\"content\":");
        raw.push_str(&if text.is_empty() { "null".to_owned() } else { json::quote(text) });
        let mut ids = Vec::with_capacity(calls.len());
        if !calls.is_empty() {
            raw.push_str(",\"tool_calls\":[");
            for (index, call) in calls.into_iter().enumerate() {
                let wire = self.own_id(&call.id);
                let name = if call.name.is_empty() { "unknown" } else { &call.name };
                let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
                if index > 0 {
                    raw.push(',');
                }
                raw.push_str(&format!(
                    "{{\"id\":{},\"type\":\"function\",\"function\":{{\"name\":{},\"arguments\":{}}}}}",
                    json::quote(&wire),
                    json::quote(name),
                    json::quote(arguments)
                ));
                ids.push((call.id, wire));
            }
            raw.push(']');
        }
        raw.push('}');
        self.calling(raw, ids, line);
    }

    /// Adds a tool's answer; its pictures follow in a user message, where the dialect has room for them.
    pub(crate) fn result(&mut self, source_id: &str, pieces: &[Piece], line: Option<u64>, problems: &mut Problems) {
        let mut texts = Vec::new();
        let mut images = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => texts.push(text.as_str()),
                Piece::Image(_) => images.push(piece.clone()),
            }
        }
        let slot = self.answer(source_id, json::quote(&texts.join("\n")), line, problems);
        if let (Some(slot), false) = (slot, images.is_empty()) {
            images.insert(0, Piece::Text("Attached image(s) from tool result:".to_owned()));
            if let Some(content) = content(&images) {
                self.trail(slot, format!("{{\"role\":\"user\",\"content\":{content}}}"));
            }
        }
    }

    // An id of this conversation's own: the source's, numbered where it was used before.
    fn own_id(&mut self, source: &str) -> String {
        let base = if source.is_empty() { "call" } else { source };
        let mut count = self.used.get(base).copied().unwrap_or(0);
        loop {
            count += 1;
            let id = if count == 1 && !source.is_empty() { base.to_owned() } else { format!("{base}-{count}") };
            if id == base || !self.used.contains_key(&id) {
                self.used.insert(id.clone(), 1);
                self.used.insert(base.to_owned(), count);
                return id;
            }
        }
    }
}

/// Writes pieces as OpenAI content: a string where it is one text, else an array; nothing if there is no content.
pub(crate) fn content(pieces: &[Piece]) -> Option<String> {
    let kept: Vec<&Piece> =
        pieces.iter().filter(|piece| !matches!(piece, Piece::Text(text) if text.is_empty())).collect();
    match kept.as_slice() {
        [] => None,
        [Piece::Text(text)] => Some(json::quote(text)),
        many => {
            let parts: Vec<String> = many
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => format!("{{\"type\":\"text\",\"text\":{}}}", json::quote(text)),
                    Piece::Image(url) => {
                        format!("{{\"type\":\"image_url\",\"image_url\":{{\"url\":{}}}}}", json::quote(url))
                    }
                })
                .collect();
            Some(format!("[{}]", parts.join(",")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Call {
        Call { id: id.into(), name: "run".into(), arguments: "{}".into() }
    }

    fn text(text: &str) -> [Piece; 1] {
        [Piece::Text(text.into())]
    }

    fn raws(builder: Builder) -> Vec<String> {
        let mut problems = Problems::default();
        builder.finish(&mut problems).into_iter().map(|message| message.raw).collect()
    }

    fn ids(raw: &str) -> String {
        let value: serde_json::Value = serde_json::from_str(raw).unwrap();
        match value["tool_calls"].as_array() {
            Some(calls) => calls.iter().map(|call| call["id"].as_str().unwrap()).collect::<Vec<_>>().join(","),
            None => format!("{}:{}", value["tool_call_id"].as_str().unwrap_or("-"), value["content"].as_str().unwrap()),
        }
    }

    #[test]
    fn late_and_early_results_stand_right_behind_their_call() {
        let mut problems = Problems::default();
        let mut builder = Builder::new(Dialect::OpenAiChat);
        builder.result("b", &text("early"), None, &mut problems);
        builder.assistant("", "", vec![call("a"), call("b")], None);
        builder.user_text("meanwhile", Mark::AsRead, None);
        builder.result("a", &text("late"), None, &mut problems);
        let got: Vec<String> = raws(builder).iter().map(|raw| ids(raw)).collect();
        assert_eq!(got, ["a,b", "a:late", "b:early", "-:meanwhile"]);
        assert!(problems.list.is_empty());
    }

    #[test]
    fn calls_that_share_an_id_are_paired_by_order_and_get_ids_of_their_own() {
        let mut problems = Problems::default();
        let mut builder = Builder::new(Dialect::OpenAiChat);
        builder.assistant("", "", vec![call("REDACTED"), call("REDACTED"), call("")], None);
        for answer in ["1", "2"] {
            builder.result("REDACTED", &text(answer), None, &mut problems);
        }
        builder.result("REDACTED", &text("third"), None, &mut problems);
        let got: Vec<String> = raws(builder).iter().map(|raw| ids(raw)).collect();
        assert_eq!(got, ["REDACTED,REDACTED-2,call-1", "REDACTED:1", "REDACTED-2:2"]);
        assert_eq!(problems.list.len(), 1);
    }

    #[test]
    fn a_result_whose_call_is_nowhere_keeps_its_place() {
        let mut problems = Problems::default();
        let mut builder = Builder::new(Dialect::OpenAiChat);
        builder.user_text("go", Mark::AsRead, None);
        builder.result("ghost", &text("boo"), None, &mut problems);
        builder.user_text("on", Mark::AsRead, None);
        let got: Vec<String> = raws(builder).iter().map(|raw| ids(raw)).collect();
        assert_eq!(got, ["-:go", "ghost:boo", "-:on"]);
    }

    #[test]
    fn ten_thousand_parallel_calls_are_paired_in_one_pass() {
        let mut problems = Problems::default();
        let mut builder = Builder::new(Dialect::OpenAiChat);
        builder.assistant("", "", (0..10_000).map(|n| call(&n.to_string())).collect(), None);
        for n in (0..10_000).rev() {
            builder.result(&n.to_string(), &text("ok"), None, &mut problems);
        }
        let raws = raws(builder);
        assert_eq!((raws.len(), ids(&raws[10_000])), (10_001, "9999:ok".to_owned()));
    }
}
