//! Makes a conversation legal for its dialect without compacting it, for one that changed its dialect.

use crate::live::RuntimeError;
use crate::scribe::WireScribe;
use host_core::draft::{Draft, Entry, Origin, Outcome};
use host_core::outgoing::outgoing;
use host_core::{Session, repair};
use host_tokens::Counter;
use host_wire::Document;
use std::sync::Arc;

/// Puts results next to their calls, answers calls that have none, takes out what has no partner. Returns the
/// conversation and what was mended; with nothing to mend the document is the same.
///
/// # Errors
/// [`RuntimeError::Write`] if a message cannot be written in the dialect.
pub fn mend(mut document: Document) -> Result<(Document, Vec<String>), RuntimeError> {
    let dialect = document.dialect();
    let scribe = WireScribe::new(dialect, Arc::new(Counter::estimating()));
    let session = Session::new("", dialect, std::mem::take(&mut document.messages), 0);
    let kept = |(at, message): (usize, &Arc<_>)| Entry { origin: Origin::Kept(at), message: Arc::clone(message) };
    let mut draft = Draft {
        entries: session.view.iter().enumerate().map(kept).collect(),
        nodes: Vec::new(),
        outcomes: vec![Outcome::Present; session.view.len()],
        repairs: Vec::new(),
    };
    repair::repair(&mut draft, &scribe).map_err(|rejection| RuntimeError::Write(rejection.to_string()))?;
    let view: Vec<_> = draft.entries.into_iter().map(|entry| entry.message).collect();
    let raws = if draft.repairs.is_empty() {
        session.view.iter().map(|message| message.raw.clone()).collect()
    } else {
        outgoing(&view, &scribe).map_err(RuntimeError::Write)?
    };
    let text = document.write(raws.iter().map(String::as_str));
    let document = Document::read(&text, Some(dialect)).map_err(|error| RuntimeError::Write(error.to_string()))?;
    Ok((document, draft.repairs))
}
