//! The message list as it goes out: kept messages are the client's own bytes, neighbouring texts of the host are one.

use crate::scribe::Scribe;
use engine_api::{Flags, Message, PartKind};
use std::sync::Arc;

/// Returns the raw messages of a view in order.
///
/// Some hosts of models refuse two messages of one role in a row, so what was written in a row goes out as one message.
pub fn outgoing(view: &[Arc<Message>], scribe: &dyn Scribe) -> Result<Vec<String>, String> {
    let mut out: Vec<String> = Vec::with_capacity(view.len());
    let mut at = 0;
    while let Some(message) = view.get(at) {
        let run = view.iter().skip(at).take_while(|other| is_written(other) && other.role == message.role).count();
        if run > 1 {
            let texts: Vec<String> = view.iter().skip(at).take(run).map(|one| one.text()).collect();
            out.push(scribe.text(message.role, &texts.join("\n\n"))?.raw);
            at += run;
        } else {
            out.push(message.raw.clone());
            at += 1;
        }
    }
    Ok(out)
}

/// Returns how many messages [`outgoing`] gives.
pub fn outgoing_count(view: &[Arc<Message>]) -> usize {
    let joins = |pair: &[Arc<Message>]| match pair {
        [before, after] => is_written(before) && is_written(after) && before.role == after.role,
        _ => false,
    };
    view.len() - view.windows(2).filter(|pair| joins(pair)).count()
}

fn is_written(message: &Message) -> bool {
    message.flags.has(Flags::SYNTHETIC)
        && !message.parts.is_empty()
        && message.parts.iter().all(|part| part.kind == PartKind::Text)
}
