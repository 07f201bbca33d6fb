//! Access of a handler to keys: reads, edits, expiry, locks.
//!
//! May touch: workers, shared state, slots, telemetry. No mailbox and no gate is named here, and no
//! handler.

pub mod context;
pub(crate) mod draw;
pub(crate) mod expired_fields;
pub mod expiry;
pub(crate) mod found_keys;
pub mod handler;
pub(crate) mod help;
pub(crate) mod key_hashes;
pub(crate) mod key_wait;
pub mod locks;
pub(crate) mod options;
mod outbox;
pub mod outcome;
pub mod section;
pub mod session_context;
pub mod unit;
pub(crate) mod unwatch;
pub mod write_run;
