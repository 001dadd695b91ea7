//! `checks/range.rs`, driven by libFuzzer.

#![no_main]

#[path = "../checks/range.rs"]
mod range;

libfuzzer_sys::fuzz_target!(|data: &[u8]| range::check(data));
