//! Tests of key.
