//! Questions on the live request, and the choice between that and a question apart.

use crate::world::{KEY, MAIN_KEY, World, outcomes, question_to};
use engine_api::{CompletionModel, Dialect};
use host_core::summariser::{Sizes, Summariser};
use support::provider::{Provider, Reply};

const BODIES: [(Dialect, &str, &str, &str); 3] = [
    (
        Dialect::OpenAiChat,
        r#"{ "model":"live", "stream": true,"stream_options":{"include_usage":true}, "messages" : [ {"role":"user","content":"a \u00e9 1.50"} , {"role":"assistant","content":"b"},{"role":"user","content":"c"} ],"tools":[{"type":"function","function":{"name":"t","parameters":{}}}],"max_tokens":100}"#,
        r#""messages" : [ {"role":"user","content":"a \u00e9 1.50"} , {"role":"assistant","content":"b"},{"role":"user","content":"c"} ,{"role":"user","content":"Sum up"}],"tools":[{"type":"function","function":{"name":"t","parameters":{}}}],"max_tokens":null,"tool_choice":"none"}"#,
        r#"{ "model":"live", "stream": false,"stream_options":null, "#,
    ),
    (
        Dialect::Anthropic,
        r#"{"model":"live","max_tokens":32000,"stream":true,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"a"}],"tools":[{"name":"t","input_schema":{"type":"object"}}]}"#,
        r#""messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"Sum up"}]}],"tools":[{"name":"t","input_schema":{"type":"object"}}]}"#,
        r#"{"model":"live","max_tokens":32000,"stream":false,"system":[{"type":"text","text":"s"}],"#,
    ),
    (
        Dialect::Responses,
        r#"{"model":"live","instructions":"i","input":"only a text","stream":true}"#,
        r#""input":[{"type":"message","role":"user","content":"only a text"},{"type":"message","role":"user","content":[{"type":"input_text","text":"Sum up"}]}],"stream":false}"#,
        r#"{"model":"live","instructions":"i","#,
    ),
];

#[test]
fn the_live_request_leaves_with_the_question_behind_it_and_every_other_byte_kept() {
    for (dialect, body, end, start) in BODIES {
        let main = Provider::start(MAIN_KEY, [Reply::Answer("summary".to_owned())]);
        let world = World::new(&main).with_main(&main, dialect);
        let headers = [("Anthropic-Beta".to_owned(), "b1".to_owned()), ("x-secret".to_owned(), "no".to_owned())];
        let request = question_to(CompletionModel::MainOnPrefix, "Sum up");
        let got = world.ask_on(&world.client(), &request, body, &headers);
        assert_eq!(got.completion.as_ref().unwrap().text, "summary");
        let seen = &main.seen()[0];
        assert_eq!(seen.body, format!("{start}{end}"));
        assert_eq!((seen.header("anthropic-beta"), seen.header("x-secret")), (Some("b1"), None));
    }
}

#[test]
fn a_prefix_that_cannot_carry_a_question_costs_no_request() {
    let main = Provider::start(MAIN_KEY, []);
    let world = World::new(&main).with_main(&main, Dialect::OpenAiChat);
    let request = question_to(CompletionModel::MainOnPrefix, "Sum up");
    let open = r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"t","arguments":"{}"}}]}]}"#;
    for body in
        ["", "[]", "{}", r#"{"model":"m"}"#, r#"{"model":"m","messages":7}"#, r#"{"model":"m","messages":[]}"#, open]
    {
        let got = world.ask_on(&world.client(), &request, body, &[]);
        assert!(got.calls.is_empty() && got.completion.unwrap_err().message.contains("live request"), "{body}");
    }
}

#[test]
fn an_answer_of_tool_calls_on_the_prefix_is_rejected() {
    let (dialect, body, ..) = BODIES[1];
    let main = Provider::start(MAIN_KEY, [Reply::ToolOnly]);
    let world = World::new(&main).with_main(&main, dialect);
    let got = world.ask_on(&world.client(), &question_to(CompletionModel::MainOnPrefix, "Sum up"), body, &[]);
    assert_eq!(outcomes(&got), ["main: only tool calls"]);
}

#[test]
fn a_route_leaves_out_who_is_paused() {
    let auxiliary = Provider::start(KEY, [Reply::Status(401, String::new(), Vec::new())]);
    let main = Provider::start(MAIN_KEY, [Reply::Answer("ok".to_owned())]);
    let world = World::new(&auxiliary).with_main(&main, Dialect::OpenAiChat);
    let client = world.client();
    let sizes = Sizes { prefix: 0, material: 60_000, summary: 4_000, is_cache_warm: true };
    assert_eq!(client.route(&world.main, &sizes, false).unwrap().name, "aux");
    world.ask(&client, &crate::world::question("x")).completion.unwrap();
    let route = client.route(&world.main, &sizes, false).unwrap();
    assert_eq!((route.name.as_str(), route.model), ("main", CompletionModel::Main));
    assert_eq!(client.route(&world.main, &sizes, true).unwrap().name, "aux");
}
