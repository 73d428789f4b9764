//! Tests of reading lines with a cap.
use super::*;
use crate::problems::Severity;

type Seen = Vec<(u64, String)>;

fn run(bytes: &[u8], max: usize) -> (Seen, Vec<(Option<u64>, Severity)>) {
    let mut input = Input::from_bytes(bytes);
    let mut problems = Problems::default();
    let mut seen = Vec::new();
    records(&mut input, max, &mut problems, &mut |line, text, _| {
        let value: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)?;
        seen.push((line, serde_json::to_string(&value).unwrap()));
        Ok(())
    })
    .unwrap();
    (seen, problems.list.into_iter().map(|p| (p.line, p.severity)).collect())
}

fn check(text: &str, want: &[(u64, &str)], problems: &[(u64, Severity)]) {
    let (seen, found) = run(text.as_bytes(), 1_000);
    assert_eq!(seen, want.iter().map(|(n, t)| (*n, (*t).to_owned())).collect::<Vec<_>>(), "{text:?}");
    assert_eq!(found, problems.iter().map(|(n, s)| (Some(*n), *s)).collect::<Vec<_>>(), "{text:?}");
}

#[test]
fn records_come_one_a_line_whatever_the_line_ending() {
    check("{\"a\":1}\r\n\n  {\"a\":2}\n{\"a\":3}", &[(1, "{\"a\":1}"), (3, "{\"a\":2}"), (4, "{\"a\":3}")], &[]);
}

#[test]
fn glued_records_are_read_one_by_one() {
    check("{\"a\":1}{\"a\":2}\n", &[(1, "{\"a\":1}"), (1, "{\"a\":2}")], &[(1, Severity::Note)]);
}

#[test]
fn half_a_record_does_not_hide_the_whole_one_behind_it() {
    check("{\"parentUuid\":\"a\",\"te{\"parentUuid\":2}\n", &[(1, "{\"parentUuid\":2}")], &[(1, Severity::Lost)]);
}

#[test]
fn a_cut_record_is_lost_and_named() {
    check("{\"a\":1}\n{\"a\":\"xy", &[(1, "{\"a\":1}")], &[(2, Severity::Lost)]);
}

#[test]
fn values_that_are_no_objects_are_left_out() {
    check(
        "42\n[1]\n\"x\"\n{\"a\":1}\n",
        &[(4, "{\"a\":1}")],
        &[(1, Severity::Warning), (2, Severity::Warning), (3, Severity::Warning)],
    );
}

#[test]
fn nul_bytes_around_a_record_are_removed() {
    check("\0\0\0{\"a\":1}\n\0\0\n", &[(1, "{\"a\":1}")], &[(1, Severity::Warning), (2, Severity::Lost)]);
}

#[test]
fn a_line_over_the_limit_is_skipped_and_the_next_one_read() {
    let text = format!("{{\"a\":\"{}\"}}\n{{\"a\":2}}\n", "x".repeat(600_000));
    let (seen, found) = run(text.as_bytes(), 1_000);
    assert_eq!((seen.len(), found), (1, vec![(Some(1), Severity::Lost)]));
}

#[test]
fn bytes_that_are_no_utf8_are_replaced() {
    let (seen, found) = run(b"{\"a\":\"\xff\xfe\"}\n", 1_000);
    assert_eq!((seen[0].1.as_str(), found), ("{\"a\":\"\u{fffd}\u{fffd}\"}", vec![(Some(1), Severity::Warning)]));
}
