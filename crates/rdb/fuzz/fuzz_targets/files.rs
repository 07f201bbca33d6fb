#![no_main]
//! Any bytes: see checks.rs.

#[path = "../checks.rs"]
mod checks;
#[path = "../collected.rs"]
mod collected;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::files(data));
