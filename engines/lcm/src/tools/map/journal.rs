//! A job's files: what was asked, the items, and a row for each finished item, on the disk before the next is asked.

use engine_api::HostServices;
use engine_api::json::{Value, from_str, json, to_string};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Characters of a job's name.
const NAME_CHARS_MAX: usize = 68;
/// Bytes of a job's file that are read; a longer one was not written here.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The folder of all jobs within the engine's own.
const FOLDER: &str = "maps";

/// A finished item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// The item's position.
    pub(super) index: usize,
    /// Completions it took.
    pub(super) tries: u64,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Value>,
    /// Why there is none; such a row is tried again when the job goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl Row {
    pub(super) fn shown(&self) -> Value {
        match &self.error {
            Some(error) => json!({ "index": self.index, "status": "failed", "error": error, "tries": self.tries }),
            None => json!({ "index": self.index, "status": "done", "output": self.output, "tries": self.tries }),
        }
    }
}

/// A job.
pub(super) struct Journal {
    pub(super) job: String,
    pub(super) head: Value,
    pub(super) items: Vec<Value>,
    /// Whether rows reach the disk.
    pub(super) is_durable: bool,
    rows: BTreeMap<usize, Row>,
    file: Option<File>,
}

/// Tells whether a name is one of a job: it becomes the name of a folder.
pub(super) fn check_name(job: &str) -> Result<(), String> {
    let rest = job.strip_prefix("job_").unwrap_or_default();
    let is_plain = rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if rest.is_empty() || !is_plain || job.len() > NAME_CHARS_MAX {
        return Err(format!("job must be up to {} letters, digits, - and _", NAME_CHARS_MAX - 4));
    }
    Ok(())
}

fn folder(services: &dyn HostServices, job: &str) -> Option<PathBuf> {
    let root = services.data_dir().ok().filter(|root| !root.is_empty())?;
    Some(Path::new(&root).join(FOLDER).join(job))
}

impl Journal {
    /// Begins a job, or goes on with it if it was begun with the same prompt and items.
    pub(super) fn create(
        services: &dyn HostServices,
        job: &str,
        head: &Value,
        items: Vec<Value>,
    ) -> Result<Journal, String> {
        let Some(folder) = folder(services, job) else {
            return Ok(Journal {
                job: job.to_string(),
                head: head.clone(),
                items,
                is_durable: false,
                rows: BTreeMap::new(),
                file: None,
            });
        };
        if folder.join("job.json").exists() {
            let mut journal = Journal::load(&folder, job)?;
            let is_same = |key: &str| journal.head.get(key) == head.get(key);
            if journal.items != items || !["tool", "prompt", "schema"].into_iter().all(is_same) {
                return Err(format!("{job} is a job with another prompt, schema or other items; give another id"));
            }
            journal.lock(&folder)?;
            return Ok(journal);
        }
        let fail = |error: std::io::Error| format!("could not write the job {job}: {error}");
        fs::create_dir_all(&folder).map_err(fail)?;
        let mut lines = String::new();
        for item in &items {
            lines.push_str(&to_string(item).map_err(|error| error.to_string())?);
            lines.push('\n');
        }
        write_whole(&folder.join("items.jsonl"), lines.as_bytes()).map_err(fail)?;
        // The head comes last: a job without one was never begun.
        write_whole(&folder.join("job.json"), head.to_string().as_bytes()).map_err(fail)?;
        let mut journal = Journal {
            job: job.to_string(),
            head: head.clone(),
            items,
            is_durable: true,
            rows: BTreeMap::new(),
            file: None,
        };
        journal.lock(&folder)?;
        Ok(journal)
    }

    /// Opens a job that was begun.
    pub(super) fn open(services: &dyn HostServices, job: &str) -> Result<Journal, String> {
        check_name(job)?;
        let missing = || format!("there is no job {job} here");
        let folder = folder(services, job).ok_or_else(missing)?;
        if !folder.join("job.json").exists() {
            return Err(missing());
        }
        let mut journal = Journal::load(&folder, job)?;
        journal.is_durable = true;
        Ok(journal)
    }

    fn load(folder: &Path, job: &str) -> Result<Journal, String> {
        let read = |name: &str| {
            read_bounded(&folder.join(name)).map_err(|error| format!("could not read {name} of {job}: {error}"))
        };
        let head = from_str(&read("job.json")?).map_err(|error| format!("job.json of {job} is damaged: {error}"))?;
        let items = read("items.jsonl")?
            .lines()
            .map(from_str)
            .collect::<Result<Vec<Value>, _>>()
            .map_err(|error| format!("items.jsonl of {job} is damaged: {error}"))?;
        let mut rows = BTreeMap::new();
        if folder.join("rows.jsonl").exists() {
            // A line that a crash cut short is no row; its item is asked about again.
            for row in read("rows.jsonl")?.lines().filter_map(|line| from_str::<Row>(line).ok()) {
                if row.index < items.len() {
                    rows.insert(row.index, row);
                }
            }
        }
        Ok(Journal { job: job.to_string(), head, items, is_durable: true, rows, file: None })
    }

    /// Opens the rows for writing; one process works on a job at a time.
    fn lock(&mut self, folder: &Path) -> Result<(), String> {
        let job = &self.job;
        let fail = |error: std::io::Error| format!("could not write the rows of {job}: {error}");
        let path = folder.join("rows.jsonl");
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(format!("{job} is being worked on by another call")),
            Err(fs::TryLockError::Error(error)) => return Err(fail(error)),
        }
        // A row cut short by a crash must not swallow the next one.
        let length = file.seek(SeekFrom::End(0)).map_err(fail)?;
        if length > 0 {
            file.seek(SeekFrom::Start(length - 1)).map_err(fail)?;
            let mut last = [0u8; 1];
            file.read_exact(&mut last).map_err(fail)?;
            if last != *b"\n" {
                file.write_all(b"\n").map_err(fail)?;
            }
        }
        self.file = Some(file);
        Ok(())
    }

    /// Makes a job that was opened for reading ready for rows.
    pub(super) fn begin(&mut self, services: &dyn HostServices) -> Result<(), String> {
        match folder(services, &self.job) {
            Some(folder) if self.file.is_none() && self.is_durable => self.lock(&folder),
            _ => Ok(()),
        }
    }

    /// Writes a row, to the disk before it counts.
    pub(super) fn push(&mut self, row: Row) -> Result<(), String> {
        if let Some(file) = &mut self.file {
            let mut line = to_string(&row).map_err(|error| error.to_string())?;
            line.push('\n');
            let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
            written.map_err(|error| format!("could not write a row of {}: {error}", self.job))?;
        }
        self.rows.insert(row.index, row);
        Ok(())
    }

    /// The rows by their items.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }
    /// Counts the items that have an answer.
    pub(super) fn done(&self) -> usize {
        self.rows.values().filter(|row| row.error.is_none()).count()
    }
    /// The items that have no answer yet.
    pub(super) fn open_items(&self) -> Vec<usize> {
        let is_open = |index: &usize| self.rows.get(index).is_none_or(|row| row.error.is_some());
        (0..self.items.len()).filter(is_open).collect()
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let part = path.with_extension("part");
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(part, path)
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
