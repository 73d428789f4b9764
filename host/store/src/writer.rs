//! The one thread that writes: what waits is written as a group, committed once, and answered after the commit.

use crate::bodies::Bodies;
use crate::error::{StoreError, while_doing};
use crate::recall::{Texts, Which};
use crate::store::{MESSAGES, Reader, searching};
use rusqlite::{Connection, TransactionBehavior};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Jobs that may wait; who comes later waits to be let in.
const QUEUE_MAX: usize = 256;
/// Jobs of one commit at most, so that nobody waits for long behind others.
const GROUP_MAX: usize = 64;
/// Messages outside of the index's segments before the writer makes one: reading so many takes a search some milliseconds.
pub const UNFILLED_MAX: u64 = host_search::FILL_FROM;
/// Messages that one step of that takes in; a writer that waits does so for one step at most.
const FILL_DOCS: usize = 4_096;
/// How long the writer is idle before it does so.
const IDLE: Duration = Duration::from_millis(200);
/// Commits after which it is done all the same, where the writer is never idle.
const HOUSEKEEPING_GROUPS: usize = 256;

type Work = dyn FnOnce(&Connection) -> Result<(), StoreError> + Send;

/// Something to write, and whom to tell that it is on disk, or why it is not.
struct Job {
    run: Box<Work>,
    done: SyncSender<Result<(), StoreError>>,
}

pub(crate) struct Writer {
    queue: Option<SyncSender<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(conn: Connection, reader: Arc<dyn Reader>, bodies: Bodies) -> Result<Writer, StoreError> {
        let (queue, jobs) = sync_channel::<Job>(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("palimpsest-store".to_owned())
            .spawn(move || work(conn, &jobs, &reader, &bodies))
            .map_err(|error| StoreError::Sql { doing: "starting the store's writer", why: error.to_string() })?;
        Ok(Writer { queue: Some(queue), thread: Mutex::new(Some(thread)) })
    }

    /// Runs a job in a transaction and returns when it is on disk.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, answered) = sync_channel(1);
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let run = move |conn: &Connection| {
            // A job's bug must not take the writer of all sessions with it.
            let made = catch_unwind(AssertUnwindSafe(|| job(conn)))
                .unwrap_or_else(|_| Err(StoreError::Sql { doing, why: "a fault in the program".to_owned() }))?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            Ok(())
        };
        let queue = self.queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(Job { run: Box::new(run), done }).map_err(|_| StoreError::Closed)?;
        answered.recv().map_err(|_| StoreError::Closed)??;
        let made = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        made.ok_or(StoreError::Closed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

fn work(mut conn: Connection, jobs: &Receiver<Job>, reader: &Arc<dyn Reader>, bodies: &Bodies) {
    let mut is_kept = false;
    let mut groups = 0usize;
    loop {
        let first = if is_kept {
            match jobs.recv() {
                Ok(job) => job,
                Err(_) => return,
            }
        } else {
            match jobs.recv_timeout(IDLE) {
                Ok(job) => job,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    is_kept = keep_house(&mut conn, reader, bodies);
                    continue;
                }
            }
        };
        is_kept = false;
        groups += 1;
        write_group(&mut conn, first, jobs);
        if groups >= HOUSEKEEPING_GROUPS {
            groups = 0;
            keep_house(&mut conn, reader, bodies);
        }
    }
}

fn write_group(conn: &mut Connection, first: Job, jobs: &Receiver<Job>) {
    let mut waiting = Vec::with_capacity(1);
    let problem = try_group(conn, first, jobs, &mut waiting).err();
    for done in waiting {
        // Who asked may have given up; the rows are there all the same.
        let _ = done.send(problem.clone().map_or(Ok(()), Err));
    }
}

/// Writes a group; whoever is to hear how its commit went is put into `waiting`.
fn try_group(
    conn: &mut Connection,
    first: Job,
    jobs: &Receiver<Job>,
    waiting: &mut Vec<SyncSender<Result<(), StoreError>>>,
) -> Result<(), StoreError> {
    let doing = while_doing("writing");
    let mut next = Some(first);
    let begun = conn.transaction_with_behavior(TransactionBehavior::Immediate);
    let mut tx = match begun {
        Ok(tx) => tx,
        Err(error) => {
            waiting.extend(next.map(|job| job.done));
            return Err(doing(error));
        }
    };
    for _ in 0..GROUP_MAX {
        let Some(job) = next.take().or_else(|| jobs.try_recv().ok()) else { break };
        let Job { run, done } = job;
        // A savepoint of its own: a job that fails takes back what it did and nothing else.
        let savepoint = match tx.savepoint() {
            Ok(savepoint) => savepoint,
            Err(error) => {
                waiting.push(done);
                return Err(doing(error));
            }
        };
        match run(&savepoint) {
            Ok(()) => {
                waiting.push(done);
                savepoint.commit().map_err(&doing)?;
            }
            Err(error) => {
                let _ = done.send(Err(error));
                savepoint.finish().map_err(&doing)?;
            }
        }
    }
    // Dropped without this, the transaction takes everything back.
    tx.commit().map_err(doing)
}

/// Trains the dictionary when there is enough to learn from, and takes some messages into the trigram index; returns
/// whether there is no more to do. Nothing is lost if it fails: messages are then larger, and searching scans.
fn keep_house(conn: &mut Connection, reader: &Arc<dyn Reader>, bodies: &Bodies) -> bool {
    let in_transaction = |conn: &mut Connection, work: &dyn Fn(&Connection) -> Result<bool, StoreError>| {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).ok()?;
        let more = work(&tx).ok()?;
        tx.commit().ok()?;
        Some(more)
    };
    if bodies.wants_training(conn).unwrap_or(false) {
        in_transaction(conn, &|conn| bodies.train(conn));
    }
    if MESSAGES.unfilled(conn).unwrap_or(0) < UNFILLED_MAX {
        return true;
    }
    let more = in_transaction(conn, &|conn| {
        let source = Texts::new(conn, reader.as_ref(), bodies, Which::Messages);
        Ok(MESSAGES.fill(conn, &source, FILL_DOCS).map_err(searching)? > 0)
    });
    !more.unwrap_or(false)
}
