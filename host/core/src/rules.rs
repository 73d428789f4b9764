//! Rules files: their text is word for word in every compacted context.

use crate::draft::{Draft, Entry, Origin, Written};
use crate::frame;
use crate::scribe::Scribe;
use crate::session::Session;
use engine_api::{Flags, InsertKind, Role};
use std::sync::Arc;

/// Largest share of the target that one rules file may take, as one part in this many: rules that fill the window leave
/// no room to follow them.
const TARGET_SHARE: u64 = 4;

/// A rules file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesFile {
    /// What it is called in the context.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Puts the text of each rules file that the draft does not hold already after its instructions.
pub(crate) fn restore(
    session: &Session,
    draft: &mut Draft,
    target_tokens: u64,
    scribe: &dyn Scribe,
) -> Result<(), String> {
    for file in session.rules.iter().filter(|file| !file.text.trim().is_empty()) {
        let is_there = |entry: &Entry| entry.message.parts.iter().any(|part| part.text.contains(file.text.trim()));
        if draft.entries.iter().any(is_there) {
            continue;
        }
        let tokens = scribe.count(&file.text);
        if tokens > target_tokens / TARGET_SHARE {
            draft.repairs.push(format!(
                "rules file {} has {tokens} tokens, more than a quarter of the target of {target_tokens}, and was left out",
                file.name
            ));
            continue;
        }
        let framed = frame::note(&format!("rules of {}", file.name), file.text.trim());
        let mut message = scribe.text(Role::User, &framed)?;
        message.flags = Flags::SYNTHETIC;
        let head = draft
            .entries
            .iter()
            .take_while(|entry| matches!(entry.message.role, Role::System | Role::Developer))
            .count();
        let origin = Origin::Written(Written::Insert(InsertKind::Restored));
        draft.entries.insert(head, Entry { origin, message: Arc::new(message) });
    }
    Ok(())
}
