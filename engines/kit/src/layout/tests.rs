//! Layouts become valid plans, and demotion takes from the largest.
use super::*;
use crate::picture::plan_picture;
use engine_api::testing::{assistant, calls, result, system, user};
use engine_api::{Message, SummaryKind, ViewTable, json};

fn count(text: &str) -> u64 {
    text.len() as u64 / 4 + 4
}

fn count_all(texts: &[&str]) -> Vec<u64> {
    texts.iter().map(|text| count(text)).collect()
}

fn conversation() -> Vec<Message> {
    vec![
        system(1, "be brief"),
        user(2, "do it"),
        calls(3, &[("a", "write_file", &json::json!({ "path": "x", "content": "y".repeat(40_000) }).to_string())]),
        result(4, "a", "write_file", "ok"),
        calls(5, &[("b", "bash", "{\"command\":\"make\"}")]),
        result(6, "b", "bash", &"log line\n".repeat(20_000)),
        assistant(7, "done"),
    ]
}

#[test]
fn a_layout_becomes_steps_in_order() {
    let messages = conversation();
    let table = ViewTable::new(5, &messages);
    let mut layout = Layout::new(table.conversation());
    layout.cover([2, 3]);
    let text = "short".to_string();
    assert_eq!(layout.shorten(vec![Rewrite { message: 5, part: 0, text }], &count_all), 1);
    let covers = spans(&layout.covered());
    let summary = SummaryStep { text: "t".into(), covers, nodes: vec![], depth: 0, kind: SummaryKind::Leaf };
    let plan = layout.into_plan(vec![summary]);
    assert_eq!(plan.base_revision, 5);
    assert_eq!(plan_picture(&plan), "keep 0-1 | Σ0 2-3 | keep 4-6 | rewrite 5.0");
}

#[test]
fn demotion_takes_from_the_largest_and_keeps_to_the_budget() {
    let messages = conversation();
    let table = ViewTable::new(1, &messages);
    let calls = CallTable::new(&table.conversation());
    for budget in [30_000, 10_000, 2_000, 400] {
        let mut layout = Layout::new(table.conversation());
        let positions = layout.kept();
        let got = layout.demote(&positions, budget, 0, &calls, &count);
        assert!(got <= budget, "{got} of {budget}");
        assert_eq!(got, layout.kept_tokens());
        let plan = layout.into_plan(vec![]);
        for step in &plan.steps {
            if let Step::Rewrite { message: 2, text, .. } = step {
                assert!(json::from_str::<json::Value>(text).unwrap().is_object());
            }
        }
        assert!(!plan_picture(&plan).contains("rewrite 3"), "a short result is left alone");
    }
}

#[test]
fn texts_pinned_messages_and_losses_are_not_rewritten() {
    let mut messages = conversation();
    messages[5].flags = Flags::PINNED;
    let table = ViewTable::new(1, &messages);
    let calls = CallTable::new(&table.conversation());
    let mut layout = Layout::new(table.conversation());
    layout.demote(&layout.kept(), 100, 0, &calls, &count);
    let rewrite = |message, text: &str| Rewrite { message, part: 0, text: text.into() };
    let wrong = vec![rewrite(1, "x"), rewrite(5, "x"), rewrite(99, "x"), rewrite(3, &"longer than it was ".repeat(20))];
    assert_eq!(layout.shorten(wrong, &count_all), 0);
    assert_eq!(plan_picture(&layout.into_plan(vec![])), "keep 0-6 | rewrite 2.0");
}
