//! Tests of range.
