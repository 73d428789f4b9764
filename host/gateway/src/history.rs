//! A request's history as hashes: enough to know which conversation it goes on with, without understanding it.

use engine_api::{Dialect, Message, Role};
use host_wire::Envelope;
use xxhash_rust::xxh3::xxh3_64;

/// The member whose presence makes a message's bytes change from request to request.
pub(crate) const MARK: &str = "cache_control";
/// Messages from the start that are understood to find the first user's and the first model's.
const LOOKED_AT_MAX: usize = 64;

/// One message as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Print {
    /// Of the exact bytes.
    pub(crate) exact: u64,
    /// Of the bytes without cache marks.
    pub(crate) same: u64,
}

impl Print {
    fn of(raw: &str) -> Print {
        let exact = xxh3_64(raw.as_bytes());
        let same = if raw.contains(MARK) { xxh3_64(host_wire::identity(raw).as_bytes()) } else { exact };
        Print { exact, same }
    }
}

/// The history of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct History {
    pub(crate) prints: Vec<Print>,
    /// How the conversation begins: the identity of its first message that is no instruction; 0 if there is none.
    pub(crate) root: u64,
    /// The place of the first message of the model, if one of the first messages is its.
    pub(crate) first_reply: Option<usize>,
}

impl History {
    pub(crate) fn of(envelope: &Envelope) -> History {
        let raws = envelope.raws();
        let prints = raws.iter().map(|raw| Print::of(raw)).collect();
        let (mut root, mut first_reply) = (0, None);
        for (at, raw) in raws.iter().take(LOOKED_AT_MAX).enumerate() {
            let Some(message) = understand(envelope.dialect(), raw) else { continue };
            if matches!(message.role, Role::System | Role::Developer) {
                continue;
            }
            if message.role == Role::Assistant {
                first_reply = Some(at);
            }
            if root == 0 {
                root = identity(raw);
            }
            if first_reply.is_some() {
                break;
            }
        }
        History { prints, root, first_reply }
    }

    /// Returns how many messages from the first on are the same as those of an earlier request.
    pub(crate) fn common(&self, earlier: &[u64]) -> usize {
        self.prints.iter().zip(earlier).take_while(|(ours, theirs)| ours.same == **theirs).count()
    }

    /// Tells whether this history is another one with more behind it, or the same.
    pub(crate) fn goes_beyond(&self, earlier: &History) -> bool {
        let pairs = self.prints.iter().zip(&earlier.prints);
        self.prints.len() >= earlier.prints.len() && pairs.into_iter().all(|(ours, theirs)| ours.same == theirs.same)
    }

    /// Tells whether this request goes on with a conversation that it shares so many messages with, of so many.
    ///
    /// What only begins alike, before any model has spoken, is another conversation, unless nothing more is known of the
    /// first one either.
    pub(crate) fn goes_on_with(&self, common: usize, known: usize) -> bool {
        common > 0 && (common == known || self.first_reply.is_some_and(|reply| reply < common))
    }
}

/// What makes a message the same to the store.
pub(crate) fn identity(raw: &str) -> u64 {
    xxh3_64(host_wire::identity(raw).as_bytes())
}

fn understand(dialect: Dialect, raw: &str) -> Option<Message> {
    host_wire::parse_message(dialect, raw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(messages: &[&str]) -> History {
        let list: Vec<String> = messages
            .iter()
            .map(|said| {
                let (role, text) = said.split_once(':').unwrap();
                format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}")
            })
            .collect();
        let body = format!("{{\"messages\":[{}]}}", list.join(","));
        History::of(&Envelope::read(body, Some(Dialect::OpenAiChat)).unwrap())
    }

    fn same(history: &History) -> Vec<u64> {
        history.prints.iter().map(|print| print.same).collect()
    }

    #[test]
    fn the_root_is_the_first_message_that_is_no_instruction() {
        let (a, b) = (history(&["system:x", "user:hi"]), history(&["system:y", "user:hi", "assistant:yes"]));
        assert_eq!(a.root, b.root);
        assert_ne!(a.root, history(&["user:hello"]).root);
        assert_eq!((a.first_reply, b.first_reply), (None, Some(2)));
        assert_eq!(history(&["system:x"]).root, 0);
    }

    #[test]
    fn a_conversation_goes_on_where_more_than_its_beginning_is_shared() {
        let long = ["user:hi", "assistant:yes", "user:more", "assistant:sure"];
        let goes_on = |request: &[&str], known: &[&str]| {
            let (request, known) = (history(request), same(&history(known)));
            request.goes_on_with(request.common(&known), known.len())
        };
        assert!(goes_on(&long, &long[..3]), "it grew");
        assert!(goes_on(&long[..3], &long), "it was rewound");
        assert!(goes_on(&long[..1], &long[..1]), "it was tried again");
        assert!(goes_on(&["user:hi", "assistant:no"], &["user:hi"]), "the first reply came");
        assert!(!goes_on(&["user:hi", "assistant:no", "user:x"], &long), "another one that begins alike");
        assert!(!goes_on(&["user:hi"], &long), "another one that begins alike");
        assert!(!goes_on(&["user:else"], &long));
    }

    #[test]
    fn cache_marks_change_the_exact_print_only() {
        let body = |mark: &str| {
            let text = format!(
                "{{\"messages\":[{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"a\"{mark}}}]}}]}}"
            );
            History::of(&Envelope::read(text, Some(Dialect::Anthropic)).unwrap())
        };
        let (with, without) = (body(",\"cache_control\":{\"type\":\"ephemeral\"}"), body(""));
        assert_eq!(with.common(&same(&without)), 1);
        assert_ne!(with.prints[0].exact, without.prints[0].exact);
        assert_eq!(with.root, without.root);
    }
}
