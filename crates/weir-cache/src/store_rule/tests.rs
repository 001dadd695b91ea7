//! Tests of store_rule.
