//! Tests of the answer module.
