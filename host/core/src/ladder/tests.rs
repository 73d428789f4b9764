//! Tests of the way from a proposal to a context.
use super::*;
use crate::sample::{Sample, picture, session};
use engine_api::ViewTable;
use engine_api::testing::{assistant, calls, result, system, user};

/// What the two engines answer.
struct Script {
    engine: Option<Result<CompactionPlan, EngineError>>,
    built_in: Result<CompactionPlan, EngineError>,
}
impl Proposer for Script {
    fn engine(&mut self) -> Option<Result<CompactionPlan, EngineError>> {
        self.engine.take()
    }
    fn built_in(&mut self) -> Result<CompactionPlan, EngineError> {
        self.built_in.clone()
    }
}

fn long() -> Session {
    let mut messages = vec![system(0, "be careful"), user(0, "fix the parser; never touch the lexer")];
    for round in 0..20 {
        let call = format!("c{round}");
        messages.push(calls(0, &[(&call, "read_file", "{}")]));
        messages.push(result(0, &call, "read_file", &"a line of the file\n".repeat(200)));
    }
    messages.push(assistant(0, "fixed"));
    messages.push(user(0, "thanks, now the tests"));
    session(messages)
}

fn descend_to(session: &Session, target: u64, mut script: Script) -> Descent {
    let table = ViewTable::new(session.revision, session.view.iter().map(AsRef::as_ref));
    let goal = Goal { target_tokens: target, threshold_tokens: 8 * target };
    descend(session, &table.conversation(), goal, &mut script, &Sample)
}

fn plan(session: &Session, build: impl FnOnce(&mut CompactionPlan)) -> Result<CompactionPlan, EngineError> {
    let mut plan = CompactionPlan::new(session.revision);
    build(&mut plan);
    Ok(plan)
}

fn shown(descent: &Descent) -> String {
    let entries = descent.context.as_ref().map(|context| context.entries()).unwrap_or_default();
    picture(entries.iter().map(|entry| entry.message.as_ref()))
}

#[test]
fn the_engines_plan_is_taken_if_it_is_sound_and_the_users_words_are_quoted() {
    let session = long();
    let last = session.view.len() - 1;
    let engine = plan(&session, |plan| {
        plan.keep(0..1).summarise(1..last, "the parser was fixed").keep(last..last + 1);
    });
    let descent = descend_to(&session, 4_000, Script { engine: Some(engine), built_in: Err("not asked".into()) });
    assert_eq!(descent.rung, Some(Rung::Engine));
    assert_eq!(shown(&descent), "SΣWU");
    let words = descent.context.unwrap().entries()[2].message.text();
    assert!(words.contains("> fix the parser; never touch the lexer"), "{words}");
}

#[test]
fn a_plan_that_loses_the_user_gives_way_to_the_built_in() {
    let session = long();
    let all = session.view.len();
    let engine = plan(&session, |plan| {
        plan.keep(0..1).summarise(1..all, "all of it");
    });
    let built_in = plan(&session, |plan| {
        plan.keep(0..1).summarise(1..all - 1, "most of it").keep(all - 1..all);
    });
    let descent = descend_to(&session, 4_000, Script { engine: Some(engine), built_in });
    assert_eq!(descent.rung, Some(Rung::BuiltIn));
    assert!(descent.attempts[0].problem.contains("newest message"), "{:?}", descent.attempts);
}

#[test]
fn without_a_plan_the_largest_results_are_shortened() {
    let session = long();
    let target = session.tokens() / 2;
    let descent = descend_to(&session, target, Script { engine: None, built_in: Err("out of order".into()) });
    assert_eq!(descent.rung, Some(Rung::Demotion));
    let context = descent.context.unwrap();
    assert_eq!(context.entries().len(), session.view.len());
    assert!(context.tokens() <= target);
}

#[test]
fn the_smallest_context_keeps_instructions_and_the_newest_user_message() {
    let session = long();
    let descent = descend_to(&session, 400, Script { engine: None, built_in: Err("out of order".into()) });
    assert_eq!(descent.rung, Some(Rung::Smallest));
    let shown = shown(&descent);
    assert!(shown.starts_with("SΣ") && shown.ends_with('U'), "{shown}");
}

#[test]
fn a_target_out_of_reach_names_its_floor() {
    let session = session(vec![
        system(0, &"rules ".repeat(500)),
        user(0, &"words ".repeat(500)),
        assistant(0, &"a ".repeat(99)),
        user(0, "go on"),
    ]);
    let descent = descend_to(&session, 100, Script { engine: None, built_in: Err("out of order".into()) });
    assert!(descent.floor.as_ref().is_some_and(|floor| floor.contains("instructions and tools")), "{descent:?}");
}

#[test]
fn a_lone_message_stays_as_it_is_with_a_reason() {
    let session = session(vec![user(0, "hello")]);
    let descent = descend_to(&session, 3, Script { engine: None, built_in: Err("nothing to do".into()) });
    assert!(descent.context.is_none() && descent.floor.is_some());
}

#[test]
fn words_that_were_quoted_before_are_carried_from_run_to_run() {
    let mut session = long();
    for round in 0..6 {
        let last = session.view.len() - 1;
        let plan = plan(&session, |plan| {
            plan.keep(0..1).summarise(1..last, "the parser was fixed").keep(last..last + 1);
        });
        let descent =
            descend_to(&session, session.tokens() - 1, Script { engine: Some(plan), built_in: Err("no".into()) });
        let Some(context) = descent.context else { panic!("round {round}: {:?}", descent.attempts) };
        session.commit(context);
        let out = crate::outgoing::outgoing(&session.view, &Sample).unwrap();
        assert!(out.join("\n").contains("fix the parser; never touch the lexer"), "round {round}");
        // The conversation is read again by a run that knows only what was written, and goes on.
        let text = session.view.iter().skip(1).take(2).map(|message| message.text()).collect::<Vec<_>>().join("\n\n");
        let mut written = crate::scribe::Scribe::text(&Sample, Role::User, &text).unwrap();
        written.flags = Flags::SYNTHETIC;
        let more = assistant(0, &"and more work was done ".repeat(40));
        session =
            crate::sample::session(vec![system(0, "be careful"), written, user(0, "thanks"), more, user(0, "go on")]);
    }
}
