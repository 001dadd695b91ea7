//! Tests of negotiate.
