//! Makes a draft legal for its dialect: every call answered, no answer without its call, the user first.
//!
//! What a message says is never altered; answers move next to their calls, calls without an answer get one that says
//! so, and answers without a call leave (they stay in the transcript). Each step is noted for the receipt.

use crate::apply::Rejection;
use crate::draft::{Draft, Entry, Origin, Outcome, Written};
use crate::frame;
use crate::grammar::{Key, answers, key, open_calls, turns};
use crate::scribe::{PartChange, Scribe};
use engine_api::{Dialect, Flags, Message, Part, PartKind, Role};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Notes on repairs at most; beyond it they are counted.
const NOTES_MAX: usize = 200;

/// Makes a draft legal.
pub fn repair(draft: &mut Draft, scribe: &dyn Scribe) -> Result<(), Rejection> {
    let entries = std::mem::take(&mut draft.entries);
    let mut work = Repair { scribe, draft, notes_left_out: 0 };
    let entries = match scribe.dialect() {
        Dialect::Anthropic => work.anthropic(entries)?,
        Dialect::Responses => work.responses(entries)?,
        _ => work.openai_chat(entries)?,
    };
    if work.notes_left_out > 0 {
        let more = format!("{} more repairs", work.notes_left_out);
        work.draft.repairs.push(more);
    }
    draft.entries = entries;
    Ok(())
}

struct Repair<'a> {
    scribe: &'a dyn Scribe,
    draft: &'a mut Draft,
    notes_left_out: usize,
}

/// Where the answer to a call is: the entry and the part.
type Place = (usize, usize);

impl Repair<'_> {
    fn note(&mut self, message: &Message, what: impl std::fmt::Display) {
        if self.draft.repairs.len() < NOTES_MAX {
            self.draft.repairs.push(format!("message {}: {what}", message.id.0));
        } else {
            self.notes_left_out += 1;
        }
    }

    /// Takes an entry out of the draft for a reason.
    fn drop_entry(&mut self, entry: &Entry, reason: &str) {
        self.note(&entry.message, reason);
        if let Some(outcome) = entry.origin.source().and_then(|at| self.draft.outcomes.get_mut(at)) {
            *outcome = Outcome::Dropped(reason.to_owned());
        }
    }

    /// Takes parts out of an entry; `None` if nothing of it is left.
    fn remove_parts(&mut self, entry: Entry, parts: &[usize], reason: &str) -> Result<Option<Entry>, Rejection> {
        if parts.is_empty() {
            return Ok(Some(entry));
        }
        let changes: Vec<(usize, PartChange)> = parts.iter().map(|part| (*part, PartChange::Remove)).collect();
        match self.scribe.edit(&entry.message, &changes).map_err(Rejection::Unwritable)? {
            Some(mut edited) => {
                self.note(&entry.message, reason);
                edited.id = entry.message.id;
                edited.flags = entry.message.flags;
                edited.node = entry.message.node;
                let origin = match entry.origin {
                    Origin::Kept(at) => Origin::Edited(at),
                    other => other,
                };
                Ok(Some(Entry { origin, message: Arc::new(edited) }))
            }
            None => {
                self.drop_entry(&entry, reason);
                Ok(None)
            }
        }
    }

    /// Writes answers to calls that have none.
    fn answer(&mut self, entry: &Entry, calls: &[usize], out: &mut Vec<Entry>) -> Result<(), Rejection> {
        if calls.is_empty() {
            return Ok(());
        }
        self.note(&entry.message, format_args!("{} calls without a result got a note in its place", calls.len()));
        let at = entry.origin.source().unwrap_or(usize::MAX);
        for mut message in self.scribe.answer(&entry.message, calls, frame::NO_ANSWER).map_err(Rejection::Unwritable)? {
            message.flags = message.flags.with(Flags::SYNTHETIC);
            out.push(Entry { origin: Origin::Answer(at), message: Arc::new(message) });
        }
        Ok(())
    }

    fn openai_chat(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Rejection> {
        let answer_of = match_by_id(&entries, |message| message.role != Role::Tool);
        let mut taken: HashSet<usize> = HashSet::new();
        let mut out: Vec<Entry> = Vec::with_capacity(entries.len());
        let mut moves: HashMap<usize, Vec<usize>> = HashMap::new();
        for (place, answer) in &answer_of {
            taken.insert(answer.0);
            moves.entry(place.0).or_default().push(answer.0);
        }
        let mut slots: Vec<Option<Entry>> = entries.into_iter().map(Some).collect();
        for at in 0..slots.len() {
            let Some(entry) = slots.get_mut(at).and_then(Option::take) else { continue };
            if entry.message.role == Role::Tool {
                let legacy = answers(&entry.message).all(|(_, part)| part.call_id.is_empty());
                let follows_call = out.last().is_some_and(|last| {
                    open_calls(&last.message).any(|(_, part)| part.call_id.is_empty())
                        && last.message.role == Role::Assistant
                });
                if legacy && follows_call {
                    out.push(entry);
                } else if taken.contains(&at) {
                    // Its call comes later in the list and will fetch it.
                    if let Some(slot) = slots.get_mut(at) {
                        *slot = Some(entry);
                    }
                } else {
                    self.drop_entry(&entry, "a result without its call left");
                }
                continue;
            }
            if entry.message.parts.is_empty() && entry.message.role == Role::Assistant {
                self.drop_entry(&entry, "a message without content left");
                continue;
            }
            let (mut seen, mut doubled, mut unanswered) = (HashSet::new(), Vec::new(), Vec::new());
            for (part, call) in open_calls(&entry.message).filter(|(_, call)| !call.call_id.is_empty()) {
                if !seen.insert(call.call_id.clone()) {
                    doubled.push(part);
                } else if !answer_of.contains_key(&(at, part)) {
                    unanswered.push(call.call_id.clone());
                }
            }
            let entry = self.remove_parts(entry, &doubled, "a call with the id of another call in it left")?;
            let Some(entry) = entry else { continue };
            let unanswered: Vec<usize> = open_calls(&entry.message)
                .filter(|(_, call)| unanswered.contains(&call.call_id))
                .map(|(part, _)| part)
                .collect();
            let mut fetched = moves.remove(&at).unwrap_or_default();
            fetched.sort_unstable();
            out.push(entry.clone());
            let mut expected = at + 1;
            for from in fetched {
                let Some(answer) = slots.get_mut(from).and_then(Option::take) else { continue };
                if from != expected {
                    self.note(&answer.message, "a result moved next to its call");
                }
                expected = from + 1;
                out.push(answer);
            }
            self.answer(&entry, &unanswered, &mut out)?;
        }
        Ok(out)
    }

    fn responses(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Rejection> {
        let answer_of = match_by_id(&entries, |_| true);
        let taken: HashSet<Place> = answer_of.values().copied().collect();
        let owned = |part: &Part| (part.flags.family(), part.call_id.clone());
        let mut answered_ids: HashSet<(u32, String)> = HashSet::new();
        let mut called_ids: HashSet<(u32, String)> = HashSet::new();
        let mut out = Vec::with_capacity(entries.len());
        for (at, entry) in entries.into_iter().enumerate() {
            let orphan = answers(&entry.message)
                .any(|(part, answer)| !taken.contains(&(at, part)) || answered_ids.contains(&owned(answer)));
            if orphan {
                self.drop_entry(&entry, "a result without its call left");
                continue;
            }
            if entry.message.parts.is_empty()
                && matches!(entry.message.role, Role::User | Role::Assistant | Role::System | Role::Developer)
            {
                self.drop_entry(&entry, "a message without content left");
                continue;
            }
            answered_ids.extend(answers(&entry.message).map(|(_, answer)| owned(answer)));
            let mut unanswered = Vec::new();
            let mut doubled = false;
            for (part, call) in open_calls(&entry.message).filter(|(_, call)| !call.call_id.is_empty()) {
                if !called_ids.insert(owned(call)) {
                    doubled = true;
                } else if !answer_of.contains_key(&(at, part)) {
                    unanswered.push(part);
                }
            }
            if doubled {
                // Two calls of one id cannot be told apart, and the provider refuses the second.
                self.drop_entry(&entry, "a call with the id of an earlier call left");
                continue;
            }
            out.push(entry.clone());
            self.answer(&entry, &unanswered, &mut out)?;
        }
        Ok(out)
    }

    fn anthropic(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Rejection> {
        let end = entries.last().and_then(|entry| entry.origin.source());
        let entries = self.without_blanks(entries)?;
        let entries = self.without_doubled_calls(entries)?;
        let entries = self.with_answers_first(entries)?;
        let mut out = self.anthropic_pairs(entries)?;
        if out.first().is_some_and(|first| first.message.role != Role::User) {
            let mut message = self.scribe.text(Role::User, frame::OPENING).map_err(Rejection::Unwritable)?;
            message.flags = Flags::SYNTHETIC;
            out.insert(0, Entry { origin: Origin::Written(Written::Bracket), message: Arc::new(message) });
        }
        // A list that ends in the model's words asks it to continue them. Only the client may ask for that.
        let is_the_clients = |last: &Entry| last.origin.is_kept() && last.origin.source() == end;
        let ends_anew = out.last().is_some_and(|last| last.message.role == Role::Assistant && !is_the_clients(last));
        if ends_anew {
            let mut message = self.scribe.text(Role::User, frame::CLOSING).map_err(Rejection::Unwritable)?;
            message.flags = Flags::SYNTHETIC;
            out.push(Entry { origin: Origin::Written(Written::Bracket), message: Arc::new(message) });
        }
        Ok(out)
    }

    /// Messages without content and blank texts are refused.
    fn without_blanks(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Rejection> {
        let mut out = Vec::with_capacity(entries.len());
        let last = entries.len().saturating_sub(1);
        for (at, entry) in entries.into_iter().enumerate() {
            // An empty answer at the very end is legal: it asks the model to begin.
            if at == last && entry.message.role == Role::Assistant && entry.message.parts.is_empty() {
                out.push(entry);
                continue;
            }
            // No role of this dialect: nobody reads what it says, and an answer in it answers nothing.
            if matches!(entry.message.role, Role::Tool | Role::Other) {
                self.drop_entry(&entry, "a message in a role that the dialect does not have left");
                continue;
            }
            let blank: Vec<usize> = (0..)
                .zip(&entry.message.parts)
                .filter(|(_, part)| part.kind == PartKind::Text && part.text.trim().is_empty())
                .map(|(at, _)| at)
                .collect();
            if entry.message.parts.len() == blank.len() {
                self.drop_entry(&entry, "a message without content left");
                continue;
            }
            // Blank text beside signed reasoning stays: the signature covers the message as it was sent.
            let reasons = entry.message.parts.iter().any(|part| part.kind == PartKind::Reasoning);
            if reasons && blank.len() + 1 >= entry.message.parts.len() {
                out.push(entry);
                continue;
            }
            out.extend(self.remove_parts(entry, &blank, "a blank text left")?);
        }
        Ok(out)
    }

    /// A call's id may be used once in a whole conversation, and only the user's messages answer.
    fn without_doubled_calls(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Rejection> {
        const REASON: &str = "a call with the id of an earlier call, or a result in the model's own message, left";
        let mut used: HashSet<String> = HashSet::new();
        let mut out = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut doubled: Vec<usize> = open_calls(&entry.message)
                .filter(|(_, call)| !call.call_id.is_empty() && !used.insert(call.call_id.clone()))
                .map(|(part, _)| part)
                .collect();
            if entry.message.role == Role::Assistant {
                let is_answer =
                    |part: &Part| part.kind == PartKind::ToolResult && !part.flags.has(Flags::SELF_CONTAINED);
                doubled.extend((0..).zip(&entry.message.parts).filter(|(_, part)| is_answer(part)).map(|(at, _)| at));
            }
            let left = (0..).zip(&entry.message.parts).filter(|(at, _)| !doubled.contains(at)).last();
            // Reasoning may not be the last of a message, so it goes with the call it led to.
            if !doubled.is_empty() && left.is_none_or(|(_, part)| part.kind == PartKind::Reasoning) {
                self.drop_entry(&entry, REASON);
                continue;
            }
            out.extend(self.remove_parts(entry, &doubled, REASON)?);
        }
        Ok(out)
    }

    /// Within a user turn, messages with answers come first, and answers come first within a message.
    fn with_answers_first(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Rejection> {
        let mut out: Vec<Entry> = Vec::with_capacity(entries.len());
        let ranges = turns(&entries.iter().map(|entry| entry.message.as_ref()).collect::<Vec<_>>());
        let mut rest = VecDeque::from(entries);
        for range in ranges {
            let turn: Vec<Entry> = rest.drain(..range.len().min(rest.len())).collect();
            if turn.first().is_some_and(|first| first.message.role != Role::User) {
                out.extend(turn);
                continue;
            }
            let (mut first, mut later) = (Vec::new(), Vec::new());
            for entry in turn {
                let results: Vec<usize> = answers(&entry.message).map(|(part, _)| part).collect();
                let leading = results.iter().enumerate().all(|(nth, part)| nth == *part);
                if results.is_empty() {
                    later.push(entry);
                } else if leading && later.is_empty() && results.len() == entry.message.parts.len() {
                    first.push(entry);
                } else if leading && later.is_empty() {
                    // Answers, then the user's text: legal as long as no further answers follow.
                    later.push(entry);
                } else if results.len() == entry.message.parts.len() {
                    self.note(&entry.message, "results moved to the head of their turn");
                    first.push(entry);
                } else {
                    first.extend(self.extract(&entry, &results)?);
                    later.extend(self.remove_parts(entry, &results, "results moved to the head of their turn")?);
                }
            }
            // A message of answers and text that is followed by more answers has to give its answers up as well.
            let mixed = later.first().is_some_and(|entry| answers(&entry.message).next().is_some());
            if mixed && !first.is_empty() && later.len() > 1 {
                let entry = later.remove(0);
                let results: Vec<usize> = answers(&entry.message).map(|(part, _)| part).collect();
                first.extend(self.extract(&entry, &results)?);
                if let Some(entry) = self.remove_parts(entry, &results, "results moved to the head of their turn")? {
                    later.insert(0, entry);
                }
            }
            out.extend(first);
            out.extend(later);
        }
        Ok(out)
    }

    fn extract(&mut self, entry: &Entry, results: &[usize]) -> Result<Vec<Entry>, Rejection> {
        let messages = self.scribe.extract(&entry.message, results).map_err(Rejection::Unwritable)?;
        let origin = entry.origin.source().map_or_else(|| entry.origin.clone(), Origin::Moved);
        Ok(messages
            .into_iter()
            .map(|mut message| {
                message.id = entry.message.id;
                Entry { origin: origin.clone(), message: Arc::new(message) }
            })
            .collect())
    }

    fn anthropic_pairs(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Rejection> {
        let messages: Vec<&Message> = entries.iter().map(|entry| entry.message.as_ref()).collect();
        let ranges = turns(&messages);
        let turn_of: Vec<usize> =
            ranges.iter().enumerate().flat_map(|(turn, range)| range.clone().map(move |_| turn)).collect();
        let answer_of = match_by_id(&entries, |message| message.role == Role::Assistant);

        // Answers that stand in the turn after their call stay; others move there; the rest has no call.
        let mut misplaced: BTreeMap<usize, Vec<Place>> = BTreeMap::new();
        let mut stays: HashSet<Place> = HashSet::new();
        let mut unanswered: BTreeMap<usize, Vec<Place>> = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.message.role == Role::Assistant) {
            let turn = turn_of.get(at).copied().unwrap_or(0);
            // A call without an id cannot be answered, so it stays the client's own fault.
            for (part, _) in open_calls(&entry.message).filter(|(_, call)| !call.call_id.is_empty()) {
                match answer_of.get(&(at, part)) {
                    Some(answer) if turn_of.get(answer.0) == Some(&(turn + 1)) => {
                        stays.insert(*answer);
                    }
                    Some(answer) => misplaced.entry(turn).or_default().push(*answer),
                    None => unanswered.entry(turn).or_default().push((at, part)),
                }
            }
        }
        let mut moved: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
        for (turn, answers) in misplaced {
            let mut by_entry: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for (at, part) in answers {
                by_entry.entry(at).or_default().push(part);
            }
            for (at, mut parts) in by_entry {
                parts.sort_unstable();
                let Some(entry) = entries.get(at) else { continue };
                self.note(&entry.message, "results moved next to their calls");
                let extracted = self.extract(entry, &parts)?;
                moved.entry(turn).or_default().extend(extracted);
            }
        }

        let mut out = Vec::with_capacity(entries.len());
        for (at, entry) in entries.into_iter().enumerate() {
            let turn = turn_of.get(at).copied().unwrap_or(0);
            let is_last_of_turn = turn_of.get(at + 1) != Some(&turn);
            if entry.message.role == Role::Assistant {
                out.push(entry.clone());
                if is_last_of_turn {
                    out.extend(moved.remove(&turn).unwrap_or_default());
                    self.answer_turn(&out_calls(unanswered.remove(&turn)), &mut out, ranges.get(turn), at)?;
                }
                continue;
            }
            let gone: Vec<usize> =
                answers(&entry.message).map(|(part, _)| part).filter(|part| !stays.contains(&(at, *part))).collect();
            out.extend(self.remove_parts(entry, &gone, "results without their calls left")?);
        }
        Ok(out)
    }

    /// Answers the open calls of an assistant turn, whose entries are the newest assistant entries of `out`.
    fn answer_turn(
        &mut self,
        calls: &BTreeMap<usize, Vec<usize>>,
        out: &mut Vec<Entry>,
        range: Option<&std::ops::Range<usize>>,
        last: usize,
    ) -> Result<(), Rejection> {
        let Some(range) = range else { return Ok(()) };
        // Entries of the turn stand in `out` before anything that was moved behind them.
        let Some(last_index) = out.iter().rposition(|entry| entry.message.role == Role::Assistant) else {
            return Ok(());
        };
        let first_index = last_index.saturating_sub(last.saturating_sub(range.start));
        for (at, parts) in calls {
            let Some(entry) = out.get(first_index + at.saturating_sub(range.start)).cloned() else { continue };
            self.answer(&entry, parts, out)?;
        }
        Ok(())
    }
}

fn out_calls(places: Option<Vec<Place>>) -> BTreeMap<usize, Vec<usize>> {
    let mut calls: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, part) in places.unwrap_or_default() {
        calls.entry(at).or_default().push(part);
    }
    calls
}

/// Gives each call the first answer with its id that comes after it and before the id is called again.
fn match_by_id(entries: &[Entry], may_call: impl Fn(&Message) -> bool) -> HashMap<Place, Place> {
    let mut open: HashMap<Key<'_>, Place> = HashMap::new();
    let mut matched: HashMap<Place, Place> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        for (part, answer) in answers(&entry.message).filter(|(_, answer)| !answer.call_id.is_empty()) {
            if let Some(call) = open.remove(&key(answer)) {
                matched.insert(call, (at, part));
            }
        }
        if !may_call(&entry.message) {
            continue;
        }
        for (part, call) in open_calls(&entry.message).filter(|(_, call)| !call.call_id.is_empty()) {
            match open.entry(key(call)) {
                // The first call of an id in one message has the claim to its answer.
                std::collections::hash_map::Entry::Occupied(slot) if slot.get().0 == at => {}
                std::collections::hash_map::Entry::Occupied(mut slot) => {
                    slot.insert((at, part));
                }
                std::collections::hash_map::Entry::Vacant(slot) => {
                    slot.insert((at, part));
                }
            }
        }
    }
    matched
}
