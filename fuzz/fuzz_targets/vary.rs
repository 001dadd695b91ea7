//! `checks/vary.rs`, driven by libFuzzer.

#![no_main]

#[path = "../checks/cache_head.rs"]
mod cache_head;
#[path = "../checks/vary.rs"]
mod vary;

libfuzzer_sys::fuzz_target!(|data: &[u8]| vary::check(data));
