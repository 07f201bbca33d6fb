//! State of slots beside their keys: watchers, blocked clients, keys that clients keep copies of,
//! their last records, parked sessions, the token, and the mailboxes by which workers are woken.
//!
//! May touch: the store, declarations of commands, numbers of records. Below shared state, which
//! holds one of each.

pub mod mailbox;
pub mod parking;
pub(crate) mod ready;
pub mod records;
pub mod registry;
pub(crate) mod slot_set;
pub mod token;
pub mod tracked;
pub mod waiter;
