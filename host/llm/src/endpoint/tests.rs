//! Tests of the endpoint module.
