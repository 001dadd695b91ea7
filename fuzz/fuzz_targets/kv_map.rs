//! `checks/kv_map.rs`, driven by libFuzzer.

#![no_main]

#[path = "../checks/kv_map.rs"]
mod kv_map;

libfuzzer_sys::fuzz_target!(|data: &[u8]| kv_map::check(data));
