//! Conversations and plans in a line each, for tests and for people.

use crate::text::{one_line, thousands};
use engine_api::{CompactionPlan, Conversation, MessageView, PartKind, Role, Span, Step};
use std::fmt::Write;

/// Characters of a text that are shown.
const TEXT_CHARS: usize = 16;

/// Returns a conversation as one line: `U hello… | A [c1 read_file] | T(c1) 1,204 tok`.
pub fn picture(conversation: &Conversation<'_>) -> String {
    let list: Vec<String> = conversation.iter().map(|message| message_picture(&message)).collect();
    list.join(" | ")
}

/// Returns a message in a few words. `Σ` is a summary, `*` marks a pinned message, `u` what a client wrote for the
/// user.
pub fn message_picture(message: &MessageView<'_>) -> String {
    let mut out = String::new();
    if message.is_pinned() {
        out.push('*');
    }
    out.push_str(match message.role() {
        _ if message.is_summary() => "Σ",
        Role::System => "S",
        Role::Developer => "D",
        Role::User if message.is_real_user() => "U",
        Role::User => "u",
        Role::Assistant => "A",
        Role::Tool => "T",
        _ => "?",
    });
    for part in message.parts() {
        // Writing to a string cannot fail.
        let _ = match part.kind() {
            PartKind::Text => write!(out, " {}", one_line(part.text(), TEXT_CHARS)),
            PartKind::ToolCall => write!(out, " [{} {}]", part.call_id(), part.tool_name()),
            PartKind::ToolResult => write!(out, "({}) {} tok", part.call_id(), thousands(part.tokens())),
            PartKind::Reasoning => write!(out, " ~"),
            PartKind::Image => write!(out, " [image]"),
            _ => write!(out, " ?"),
        };
    }
    out
}

/// Returns a plan as one line: `keep 0-2 | Σ 3-17, 19 | keep 18 | rewrite 20.0 | keep 20-24`.
pub fn plan_picture(plan: &CompactionPlan) -> String {
    let list: Vec<String> = plan
        .steps
        .iter()
        .map(|step| match step {
            Step::Keep(span) => format!("keep {}", span_picture(span)),
            Step::Rewrite { message, part, .. } => format!("rewrite {message}.{part}"),
            Step::Summary(summary) => {
                let covers: Vec<String> = summary.covers.iter().map(span_picture).collect();
                format!("Σ{} {}", summary.depth, covers.join(","))
            }
            Step::Insert { kind, .. } => format!("insert {kind}"),
            Step::Drop { span, .. } => format!("drop {}", span_picture(span)),
            _ => "?".to_string(),
        })
        .collect();
    list.join(" | ")
}

fn span_picture(span: &Span) -> String {
    if span.first == span.last { span.first.to_string() } else { format!("{}-{}", span.first, span.last) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::testing::{assistant, calls, result, system, user};
    use engine_api::{Flags, ViewTable};

    #[test]
    fn a_conversation_is_a_line() {
        let mut messages = vec![
            system(1, "be brief"),
            user(2, "please list the files in it"),
            calls(3, &[("c1", "bash", "{}"), ("c2", "bash", "{}")]),
            result(4, "c1", "bash", &"x".repeat(8_000)),
            assistant(5, "done"),
        ];
        messages[4].flags = Flags::SUMMARY.with(Flags::PINNED);
        let table = ViewTable::new(1, &messages);
        assert_eq!(
            picture(&table.conversation()),
            "S be brief | U please list the… | A [c1 bash] [c2 bash] | T(c1) 2,004 tok | *Σ done"
        );
    }

    #[test]
    fn a_plan_is_a_line() {
        let mut plan = CompactionPlan::new(1);
        plan.keep(0..2).summarise(2..9, "text").rewrite(9, 1, "short").keep(9..10).drop_range(10..12, "empty");
        assert_eq!(plan_picture(&plan), "keep 0-1 | Σ0 2-8 | rewrite 9.1 | keep 9 | drop 10-11");
    }
}
