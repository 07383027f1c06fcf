//! Feeds libFuzzer's bytes to `lockgate_fuzz::h2_client`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockgate_fuzz::h2_client(data));
