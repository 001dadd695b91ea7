//! `checks/log.rs`, driven by libFuzzer.

#![no_main]

#[path = "../checks/log.rs"]
mod log;

libfuzzer_sys::fuzz_target!(|data: &[u8]| log::check(data));
