//! Compacting by the engine that the settings name, and by the built-in where that engine cannot be had.

use super::*;
use support::judge::{self, Dialect};

fn compact_large(env: &TestEnv) -> Value {
    let file = transcript(LARGE).display().to_string();
    let outcome = run(env, &["--json", "compact", &file, "--model", "claude-sonnet-4-5", "--context-length", "200000"]);
    json(&outcome.success())
}

fn assert_legal(conversation: &Value) {
    let messages = conversation["messages"].as_array().expect("an Anthropic body");
    let system = conversation.get("system");
    let errors: Vec<_> = judge::check(messages, Dialect::Anthropic, system)
        .into_iter()
        .filter(|finding| finding.severity == judge::Severity::Error)
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn the_engine_that_the_settings_name_does_it() {
    let env = env();
    approved_lcm(&env);
    env.write("config.yaml", "context:\n  engine: lcm\n").unwrap();
    let answer = compact_large(&env);
    let receipt = &answer["receipt"];
    assert_eq!(receipt["engine_used"], "lcm", "{receipt:#}");
    assert!(receipt["engine_source"].as_str().unwrap().ends_with("/context_engine/lcm"), "{receipt:#}");
    assert_eq!(receipt["fallbacks"], serde_json::json!([]));
    assert!(receipt["tokens_after"].as_u64() <= receipt["target_tokens"].as_u64());
    let told: u64 = receipt["fates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fate| fate["last"].as_u64().unwrap() - fate["first"].as_u64().unwrap() + 1)
        .sum();
    assert_eq!(told, 778, "the receipt speaks of every message once");
    assert_legal(&answer["conversation"]);
}

#[test]
fn without_its_plugin_the_built_in_does_it_and_says_why() {
    let env = env();
    env.write("config.yaml", "context:\n  engine: lcm\n").unwrap();
    let answer = compact_large(&env);
    assert_eq!(answer["receipt"]["engine_used"], "compressor");
    let why = answer["receipt"]["fallbacks"][0].as_str().unwrap().to_owned();
    assert!(why.contains("engine lcm is missing"), "{why}");
    assert_legal(&answer["conversation"]);
}

#[test]
fn a_plugin_that_nobody_approved_or_that_is_broken_is_not_run() {
    let library = std::fs::read(Fixture::Lcm.path()).unwrap();
    let mut foreign = library.clone();
    // The machine field of an ELF header: AArch64.
    foreign[18] = 183;
    let cases: [(&str, &[u8], &str); 4] = [
        ("unapproved", &library, "untrusted"),
        ("text", b"this is no library\n", "unreadable"),
        ("truncated", &library[..library.len() / 2], "unreadable"),
        ("another machine", &foreign, "unreadable"),
    ];
    for (name, bytes, state) in cases {
        let env = env();
        lay_lcm(&env, bytes);
        env.write("config.yaml", "context:\n  engine: lcm\n").unwrap();
        let answer = compact_large(&env);
        assert_eq!(answer["receipt"]["engine_used"], "compressor", "{name}");
        let why = answer["receipt"]["fallbacks"][0].as_str().unwrap().to_owned();
        assert!(why.contains(&format!("engine lcm is {state}")), "{name}: {why}");
    }
}

#[test]
fn a_library_that_changed_after_its_approval_is_not_run() {
    let env = env();
    let folder = approved_lcm(&env);
    let file = folder.join(format!("{}engine_lcm{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.push(0);
    std::fs::write(&file, bytes).unwrap();
    env.write("config.yaml", "context:\n  engine: lcm\n").unwrap();
    let answer = compact_large(&env);
    assert_eq!(answer["receipt"]["engine_used"], "compressor");
    assert!(answer["receipt"]["fallbacks"][0].as_str().unwrap().contains("untrusted"), "{answer:#}");
}

#[test]
fn what_lcm_took_away_is_found_by_its_tool() {
    let env = env();
    approved_lcm(&env);
    let mut messages = vec![serde_json::json!({ "role": "user", "content": "remember the number 48151623 well" })];
    for round in 0..60 {
        let filler = format!("round {round}: ") + &"some more words about nothing ".repeat(60);
        messages.push(serde_json::json!({ "role": "assistant", "content": filler }));
        messages.push(serde_json::json!({ "role": "user", "content": format!("go on, {round}") }));
    }
    let body = serde_json::json!({ "model": "gpt-5", "messages": messages }).to_string();
    let file = env.write("talk.json", body).unwrap().display().to_string();
    let arguments = ["--json", "compact", &file, "--engine", "lcm", "--force", "--context-length", "8000"];
    let outcome = run(&env, &[&arguments[..], &["--call", "lcm_grep={\"query\":\"48151623\"}"]].concat());
    let answer = json(&outcome.success());
    assert_eq!(answer["receipt"]["engine_used"], "lcm", "{:#}", answer["receipt"]);
    let reply = answer["tool_replies"].to_string();
    assert!(reply.contains("remember the number"), "{reply}");
}

#[test]
fn with_nothing_to_do_the_bytes_are_the_same() {
    let env = env();
    let body = "{ \"model\": \"gpt-5\",\n  \"messages\": [ {\"role\":\"user\",  \"content\":\"h\\u00e9llo \\ud83d\"} ,\n{\"content\":1e5,\"role\":\"assistant\"}],\"x\":0.10 }\n";
    let file = env.write("talk.json", body).unwrap().display().to_string();
    let out = env.work().join("out.json");
    run(&env, &["compact", &file, "-o", &out.display().to_string()]).success();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), body);
}

#[test]
fn every_dialect_can_be_written() {
    let env = env();
    for (to, dialect, list) in [
        ("openai", Dialect::OpenAi, "messages"),
        ("anthropic", Dialect::Anthropic, "messages"),
        ("responses", Dialect::Responses, "input"),
    ] {
        let file = transcript(LARGE).display().to_string();
        let outcome = run(&env, &["--json", "compact", &file, "--context-length", "32000", "--to", to]);
        let answer = json(&outcome.success());
        let messages = answer["conversation"][list].as_array().unwrap_or_else(|| panic!("{to}: no list"));
        let errors: Vec<_> = judge::check(messages, dialect, answer["conversation"].get("system"))
            .into_iter()
            .filter(|finding| finding.severity == judge::Severity::Error)
            .collect();
        assert!(errors.is_empty(), "{to}: {errors:?}");
    }
}
