//! Engines that are linked into the program, the built-in compressor first of all.
//!
//! A crate that links further engines registers them with [`register_context_engine!`](crate::register_context_engine).

use engine_api::json::Value;
use engine_api::{ContextEngine, EngineError};

/// An engine that is linked in.
pub struct LinkedEngine {
    /// The name that `context.engine` selects.
    pub name: &'static str,
    /// Makes it from the user's settings of it.
    pub make: fn(&Value) -> Result<Box<dyn ContextEngine>, EngineError>,
}

inventory::collect!(LinkedEngine);

/// Registers an engine that is linked into the program under a name.
#[macro_export]
macro_rules! register_context_engine {
    ($name:literal, $make:path) => {
        $crate::inventory::submit! {
            $crate::LinkedEngine { name: $name, make: |settings| Ok(Box::new($make(settings)?)) }
        }
    };
}

/// Makes the built-in compressor.
pub fn built_in(settings: &Value) -> Result<Box<dyn ContextEngine>, EngineError> {
    Ok(Box::new(engine_compressor::new(settings)?))
}

/// Returns the engines that are linked in beside the built-in one, by name.
pub fn linked() -> Vec<&'static LinkedEngine> {
    let mut engines: Vec<&LinkedEngine> = inventory::iter::<LinkedEngine>().collect();
    // The linker's order is nobody's choice.
    engines.sort_by_key(|engine| engine.name);
    engines.dedup_by_key(|engine| engine.name);
    engines
}
