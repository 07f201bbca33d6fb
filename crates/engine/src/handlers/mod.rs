//! Handlers of commands on keys, a folder per family with the declarations beside them.
//!
//! May touch: access only. Shared state, workers and mailboxes cannot be named. To add a command: a
//! row in the family's `declarations.rs`, a handler, and the pair in `HANDLERS`. To add a family: a
//! folder with these, and a line in `execute/registry.rs`.

pub(crate) mod bitmap;
pub(crate) mod geo;
pub(crate) mod hash;
pub(crate) mod hyperloglog;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub(crate) mod stream;
pub(crate) mod string;
