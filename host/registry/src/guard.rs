//! Keeps a conversation alive whatever its engine does: every call on a thread of the session's own, with a deadline.
//!
//! An in-process call that hangs cannot be ended. It is left behind with everything it borrows, its session is never
//! called again, and the caller goes on with an error.

use engine_api::ffi::catch;
use engine_api::{ContextEngine, EngineError, EngineSession, ErrorKind, HostServices, SessionStart};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Stack of an engine's thread; recursion over deep JSON fits, a runaway recursion ends soon.
const STACK_BYTES: usize = 8 * 1024 * 1024;
/// Panics after which a session's engine is not asked again.
pub const STRIKES_MAX: u32 = 2;

type Work = Box<dyn FnOnce(&mut Slot) + Send>;

/// The engine's session on its thread; it is opened at the first call and again after a panic.
struct Slot {
    session: Option<Box<dyn EngineSession>>,
}

/// An engine's session behind a thread and a deadline.
pub struct GuardedSession {
    engine: Arc<dyn ContextEngine>,
    start: SessionStart,
    work: Option<Sender<Work>>,
    strikes: u32,
}

impl GuardedSession {
    /// Prepares a session of an engine; nothing of the engine runs yet.
    pub fn new(engine: Arc<dyn ContextEngine>, start: SessionStart) -> Self {
        GuardedSession { engine, start, work: None, strikes: 0 }
    }

    /// Returns the panics and hangs so far.
    pub fn strikes(&self) -> u32 {
        self.strikes
    }

    /// Runs a call on the session's thread and waits for it, at most `deadline`.
    ///
    /// # Errors
    /// The call's own; [`ErrorKind::Panicked`] after a panic; [`ErrorKind::TimedOut`] after the deadline;
    /// [`ErrorKind::Unsupported`] once the session has failed too often.
    pub fn call<T, F>(
        &mut self,
        services: Arc<dyn HostServices + Send + Sync>,
        deadline: Duration,
        call: F,
    ) -> Result<T, EngineError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn EngineSession, &dyn HostServices) -> Result<T, EngineError> + Send + 'static,
    {
        if self.strikes >= STRIKES_MAX {
            return Err(EngineError::new(
                ErrorKind::Unsupported,
                format!("the engine failed {} times in this session and is not asked again", self.strikes),
            ));
        }
        let (answer, answered): (_, Receiver<Result<T, EngineError>>) = channel();
        let engine = Arc::clone(&self.engine);
        let start = self.start.clone();
        let work: Work = Box::new(move |slot| {
            let outcome = catch(|| {
                if slot.session.is_none() {
                    slot.session = Some(engine.open_session(services.as_ref(), &start)?);
                }
                match slot.session.as_deref_mut() {
                    Some(session) => call(session, services.as_ref()),
                    None => Err(EngineError::internal("the engine opened no session")),
                }
            });
            if outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::Panicked) {
                // What is left of a session after a panic is not to be trusted; its drop may panic, too.
                let broken = slot.session.take();
                let _ = catch(|| {
                    drop(broken);
                    Ok(())
                });
            }
            // The caller may have given up.
            let _ = answer.send(outcome);
        });
        self.sender()?.send(work).map_err(|_| {
            self.work = None;
            EngineError::new(ErrorKind::Panicked, "the engine's thread has ended")
        })?;
        let outcome = match answered.recv_timeout(deadline) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => {
                // The thread and all it borrows are left behind, and no call follows.
                self.work = None;
                self.strikes = STRIKES_MAX;
                return Err(EngineError::new(
                    ErrorKind::TimedOut,
                    format!("the engine did not answer within {} ms and was left behind", deadline.as_millis()),
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.work = None;
                Err(EngineError::new(ErrorKind::Panicked, "the engine's thread has ended"))
            }
        };
        if outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::Panicked) {
            self.strikes += 1;
        }
        outcome
    }

    fn sender(&mut self) -> Result<&Sender<Work>, EngineError> {
        if self.work.is_none() {
            let (sender, receiver) = channel::<Work>();
            std::thread::Builder::new()
                .name(format!("engine {}", self.engine.info().name))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let mut slot = Slot { session: None };
                    while let Ok(work) = receiver.recv() {
                        work(&mut slot);
                    }
                    // A session that panics while it is dropped ends here, too.
                    let _ = catch(|| {
                        drop(slot);
                        Ok(())
                    });
                })
                .map_err(|error| EngineError::internal(format!("could not start the engine's thread: {error}")))?;
            self.work = Some(sender);
        }
        self.work.as_ref().ok_or_else(|| EngineError::internal("the engine has no thread"))
    }
}

#[cfg(test)]
mod tests {
    //! Tests with engines that misbehave.
    use super::*;
    use engine_api::testing::FakeHost;
    use engine_api::{CompactionPlan, CompressRequest, Conversation, EngineInfo};

    struct Bad;
    struct BadSession {
        calls: u64,
    }
    impl ContextEngine for Bad {
        fn info(&self) -> EngineInfo {
            EngineInfo::new("bad", "0.1.0", "")
        }
        fn open_session(&self, _: &dyn HostServices, _: &SessionStart) -> Result<Box<dyn EngineSession>, EngineError> {
            Ok(Box::new(BadSession { calls: 0 }))
        }
    }
    impl EngineSession for BadSession {
        fn compress(
            &mut self,
            _: &dyn HostServices,
            _: &Conversation<'_>,
            _: &CompressRequest,
        ) -> Result<CompactionPlan, EngineError> {
            self.calls += 1;
            Ok(CompactionPlan::new(self.calls))
        }
    }

    fn session() -> GuardedSession {
        GuardedSession::new(Arc::new(Bad), SessionStart::default())
    }
    fn compress(session: &mut dyn EngineSession, services: &dyn HostServices) -> Result<u64, EngineError> {
        let table = engine_api::ViewTable::new(0, []);
        Ok(session.compress(services, &table.conversation(), &CompressRequest::default())?.base_revision)
    }
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_panic_is_an_error_and_the_session_starts_anew() {
        let host: Arc<dyn HostServices + Send + Sync> = Arc::new(FakeHost::default());
        let mut guarded = session();
        assert_eq!(guarded.call(Arc::clone(&host), LONG, compress).unwrap(), 1);
        assert_eq!(guarded.call(Arc::clone(&host), LONG, compress).unwrap(), 2);
        let error = guarded.call::<u64, _>(Arc::clone(&host), LONG, |_, _| panic!("boom")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Panicked);
        assert!(error.message.contains("boom") && error.message.contains("guard.rs"), "{}", error.message);
        assert_eq!(guarded.call(Arc::clone(&host), LONG, compress).unwrap(), 1);
    }

    #[test]
    fn two_panics_end_the_engine_for_the_session() {
        let host: Arc<dyn HostServices + Send + Sync> = Arc::new(FakeHost::default());
        let mut guarded = session();
        for _ in 0..STRIKES_MAX {
            let _ = guarded.call::<u64, _>(Arc::clone(&host), LONG, |_, _| panic!("boom"));
        }
        assert_eq!(guarded.call(host, LONG, compress).unwrap_err().kind, ErrorKind::Unsupported);
    }

    #[test]
    fn a_hanging_call_is_left_behind() {
        let host: Arc<dyn HostServices + Send + Sync> = Arc::new(FakeHost::default());
        let mut guarded = session();
        let (release, hold) = channel::<()>();
        let error = guarded
            .call::<u64, _>(Arc::clone(&host), Duration::from_millis(20), move |_, _| {
                let _ = hold.recv();
                Ok(0)
            })
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut);
        assert_eq!(guarded.call(host, LONG, compress).unwrap_err().kind, ErrorKind::Unsupported);
        drop(release);
    }
}
