//! Tests of vary.
