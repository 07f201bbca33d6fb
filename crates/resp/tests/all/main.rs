//! Integration tests of resp in one binary. `fuzz` has a process of its own, for the reason in its
//! header.

mod beside_valkey;
mod round_trip;
