//! Tests of counting names.

use super::*;
use engine_api::testing::{assistant, calls, result, user};

fn found(text: &str) -> Vec<(String, Kind)> {
    let mut out = Vec::new();
    words(text, &mut |word, kind| out.push((word.to_owned(), kind)));
    out
}

#[test]
fn names_are_told_by_their_letters() {
    let got =
        found("see src/auth/session.rs:10, port 8080 and `retry_count` in HttpClient::send; v1.2.3 #4312 abc12def");
    let want = [
        ("src/auth/session.rs", Kind::Path),
        ("8080", Kind::Number),
        ("retry_count", Kind::Identifier),
        ("HttpClient::send", Kind::Identifier),
        ("v1.2.3", Kind::Number),
        ("#4312", Kind::Number),
        ("abc12def", Kind::Identifier),
    ];
    assert_eq!(got, want.map(|(word, kind)| (word.to_owned(), kind)));
}

#[test]
fn plain_words_are_no_names() {
    assert_eq!(found("and/or the dog's 1 tail, e.g. this. Well-known -- and so on... 日本語 http://x//"), []);
}

#[test]
fn what_stands_in_the_context_is_kept_and_the_rest_is_not() {
    let lost = [
        user(1, "change src/a.rs and src/b.rs, 4096 bytes"),
        calls(
            2,
            &[("c", "bash", r#"{"command":"cargo test -p core\nls"}"#), ("d", "bash", r#"{"command":["git","push"]}"#)],
        ),
        result(3, "c", "bash", "thread_pool failed"),
    ];
    let seen = [assistant(9, "In src/a.rs I set 4096; ran `cargo test -p core`.")];
    let got = count(lost.iter().rev(), seen.iter());
    assert_eq!(got.paths, Kept { kept: 1, of: 2 });
    assert_eq!(got.numbers, Kept { kept: 1, of: 1 });
    assert_eq!(got.commands, Kept { kept: 1, of: 2 });
    assert_eq!(got.identifiers, Kept { kept: 0, of: 1 });
}

#[test]
fn a_command_counts_in_a_call_that_is_kept_and_when_it_is_short() {
    let call = |id, command: &str| calls(id, &[("c", "bash", &serde_json::json!({ "command": command }).to_string())]);
    let lost = [call(1, "grep \"a b\" x.txt"), call(2, "ls -l"), call(3, "pwd")];
    let seen = [call(4, "grep \"a b\" x.txt"), assistant(5, "first\n  $ ls -l\n")];
    assert_eq!(count(lost.iter(), seen.iter()).commands, Kept { kept: 2, of: 3 });
}

#[test]
fn each_name_counts_once_and_no_more_than_the_bound() {
    let listing: String = (0..10_000).map(|n| format!("src/module_{n}/file.rs src/module_{n}/file.rs\n")).collect();
    let lost: Vec<_> = (0..8).map(|id| result(id + 1, "c", "bash", &listing)).collect();
    let got = count(lost.iter(), [].iter()).paths;
    assert!(got.kept == 0 && got.of > 1_000 && got.of <= NAMES_MAX as u64, "{got:?}");
    let nothing = count([].iter(), lost.iter());
    assert_eq!(nothing, Survival::default());
}

#[test]
fn odd_texts_do_no_harm() {
    for text in ["a/".repeat(500_000), "é".repeat(300_000), ":".repeat(500_000), "\u{1b}[2J/..//".repeat(50_000)] {
        let message = [user(1, &text)];
        let _ = count(message.iter(), message.iter());
    }
}
