//! What is odd in a session as a whole: history that was stored again, and calls and results without each other.

use crate::problems::Problems;
use engine_api::{Message, PartKind};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// A run of this many repeated messages is no chance: people say "yes" twice, but not the same three messages in a row.
const REPEAT_RUN_MIN: usize = 3;

/// Notes what is odd; nothing is changed.
pub(super) fn session(id: &str, messages: &[Message], rows: &[crate::ImportedRow], problems: &mut Problems) {
    let repeated = repeats(messages.iter().map(|message| {
        let mut hasher = DefaultHasher::new();
        message.raw.hash(&mut hasher);
        hasher.finish()
    }));
    if let Some((count, first)) = repeated {
        let row = rows.get(first).and_then(|row| row.row);
        let row = row.map(|row| format!(", the first in row {row}")).unwrap_or_default();
        problems.note(None, || {
            format!(
                "session {id:?}: {count} of {} messages repeat earlier ones in runs of {REPEAT_RUN_MIN} or more{row}; kept as stored",
                messages.len()
            )
        });
    }
    let (calls, results) = unpaired(messages);
    if calls > 0 || results > 0 {
        problems.note(None, || {
            format!("session {id:?}: {calls} tool calls without a result and {results} results without a call; kept as stored")
        });
    }
}

// Counts the members of repeated runs, and where the first begins.
fn repeats(hashes: impl Iterator<Item = u64>) -> Option<(usize, usize)> {
    let hashes: Vec<u64> = hashes.collect();
    let mut newest: HashMap<u64, usize> = HashMap::with_capacity(hashes.len());
    let (mut total, mut first) = (0usize, None);
    // The run that is being followed: where the original goes on, and its length.
    let mut run: Option<(usize, usize)> = None;
    let mut close = |run: Option<(usize, usize)>, end: usize| {
        if let Some((_, length)) = run.filter(|(_, length)| *length >= REPEAT_RUN_MIN) {
            total += length;
            first.get_or_insert(end - length);
        }
    };
    for (index, hash) in hashes.iter().enumerate() {
        let follows = run.filter(|(next, _)| hashes.get(*next) == Some(hash));
        run = match follows {
            Some((next, length)) => Some((next + 1, length + 1)),
            None => {
                close(run, index);
                newest.get(hash).map(|earlier| (earlier + 1, 1))
            }
        };
        newest.insert(*hash, index);
    }
    close(run, hashes.len());
    first.map(|first| (total, first))
}

fn unpaired(messages: &[Message]) -> (usize, usize) {
    let mut open: HashMap<&str, usize> = HashMap::new();
    let mut results = 0usize;
    for part in messages.iter().flat_map(|message| &message.parts) {
        match part.kind {
            PartKind::ToolCall => *open.entry(&part.call_id).or_default() += 1,
            PartKind::ToolResult => match open.get_mut(part.call_id.as_str()).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => results += 1,
            },
            _ => {}
        }
    }
    (open.values().sum(), results)
}

#[cfg(test)]
mod tests {
    use super::repeats;

    #[test]
    fn runs_of_three_count_and_shorter_ones_do_not() {
        let of = |text: &str| repeats(text.bytes().map(u64::from));
        assert_eq!(of("abcde"), None);
        assert_eq!(of("abxaby"), None);
        assert_eq!(of("abcdeabcdef"), Some((5, 5)));
        assert_eq!(of("abcxbcyabcdabcd"), Some((7, 7)), "each copy counts");
        assert_eq!(of("zzzzz"), Some((4, 1)));
    }
}
