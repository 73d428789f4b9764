//! What the program was seen to do with the same conversations, and where this engine differs.
//!
//! The conversations have the structure of recorded sessions of Codex 0.171.0: base instructions and skills as
//! developer messages, rules and environment as one message of the user's role, one call and one output of 2,600 tokens
//! for each file read. Their texts are made up here.
use super::*;
use engine_api::{Part, Role, SummaryStep};

fn developer(text: &str) -> Message {
    let mut message = system(0, text);
    message.role = Role::Developer;
    message.flags = Flags::INJECTED;
    message
}

fn context() -> Vec<Message> {
    let rules = "# AGENTS.md instructions for /home/user/project\n\n<INSTRUCTIONS>\nanswer briefly\n</INSTRUCTIONS>";
    let environment = "<environment_context>\n  <cwd>/home/user/project</cwd>\n</environment_context>";
    let mut rules = flagged(user(0, rules), Flags::INJECTED);
    rules.parts.push(Part { tokens: 40, ..Part::new(engine_api::PartKind::Text, environment) });
    rules.tokens += 40;
    vec![
        developer(&"base ".repeat(3_400)),
        developer(&format!("<skills_instructions>\n{}", "skill ".repeat(420))),
        rules,
    ]
}

/// Reads files: a call and an output each.
fn reads(files: std::ops::Range<usize>) -> Vec<Message> {
    let read = |at: usize| {
        let call = format!("call_{at}");
        let output =
            format!("Chunk ID: {at}\nProcess exited with code 0\nOutput:\n{}", "line of the chunk\n".repeat(570));
        [
            calls(0, &[(&call, "exec_command", &format!("{{\"cmd\": \"cat chunk_{at:02}.txt\"}}"))]),
            result(0, &call, "exec_command", &output),
        ]
    };
    files.flat_map(read).collect()
}

/// A plan as a list of what the model will see: first words of each kept message, `Σ` for the handoff.
fn shape(messages: &[Message], plan: &CompactionPlan) -> Vec<String> {
    let mut list = Vec::new();
    for step in &plan.steps {
        match step {
            Step::Keep(span) => list.extend(span.positions().map(|at| {
                let text = messages[at].parts.first().map(|part| part.text.as_str()).unwrap_or_default();
                text.chars().take(16).collect::<String>().trim_end().to_string()
            })),
            Step::Summary(_) => list.push("Σ".to_string()),
            Step::Insert { text, .. } => {
                list.push(format!("cut {}", text.split_once("\n").unwrap().1.chars().take(8).collect::<String>()));
            }
            _ => {}
        }
    }
    list
}

fn compacted(messages: &[Message]) -> CompactionPlan {
    // A window of 60,000 with the limit at 50,000, as in the recordings; the room is what the limit leaves.
    let mut asking = request(40_000);
    asking.model.context_length = 60_000;
    let plan = plan_with(&host(&["## Goal\n- read the chunks"]), &original(), messages, &asking).unwrap();
    judged(messages, &plan);
    plan
}

const BASE: [&str; 3] = ["base base base b", "<skills_instruct", "# AGENTS.md inst"];

#[test]
fn mid_turn_it_is_context_then_the_request_then_the_handoff() {
    let mut messages = context();
    messages.push(user(0, "Read the chunk files one after another and report."));
    messages.extend(reads(1..17));
    let messages = numbered(messages);
    let plan = compacted(&messages);
    // The program drops the last exchange as well; it must stay here, for it is what the model answers.
    let want = [&BASE[..], &["Read the chunk f", "Σ", "{\"cmd\": \"cat chu", "Chunk ID: 16\nPro"]].concat();
    assert_eq!(shape(&messages, &plan), want);
    let (before, after): (u32, u32) = (messages.iter().map(|message| message.tokens).sum(), 10_371);
    let verdict = judged(&messages, &plan);
    assert!(before > 46_000, "{before}");
    // The recorded request after: 10,371 tokens, tools included; the exchange that stays adds 2,700.
    assert!(verdict.tokens_after < u64::from(after), "{verdict:?}");
    assert_eq!(summary_of(&plan).kind, SummaryKind::Leaf);
}

#[test]
fn a_second_compaction_replaces_the_handoff_and_does_not_quote_it() {
    let mut messages = context();
    messages.push(user(0, "Read the chunk files one after another and report."));
    let earlier = format!("{}## Goal\n- first sixteen done", summary::LEAD_IN);
    messages.push(flagged(user(0, &earlier), Flags::SUMMARY.with(Flags::SYNTHETIC)));
    messages.extend(reads(17..32));
    let messages = numbered(messages);
    let host = host(&["## Goal\n- thirty-one done"]);
    let plan = plan_with(&host, &original(), &messages, &request(40_000)).unwrap();
    judged(&messages, &plan);
    let want = [&BASE[..], &["Read the chunk f", "Σ", "{\"cmd\": \"cat chu", "Chunk ID: 31\nPro"]].concat();
    assert_eq!(shape(&messages, &plan), want);
    let SummaryStep { kind, text, .. } = summary_of(&plan);
    assert_eq!(*kind, SummaryKind::Iterative);
    assert_eq!(text.matches(summary::LEAD_IN.trim()).count(), 1, "a handoff within a handoff: {text}");
    let asked = host.asked.lock().unwrap();
    let prompt = &asked[0].prompt;
    assert!(prompt.contains("THE EARLIER HANDOFF:\n## Goal\n- first sixteen done\n"), "{prompt:.3000}");
}

#[test]
fn before_a_turn_older_requests_come_first_and_the_new_one_last() {
    let mut messages = context();
    messages.push(user(0, "Read the chunk files one after another and report."));
    messages
        .push(flagged(user(0, &format!("{}## Goal\n- x", summary::LEAD_IN)), Flags::SUMMARY.with(Flags::SYNTHETIC)));
    messages.push(assistant(0, "All done after 16 chunk reads."));
    messages.push(user(0, "Second user request: also check chunk 2."));
    messages.extend(reads(17..32));
    messages.push(assistant(0, "All done after 31 chunk reads."));
    messages.push(user(0, "Now please verify chunk 3 again."));
    let messages = numbered(messages);
    let want = [&BASE[..], &["Read the chunk f", "Second user requ", "Σ", "Now please verif"]].concat();
    assert_eq!(shape(&messages, &compacted(&messages)), want);
}

#[test]
fn of_five_prompts_over_the_budget_two_stay_the_third_is_cut_and_the_first_are_gone() {
    let prompt = |at: usize| user(0, &format!("PROMPT-{at} {}", "please do the thing ".repeat(1_620)));
    let mut messages = context();
    for at in 1..=5 {
        messages.push(prompt(at));
        messages.extend(reads(at..at + 1));
        messages.push(assistant(0, "done"));
    }
    let messages = numbered(messages);
    assert!((8_050..8_200).contains(&messages[3].tokens), "{}", messages[3].tokens);
    let plan = compacted(&messages);
    let want = [&BASE[..], &["cut PROMPT-3", "PROMPT-4 please", "PROMPT-5 please", "Σ", "done"]].concat();
    assert_eq!(shape(&messages, &plan), want);
    let cut = plan.steps.iter().find_map(|step| match step {
        Step::Insert { text, role: Role::User, .. } => Some(text),
        _ => None,
    });
    let cut = cut.expect("a cut message");
    // 3,700 of 8,100 in the recording.
    assert!((3_400..3_800).contains(&count(cut)), "{}", count(cut));
    let gone: u64 = cut.split('…').nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((4_300..4_700).contains(&gone), "{gone}");
    let covered: Vec<usize> = summary_of(&plan).covers.iter().flat_map(|span| span.positions()).collect();
    assert!(covered.contains(&3) && covered.contains(&11), "the handoff stands for what is gone or cut: {covered:?}");
}

#[test]
fn a_handoff_that_codex_wrote_itself_is_superseded_too() {
    let theirs = "Another language model started to solve this problem and produced a summary of its thinking process. \
                  Here is the summary:\n## Goal\n- theirs";
    let mut messages = context();
    messages.push(user(0, "Read the chunk files."));
    messages.push(flagged(user(0, theirs), Flags::SUMMARY.with(Flags::INJECTED)));
    messages.extend(reads(1..12));
    let messages = numbered(messages);
    for settings in [original(), json::Value::Null] {
        let host = host(&["## Goal\n- ours"]);
        let plan = plan_with(&host, &settings, &messages, &request(22_000)).unwrap();
        judged(&messages, &plan);
        assert!(!is_kept(&plan, 4), "{}", plan_picture(&plan));
        assert!(host.asked.lock().unwrap()[0].prompt.contains("THE EARLIER HANDOFF:\n## Goal\n- theirs\n"));
    }
}
