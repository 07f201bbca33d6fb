//! Integration tests of the load generator in one binary: `cargo test -p tidemill-bench --test all
//! servers::` runs those of one module.
//!
//! `interrupt` has a process of its own, for the reason in its header.

#[path = "../common/mod.rs"]
mod common;

mod browser;
mod cluster;
mod options;
mod recovery;
mod servers;
mod tls;
