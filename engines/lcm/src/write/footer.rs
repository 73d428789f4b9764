//! The last line of a summary: what it covers, and calls that return it.

use engine_api::{Conversation, MessageId, MessageView};
use engine_kit::anchors::{AnchorKind, anchors};
use engine_kit::text::{fit, one_line};
use std::fmt::Write;

/// Begins the last line of a summary that no model has written.
pub(crate) const PENDING: &str = "[Made without a model, to be written again.";
/// Newest messages of a stretch that are looked through for a word to search.
const SEARCHED_MESSAGES: usize = 24;
/// Ranges and nodes that are listed; of more the whole span is named.
const LISTED_MAX: usize = 4;

/// Tells whether a message is a summary that no model has written.
pub(crate) fn is_pending(message: &MessageView<'_>) -> bool {
    message.is_summary() && message.parts().any(|part| part.text().contains(PENDING))
}

/// Ends a shortened result: the call that returns the whole.
pub(crate) fn pointer(message: MessageId) -> String {
    format!("[Whole: lcm_expand(store_id={})]", message.0)
}

/// What a summary covers.
pub(super) struct Footer {
    long: String,
    short: String,
}

impl Footer {
    pub(super) fn of(conversation: &Conversation<'_>, positions: &[usize], is_pending: bool) -> Footer {
        let mut nodes: Vec<u64> = Vec::new();
        let mut messages: Vec<u64> = Vec::new();
        for message in positions.iter().filter_map(|&position| conversation.get(position)) {
            match message.node() {
                Some(node) => nodes.push(node.0),
                None if message.id().0 != 0 => messages.push(message.id().0),
                None => {}
            }
        }
        messages.sort_unstable();
        let mut covered = Vec::new();
        let mut calls = Vec::new();
        if !nodes.is_empty() {
            let shown: Vec<String> = nodes.iter().take(LISTED_MAX).map(u64::to_string).collect();
            let rest = nodes.len() - shown.len();
            let rest = if rest == 0 { String::new() } else { format!(" and {rest} more") };
            covered.push(format!("summaries {}{rest}", shown.join(", ")));
            calls.extend(nodes.first().map(|node| format!("lcm_expand(node_id={node})")));
        }
        if !messages.is_empty() {
            let ranges = ranges(&messages);
            covered.push(format!("messages {ranges}"));
            calls.push(format!("lcm_expand(store_ids=\"{ranges}\")"));
        }
        let newest = positions.len().saturating_sub(SEARCHED_MESSAGES);
        let found = anchors(conversation, positions.get(newest..).unwrap_or_default());
        let kinds = [AnchorKind::Path, AnchorKind::Error, AnchorKind::Branch, AnchorKind::Commit, AnchorKind::Issue];
        let word = kinds.into_iter().find_map(|kind| found.of(kind).first()).map(|anchor| one_line(anchor.text, 60));
        let word = word.filter(|word| !word.contains(['"', '\\']));
        let search = word.map_or(String::new(), |word| format!(" Search: lcm_grep(query=\"{word}\")"));
        let whole = if calls.is_empty() { "lcm_grep finds the messages".to_string() } else { calls.join(", ") };
        let opening = if is_pending { PENDING.to_string() + " " } else { "[".to_string() };
        Footer {
            long: format!("{opening}Covers {}. Whole: {whole}.{search}]", covered.join(" and ")),
            short: format!("{opening}Whole: {}]", calls.last().map_or("lcm_grep", String::as_str)),
        }
    }

    /// Ends a text with the longest line that fits; the text gives way to the short one.
    pub(super) fn end(&self, text: &str, tokens_max: u64, count: &dyn Fn(&str) -> u64) -> String {
        let joined =
            |text: &str, line: &str| if text.is_empty() { line.to_string() } else { format!("{text}\n\n{line}") };
        let long = joined(text, &self.long);
        if count(&long) <= tokens_max {
            return long;
        }
        let short = joined(text, &self.short);
        if count(&short) <= tokens_max {
            return short;
        }
        let line_tokens = count(&self.short).saturating_add(8);
        let mut out = fit(text, tokens_max.saturating_sub(line_tokens), count);
        if out.is_empty() && !text.is_empty() && count(&self.short) > tokens_max {
            // Not even the line fits: a few words are what there is room for.
            out = fit(text, tokens_max, count);
            return if out.is_empty() { self.short.clone() } else { out };
        }
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        let _ = write!(out, "{}", self.short);
        out
    }
}

/// Ascending numbers as ranges: `3-7,9`; the whole span where there are many.
fn ranges(numbers: &[u64]) -> String {
    let mut list: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match list.last_mut() {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number,
            _ => list.push((number, number)),
        }
    }
    if let (Some((first, _)), Some((_, last)), true) = (list.first(), list.last(), list.len() > LISTED_MAX) {
        list = vec![(*first, *last)];
    }
    let written: Vec<String> = list
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    written.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::ViewTable;
    use engine_api::testing::{assistant, calls, user};

    #[test]
    fn the_line_names_what_is_covered_and_gives_way_last() {
        let messages = [user(3, "see src/lib.rs"), assistant(4, "ok"), calls(9, &[("c", "bash", "{}")])];
        let table = ViewTable::new(1, &messages);
        let footer = Footer::of(&table.conversation(), &[0, 1, 2], false);
        let count = |text: &str| text.len() as u64;
        let whole = footer.end("A text.", 1_000, &count);
        let want = "A text.\n\n[Covers messages 3-4,9. Whole: lcm_expand(store_ids=\"3-4,9\"). Search: \
                    lcm_grep(query=\"src/lib.rs\")]";
        assert_eq!(whole, want);
        for tokens in 0..160 {
            let text = footer.end(&"word ".repeat(40), tokens, &count);
            assert!(!text.is_empty() && (text.len() as u64 <= tokens || tokens < 41), "{tokens}: {text}");
            assert!(tokens < 60 || text.ends_with("lcm_expand(store_ids=\"3-4,9\")]"), "{tokens}: {text}");
        }
        assert_eq!(ranges(&[1, 3, 5, 7, 9, 11]), "1-11");
        assert!(Footer::of(&table.conversation(), &[0], true).end("", 1_000, &count).starts_with(PENDING));
    }
}
