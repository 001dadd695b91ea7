//! Tests of freshness.
