//! Helpers of tests that several crates share: servers as child processes, Valkey to compare with,
//! and the surroundings of an engine. A development dependency only; nothing of the product may
//! name it.
//!
//! The surroundings need the feature `engine`, which depends on the engine, so that the tests of
//! the load generator are built without it. The unit tests of the engine and of the crates below it
//! cannot use them: within them `tidemill_engine::clock::Clock` is another trait than the one that
//! this crate implements, because the crate under test is compiled a second time. The few that need
//! a clock or a host (`access/context/tests.rs` of the engine) have small ones of their own. A
//! hidden public module, or a feature, of the engine was rejected: both would put parts of tests
//! into the product for the sake of some thirty lines.

pub mod server;
#[cfg(feature = "engine")]
pub mod surroundings;
pub mod valkey;
