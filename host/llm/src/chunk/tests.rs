//! Tests of the chunk module.
