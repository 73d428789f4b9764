//! Outlines say what was asked and done, within their budget.
use super::*;
use crate::testing::{conversation, flagged};
use engine_api::testing::{assistant, calls, result, system, user};
use engine_api::{Flags, Message, ViewTable};
use proptest::prelude::*;

fn count(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

fn outline_of(messages: &[Message], budget: u64, options: &Options<'_>) -> String {
    let table = ViewTable::new(1, messages);
    outline(&table.conversation(), 0..messages.len(), budget, &count, options)
}

fn session() -> Vec<Message> {
    let filler = "ok\n".repeat(400);
    vec![
        system(1, "be brief"),
        user(2, "Fix the login loop in src/auth/session.rs. Never touch the public API."),
        calls(3, &[("a", "read_file", "{\"path\":\"src/auth/session.rs\"}")]),
        result(4, "a", "read_file", &format!("fn refresh() {{}}\n{filler}")),
        calls(5, &[("b", "terminal", "{\"command\":\"cargo test auth\"}")]),
        result(6, "b", "terminal", &format!("{filler}error: TokenError: expired\nexit code: 101")),
        assistant(7, "The root cause is a clock skew. I will use a leeway of 30 s. Next step: add a test."),
        user(8, "なぜ時計がずれるのですか？"),
        assistant(9, "VM の一時停止のためです。"),
        user(10, "Also check the refresh path"),
    ]
}

#[test]
fn an_outline_has_the_templates_headings_and_the_users_words() {
    let text = outline_of(&session(), 700, &Options::default());
    for want in [
        "## Historical Task Snapshot\n- User asked: \"Also check the refresh path\"",
        "## Goal\n- \"Fix the login loop in src/auth/session.rs. Never touch the public API.\"\n- \"なぜ時計がずれるのですか？\"",
        "## Constraints & Preferences\n- \"Never touch the public API.\"",
        "- [terminal] ran `cargo test auth` -> exit 101, 402 lines output",
        "## Blocked\n- [terminal] error: TokenError: expired",
        "- The root cause is a clock skew.",
        "## Historical Pending User Asks\n- \"Also check the refresh path\"",
        "- Next step: add a test.",
        "src/auth/session.rs",
    ] {
        assert!(text.contains(want), "{want} is missing from:\n{text}");
    }
    let order: Vec<usize> = HEADINGS.iter().filter_map(|heading| text.find(&format!("## {heading}\n"))).collect();
    assert!(order.is_sorted() && order.len() >= 10, "{text}");
    assert_eq!(text, outline_of(&session(), 700, &Options::default()));
}

#[test]
fn an_earlier_summary_is_carried_on_without_its_lead_in() {
    let text = "[palimpsest: summary of 40 messages]\nLead-in of a host.\n\n## Goal\n- \"Port the parser\"\n\n## Key Decisions\n- Keep the old grammar\n## Unknown\n- port 8443";
    let mut messages = vec![flagged(user(1, text), Flags::SUMMARY.with(Flags::SYNTHETIC))];
    messages.extend(session());
    let got = outline_of(&messages, 900, &Options::default());
    for want in ["- \"Port the parser\"", "- Keep the old grammar", "- port 8443"] {
        assert!(got.contains(want), "{want} is missing from:\n{got}");
    }
    assert!(!got.contains("Lead-in"), "{got}");
    let again = outline_of(&session(), 900, &Options { previous: Some(text), ..Options::default() });
    assert!(again.contains("- Keep the old grammar"), "{again}");
}

#[test]
fn a_focus_topic_comes_first() {
    let messages: Vec<Message> =
        (1..=200).map(|id| user(id, &format!("please look at the module number {id} of the tree"))).collect();
    let topic = Options { focus: "Number 17 of the", ..Options::default() };
    let (with, without) = (outline_of(&messages, 150, &topic), outline_of(&messages, 150, &Options::default()));
    assert!(with.contains("number 17 of") && !without.contains("number 17 of"), "{with}\n\n{without}");
}

#[test]
fn an_outline_fills_its_budget_and_never_passes_it() {
    let messages: Vec<Message> = (0..300)
        .flat_map(|_| session())
        .enumerate()
        .map(|(at, mut message)| {
            message.parts[0].text.push_str(&format!(" {at}"));
            message
        })
        .collect();
    for budget in [0, 1, 10, 59, 60, 100, 500, 2_000, 10_000] {
        let text = outline_of(&messages, budget, &Options::default());
        assert!(count(&text) <= budget, "{} of {budget}", count(&text));
        assert!(budget < 60 || count(&text) > budget / 2, "{} of {budget}", count(&text));
    }
}

#[test]
fn an_outline_is_shorter_than_its_source() {
    let messages = [user(1, "hi"), assistant(2, "hello")];
    let text = outline_of(&messages, 10_000, &Options::default());
    assert!(!text.is_empty() && count(&text) < u64::from(messages[0].tokens + messages[1].tokens), "{text}");
    assert_eq!(outline_of(&[], 10_000, &Options::default()), "");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gives_an_outline_within_its_budget(
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        budget in 0u64..3_000,
        focus in "\\PC{0,12}",
        garbage in "\\PC{0,200}",
    ) {
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte & 0x7f).collect();
        let mut messages = conversation(&bytes, true);
        for message in messages.iter_mut().step_by(3) {
            for part in &mut message.parts {
                part.text.push_str(&garbage);
            }
        }
        let text = outline_of(&messages, budget, &Options { focus: &focus, previous: Some(&garbage) });
        prop_assert!(count(&text) <= budget);
    }
}

#[test]
fn requests_decisions_and_rules_survive_in_any_language() {
    for (request, decision, rule) in [
        (
            "Corrige o erro de login. Nunca altere a API pública.",
            "A causa é o relógio do servidor.",
            "Nunca altere a API pública.",
        ),
        (
            "Behebe den Fehler beim Login. Ändere niemals die API.",
            "Die Ursache ist die Uhr des Servers.",
            "Ändere niemals die API.",
        ),
        ("Исправь ошибку входа. Никогда не меняй API.", "Причина в часах сервера.", "Никогда не меняй API."),
        ("أصلح خطأ الدخول. يجب أن تبقى الواجهة كما هي.", "السبب هو ساعة الخادم.", "يجب أن تبقى الواجهة كما هي."),
        ("修复登录错误。不要修改公开接口。", "原因是服务器时钟。", "不要修改公开接口。"),
        (
            "ログインの不具合を直して。公開 API は必ずそのままに。",
            "サーバーの時計が原因です。ずれのためです。",
            "公開 API は必ずそのままに。",
        ),
        ("로그인 오류를 고쳐 줘. 공개 API는 항상 그대로 둬.", "원인은 서버 시계입니다.", "공개 API는 항상 그대로 둬."),
        ("लॉगिन की गलती ठीक करो। API मत बदलो।", "कारण सर्वर की घड़ी है।", "API मत बदलो।"),
    ] {
        let messages = vec![
            user(1, request),
            calls(2, &[("a", "terminal", "{\"command\":\"cargo test\"}")]),
            result(3, "a", "terminal", &"ok\n".repeat(800)),
            assistant(4, &format!("{decision} OK.")),
            user(5, "ok"),
        ];
        let text = outline_of(&messages, 400, &Options::default());
        for want in [request, rule, decision.split_inclusive(['。', '।']).next().unwrap_or(decision)] {
            assert!(text.contains(want), "{want} is missing from:\n{text}");
        }
    }
}

#[test]
fn open_tasks_and_what_was_mended_are_told() {
    let failed = "running 3 tests\nerror: test auth::refresh failed\nexit code: 101";
    let todo = r#"{"todos":[{"content":"mend the parser","status":"completed"},{"content":"add a test","status":"in_progress"}]}"#;
    let mut messages = vec![user(1, "<system-reminder>be quick</system-reminder>Mend the parser")];
    for (at, output) in [failed, "3 passed\nexit code: 0"].into_iter().enumerate() {
        let id = format!("c{at}");
        messages.push(calls(2 + at as u64 * 2, &[(&id, "terminal", "{\"command\":\"cargo test\"}")]));
        messages.push(result(3 + at as u64 * 2, &id, "terminal", &format!("{output}\n{}", "line\n".repeat(300))));
    }
    messages.push(calls(8, &[("t", "TodoWrite", todo)]));
    messages.push(result(9, "t", "TodoWrite", "ok"));
    messages.push(assistant(10, "Done."));
    let text = outline_of(&messages, 500, &Options::default());
    assert!(text.contains("(the same call went well later)"), "{text}");
    assert!(text.contains("- [in_progress] add a test") && !text.contains("mend the parser\n- [completed"), "{text}");
    assert!(!text.contains("be quick") && !text.contains("- Done"), "{text}");
}

#[test]
fn sections_that_are_made_anew_are_not_carried_on() {
    let text = "## Goal\n- \"Port it\"\n\n## Anchor Index (exact)\n- Files: a.rs (x9)\n\n## Context Recovery\nMessages 1 to 9.\n";
    let mut messages = vec![flagged(user(1, text), Flags::SUMMARY.with(Flags::SYNTHETIC))];
    messages.extend(session());
    let got = outline_of(&messages, 900, &Options::default());
    assert!(got.contains("- \"Port it\""), "{got}");
    assert!(!got.contains("(x9)") && !got.contains("Messages 1 to 9"), "{got}");
}

#[test]
fn twenty_recompactions_neither_grow_nor_lose_the_first_request() {
    let mut text = outline_of(&session(), 700, &Options::default());
    for round in 0..20 {
        let mut messages = vec![flagged(user(1, &text), Flags::SUMMARY.with(Flags::SYNTHETIC))];
        for step in 0..8_u64 {
            let id = format!("r{round}_{step}");
            messages.push(calls(
                10 + step * 2,
                &[(&id, "terminal", &format!("{{\"command\":\"make part{round}_{step}\"}}"))],
            ));
            messages.push(result(11 + step * 2, &id, "terminal", &"built\n".repeat(200)));
        }
        messages.push(user(40, &format!("Now part {round}, please.")));
        text = outline_of(&messages, 700, &Options::default());
        assert!(count(&text) <= 700);
    }
    assert!(text.contains("Fix the login loop in src/auth/session.rs"), "{text}");
    assert!(text.contains("Now part 19"), "{text}");
}
