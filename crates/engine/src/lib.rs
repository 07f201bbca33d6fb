//! Command execution: the declarations of commands, the way a request takes through its slots' locks, sessions,
//! transactions, blocked clients, and the sinks that hear of changes.
//!
//! It has no sockets and no clock of its own: the server gives it bytes and the time, and takes replies away. So a test
//! drives it as the server does, and a script, a journal or a replica will enter by the same path.
//!
//! Where to look first: [`command`] says what a command is, [`context`] what its handler works with, [`execute`] how it
//! is run.

pub mod blocking;
pub mod clients;
pub mod clock;
pub mod command;
pub mod commands;
pub mod commit;
pub mod config;
pub mod context;
pub mod error;
pub mod execute;
pub mod expiry;
mod found_keys;
pub mod glob;
mod known_keys;
pub mod limits;
pub mod locks;
mod long_reply;
pub mod mailbox;
mod memory;
pub mod observe;
pub mod parking;
mod ready;
mod registrations;
pub mod reply;
pub mod section;
pub mod session;
pub mod settings;
pub mod shared;
pub mod side;
mod slot_set;
pub mod stats;
pub mod system_error;
pub mod worker;
