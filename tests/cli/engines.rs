//! Listing, checking, approving and choosing engines.

use super::*;

fn states(env: &TestEnv) -> Vec<(String, String)> {
    let listed = json(&run(env, &["--json", "engines", "list"]).success());
    let engines = listed["engines"].as_array().unwrap_or_else(|| panic!("no engines in {listed:#}"));
    let text = |engine: &Value, key: &str| engine[key].as_str().unwrap_or_default().to_owned();
    engines.iter().map(|engine| (text(engine, "name"), text(engine, "state"))).collect()
}

#[test]
fn an_engine_is_untrusted_then_ready_then_selected() {
    let env = env();
    let library = std::fs::read(Fixture::Lcm.path()).unwrap();
    let folder = lay_lcm(&env, &library);
    let state = |env: &TestEnv| states(env).into_iter().find(|(name, _)| name == "lcm").map(|(_, state)| state);
    assert_eq!(state(&env).as_deref(), Some("untrusted"));
    approve(&env, &folder);
    assert_eq!(state(&env).as_deref(), Some("ready"));
    env.write("config.yaml", "# mine\ncontext:\n  engine: compressor # for now\n").unwrap();
    run(&env, &["engines", "use", "lcm"]).success();
    assert_eq!(state(&env).as_deref(), Some("selected"));
    let config = std::fs::read_to_string(env.work().join("config.yaml")).unwrap();
    assert_eq!(config, "# mine\ncontext:\n  engine: lcm # for now\n");
    let plugins = env.plugins().display().to_string();
    run(&env, &["--plugins", &plugins, "engines", "remove", "lcm"]).success();
    assert_eq!(state(&env).as_deref(), Some("missing"));
}

#[test]
fn the_listing_shows_tools_and_what_they_cost() {
    let env = env();
    approved_lcm(&env);
    let listed = json(&run(&env, &["--json", "engines", "list"]).success());
    let lcm = listed["engines"].as_array().unwrap().iter().find(|engine| engine["name"] == "lcm").unwrap().clone();
    assert!(lcm.to_string().contains("lcm_grep"), "{lcm:#}");
    assert!(lcm["tool_tokens"].as_u64().is_some_and(|tokens| tokens > 20), "{lcm:#}");
}

#[test]
fn an_unknown_engine_is_not_chosen() {
    let env = env();
    let said = run(&env, &["engines", "use", "lmc"]).failure(1);
    assert!(said.contains("lmc"), "{said}");
}

#[test]
fn verify_says_what_a_file_is() {
    let env = env();
    let good = run(&env, &["engines", "verify", &Fixture::Lcm.path().display().to_string()]);
    let said = format!("{}{}", good.stdout, good.stderr);
    assert!(said.contains("lcm") && said.contains("1.1.0"), "{said}");
    let text = env.write("notes.so", "no library").unwrap();
    let bad = run(&env, &["engines", "verify", &text.display().to_string()]);
    assert_eq!(bad.status.code(), Some(1));
}
