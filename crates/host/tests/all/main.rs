//! Integration tests of host in one binary. `tune` has a process of its own, for the reason in its
//! header.

mod captured_machines;
mod documents;
