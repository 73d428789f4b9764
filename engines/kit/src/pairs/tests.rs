//! Units of hand-made lists, good and faulty, and of random ones.
use super::*;
use crate::testing::{conversation, flagged};
use engine_api::testing::{assistant, calls, result, system, user};
use engine_api::{Message, Part, ViewTable};
use proptest::prelude::*;

fn cut(messages: &[Message]) -> Vec<Range<usize>> {
    let table = ViewTable::new(1, messages);
    let conversation = table.conversation();
    units(&conversation)
}

fn reasoning(id: u64) -> Message {
    let mut message = assistant(id, "");
    message.parts = vec![Part::new(PartKind::Reasoning, "hm")];
    message
}

/// `a` to `z`: a call; upper case: its result; `u` and `s` as they are; `.` the model's text; `~` reasoning alone; `i`
/// a client's message; letters within brackets: several calls in one message.
fn list(picture: &str) -> Vec<Message> {
    let mut out = Vec::new();
    let mut letters = picture.chars();
    while let Some(letter) = letters.next() {
        let id = out.len() as u64 + 1;
        let call = letter.to_ascii_lowercase().to_string();
        out.push(match letter {
            'U' => user(id, "x"),
            'S' => system(id, "x"),
            'I' => flagged(user(id, "x"), Flags::INJECTED),
            '.' => assistant(id, "x"),
            '~' => reasoning(id),
            '[' => {
                let ids: Vec<String> = letters.by_ref().take_while(|letter| *letter != ']').map(String::from).collect();
                calls(id, &ids.iter().map(|id| (id.as_str(), "bash", "{}")).collect::<Vec<_>>())
            }
            _ if letter.is_lowercase() => calls(id, &[(&call, "bash", "{}")]),
            _ => result(id, &call, "bash", "x"),
        });
    }
    out
}

fn sizes(picture: &str) -> Vec<usize> {
    cut(&list(picture)).iter().map(|unit| unit.len()).collect()
}

#[test]
fn calls_and_their_results_are_one_unit() {
    for (picture, want) in [
        ("", &[][..]),
        ("SU.U.", &[1, 1, 1, 1, 1]),
        ("UaA.", &[1, 2, 1]),
        ("U[abc]BAC.", &[1, 4, 1]),
        ("UaAbBcC", &[1, 2, 2, 2]),
        ("UaIA.", &[1, 3, 1]),
        // Items of the Responses dialect: calls, then outputs, also interleaved.
        ("UabcABC", &[1, 6]),
        ("UabAcBC", &[1, 6]),
        // Reasoning belongs to the item after it, and through a text to the calls it led to.
        ("U~aA~bB", &[1, 3, 3]),
        ("U~.aA", &[1, 4]),
        ("U~~.U", &[1, 3, 1]),
        ("U~U", &[1, 1, 1]),
        ("U.aA", &[1, 1, 2]),
    ] {
        assert_eq!(sizes(picture), want, "{picture}");
    }
}

#[test]
fn faulty_histories_are_not_glued_together() {
    for (picture, want) in [
        // No result at all, a result without a call, one before its call, one twice.
        ("UabcU", &[1, 1, 1, 1, 1][..]),
        ("UAU", &[1, 1, 1]),
        ("UAaU", &[1, 1, 1, 1]),
        ("UaAAAU", &[1, 2, 1, 1, 1]),
        // An answer after the person spoke again is too late.
        ("UaUA", &[1, 1, 1, 1]),
        // An id that is used again: the result belongs to the newer call.
        ("UaaA", &[1, 1, 2]),
        ("UaAaA", &[1, 2, 2]),
    ] {
        assert_eq!(sizes(picture), want, "{picture}");
    }
    let late = format!("Uz{}Z", "aA".repeat(200));
    assert!(sizes(&late).iter().all(|size| *size <= 2), "one late result would tie four hundred messages");
    assert!(sizes(&"~".repeat(5_000)).iter().all(|size| *size <= REASONING_RUN_MAX + 1));
}

#[test]
fn results_at_the_head_of_a_persons_message_close_the_call() {
    let mut messages = list("Ua");
    let mut answer = user(3, "and then?");
    answer.parts.insert(0, Part::result("a", "x"));
    messages.push(answer);
    assert_eq!(cut(&messages), [0..1, 1..3]);
}

#[test]
fn only_members_of_one_family_pair() {
    let mut messages = list("UaaAA");
    for (at, family) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        let part = &mut messages[at].parts[0];
        part.flags = part.flags.with_family(family);
    }
    assert_eq!(cut(&messages), [0..1, 1..4, 4..5]);
}

#[test]
fn ten_thousand_parallel_calls_are_one_unit() {
    let ids: Vec<String> = (0..10_000).map(|at| format!("c{at}")).collect();
    let mut messages = vec![user(1, "x"), calls(2, &ids.iter().map(|id| (id.as_str(), "b", "{}")).collect::<Vec<_>>())];
    messages.extend(ids.iter().map(|id| result(3, id, "b", "x")));
    assert_eq!(cut(&messages), [0..1, 1..10_002]);
}

#[test]
fn positions_align_to_where_units_start() {
    let units = [0..1, 1..4, 4..6];
    let down: Vec<usize> = (0..8).map(|at| align_down(&units, at)).collect();
    let up: Vec<usize> = (0..8).map(|at| align_up(&units, at)).collect();
    assert_eq!(down, [0, 1, 1, 1, 4, 4, 6, 7]);
    assert_eq!(up, [0, 1, 4, 4, 4, 6, 6, 7]);
}

/// The places of calls and results by id, found the slow way.
fn is_split(messages: &[Message], boundary: usize) -> bool {
    let ids = |list: &[Message], kind| -> Vec<String> {
        let parts = list.iter().flat_map(|message| &message.parts);
        parts.filter(|part| part.kind == kind).map(|part| part.call_id.clone()).collect()
    };
    let (before, after) = messages.split_at(boundary);
    let results = ids(after, PartKind::ToolResult);
    ids(before, PartKind::ToolCall).iter().any(|id| results.contains(id))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn units_cover_every_position_once_and_in_order(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte & 0x3f).collect();
        for is_faulty in [false, true] {
            let messages = conversation(&bytes, is_faulty);
            let units = cut(&messages);
            let positions: Vec<usize> = units.iter().cloned().flatten().collect();
            prop_assert_eq!(positions, (0..messages.len()).collect::<Vec<_>>());
            if !is_faulty {
                for unit in &units {
                    prop_assert!(!is_split(&messages, unit.start), "unit {:?}", unit);
                }
            }
        }
    }
}
