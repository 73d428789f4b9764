//! Points in time as models write them: seconds since 1970, or ISO 8601 with a zone.

use engine_api::json::Value;

/// Returns the milliseconds since 1970 of an argument.
pub(super) fn read(name: &str, value: &Value) -> Result<u64, String> {
    if let Some(seconds) = value.as_f64() {
        return if (0.0..1e12).contains(&seconds) {
            Ok((seconds * 1_000.0) as u64)
        } else {
            Err(format!("{name} must be seconds since 1970 or an ISO timestamp"))
        };
    }
    let text = value.as_str().ok_or_else(|| format!("{name} must be seconds since 1970 or an ISO timestamp"))?;
    iso(text.trim()).map_err(|why| format!("{name} {why}"))
}

fn iso(text: &str) -> Result<u64, String> {
    const WANTED: &str = "must be an ISO timestamp such as 2026-03-01T12:00:00Z";
    let wrong = || WANTED.to_string();
    let (date, time) = text.split_once(['T', 't', ' ']).ok_or_else(wrong)?;
    let mut numbers = date.splitn(3, '-').map(|piece| piece.parse::<i64>().ok());
    let mut next = || numbers.next().flatten().ok_or_else(wrong);
    let (year, month, day) = (next()?, next()?, next()?);
    let zone_at = time.find(['Z', 'z', '+', '-']);
    let Some(zone_at) = zone_at else {
        return Err("ISO timestamp must include a timezone offset or Z".to_string());
    };
    let (clock, zone) = (time.get(..zone_at).ok_or_else(wrong)?, time.get(zone_at..).ok_or_else(wrong)?);
    let mut pieces = clock.splitn(3, ':');
    let mut piece = || pieces.next().unwrap_or("0").parse::<f64>().ok().filter(|n| *n >= 0.0).ok_or_else(wrong);
    let (hour, minute, second) = (piece()?, piece()?, piece()?);
    let offset_minutes = match zone.get(..1) {
        Some("Z" | "z") => 0,
        sign => {
            let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
            let hours: i64 = digits.get(..2).and_then(|d| d.parse().ok()).ok_or_else(wrong)?;
            let minutes: i64 = digits.get(2..4).map_or(Some(0), |d| d.parse().ok()).ok_or_else(wrong)?;
            (hours * 60 + minutes) * if sign == Some("-") { -1 } else { 1 }
        }
    };
    let is_sane = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 25.0
        && minute < 60.0
        && second < 61.0;
    if !is_sane {
        return Err(wrong());
    }
    let seconds = days(year, month, day) as f64 * 86_400.0 + hour * 3_600.0 + minute * 60.0 + second
        - offset_minutes as f64 * 60.0;
    Ok((seconds.max(0.0) * 1_000.0).round() as u64)
}

/// Days from 1970-01-01, by eras of 400 years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Writes a time as ISO 8601 in UTC; `null` where it is not known.
pub(super) fn written(at_ms: u64) -> Value {
    if at_ms == 0 {
        return Value::Null;
    }
    let seconds = i64::try_from(at_ms / 1_000).unwrap_or(0);
    let (day, clock) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    Value::String(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::json::json;

    #[test]
    fn times_are_read_and_written() {
        for (value, want) in [
            (json!(1_700_000_000), 1_700_000_000_000),
            (json!("2023-11-14T22:13:20Z"), 1_700_000_000_000),
            (json!("2023-11-15T00:13:20+02:00"), 1_700_000_000_000),
            (json!("2023-11-14 17:13:20.500-0500"), 1_700_000_000_500),
            (json!("1970-01-01T00:00Z"), 0),
            (json!("2024-02-29T00:00:00Z"), 1_709_164_800_000),
        ] {
            assert_eq!(read("since", &value), Ok(want), "{value}");
        }
        let zone = read("time_from", &json!("2023-11-14T22:13:20")).unwrap_err();
        assert_eq!(zone, "time_from ISO timestamp must include a timezone offset or Z");
        for value in [json!("yesterday"), json!(-5), json!([]), json!("2023-13-01T00:00Z"), json!("2023-01-01T99:00Z")]
        {
            assert!(read("since", &value).is_err(), "{value}");
        }
        assert_eq!(written(1_709_164_800_000), json!("2024-02-29T00:00:00Z"));
        assert_eq!(written(1_700_000_000_123), json!("2023-11-14T22:13:20Z"));
        assert_eq!(written(0), Value::Null);
    }
}
