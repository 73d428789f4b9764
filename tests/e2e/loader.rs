//! Libraries of several contract versions in one process, and those that do not fit.

use crate::world::{World, bytes};
use engine_api::json::json;
use engine_api::testing::{FakeHost, assistant, system, user};
use engine_api::{
    CompressRequest, ContextEngine, EngineSession, ErrorKind, Message, SessionStart, Step, SubagentEvent, ViewTable,
};
use host_registry::{Library, Source, State};
use support::fixtures::{Fixture, general_manifest, patched};

fn messages() -> Vec<Message> {
    vec![
        system(1, "be brief"),
        user(2, "look at the tests"),
        assistant(3, "there are nine"),
        user(4, "run them"),
        assistant(5, "two fail"),
        user(6, "mend them"),
    ]
}

fn open(engine: &dyn ContextEngine) -> Box<dyn EngineSession> {
    engine.open_session(&FakeHost::default(), &SessionStart::default()).unwrap()
}

fn summary(session: &mut dyn EngineSession) -> String {
    let messages = messages();
    let table = ViewTable::new(7, &messages);
    let host = FakeHost::default();
    let plan = session.compress(&host, &table.conversation(), &CompressRequest::default()).unwrap();
    assert_eq!(plan.base_revision, 7);
    let texts = plan.steps.iter().filter_map(|step| match step {
        Step::Summary(summary) => Some(summary.text.clone()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn answer(session: &mut dyn EngineSession) -> String {
    let table = ViewTable::new(1, &[]);
    session.handle_tool_call(&FakeHost::default(), &table.conversation(), "version", &json!({})).unwrap()
}

#[test]
fn engines_of_three_contract_versions_run_side_by_side() {
    let mut world = World::without_probe();
    world.put("older", &bytes(Fixture::Older));
    world.put("newer", &bytes(Fixture::Newer));
    world.put_general("bad", &bytes(Fixture::Bad), &general_manifest("bad", &["sound", "errors"]));
    world.setup.enabled.push("bad".to_owned());
    let engines = ["newer", "older", "sound"].map(|name| world.loaded(name));
    // Loaded a second time, by another registry: still each its own.
    let again = ["older", "sound", "newer"].map(|name| world.loaded(name));
    for resolved in engines.iter().chain(&again) {
        assert_eq!(resolved.engine.info().name, resolved.name);
    }
    let mut sessions: Vec<_> = engines.iter().map(|resolved| open(resolved.engine.as_ref())).collect();
    let summaries = ["newer summary of 4 messages", "older summary of 4 messages", "4 messages about the task at hand"];
    for _ in 0..2 {
        for (session, expected) in sessions.iter_mut().zip(summaries) {
            assert_eq!(summary(session.as_mut()), expected);
        }
    }
    assert!(answer(sessions[0].as_mut()).starts_with("newer was built for engine API 1.2.0; 5 tokens"));
    assert_eq!(answer(sessions[1].as_mut()), "older was built for engine API 1.0.0; 5 tokens");
    assert!(matches!(engines[0].source, Source::Folder(_)), "{}", engines[0].source);
    assert!(matches!(engines[2].source, Source::General(_)), "{}", engines[2].source);
}

#[test]
fn a_probe_in_another_process_tells_what_each_library_is() {
    let world = World::new();
    world.put("older", &bytes(Fixture::Older));
    world.put("newer", &bytes(Fixture::Newer));
    let registry = world.registry();
    for (name, api) in [("older", "1.0.0"), ("newer", "1.2.0")] {
        let report = registry.probe(registry.discovery().find(name).unwrap()).unwrap();
        assert_eq!((report.name.as_str(), report.engine_api.as_str(), report.panic.as_str()), (name, api, "unwind"));
        assert_eq!(report.engines.len(), 1);
        assert_eq!(report.engines[0].tools[0].name, format!("{name}_version"));
        world.loaded(name);
    }
    let lines = registry.list("older");
    let line = |name: &str| lines.iter().find(|line| line.name == name).unwrap();
    assert_eq!((line("older").state, line("newer").state), (State::Selected, State::Ready));
    assert_eq!(line("newer").api, "1.2.0");
}

#[test]
fn what_an_older_engine_lacks_takes_its_default() {
    let world = World::without_probe();
    world.put("older", &bytes(Fixture::Older));
    let older = world.loaded("older").engine;
    let host = FakeHost::default();
    assert_eq!(older.self_test(&host).unwrap(), "");
    let mut session = open(older.as_ref());
    session.subagent(&SubagentEvent::default());
    let error = session.control(&host, "doctor", &json!({})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("doctor") && error.message.contains("engine API 1.0"), "{}", error.message);
    let library = Library::open(&Fixture::Older.path()).unwrap();
    assert_eq!(library.info().engines, ["older"]);
    // What both sides have goes on working after a default was taken.
    summary(session.as_mut());
    assert_eq!(session.status().compression_count, 1);
    let state = session.export_state().unwrap();
    let mut resumed = open(older.as_ref());
    resumed.import_state(&state).unwrap();
    assert_eq!(resumed.status().compression_count, 1);
}

#[test]
fn what_an_older_host_lacks_takes_its_default() {
    let world = World::without_probe();
    world.put("newer", &bytes(Fixture::Newer));
    let newer = world.loaded("newer").engine;
    let host = FakeHost::default();
    let mut session = open(newer.as_ref());
    let answer = answer(session.as_mut());
    assert!(answer.ends_with("; a host older than engine API 1.2 says nothing of its tools"), "{answer}");
    let control = session.control(&host, "doctor", &json!({})).unwrap();
    assert_eq!(control, "newer ran doctor; a host older than engine API 1.2 says nothing of commands");
    assert_eq!(newer.self_test(&host).unwrap(), "newer is well; metric kept: false");
}

#[test]
fn our_own_engine_loads_as_a_library_beside_the_others() {
    let world = World::new();
    world.put("older", &bytes(Fixture::Older));
    world.put("newer", &bytes(Fixture::Newer));
    world.put("lcm", &bytes(Fixture::Lcm));
    for name in ["older", "lcm", "newer"] {
        let engine = world.loaded(name).engine;
        assert_eq!(engine.info().name, name);
        let _ = open(engine.as_ref());
    }
}

#[test]
fn another_layout_is_refused_with_both_versions_and_the_first_difference() {
    for (fixture, difference) in [
        (Fixture::OtherField, ["compress.fn().", ".messages.data.0.tokens", "expected: u32, found: u64"]),
        (Fixture::SwappedMethods, ["at 0.create.fn()", "UnexpectedField", "update_from_response"]),
    ] {
        for mut world in [World::new(), World::without_probe()] {
            world.put("newer", &bytes(fixture));
            let is_probed = world.setup.runner.is_some();
            let state = if is_probed { State::Incompatible } else { State::NotAnEngine };
            let seen = world.refused("newer", state, &["engine API 1.2.0", "this host's 1.1.0"]);
            for word in difference {
                assert!(seen.contains(word), "{word:?} is not said: {seen}");
            }
            assert!(seen.chars().count() < 1_000, "{seen}");
            // Nothing of it stays behind: the sound one loads afterwards in the same process.
            world.setup.home = world.home().with_file_name("home2");
            world.put("newer", &bytes(Fixture::Newer));
            world.loaded("newer");
        }
    }
}

#[test]
fn another_major_version_is_refused_with_both_versions() {
    let library = bytes(Fixture::OtherMajor);
    let world = World::new();
    world.put("newer", &library);
    world.refused("newer", State::Incompatible, &["engine API 2.0.0", "this host has 1.1.0"]);
    // A note that says otherwise than the code is found out, too.
    let lying = patched(&library, "engine_api=2.0.0", "engine_api=1.1.0");
    world.put("newer", &lying);
    world.refused("newer", State::Incompatible, &["engine API 2.0.0", "this host speaks 1.1.0"]);
}
