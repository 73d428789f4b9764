//! How long an endpoint that failed is left alone, kept in a file so that a restart does not forget it.
//!
//! Several processes share the file without a lock: each reads it anew, changes its own entry and replaces the whole.
//! Two that write in the same moment may lose one entry, which costs one request to a model.

use crate::failure::{Failure, Kind};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file in the home folder.
const FILE_NAME: &str = "cooldowns.json";
/// Endpoints remembered; those that end first are forgotten first.
const ENTRIES_MAX: usize = 256;
/// A larger file is damaged.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// The longest pause that a provider's own wish can cause.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(900);
/// Longest pause of all; a later end in the file was written by a clock that was wrong.
const PAUSE_MS_MAX: u64 = 900_000;
/// Timeouts this long apart are not in a row.
const LADDER_MS: u64 = 3_600_000;

/// What is known of one model at one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    endpoint: String,
    model: String,
    /// When it may be asked again, in milliseconds since 1970.
    until_ms: u64,
    /// Why, in a few words.
    why: String,
    /// Timeouts in a row.
    #[serde(default)]
    timeouts: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Table {
    #[serde(default)]
    entries: Vec<Entry>,
}

/// A running pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) left: Duration,
    pub(crate) why: String,
}

/// The pauses of all endpoints.
pub(crate) struct Cooldowns {
    path: PathBuf,
    /// Holds the table where the file cannot be written.
    memory: Mutex<Option<Table>>,
}

/// A model at an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) model: &'a str,
}

impl Cooldowns {
    pub(crate) fn new(home: &std::path::Path) -> Self {
        Cooldowns { path: home.join(FILE_NAME), memory: Mutex::new(None) }
    }

    /// Returns the pause of a place, if one is running.
    pub(crate) fn pause(&self, place: Place<'_>, now_ms: u64) -> Option<Pause> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let read;
        let table = match memory.as_ref() {
            Some(table) => table,
            None => {
                read = self.read();
                &read
            }
        };
        let entry = table.find(place)?;
        let left_ms = entry.until_ms.checked_sub(now_ms).filter(|left| *left > 0 && *left <= PAUSE_MS_MAX)?;
        Some(Pause { left: Duration::from_millis(left_ms), why: entry.why.clone() })
    }

    /// Notes a failure.
    pub(crate) fn failed(&self, place: Place<'_>, failure: &Failure, now_ms: u64) {
        if failure.kind.cooldown(1).is_none() {
            return;
        }
        self.change(|table| {
            let before = table.find(place).filter(|entry| now_ms.saturating_sub(entry.until_ms) < LADDER_MS);
            let timeouts = match failure.kind {
                Kind::TimedOut => before.map_or(0, |entry| entry.timeouts).saturating_add(1),
                _ => 0,
            };
            let pause = failure.kind.cooldown(timeouts).unwrap_or_default();
            let pause = pause.max(failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
            let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(PAUSE_MS_MAX).min(PAUSE_MS_MAX);
            table.entries.retain(|entry| !entry.is_of(place));
            table.entries.push(Entry {
                endpoint: place.endpoint.to_owned(),
                model: place.model.to_owned(),
                until_ms: now_ms.saturating_add(pause_ms),
                why: failure.outcome(),
                timeouts,
            });
            true
        });
    }

    /// Forgets what was noted of a place: it answered, or a person wants it asked.
    pub(crate) fn clear(&self, place: Place<'_>) {
        self.change(|table| {
            let before = table.entries.len();
            table.entries.retain(|entry| !entry.is_of(place));
            table.entries.len() != before
        });
    }

    fn change(&self, edit: impl FnOnce(&mut Table) -> bool) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = memory.take();
        let is_kept = kept.is_some();
        let mut table = kept.unwrap_or_else(|| self.read());
        if !edit(&mut table) {
            *memory = is_kept.then_some(table);
        } else {
            if let Some(over) = table.entries.len().checked_sub(ENTRIES_MAX).filter(|over| *over > 0) {
                table.entries.sort_by_key(|entry| entry.until_ms);
                table.entries.drain(..over);
            }
            let written = serde_json::to_string_pretty(&table).ok().map(|text| text + "\n");
            let is_written = written.is_some_and(|text| host_config::write_atomically(&self.path, &text).is_ok());
            if !is_written {
                *memory = Some(table);
            }
        }
    }

    /// Reads the file; one that is missing, damaged or too large holds nothing.
    fn read(&self) -> Table {
        let mut text = String::new();
        let read = File::open(&self.path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        match read {
            Ok(bytes) if bytes as u64 <= FILE_BYTES_MAX => serde_json::from_str(&text).unwrap_or_default(),
            Ok(_) | Err(_) => Table::default(),
        }
    }
}

impl Table {
    fn find(&self, place: Place<'_>) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is_of(place))
    }
}

impl Entry {
    fn is_of(&self, place: Place<'_>) -> bool {
        self.endpoint == place.endpoint && self.model == place.model
    }
}

/// Returns the wall clock in milliseconds since 1970: pauses outlive the process, so no other clock will do.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place { endpoint: "https://a", model: "m" };

    fn seconds(cooldowns: &Cooldowns, place: Place<'_>, now_ms: u64) -> u64 {
        cooldowns.pause(place, now_ms).map_or(0, |pause| pause.left.as_secs())
    }

    #[test]
    fn a_pause_outlives_its_process_and_ends() {
        let home = tempfile::tempdir().unwrap();
        Cooldowns::new(home.path()).failed(PLACE, &Failure::new(Kind::Auth, ""), 1_000);
        let other = Cooldowns::new(home.path());
        assert_eq!(
            other.pause(PLACE, 1_000).unwrap(),
            Pause { left: Duration::from_secs(60), why: "key refused".into() }
        );
        assert_eq!(seconds(&other, Place { model: "n", ..PLACE }, 1_000), 0);
        assert_eq!(seconds(&other, PLACE, 61_000), 0);
        other.clear(PLACE);
        assert_eq!(seconds(&Cooldowns::new(home.path()), PLACE, 1_000), 0);
    }

    #[test]
    fn timeouts_in_a_row_climb_and_a_success_starts_over() {
        let home = tempfile::tempdir().unwrap();
        let cooldowns = Cooldowns::new(home.path());
        let late = Failure::new(Kind::TimedOut, "");
        let mut now = 0;
        for want in [60, 300, 900, 900] {
            cooldowns.failed(PLACE, &late, now);
            assert_eq!(seconds(&cooldowns, PLACE, now), want);
            now += want * 1_000 + 1;
        }
        cooldowns.clear(PLACE);
        cooldowns.failed(PLACE, &late, now);
        assert_eq!(seconds(&cooldowns, PLACE, now), 60);
        cooldowns.failed(PLACE, &late, now + 10 * LADDER_MS);
        assert_eq!(seconds(&cooldowns, PLACE, now + 10 * LADDER_MS), 60, "a day apart is not in a row");
    }

    #[test]
    fn a_provider_may_ask_for_more_time_but_not_for_ever() {
        let home = tempfile::tempdir().unwrap();
        let cooldowns = Cooldowns::new(home.path());
        for (asked, want) in [(5, 60), (120, 120), (100_000, 900)] {
            let failure =
                Failure { retry_after: Some(Duration::from_secs(asked)), ..Failure::new(Kind::RateLimited, "") };
            cooldowns.failed(PLACE, &failure, 0);
            assert_eq!(seconds(&cooldowns, PLACE, 0), want);
        }
    }

    #[test]
    fn damaged_files_hold_nothing_and_are_replaced() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE_NAME);
        let far = r#"{"entries":[{"endpoint":"https://a","model":"m","until_ms":18446744073709551615,"why":"x"}]}"#;
        let huge = format!("{{\"entries\":[{}]}}", " ".repeat(300_000));
        for text in ["", "{", "[]", "null", "{\"entries\":7}", "\u{0}", far, &huge] {
            std::fs::write(&path, text).unwrap();
            let cooldowns = Cooldowns::new(home.path());
            assert_eq!(cooldowns.pause(PLACE, 5), None, "{}", text.len());
            cooldowns.failed(PLACE, &Failure::new(Kind::Server, ""), 5);
            assert_eq!(seconds(&Cooldowns::new(home.path()), PLACE, 5), 60);
        }
        std::fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
        assert_eq!(Cooldowns::new(home.path()).pause(PLACE, 5), None);
    }

    #[test]
    fn a_home_that_cannot_be_written_keeps_pauses_in_memory() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        let cooldowns = Cooldowns::new(&file);
        cooldowns.failed(PLACE, &Failure::new(Kind::Server, ""), 0);
        assert_eq!(seconds(&cooldowns, PLACE, 0), 60);
        cooldowns.clear(PLACE);
        assert_eq!(seconds(&cooldowns, PLACE, 0), 0);
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let home = tempfile::tempdir().unwrap();
        let entries = (0..ENTRIES_MAX as u64).map(|n| Entry {
            endpoint: format!("https://{n}"),
            model: "m".into(),
            until_ms: 1_000_000 + n,
            why: String::new(),
            timeouts: 0,
        });
        let text = serde_json::to_string(&Table { entries: entries.collect() }).unwrap();
        std::fs::write(home.path().join(FILE_NAME), text).unwrap();
        let cooldowns = Cooldowns::new(home.path());
        cooldowns.failed(PLACE, &Failure::new(Kind::Server, ""), 2_000_000);
        assert_eq!(cooldowns.read().entries.len(), ENTRIES_MAX);
        assert_eq!(seconds(&cooldowns, PLACE, 2_000_000), 60);
    }
}
