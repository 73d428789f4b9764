//! The store from the command line: conversations go in, are looked at, compacted, undone, and come out byte for byte.

use super::*;
use serde_json::json;

/// A real session of Claude Code's with an id of its own.
const CLAUDE: &str = "claude-code/cc-2025-summaries.jsonl.gz";
const NO_TOKENS: &str = "--offline";

fn imported(env: &TestEnv, name: &str) -> Value {
    let file = transcript(name).display().to_string();
    json(&run(env, &["sessions", "import", &file, "--json"]).success())
}

/// Imports a file and returns the id of its first session.
fn session_of(env: &TestEnv, name: &str) -> String {
    imported(env, name)["files"][0]["sessions"][0]["session"].as_str().unwrap().to_owned()
}

fn compacted(env: &TestEnv, session: &str) -> Value {
    let window = ["--context-length", "100000"];
    let line = [&["sessions", "compact", session, "--force", NO_TOKENS, "--json"][..], &window].concat();
    json(&run(env, &line).success())
}

fn exported(env: &TestEnv, session: &str) -> String {
    run(env, &["sessions", "export", session]).success()
}

#[test]
fn a_file_is_imported_once_and_only_what_is_new_is_added() {
    let env = env();
    let first = imported(&env, LARGE);
    let taken = &first["files"][0]["sessions"][0];
    assert_eq!((taken["change"].as_str(), taken["messages"].as_u64()), (Some("new"), Some(778)), "{first}");
    let again = imported(&env, LARGE);
    let taken = &again["files"][0]["sessions"][0];
    assert_eq!((taken["change"].as_str(), taken["added"].as_u64()), (Some("same"), Some(0)), "{again}");
    let list = json(&run(&env, &["sessions", "list", "--json"]).success());
    assert_eq!((list["total"].as_u64(), list["sessions"][0]["messages"].as_u64()), (Some(1), Some(778)), "{list}");
}

#[test]
fn what_is_said_later_is_added_to_the_session() {
    let env = env();
    let mut messages = vec![json!({ "role": "user", "content": "read a.txt" })];
    let body = |messages: &[Value]| json!({ "model": "gpt-5", "messages": messages }).to_string();
    let file = env.write("talk.json", body(&messages)).unwrap().display().to_string();
    run(&env, &["sessions", "import", &file]).success();
    messages.push(json!({ "role": "assistant", "content": "It says hello." }));
    env.write("talk.json", body(&messages)).unwrap();
    let said = run(&env, &["sessions", "import", &file]).success();
    assert!(said.starts_with("talk 1 message added (appended), from [WORK]/talk.json"), "{said}");
    // Another conversation in a file of the same name is not taken for this one.
    let other = env.write("b/talk.json", body(&[json!({ "role": "user", "content": "something else" })])).unwrap();
    let said = run(&env, &["sessions", "import", &other.display().to_string()]).success();
    assert!(said.starts_with("talk-2 1 message stored"), "{said}");
}

#[test]
fn every_conversation_of_a_file_becomes_a_session() {
    let env = env();
    let done = imported(&env, "claude-code/cc-sidechain-small.jsonl");
    let sessions = done["files"][0]["sessions"].as_array().unwrap();
    let list = json(&run(&env, &["sessions", "list", "--json"]).success());
    assert_eq!(list["total"].as_u64(), Some(sessions.len() as u64), "{done}");
}

#[test]
fn a_session_comes_out_as_it_went_in() {
    let env = env();
    let session = session_of(&env, LARGE);
    let whole = exported(&env, &session);
    let full = run(&env, &["sessions", "export", &session, "--full"]).success();
    assert!(whole == full, "nothing was compacted, so both are all that was said");
    let rows = run(&env, &["sessions", "show", &session, "--raw", "--limit", "100000"]).success();
    // The client wrote some messages over several lines, and so they come.
    let rows: Vec<_> = serde_json::Deserializer::from_str(&rows)
        .into_iter::<Box<serde_json::value::RawValue>>()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(rows.len(), 778);
    assert!(rows.iter().all(|row| whole.contains(row.get())));
}

#[test]
fn a_compaction_is_stored_shown_undone_and_redone() {
    let env = env();
    let session = session_of(&env, LARGE);
    let before = exported(&env, &session);
    let done = compacted(&env, &session);
    assert_eq!(done["receipt"]["action"], "compacted", "{done}");
    let after = exported(&env, &session);
    assert!(after.len() < before.len());
    assert!(exported_full(&env, &session) == before, "nothing that was said is gone");

    let list = json(&run(&env, &["sessions", "receipts", &session, "--json"]).success());
    let one = &list["compactions"][0];
    assert_eq!((one["compaction"].as_u64(), one["is_live"].as_bool()), (Some(1), Some(true)), "{list}");
    let survival = &one["receipt"]["survival"];
    assert!(survival["paths"]["of"].as_u64().unwrap() > 0, "{survival}");
    let whole = run(&env, &["sessions", "receipts", &session, "1"]).success();
    assert!(whole.contains("survival") && whole.contains("decision"), "{whole}");

    let undone = run(&env, &["sessions", "undo", &session]).success();
    assert!(undone.contains("everything as it was said"), "{undone}");
    assert!(exported(&env, &session) == before, "the prompt is that of before, byte for byte");
    run(&env, &["sessions", "redo", &session]).success();
    assert!(exported(&env, &session) == after);
    run(&env, &["sessions", "undo", &session]).success();
    let told = run(&env, &["sessions", "undo", &session]).failure(1);
    assert!(told.contains("no earlier view"), "{told}");
    run(&env, &["sessions", "undo", &session, "--to", "1"]).success();
    assert!(exported(&env, &session) == after);
    let told = run(&env, &["sessions", "redo", &session]).failure(1);
    assert!(told.contains("no undone compaction"), "{told}");
    let told = run(&env, &["sessions", "undo", &session, "--to", "77"]).failure(1);
    assert!(told.contains("no view 77"), "{told}");
}

fn exported_full(env: &TestEnv, session: &str) -> String {
    run(env, &["sessions", "export", session, "--full"]).success()
}

#[test]
fn a_diff_accounts_for_every_message() {
    let env = env();
    let session = session_of(&env, LARGE);
    run(&env, &["sessions", "pin", &session, "--message", "5"]).success();
    let done = compacted(&env, &session);
    let diff = json(&run(&env, &["sessions", "diff", &session, "--json"]).success());
    let messages = diff["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 778);
    let of = |fate: &str| messages.iter().filter(|one| one["fate"] == fate).count();
    assert_eq!(of("kept") + of("rewritten") + of("moved") + of("summarised") + of("dropped"), 778);
    assert!(of("summarised") > 0 && of("kept") > 0, "{done}");
    assert!(messages.iter().filter(|one| one["fate"] == "summarised").all(|one| one["node"].as_u64().is_some()));
    let pinned: Vec<&Value> = messages.iter().filter(|one| one["is_pinned"] == true).collect();
    assert_eq!(pinned.len(), 1);
    assert_eq!((pinned[0]["message"].as_u64(), pinned[0]["fate"].as_str()), (Some(5), Some("kept")));
    let text = run(&env, &["sessions", "diff", &session, "1"]).success();
    assert!(text.starts_with(&format!("--- {session}: 778 messages")), "{text}");
    for part in ["summarised by node", "@@ added: summary node", "[pinned]", "\n- ", "\n+ "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let told = run(&env, &["sessions", "diff", &session, "2"]).failure(1);
    assert!(told.contains("has no compaction 2") && told.contains("1 compaction"), "{told}");
}

#[test]
fn a_dry_run_stores_nothing_and_names_the_ids_of_the_store() {
    let env = env();
    let session = session_of(&env, LARGE);
    let line =
        ["sessions", "compact", &session, "--force", NO_TOKENS, "--dry-run", "--context-length", "100000", "--json"];
    let done = json(&run(&env, &line).success());
    assert_eq!((done["receipt"]["action"].as_str(), done["dry_run"].as_bool()), (Some("compacted"), Some(true)));
    let list = json(&run(&env, &["sessions", "receipts", &session, "--json"]).success());
    assert_eq!(list["compactions"], json!([]));
    let shown = json(&run(&env, &["sessions", "show", &session, "--json"]).success());
    assert_eq!(done["receipt"]["fates"][0]["first"], shown["messages"][0]["id"]);
}

#[test]
fn show_pages_and_tells_what_became_of_each_message() {
    let env = env();
    let session = session_of(&env, LARGE);
    compacted(&env, &session);
    let mut seen = Vec::new();
    let mut after = "0".to_owned();
    loop {
        let line = ["sessions", "show", &session, "--all", "--limit", "300", "--after", &after, "--json"];
        let page = json(&run(&env, &line).success());
        seen.extend(page["messages"].as_array().unwrap().clone());
        let Some(next) = page["next_after"].as_u64() else { break };
        after = next.to_string();
    }
    assert_eq!(seen.len(), 778);
    let count = |name: &str| seen.iter().filter(|one| one[name] == true).count();
    assert_eq!(count("active") + count("compacted"), 778);
    assert!(count("compacted") > 0);
    let view = json(&run(&env, &["sessions", "show", &session, "--json", "--limit", "10000"]).success());
    assert!(view["messages"].as_array().unwrap().iter().any(|one| one["node"].as_u64() == Some(1)), "{view}");
    let text = run(&env, &["sessions", "show", &session, "--all", "--limit", "5"]).success();
    assert!(text.contains("STATE") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn what_was_compacted_is_recalled_in_the_same_session() {
    let env = env();
    let session = session_of(&env, LARGE);
    compacted(&env, &session);
    let all = json(&run(&env, &["sessions", "show", &session, "--all", "--json", "--limit", "10000"]).success());
    let hidden = all["messages"].as_array().unwrap().iter();
    let hidden = hidden
        .filter(|one| one["compacted"] == true && one["role"] == "user")
        .find(|one| one["text"].as_str().unwrap().split_whitespace().count() > 5);
    let hidden = hidden.unwrap();
    let words: Vec<&str> = hidden["text"].as_str().unwrap().split_whitespace().take(6).collect();
    let phrase: String = words.join(" ").replace('"', "");
    let line = ["recall", &session, &phrase, "--kind", "messages", "--json", "--limit", "50"];
    let found = json(&run(&env, &line).success());
    let hits = found["reply"]["hits"].as_array().unwrap();
    let hit = hits.iter().find(|hit| hit["message"] == hidden["id"]).unwrap_or_else(|| panic!("{phrase}: {found}"));
    assert_eq!(hit["live"], false);
    let id = hidden["id"].as_u64().unwrap().to_string();
    let whole = run(&env, &["recall", &session, "--message", &id]).success();
    assert!(whole.contains(hidden["text"].as_str().unwrap().lines().next().unwrap()), "{whole}");
    let raw = run(&env, &["recall", &session, "--message", &id, "--raw"]).success();
    assert!(exported_full(&env, &session).contains(raw.trim_end_matches('\n')));
    let node = run(&env, &["recall", &session, "--node", "1", "--limit", "3"]).success();
    assert!(node.starts_with("summary 1, depth 0"), "{node}");
}

#[test]
fn searches_are_narrowed_ordered_and_paged() {
    let env = env();
    let session = session_of(&env, LARGE);
    let ask = |rest: &[&str]| {
        let line = [&["recall", session.as_str()][..], rest, &["--json"]].concat();
        json(&run(&env, &line).success())["reply"].clone()
    };
    let regex = ask(&["[a-z]+\\.(py|rs|ts|js|go|md)\\b", "--regex", "--limit", "5"]);
    assert!(regex["total"].as_u64().unwrap() > 5 && regex["has_more"] == true, "{regex}");
    let next = ask(&["[a-z]+\\.(py|rs|ts|js|go|md)\\b", "--regex", "--limit", "5", "--offset", "5"]);
    let ids = |reply: &Value| -> Vec<u64> {
        reply["hits"].as_array().unwrap().iter().map(|hit| hit["message"].as_u64().unwrap()).collect()
    };
    assert!(ids(&next).iter().all(|id| !ids(&regex).contains(id)), "{next}");
    let newest = ids(&ask(&["the", "--sort", "newest", "--kind", "messages", "--substring"]));
    assert!(newest.windows(2).all(|pair| pair[0] > pair[1]), "{newest:?}");
    let users = ask(&["the", "--role", "user", "--substring"]);
    assert!(users["hits"].as_array().unwrap().iter().all(|hit| hit["role"] == "user"), "{users}");
    assert_eq!(ask(&["the", "--before", "2000-01-01"])["total"], 0);
    let told = run(&env, &["recall", &session, "(", "--regex"]).failure(1);
    assert!(told.contains("error:"), "{told}");
    let told = run(&env, &["recall", &session, "--message", "999999"]).failure(1);
    assert!(told.contains("no message 999999"), "{told}");
    let told = run(&env, &["recall", &session, "--node", "9"]).failure(1);
    assert!(told.contains("no summary 9"), "{told}");
}

#[test]
fn pins_are_set_listed_and_taken_away() {
    let env = env();
    let session = session_of(&env, CLAUDE);
    let said = run(&env, &["sessions", "pin", &session, "--role", "user"]).success();
    assert!(said.starts_with("pin 1: role user; "), "{said}");
    run(&env, &["sessions", "pin", &session, "--file", "**/*.md", "--regex", "never"]).success();
    let list = json(&run(&env, &["sessions", "pins", &session, "--json"]).success());
    assert_eq!(list["pins"].as_array().unwrap().len(), 2, "{list}");
    run(&env, &["sessions", "unpin", &session, "2"]).success();
    let told = run(&env, &["sessions", "unpin", &session, "2"]).failure(1);
    assert!(told.contains("has no pin 2") && told.contains("it has pins 1"), "{told}");
    let told = run(&env, &["sessions", "pin", &session, "--regex", "("]).failure(1);
    assert!(told.contains("the pin is not usable"), "{told}");
    let told = run(&env, &["sessions", "pin", &session, "--message", "99999"]).failure(1);
    assert!(told.contains("has no message 99999"), "{told}");
}

#[test]
fn an_unknown_session_is_an_error_that_names_the_nearest() {
    let env = env();
    let told = run(&env, &["sessions", "show", "x"]).failure(1);
    assert!(told.contains("there is no store at") && told.contains("sessions import"), "{told}");
    let file = env.write("one.json", r#"[{"role":"user","content":"hi"}]"#).unwrap().display().to_string();
    for name in ["deploy-notes", "fix-login"] {
        run(&env, &["sessions", "import", &file, "--name", name]).success();
    }
    for (asked, near) in [("deploy-note", "deploy-notes"), ("login", "fix-login"), ("Fix-Logn", "fix-login")] {
        // The beginning of one name only is enough.
        if "deploy-notes".starts_with(asked) {
            run(&env, &["sessions", "show", asked]).success();
            continue;
        }
        let told = run(&env, &["sessions", "show", asked]).failure(1);
        assert!(told.contains(&format!("did you mean {near}?")), "{told}");
    }
    let told = run(&env, &["sessions", "diff", "zzzzzz"]).failure(1);
    assert!(told.contains("used last are") && told.contains("2 sessions"), "{told}");
    let told = run(&env, &["sessions", "diff", "fix-login"]).failure(1);
    assert!(told.contains("was never compacted"), "{told}");
}

#[test]
fn lines_carry_a_store_to_another_place() {
    let env = env();
    let session = session_of(&env, LARGE);
    let before = exported(&env, &session);
    compacted(&env, &session);
    let after = exported(&env, &session);
    run(&env, &["sessions", "export", "--all", "-o", "all.jsonl"]).success();
    let told = run(&env, &["sessions", "import", "all.jsonl"]).failure(1);
    assert!(told.contains("already") && told.contains("--home"), "{told}");
    run(&env, &["--home", "other", "sessions", "import", "all.jsonl"]).success();
    assert!(run(&env, &["--home", "other", "sessions", "export", &session]).success() == after);
    run(&env, &["--home", "other", "sessions", "undo", &session]).success();
    assert!(run(&env, &["--home", "other", "sessions", "export", &session]).success() == before);
    run(&env, &["--home", "other", "sessions", "verify", "--deep"]).success();
}

/// Puts a copy in the place of the store that has all its pages in one file, and returns where it is and its bytes.
fn lone_store(env: &TestEnv) -> (PathBuf, Vec<u8>) {
    run(env, &["sessions", "backup", "lone.db"]).success();
    let store = env.home().join(".palimpsest").join("sessions.db");
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{ending}", store.display()));
    }
    let bytes = std::fs::read(env.work().join("lone.db")).unwrap();
    std::fs::write(&store, &bytes).unwrap();
    (store, bytes)
}

#[test]
fn verify_proves_a_store_and_finds_a_changed_byte() {
    let env = env();
    let session = session_of(&env, CLAUDE);
    let said = run(&env, &["sessions", "verify", &session, "--deep"]).success();
    assert!(said.contains("1 session") && said.contains("proved"), "{said}");
    run(&env, &["sessions", "verify"]).success();
    let doctor = run(&env, &["doctor"]).success();
    assert!(doctor.contains("it was proved whole") && doctor.contains("schema"), "{doctor}");

    let (store, mut bytes) = lone_store(&env);
    // From the second quarter on there are payloads; the file's first pages hold the schema.
    let length = bytes.len();
    for at in (length / 4..length).step_by(97) {
        bytes[at] ^= 0x55;
    }
    std::fs::write(&store, bytes).unwrap();
    let outcome = run(&env, &["sessions", "verify", "--deep"]);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    assert!(!outcome.stderr.contains("internal error"), "{outcome:?}");
    let outcome = run(&env, &["sessions", "export", "--all", "-o", "saved.jsonl"]);
    assert!(matches!(outcome.status.code(), Some(0 | 1)), "{outcome:?}");
    assert!(!outcome.stderr.contains("internal error"), "{outcome:?}");
}

#[test]
fn what_is_no_store_is_left_alone() {
    let env = env();
    let file = env.write("one.json", r#"[{"role":"user","content":"hi"}]"#).unwrap().display().to_string();
    let home = env.home().join(".palimpsest");
    std::fs::create_dir_all(&home).unwrap();
    for content in
        [&b"this is no database at all, and long enough to be looked at as one"[..], b"SQLite format 3\0junk"]
    {
        std::fs::write(home.join("sessions.db"), content).unwrap();
        for line in
            [&["sessions", "list"][..], &["sessions", "import", &file], &["recall", "x", "y"], &["sessions", "gc"]]
        {
            let told = run(&env, line).failure(1);
            assert!(told.contains("error:") && !told.contains("internal"), "{line:?}: {told}");
        }
        assert_eq!(std::fs::read(home.join("sessions.db")).unwrap(), content, "it was not changed");
        let doctor = run(&env, &["doctor"]);
        assert!(doctor.status.code() == Some(1) && doctor.stdout.contains("cannot be used"), "{doctor:?}");
    }
}

#[test]
fn a_newer_schema_is_refused_and_not_changed() {
    let env = env();
    session_of(&env, CLAUDE);
    let (store, mut bytes) = lone_store(&env);
    // SQLite's user_version, which holds the schema, is a number of four bytes at offset 60.
    bytes[60..64].copy_from_slice(&9_999u32.to_be_bytes());
    std::fs::write(&store, &bytes).unwrap();
    for line in [&["sessions", "list"][..], &["sessions", "gc"]] {
        let told = run(&env, line).failure(1);
        assert!(told.contains("schema 9999") && told.contains("newer version"), "{told}");
    }
    assert_eq!(std::fs::read(&store).unwrap(), bytes);
}

#[test]
fn bad_files_are_errors_and_the_good_ones_beside_them_are_taken() {
    let env = env();
    let good = env.write("good.json", r#"[{"role":"user","content":"hi"}]"#).unwrap();
    let bad = env.write("bad.json", "{ this is no json").unwrap();
    let database = env.write("lcm.db", b"SQLite format 3\0 and more").unwrap();
    let paths: Vec<String> = [&bad, &good, &database].iter().map(|path| path.display().to_string()).collect();
    let line: Vec<&str> = ["sessions", "import"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let outcome = run(&env, &line);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    assert!(outcome.stdout.starts_with("good 1 message stored"), "{outcome:?}");
    assert!(outcome.stderr.contains("bad.json") && outcome.stderr.contains("SQLite database"), "{outcome:?}");
    let cut = env.write("cut.jsonl", b"{\"type\":\"palimpsest_store\",\"form\":1}\n{\"type\":\"mess").unwrap();
    let told = run(&env, &["sessions", "import", &cut.display().to_string()]).failure(1);
    assert!(told.contains("line 2"), "{told}");
    let line = ["sessions", "import", &paths[1], &paths[1], "--name", "x"];
    run(&env, &line).failure(2);
}

#[test]
fn two_processes_import_and_compact_at_once_and_nothing_is_lost() {
    let env = env();
    let session = session_of(&env, LARGE);
    let before = exported_full(&env, &session);
    let file = transcript(LARGE).display().to_string();
    let compact = ["sessions", "compact", &session, "--force", NO_TOKENS, "--context-length", "100000"];
    let import = ["sessions", "import", &file];
    let sweep = ["sessions", "gc", "--keep", "5"];
    let lines: [&[&str]; 4] = [&compact, &compact, &import, &sweep];
    std::thread::scope(|scope| {
        for line in lines {
            let env = &env;
            // Whoever loses the race for the lease says so in its receipt, and is no failure.
            scope.spawn(move || run(env, line).success());
        }
    });
    assert!(exported_full(&env, &session) == before);
    run(&env, &["sessions", "verify", "--deep"]).success();
}

#[test]
fn a_store_is_swept_shrunk_copied_and_forked() {
    let env = env();
    let session = session_of(&env, LARGE);
    compacted(&env, &session);
    run(&env, &["sessions", "undo", &session]).success();
    let would = json(&run(&env, &["sessions", "gc", "--dry-run", "--keep", "0", "--json"]).success());
    let swept = json(&run(&env, &["sessions", "gc", "--keep", "0", "--shrink", "--json"]).success());
    assert_eq!(would["swept"], swept["swept"]);
    assert_eq!(swept["swept"]["views"], 1, "{swept}");
    let told = run(&env, &["sessions", "diff", &session]).failure(1);
    assert!(told.contains("was swept"), "{told}");
    run(&env, &["sessions", "backup", "copy.db"]).success();
    let told = run(&env, &["sessions", "backup", "copy.db"]).failure(1);
    assert!(told.contains("not overwritten"), "{told}");
    env.write("store.yaml", format!("store:\n  path: {}\n", env.work().join("copy.db").display())).unwrap();
    run(&env, &["--config", "store.yaml", "sessions", "verify", "--deep"]).success();
    let said = run(&env, &["sessions", "fork", &session, "other-way"]).success();
    assert!(said.contains("778 messages"), "{said}");
    assert!(exported(&env, "other-way") == exported(&env, &session));
    let told = run(&env, &["sessions", "fork", &session, "other-way"]).failure(1);
    assert!(told.contains("already"), "{told}");
    run(&env, &["sessions", "new", "other-way", "next"]).success();
    let told = run(&env, &["sessions", "compact", "other-way", "--force"]).failure(1);
    assert!(told.contains("has ended"), "{told}");
}

#[cfg(unix)]
#[test]
fn a_hook_is_told_of_a_compaction_and_a_broken_one_is_a_warning() {
    let env = env();
    let session = session_of(&env, LARGE);
    let told_file = env.work().join("told.json");
    let settings = format!(
        "hooks:\n  session:compress:\n    - command: [tee, {}]\n    - command: [/no/such/program]\n    - url: http://example.org/\n",
        told_file.display()
    );
    let config = env.write("hooks.yaml", settings).unwrap().display().to_string();
    let line =
        ["--config", &config, "sessions", "compact", &session, "--force", NO_TOKENS, "--context-length", "100000"];
    let outcome = run(&env, &line);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(
        outcome.stderr.contains("could not be started") && outcome.stderr.contains("another machine"),
        "{outcome:?}"
    );
    let event = json(&std::fs::read_to_string(&told_file).unwrap());
    assert_eq!(
        (event["event"].as_str(), event["session_id"].as_str()),
        (Some("session:compress"), Some(session.as_str()))
    );
    assert_eq!(event["in_place"], true);
}

#[test]
fn transcripts_cannot_steer_the_terminal() {
    let env = env();
    let body = json!([{ "role": "user", "content": "\u{1b}[2J\u{1b}]0;owned\u{7} needle" }]).to_string();
    let file = env.write("evil.json", body).unwrap();
    run(&env, &["sessions", "import", &file.display().to_string()]).success();
    for line in [&["sessions", "list"][..], &["sessions", "show", "evil"], &["recall", "evil", "needle"]] {
        let outcome = run(&env, line);
        assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'), "{line:?}: {outcome:?}");
        assert!(outcome.stdout.contains("owned") || outcome.stdout.contains("evil"), "{outcome:?}");
    }
}

#[test]
fn a_damaged_file_of_prices_is_named_by_the_doctor() {
    let env = env();
    let home = env.home().join(".palimpsest");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("prices.yaml"), "models: [\n").unwrap();
    let doctor = run(&env, &["doctor"]).success();
    assert!(doctor.contains("prices") && doctor.contains("was not used"), "{doctor}");
}
