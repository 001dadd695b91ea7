//! `checks/response_head.rs`, driven by libFuzzer.

#![no_main]

#[path = "../checks/lenient.rs"]
mod lenient;
#[path = "../checks/response_head.rs"]
mod response_head;

libfuzzer_sys::fuzz_target!(|data: &[u8]| response_head::check(data));
