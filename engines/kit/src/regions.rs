//! Where the head ends and the tail begins.

use engine_api::{CompressRequest, Conversation, Flags, MessageView, Role, Trigger};
use std::ops::Range;

/// What stays word for word.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Messages after the leading system messages that belong to the head.
    pub head_messages: usize,
    /// Tokens of the head at most, without the leading system messages.
    pub head_tokens: u64,
    /// Tokens of the tail.
    pub tail_tokens: u64,
    /// Messages of the tail at least, whatever they cost.
    pub tail_messages_min: usize,
    /// The newest real user messages that stay, whatever lies between them and the tail.
    pub user_messages_min: usize,
    /// The newest exchanges (a real user message and what follows it) that stay whole.
    pub exchanges: usize,
}

/// A conversation in three parts, each cut between units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Regions {
    /// The leading system messages and the first messages.
    pub head: Range<usize>,
    /// What a summary may stand for.
    pub middle: Range<usize>,
    /// The newest messages; the newest real user message is here or in the head.
    pub tail: Range<usize>,
    /// Parts of the tail between a user message that stays and the newest messages, which are over the tail's tokens:
    /// the work of a turn too long for the tail. A summary may stand for them too.
    pub gaps: Vec<Range<usize>>,
}

/// Returns how many system and developer messages a conversation begins with.
pub fn leading(conversation: &Conversation<'_>) -> usize {
    conversation
        .iter()
        .take_while(|message| matches!(message.role(), Role::System | Role::Developer) && !message.is_summary())
        .count()
}

/// Returns the position of the newest message that a person wrote.
pub fn newest_user(conversation: &Conversation<'_>) -> Option<usize> {
    conversation.iter().rposition(|message| message.is_real_user())
}

/// Returns the units that no plan may cover, ascending: those of the newest real user message, of pinned messages, and
/// the last one, which the model is to answer or has just answered.
pub fn must_keep(conversation: &Conversation<'_>, units: &[Range<usize>]) -> Vec<Range<usize>> {
    let newest = newest_user(conversation);
    let last = conversation.len().checked_sub(1);
    let is_must = |position: usize| {
        newest == Some(position)
            || last == Some(position)
            || conversation.get(position).is_some_and(|message| message.is_pinned())
    };
    units.iter().filter(|unit| (*unit).clone().any(is_must)).cloned().collect()
}

/// Kept free of a target: the host's repairs and its way of counting may add a little.
const SLACK_PART: u64 = 100;

/// Share of the target that the host may take for quoting the person's messages which do not stay.
const WORDS_PART: u64 = 8;

/// Returns the tokens that all messages together, kept and new, may come to. Where no target is stated, the threshold
/// stands in for it, and half of what there is for the threshold. What the host will add of the person's words is taken
/// off.
pub fn room(conversation: &Conversation<'_>, request: &CompressRequest) -> u64 {
    let now = conversation.tokens().saturating_add(request.overhead_tokens);
    let stated = [request.target_tokens, request.model.threshold_tokens].into_iter().find(|tokens| *tokens > 0);
    let target = stated.unwrap_or(now / 2);
    let is_quoted = |message: &MessageView<'_>| {
        !message.is_summary() && (message.is_real_user() || message.flags().has(Flags::SYNTHETIC))
    };
    let newest = newest_user(conversation);
    let quotes = conversation.iter().enumerate().filter(|(position, _)| Some(*position) != newest);
    let words: u64 = quotes.filter(|(_, message)| is_quoted(message)).map(|(_, message)| message.tokens() + 16).sum();
    target
        .saturating_sub(request.overhead_tokens)
        .saturating_sub(target / SLACK_PART + 1)
        .saturating_sub(words.min(target / WORDS_PART))
}

/// Tells whether a person waits for the compaction, so that doing nothing needs a better reason than that all is well.
pub fn is_asked_for(request: &CompressRequest) -> bool {
    request.force || request.trigger == Some(Trigger::Manual)
}

/// Divides a conversation. `cost` gives the tokens that a message will have once it is kept.
pub fn regions(
    conversation: &Conversation<'_>,
    units: &[Range<usize>],
    cost: &dyn Fn(usize) -> u64,
    limits: &Limits,
) -> Regions {
    let leading = leading(conversation);
    let unit_cost = |unit: &Range<usize>| unit.clone().map(cost).sum::<u64>();

    let mut head_end = leading;
    let mut head_tokens = 0u64;
    let head_limit = leading.saturating_add(limits.head_messages);
    for unit in units.iter().filter(|unit| unit.end > leading) {
        head_tokens = head_tokens.saturating_add(unit_cost(unit));
        if unit.start >= head_limit || head_tokens > limits.head_tokens {
            break;
        }
        head_end = unit.end;
    }

    let mut tail_start = conversation.len();
    let mut tail_tokens = 0u64;
    for unit in units.iter().rev().take_while(|unit| unit.start >= head_end) {
        tail_tokens = tail_tokens.saturating_add(unit_cost(unit));
        let is_needed = conversation.len() - tail_start < limits.tail_messages_min.max(1);
        if tail_tokens > limits.tail_tokens && !is_needed {
            break;
        }
        tail_start = unit.start;
    }

    let users: Vec<usize> = (head_end..conversation.len())
        .rev()
        .filter(|&position| conversation.get(position).is_some_and(|message| message.is_real_user()))
        .take(limits.user_messages_min.max(1).max(limits.exchanges))
        .collect();
    if let Some(&user) = limits.exchanges.checked_sub(1).and_then(|last| users.get(last.min(users.len().max(1) - 1))) {
        tail_start = tail_start.min(crate::pairs::align_down(units, user)).max(head_end);
    }

    let mut gaps = Vec::new();
    let mut gap_end = tail_start;
    let mut start = tail_start;
    for &user in users.iter().take(limits.user_messages_min.max(1)).filter(|&&user| user < tail_start) {
        let unit = crate::pairs::align_down(units, user)..crate::pairs::align_up(units, user + 1);
        if unit.end < gap_end {
            gaps.push(unit.end..gap_end);
        }
        gap_end = unit.start;
        start = unit.start;
    }
    gaps.reverse();
    // A unit that straddles the head's end belongs to the head.
    let start = start.max(head_end);
    Regions { head: 0..head_end, middle: head_end..start, tail: start..conversation.len(), gaps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::units;
    use engine_api::testing::{assistant, calls, result, system, user};
    use engine_api::{Message, ViewTable};

    const LIMITS: Limits = Limits {
        head_messages: 2,
        head_tokens: 1_000,
        tail_tokens: 60,
        tail_messages_min: 1,
        user_messages_min: 1,
        exchanges: 0,
    };

    /// Each letter a message of 10 tokens or so: s, u, a, and `(`: a call with its result.
    fn list(letters: &str) -> Vec<Message> {
        let mut out = Vec::new();
        for (at, letter) in letters.chars().enumerate() {
            let id = at as u64 + 1;
            let call = format!("c{at}");
            match letter {
                's' => out.push(system(id, "x")),
                'u' => out.push(user(id, "x")),
                'a' => out.push(assistant(id, "x")),
                _ => {
                    out.push(calls(id, &[(&call, "bash", "{}")]));
                    out.push(result(id + 100, &call, "bash", "x"));
                }
            }
        }
        out
    }

    fn divide(letters: &str, limits: Limits) -> String {
        let messages = list(letters);
        let table = ViewTable::new(1, &messages);
        let conversation = table.conversation();
        let units = units(&conversation);
        let found = regions(&conversation, &units, &|_| 10, &limits);
        assert_eq!((found.head.start, found.head.end), (0, found.middle.start));
        assert_eq!((found.middle.end, found.tail.end), (found.tail.start, messages.len()));
        let gaps: Vec<String> = found.gaps.iter().map(|gap| format!(" gap {gap:?}")).collect();
        format!("{:?} {:?}{}", found.head, found.tail, gaps.concat())
    }

    #[test]
    fn the_tail_ends_at_its_tokens_and_between_units() {
        assert_eq!(divide("suauauauauau", LIMITS), "0..3 6..12");
        assert_eq!(divide("sua(((u((", LIMITS), "0..3 9..14", "a sixth message would cut a call from its result");
        assert_eq!(divide("sua", LIMITS), "0..3 3..3");
        assert_eq!(divide("s", LIMITS), "0..1 1..1");
        assert_eq!(divide("", LIMITS), "0..0 0..0");
    }

    #[test]
    fn the_newest_user_message_stays_before_a_long_turn() {
        assert_eq!(divide("suaauaau((((((", LIMITS), "0..3 7..20 gap 8..14");
        let users = Limits { user_messages_min: 2, ..LIMITS };
        assert_eq!(divide("suaauaau((((((", users), "0..3 4..20 gap 5..7 gap 8..14");
        let exchanges = Limits { exchanges: 2, ..LIMITS };
        assert_eq!(divide("suaauaau((((((", exchanges), "0..3 4..20");
    }

    #[test]
    fn a_head_over_its_tokens_is_the_system_message_alone() {
        assert_eq!(divide("su((((((", Limits { head_tokens: 5, ..LIMITS }), "0..1 1..14 gap 2..8");
        assert_eq!(divide("su((((((", LIMITS), "0..4 8..14");
    }

    #[test]
    fn a_minimum_of_messages_stays_whatever_it_costs() {
        assert_eq!(divide("suaaaaaaaaaa", Limits { tail_tokens: 0, tail_messages_min: 4, ..LIMITS }), "0..3 8..12");
    }
}
