//! Recorded sessions are foreseen within three percent, and reports that lie are not believed.

use super::*;

/// The share by which an expectation may miss.
const MISS_MAX: f64 = 0.03;
/// Reports that are heard before expectations are judged.
const TURNS: usize = 3;

/// What a call counted and what was reported for it; nothing where the session was compacted.
type Turn = Option<(u64, u64)>;

/// Every session's calls in order. How they were made stands in `usage/extract.py`.
fn sessions() -> Vec<(String, Vec<Turn>)> {
    let mut sessions: Vec<(String, Vec<Turn>)> = Vec::new();
    for line in include_str!("../../tests/usage/turns.tsv").lines().skip(1) {
        let mut fields = line.split('\t');
        let mut field = || fields.next().expect("three fields a line");
        let (name, counted, reported) = (field(), field(), field());
        let turn = counted.parse().ok().zip(reported.parse().ok());
        match sessions.last_mut().filter(|(last, _)| last == name) {
            Some((_, turns)) => turns.push(turn),
            None => sessions.push((name.to_owned(), vec![turn])),
        }
    }
    sessions
}

/// The misses of a session after its first turns. The call after a compaction is heard and not judged: a transcript does
/// not say what else its client sent with the summary.
fn misses(turns: &[Turn]) -> Vec<f64> {
    let mut calibration = Calibration::new(Basis::Proxy);
    let mut misses = Vec::new();
    let (mut heard, mut was_compacted) = (0, false);
    for turn in turns {
        let Some((counted, reported)) = *turn else {
            was_compacted = true;
            continue;
        };
        if heard >= TURNS && !was_compacted {
            misses.push(calibration.apply(counted) as f64 / reported as f64 - 1.0);
        }
        calibration.observe(counted, reported);
        heard += 1;
        was_compacted = false;
    }
    misses
}

fn quantile(misses: &[f64], share: f64) -> f64 {
    let mut sizes: Vec<f64> = misses.iter().map(|miss| miss.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes[((sizes.len() as f64 * share) as usize).min(sizes.len() - 1)]
}

#[test]
fn recorded_sessions_are_foreseen_within_three_percent_after_three_turns() {
    let mut all = Vec::new();
    let mut far = Vec::new();
    for (name, turns) in sessions() {
        let misses = misses(&turns);
        let (median, most) = (quantile(&misses, 0.5), quantile(&misses, 0.9));
        // The parent of subagents is short, and its client sends reminders that the transcript leaves out.
        let most_max = if name == "cc-parent-of-subagents" { 0.05 } else { MISS_MAX };
        if median > 0.01 || most > most_max {
            far.push(format!("{name}: median {median:.4}, nine in ten within {most:.4}"));
        }
        all.extend(misses);
    }
    assert!(all.len() > 1_500, "{} calls", all.len());
    assert!(far.is_empty(), "{}", far.join("\n"));
    let within = all.iter().filter(|miss| miss.abs() <= MISS_MAX).count() as f64 / all.len() as f64;
    assert!(within >= 0.98, "{within:.4} of {} calls are within three percent", all.len());
    assert!(quantile(&all, 0.95) <= 0.02, "{}", quantile(&all, 0.95));
}

#[test]
fn an_uncalibrated_count_would_miss() {
    let (mut far, mut all) = (0, 0);
    for (counted, reported) in sessions().into_iter().flat_map(|(_, turns)| turns).flatten() {
        far += usize::from((counted as f64 / reported as f64 - 1.0).abs() > MISS_MAX);
        all += 1;
    }
    assert!(far * 10 > all * 9, "{far} of {all}");
}

/// Hears honest reports of a session with this overhead and factor.
fn heard(overhead: f64, factor: f64) -> Calibration {
    let mut calibration = Calibration::new(Basis::Proxy);
    for turn in 1..=10u64 {
        let counted = turn * 4_000;
        assert_eq!(calibration.observe(counted, (overhead + factor * counted as f64) as u64), Heard::Taken);
    }
    calibration
}

#[test]
fn overhead_and_factor_are_told_apart() {
    for (overhead, factor) in [(0.0, 1.0), (20_000.0, 1.0), (15_000.0, 1.3), (30_000.0, 0.8), (500.0, 1.7)] {
        let calibration = heard(overhead, factor);
        assert!((calibration.factor() - factor).abs() < 0.05, "{} for {factor}", calibration.factor());
        assert!(
            (calibration.overhead() as f64 - overhead).abs() < 2_500.0,
            "{} for {overhead}",
            calibration.overhead()
        );
        // After a compaction to a tenth, and after growth to the double.
        for counted in [4_000u64, 80_000] {
            let right = overhead + factor * counted as f64;
            let miss = (calibration.apply(counted) as f64 - right).abs() / right;
            assert!(miss < 0.12, "{counted} of {overhead} + {factor}: {miss}");
        }
    }
}

#[test]
fn before_any_report_the_first_factor_is_all_there_is() {
    let calibration = Calibration::new(Basis::Proxy);
    assert_eq!((calibration.apply(1_000), calibration.overhead(), calibration.is_calibrated()), (1_200, 0, false));
    assert_eq!(Calibration::new(Basis::Exact).apply(1_000), 1_000);
}

#[test]
fn impossible_reports_change_nothing() {
    let mut calibration = heard(10_000.0, 1.2);
    let before = calibration;
    for (counted, reported) in
        [(44_000, 0), (44_000, 1), (44_000, 900), (44_000, 900_000), (44_000, u64::MAX), (0, u64::MAX)]
    {
        assert_eq!(calibration.observe(counted, reported), Heard::Impossible, "{reported}");
    }
    assert_eq!(calibration, before);
    assert_eq!(Calibration::new(Basis::Exact).observe(100_000, 5), Heard::Impossible);
}

#[test]
fn one_jump_is_set_aside_and_a_lasting_change_is_followed() {
    let mut calibration = heard(10_000.0, 1.2);
    let expected = calibration.apply(44_000);
    assert_eq!(calibration.observe(44_000, 200_000), Heard::SetAside);
    assert_eq!(calibration.apply(44_000), expected);
    // The truth again: the jump is forgotten.
    assert_eq!(calibration.observe(44_000, expected), Heard::Taken);
    assert_eq!(calibration.observe(46_000, 200_000), Heard::SetAside);
    // A hundred tools more, for good.
    assert_eq!(calibration.observe(48_000, 202_000), Heard::Taken);
    assert!(calibration.apply(50_000).abs_diff(204_400) < 500, "{}", calibration.apply(50_000));
}

#[test]
fn reports_that_jump_to_and_fro_are_never_followed() {
    let mut calibration = heard(10_000.0, 1.2);
    let expected = calibration.apply(44_000);
    for turn in 0..100 {
        let reported = if turn % 2 == 0 { 30_000 } else { 150_000 };
        assert_eq!(calibration.observe(44_000, reported), Heard::SetAside);
    }
    assert_eq!(calibration.apply(44_000), expected);
}

#[test]
fn the_factor_stays_within_its_limits_whatever_is_reported() {
    let mut calibration = Calibration::new(Basis::Exact);
    for turn in 1..200u64 {
        calibration.observe(turn * 1_000, 1_000 + turn * 5_000);
        assert!((FACTOR_MIN..=FACTOR_MAX).contains(&calibration.factor()));
    }
    for value in [u64::MAX, u64::MAX / 2, 0, 1] {
        calibration.apply(value);
    }
}

#[test]
fn a_stored_calibration_is_the_same_and_a_spoilt_one_is_safe() {
    let calibration = heard(10_000.0, 1.2);
    let text = serde_json::to_string(&calibration).unwrap();
    assert!(text.len() < 300);
    assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), calibration);
    assert_eq!(serde_json::from_str::<Calibration>("{}").unwrap(), Calibration::default());
    let spoilt = r#"{"first_factor":-1e308,"counted_growth":-2000.0,"reported_growth":1e308,
        "last":{"counted":18446744073709551615,"reported":0},"doubtful_count":4294967295}"#;
    let mut spoilt: Calibration = serde_json::from_str(spoilt).unwrap();
    assert!((FACTOR_MIN..=FACTOR_MAX).contains(&spoilt.factor()));
    spoilt.apply(5);
    spoilt.observe(1_000, 1_000);
    spoilt.observe(1_000, 1_000);
    spoilt.apply(u64::MAX);
}
