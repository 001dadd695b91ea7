//! `checks/chunked_body.rs`, driven by libFuzzer.

#![no_main]

#[path = "../checks/chunked_body.rs"]
mod chunked_body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| chunked_body::check(data));
