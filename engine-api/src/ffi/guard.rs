//! Turns a panic into an error, with the place it came from.
//!
//! A panic that crosses the boundary would end the process. Each library has its own copy of the standard library,
//! so the hook installed here is private to it and keeps an engine's panic off the host's standard error.

use crate::error::{EngineError, ErrorKind};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, AssertUnwindSafe};

thread_local! {
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work`; a panic becomes an error that says where.
pub fn catch<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    install_hook();
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    match outcome {
        Ok(result) => result,
        Err(payload) => {
            let place = PLACE.with(|place| place.borrow_mut().take()).unwrap_or_default();
            Err(EngineError::new(
                ErrorKind::Panicked,
                format!("the engine panicked: {}{}", panic_message(payload), place),
            ))
        }
    }
}

/// Returns the text of a panic's payload and gets rid of the payload, whose own drop may panic.
pub fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        text.to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without text".to_string()
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        std::mem::forget(second);
    }
    message
}

fn install_hook() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let outer = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if DEPTH.with(Cell::get) == 0 {
                outer(info);
                return;
            }
            let place = info.location().map(|at| format!(" at {}:{}:{}", at.file(), at.line(), at.column()));
            PLACE.with(|slot| *slot.borrow_mut() = place);
        }));
    });
}
