//! Tests of the route module.
