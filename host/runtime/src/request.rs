//! What a client's next request does to a session: what is new is added, what the client changed becomes a branch, and
//! the bytes that leave are the ones that it sent last.

use crate::live::{LiveSession, RuntimeError, overhead_of};
use engine_api::{Flags, Message, MessageId, ToolSchema};
use host_core::Pressure;
use host_core::outgoing::outgoing;
use host_core::policy::Cause;
use host_core::receipt::Receipt;
use host_core::summariser::Place;
use host_wire::{Document, Envelope};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl LiveSession {
    /// Goes on with a request whose history is the known one and these new messages; returns their ids.
    ///
    /// # Errors
    /// As [`LiveSession::append`]; what came before the message that failed was added.
    pub fn extend(&mut self, envelope: Envelope, new: &[&str]) -> Result<Vec<MessageId>, RuntimeError> {
        self.take_envelope(envelope);
        let mut ids = Vec::with_capacity(new.len());
        for raw in new {
            self.append(raw)?;
            ids.extend(self.session.transcript.last().map(|message| message.id));
        }
        Ok(ids)
    }

    /// Goes on with a request whose history differs from the known one: it is found in what is stored, what is new is
    /// added, and an edit or a rewind becomes a branch. Returns the ids of its messages.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] if the session is in no store, or the store fails.
    pub fn resend(&mut self, document: Document) -> Result<Vec<MessageId>, RuntimeError> {
        let Some((store, key)) = self.store().map(|(store, key)| (store.clone(), key)) else {
            return Err(host_store::StoreError::NoSession(self.options.session_id.clone()).into());
        };
        let aligned = store.align(key, &document.messages.iter().collect::<Vec<_>>())?;
        self.take_envelope(document.envelope().clone());
        self.reload()?;
        Ok(aligned.ids)
    }

    /// Takes the bytes that a client sent now for messages that it sent before: it moves its cache marks with each
    /// request, and what leaves must have them where they are now.
    pub fn refresh(&mut self, sent: &[(MessageId, &str)]) {
        let sent: HashMap<MessageId, &str> = sent.iter().copied().collect();
        let mut newer: HashMap<MessageId, Arc<Message>> = HashMap::new();
        for slot in &mut self.session.view {
            let Some(raw) = sent.get(&slot.id) else { continue };
            if slot.raw == **raw || slot.flags.has(Flags::SYNTHETIC) {
                continue;
            }
            // Marks are no text, so the parts and their tokens stay as they were understood.
            let mut message = Message::clone(slot);
            (*raw).clone_into(&mut message.raw);
            *slot = Arc::new(message);
            newer.insert(slot.id, Arc::clone(slot));
        }
        if newer.is_empty() {
            return;
        }
        for slot in self.session.transcript.iter_mut().filter(|slot| newer.contains_key(&slot.id)) {
            if let Some(message) = newer.get(&slot.id) {
                *slot = Arc::clone(message);
            }
        }
    }

    /// Decides before a request is sent, and compacts if that is the decision; the conversation has rested so long.
    pub fn compact_for_request(&mut self, idle_seconds: u64) -> Receipt {
        self.compact_for(Cause::Request { idle_seconds })
    }

    /// Compacts because a person asks for it, with what the summary should dwell on and how many of the newest exchanges
    /// stay whole (0 for no such wish).
    pub fn compact_now(&mut self, focus: &str, keep_exchanges: u32) -> Receipt {
        let before = (self.options.focus.clone(), self.options.keep_exchanges);
        (self.options.focus, self.options.keep_exchanges) = (focus.to_owned(), keep_exchanges);
        let receipt = self.compact_for(Cause::Manual);
        (self.options.focus, self.options.keep_exchanges) = before;
        receipt
    }

    /// Returns the receipt of a decision that was made elsewhere: nothing changes, for this reason.
    pub fn keep_as_it_is(&mut self, why: &str) -> Receipt {
        let mut receipt = self.blank_receipt(self.prompt_tokens());
        why.clone_into(&mut receipt.reason);
        receipt
    }

    /// Takes over the provider's report of a request that was answered so long before the session was opened; 0 or an
    /// impossible figure counts as none.
    pub fn record_before(&mut self, reported_tokens: u64, since: Duration) {
        self.answered = Instant::now().checked_sub(since);
        let counted = self.session.tokens();
        if Pressure::is_possible(reported_tokens, counted) {
            self.pressure = Pressure::reported(reported_tokens, counted);
        }
    }

    /// Tells whether another process has changed what the model sees.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] if the store fails.
    pub fn is_behind(&self) -> Result<bool, RuntimeError> {
        let Some(stored) = &self.stored else { return Ok(false) };
        Ok(stored.is_behind()?)
    }

    /// Has summaries by the conversation's own model asked where its requests go, with the client's own credentials.
    pub fn set_place(&mut self, place: Option<Place>) {
        self.place = place;
    }

    /// Tells whether the model sees less than was said.
    pub fn is_compacted(&self) -> bool {
        self.is_compacted
    }

    /// Returns the messages as they leave, in order, and for each the id of the message in the view that it is; none for
    /// several that leave as one.
    ///
    /// # Errors
    /// [`RuntimeError::Write`] if one cannot be written in its dialect.
    pub fn outgoing(&self) -> Result<Vec<(Option<MessageId>, String)>, RuntimeError> {
        let raws = outgoing(&self.session.view, &self.scribe).map_err(RuntimeError::Write)?;
        let mut view = self.session.view.iter().peekable();
        let mut out = Vec::with_capacity(raws.len());
        for raw in raws {
            while let Some(message) = view.peek()
                && message.raw != raw
                && message.flags.has(Flags::SYNTHETIC)
            {
                view.next();
            }
            let id = view.next_if(|message| message.raw == raw).map(|message| message.id);
            out.push((id, raw));
        }
        Ok(out)
    }

    /// Returns the tools that the model may call: the host's own and the engine's.
    pub fn tools(&self) -> Vec<ToolSchema> {
        let mut tools = self.host_tools();
        tools.extend(self.resolved.engine.tool_schemas());
        tools
    }

    /// Takes the body around the messages as the client sent it last.
    fn take_envelope(&mut self, envelope: Envelope) {
        let is_same = |key: &str| envelope.member(key) == self.document.member(key);
        let same = ["system", "instructions", "tools", "functions"].into_iter().all(is_same);
        self.document = envelope.unread();
        if !same {
            self.session.overhead_tokens = overhead_of(&self.document, &self.counter);
        }
    }
}
