//! The store as commands use it: opened when it is needed, its sessions found by their ids.

use crate::error::CliError;
use crate::place::Place;
use crate::words::{counted, meant};
use host_runtime::WireReader;
use host_store::{SessionFilter, SessionRow, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the store in the home folder.
const FILE_NAME: &str = "sessions.db";
/// What is behind the store's name in that of the file which holds the last proof.
const PROOF_ENDING: &str = "-proof.json";
/// Sessions that a name is compared with.
const COMPARED_MAX: u64 = 2_000;
/// Names that a hint lists.
const NAMES_LISTED: usize = 5;

/// Returns the store's file: the one of the settings (from the home folder, where it is relative), or the usual one.
pub(crate) fn path(place: &Place) -> PathBuf {
    let stated = place.config.store.path.trim();
    if stated.is_empty() {
        return place.home.join(FILE_NAME);
    }
    match stated.strip_prefix("~/").zip(std::env::var_os("HOME")) {
        Some((rest, home)) => Path::new(&home).join(rest),
        None => place.home.join(stated),
    }
}

/// Opens the store to change it; one that is not there is made.
pub(crate) fn open(place: &Place) -> Result<Store, CliError> {
    Store::open(&path(place), Arc::new(WireReader)).map_err(failed)
}

/// Opens the store that is there to change it: where nothing was ever stored, none is made.
pub(crate) fn open_existing(place: &Place) -> Result<Store, CliError> {
    check_is_there(&path(place))?;
    open(place)
}

/// Opens the store to read it; nothing in it changes, and it may be read-only.
pub(crate) fn open_to_read(place: &Place) -> Result<Store, CliError> {
    let path = path(place);
    check_is_there(&path)?;
    Store::open_to_read(&path, Arc::new(WireReader)).map_err(failed)
}

/// Tells whether there is a store.
pub(crate) fn is_there(place: &Place) -> bool {
    path(place).exists()
}

fn check_is_there(path: &Path) -> Result<(), CliError> {
    if path.exists() {
        return Ok(());
    }
    Err(CliError::user(format!("there is no store at {} yet", path.display()))
        .hint("`palimpsest sessions import FILE` makes it and takes a conversation in"))
}

/// What proving a store last found; kept beside it, since proving changes nothing in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proof {
    pub(crate) at_ms: i64,
    pub(crate) deep: bool,
    pub(crate) problems: u64,
}

impl Proof {
    /// Reads what the last proof of a store found.
    pub(crate) fn last(store: &Path) -> Option<Proof> {
        serde_json::from_str(&std::fs::read_to_string(with_ending(store, PROOF_ENDING)).ok()?).ok()
    }

    /// Notes what a proof found; a folder that cannot be written to goes without.
    pub(crate) fn note(deep: bool, problems: u64, store: &Path) {
        let proof = Proof { at_ms: jiff::Timestamp::now().as_millisecond(), deep, problems };
        if let Ok(text) = serde_json::to_string(&proof) {
            let _ = crate::output::write(&with_ending(store, PROOF_ENDING), &text);
        }
    }
}

/// Returns the path of a file that lies beside the store.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Finds a session by its id, or by the beginning of its id where that names one only.
pub(crate) fn find(store: &Store, name: &str) -> Result<SessionRow, CliError> {
    if let Some(row) = store.find_session(name).map_err(failed)? {
        return Ok(row);
    }
    let filter = SessionFilter { limit: COMPARED_MAX, ..SessionFilter::default() };
    let (rows, total) = store.sessions(&filter).map_err(failed)?;
    let begins: Vec<&SessionRow> = rows.iter().filter(|row| !name.is_empty() && row.name.starts_with(name)).collect();
    if let [one] = begins.as_slice()
        && total <= rows.len() as u64
    {
        return Ok((*one).clone());
    }
    Err(unknown(name, &rows, total))
}

fn unknown(name: &str, rows: &[SessionRow], total: u64) -> CliError {
    let error = CliError::user(format!("the store has no session {name:?}"));
    if total == 0 {
        return error.cause("it has no session at all").hint("`palimpsest sessions import FILE` takes one in");
    }
    let lower = name.to_lowercase();
    let mut near: Vec<&str> = Vec::new();
    let alike = rows.iter().filter(|row| !lower.is_empty() && row.name.to_lowercase().contains(&lower));
    let titled = rows.iter().filter(|row| !lower.is_empty() && row.title.to_lowercase().contains(&lower));
    let names = alike.map(|row| row.name.as_str()).chain(meant(name, rows.iter().map(|row| row.name.as_str())));
    for one in names.chain(titled.map(|row| row.name.as_str())) {
        if near.len() < NAMES_LISTED && !near.contains(&one) {
            near.push(one);
        }
    }
    let all = "`palimpsest sessions list` shows all";
    if near.is_empty() {
        let newest: Vec<&str> = rows.iter().take(NAMES_LISTED).map(|row| row.name.as_str()).collect();
        return error
            .cause(format!("it has {}", counted(total, "session")))
            .hint(format!("the ones used last are {}; {all}", newest.join(", ")));
    }
    error.hint(format!("did you mean {}? {all}", near.join(", ")))
}

/// Turns an error of the store into what a person is told.
pub(crate) fn failed(error: StoreError) -> CliError {
    let hint = match &error {
        StoreError::Open { .. } => "`palimpsest doctor` checks the store; store.path names another file",
        StoreError::Busy { .. } => "another process holds the store; `palimpsest doctor` names the file",
        StoreError::Leased { .. } => "wait for it, or until its lease runs out",
        StoreError::ReadOnly(_) => "make the file and its folder writable for you; list, show and recall work as it is",
        StoreError::NothingToUndo(_) => "`palimpsest sessions receipts` shows the session's compactions",
        _ => "",
    };
    // What is wrong with the store's own program is told by its kind; all the rest is of the file or of what was asked for.
    match &error {
        StoreError::Closed => CliError::internal(error.to_string()),
        _ => CliError::user(error.to_string()).hint(hint),
    }
}
