//! Integration tests of rdb in one binary. `fuzz` has a process of its own, for the reason in its
//! header.

mod beside_valkey;
#[path = "../../fuzz/collected.rs"]
mod collected;
mod files;
mod payloads;
