//! Command execution: the declarations of commands, the way a request takes through its slots'
//! locks, sessions, transactions, blocked clients, and the sinks of changes.
//!
//! It has no sockets and no clock of its own: the server gives it bytes and the time, and takes
//! replies away. So a test drives it as the server does, and a script, a journal or a replica will
//! enter by the same path.
//!
//! First steps: [`command`] says what a command is, [`context`] what its handler works
//! with, [`execute`] how it is run.

pub mod access;
pub mod acl;
mod admin;
pub mod blocking;
pub mod clock;
pub mod command;
pub mod commit;
pub mod config;
pub mod error;
pub mod execute;
pub mod expiry_clock;
pub mod glob;
mod handlers;
mod keys_walk;
pub mod limits;
mod long_reply;
mod memory;
pub mod migration;
pub mod pubsub;
pub mod reply;
pub mod saving;
pub mod script;
pub mod settings;
pub mod shared;
pub mod slots;
pub mod stored;
pub mod system_error;
mod tables;
pub mod telemetry;
pub mod use_stamp;
pub mod worker;

/// The version of Redis whose behaviour clients may expect.
pub const REDIS_VERSION: &str = "7.2.4";
