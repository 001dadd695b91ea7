//! Tests of stored_head.
