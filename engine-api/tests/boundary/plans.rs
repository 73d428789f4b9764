//! Every step of a plan comes back from an engine as it was made there.

use crate::wire::compressing;
use engine_api::ffi::{RawPlan, RawStep};
use engine_api::testing::FakeHost;
use engine_api::{
    CompactionPlan, CompressRequest, ErrorKind, InsertKind, NodeId, PlanReport, Role, Span, Step, SummaryKind,
    SummaryStep, ViewTable,
};

fn returned(plan: &CompactionPlan) -> CompactionPlan {
    let copy = plan.clone();
    let mut session = compressing(move |_, _, _| Ok(copy.clone()));
    let table = ViewTable::new(1, &[]);
    session.compress(&FakeHost::default(), &table.conversation(), &CompressRequest::default()).unwrap()
}

#[track_caller]
fn check(steps: Vec<Step>) {
    let plan = CompactionPlan { base_revision: 3, steps, report: PlanReport::default() };
    assert_eq!(returned(&plan), plan);
}

const TEXTS: [&str; 5] = ["", "text", "a\nb\r\n\t\"\\", "ö 😀 \u{0} \u{feff}", "[CONTEXT SUMMARY] {\"a\":1}"];
const ENDS: [(usize, usize); 4] = [(0, 0), (1, 9), (5_000_000_000, usize::MAX), (usize::MAX, 0)];

#[test]
fn keeps_and_drops_come_back() {
    for (first, last) in ENDS {
        check(vec![Step::Keep(Span { first, last })]);
        for reason in TEXTS {
            check(vec![Step::Drop { span: Span { first, last }, reason: reason.to_string() }]);
        }
    }
}

#[test]
fn rewrites_come_back() {
    for text in TEXTS {
        check(vec![Step::Rewrite { message: 7, part: u32::MAX as usize, text: text.to_string() }]);
    }
    // A part beyond 32 bits cannot exist; its number is cut and not wrapped around.
    let step = Step::Rewrite { message: 0, part: usize::MAX, text: String::new() };
    let plan = CompactionPlan { base_revision: 0, steps: vec![step], report: PlanReport::default() };
    assert_eq!(returned(&plan).steps, [Step::Rewrite { message: 0, part: u32::MAX as usize, text: String::new() }]);
}

#[test]
fn summaries_come_back() {
    for kind in [SummaryKind::Leaf, SummaryKind::Condensed, SummaryKind::Iterative] {
        for text in TEXTS {
            check(vec![Step::Summary(SummaryStep {
                text: text.to_string(),
                covers: ENDS.iter().map(|(first, last)| Span { first: *first, last: *last }).collect(),
                nodes: vec![NodeId(0), NodeId(1), NodeId(u64::MAX)],
                depth: u32::MAX,
                kind,
            })]);
        }
        check(vec![Step::Summary(SummaryStep { text: "x".into(), covers: vec![], nodes: vec![], depth: 0, kind })]);
    }
}

#[test]
fn inserts_come_back() {
    let roles = [Role::System, Role::Developer, Role::User, Role::Assistant, Role::Tool, Role::Other];
    let kinds = [InsertKind::LeadIn, InsertKind::Restored, InsertKind::Replay, InsertKind::Note];
    for role in roles {
        for kind in kinds {
            for message in [None, Some(0), Some(12)] {
                check(vec![Step::Insert { role, kind, message, text: "text ö".to_string() }]);
            }
        }
    }
}

#[test]
fn order_report_and_length_come_back() {
    let mut plan = CompactionPlan::new(u64::MAX);
    plan.keep(0..2).summarise(2..9, "so far").rewrite(10, 0, "short").drop_range(9..10, "noise").keep(10..12);
    plan.report.completions = u32::MAX;
    plan.report.fallback = "no model \"x\" answered".to_string();
    plan.report.notes = vec![String::new(), "two\nlines".to_string()];
    assert_eq!(returned(&plan), plan);
    plan.steps = (0..100_000).map(|at| Step::Keep(Span { first: at, last: at })).collect();
    assert_eq!(returned(&plan), plan);
    assert_eq!(returned(&CompactionPlan::default()), CompactionPlan::default());
}

#[test]
fn a_step_or_a_code_of_a_later_version_is_told_apart() {
    let plan: RawPlan = {
        let mut plan = CompactionPlan::new(1);
        plan.keep(0..1).summarise(1..2, "x");
        plan
    }
    .into();
    let changed = |change: &dyn Fn(&mut RawStep)| {
        let mut plan = plan.clone();
        plan.steps.iter_mut().for_each(change);
        plan.into_plan()
    };
    let error = changed(&|step| step.op = 99).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal);
    assert!(error.message.contains("kind 99"), "{}", error.message);
    // A kind that is not known becomes the plainest one, and so does a report that does not read.
    let steps = changed(&|step| step.kind = 99).unwrap().steps;
    assert!(matches!(&steps[1], Step::Summary(summary) if summary.kind == SummaryKind::Leaf));
    let mut plan = plan.clone();
    plan.report = "{\"completions\":\"many\"".into();
    assert_eq!(plan.into_plan().unwrap().report, PlanReport::default());
}
