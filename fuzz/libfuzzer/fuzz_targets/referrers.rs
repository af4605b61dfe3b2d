//! libFuzzer on the target of this name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (tollgate_fuzz::target("referrers").run)(bytes));
