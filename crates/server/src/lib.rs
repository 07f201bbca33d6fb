//! The server around the engine: workers, sockets, options.
//!
//! One worker is one thread with one `epoll` loop, its own connections and RCU reader. Nothing on a
//! request's way crosses a thread; what must (a connection handed over, a blocked client served
//! elsewhere) goes through a mailbox.

pub mod allocator;
mod backlog;
mod balance;
pub mod check_aof;
pub mod check_rdb;
pub mod cli;
mod clock;
pub mod config;
mod connection;
mod connection_state;
mod durability;
mod end;
mod fairness;
mod first_load;
mod gather;
mod handover;
mod held_replies;
mod identity;
mod input;
mod limits;
mod listen;
mod listeners;
mod log;
mod metrics;
mod migration;
mod options;
pub mod output;
mod persistence;
mod process;
mod protected_mode;
mod readiness;
mod replay;
mod replay_errors;
mod resources;
mod start;
mod tls;
mod transport;
mod turn_time;
mod worker;
