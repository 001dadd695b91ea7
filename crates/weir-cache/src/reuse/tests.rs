//! Tests of reuse.
