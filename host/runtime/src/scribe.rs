//! Writes messages in the session's dialect for the pure core, which knows none.

use engine_api::{Dialect, Message, Part, Role};
use host_core::{PartChange, Scribe};
use host_tokens::Counter;
use host_wire::PartEdit;
use std::sync::Arc;

/// The member that is a client's cache mark.
const CACHE_MARK: &str = "cache_control";

/// A scribe over the wire dialects.
#[derive(Clone)]
pub struct WireScribe {
    dialect: Dialect,
    counter: Arc<Counter>,
}

impl WireScribe {
    /// Makes a scribe of a dialect that counts with this counter.
    pub fn new(dialect: Dialect, counter: Arc<Counter>) -> Self {
        WireScribe { dialect, counter }
    }

    fn parse(&self, raw: &str) -> Result<Message, String> {
        let mut message = host_wire::parse_message(self.dialect, raw).map_err(|error| error.to_string())?;
        self.counter.measure(std::slice::from_mut(&mut message));
        Ok(message)
    }
}

impl Scribe for WireScribe {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn edit(&self, message: &Message, changes: &[(usize, PartChange)]) -> Result<Option<Message>, String> {
        let edits: Vec<(usize, PartEdit<'_>)> = changes
            .iter()
            .map(|(part, change)| {
                let edit = match change {
                    PartChange::Text(text) => PartEdit::Text(text),
                    PartChange::Remove => PartEdit::Remove,
                };
                (*part, edit)
            })
            .collect();
        match host_wire::edit_message(self.dialect, &message.raw, &edits).map_err(|error| error.to_string())? {
            // A client moves its cache marks with each request; one within what is written anew would stay for ever, and a
            // provider takes four.
            Some(raw) if raw.contains(CACHE_MARK) => self.parse(&host_wire::identity(&raw)).map(Some),
            Some(raw) => self.parse(&raw).map(Some),
            None => Ok(None),
        }
    }

    fn text(&self, role: Role, text: &str) -> Result<Message, String> {
        self.parse(&host_wire::text_message(self.dialect, role, text))
    }

    fn answer(&self, calling: &Message, calls: &[usize], text: &str) -> Result<Vec<Message>, String> {
        let calls: Vec<&Part> = calls.iter().filter_map(|at| calling.parts.get(*at)).collect();
        host_wire::answer_calls(self.dialect, &calling.raw, &calls, text).iter().map(|raw| self.parse(raw)).collect()
    }

    fn extract(&self, message: &Message, results: &[usize]) -> Result<Vec<Message>, String> {
        let extracted = host_wire::extract_results(self.dialect, &message.raw, results);
        extracted.map_err(|error| error.to_string())?.iter().map(|raw| self.parse(raw)).collect()
    }

    fn count(&self, text: &str) -> u64 {
        u64::from(self.counter.count(text))
    }
}

#[cfg(test)]
mod tests {
    //! What the two sides must agree on without knowing each other.

    #[test]
    fn the_marks_of_the_host_are_the_same_on_the_wire_and_in_the_core() {
        assert_eq!(host_wire::HOST_MARK, host_core::frame::MARK);
        assert_eq!(host_wire::HOST_SUMMARY_MARK, host_core::frame::SUMMARY_MARK);
    }
}
