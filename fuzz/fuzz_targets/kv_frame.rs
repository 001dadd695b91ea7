//! `checks/kv_frame.rs`, driven by libFuzzer.

#![no_main]

#[path = "../checks/kv_frame.rs"]
mod kv_frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| kv_frame::check(data));
