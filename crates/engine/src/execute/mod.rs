//! Execution of requests.
//!
//! [`turn::run_turn`] takes a connection's bytes: it parses a batch, overlaps the cache misses of
//! its keys, and executes one request after the other. Each is admitted ([`admit`]), then run as
//! its declaration says: without a lock, under the lock of one slot, or under several ([`keyed`]);
//! in a transaction ([`transaction`]); or on the session. Writes to one key that follow each other
//! are carried out together ([`write_run`]). The writer of a key that somebody waits
//! for serves them before it releases ([`serve`]). Long replies are made in [`pieces`]. Notes
//! on commands are in [`measure`], lack of memory is in [`shortage`]; keys that expire unread are
//! swept away beside all that ([`sweep`]), and blocks in sparse pages are moved ([`defragment`]).
//! [`evict`] makes room in `maxmemory` before a command runs.

mod admit;
mod batch;
mod batch_prefetch;
mod brief;
mod credit;
mod defrag;
mod evict;
mod executor;
pub mod keyed;
mod look_ahead;
mod measure;
mod permission;
mod pieces;
mod registry;
mod script;
mod serve;
mod shortage;
mod sweep;
mod tracking;
pub mod transaction;
pub mod turn;
mod turn_result;
mod unit;
mod write_run;

pub use crate::admin::acl::authenticate_by_certificate;
pub use crate::admin::scripting::{
    restore as restore_functions, restore_sources as restore_libraries,
};
pub use batch::Batch;
pub use defrag::defragment;
pub use evict::relieve;
pub use look_ahead::{Ahead, LookAhead, Requests, prefetch};
pub use measure::note_unblocked;
#[cfg(test)]
pub(crate) use registry::handlers;
pub use registry::{commands, renamed_commands};
pub use script::run_orphans;
pub use serve::{delete_expired, end_session, end_wait, serve_postponed};
pub use sweep::sweep;
pub use tracking::limit_tracked;
pub use turn::run_turn;
pub use turn_result::{Next, Turn};
