//! The day, for a prompt.

/// Returns a day as `2026-03-21`: days since 1970 to a date of the Gregorian calendar, in whole cycles of 400 years.
pub(crate) fn date(unix_ms: u64) -> String {
    let days = unix_ms / 86_400_000 + 719_468;
    let cycle = days / 146_097;
    let day_of_cycle = days % 146_097;
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_cycle + cycle * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (ms, want) in [(0, "1970-01-01"), (1_700_000_000_000, "2023-11-14"), (951_782_400_000, "2000-02-29")] {
            assert_eq!(date(ms), want);
        }
        assert!(date(u64::MAX).len() > 10, "a clock out of order gives a date out of order, no panic");
    }
}
