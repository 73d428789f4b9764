//! Tests of the splice module.
