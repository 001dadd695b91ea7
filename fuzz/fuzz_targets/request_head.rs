//! `checks/request_head.rs`, driven by libFuzzer.

#![no_main]

#[path = "../checks/lenient.rs"]
mod lenient;
#[path = "../checks/request_head.rs"]
mod request_head;

libfuzzer_sys::fuzz_target!(|data: &[u8]| request_head::check(data));
