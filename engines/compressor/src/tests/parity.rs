//! What Hermes 0.19.0 was observed to do, beside what this engine does with the same conversations.
//!
//! Every case either agrees or stands in `DIFFERENCES`, and every entry of that table stands with its reason in
//! `docs/compressor.md`.

use super::*;
use crate::boundaries::boundaries;
use crate::budget::Budget;
use crate::prompt::recent_focus;
use engine_api::{Flags, MessageId, Part, PartKind, Role, Trigger};
use engine_kit::pairs::units;
use engine_kit::prune::{CallTable, one_line_result};
use json::Value;

/// Where this engine does something else on purpose: the golden and its case.
const DIFFERENCES: [(&str, &str); 31] = [
    ("03", "terminal, a failure"),
    ("03", "terminal, a command that is no text"),
    ("03", "read_file, no offset"),
    ("03", "write_file, no content"),
    ("03", "search_files"),
    ("03", "patch"),
    ("03", "browser_click"),
    ("03", "browser_navigate"),
    ("03", "web_search"),
    ("03", "web_extract"),
    ("03", "delegate_task"),
    ("03", "execute_code"),
    ("03", "skill_view"),
    ("03", "vision_analyze"),
    ("03", "memory"),
    ("03", "todo"),
    ("03", "clarify"),
    ("03", "text_to_speech"),
    ("03", "cronjob"),
    ("03", "process"),
    ("03", "my_mcp_tool"),
    ("03", "my_mcp_tool, no object"),
    ("05", "5 messages"),
    ("05", "last user far behind huge tool run"),
    ("05", "visible reply then tool run"),
    ("05", "single user turn in protected head"),
    ("05", "user at head_end after decay (causal coupling)"),
    ("06", "no user anywhere -> summary forced to user role"),
    ("07", "pre-API sanitizer"),
    ("07", "repair_message_sequence"),
    ("08", "auto focus heading"),
];

fn golden(text: &str) -> Vec<Value> {
    let golden: Value = json::from_str(text).unwrap();
    golden["cases"].as_array().unwrap().clone()
}

fn is_listed(golden: &str, case: &str) -> bool {
    DIFFERENCES.contains(&(golden, case))
}

/// Checks that exactly the listed cases of a golden differ.
fn check(golden: &str, cases: impl IntoIterator<Item = (String, bool, String)>) {
    for (case, is_equal, what) in cases {
        assert_eq!(!is_equal, is_listed(golden, &case), "golden {golden}, {case}: {what}");
    }
}

#[test]
fn every_difference_is_in_the_documentation() {
    let page = include_str!("../../../../docs/compressor.md");
    for (golden, case) in DIFFERENCES {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| {golden} |")) && line.contains(&format!("| {case} |")));
        assert!(
            row.is_some_and(|row| row.split('|').nth(3).is_some_and(|why| why.trim().len() > 10)),
            "{golden} {case}"
        );
    }
}

/// A message of a golden with the tokens that Hermes' walk gives it: a quarter of the characters, and ten.
fn message(at: usize, value: &Value) -> Message {
    let role = match value["role"].as_str().unwrap() {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => Role::Tool,
    };
    let content = match (value["content"].as_str(), value["chars"].as_u64()) {
        (Some(text), _) => text.to_string(),
        (None, Some(chars)) => "x".repeat(usize::try_from(chars).unwrap()),
        (None, None) => value["content"].to_string(),
    };
    let mut parts = Vec::new();
    match role {
        Role::Tool => parts.push(Part::result(value["tool_call_id"].as_str().unwrap_or_default(), content)),
        _ if content.is_empty() => {}
        _ => parts.push(Part::new(PartKind::Text, content)),
    }
    for part in &mut parts {
        part.tokens = (part.text.len() / 4) as u32;
    }
    for call in value["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        let id = call.as_str().or(call["id"].as_str()).unwrap();
        let mut part =
            Part::call(id, function["name"].as_str().unwrap_or("f"), function["arguments"].as_str().unwrap_or("{}"));
        // The frame of a call is some 76 characters in Python's notation.
        part.tokens = (part.text.len() + 76) as u32 / 4;
        parts.push(part);
    }
    let mut message = Message::new(role, value.to_string(), parts);
    message.id = MessageId(at as u64 + 1);
    message.tokens = 10 + message.parts.iter().map(|part| part.tokens).sum::<u32>();
    message.flags = match role {
        _ if value["_compressed_summary"] == true => Flags::SUMMARY.with(Flags::SYNTHETIC),
        Role::User => Flags::REAL_USER,
        _ => Flags::default(),
    };
    message
}

fn messages(list: &Value) -> Vec<Message> {
    list.as_array().unwrap().iter().enumerate().map(|(at, value)| message(at, value)).collect()
}

/// As a person's `/compress` in Hermes with a window of 200,000 tokens.
fn manual() -> CompressRequest {
    let mut request = request(150_000);
    request.model.tail_budget_tokens = 30_000;
    request.trigger = Some(Trigger::Manual);
    request
}

fn legacy(protect_first_n: u64, protect_last_n: u64) -> Value {
    json::json!({ "tail_mode": "legacy", "protect_first_n": protect_first_n, "protect_last_n": protect_last_n })
}

#[test]
fn golden_03_lines_of_old_results() {
    let cases = golden(include_str!("goldens/03-prune.json"));
    let list = cases[0]["input"]["messages"].as_array().unwrap();
    // Results with pictures and dictionaries are parts of another kind here.
    let plain: Vec<Message> = list
        .iter()
        .enumerate()
        .filter(|(_, value)| value["content"].is_string())
        .map(|(at, value)| message(at, value))
        .collect();
    let table = ViewTable::new(1, &plain);
    let conversation = table.conversation();
    let calls = CallTable::new(&conversation);
    let mut checked = 0;
    let mut rows = Vec::new();
    for (position, view) in conversation.iter().enumerate() {
        let at = view.id().0 - 1;
        let change = cases[0]["observed"]["changed"].as_array().unwrap().iter().find(|change| change["index"] == at);
        let (Some(part), Some(theirs)) = (view.results().next(), change.and_then(|change| change["after"].as_str()))
        else {
            continue;
        };
        if theirs.starts_with("[Duplicate") {
            continue;
        }
        let call = calls.call_of(position, 0);
        let ours = one_line_result(call, part);
        let arguments = call.map_or("", |call| call.text());
        let case = match call.map_or("unknown", |call| call.tool_name()) {
            "terminal" if theirs.contains("exit -1") => "terminal, a failure".to_string(),
            "terminal" if arguments.contains("true") => "terminal, a command that is no text".to_string(),
            "read_file" => "read_file, no offset".to_string(),
            "write_file" if !arguments.contains("content") => "write_file, no content".to_string(),
            "my_mcp_tool" if !arguments.starts_with('{') => "my_mcp_tool, no object".to_string(),
            other => other.to_string(),
        };
        let plain = |line: &str| line.replace("...`", "…`").replace('…', "");
        let is_equal = plain(&ours) == plain(theirs);
        rows.push((case, is_equal, format!("{ours} | {theirs}")));
        checked += 1;
    }
    assert_eq!(checked, 27);
    check("03", rows);
}

#[test]
fn golden_04_which_results_are_old() {
    let mut list =
        vec![json::json!({ "role": "system", "content": "SYS" }), json::json!({ "role": "user", "content": "go" })];
    for at in 0..12 {
        let call = json::json!({ "id": format!("c{at}"), "function": { "name": "terminal", "arguments": "{\"command\":\"ls\"}" } });
        list.push(json::json!({ "role": "assistant", "content": "", "tool_calls": [call] }));
        list.push(json::json!({ "role": "tool", "tool_call_id": format!("c{at}"), "content": format!("{at} {}", "y".repeat(1_000)) }));
    }
    let messages = messages(&Value::from(list));
    let table = ViewTable::new(7, &messages);
    let rows = golden(include_str!("goldens/04-prune-boundary.json")).into_iter().map(|case| {
        let input = &case["input"];
        let protected = input["protect_tail_count"].as_u64().unwrap();
        let mut request = manual();
        request.model.tail_budget_tokens = input["protect_tail_tokens"].as_u64().unwrap();
        let host = FakeHost::default();
        let engine = new(&legacy(3, protected)).unwrap();
        let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
        let plan = session.prune_tool_results(&host, &table.conversation(), &request);
        let pruned: Vec<usize> = plan
            .map(|plan| plan.steps)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|step| if let Step::Rewrite { message, .. } = step { Some(message) } else { None })
            .collect();
        let is_equal = json::json!(pruned) == case["observed"]["pruned_indices"];
        (format!("{protected} messages, {} tokens", input["protect_tail_tokens"]), is_equal, format!("{pruned:?}"))
    });
    check("04", rows.collect::<Vec<_>>());
}

#[test]
fn golden_05_where_the_middle_begins_and_ends() {
    let rows = golden(include_str!("goldens/05-boundaries.json")).into_iter().map(|case| {
        let input = &case["input"];
        let mut messages = messages(&input["messages"]);
        let is_later = input["compression_count"] != 0;
        if is_later {
            // What tells a later compaction is the summary of the earlier one.
            messages.insert(1, flagged(user(0, "old"), Flags::SUMMARY.with(Flags::SYNTHETIC)));
        }
        let messages = numbered(messages);
        let table = ViewTable::new(7, &messages);
        let conversation = table.conversation();
        let number = |key: &str| input[key].as_u64().unwrap();
        let settings = Settings::read(&legacy(number("protect_first_n"), number("protect_last_n"))).0;
        let mut request = manual();
        request.model.tail_budget_tokens = number("tail_token_budget");
        let budget = Budget::of(&conversation, &request, &settings);
        let units = units(&conversation);
        let cost = |position: usize| conversation.get(position).map_or(0, |message| message.tokens());
        let found = boundaries(&conversation, &units, &cost, &budget, &settings, &request);
        let middle = &found.regions.middle;
        let observed = &case["observed"];
        let is_equal = found.regions.gaps.is_empty()
            && observed["compress_start"] == middle.start
            && observed["compress_end"] == middle.end;
        (
            input["label"].as_str().unwrap().to_string(),
            is_equal,
            format!("{:?} | {} {}", found.regions, observed["compress_start"], observed["compress_end"]),
        )
    });
    check("05", rows.collect::<Vec<_>>());
}

/// What stays of a list, by its texts, and what the summary quotes as the newest request.
fn compacted(list: &Value, protect_first_n: u64) -> Option<(Vec<String>, String)> {
    let messages = messages(list);
    let table = ViewTable::new(7, &messages);
    let host = FakeHost::default();
    host.completions.lock().unwrap().push(Ok("## Goal\nSTUB".to_string()));
    let mut request = manual();
    request.completions_max = 1;
    // Lists this short leave no room for a summary of their own length, so their tokens are scaled.
    let scaled: Vec<Message> = messages
        .iter()
        .cloned()
        .map(|mut message| {
            message.tokens *= 10;
            message
        })
        .collect();
    let scaled_table = ViewTable::new(7, &scaled);
    let engine = new(&legacy(protect_first_n, 20)).unwrap();
    let mut session = engine.open_session(&host, &SessionStart::default()).unwrap();
    let plan = session.compress(&host, &scaled_table.conversation(), &request).ok()?;
    judged(&scaled, &plan);
    let text_of =
        |position: usize| table.conversation().get(position).map(|message| message.text()).unwrap_or_default();
    let kept = plan.steps.iter().filter_map(|step| if let Step::Keep(span) = step { Some(*span) } else { None });
    let kept = kept.flat_map(|span| span.positions()).map(text_of).collect();
    let quoted = summary_of(&plan).lines().find_map(|line| line.strip_prefix("User asked: ")).unwrap_or_default();
    Some((kept, quoted.trim_matches('"').to_string()))
}

/// The same of what Hermes put out; a message into which the summary was merged is the message.
fn observed(output: &Value) -> (Vec<String>, String) {
    let mut quoted = String::new();
    let mut kept = Vec::new();
    for message in output.as_array().unwrap() {
        let text = message["content"].as_str().unwrap_or_default();
        if message["_compressed_summary"] == true {
            let asked =
                text.lines().find_map(|line| line.strip_prefix("User asked (deterministic, from compacted turns): "));
            quoted = asked.unwrap_or_default().trim_matches('\'').to_string();
            let merged = text.strip_prefix("[PRIOR CONTEXT — for reference only; not a new message]\n");
            kept.extend(merged.and_then(|text| text.split_once("\n\n[END OF")).map(|(text, _)| text.to_string()));
        } else {
            kept.push(text.replace("\n\n<SYSTEM_NOTE>", ""));
        }
    }
    (kept, quoted)
}

#[test]
fn golden_06_what_stays_and_what_the_summary_quotes() {
    let rows = golden(include_str!("goldens/06-assembly.json")).into_iter().filter_map(|case| {
        let label = case["input"]["label"].as_str()?.to_string();
        let list = &case["input"]["messages"];
        if !list.is_array() {
            return Some((label, false, "its messages are not recorded".to_string()));
        }
        let theirs = observed(&case["observed"]["output"]);
        let head = if label.starts_with("protect_first_n=0") { 0 } else { 3 };
        let ours = compacted(list, head);
        let is_equal = match &ours {
            None => case["observed"]["made_progress"] == false,
            Some((kept, quoted)) => {
                let kept: Vec<String> = kept.iter().map(|text| text.replace("\n\n<SYSTEM_NOTE>", "")).collect();
                (kept, quoted.clone()) == theirs
            }
        };
        Some((label, is_equal, format!("{ours:?} | {theirs:?}")))
    });
    check("06", rows.collect::<Vec<_>>());
}

#[test]
fn golden_07_only_answered_calls_and_their_results_are_tied() {
    for case in golden(include_str!("goldens/07-tool-pairs.json")) {
        let label = case["input"]["label"].as_str().unwrap();
        let of_the_host =
            ["pre-API sanitizer", "repair_message_sequence"].into_iter().find(|lead| label.starts_with(lead));
        if let Some(lead) = of_the_host {
            assert!(is_listed("07", lead));
            continue;
        }
        let messages = messages(&case["input"]["messages"]);
        let table = ViewTable::new(7, &messages);
        let tied: Vec<usize> = units(&table.conversation()).iter().map(|unit| unit.len()).collect();
        let want: &[usize] = match label {
            "one of two answered" => &[2],
            // Its id in the message is the item's; the pair is found by the call's, which views carry.
            "codex ids: result matches call_id" => &[1, 1],
            "orphan result" | "orphan call, no text" => &[1, 1, 1],
            _ => &[1, 1],
        };
        assert_eq!(tied, want, "{label}");
    }
}

#[test]
fn golden_08_later_compactions_focus_and_memory() {
    let cases = golden(include_str!("goldens/08-iterative.json"));
    for case in &cases[..2] {
        let label = case["input"]["label"].as_str().unwrap();
        let (kept, quoted) = compacted(&case["input"]["messages"], 3).unwrap();
        assert_eq!((strip(kept), quoted), observed(&case["observed"]["output"]), "{label}");
    }

    let messages = messages(&cases[0]["input"]["messages"]);
    let host = FakeHost::default();
    host.completions.lock().unwrap().push(Ok("## Goal\nSTUB".to_string()));
    let mut asked = manual();
    asked.completions_max = 1;
    asked.focus_topic = cases[2]["input"]["focus_topic"].as_str().unwrap().to_string();
    asked.memory_context = cases[2]["input"]["memory_context"].as_str().unwrap().to_string();
    let scaled: Vec<Message> = messages
        .into_iter()
        .map(|mut message| {
            message.tokens *= 10;
            message
        })
        .collect();
    plan_with(&host, &scaled, &asked).unwrap();
    let prompt = host.asked.lock().unwrap()[0].prompt.clone();
    assert!(prompt.contains(cases[2]["observed"]["focus_line"][0].as_str().unwrap()));
    assert!(prompt.contains(cases[2]["observed"]["memory_block"].as_str().unwrap()), "{prompt}");

    let long = format!("four {}", "z".repeat(400));
    let list: Vec<Message> = ["one", "two\ntwo", "three", &long].iter().map(|text| user(0, text)).collect();
    let list = numbered(list);
    let derived = recent_focus(&ViewTable::new(1, &list).conversation());
    let theirs = cases[3]["observed"]["derived"].as_str().unwrap();
    assert_eq!(Some(derived.as_str()), theirs.strip_prefix("Recent user focus:\n"));
    assert!(is_listed("08", "auto focus heading"));
}

fn strip(kept: Vec<String>) -> Vec<String> {
    kept.into_iter().map(|text| text.replace("\n\n<SYSTEM_NOTE>", "")).collect()
}
