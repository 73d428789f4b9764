//! Times as people write and read them.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// Returns a time of the store in the reader's time zone, to the minute; empty where it is not known.
pub(crate) fn shown(at_ms: i64) -> String {
    if at_ms <= 0 {
        return String::new();
    }
    let at = Timestamp::from_millisecond(at_ms).map(|at| at.to_zoned_datetime(TimeZone::system()));
    at.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
}

/// Reads a time: a date, a date and time (in the reader's time zone unless it names another), or how long ago.
/// Returns milliseconds since 1970.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let known = ago(text, Timestamp::now()).or_else(|| text.parse::<Timestamp>().ok()).or_else(|| {
        let local = text
            .parse::<DateTime>()
            .ok()
            .or_else(|| Some(text.parse::<Date>().ok()?.to_datetime(jiff::civil::Time::midnight())))?;
        Some(local.to_zoned_datetime(TimeZone::system()).ok()?.timestamp())
    });
    let known =
        known.ok_or("write a date as 2026-01-31, a time as 2026-01-31T12:00, or how long ago as 3d, 12h, 30m")?;
    u64::try_from(known.as_millisecond()).map_err(|_| "the time is before 1970".to_owned())
}

/// Reads `3d`, `12h`, `30m`, `2w`.
fn ago(text: &str, now: Timestamp) -> Option<Timestamp> {
    let unit = text.chars().last()?;
    let count: i64 = text.strip_suffix(unit)?.parse().ok().filter(|count| *count >= 0)?;
    let minutes = match unit {
        'm' => count,
        'h' => count.checked_mul(60)?,
        'd' => count.checked_mul(60 * 24)?,
        'w' => count.checked_mul(60 * 24 * 7)?,
        _ => return None,
    };
    now.checked_sub(jiff::Span::new().try_minutes(minutes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form_that_the_help_names() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let before = |text: &str| ago(text, now).map(|at| 1_000_000_000 - at.as_second());
        assert_eq!((before("30m"), before("12h"), before("3d")), (Some(1_800), Some(43_200), Some(259_200)));
        assert_eq!((before("2w"), before("x"), before("-1d"), before("")), (Some(1_209_600), None, None, None));
        assert_eq!(before("99999999999999d"), None);
        assert_eq!(parse("2026-01-31T12:00:00Z").unwrap(), 1_769_860_800_000);
        assert_eq!(parse("2026-01-31T13:00+01:00").unwrap(), 1_769_860_800_000);
        let (date, midnight) = (parse("2026-01-31").unwrap(), parse("2026-01-31T00:00").unwrap());
        assert_eq!(date, midnight);
        for wrong in ["", "yesterday", "2026-13-01", "1960-01-01", "12"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_is_shown_to_the_minute() {
        let at = i64::try_from(parse("2026-01-31T12:34").unwrap()).unwrap();
        assert_eq!((shown(at), shown(0)), ("2026-01-31 12:34".to_owned(), String::new()));
    }
}
