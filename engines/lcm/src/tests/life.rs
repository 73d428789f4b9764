//! Long lives: random host behaviours, every window, odd models, and a replay whose compactions are counted.
use super::store::{MOODS, Mood, Store};
use super::*;
use engine_api::{Basis, EngineSession, ErrorKind, PromptTokens};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn open(store: &Store, window: u64, settings: json::Value) -> Box<dyn EngineSession> {
    let mut start = SessionStart::default();
    start.session_id = "here".to_string();
    start.settings = settings;
    start.model = store.request(window, 0).model;
    new(&json::Value::Null).unwrap().open_session(store, &start).unwrap()
}

/// A turn: a request, rounds of a tool, an answer.
fn turn(dice: &mut Dice, number: usize, bytes_max: u64) -> Vec<Message> {
    let mut list = vec![user(0, &format!("request {number}: please look at src/part_{number}.rs"))];
    for round in 0..dice.roll(4) {
        let call = format!("c{number}_{round}");
        list.push(calls(0, &[(&call, "terminal", "{\"command\":\"cargo test\"}")]));
        list.push(result(0, &call, "terminal", &"a line of output\n".repeat((dice.roll(bytes_max) / 17) as usize)));
    }
    list.push(assistant(0, &format!("Turn {number} is done. {}", "It went well. ".repeat(dice.roll(30) as usize))));
    list
}

/// Compacts; a plan is applied and every invariant checked.
fn compact_once(store: &mut Store, session: &mut Box<dyn EngineSession>, request: &CompressRequest) -> bool {
    let plan = {
        let table = store.table();
        session.compress(&*store, &table.conversation(), request)
    };
    match plan {
        Ok(plan) => {
            let before = store.tokens();
            assert!(plan.report.completions <= request.completions_max);
            let result = store.apply(&plan);
            session.plan_result(&result);
            store.check();
            assert!(store.tokens() < before, "a compaction lowers the tokens");
            true
        }
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::NothingToCompact, "{error}");
            false
        }
    }
}

#[test]
fn ten_thousand_random_acts_of_a_host_leave_no_hole_and_no_overflow() {
    let mut acts = 0;
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    while acts < 10_000 {
        let window = [8_000, 16_000, 32_000, 128_000, 1_000_000][dice.roll(5) as usize];
        let mut store = Store::new(vec![system(0, "You are careful.")]);
        let mut session = open(&store, window, json::json!({ "large_result_tokens": 1_000 }));
        let biggest = window.min(30_000);
        for number in 0..60 {
            acts += 1;
            store.mood = MOODS[dice.roll(8) as usize];
            match dice.roll(12) {
                0 => {
                    // A restart: only the exported state is left, and not always that.
                    let state = session.export_state().unwrap();
                    session = open(&store, window, json::json!({ "large_result_tokens": 1_000 }));
                    if dice.roll(2) == 0 {
                        session.import_state(&state).unwrap();
                    }
                }
                1 => {
                    // A plan is made and lost.
                    let request = store.request(window, 2);
                    let table = store.table();
                    let _ = session.compress(&store, &table.conversation(), &request);
                    session.plan_result(&PlanResult::default());
                }
                2 => {
                    let _ = session.control(&store, "rotate", &json::Value::Null);
                }
                3 => {
                    // The newest turn is taken back.
                    while store.messages.len() > 1
                        && store.view.last().is_some_and(|m| m.id.0 == store.messages.len() as u64)
                    {
                        let was_user = store.view.last().unwrap().is_real_user();
                        store.view.pop();
                        store.messages.pop();
                        if was_user {
                            break;
                        }
                    }
                }
                _ => store.say(turn(&mut dice, number, biggest)),
            }
            let mut request = store.request(window, dice.roll(3) as u32);
            request.force = dice.roll(10) == 0;
            let prompt = PromptTokens { count: store.tokens(), basis: Basis::Counted };
            let decision = session.should_compress(prompt);
            if decision.compress || request.force || dice.roll(20) == 0 {
                compact_once(&mut store, &mut session, &request);
            }
            let newest: u64 = {
                let at = store.view.iter().rposition(|m| m.is_real_user()).unwrap_or(0);
                store.view[at..].iter().map(|m| u64::from(m.tokens)).sum()
            };
            assert!(store.tokens() <= window.max(newest + 2_000), "{} in {window}", store.tokens());
        }
    }
}

#[test]
fn a_huge_result_never_overflows_any_window() {
    for window in [8_000, 16_000, 32_000, 64_000, 128_000, 1_000_000] {
        let mut store = Store::new(vec![system(0, "s")]);
        for number in 0..12 {
            store.say(turn(&mut Dice(number + 1), number as usize, 4_000));
        }
        let huge = "one line of a huge log\n".repeat(window as usize / 2);
        store.say(vec![user(0, "read it"), calls(0, &[("h", "read_file", "{\"path\":\"a\"}")])]);
        store.say(vec![result(0, "h", "read_file", &huge)]);
        let id = store.messages.len();
        let mut session = open(&store, window, json::Value::Null);
        let request = store.request(window, 0);
        assert!(compact_once(&mut store, &mut session, &request));
        assert!(store.tokens() < window / 4 * 3, "{} in {window}", store.tokens());
        let stub = &store.view.last().unwrap().parts[0].text;
        assert!(stub.contains(&format!("lcm_expand(store_id={id})")), "{stub:.300}");
        let table = store.table();
        let answer = session
            .handle_tool_call(
                &store,
                &table.conversation(),
                "lcm_expand",
                &json::json!({ "id": stub, "max_tokens": 16_000 }),
            )
            .unwrap();
        let answer: json::Value = json::from_str(&answer).unwrap();
        assert_eq!(answer["store_id"], id);
        assert!(huge.starts_with(answer["content"].as_str().unwrap()) && answer["has_more"] == true);
    }
}

#[test]
fn every_model_ends_in_a_plan_under_the_target() {
    for mood in MOODS {
        let mut store = Store::new(session(40, 5, 2_000));
        store.mood = mood;
        let mut session = open(&store, 32_000, json::Value::Null);
        let request = store.request(32_000, 2);
        assert!(compact_once(&mut store, &mut session, &request), "{mood:?}");
        assert!(store.tokens() < 24_000, "{mood:?}: {}", store.tokens());
        assert!(store.asked.lock().unwrap().len() <= 2);
        let is_pending = store.nodes.values().any(|node| node.text.contains("Made without a model"));
        assert_eq!(is_pending, mood != Mood::Good, "{mood:?}");
    }
}

#[test]
fn what_no_model_wrote_is_written_from_its_messages_later() {
    let mut store = Store::new(engine_kit::testing::session(40, 5, 2_000));
    store.mood = Mood::Fails;
    let mut session = open(&store, 64_000, json::Value::Null);
    let request = store.request(64_000, 2);
    assert!(compact_once(&mut store, &mut session, &request));
    let pending =
        |store: &Store| store.view.iter().filter(|m| m.parts[0].text.contains("Made without a model")).count();
    assert!(pending(&store) > 0);
    store.mood = Mood::Good;
    for _ in 0..12 {
        store.say(session_turns(6));
        let request = store.request(64_000, 8);
        compact_once(&mut store, &mut session, &request);
    }
    assert_eq!(pending(&store), 0);
    let asked = store.asked.lock().unwrap();
    assert!(asked.iter().any(|request| request.prompt.contains("[TOOL RESULT terminal]: run ")), "from the messages");
}

fn session_turns(turns: usize) -> Vec<Message> {
    engine_kit::testing::session(turns, 5, 2_000).into_iter().skip(1).collect()
}

#[test]
fn half_a_million_tokens_in_a_window_of_128k_take_few_compactions_and_reuse_the_prefix() {
    let window = 128_000;
    let mut store = Store::new(vec![system(0, &"rules of the house\n".repeat(300))]);
    let mut session = open(&store, window, json::Value::Null);
    let mut dice = Dice(42);
    let (mut said, mut sent, mut reused, mut compactions, mut calls_made, mut most) =
        (0u64, 0u64, 0u64, 0u32, 0u32, 0u64);
    let mut before: Vec<String> = Vec::new();
    let mut number = 0;
    while said < 500_000 {
        let list = turn(&mut dice, number, 7_500);
        number += 1;
        said += list.iter().map(|message| u64::from(message.tokens)).sum::<u64>();
        for message in list {
            let is_call_next = message.role != engine_api::Role::Assistant;
            store.say(vec![message]);
            if !is_call_next {
                continue;
            }
            let prompt = PromptTokens { count: store.tokens(), basis: Basis::Counted };
            if session.should_compress(prompt).compress {
                let request = store.request(window, 2);
                compactions += u32::from(compact_once(&mut store, &mut session, &request));
            }
            calls_made += 1;
            most = most.max(store.tokens());
            let now: Vec<String> = store.view.iter().map(|m| format!("{}{}", m.raw, m.parts[0].text)).collect();
            if !before.is_empty() {
                sent += now.iter().map(|text| text.len() as u64).sum::<u64>();
                let shared = now.iter().zip(&before).take_while(|(a, b)| a == b);
                reused += shared.map(|(text, _)| text.len() as u64).sum::<u64>();
            }
            before = now;
        }
    }
    let share = reused as f64 / sent as f64 * 100.0;
    let line = format!(
        "{said} tokens, {calls_made} calls, {compactions} compactions, {share:.2} % of prefix bytes reused, at most {most} tokens"
    );
    assert!(compactions <= 8 && share >= 97.0 && most <= window, "{line}");
}

#[test]
fn hundreds_of_summaries_stay_within_their_share_and_miss_nothing() {
    let mut store = Store::new(vec![system(0, "s")]);
    let mut session = open(&store, 16_000, json::json!({ "leaf_chunk_tokens": 1_000 }));
    let mut dice = Dice(7);
    for number in 0..900 {
        store.say(turn(&mut dice, number, 3_000));
        let prompt = PromptTokens { count: store.tokens(), basis: Basis::Counted };
        if session.should_compress(prompt).compress {
            let request = store.request(16_000, (number % 2) as u32 * 8);
            compact_once(&mut store, &mut session, &request);
        }
    }
    assert!(store.nodes.len() > 150, "{}", store.nodes.len());
    let summaries: u64 = store.view.iter().filter(|m| m.node.0 != 0).map(|m| u64::from(m.tokens)).sum();
    assert!(summaries < 8_000, "{summaries}");
    let table = store.table();
    let doctor = session.handle_tool_call(&store, &table.conversation(), "lcm_doctor", &json::Value::Null).unwrap();
    let doctor: json::Value = json::from_str(&doctor).unwrap();
    for check in ["summaries_known", "coverage_overlap", "coverage_holes"] {
        let found = doctor["checks"].as_array().unwrap().iter().find(|entry| entry["check"] == check).unwrap();
        assert_eq!(found["status"], "ok", "{found}");
    }
    assert!(store.nodes.values().map(|node| node.depth).max() >= Some(2));
}

#[test]
fn the_same_conversation_gives_the_same_plan() {
    let store = Store::new(session(40, 5, 2_000));
    let request = store.request(32_000, 0);
    let table = store.table();
    let plans: Vec<CompactionPlan> = (0..2)
        .map(|_| open(&store, 32_000, json::Value::Null).compress(&store, &table.conversation(), &request).unwrap())
        .collect();
    assert_eq!(plans[0], plans[1]);
}

#[test]
fn patterns_leave_sessions_and_messages_alone() {
    let store = Store::new(session(40, 5, 2_000));
    let table = store.table();
    for key in ["ignore_session_patterns", "stateless_session_patterns"] {
        let mut session = open(&store, 32_000, json::json!({ key: ["he*"] }));
        let error = session.compress(&store, &table.conversation(), &store.request(32_000, 0)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(session.should_compress(PromptTokens { count: 1 << 40, basis: Basis::Counted }).host_decides);
        let answer =
            session.handle_tool_call(&store, &table.conversation(), "lcm_grep", &json::json!({ "query": "import" }));
        assert!(answer.unwrap().contains("\"results\":[{"), "tools work");
    }
    let mut session = open(&store, 32_000, json::json!({ "ignore_message_patterns": ["^Turn \\d+ is done"] }));
    session.compress(&store, &table.conversation(), &store.request(32_000, 2)).unwrap();
    let asked = store.asked.lock().unwrap();
    assert!(asked.iter().all(|request| !request.prompt.contains("is done: the root")), "left out of summaries");
    assert!(asked[0].prompt.contains("cargo test"));
}

#[test]
fn deep_summaries_are_carried_into_a_new_session_once() {
    let mut old = Store::new(session(3, 1, 100));
    for (id, depth) in [(1, 0), (2, 2), (3, 3)] {
        let node =
            super::store::Node { text: format!("arc of depth {depth}"), depth, messages: vec![2], nodes: vec![] };
        old.nodes.insert(id, node);
    }
    let mut session = open(&old, 32_000, json::Value::Null);
    session.carry_over(&old, "old").unwrap();
    session.carry_over(&old, "nowhere").unwrap();
    let state = session.export_state().unwrap();
    let mut session = open(&old, 32_000, json::Value::Null);
    session.import_state(&state).unwrap();
    let table = old.table();
    let plan = session.select_context(&old, &table.conversation(), &old.request(32_000, 0)).unwrap();
    let Step::Insert { text, .. } = &plan.steps[1] else { panic!("{plan:?}") };
    assert!(text.contains("arc of depth 2") && text.contains("arc of depth 3") && !text.contains("depth 0"), "{text}");
    assert!(text.contains(r#"lcm_expand {"node_id":3,"session_id":"old"}"#), "{text}");

    old.say(session_turns(40));
    let request = old.request(32_000, 0);
    assert!(compact_once(&mut old, &mut session, &request));
    assert_eq!(old.view.iter().filter(|m| m.parts[0].text.contains("arc of depth 3")).count(), 1);
    let table = old.table();
    let error = session.select_context(&old, &table.conversation(), &old.request(32_000, 0)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "it stands in the conversation now");

    let mut none = open(&old, 32_000, json::json!({ "new_session_retain_depth": -1 }));
    none.carry_over(&old, "old").unwrap();
    assert!(none.select_context(&old, &table.conversation(), &old.request(32_000, 0)).is_err());
}
