//! The open store: a thread that writes, connections that read, and what both are set up with.

use crate::bodies::Bodies;
use crate::error::{BUSY_SECONDS, StoreError, while_doing};
use crate::lease::LEASE;
use crate::schema;
use crate::writer::Writer;
use engine_api::{Dialect, Message};
use host_search::Index;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Connections kept for reading; more are opened when more read at once, and closed after.
const READERS_KEPT: usize = 4;
/// Pages of the write-ahead log after which SQLite folds it into the file: 32 MB.
const CHECKPOINT_PAGES: u32 = 4_000;
/// Memory of a connection's page cache, in KiB (negative, as SQLite wants it).
const CACHE_KIB: i64 = -16_384;

/// The words of messages, and the words of summaries: apart, so that summaries never crowd messages out.
pub(crate) const MESSAGES: Index = Index::new("message");
pub(crate) const SUMMARIES: Index = Index::new("summary");

/// Reads messages of a dialect, which the store itself knows nothing of.
pub trait Reader: Send + Sync + 'static {
    /// Reads a message's JSON.
    fn message(&self, dialect: Dialect, raw: &str) -> Option<Message>;
    /// Returns what makes a message the same although its bytes differ: cache marks and white space do not count.
    fn identity(&self, raw: &str) -> u64;
    /// Returns the numbers of the summaries that a message holds, if the host wrote it.
    fn summaries(&self, message: &Message) -> Vec<u64> {
        let _ = message;
        Vec::new()
    }
}

/// A store. Clones share one writer.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) path: PathBuf,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) bodies: Bodies,
    /// None in a store that was opened only to read.
    writer: Option<Writer>,
    /// How long a lease lasts, in milliseconds.
    lease_ms: AtomicU64,
    idle: Mutex<Vec<Connection>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store, or makes it, readable by its owner only.
    ///
    /// # Errors
    /// [`StoreError::Open`], [`StoreError::Foreign`], [`StoreError::Newer`], [`StoreError::Damaged`], [`StoreError::ReadOnly`].
    pub fn open(path: &Path, reader: Arc<dyn Reader>) -> Result<Store, StoreError> {
        make_private(path)?;
        let mut conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::prepare(&mut conn, path, &|conn| {
            for index in [MESSAGES, SUMMARIES] {
                index.create(conn).map_err(searching)?;
            }
            Ok(())
        })?;
        let bodies = Bodies::default();
        let writer = Writer::start(conn, Arc::clone(&reader), bodies.clone())?;
        Ok(Store {
            inner: Arc::new(Inner {
                path: path.to_owned(),
                reader,
                bodies,
                writer: Some(writer),
                lease_ms: lease_ms(),
                idle: Mutex::default(),
            }),
        })
    }

    /// Opens a store to read it; nothing is ever written, also no newer schema.
    ///
    /// # Errors
    /// As [`Store::open`]; an empty or missing file is [`StoreError::Open`].
    pub fn open_to_read(path: &Path, reader: Arc<dyn Reader>) -> Result<Store, StoreError> {
        let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if schema::check(&conn, path)?.is_none() {
            return Err(StoreError::Open { path: path.to_owned(), why: "the file is empty".to_owned() });
        }
        let idle = Mutex::new(vec![conn]);
        let (path, bodies, lease_ms) = (path.to_owned(), Bodies::default(), lease_ms());
        Ok(Store { inner: Arc::new(Inner { path, reader, bodies, writer: None, lease_ms, idle }) })
    }

    /// Returns the store's file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Has leases that are taken or renewed from now on last this long, in place of [`LEASE`].
    pub fn set_lease_time(&self, lasts: Duration) {
        self.inner.lease_ms.store(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns when a lease that is taken now runs out, in milliseconds since 1970.
    pub(crate) fn lease_end_ms(&self) -> i64 {
        now_ms().saturating_add_unsigned(self.inner.lease_ms.load(Ordering::Relaxed))
    }

    /// Does something within one transaction, which is on disk when this returns.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        doing: &'static str,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.as_ref().ok_or(StoreError::ReadOnly(doing))?.run(doing, job)
    }

    /// Reads with a connection of its own, on one state of the store.
    pub(crate) fn read<T>(
        &self,
        doing: &'static str,
        job: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let kept = self.idle().pop();
        let conn = match kept {
            Some(conn) => conn,
            None => connect_to_read(&self.inner.path)?,
        };
        let tx = conn.unchecked_transaction().map_err(while_doing(doing))?;
        let done = job(&tx);
        // Nothing was written, so how it ends does not matter.
        let _ = tx.finish();
        let mut idle = self.idle();
        if idle.len() < READERS_KEPT {
            idle.push(conn);
        }
        done
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lease_ms() -> AtomicU64 {
    AtomicU64::new(u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX))
}

/// Makes the file, if there is none, before SQLite opens it: one that SQLite has open is never touched by other means,
/// since closing it would drop the locks of the whole process.
pub(crate) fn make_private(path: &Path) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::Open { path: path.to_owned(), why: error.to_string() };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)
        .map_err(|error| StoreError::Open { path: path.to_owned(), why: error.to_string() })?;
    let doing = while_doing("opening the store");
    conn.busy_timeout(Duration::from_secs(BUSY_SECONDS)).map_err(&doing)?;
    conn.pragma_update(None, "synchronous", "full").map_err(&doing)?;
    conn.pragma_update(None, "foreign_keys", true).map_err(&doing)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(&doing)?;
    conn.pragma_update(None, "cache_size", CACHE_KIB).map_err(&doing)?;
    // A mapped file that someone cuts short ends the process; a read of it gives an error.
    conn.pragma_update(None, "mmap_size", 0).map_err(&doing)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Opens a connection that only reads.
pub(crate) fn connect_to_read(path: &Path) -> Result<Connection, StoreError> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Opens a connection that writes beside the writer's.
pub(crate) fn connect_to_write(path: &Path) -> Result<Connection, StoreError> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Gives an error of the search the store's words.
pub(crate) fn searching(error: host_search::SearchError) -> StoreError {
    match error {
        host_search::SearchError::Sql(error) => while_doing("searching")(error),
        other => StoreError::Invalid(other.to_string()),
    }
}

/// Returns the wall clock, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
