//! An engine that ends the process it is tried in: while its library is opened, or when it is made.
//!
//! Which way it goes is written in the library as text, so that tests get all ways from one build by replacing it.

use engine_api::{
    ContextEngine, EngineError, EngineInfo, EngineSession, HostServices, Registrar, SessionStart, json::Value,
};
use std::hint::black_box;

engine_api::export_plugin!(name = "crash", register = crate::register);

/// The way: `aborts` when the engine is made, `starts` to abort when the library is opened, `leaves` to end the process
/// with success, `rename` to do no harm but call itself otherwise than the library does.
static WAY: [u8; 16] = *b"crash-way=aborts";

/// Tells whether the library goes this way; the text may have been replaced after the compiler saw it.
fn goes(way: &[u8]) -> bool {
    black_box(&WAY).ends_with(way)
}

/// Registers the engine.
pub fn register(registrar: &mut Registrar) {
    registrar.register_context_engine("crash", |_: &Value| make());
}

fn make() -> Result<Crash, EngineError> {
    if goes(b"rename") {
        return Ok(Crash);
    }
    if goes(b"leaves") {
        std::process::exit(0);
    }
    std::process::abort();
}

struct Crash;

impl ContextEngine for Crash {
    fn info(&self) -> EngineInfo {
        EngineInfo::new("somebody-else", env!("CARGO_PKG_VERSION"), "calls itself otherwise than its library does")
    }
    fn open_session(&self, _: &dyn HostServices, _: &SessionStart) -> Result<Box<dyn EngineSession>, EngineError> {
        Err(EngineError::unsupported("a session"))
    }
}

/// Runs when the library is opened, before anything of it is asked for.
#[allow(unsafe_code)]
mod initialiser {
    extern "C" fn start() {
        if super::goes(b"starts") {
            std::process::abort();
        }
    }

    // SAFETY: these sections hold pointers to functions without arguments, which the system's loader calls.
    #[used]
    #[cfg_attr(not(any(windows, target_vendor = "apple")), unsafe(link_section = ".init_array"))]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    #[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
    static START: extern "C" fn() = start;
}
