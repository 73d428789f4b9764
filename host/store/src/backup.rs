//! Copies of the whole store, made by SQLite itself while it is in use.

use crate::error::{StoreError, while_doing};
use crate::store::Store;
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;

/// Pages copied at a time: between them others may write.
const PAGES_AT_A_TIME: i32 = 2_000;
/// How long to wait between, and when the store is busy.
const PAUSE: Duration = Duration::from_millis(5);

impl Store {
    /// Copies the store to a new file. What is written meanwhile is in the copy or not, never half.
    ///
    /// # Errors
    /// [`StoreError::Open`] if the file exists or cannot be made, and those of reading.
    pub fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        if to.exists() {
            let why = "it exists already; a copy is made to a new file only".to_owned();
            return Err(StoreError::Open { path: to.to_owned(), why });
        }
        let mut copy =
            Connection::open(to).map_err(|error| StoreError::Open { path: to.to_owned(), why: error.to_string() })?;
        let from = crate::store::connect_to_read(&self.inner.path)?;
        let doing = while_doing("copying the store");
        let backup = rusqlite::backup::Backup::new(&from, &mut copy).map_err(&doing)?;
        backup.run_to_completion(PAGES_AT_A_TIME, PAUSE, None).map_err(doing)
    }
}
